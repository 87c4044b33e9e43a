//! The optimizer's state: Adam's two moments for each trained parameter, and the options of its one group.

use super::OfficialTensor;
use super::parameters::{OfficialModel, is_frozen, read_weights};
use crate::import::ImportError;
use crate::import::numpy::{number, whole};
use crate::import::pickle::PickleNode;
use crate::import::torch::TorchFile;

/// Adam as it was when the checkpoint was written.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedAdam {
    /// The learning rate of the last step (after warm-up).
    pub lr: f64,
    /// The decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decay of the weights.
    pub weight_decay: f64,
    /// One for each trained parameter in the model's order; empty before the first step.
    pub moments: Vec<Moments>,
}

/// Adam's state for one parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// The parameter's official name.
    pub name: String,
    /// Steps taken: a tensor in new files, an integer before torch 1.12.
    pub step: u64,
    /// The mean of the gradient, `exp_avg`.
    pub first: OfficialTensor,
    /// The mean of its square, `exp_avg_sq`.
    pub second: OfficialTensor,
}

impl ImportedAdam {
    /// Reads the optimizer's state dict.
    pub(super) fn read(
        file: &TorchFile,
        node: &PickleNode,
        model: &OfficialModel,
    ) -> Result<ImportedAdam, ImportError> {
        let groups = node.get("param_groups")?;
        let mut items = groups.items()?;
        let found = items.len();
        let (Some(group), 1) = (items.next(), found) else {
            return Err(ImportError::Count { place: groups.place(), expected: "1".into(), found });
        };
        let option = |name: &str| number(file, &group.get(name)?);
        let [first, second] = group.get("betas")?.tuple("two betas")?;
        Ok(ImportedAdam {
            lr: option("lr")?,
            betas: (number(file, &first)?, number(file, &second)?),
            eps: option("eps")?,
            weight_decay: option("weight_decay")?,
            moments: read_moments(file, &node.get("state")?, &group.get("params")?, model)?,
        })
    }
}

/// `params` lists the state's keys in the order of all the model's parameters, frozen ones included.
fn read_moments(
    file: &TorchFile,
    state: &PickleNode,
    params: &PickleNode,
    model: &OfficialModel,
) -> Result<Vec<Moments>, ImportError> {
    let keys = params.items()?;
    if keys.len() != model.parameters.len() {
        let expected = format!("{}, one for each parameter", model.parameters.len());
        return Err(ImportError::Count { place: params.place(), expected, found: keys.len() });
    }
    if state.entry_count()? == 0 {
        return Ok(Vec::new());
    }
    let trained = keys.zip(&model.parameters).filter(|(_, parameter)| !is_frozen(parameter));
    let moments = trained.map(|(key, (name, weights))| {
        let key = key.integer()?;
        let entry = state
            .find_integer(key)?
            .ok_or_else(|| ImportError::MissingKey { place: state.place(), key: format!("{key} ({name})") })?;
        read_entry(file, &entry, name, &weights.shape)
    });
    moments.collect()
}

fn read_entry(file: &TorchFile, entry: &PickleNode, name: &str, shape: &[usize]) -> Result<Moments, ImportError> {
    let moment = |key: &str| read_weights(file, &entry.get(key)?, name, Some(shape));
    let step = whole(file, &entry.get("step")?)?;
    let (first, second) = (moment("exp_avg")?, moment("exp_avg_sq")?);
    if let Some(&negative) = second.data.iter().find(|value| **value < 0.0) {
        let place = format!("{}.exp_avg_sq of {name}", entry.place());
        return Err(ImportError::OutOfRange { place, value: negative.into(), expected: "at least 0" });
    }
    Ok(Moments { name: name.into(), step, first, second })
}
