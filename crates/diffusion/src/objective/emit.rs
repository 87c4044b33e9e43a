//! Objectives as operations of the engine.

use super::{Earlier, Kind, Objective, Prediction, TimeVars};
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
    /// What it predicts.
    pub prediction: &'a Prediction,
    /// Times, `[n]`.
    pub t: Var,
    /// The path at t.
    pub now: &'a MomentVars,
    /// The path at the earlier time of [`Loss::earlier`].
    pub earlier: Option<&'a MomentVars>,
}

impl EmittedBatch<'_> {
    /// The prediction of the clean images.
    pub fn x0_hat(&self, g: &mut Graph) -> Result<Var> {
        self.prediction.emit(g, self.output, self.xt, self.time())
    }

    fn time(&self) -> TimeVars {
        TimeVars { t: Some(self.t), sigma: self.now.sigma, alpha: None }
    }
}

/// What a network can be trained with: a loss as operations of a graph.
pub trait Loss: Send + Sync {
    /// The loss of each image, `[n]`.
    fn emit(&self, g: &mut Graph, batch: &EmittedBatch) -> Result<Var>;

    /// How far before t the second time of the batch lies; none where C is needed at t alone.
    fn earlier(&self) -> Option<Earlier> {
        None
    }
}

impl Loss for Objective {
    fn earlier(&self) -> Option<Earlier> {
        match self.kind {
            Kind::LookAhead { farthest } => Some(Earlier::Drawn(farthest)),
            Kind::OneStep { step } => Some(Earlier::Fixed(step)),
            _ => None,
        }
    }

    fn emit(&self, g: &mut Graph, batch: &EmittedBatch) -> Result<Var> {
        let at = batch.time();
        let EmittedBatch { x0, xt, output, prediction, now, earlier, .. } = *batch;
        let earlier = || {
            earlier.ok_or(Error::Unknown {
                kind: "moment",
                name: "earlier".into(),
                hint: Some("this objective needs the path at a second time".into()),
            })
        };
        let error = match self.kind {
            Kind::Soft => {
                let difference = prediction.emit_error(g, output, xt, x0, at)?;
                now.apply(g, difference)?
            }
            Kind::LookAhead { .. } => {
                let difference = prediction.emit_error(g, output, xt, x0, at)?;
                earlier()?.apply(g, difference)?
            }
            Kind::Clean => prediction.emit_error(g, output, xt, x0, at)?,
            Kind::OneStep { .. } => {
                let target = earlier()?.apply(g, x0)?;
                let predicted = prediction.emit(g, output, xt, at)?;
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
        let losses = self.emit_square(g, error, now.sigma)?;
        if self.mixture == 0.0 {
            return g.scale(losses, 0.5);
        }
        let clean = prediction.emit_error(g, output, xt, x0, at)?;
        let clean = self.emit_square(g, clean, now.sigma)?;
        g.combine(&[(0.5 * (1.0 - self.mixture), losses), (0.5 * self.mixture, clean)])
    }
}

impl Objective {
    /// `w |e|^2` of each image, `[n]`.
    fn emit_square(&self, g: &mut Graph, error: Var, sigma: Var) -> Result<Var> {
        let weighted = match self.weight.emit_root(g, sigma)? {
            Some(root) => g.mul(error, root)?,
            None => error,
        };
        let squares = g.square(weighted)?;
        let sums = g.sum_axes(squares, 1..4)?;
        let n = g.shape(sums).numel();
        g.reshape(sums, [n])
    }
}
