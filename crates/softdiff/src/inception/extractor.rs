//! The network on a device: images in, features out.

use super::{FEATURES, Inception, InceptionError, Preset, graph};
use crate::model::batch_size;
use rayon::prelude::*;
use softdiff_engine::Precision;
use softdiff_engine::device::Executor;
use softdiff_engine::{Device, Graph, Var};

/// Computes features as accurately as f32 does on any device, never rounded to TF32.
pub struct Extractor {
    device: Device,
    network: Inception,
    preset: Preset,
    ready: Option<Ready>,
}

/// The network planned for one size of images.
struct Ready {
    size: [usize; 2],
    batch: usize,
    run: Executor,
    output: Var,
    /// Of one batch, as the network wants it.
    input: Vec<f32>,
}

impl Extractor {
    /// The network on `device`; it is planned when the first pictures come.
    pub fn new(device: &Device, network: &Inception, preset: Preset) -> Extractor {
        Extractor { device: device.clone(), network: network.clone(), preset, ready: None }
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
        let preset = self.preset;
        let ready = self.ready([height, width])?;
        for pictures in pictures.chunks(ready.batch * size) {
            // Places that a last, smaller batch leaves keep old images; their features are not handed on.
            let samples = ready.input.par_chunks_mut(height * width * 3).zip(pictures.par_chunks(size));
            samples.for_each(|(to, from)| {
                for (to, from) in to.chunks_exact_mut(3).zip(from.chunks_exact(channels)) {
                    for (channel, to) in to.iter_mut().enumerate() {
                        *to = preset.value(from[channel % channels]);
                    }
                }
            });
            let features = ready.compute()?;
            take(&features[..pictures.len() / size * FEATURES]);
        }
        Ok(())
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
                Ready { size, batch, run, output, input: vec![0.0; batch * height * width * 3] }
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
