//! `softdiff bench transport`: Sinkhorn against POT and OTT.
//!
//! All solve the same cost matrices to the same tolerance, in turns, in one run on the same cores. The peers' compilation
//! and imports are not counted, nor is the making of the costs.

use super::peer::Peer;
use crate::atomic_file::save;
use crate::diagnostics::{Failure, Outcome};
use clap::Args;
use serde::Deserialize;
use softdiff::corruption::{Blur, Boundary, Corruption};
use softdiff::engine::rng::RandomStream;
use softdiff::image::to_unit;
use softdiff::linalg::Matrix;
use softdiff::transport::{SinkhornOptions, sinkhorn, squared_distances};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The peers' side of the bench.
const SCRIPT: &str = include_str!("../../../../../benches/peers/transport.py");
const MAX_ITERATIONS: usize = 100_000;
/// Errors beyond this many tolerances are failures; POT stops by the L2 norm, up to sqrt(n) below the L1 norm.
const FAILED_FROM: f64 = 32.0;
/// Blur levels of the two clouds when images are given.
const LEVELS: [f64; 2] = [0.01, 2.0];

/// Sinkhorn against POT and OTT, on the same costs, alternating.
///
/// Prints seconds, iterations and the L1 error of the marginals of each, and how many times faster softdiff is.
#[derive(Args)]
#[command(after_help = "\
Example: with POT and OTT in a virtual environment

    python3 -m venv peers && peers/bin/pip install POT ott-jax
    softdiff bench transport --against pot,ott --python peers/bin/python3")]
pub struct TransportArguments {
    /// Peers: pot (log domain), ott, pot-kernel, pot-stabilized.
    #[arg(long, value_delimiter = ',', default_value = "pot,ott")]
    against: Vec<String>,
    /// Points in each cloud.
    #[arg(long, default_value_t = 256)]
    points: usize,
    /// Entropies as parts of the mean cost; OTT's default is about 0.025.
    #[arg(long, value_delimiter = ',', default_value = "0.025,0.05,0.1")]
    entropy: Vec<f64>,
    /// L1 error of the marginals at which to stop (POT: L2, which asks for less).
    #[arg(long, default_value_t = 1e-9)]
    tolerance: f64,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Threads for everyone; all cores unless given.
    #[arg(long)]
    threads: Option<usize>,
    /// A CIFAR-10 file: clouds are then its first images and the next, sharp and blurred; else Gaussian points.
    #[arg(long, value_name = "FILE")]
    cifar: Option<PathBuf>,
    /// The Python that has the peers.
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    python: PathBuf,
}

#[derive(Deserialize)]
struct Hello {
    solvers: Vec<String>,
    missing: BTreeMap<String, String>,
    versions: BTreeMap<String, String>,
}

#[derive(Deserialize, serde::Serialize, Clone, Copy)]
struct TransportTiming {
    seconds: f64,
    iterations: usize,
    error: Option<f64>,
    linear: Option<f64>,
}

#[derive(serde::Serialize)]
struct TransportRow {
    entropy: f64,
    solver: String,
    #[serde(flatten)]
    measured: TransportTiming,
    /// How many times the seconds of softdiff; nothing where the solver failed.
    ratio: Option<f64>,
}
pub fn run(arguments: TransportArguments, json: bool) -> Outcome {
    let cost = cost(&arguments)?;
    let mean = cost.values().iter().sum::<f64>() / cost.values().len() as f64;
    let threads = arguments.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let mut peers = Peers::start(&arguments.python, threads)?;
    let mut solvers = Vec::new();
    for name in &arguments.against {
        if peers.hello.solvers.contains(name) {
            solvers.push(name.clone());
        } else {
            let why = peers.hello.missing.get(name).map_or("no such peer", String::as_str);
            eprintln!("warning: {name} is left out: {why}");
        }
    }
    if solvers.is_empty() {
        return Err(Failure::new(format!("{} has none of the peers", arguments.python.display()))
            .hint("install them: pip install POT ott-jax; or give --python PROGRAM"));
    }
    let file = CostFile::write(&cost)?;
    let mut rows = Vec::new();
    for part in &arguments.entropy {
        let options =
            SinkhornOptions { entropy: part * mean, tolerance: arguments.tolerance, max_iterations: MAX_ITERATIONS };
        let mut runs: Vec<Vec<TransportTiming>> = vec![Vec::new(); 1 + solvers.len()];
        for round in 0..arguments.rounds.max(1) {
            runs[0].push(ours(&cost, &options)?);
            for (solver, runs) in solvers.iter().zip(&mut runs[1..]) {
                runs.push(peers.ask(solver, &file, &cost, &options, round == 0)?);
            }
        }
        let medians: Vec<TransportTiming> = runs.into_iter().map(median).collect();
        let names = std::iter::once("softdiff").chain(solvers.iter().map(String::as_str));
        for (name, measured) in names.zip(&medians) {
            let solved = measured.error.is_some_and(|error| error <= FAILED_FROM * arguments.tolerance);
            let ratio = solved.then_some(measured.seconds / medians[0].seconds);
            rows.push(TransportRow { entropy: *part, solver: name.to_owned(), measured: *measured, ratio });
        }
    }
    report(&arguments, &peers.hello, threads, &solvers, &rows, json);
    Ok(())
}

