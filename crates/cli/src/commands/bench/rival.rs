//! Others' software on the same GPU, doing the same work, in the same call.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Which peers to run, and how.
#[derive(Args)]
pub struct RivalFlags {
    /// Run the same network in these peers too, on the same GPU, one after the other.
    #[arg(long, value_enum, value_delimiter = ',')]
    against: Vec<Rival>,
    /// The Python that has the peers.
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    python: PathBuf,
    /// Seconds a peer may take, compilation included.
    #[arg(long, default_value_t = 600)]
    patience: u64,
}

/// A peer.
#[derive(Clone, Copy, ValueEnum, PartialEq)]
pub enum Rival {
    /// PyTorch: torch.compile, the whole step as one CUDA graph.
    Torch,
    /// JAX: one jitted step.
    Jax,
}

impl Rival {
    fn name(self) -> &'static str {
        match self {
            Rival::Torch => "torch",
            Rival::Jax => "jax",
        }
    }

    fn script(self) -> String {
        let shared = include_str!("../../../../../benches/peers/ncsnpp.py");
        let own = match self {
            Rival::Torch => include_str!("../../../../../benches/peers/ncsnpp_torch.py"),
            Rival::Jax => include_str!("../../../../../benches/peers/ncsnpp_jax.py"),
        };
        format!("{shared}\n{own}")
    }
}

/// What is to be timed: `step` or `evaluate`, of an NCSN++.
pub struct TimedTask {
    /// `step` or `evaluate`.
    pub task: &'static str,
    /// Side of the images.
    pub size: usize,
    /// Images.
    pub batch: usize,
    /// Timed runs.
    pub steps: usize,
    /// Features of the first level.
    pub channels: usize,
    /// Blocks per level.
    pub blocks: usize,
}

impl RivalFlags {
    /// Runs every peer; a peer that fails is reported as such and does not end the others.
    pub fn run(&self, work: &TimedTask) -> Vec<Value> {
        let measure = |&rival: &Rival| {
            eprintln!("{} compiles and runs; this takes minutes", rival.name());
            let mut facts = self.one(rival, work).unwrap_or_else(|problem| json!({ "error": problem }));
            facts["name"] = rival.name().into();
            facts
        };
        self.against.iter().map(measure).collect()
    }

    fn one(&self, rival: Rival, work: &TimedTask) -> Result<Value, String> {
        let sizes = [work.size, work.batch, work.steps, work.channels, work.blocks];
        let mut command = Command::new(&self.python);
        command.arg("-c").arg(rival.script()).arg(work.task).args(sizes.map(|n| n.to_string()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|e| format!("{} could not be started: {e}; give --python PROGRAM", self.python.display()))?;
        // Both pipes are emptied while it runs, so that it never waits for us.
        let drain = |pipe: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                if let Some(mut pipe) = pipe {
                    let _ = pipe.read_to_end(&mut text);
                }
                String::from_utf8_lossy(&text).into_owned()
            })
        };
        let said = drain(child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
        let complained = drain(child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
        let end = Instant::now() + Duration::from_secs(self.patience);
        while child.try_wait().map_err(|e| e.to_string())?.is_none() {
            if Instant::now() > end {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no result within {} s (--patience)", self.patience));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let (said, complained) = (said.join().unwrap_or_default(), complained.join().unwrap_or_default());
        let answer = said.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
        let last = || complained.trim().lines().last().unwrap_or("it said nothing").to_string();
        answer.filter(|a| a["milliseconds"].is_number()).ok_or_else(last)
    }
}

/// The fewest milliseconds that the arithmetic and the memory traffic allow.
pub struct Floor {
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes of every operation's inputs and outputs.
    pub bytes: f64,
    /// What a large matrix product reaches, per second.
    pub peak_flops: f64,
    /// What a large copy reaches, in bytes read and written per second.
    pub peak_bytes: f64,
}

impl Floor {
    /// Milliseconds of arithmetic alone.
    pub fn milliseconds(&self) -> f64 {
        self.flops / self.peak_flops * 1e3
    }
    pub fn facts(&self) -> Value {
        json!({
            "flops": self.flops, "bytes": self.bytes, "measured_flops_per_second": self.peak_flops,
            "measured_bytes_per_second": self.peak_bytes, "milliseconds": self.milliseconds(),
        })
    }
}

/// A table of ours and theirs.
pub fn table(ours: &Value, rivals: &[Value], floor: &Floor) {
    let number = |facts: &Value, key: &str| facts[key].as_f64().unwrap_or(f64::NAN);
    let mine = number(ours, "milliseconds");
    println!("{:<10} {:>10} {:>8} {:>12} {:>10}", "", "ms", "ratio", "ready after", "memory");
    let row = |name: &str, facts: &Value, bytes: &str| {
        let (ms, ready) = (number(facts, "milliseconds"), number(facts, "seconds_to_steady"));
        let gib = number(facts, bytes) / (1u64 << 30) as f64;
        println!("{name:<10} {ms:>10.2} {:>8.2} {:>10.1} s {gib:>6.2} GiB", ms / mine, ready);
    };
    row("softdiff", ours, "used_bytes");
    for rival in rivals {
        let name = rival["name"].as_str().unwrap_or("peer");
        match rival["error"].as_str() {
            Some(error) => println!("{name:<10} failed: {error}"),
            None => row(name, rival, "peak_bytes"),
        }
    }
    println!(
        "floor      {:>10.2} {:>8.2}  {:.2} TFLOP at the {:.0} TFLOP/s of a large product",
        floor.milliseconds(),
        floor.milliseconds() / mine,
        floor.flops * 1e-12,
        floor.peak_flops * 1e-12
    );
    println!(
        "           the operations touch {:.1} GB, {:.2} ms at the {:.0} GB/s of a large copy",
        floor.bytes * 1e-9,
        floor.bytes / floor.peak_bytes * 1e3,
        floor.peak_bytes * 1e-9
    );
}
