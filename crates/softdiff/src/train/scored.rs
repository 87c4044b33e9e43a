//! A watcher that scores every checkpoint by the metric of the recipe.

use super::score::ScoreHelper;
use super::{CheckpointScore, HeldOutLoss, PreparedRun, ScoreError, Scorer, SelectionCost, TrainError, Watcher};
use crate::inception::{Extractor, Inception, Preset};
use crate::run::{Event, StopRequest};
use softdiff_engine::ranks::Ranks;
use softdiff_engine::{Device, Hint, Params};
use std::error::Error;

/// What decides which checkpoint is best.
pub(super) enum CheckpointJudge<'a> {
    /// Images made with its weights.
    Images(Box<Scorer<'a>>),
    /// Its loss on images that are held out.
    HeldOut(Box<HeldOutLoss<'a>>),
    /// What another rank does for rank 0's judge.
    Helper(Box<ScoreHelper<'a>>),
}

impl<'a> CheckpointJudge<'a> {
    fn new(
        prepared: &'a PreparedRun,
        device: &'a Device,
        network: Option<Extractor>,
        ranks: &Ranks,
    ) -> Result<CheckpointJudge<'a>, ScoreError> {
        Ok(match prepared.recipe.checkpoint.metric == HeldOutLoss::METRIC {
            true => CheckpointJudge::HeldOut(Box::new(HeldOutLoss::new(prepared, device)?)),
            false => CheckpointJudge::Images(Box::new(Scorer::with_ranks(prepared, device, network, ranks)?)),
        })
    }

    fn scores(&mut self, weights: &Params<f32>) -> Result<Vec<CheckpointScore>, ScoreError> {
        match self {
            CheckpointJudge::Images(scorer) => Ok(vec![scorer.score(weights)?]),
            CheckpointJudge::HeldOut(loss) => loss.scores(weights),
            CheckpointJudge::Helper(helper) => {
                helper.serve(weights)?;
                Ok(vec![])
            }
        }
    }
}

/// The judge that the recipe asks for; none without the network that FID needs. The other ranks help rank 0's, and take the network
/// from it; they have nothing to do for a loss on images that are held out.
pub(super) fn scorer<'a>(
    prepared: &'a PreparedRun,
    device: &'a Device,
    ranks: &Ranks,
    watcher: &mut dyn Watcher,
) -> Result<Option<CheckpointJudge<'a>>, TrainError> {
    let metric = prepared.recipe.checkpoint.metric.as_str();
    let network = match Inception::file(None).filter(|_| ranks.is_first()) {
        Some(file) if metric == "fid" => Some(Inception::read(&file).map_err(ScoreError::from)?),
        _ => None,
    };
    let network = Inception::of_first(network, ranks).map_err(ScoreError::from)?;
    let network = network.map(|network| Extractor::new(device, &network, Preset::PytorchFid));
    if !ranks.is_first() {
        let is_shared = network.is_some() || metric == "sliced-wasserstein";
        let helper = is_shared.then(|| ScoreHelper::new(prepared, device, network, ranks)).transpose()?;
        return Ok(helper.map(|helper| CheckpointJudge::Helper(Box::new(helper))));
    }
    match CheckpointJudge::new(prepared, device, network, ranks) {
        Ok(judge) => {
            if let Some(cost) = SelectionCost::of(&prepared.recipe)? {
                watcher.note(&cost.to_string());
            }
            Ok(Some(judge))
        }
        Err(error @ ScoreError::NoNetwork) => {
            watcher.note(&format!("no best checkpoint will be kept: {}", error.in_full()));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// A watcher that adds the score of each checkpoint to what another one measures.
pub(super) struct Scored<'a> {
    pub watcher: &'a mut dyn Watcher,
    pub scorer: Option<CheckpointJudge<'a>>,
}

impl Watcher for Scored<'_> {
    fn note(&mut self, message: &str) {
        self.watcher.note(message);
    }

    fn step(&mut self, done: u64, steps: u64, loss: f64) {
        self.watcher.step(done, steps, loss);
    }

    fn event(&mut self, event: &Event) {
        self.watcher.event(event);
    }

    fn evaluate(
        &mut self,
        step: u64,
        weights: &Params<f32>,
    ) -> Result<Vec<CheckpointScore>, Box<dyn Error + Send + Sync>> {
        let mut values = self.watcher.evaluate(step, weights)?;
        if let Some(scorer) = &mut self.scorer {
            values.extend(scorer.scores(weights)?);
        }
        Ok(values)
    }

    fn stop_request(&self) -> StopRequest {
        self.watcher.stop_request()
    }
}
