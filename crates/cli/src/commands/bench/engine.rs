//! `softdiff bench engine`: forward + backward + Adam of a U-Net on the CPU.

use super::peer::Peer;
use crate::commands::steps::steps;
use crate::diagnostics::{Failure, Outcome};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use softdiff::engine::cpu::{CpuExecutor, NodeTime, isa};
use softdiff::engine::optim::{Adam, AdamConfig};
use softdiff::engine::rng::Stream;
use softdiff::engine::{Graph, Params, Plan, Var};
use softdiff::network::{UNetConfig, unet};
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLE: &str = "\
Example: two threads, side by side with PyTorch on the same threads, and where the time goes.
  softdiff bench engine --threads 2 --against torch
  softdiff bench engine --network attention --profile";

/// Time one training step (forward, backward, Adam) of a U-Net on the CPU, in f32.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Engine {
    /// Which network to time; both by default.
    #[arg(long, value_enum)]
    network: Option<BenchNetwork>,
    /// Images per step.
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Threads to use; all cores by default.
    #[arg(long)]
    threads: Option<usize>,
    /// Timed steps; the median counts.
    #[arg(long, default_value_t = 10, value_parser = steps())]
    steps: usize,
    /// Run the same network in this peer too, taking turns.
    #[arg(long, value_enum)]
    against: Option<Against>,
    /// The Python that has the peer.
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    python: PathBuf,
    /// Show the time of each kind of operation and of the slowest nodes.
    #[arg(long)]
    profile: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum BenchNetwork {
    /// 32 channels, multipliers 1, 2, 2, one block, no attention, 32x32 grey.
    Small,
    /// 64 channels, multipliers 1, 2, 2, one block, attention at 16x16, 32x32 colour.
    Attention,
}

#[derive(Clone, Copy, ValueEnum)]
enum Against {
    /// PyTorch, in the faster of its two memory layouts.
    Torch,
}

impl BenchNetwork {
    fn name(self) -> &'static str {
        match self {
            BenchNetwork::Small => "small",
            BenchNetwork::Attention => "attention",
        }
    }

    fn config(self) -> UNetConfig {
        match self {
            BenchNetwork::Small => UNetConfig::small(32, 1, 32, &[1, 2, 2]),
            BenchNetwork::Attention => {
                UNetConfig { attention: vec![16], middle_attention: true, ..UNetConfig::small(32, 3, 64, &[1, 2, 2]) }
            }
        }
    }
}

/// A network ready to train on fixed inputs.
struct RegressionStep {
    run: CpuExecutor<f32>,
    params: Params<f32>,
    adam: Adam<f32>,
    loss: Var,
    gradients: Vec<Var>,
}

impl RegressionStep {
    fn new(config: &UNetConfig, batch: usize) -> Result<Self, Failure> {
        config.check()?;
        let (size, channels) = (config.image_size, config.image_channels);
        let mut g = Graph::new();
        let x = g.input("x", [batch, size, size, channels])?;
        let t = g.input("t", [batch])?;
        let target = g.input("target", [batch, size, size, channels])?;
        let net = unet(&mut g, config, x, t, true)?;
        let difference = g.sub(net.output, target)?;
        let squares = g.sum_squares(difference)?;
        let loss = g.scale(squares, 0.5 / batch as f64)?;
        let gradients = g.parameter_gradients(loss)?;
        let mut outputs = gradients.clone();
        outputs.push(loss);
        let mut run = CpuExecutor::new(Plan::new(&g, &outputs)?);
        let n = batch * size * size * channels;
        run.set_f64("x", &(0..n).map(|i| 0.5 + 0.5 * (i as f64).sin()).collect::<Vec<_>>())?;
        run.set_f64("target", &(0..n).map(|i| (i as f64).cos()).collect::<Vec<_>>())?;
        run.set_f64("t", &(0..batch).map(|i| i as f64 * 999.0 / batch as f64).collect::<Vec<_>>())?;
        let mut params = Params::initialise(&g, 0);
        // The layers that begin at zero would hide the rest of the network from the comparison of losses.
        for (index, values) in params.trainable_mut().enumerate() {
            let stream = Stream { seed: 0, purpose: 1, step: index as u32 };
            values.iter_mut().enumerate().for_each(|(i, v)| *v += 0.05 * stream.normal(i as u64));
        }
        let config = AdamConfig { warmup: 0, clip: None, ema: vec![], ..AdamConfig::default() };
        let adam = Adam::new(config, &params);
        Ok(RegressionStep { run, params, adam, loss, gradients })
    }

