//! The network on a device: images in, features out.

use super::{FEATURES, Inception, InceptionError, Preset, graph};
use crate::model::batch_size;
use rayon::prelude::*;
use softdiff_engine::Precision;
use softdiff_engine::device::Executor;
use softdiff_engine::ranks::Ranks;
use softdiff_engine::{Device, Graph, Var};

/// Computes features as accurately as f32 does on any device, never rounded to TF32.
pub struct Extractor {
    device: Device,
    network: Inception,
    preset: Preset,
    ranks: Ranks,
    ready: Option<Ready>,
}

/// The network planned for one size of images.
struct Ready {
    size: [usize; 2],
    run: Executor,
    output: Var,
    /// Of one batch, as the network wants it.
    input: Vec<f32>,
}

impl Extractor {
    /// The network on `device`; it is planned when the first pictures come.
    pub fn new(device: &Device, network: &Inception, preset: Preset) -> Extractor {
        let (ranks, ready) = (Ranks::default(), None);
        Extractor { device: device.clone(), network: network.clone(), preset, ranks, ready }
    }

    /// Shares the images with the other ranks: rank 0 computes features as alone and then calls [`Extractor::release`], the others
    /// call [`Extractor::serve`]. They need no images.
    pub fn with_ranks(self, ranks: Ranks) -> Extractor {
        Extractor { ranks, ..self }
    }

    /// The network's weights.
    pub fn network(&self) -> &Inception {
        &self.network
    }

    /// How images are prepared.
    pub fn preset(&self) -> Preset {
        self.preset
    }

    /// Where it runs.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Features, 2048 of each image, of 8-bit images that lie one after the other (NHWC, grey or RGB).
    pub fn features(
        &mut self,
        pictures: &[u8],
        height: usize,
        width: usize,
        channels: usize,
    ) -> Result<Vec<f32>, InceptionError> {
        let mut features = Vec::with_capacity(pictures.len() / (height * width * channels).max(1) * FEATURES);
        self.each_batch(pictures, [height, width, channels], &mut |batch| {
            features.extend_from_slice(batch);
        })?;
        Ok(features)
    }

    /// Hands the features of each batch to `take`, in order, so that not all need to be in memory.
    pub fn each_batch(
        &mut self,
        pictures: &[u8],
        [height, width, channels]: [usize; 3],
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<(), InceptionError> {
        let size = height * width * channels;
        if size == 0 || !pictures.len().is_multiple_of(size) || !matches!(channels, 1 | 3) {
            return Err(InceptionError::Pictures { bytes: pictures.len(), height, width, channels });
        }
        let batch = batch_size::FEATURES.on(&self.device) * self.ranks.size();
        for pictures in pictures.chunks(batch * size) {
            if self.ranks.others().is_some() {
                let header = [height, width, channels].map(|length| (length as u32).to_le_bytes());
                self.ranks.broadcast([header.as_flattened(), pictures].concat())?;
            }
            take(&self.share(pictures, [height, width, channels])?);
        }
        Ok(())
    }

    /// Computes a part of all features that rank 0 computes, until its [`Extractor::release`].
    pub fn serve(&mut self) -> Result<(), InceptionError> {
        loop {
            let message = self.ranks.broadcast(vec![])?;
            let Some((header, pictures)) = message.split_at_checked(3 * size_of::<u32>()) else { return Ok(()) };
            let length =
                |axis: usize| header.as_chunks().0.get(axis).map_or(0, |word| u32::from_le_bytes(*word) as usize);
            self.share(pictures, [0, 1, 2].map(length))?;
        }
    }

    /// Ends [`Extractor::serve`] on the other ranks.
    pub fn release(&self) -> Result<(), InceptionError> {
        self.ranks.broadcast(vec![])?;
        Ok(())
    }

    /// Features of a batch for each rank, every rank computing its part.
    fn share(&mut self, pictures: &[u8], size: [usize; 3]) -> Result<Vec<f32>, InceptionError> {
        let length: usize = size.iter().product();
        let (count, ranks) = (pictures.len() / length, self.ranks.clone());
        let part = ranks.part(count);
        let own = self.compute(&pictures[part.start * length..part.end * length], size)?;
        if ranks.others().is_none() {
            return Ok(own);
        }
        let own = own.iter().flat_map(|value| value.to_le_bytes()).collect();
        let all = ranks.gather_parts(own, count, size_of::<f32>() * FEATURES)?;
        Ok(all.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect())
    }

    /// Features of at most one batch.
    fn compute(&mut self, pictures: &[u8], [height, width, channels]: [usize; 3]) -> Result<Vec<f32>, InceptionError> {
        if pictures.is_empty() {
            return Ok(vec![]);
        }
        let (size, preset) = (height * width * channels, self.preset);
        let ready = self.ready([height, width])?;
        // Places that a last, smaller batch leaves keep old images; their features are not handed on.
        let samples = ready.input.par_chunks_mut(height * width * 3).zip(pictures.par_chunks(size));
        samples.for_each(|(to, from)| {
            for (to, from) in to.chunks_exact_mut(3).zip(from.chunks_exact(channels)) {
                for (channel, to) in to.iter_mut().enumerate() {
                    *to = preset.value(from[channel % channels]);
                }
            }
        });
        let mut features = ready.compute()?;
        features.truncate(pictures.len() / size * FEATURES);
        Ok(features)
    }

    fn ready(&mut self, size: [usize; 2]) -> Result<&mut Ready, InceptionError> {
        let batch = batch_size::FEATURES.on(&self.device);
        let ready = match self.ready.take() {
            Some(ready) if ready.size == size => ready,
            _ => {
                let [height, width] = size;
                let mut g = Graph::new();
                let pictures = g.input("pictures", [batch, height, width, 3])?;
                let output = graph::features(&mut g, pictures, self.preset.align())?;
                let run = Executor::new(&self.device, &g, &[output], &self.network.params, Precision::F16x2, 0)?;
                Ready { size, run, output, input: vec![0.0; batch * height * width * 3] }
            }
        };
        Ok(self.ready.insert(ready))
    }
}

impl Ready {
    fn compute(&mut self) -> Result<Vec<f32>, InceptionError> {
        self.run.set("pictures", &self.input)?;
        self.run.run(0)?;
        Ok(self.run.get(self.output)?)
    }
}
