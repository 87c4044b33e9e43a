//! Soft Diffusion in the plane: a mixture of Gaussians, a matrix as corruption, a small network, every sampler.
//!
//! ```text
//! cargo run --release -p softdiff --example playground -- playground.png
//! ```
//!
//! Points are mixed and shrunk by `C_t = (1 - a) I + a M`, noise is added, and a multilayer perceptron is trained with
//! Soft Score Matching for some seconds. Then every sampler goes back from x_1, and its points are compared with the truth
//! by the sliced Wasserstein distance. Samplers for `C = alpha I` do the same on a variance-preserving path.

use softdiff::corruption::{Custom, LinearMap, Shape};
use softdiff::curve::Curve;
use softdiff::engine::cpu::CpuExecutor;
use softdiff::engine::optim::{Adam, AdamConfig};
use softdiff::engine::{Graph, Init, Params, Plan, Var};
use softdiff::image::png;
use softdiff::linalg::Matrix;
use softdiff::noise::{Alpha, Noise as PathNoise};
use softdiff::objective::{Head, Objective};
use softdiff::path::{LevelSchedule, Path};
use softdiff::random::Stream;
use softdiff::sampler::{self, *};
use softdiff::train::{Noise, PathTable, Setting, StepLoss, TABLE_ROWS};
use softdiff::transport::sliced;
use std::error::Error;

/// A point of the plane is an image of one pixel with two channels.
const PLANE: Shape = Shape { height: 1, width: 1, channels: 2 };
const WIDTH: usize = 96;
const BATCH: usize = 512;

/// How much to compute.
pub struct Effort {
    /// Training steps of either network.
    pub training: usize,
    /// Points per sampler.
    pub points: usize,
    /// Steps per sampler.
    pub steps: usize,
}

/// What one sampler gave.
pub struct Outcome {
    /// The sampler.
    pub name: String,
    /// Root of the sliced squared 2-Wasserstein distance to the truth.
    pub distance: f64,
    /// The points.
    pub points: Vec<f64>,
}

/// M mixes and shrinks: eigenvalues 0.4 along the diagonal and 0.1 across it.
pub fn mixing_path() -> Result<Path, Box<dyn Error>> {
    let matrix = Matrix::from_vec(2, 2, vec![0.25, 0.15, 0.15, 0.25])?;
    let corruption = Custom::new(PLANE, LinearMap::Dense(matrix))?;
    let level = LevelSchedule::Curve { curve: Curve::straight(0.0, 1.0)?, start: 0.1 };
    let noise = PathNoise::Geometric { smallest: 0.02, largest: 0.3, until: 1.0 };
    Ok(Path::new(vec![(Box::new(corruption), level)], noise)?)
}

/// Five Gaussians on a circle, of deviation 0.1 across and 0.2 along one direction.
pub fn truth(path: &Path) -> Result<Oracle<'_>, Box<dyn Error>> {
    let part = |k: usize| {
        let angle = std::f64::consts::TAU * k as f64 / 5.0;
        let covariance = Matrix::diagonal(&[0.01, 0.02 * (1.0 + k as f64 / 4.0)]);
        GaussianPart { weight: 1.0, mean: vec![angle.cos(), angle.sin()], covariance }
    };
    Ok(Oracle::new(path, (0..5).map(part).collect())?)
}

/// F(x, t): three hidden layers on the point and a sinusoidal embedding of the time.
fn network(g: &mut Graph, x: Var, t: Var) -> softdiff::engine::Result<Var> {
    let n = g.shape(t).numel();
    let point = g.reshape(x, [n, 2])?;
    let frequencies = g.constant([1, 8], (0..8).map(|k| 1.5f64.powi(k)).collect())?;
    let time = g.sinusoids(t, frequencies)?;
    let mut h = g.concat(&[point, time])?;
    for layer in 0..4 {
        let inputs = g.shape(h)[1];
        let outputs = if layer == 3 { 2 } else { WIDTH };
        let bound = if layer == 3 { 1e-3 } else { (6.0 / inputs as f64).sqrt() };
        let weight = g.param(&format!("weight.{layer}"), [outputs, inputs], Init::Uniform { bound })?;
        let bias = g.param(&format!("bias.{layer}"), [outputs], Init::Constant(0.0))?;
        h = g.linear(h, weight, Some(bias))?;
        if layer < 3 {
            h = g.silu(h)?;
        }
    }
    g.reshape(h, [n, 1, 1, 2])
}

