//! `softdiff doctor --ranks`: whether the processes that `mpirun` or `srun` started can train together, and how fast they talk.

use crate::diagnostics::{Failure, Outcome};
use serde_json::json;
use softdiff::engine::ranks::{Communicator, Reduce};
use softdiff::ranks::{Launch, RankGroup};
use softdiff::run::StopRequest;
use std::time::Instant;

/// Values of a sum: a few, and as many as networks of one and 16 million weights have.
const SIZES: [usize; 3] = [1, 1 << 20, 1 << 24];
const REPEATS: u32 = 5;

/// Joins the other ranks, adds numbers with them, and lets rank 0 say how long that took.
pub fn check(json: bool, stop: &StopRequest) -> Outcome {
    let Some(launch) = Launch::from_env() else {
        let failure = Failure::new("this process was started alone: no launcher's variables are set");
        return Err(failure.hint("mpirun -n 2 softdiff doctor --ranks"));
    };
    let group = RankGroup::join(launch, Reduce::Fast, stop)?;
    match group.ranks.others().map(measure) {
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

fn say(launch: &Launch, group: &RankGroup, sums: &[f64], json: bool) {
    if json {
        let sums: Vec<_> =
            SIZES.iter().zip(sums).map(|(size, seconds)| json!({ "values": size, "seconds": seconds })).collect();
        let ranks = json!({
            "launcher": launch.launcher.to_string(), "library": group.library(), "hosts": group.hosts(), "sums": sums,
        });
        println!("{}", json!({ "ranks": ranks }));
        return;
    }
    println!("launcher  {}", launch.launcher);
    println!("library   {}", group.library());
    for (rank, host) in group.hosts().iter().enumerate() {
        println!("rank {rank:<4} {host}");
    }
    for (size, seconds) in SIZES.iter().zip(sums) {
        // Every rank sends and receives the values about once each way.
        let rate = 8.0 * *size as f64 / seconds * 1e-9;
        println!("sum       {size:>8} values in {:>9.3} ms, {rate:.2} GB/s", seconds * 1e3);
    }
}