    fn loss(&mut self) -> Result<f64, Failure> {
        self.run.run(&self.params, 0, 0)?;
        Ok(f64::from(self.run.scalar(self.loss)?))
    }

    /// One training step; gives its seconds.
    fn step(&mut self) -> Result<f64, Failure> {
        let begin = Instant::now();
        self.run.run(&self.params, 0, 0)?;
        let gradients = self.gradients.iter().map(|&v| self.run.get(v)).collect::<Result<Vec<_>, _>>()?;
        self.adam.update(&mut self.params, &gradients)?;
        Ok(begin.elapsed().as_secs_f64())
    }
}

impl Engine {
    pub fn run(self, json: bool) -> Outcome {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = self.threads.unwrap_or(cores);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        let networks = self.network.map_or(vec![BenchNetwork::Small, BenchNetwork::Attention], |n| vec![n]);
        let peak = pool.install(matrix_peak)?;
        if !json {
            println!("{threads} threads, {:?}; matrix products reach {:.0} GFLOP/s", isa(), peak * 1e-9);
        }
        let results =
            networks.into_iter().map(|n| self.bench(n, threads, peak, &pool, json)).collect::<Result<Vec<_>, _>>()?;
        if json {
            println!(
                "{}",
                json!({ "threads": threads, "isa": format!("{:?}", isa()), "matrix_flops": peak, "networks": results })
            );
        }
        Ok(())
    }

    fn bench(
        &self,
        network: BenchNetwork,
        threads: usize,
        peak: f64,
        pool: &rayon::ThreadPool,
        json: bool,
    ) -> Result<Value, Failure> {
        let config = network.config();
        let mut ours = RegressionStep::new(&config, self.batch)?;
        let flops = ours.run.plan().flops() as f64;
        let mut peer = match self.against {
            Some(Against::Torch) => Some(self.start_torch(&config, &ours.params, threads)?),
            None => None,
        };
        let loss = pool.install(|| ours.loss())?;
        if let Some((peer, _)) = &mut peer {
            let theirs = peer.ask(&json!({ "do": "loss" }))?["loss"].as_f64().unwrap_or(f64::NAN);
            // A NaN must fail too.
            if (theirs - loss).abs().partial_cmp(&(1e-3 * loss.abs())) != Some(std::cmp::Ordering::Less) {
                return Err(Failure::new(format!("the peer computes another loss: {theirs}, ours is {loss}")));
            }
        }
        let (mut seconds, mut peer_seconds) = (Vec::new(), Vec::new());
        pool.install(|| ours.step())?;
        for _ in 0..self.steps.max(1) {
            seconds.push(pool.install(|| ours.step())?);
            if let Some((peer, _)) = &mut peer {
                peer_seconds.push(peer.ask(&json!({ "do": "step" }))?["seconds"].as_f64().unwrap_or(f64::NAN));
            }
        }
        let step = median(&mut seconds);
        let mut result = json!({
            "network": network.name(), "batch": self.batch, "parameters": ours.params.numel(), "seconds": step,
            "flops": flops, "fraction_of_matrix_peak": flops / step / peak,
            "planned_bytes": ours.run.plan().arena_elements() * 4, "unshared_bytes": ours.run.plan().unshared_elements() * 4,
        });
        if !json {
            let (name, rate) = (network.name(), flops / step * 1e-9);
            println!("\n{name}: {:.2} M parameters, batch {}", ours.params.numel() as f64 * 1e-6, self.batch);
            println!(
                "  softdiff  {:8.1} ms/step  {rate:6.1} GFLOP/s  {:.0} % of the matrix peak",
                step * 1e3,
                100.0 * flops / step / peak
            );
        }
        if let Some((_, greeting)) = &peer {
            let theirs = median(&mut peer_seconds);
            let version = greeting["version"].as_str().unwrap_or("?");
            let layout = greeting["layout"].as_str().unwrap_or("?");
            result["torch"] =
                json!({ "seconds": theirs, "version": version, "layout": layout, "ratio": theirs / step });
            if !json {
                println!(
                    "  torch     {:8.1} ms/step  {:6.1} GFLOP/s  (PyTorch {version}, {layout})",
                    theirs * 1e3,
                    flops / theirs * 1e-9
                );
                println!("  softdiff is {:.2} times as fast", theirs / step);
            }
        }
        if !json {
            println!("{}", indent(&ours.run.plan().to_string()));
        }
        if self.profile {
            let times = pool.install(|| ours.run.run_timed(&ours.params, 0, 0))?;
            result["profile"] = profile(&times, json);
        }
        Ok(result)
    }

