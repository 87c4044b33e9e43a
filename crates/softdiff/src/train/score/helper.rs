//! What the other ranks do for rank 0's scores.

use super::super::live_sampler::LiveSampler;
use super::super::{PreparedRun, RunSpec};
use super::ScoreError;
use crate::inception::Extractor;
use crate::sampler::{Sampler, Sampling};
use softdiff_engine::ranks::Ranks;
use softdiff_engine::{Device, Params};

/// Makes parts of the images and features of rank 0's [`Scorer`](super::Scorer).
pub(in super::super) struct ScoreHelper<'a> {
    spec: RunSpec<'a>,
    sampler: Box<dyn Sampler>,
    sampling: Sampling,
    images: usize,
    live: LiveSampler<'a>,
    /// For FID.
    extractor: Option<Extractor>,
}

impl<'a> ScoreHelper<'a> {
    /// Helps with the features of the reference, where the score is FID by this network.
    pub(in super::super) fn new(
        prepared: &'a PreparedRun,
        device: &'a Device,
        network: Option<Extractor>,
        ranks: &Ranks,
    ) -> Result<ScoreHelper<'a>, ScoreError> {
        let sample = &prepared.recipe.sample;
        let (sampler, sampling) = (sample.build()?, sample.sampling(&prepared.path)?);
        let mut extractor = network.map(|network| network.with_ranks(ranks.clone()));
        if let Some(extractor) = &mut extractor {
            extractor.serve()?;
        }
        let (spec, live) = (prepared.spec()?, LiveSampler::new(device, ranks.clone()));
        Ok(ScoreHelper { spec, sampler, sampling, images: prepared.recipe.checkpoint.images, live, extractor })
    }

    /// Helps with the score of these weights.
    pub(in super::super) fn serve(&mut self, weights: &Params<f32>) -> Result<(), ScoreError> {
        let by = (self.sampler.as_ref(), &self.sampling);
        self.live.serve(&self.spec, weights, by, self.images)?;
        match &mut self.extractor {
            Some(extractor) => Ok(extractor.serve()?),
            None => Ok(()),
        }
    }
}
