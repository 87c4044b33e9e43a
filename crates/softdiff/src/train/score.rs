//! How good the weights of a checkpoint are, by images made with them: the metric that decides which checkpoint is best.

use super::{Evaluation, Prepared, numbers};
use crate::inception::Extractor;
use crate::metrics::{Fid, MetricError, sliced_wasserstein};
use crate::model::{Condition, Generation, NetworkDenoiser, Predictor};
use crate::sampler::{Sampler, SamplerError, Sampling};
use softdiff_engine::{Device, Params};

/// Images at a time.
const BATCH: usize = 64;
const DIRECTIONS: usize = 256;

/// Makes images and measures them.
pub struct Scorer<'a> {
    prepared: &'a Prepared,
    device: &'a Device,
    sampler: Box<dyn Sampler>,
    sampling: Sampling,
    images: usize,
    by: By,
    denoiser: Option<NetworkDenoiser>,
}

enum By {
    SlicedWasserstein,
    Fid(Box<Fid>),
}

/// Why weights could not be scored.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// A metric that training does not measure.
    #[error("checkpoint.metric {0:?} is not measured during training; give \"fid\" or \"sliced-wasserstein\"")]
    Unknown(String),
    /// FID without its network.
    #[error("FID needs the Inception network; name its file in SOFTDIFF_INCEPTION (docs/evaluation.md)")]
    NoNetwork,
    /// Sampling.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// Measuring.
    #[error(transparent)]
    Metric(#[from] MetricError),
}

impl<'a> Scorer<'a> {
    /// The scorer that the recipe's `[checkpoint]` asks for; `network` is needed for FID.
    pub fn new(
        prepared: &'a Prepared,
        device: &'a Device,
        network: Option<Extractor>,
    ) -> Result<Scorer<'a>, ScoreError> {
        let (checkpoint, sample) = (&prepared.recipe.checkpoint, &prepared.recipe.sample);
        let by = match (checkpoint.metric.as_str(), network) {
            ("sliced-wasserstein", _) => By::SlicedWasserstein,
            ("fid", Some(network)) => By::Fid(Box::new(Fid::new(network, &prepared.dataset)?)),
            ("fid", None) => return Err(ScoreError::NoNetwork),
            (other, _) => return Err(ScoreError::Unknown(other.to_owned())),
        };
        let (sampler, sampling) = (sample.build()?, sample.sampling(&prepared.path)?);
        Ok(Scorer { prepared, device, sampler, sampling, images: checkpoint.images, by, denoiser: None })
    }

    /// The metric of the images that these weights make from seeds 0, 1, ...
    pub fn score(&mut self, weights: &Params<f32>) -> Result<Evaluation, ScoreError> {
        let Prepared { path, prior, dataset, recipe, network, .. } = self.prepared;
        let denoiser = match &mut self.denoiser {
            Some(denoiser) => {
                denoiser.set_params(weights)?;
                denoiser
            }
            none => {
                let (path, precision) = (path.clone(), numbers(recipe.train.precision));
                let (prediction, condition) = (self.prepared.prediction(), Condition::Time);
                let predictor = Predictor { network, params: weights, prediction, condition, path };
                none.insert(NetworkDenoiser::new(self.device, predictor, BATCH.min(self.images), precision)?)
            }
        };
        let (sampler, sampling) = (self.sampler.as_ref(), &self.sampling);
        let seeds: Vec<u64> = (0..self.images as u64).collect();
        let generation = Generation { path, prior, sampler, sampling, batch: BATCH };
        let images = generation.images(denoiser, &seeds, &mut |_, _| {})?;
        let images = recipe.sample.quantise.bytes(&images);
        let value = match &mut self.by {
            By::SlicedWasserstein => {
                let size = dataset.picture_size();
                let reference = &dataset.pixels()[..self.images.min(dataset.len()) * size];
                sliced_wasserstein(&images, reference, size, DIRECTIONS, 0)?.0
            }
            By::Fid(fid) => fid.of(&images, dataset.height(), dataset.width(), dataset.channels())?,
        };
        Ok(Evaluation { metric: recipe.checkpoint.metric.clone(), value, images: self.images as u64 })
    }
}
