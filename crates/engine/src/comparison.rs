//! What the self-tests of the devices share: the operations with their gradients, inputs, and the error of a result.

use crate::op_cases::OpCase;
use crate::rng::Stream;
use crate::{Graph, Precision, Result, Storage, TensorShape, Var};

/// One comparison.
#[derive(Clone, Debug)]
pub struct Check {
    /// What was compared.
    pub name: String,
    /// The precision.
    pub precision: Precision,
    /// The worst relative error (Euclidean), over outputs and gradients.
    pub error: f64,
    /// The largest error allowed.
    pub limit: f64,
    /// Why it could not be compared at all.
    pub failure: Option<String>,
}

impl Check {
    pub(crate) fn new(name: impl Into<String>, precision: Precision, limit: f64, outcome: Result<f64>) -> Check {
        let failure = outcome.as_ref().err().map(|error| error.to_string());
        Check { name: name.into(), precision, error: outcome.unwrap_or(f64::NAN), limit, failure }
    }

    /// Whether the numbers agree.
    pub fn passed(&self) -> bool {
        self.failure.is_none() && self.error <= self.limit
    }
}

/// A case as a graph: its inputs, a random projection of its output as the loss, and the gradients of that.
pub(crate) struct CaseGraph {
    pub graph: Graph,
    /// Names and shapes of the inputs.
    pub inputs: Vec<(String, TensorShape)>,
    pub loss: Var,
    /// The gradient of each input, then the output.
    pub outputs: Vec<Var>,
}

impl CaseGraph {
    pub fn new(case: &OpCase, precision: Precision) -> Result<CaseGraph> {
        let mut g = Graph::new();
        let (mut inputs, mut vars) = (Vec::new(), Vec::new());
        for (number, &shape) in case.inputs.iter().enumerate() {
            let (name, shape): (String, TensorShape) = (format!("x{number}"), shape.into());
            let x = g.input(&name, shape.clone())?;
            // Images, weights and sequences in 16 bits; vectors and tables stay.
            let half = precision == Precision::Bf16 && shape.len() >= 3;
            vars.push(g.cast(x, if half { Storage::Half } else { Storage::Full })?);
            inputs.push((name, shape));
        }
        let out = (case.build)(&mut g, &vars)?;
        let out = g.cast(out, Storage::Full)?;
        let shape = g.shape(out).clone();
        let projection = random(&shape, 99, -1.0).into_iter().map(f64::from).collect();
        let projection = g.constant(shape, projection)?;
        let product = g.mul(out, projection)?;
        let loss = g.sum(product)?;
        let mut outputs = g.gradients(loss, &vars)?;
        outputs.push(out);
        Ok(CaseGraph { graph: g, inputs, loss, outputs })
    }
}

/// Uniform numbers from `low` to `low + 2`.
pub(crate) fn random(shape: &TensorShape, purpose: u32, low: f64) -> Vec<f32> {
    let stream = Stream { seed: 1, purpose, step: 0 };
    (0..shape.numel()).map(|i| (low + 2.0 * f64::from(stream.uniform(i as u64))) as f32).collect()
}

/// ||a - b|| / ||b||; a NaN anywhere is infinitely wrong.
pub(crate) fn relative(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let error: f64 = a.iter().zip(b).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    let norm: f64 = b.iter().map(|&b| square(f64::from(b))).sum();
    let relative = (error / norm.max(1e-30)).sqrt();
    if relative.is_nan() || a.len() != b.len() { f64::INFINITY } else { relative }
}
