//! The paper's blur path worked out in the graph from t itself, without a table.

use super::EmittedPath;
use crate::corruption::{MapProgram, Shape};
use crate::objective::MomentVars;
use softdiff_engine::op::Function;
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

impl EmittedPath for BlurPath {
    fn moment(&self, g: &mut Graph, t: Var, shape: Shape, _: &str) -> Result<MomentVars> {
        let program = MapProgram::symmetric_separable(shape);
        let parameters = vec![self.matrices(g, t, shape.height)?];
        Ok(MomentVars { program, parameters, sigma: self.sigma(g, t)? })
    }
}