    /// Starts the PyTorch peer with our weights.
    fn start_torch(&self, config: &UNetConfig, params: &Params<f32>, threads: usize) -> Result<(Peer, Value), Failure> {
        const SCRIPT: &str = include_str!("../../../../../benches/peers/unet_torch.py");
        let weights = std::env::temp_dir().join(format!("softdiff-bench-{}.safetensors", std::process::id()));
        params.save(&weights, &[])?;
        let numbers = [self.batch.to_string(), threads.to_string()];
        let arguments = [serde_json::to_string(config)?, weights.display().to_string()].into_iter().chain(numbers);
        let started = Peer::start(&self.python, SCRIPT, &arguments.collect::<Vec<_>>(), threads, "torch numpy");
        let _ = std::fs::remove_file(&weights);
        started
    }
}

/// Floating-point operations per second of a 1536-cubed product through the engine.
fn matrix_peak() -> Result<f64, Failure> {
    const SIDE: usize = 1536;
    let mut g = Graph::new();
    let a = g.input("a", [SIDE, SIDE])?;
    let b = g.input("b", [SIDE, SIDE])?;
    let c = g.matmul(a, b, [false, false])?;
    let mut run = CpuExecutor::<f32>::new(Plan::new(&g, &[c])?);
    let values: Vec<f32> = (0..SIDE * SIDE).map(|i| (i as f32).sin()).collect();
    run.set("a", &values)?;
    run.set("b", &values)?;
    let params = Params::zeros(&g);
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let begin = Instant::now();
        run.run(&params, 0, 0)?;
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Ok(2.0 * (SIDE as f64).powi(3) / best)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// Time by kind of operation, then the slowest single nodes.
pub(super) fn profile(times: &[NodeTime], json: bool) -> Value {
    let mut kinds: Vec<(&str, f64, u64, usize)> = Vec::new();
    for node in times {
        let seconds = node.time.as_secs_f64();
        match kinds.iter_mut().find(|k| k.0 == node.operation) {
            Some(kind) => (kind.1, kind.2, kind.3) = (kind.1 + seconds, kind.2 + node.flops, kind.3 + 1),
            None => kinds.push((node.operation, seconds, node.flops, 1)),
        }
    }
    kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut slowest: Vec<&NodeTime> = times.iter().collect();
    slowest.sort_by_key(|node| std::cmp::Reverse(node.time));
    if !json {
        println!("  {:<28} {:>6} {:>9} {:>9}", "operation", "count", "ms", "GFLOP/s");
        for (name, seconds, flops, count) in &kinds {
            println!("  {name:<28} {count:>6} {:>9.2} {:>9.1}", seconds * 1e3, *flops as f64 / seconds * 1e-9);
        }
        for node in slowest.iter().take(12) {
            let seconds = node.time.as_secs_f64();
            println!(
                "  {:<28} {:>16.2} {:>9.1}  {}",
                node.operation,
                seconds * 1e3,
                node.flops as f64 / seconds * 1e-9,
                node.scope
            );
        }
    }
    let kinds = kinds.iter().map(|(name, seconds, flops, count)| json!({ "operation": name, "seconds": seconds, "flops": flops, "count": count }));
    let nodes = times.iter().map(|node| json!({ "operation": node.operation, "scope": node.scope, "shape": node.shape, "seconds": node.time.as_secs_f64(), "flops": node.flops, "bytes": node.bytes }));
    json!({ "kinds": kinds.collect::<Vec<_>>(), "nodes": nodes.collect::<Vec<_>>() })
}
