//! How good the weights of a checkpoint are, by images made with them: the metric that decides which checkpoint is best.

mod held_out;
mod helper;

pub use held_out::HeldOutLoss;
pub(super) use helper::ScoreHelper;

use super::live_sampler::LiveSampler;
use super::{CheckpointScore, PreparedRun, RunSpec, TableError};
use crate::data::DataError;
use crate::inception::{Extractor, HOW_TO_GET, InceptionError};
use crate::metrics::{Distance, ImageSet, MetricError};
use crate::recipe::Recipe;
use crate::sampler::{Sampler, SamplerError, Sampling};
use serde::Serialize;
use softdiff_engine::ranks::Ranks;
use softdiff_engine::{Device, Hint, Params};
use std::borrow::Cow;
use std::fmt;

/// Directions of the sliced Wasserstein distance.
const DIRECTIONS: usize = 256;

/// Makes images and measures them.
pub struct Scorer<'a> {
    recipe: &'a Recipe,
    spec: RunSpec<'a>,
    sampler: Box<dyn Sampler>,
    sampling: Sampling,
    distance: Distance,
    live: LiveSampler<'a>,
}

/// What choosing the best checkpoint costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelectionCost {
    /// The metric that decides.
    pub metric: String,
    /// Checkpoints that are scored.
    pub checkpoints: u64,
    /// Images made for each, or looked at for the held-out loss.
    pub images: usize,
    /// Evaluations of the network for each image.
    pub evaluations: usize,
    /// The cost of all of them, in units of the training itself.
    pub of_training: f64,
}

/// A training step on an image costs as much as so many evaluations: one forward, and twice that backward.
const EVALUATIONS_OF_A_STEP: f64 = 3.0;

impl SelectionCost {
    /// For a recipe; none if it keeps no best checkpoint.
    pub fn of(recipe: &Recipe) -> Result<Option<SelectionCost>, SamplerError> {
        let (train, checkpoint) = (&recipe.train, &recipe.checkpoint);
        if checkpoint.keep_best == 0 {
            return Ok(None);
        }
        let metric = checkpoint.metric.clone();
        let checkpoints = train.steps.div_ceil(checkpoint.every);
        let (images, evaluations) = match metric == HeldOutLoss::METRIC {
            // As many that are trained on.
            true => (2 * checkpoint.images, 1),
            false => (checkpoint.images, recipe.sample.expected_evaluations()?),
        };
        let trained = train.steps as f64 * train.batch as f64 * EVALUATIONS_OF_A_STEP;
        let of_training = checkpoints as f64 * images as f64 * evaluations as f64 / trained.max(1.0);
        Ok(Some(SelectionCost { metric, checkpoints, images, evaluations, of_training }))
    }
}

impl fmt::Display for SelectionCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SelectionCost { metric, checkpoints, images, evaluations, of_training } = self;
        write!(
            f,
            "best of {checkpoints} checkpoints by {metric}: {images} images each in {evaluations} evaluations of the \
             network, some {of_training:.2} times the cost of the training itself"
        )
    }
}

/// Why weights could not be scored.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// A metric that training does not measure.
    #[error("checkpoint.metric {0:?} is not measured during training")]
    Unknown(String),
    /// FID without its network.
    #[error("FID needs the Inception network")]
    NoNetwork,
    /// The Inception network.
    #[error("{0}")]
    Inception(#[from] InceptionError),
    /// Sampling.
    #[error("{0}")]
    Sampler(#[from] SamplerError),
    /// Measuring.
    #[error("{0}")]
    Metric(#[from] MetricError),
    /// The images that are held out.
    #[error("{0}")]
    Data(#[from] DataError),
    /// All images are trained on.
    #[error(
        "checkpoint.metric {:?} needs images that are not trained on, and data.split is not \"train\"",
        HeldOutLoss::METRIC
    )]
    NothingHeldOut,
    /// One image that is held out.
    #[error("the test part of the data: {file}: {reason}")]
    HeldOut {
        /// Which one.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The path.
    #[error("{0}")]
    Table(#[from] TableError),
    /// The engine.
    #[error("{0}")]
    Engine(#[from] softdiff_engine::Error),
}

impl Hint for ScoreError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            ScoreError::Unknown(_) => "give \"fid\", \"sliced-wasserstein\" or \"held-out-loss\"".into(),
            ScoreError::Data(_) => {
                "give data with a test part, such as softdiff data prepare --crops --held-out makes, or another checkpoint.metric"
                    .into()
            }
            ScoreError::NothingHeldOut => "set data.split to \"train\", or give another checkpoint.metric".into(),
            ScoreError::HeldOut { .. } => "fetch or remove the image, or give another checkpoint.metric".into(),
            ScoreError::Table(error) => return error.hint(),
            ScoreError::NoNetwork => HOW_TO_GET.into(),
            _ => return None,
        })
    }
}

impl<'a> Scorer<'a> {
    /// The scorer that the recipe's `[checkpoint]` asks for; `network` is needed for FID.
    pub fn new(
        prepared: &'a PreparedRun,
        device: &'a Device,
        network: Option<Extractor>,
    ) -> Result<Scorer<'a>, ScoreError> {
        Scorer::with_ranks(prepared, device, network, &Ranks::default())
    }

    /// The same on rank 0, where the other ranks have a [`ScoreHelper`].
    pub(super) fn with_ranks(
        prepared: &'a PreparedRun,
        device: &'a Device,
        network: Option<Extractor>,
        ranks: &Ranks,
    ) -> Result<Scorer<'a>, ScoreError> {
        let (checkpoint, sample) = (&prepared.recipe.checkpoint, &prepared.recipe.sample);
        let dataset = &prepared.dataset;
        let distance = match (checkpoint.metric.as_str(), network) {
            ("sliced-wasserstein", _) => {
                let reference =
                    dataset.pixels()[..checkpoint.images.min(dataset.len()) * dataset.picture_size()].to_vec();
                Distance::SlicedWasserstein { reference, directions: DIRECTIONS }
            }
            ("fid", Some(network)) => {
                let network = network.with_ranks(ranks.clone());
                let reference = ImageSet::of_recipe(dataset.clone(), &prepared.recipe.data);
                Distance::fid(network, &reference, &|_, _, _, _| {})?
            }
            ("fid", None) => return Err(ScoreError::NoNetwork),
            (other, _) => return Err(ScoreError::Unknown(other.to_owned())),
        };
        let (sampler, sampling) = (sample.build()?, sample.sampling(&prepared.path)?);
        let (recipe, spec, live) = (&prepared.recipe, prepared.spec()?, LiveSampler::new(device, ranks.clone()));
        Ok(Scorer { recipe, spec, sampler, sampling, distance, live })
    }

    /// The metric of the images that these weights make from seeds 0, 1, ...
    pub fn score(&mut self, weights: &Params<f32>) -> Result<CheckpointScore, ScoreError> {
        let (dataset, count) = (self.spec.dataset, self.recipe.checkpoint.images);
        let quantise = |images: &[f64]| self.recipe.sample.quantise.bytes(images);
        let by = (self.sampler.as_ref(), &self.sampling);
        let images = self.live.images(&self.spec, weights, by, count, quantise)?;
        let size = [dataset.height(), dataset.width(), dataset.channels()];
        let value = self.distance.of(&images, size)?.value;
        Ok(CheckpointScore { metric: self.recipe.checkpoint.metric.clone(), value, images: count as u64 })
    }
}
