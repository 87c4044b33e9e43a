//! From the network's output F to the clean prediction (Soft Diffusion, Eq. 10; choice A15).

use super::ObjectiveError;
use softdiff_engine::op::Function;
use softdiff_engine::{Graph, Result as EngineResult, Var};

/// What phi is a prediction of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parametrisation {
    /// The residual `r_t = x_0 - x_t`: `x0_hat = x_t + phi` (Eq. 10).
    #[default]
    Residual,
    /// The image itself: `x0_hat = phi` (h of Eq. 8).
    Clean,
}

/// How phi follows from the network's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputScale {
    /// phi = sigma F: with C = I exactly score_sde's `score = F / sigma`.
    #[default]
    Sigma,
    /// phi = F.
    One,
    /// phi = F / sigma: score_sde's code taken to the letter.
    InverseSigma,
}

/// The last, fixed layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Head {
    /// What phi predicts.
    #[serde(default)]
    pub parametrisation: Parametrisation,
    /// How it is scaled.
    #[serde(default)]
    pub scale: OutputScale,
}

impl Head {
    /// The residual, phi = sigma F.
    pub const PAPER: Head = Head { parametrisation: Parametrisation::Residual, scale: OutputScale::Sigma };

    /// `x0_hat` from the network's output at `x_t`.
    pub fn x0_hat(&self, output: &[f64], xt: &[f64], sigma: f64) -> Result<Vec<f64>, ObjectiveError> {
        if output.len() != xt.len() {
            let (found, expected) = (output.len(), xt.len());
            return Err(ObjectiveError::Size { what: "the network's output", found, expected });
        }
        let factor = match self.scale {
            OutputScale::Sigma => sigma,
            OutputScale::One => 1.0,
            OutputScale::InverseSigma if sigma > 0.0 => 1.0 / sigma,
            OutputScale::InverseSigma => return Err(ObjectiveError::NoNoise(sigma)),
        };
        let base = match self.parametrisation {
            Parametrisation::Residual => 1.0,
            Parametrisation::Clean => 0.0,
        };
        Ok(output.iter().zip(xt).map(|(f, x)| factor * f + base * x).collect())
    }

    /// phi in the engine.
    fn emit_phi(&self, g: &mut Graph, output: Var, sigma: Var) -> EngineResult<Var> {
        match self.scale {
            OutputScale::Sigma => g.mul(output, sigma),
            OutputScale::One => Ok(output),
            OutputScale::InverseSigma => {
                let inverse = g.map(Function::Reciprocal, sigma)?;
                g.mul(output, inverse)
            }
        }
    }

    /// `x0_hat` in the engine.
    pub fn emit(&self, g: &mut Graph, output: Var, xt: Var, sigma: Var) -> EngineResult<Var> {
        let phi = self.emit_phi(g, output, sigma)?;
        match self.parametrisation {
            Parametrisation::Residual => g.combine(&[(1.0, phi), (1.0, xt)]),
            Parametrisation::Clean => Ok(phi),
        }
    }

    /// `x0_hat - x0` in one combination.
    pub(super) fn emit_error(&self, g: &mut Graph, output: Var, xt: Var, x0: Var, sigma: Var) -> EngineResult<Var> {
        let phi = self.emit_phi(g, output, sigma)?;
        match self.parametrisation {
            Parametrisation::Residual => g.combine(&[(1.0, phi), (-1.0, x0), (1.0, xt)]),
            Parametrisation::Clean => g.sub(phi, x0),
        }
    }
}