/// Trains by Soft Score Matching and gives the averaged parameters.
pub fn train(path: &Path, data: &Oracle, steps: usize, seed: u64) -> Result<Params<f32>, Box<dyn Error>> {
    let table = PathTable::new(path, TABLE_ROWS)?;
    let mut g = Graph::new();
    let objective = Objective::PAPER;
    let setting = Setting {
        path: &table,
        objective: &objective,
        prediction: &objective.prediction(),
        centre: 0.0,
        shape: PLANE,
        batch: BATCH,
        noise: Noise::Drawn,
        mirror: false,
        expected: None,
    };
    let step = StepLoss::emit(&mut g, &setting, network)?;
    let gradients = g.parameter_gradients(step.loss)?;
    let mut run = CpuExecutor::<f32>::new(Plan::new(&g, &[&gradients[..], &[step.loss]].concat())?);
    let mut params = Params::initialise(&g, seed);
    let config = AdamConfig { rate: 2e-3, warmup: 50, clip: Some(5.0), ema: vec![0.995], ..AdamConfig::default() };
    let mut adam = Adam::new(config, &params);
    let mut stream = Stream::new(seed, "playground data");
    for k in 0..steps {
        // The rate falls to nothing in the second half.
        adam.config.rate = 2e-3 * (2.0 - 2.0 * k as f64 / steps as f64).min(1.0);
        let x0: Vec<f64> = (0..BATCH).flat_map(|_| data.draw(&mut stream)).collect();
        run.set_f64("x0", &x0)?;
        run.run(&params, seed, k as u32)?;
        let values: Vec<&[f32]> = gradients.iter().map(|&v| run.get(v)).collect::<Result<_, _>>()?;
        adam.update(&mut params, &values)?;
    }
    Ok(adam.ema.swap_remove(0))
}

/// A trained network as a denoiser of up to `batch` points.
pub struct Learned<'a> {
    path: &'a Path,
    params: Params<f32>,
    run: CpuExecutor<f32>,
    output: Var,
    batch: usize,
}

impl<'a> Learned<'a> {
    /// The network with `params`.
    pub fn new(path: &'a Path, params: Params<f32>, batch: usize) -> Result<Self, Box<dyn Error>> {
        let mut g = Graph::new();
        let (x, t) = (g.input("x", [batch, 1, 1, 2])?, g.input("t", [batch])?);
        let output = network(&mut g, x, t)?;
        let run = CpuExecutor::new(Plan::new(&g, &[output])?);
        Ok(Learned { path, params, run, output, batch })
    }
}

impl Denoiser for Learned<'_> {
    fn x0_hat(&mut self, xt: &[f64], t: f64) -> sampler::Result<Vec<f64>> {
        let sigma = self.path.at(t)?.sigma;
        let mut out = Vec::with_capacity(xt.len());
        for part in xt.chunks(2 * self.batch) {
            let mut padded = part.to_vec();
            padded.resize(2 * self.batch, 0.0);
            self.run.set_f64("x", &padded)?;
            self.run.set_f64("t", &vec![t; self.batch])?;
            self.run.run(&self.params, 0, 0)?;
            let output: Vec<f64> = self.run.get(self.output)?.iter().map(|&v| f64::from(v)).collect();
            let x0_hat = Head::PAPER.x0_hat(&output[..part.len()], part, sigma);
            out.extend(x0_hat.map_err(|error| SamplerError::Denoiser(error.to_string()))?);
        }
        Ok(out)
    }
}

