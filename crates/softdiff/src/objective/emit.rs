//! Objectives as operations of the engine.

use super::{Kind, Objective, Parametrisation};
use crate::corruption::MapProgram;
use softdiff_engine::op::Function;
use softdiff_engine::{Error, Graph, Result, Var};

/// C_t and sigma_t of a batch of times, in a graph.
#[derive(Debug, Clone)]
pub struct MomentVars {
    /// The structure of C_t.
    pub program: MapProgram,
    /// Its numbers.
    pub parameters: Vec<Var>,
    /// sigma_t, `[n, 1, 1, 1]`.
    pub sigma: Var,
}

impl MomentVars {
    /// `C_t x`.
    pub fn apply(&self, g: &mut Graph, x: Var) -> Result<Var> {
        self.program.emit(g, x, &self.parameters)
    }
}

/// What an objective compares, in a graph; images are `[n, h, w, c]`.
pub struct EmittedBatch<'a> {
    /// Clean images.
    pub x0: Var,
    /// Corrupted images.
    pub xt: Var,
    /// The network's output.
    pub output: Var,
    /// The path at t.
    pub now: &'a MomentVars,
    /// The path at the earlier time of [`Objective::earlier`].
    pub earlier: Option<&'a MomentVars>,
}

impl Objective {
    /// The loss of each image, `[n]`.
    pub fn emit(&self, g: &mut Graph, batch: &EmittedBatch) -> Result<Var> {
        let EmittedBatch { x0, xt, output, now, earlier } = *batch;
        let earlier = || {
            earlier.ok_or(Error::Unknown {
                kind: "moment",
                name: "earlier".into(),
                suggestion: "; this objective needs the path at a second time".into(),
            })
        };
        let error = match self.kind {
            Kind::Soft => {
                let difference = self.difference(g, batch)?;
                now.apply(g, difference)?
            }
            Kind::LookAhead { .. } => {
                let difference = self.difference(g, batch)?;
                earlier()?.apply(g, difference)?
            }
            Kind::Clean => self.difference(g, batch)?,
            Kind::OneStep { .. } => {
                let target = earlier()?.apply(g, x0)?;
                let predicted = self.head.emit(g, output, xt, now.sigma)?;
                g.sub(predicted, target)?
            }
            Kind::Noise => {
                let y = now.apply(g, x0)?;
                let scaled = g.sub(xt, y)?;
                let inverse = g.map(Function::Reciprocal, now.sigma)?;
                let eta = g.mul(scaled, inverse)?;
                g.sub(output, eta)?
            }
        };
        let weighted = match self.weight.emit_root(g, now.sigma)? {
            Some(root) => g.mul(error, root)?,
            None => error,
        };
        let squares = g.square(weighted)?;
        let sums = g.sum_axes(squares, 1..4)?;
        let n = g.shape(sums).numel();
        let sums = g.reshape(sums, [n])?;
        g.scale(sums, 0.5)
    }

    /// `x0_hat - x0` in one combination.
    fn difference(&self, g: &mut Graph, batch: &EmittedBatch) -> Result<Var> {
        let phi = self.head.emit_phi(g, batch.output, batch.now.sigma)?;
        match self.head.parametrisation {
            Parametrisation::Residual => g.combine(&[(1.0, phi), (-1.0, batch.x0), (1.0, batch.xt)]),
            Parametrisation::Clean => g.sub(phi, batch.x0),
        }
    }
}
