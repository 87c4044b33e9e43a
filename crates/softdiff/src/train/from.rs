//! What `train.from` begins with: the weights of another run or model, or all of an imported training state.

use super::TrainError;
use super::{StartFrom, Watcher};
use crate::checkpoint::TrainingState;
use crate::import::TrainingFile;
use crate::model::{CheckpointChoice, Model};
use softdiff_engine::optim::AdamConfig;
use softdiff_engine::{Graph, Hint, ParamSpec, Params};
use std::borrow::Cow;
use std::error::Error;

/// Differences that are listed.
const LISTED: usize = 5;

/// Parameters that are not those of the recipe's network.
#[derive(Debug, thiserror::Error)]
#[error("{count} of its parameters are not those of this recipe's network: {listed}")]
pub(crate) struct Unlike {
    count: usize,
    listed: String,
}

impl Hint for Unlike {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some("give train.from a model with the same [network]".into())
    }
}

/// An optimiser's state that the recipe cannot go on with.
#[derive(Debug, thiserror::Error)]
#[error("it brings Adam's state after {updates} updates, and train.cooldown counts updates from 0")]
pub(crate) struct Cooldown {
    pub(crate) updates: u64,
}

impl Hint for Cooldown {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some("set train.cooldown = 0, or import it again with --weights-only".into())
    }
}

/// The state before the first step of a run that begins with the weights of `start`.
pub(super) fn begin(
    start: &StartFrom,
    graph: &Graph,
    config: &AdamConfig,
    watcher: &mut dyn Watcher,
) -> Result<TrainingState, TrainError> {
    let place = start.place.as_path();
    let failed = |source: Box<dyn Error + Send + Sync>| TrainError::From { place: place.into(), source };
    let wanted = Params::<f32>::zeros(graph);
    if place.is_file() {
        start.import_note.iter().for_each(|note| watcher.note(note));
    }
    if let Some(file) = TrainingFile::beside(place).map_err(|error| failed(error.into()))? {
        let found: Vec<(String, Vec<usize>)> = file.shapes().map_err(|error| failed(error.into()))?;
        compare(wanted.specs(), &found).map_err(|error| failed(error.into()))?;
        let updates = file.updates();
        if config.cooldown > 0 {
            return Err(failed(Cooldown { updates }.into()));
        }
        let state = file.state(&wanted, config).map_err(|error| failed(error.into()))?;
        watcher.note(&format!("train.from: weights, average and Adam's moments after {updates} updates"));
        return Ok(state);
    }
    let model = Model::open_at(place, None, CheckpointChoice::Last).map_err(|error| failed(error.into()))?;
    let found: Vec<_> = model.params.specs().iter().map(|spec| (spec.name.clone(), spec.shape.to_vec())).collect();
    compare(wanted.specs(), &found).map_err(|error| failed(error.into()))?;
    let mut params = wanted;
    for spec in params.specs().to_vec() {
        let values = model.params.get(&spec.name).and_then(|values| params.set(&spec.name, &spec.shape, values));
        values.map_err(|error| failed(error.into()))?;
    }
    Ok(TrainingState::new(params, config.clone()))
}

/// Names every parameter that differs, up to a few.
fn compare(wanted: &[ParamSpec], found: &[(String, Vec<usize>)]) -> Result<(), Unlike> {
    let there = |name: &str| found.iter().find(|(found, _)| found == name).map(|(_, shape)| shape);
    let mut differences = Vec::new();
    for spec in wanted {
        match there(&spec.name) {
            Some(shape) if **shape == spec.shape[..] => {}
            Some(shape) => differences.push(format!("{} is {shape:?} there and {:?} here", spec.name, &spec.shape[..])),
            None => differences.push(format!("{} is missing there", spec.name)),
        }
    }
    let unknown = found.iter().filter(|(name, _)| wanted.iter().all(|spec| spec.name != *name));
    differences.extend(unknown.map(|(name, _)| format!("{name} is missing here")));
    let count = differences.len();
    if count == 0 {
        return Ok(());
    }
    let more = if count > LISTED { format!(", and {} more", count - LISTED) } else { String::new() };
    differences.truncate(LISTED);
    Err(Unlike { count, listed: differences.join(", ") + &more })
}
