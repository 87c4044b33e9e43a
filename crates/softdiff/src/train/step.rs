//! One training step of Soft Score Matching as a graph: corrupt, predict, compare in the corrupted space.

use crate::network::{Correspondence, UNetConfig, unet};
use softdiff_engine::op::{Function, Taps};
use softdiff_engine::{Graph, Result, Var};

/// The paper's path: noise grows first, then blur at constant noise.
#[derive(Clone, Debug, PartialEq)]
pub struct BlurPath {
    /// Standard deviations of the blur at equally spaced times from `noise_stage` to 1, linear in between.
    pub knots: Vec<f64>,
    /// Taps to either side of the kernel's centre: 32 for CIFAR-10, 80 for CelebA-64.
    pub half_support: usize,
    /// Noise at time 0 and from the end of the first stage on.
    pub sigma: [f64; 2],
    /// When the first stage ends.
    pub noise_stage: f64,
}

impl BlurPath {
    /// Levels spaced geometrically, as a stand-in for a schedule found on data.
    pub fn geometric(largest: f64, half_support: usize) -> BlurPath {
        let knots = (0..32).map(|i| 0.05 * (largest / 0.05f64).powf(f64::from(i) / 31.0)).collect();
        BlurPath { knots, half_support, sigma: [0.01, 0.1], noise_stage: 0.18 }
    }

    /// sigma_t for times `t [n]`: geometric up to the end of the first stage, then constant.
    fn sigma(&self, g: &mut Graph, t: Var) -> Result<Var> {
        let n = g.shape(t).numel();
        let [low, high] = self.sigma;
        // min(t / stage, 1) by a table of two rows, then low * (high / low)^that.
        let table = g.constant([2, 1], vec![0.0, (high / low).ln()])?;
        let position = g.scale(t, 1.0 / self.noise_stage)?;
        let exponent = g.interpolate(table, position)?;
        let growth = g.map(Function::Exp, exponent)?;
        let sigma = g.scale(growth, low)?;
        g.reshape(sigma, [n, 1, 1, 1])
    }

    /// The matrices G_t `[n, size, size]` with C_t X = G_t X G_t (equation 3 for Gaussian blur, zero-padded).
    fn matrices(&self, g: &mut Graph, t: Var, size: usize) -> Result<Var> {
        let n = g.shape(t).numel();
        let last = self.knots.len() - 1;
        // The table's position is 0 until the noise stage ends, and `last` at time 1.
        let table = g.constant([self.knots.len(), 1], self.knots.clone())?;
        let shift = g.constant([1], vec![-self.noise_stage])?;
        let late = g.add(t, shift)?;
        let position = g.scale(late, last as f64 / (1.0 - self.noise_stage))?;
        let deviation = g.interpolate(table, position)?;
        let variance = g.square(deviation)?;
        let inverse = g.map(Function::Reciprocal, variance)?;
        let rate = g.scale(inverse, -0.5)?;
        let half = self.half_support as i64;
        let squares = (-half..=half).map(|k| (k * k) as f64).collect();
        let taps = g.constant([1, 2 * self.half_support + 1], squares)?;
        let exponents = g.mul(rate, taps)?;
        let kernel = g.map(Function::Exp, exponents)?;
        let total = g.sum_axes(kernel, 1..2)?;
        let norm = g.map(Function::Reciprocal, total)?;
        // Pixels further apart than the kernel reaches get nothing.
        let distance = |i: usize| {
            let d = (i / size).abs_diff(i % size);
            if d <= self.half_support { (d * d) as f64 } else { 1e9 }
        };
        let distances = g.constant([1, size, size], (0..size * size).map(distance).collect())?;
        let rate = g.reshape(rate, [n, 1, 1])?;
        let exponents = g.mul(distances, rate)?;
        let unnormalised = g.map(Function::Exp, exponents)?;
        let norm = g.reshape(norm, [n, 1, 1])?;
        g.mul(unnormalised, norm)
    }
}

/// Where a step's random numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Inputs `flip`, `t` and `z`, set by the caller: for tests.
    Inputs,
    /// Drawn in the graph from (seed, step, element).
    Drawn,
}

