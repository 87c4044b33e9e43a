//! `softdiff doctor --ranks`: whether the processes that a launcher started can train together, and how fast they talk.

use crate::diagnostics::{Failure, Outcome};
use serde_json::json;
use softdiff::engine::Device;
use softdiff::engine::ranks::{Communicator, Reduce};
use softdiff::ranks::{Launch, RankGroup};
use softdiff::run::StopRequest;
use std::time::Instant;

/// Values of a sum: a few, and as many as networks of one and 16 million weights have.
const SIZES: [usize; 3] = [1, 1 << 20, 1 << 24];
const REPEATS: u32 = 5;

/// Bytes of what a rank computes on, in words.
const WORDS: usize = 256;

/// What was measured.
struct Sums {
    /// Seconds by each of [`SIZES`], between the hosts.
    hosts: Vec<f64>,
    /// The same between the GPUs, where the ranks have them.
    gpus: Option<Vec<f64>>,
    /// What each rank computes on.
    devices: Vec<String>,
}

/// Joins the other ranks, adds numbers with them, and lets rank 0 say how long that took.
pub fn check(device: &str, json: bool, stop: &StopRequest) -> Outcome {
    let Some(launch) = Launch::from_env() else {
        let failure = Failure::new("this process was started alone: no launcher's variables are set");
        return Err(failure.hint("mpirun -n 2 softdiff doctor --ranks"));
    };
    let device = launch.open_device(device)?;
    let group = RankGroup::join(launch, &device, Reduce::Fast, stop)?;
    match group.ranks.others().map(|others| measure_all(others, &group, &device)) {
        Some(Ok(sums)) if group.ranks.is_first() => say(&launch, &group, &sums, json),
        Some(Err(error)) => {
            group.fail(&error.to_string(), true);
            return Err(error.into());
        }
        _ => {}
    }
    group.finish();
    Ok(())
}

fn measure_all(others: &dyn Communicator, group: &RankGroup, device: &Device) -> softdiff::engine::Result<Sums> {
    let own = match device {
        Device::Cpu => device.to_string(),
        Device::Cuda(session) => format!("{} {}", session.device.name, session.device.uuid()?),
    };
    let mut words = own.into_bytes();
    words.resize(WORDS, 0);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    let devices = others.gather(&words)?.chunks_exact(WORDS).map(text).collect();
    let hosts = measure(others)?;
    let on_gpus = |size: &usize| {
        // The first sum makes the connections.
        let times = (0..=REPEATS).map(|_| group.gpu().map_or(Ok(0.0), |gpu| gpu.time_sum(*size)));
        times.skip(1).try_fold(f64::INFINITY, |least, time| time.map(|time| time.min(least)))
    };
    let gpus = group.gpu().map(|_| SIZES.iter().map(on_gpus).collect::<softdiff::engine::Result<Vec<f64>>>());
    Ok(Sums { hosts, gpus: gpus.transpose()?, devices })
}

/// Seconds of a sum for each of [`SIZES`], the fastest of a few.
fn measure(others: &dyn Communicator) -> softdiff::engine::Result<Vec<f64>> {
    let mut sums = Vec::new();
    for size in SIZES {
        let mut fastest = f64::INFINITY;
        for repeat in 0..REPEATS {
            let mut values = vec![(others.rank() + 1) as f32; size];
            others.gather(&[0])?;
            let begun = Instant::now();
            others.sum(&mut values)?;
            fastest = fastest.min(begun.elapsed().as_secs_f64());
            let right = (others.size() * (others.size() + 1) / 2) as f32;
            if values.iter().any(|value| *value != right) {
                let problem = format!("added {} to {right} in sum {repeat} of {size} values", values[0]);
                return Err(softdiff::engine::Error::Rank { rank: Some(others.rank()), problem });
            }
        }
        sums.push(fastest);
    }
    Ok(sums)
}

fn say(launch: &Launch, group: &RankGroup, sums: &Sums, json: bool) {
    let nccl = group.gpu().map(|gpu| gpu.version().to_owned());
    if json {
        let of = |seconds: &[f64]| -> Vec<_> {
            SIZES.iter().zip(seconds).map(|(size, seconds)| json!({ "values": size, "seconds": seconds })).collect()
        };
        let ranks = json!({
            "launcher": launch.launcher.to_string(), "library": group.library(), "hosts": group.hosts(),
            "devices": sums.devices, "nccl": nccl, "sums": of(&sums.hosts), "gpu_sums": sums.gpus.as_deref().map(of),
        });
        println!("{}", json!({ "ranks": ranks }));
        return;
    }
    println!("launcher  {}", launch.launcher);
    println!("library   {}", group.library());
    if let Some(nccl) = nccl {
        println!("NCCL      {nccl}");
    }
    for (rank, (host, device)) in group.hosts().iter().zip(&sums.devices).enumerate() {
        println!("rank {rank:<4} {host}: {device}");
    }
    let print = |name: &str, seconds: &[f64]| {
        for (size, seconds) in SIZES.iter().zip(seconds) {
            // Every rank sends and receives the values about once each way.
            let rate = 8.0 * *size as f64 / seconds * 1e-9;
            println!("{name:<9} {size:>8} values in {:>9.3} ms, {rate:.2} GB/s", seconds * 1e3);
        }
    };
    print("sum", &sums.hosts);
    if let Some(gpus) = &sums.gpus {
        print("on GPUs", gpus);
    }
}