/// Trains on both paths and samples by every sampler; the truth comes first.
pub fn play(effort: &Effort) -> Result<Vec<Outcome>, Box<dyn Error>> {
    let Effort { training, points, steps } = *effort;
    let mixing = mixing_path()?;
    let vp = Path::variance_preserving(PLANE, Alpha::Linear { beta_min: 0.1, beta_max: 10.0 })?;
    let data = truth(&mixing)?;
    let cloud = |seed: u64| -> Vec<f64> {
        let mut stream = Stream::new(seed, "playground truth");
        (0..points).flat_map(|_| data.draw(&mut stream)).collect()
    };
    let (real, other) = (Matrix::from_vec(points, 2, cloud(1))?, cloud(2));
    let outcome = |name: String, found: Vec<f64>| -> Result<Outcome, Box<dyn Error>> {
        let distance = sliced(&real, &Matrix::from_vec(points, 2, found.clone())?, 128, 5)?.value.sqrt();
        Ok(Outcome { name, distance, points: found })
    };
    let mut outcomes = vec![outcome("truth, drawn again".into(), other)?];
    // Alone, an image would cost a whole batch of the network.
    let together = || Box::new(DormandPrince { tolerance: Tolerance::of(1e-4), together: true });
    let alone = |sampler: &dyn Sampler| sampler.name() == "dormand-prince";
    let seeds: Vec<u64> = (0..points as u64).collect();
    let sampling = Sampling::uniform(steps)?;
    for (path, samplers, kind) in [(&mixing, general(), ""), (&vp, special(), " (VP)")] {
        let data = truth(path)?;
        let mut denoiser = Learned::new(path, train(path, &data, training, 3)?, points)?;
        let eta = Stream::new(4, "playground start").normals(2 * points);
        let x1 = path.diffuse(&cloud(6), 1.0, &eta)?;
        for sampler in samplers {
            let name = format!("{}{kind}", sampler.name());
            let sampler = if alone(&*sampler) { together() } else { sampler };
            outcomes.push(outcome(name, sample(path, &*sampler, &mut denoiser, x1.clone(), &seeds, &sampling)?)?);
        }
    }
    Ok(outcomes)
}

/// Panels of dots, four in a row.
pub fn picture(outcomes: &[Outcome]) -> Vec<u8> {
    const SIDE: usize = 220;
    const ACROSS: usize = 4;
    let (width, height) = (ACROSS * SIDE, outcomes.len().div_ceil(ACROSS) * SIDE);
    let mut pixels = vec![255u8; width * height * 3];
    for (k, outcome) in outcomes.iter().enumerate() {
        let (left, top) = (k % ACROSS * SIDE, k / ACROSS * SIDE);
        for i in 0..SIDE {
            for at in [top * width + left + i, (top + i) * width + left] {
                pixels[3 * at..3 * at + 3].fill(160);
            }
        }
        for point in outcome.points.chunks(2) {
            let place = |v: f64| ((v + 1.8) / 3.6 * SIDE as f64) as isize;
            let (column, row) = (place(point[0]), place(-point[1]));
            for (dc, dr) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                let (column, row) = (column + dc, row + dr);
                if (1..SIDE as isize).contains(&column) && (1..SIDE as isize).contains(&row) {
                    let at = 3 * ((top + row as usize) * width + left + column as usize);
                    // Dots darken one another: blue stays longest.
                    for (channel, kept) in [0.6, 0.75, 0.9].into_iter().enumerate() {
                        pixels[at + channel] = (f64::from(pixels[at + channel]) * kept) as u8;
                    }
                }
            }
        }
    }
    png::encode(width, height, 3, &pixels)
}

fn main() -> Result<(), Box<dyn Error>> {
    let outcomes = play(&Effort { training: 3000, points: 2000, steps: 100 })?;
    for outcome in &outcomes {
        println!("{:<28} {:.4}", outcome.name, outcome.distance);
    }
    let file = std::env::args().nth(1).unwrap_or_else(|| "playground.png".into());
    std::fs::write(&file, picture(&outcomes))?;
    println!("{file}: panels in the order above, four in a row");
    Ok(())
}