/// What the step reads besides its parameters.
#[derive(Clone, Copy, Debug)]
pub struct StepInputs {
    /// Images in [0, 1], `[n, size, size, channels]`.
    pub x0: Var,
    /// Times, `[n]`.
    pub t: Var,
}

/// A training step in a graph.
pub struct SoftStep {
    /// The graph.
    pub graph: Graph,
    /// What it reads.
    pub inputs: StepInputs,
    /// `mean over the batch of 1/2 ||C_t (phi - r_t)||^2 / sigma_t^2` (equation 11 with w = 1 / sigma^2).
    pub loss: Var,
    /// The loss of each image, `[n]`.
    pub losses: Var,
    /// Gradients of the trainable parameters, in order.
    pub gradients: Vec<Var>,
    /// The parameters under both names.
    pub correspondence: Vec<Correspondence>,
}

/// Purposes of the step's random numbers.
mod purpose {
    pub const FLIP: u32 = 0x464C_4950;
    pub const TIME: u32 = 0x5449_4D45;
    pub const NOISE: u32 = 0x4E4F_4953;
}

impl SoftStep {
    /// Builds the step for `batch` images: flip, draw t and noise, corrupt, predict, compare, differentiate.
    ///
    /// The network is conditioned on `t` (Fourier) or `999 t` (positional), and phi = sigma F (choices A14, A15).
    pub fn new(config: &UNetConfig, path: &BlurPath, batch: usize, noise: Noise, training: bool) -> Result<SoftStep> {
        let mut graph = Graph::new();
        let g = &mut graph;
        let (size, channels) = (config.image_size, config.image_channels);
        let images = [batch, size, size, channels];
        let x0 = g.input("x0", images)?;
        let (t, z, flip) = match noise {
            Noise::Inputs => (g.input("t", [batch])?, g.input("z", images)?, g.input("flip", [batch, 1, 1, 1])?),
            Noise::Drawn => {
                let coin = g.random_uniform([batch, 1, 1, 1], purpose::FLIP)?;
                // 0 below one half, 1 above: a steep table.
                let table = g.constant([2, 1], vec![0.0, 1.0])?;
                let flat = g.reshape(coin, [batch])?;
                let half = g.constant([1], vec![-0.5])?;
                let centered = g.add(flat, half)?;
                let steep = g.scale(centered, 1e9)?;
                let bits = g.interpolate(table, steep)?;
                let flip = g.reshape(bits, [batch, 1, 1, 1])?;
                let t = g.random_uniform([batch], purpose::TIME)?;
                (t, g.random_normal(images, purpose::NOISE)?, flip)
            }
        };
        let mirrored = g.resample(x0, Taps::identity(size), Taps::reversed(size))?;
        let change = g.sub(mirrored, x0)?;
        let flipped = g.mul(change, flip)?;
        let clean = g.add(x0, flipped)?;

        let sigma = path.sigma(g, t)?;
        let matrices = path.matrices(g, t, size)?;
        let corrupted = g.separable(clean, matrices, matrices)?;
        let scaled = g.mul(z, sigma)?;
        let xt = g.add(corrupted, scaled)?;

        let condition = match config.embedding {
            crate::network::Embedding::Fourier { .. } => t,
            crate::network::Embedding::Positional => g.scale(t, 999.0)?,
        };
        let net = unet(g, config, xt, condition, training)?;
        // phi - r with phi = sigma F and r = x0 - x_t; divided by sigma afterwards, as w = 1 / sigma^2.
        let phi = g.mul(net.output, sigma)?;
        let difference = g.combine(&[(1.0, phi), (-1.0, clean), (1.0, xt)])?;
        let soft = g.separable(difference, matrices, matrices)?;
        let inverse = g.map(Function::Reciprocal, sigma)?;
        let weighted = g.mul(soft, inverse)?;
        let squares = g.square(weighted)?;
        let sums = g.sum_axes(squares, 1..4)?;
        let sums = g.reshape(sums, [batch])?;
        let losses = g.scale(sums, 0.5)?;
        let loss = g.mean(losses)?;
        let gradients = g.parameter_gradients(loss)?;
        let correspondence = net.correspondence;
        Ok(SoftStep { inputs: StepInputs { x0, t }, loss, losses, gradients, correspondence, graph })
    }
}
