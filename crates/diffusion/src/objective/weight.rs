//! Weights of the times, w(t).

use super::ObjectiveError;
use softdiff_engine::op::Function;
use softdiff_engine::{Graph, Result as EngineResult, Var};

/// w(t) as a function of sigma_t ("usually chosen to be 1 or 1/sigma^2"; choice A16).
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Weight {
    /// 1.
    One,
    /// 1/sigma^2.
    #[default]
    InverseVariance,
    /// 1/sigma^2 over the loss to expect at t, so that all times weigh the same. That loss depends on the images, see
    /// [`super::expected_loss`]; the training step divides by it.
    Balanced,
    /// 1/sigma^4: what the derivation gives (Eq. 9).
    InverseFourth,
    /// min(1/sigma^2, most) (Hang et al. 2023).
    MinSnr {
        /// The largest weight.
        most: f64,
    },
}

impl Weight {
    /// w at sigma.
    pub fn at(&self, sigma: f64) -> Result<f64, ObjectiveError> {
        let inverse = 1.0 / (sigma * sigma);
        match self {
            Weight::One => Ok(1.0),
            _ if sigma <= 0.0 || sigma.is_nan() => Err(ObjectiveError::NoNoise(sigma)),
            Weight::InverseVariance | Weight::Balanced => Ok(inverse),
            Weight::InverseFourth => Ok(inverse * inverse),
            Weight::MinSnr { most } => Ok(inverse.min(*most)),
        }
    }

    pub(super) fn check(&self) -> Result<(), ObjectiveError> {
        match *self {
            Weight::MinSnr { most: value } if !(value > 0.0 && value.is_finite()) => {
                let remedy = "give a number above 0, such as 5";
                Err(ObjectiveError::Option { option: "the largest weight", value, remedy })
            }
            _ => Ok(()),
        }
    }

    /// sqrt(w), with which errors are multiplied before they are squared; none for 1.
    pub(super) fn emit_root(&self, g: &mut Graph, sigma: Var) -> EngineResult<Option<Var>> {
        let inverse = |g: &mut Graph| g.map(Function::Reciprocal, sigma);
        Ok(match self {
            Weight::One => None,
            Weight::InverseVariance | Weight::Balanced => Some(inverse(g)?),
            Weight::InverseFourth => {
                let inverse = inverse(g)?;
                Some(g.square(inverse)?)
            }
            Weight::MinSnr { most } => {
                let root = inverse(g)?;
                Some(g.min(root, most.sqrt())?)
            }
        })
    }
}
