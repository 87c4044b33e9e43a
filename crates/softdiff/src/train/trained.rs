//! A finished training, and the model that came of it.

use super::{Finished, PreparedRun};
use crate::model::{Condition, Model};
use crate::recipe::Weights;

/// A finished training.
pub struct Trained {
    /// What was trained.
    pub prepared: PreparedRun,
    /// How far it got, with the weights.
    pub finished: Finished,
}

impl Trained {
    /// The trained model, with the weights that its recipe samples with.
    pub fn model(&self) -> Model {
        let PreparedRun { recipe, schedule, path, prior, network, prediction, is_described, .. } = &self.prepared;
        let state = &self.finished.state;
        let decays = &recipe.train.ema;
        let average = match recipe.sample.weights {
            Weights::Raw => None,
            Weights::Ema(wanted) => decays.iter().position(|decay| *decay == wanted),
            // An average made afterwards needs the checkpoints of a folder.
            Weights::PostHoc(_) => (!decays.is_empty()).then_some(0),
        };
        let (params, weights) = match average {
            Some(index) => (state.adam.ema[index].clone(), Weights::Ema(decays[index])),
            None => (state.params.clone(), Weights::Raw),
        };
        Model {
            name: recipe.name.clone(),
            recipe: recipe.clone(),
            path: path.clone(),
            schedule: schedule.clone(),
            prior: prior.clone(),
            network: network.clone(),
            prediction: prediction.clone(),
            condition: Condition::Time,
            params,
            guide: None,
            weights,
            step: self.finished.step,
            checkpoint: None,
            is_described: *is_described,
        }
    }
}
