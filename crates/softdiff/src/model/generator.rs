//! A network on a device that makes images, alone or with the other ranks.

use super::{Generation, GraphSampler, NetworkDenoiser, Predictor, StepProgress};
use crate::sampler::{Result, SamplerError};
use softdiff_engine::ranks::Ranks;
use softdiff_engine::{Device, Params, Precision};

/// A network on a device, ready to make images: on a GPU with x_t in its memory where the sampler's steps are affine.
pub struct Generator {
    execution: Execution,
    ranks: Ranks,
    made: u64,
    evaluated: u64,
}

/// Where x_t is.
enum Execution {
    Device(Box<GraphSampler>),
    Memory(Box<NetworkDenoiser>),
}

impl Generator {
    /// Puts the network on `device`, for images as `generation` says.
    pub fn new(
        device: &Device,
        predictor: Predictor<'_>,
        generation: &Generation<'_>,
        precision: Precision,
    ) -> Result<Generator> {
        let Generation { sampler, sampling, batch, .. } = *generation;
        let batch = batch.max(1);
        let execution = if device.is_gpu() && sampler.is_affine() {
            Execution::Device(Box::new(GraphSampler::new(device, predictor, sampling, batch, precision)?))
        } else {
            Execution::Memory(Box::new(NetworkDenoiser::new(device, predictor, batch, precision)?))
        };
        Ok(Generator { execution, ranks: Ranks::default(), made: 0, evaluated: 0 })
    }

    /// Shares the work with the other ranks: rank 0 calls [`Generator::images`] and then [`Generator::release`], the others
    /// [`Generator::serve`], with the same generation and weights.
    pub fn with_ranks(self, ranks: Ranks) -> Generator {
        Generator { ranks, ..self }
    }

    /// Other weights for the same network.
    pub fn set_params(&mut self, params: &Params<f32>) -> Result<()> {
        match &mut self.execution {
            Execution::Memory(denoiser) => denoiser.set_params(params),
            Execution::Device(graph) => graph.set_params(params),
        }
    }

    /// [`Generation::images`] of the generation it was made for. `progress` is told of this rank's part.
    pub fn images(
        &mut self,
        generation: &Generation<'_>,
        seeds: &[u64],
        progress: &mut StepProgress,
    ) -> Result<Vec<f64>> {
        self.made += seeds.len() as u64;
        if self.ranks.others().is_some() && !seeds.is_empty() {
            self.ranks.broadcast(seeds.iter().flat_map(|seed| seed.to_le_bytes()).collect())?;
            if let Some(images) = self.share(generation, seeds, progress)? {
                return Ok(images);
            }
            // Images of some rank are not finite: made here, they give the error of one process.
        }
        self.make(generation, seeds, progress)
    }

    /// Makes a part of all images that rank 0 makes, until its [`Generator::release`].
    pub fn serve(&mut self, generation: &Generation<'_>) -> Result<()> {
        loop {
            let seeds = self.ranks.broadcast(vec![])?;
            if seeds.is_empty() {
                return Ok(());
            }
            let seeds: Vec<u64> = seeds.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            self.share(generation, &seeds, &mut |_, _| Ok(()))?;
        }
    }

    /// Ends [`Generator::serve`] on the other ranks.
    pub fn release(&self) -> Result<()> {
        self.ranks.broadcast(vec![])?;
        Ok(())
    }

    /// Evaluations of the network per image, counted: the mean over all images made, to the nearest whole number.
    pub fn evaluations(&self) -> usize {
        (self.evaluated as f64 / self.made.max(1) as f64).round() as usize
    }

    /// The images of these seeds, of which every rank makes its part; none where some are not finite.
    fn share(
        &mut self,
        generation: &Generation<'_>,
        seeds: &[u64],
        progress: &mut StepProgress,
    ) -> Result<Option<Vec<f64>>> {
        let before = self.evaluated;
        let made = match self.make(generation, &seeds[self.ranks.part(seeds.len())], progress) {
            Err(SamplerError::NotFinite { .. }) => None,
            made => Some(made?),
        };
        let report = [u64::from(made.is_none()), self.evaluated - before].map(u64::to_le_bytes);
        let reports = match self.ranks.others() {
            Some(others) => others.gather(report.as_flattened())?,
            None => report.as_flattened().to_vec(),
        };
        let numbers: Vec<u64> = reports.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        self.evaluated = before + numbers.iter().skip(1).step_by(2).sum::<u64>();
        let Some(made) = made.filter(|_| numbers.iter().step_by(2).all(|&bad| bad == 0)) else { return Ok(None) };
        let bytes = made.iter().flat_map(|value| value.to_le_bytes()).collect();
        let all = self.ranks.gather_parts(bytes, seeds.len(), size_of::<f64>() * generation.path.shape().len())?;
        Ok(Some(all.as_chunks().0.iter().map(|word| f64::from_le_bytes(*word)).collect()))
    }

    /// The images of these seeds, made by this rank.
    fn make(&mut self, generation: &Generation<'_>, seeds: &[u64], progress: &mut StepProgress) -> Result<Vec<f64>> {
        let before = self.execution.evaluations();
        let images = match &mut self.execution {
            Execution::Memory(denoiser) => generation.images(denoiser.as_mut(), seeds, progress),
            Execution::Device(graph) => generation.by_parts(seeds, progress, |part, after| {
                let (sampler, sampling) = (generation.sampler, generation.sampling);
                graph.sample_watched(sampler, generation.starts(part), part, sampling, after)
            }),
        };
        self.evaluated += self.execution.evaluations() - before;
        images
    }
}

impl Execution {
    fn evaluations(&self) -> u64 {
        match self {
            Execution::Memory(denoiser) => denoiser.evaluations(),
            Execution::Device(graph) => graph.evaluations(),
        }
    }
}