fn cost(arguments: &TransportArguments) -> Result<Matrix, Failure> {
    let n = arguments.points;
    let Some(file) = &arguments.cifar else {
        let mut stream = RandomStream::new(0, "clouds of the bench");
        let x = Matrix::from_fn(n, 16, |_, _| stream.normal());
        let y = Matrix::from_fn(n, 16, |_, _| 1.0 + 1.5 * stream.normal());
        return Ok(squared_distances(&x, &y)?);
    };
    let crate::commands::images::LoadedImages { shape, pixels, .. } = crate::commands::images::load(file, 2 * n)?;
    if pixels.len() < 2 * n * shape.len() {
        return Err(
            Failure::new(format!("{} has fewer than {} images", file.display(), 2 * n)).hint("give fewer --points")
        );
    }
    let blur = Blur::new(shape, Boundary::Zero, 18.0)?;
    let cloud = |first: usize, level: f64| -> Result<Matrix, Failure> {
        let images = to_unit(&pixels[first * shape.len()..(first + n) * shape.len()]);
        Ok(Matrix::from_vec(n, shape.len(), blur.at(level)?.apply_batch(shape, &images)?)?)
    };
    Ok(squared_distances(&cloud(0, LEVELS[0])?, &cloud(n, LEVELS[1])?)?)
}

fn ours(cost: &Matrix, options: &SinkhornOptions) -> Result<TransportTiming, Failure> {
    let start = Instant::now();
    let found = sinkhorn(cost, options)?;
    let seconds = start.elapsed().as_secs_f64();
    let (linear, error) = (Some(found.linear.value), Some(found.linear.error));
    Ok(TransportTiming { seconds, iterations: found.linear.iterations, error, linear })
}

fn median(mut runs: Vec<TransportTiming>) -> TransportTiming {
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    runs[runs.len() / 2]
}

/// The Python process that holds the peers.
struct Peers {
    peer: Peer,
    hello: Hello,
}

impl Peers {
    fn start(python: &Path, threads: usize) -> Result<Self, Failure> {
        let (peer, greeting) = Peer::start(python, SCRIPT, &[], threads, "numpy POT ott-jax")?;
        Ok(Peers { peer, hello: serde_json::from_value(greeting)? })
    }

    fn ask(
        &mut self,
        solver: &str,
        file: &CostFile,
        cost: &Matrix,
        options: &SinkhornOptions,
        warm_up: bool,
    ) -> Result<TransportTiming, Failure> {
        let request = serde_json::json!({
            "solver": solver, "cost": file.0, "rows": cost.rows(), "cols": cost.cols(), "entropy": options.entropy,
            "tolerance": options.tolerance, "max_iterations": options.max_iterations, "warm_up": warm_up,
        });
        let answer =
            self.peer.ask(&request).map_err(|failure| failure.hint(format!("leave {solver} out of --against")))?;
        Ok(serde_json::from_value(answer)?)
    }
}

/// The cost matrix where the peers can read it, removed at the end.
struct CostFile(PathBuf);

impl CostFile {
    fn write(cost: &Matrix) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("softdiff-bench-{}.f64", std::process::id()));
        let bytes: Vec<u8> = cost.values().iter().flat_map(|v| v.to_le_bytes()).collect();
        save(&path, &bytes)?;
        Ok(CostFile(path))
    }
}

impl Drop for CostFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn report(
    arguments: &TransportArguments,
    hello: &Hello,
    threads: usize,
    solvers: &[String],
    rows: &[TransportRow],
    json: bool,
) {
    let ratio = |solver: &String| {
        let logs: Vec<f64> =
            rows.iter().filter(|row| row.solver == *solver).filter_map(|row| row.ratio).map(f64::ln).collect();
        (logs.iter().sum::<f64>() / logs.len() as f64).exp()
    };
    let ratios: BTreeMap<&String, f64> = solvers.iter().map(|solver| (solver, ratio(solver))).collect();
    let points = arguments.points;
    if json {
        println!(
            "{}",
            serde_json::json!({ "points": points, "tolerance": arguments.tolerance, "threads": threads,
                "versions": hello.versions, "rows": rows, "times_faster": ratios })
        );
        return;
    }
    println!(
        "{points} points, marginals to {:e}, {threads} threads, median of {} rounds",
        arguments.tolerance, arguments.rounds
    );
    println!(
        "{:>8} {:>15} {:>11} {:>10} {:>10} {:>15} {:>8}",
        "entropy", "solver", "ms", "passes", "L1 error", "<P, C>", "ratio"
    );
    for TransportRow { entropy, solver, measured, ratio } in rows {
        let number = |value: Option<f64>| value.unwrap_or(f64::NAN);
        println!(
            "{entropy:>8} {solver:>15} {:>11.3} {:>10} {:>10.1e} {:>15.9} {:>8}",
            1e3 * measured.seconds,
            measured.iterations,
            number(measured.error),
            number(measured.linear),
            ratio.map_or("failed".to_owned(), |ratio| format!("{ratio:.1}")),
        );
    }
    // A peer that failed everywhere has no mean.
    for (solver, ratio) in ratios.into_iter().filter(|(_, ratio)| ratio.is_finite()) {
        println!("softdiff is {ratio:.1} times as fast as {solver} (geometric mean)");
    }
}
