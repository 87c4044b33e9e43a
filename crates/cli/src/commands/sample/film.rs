//! The reverse process to look at: the predicted clean images over time.

use super::write::file;
use crate::diagnostics::{Failure, Outcome};
use softdiff::corruption::Shape;
use softdiff::engine::Device;
use softdiff::engine::cuda::Numbers;
use softdiff::image::{grid, png};
use softdiff::model::{Model, to_bytes};
use softdiff::sampler::{Denoiser, Result, Sampler, Sampling, sample_watched};
use std::path::Path;

/// Images and times in the picture of means.
const ROWS: usize = 8;
const COLUMNS: usize = 12;

/// What was seen on the way.
pub struct Shown {
    shape: Shape,
    images: usize,
    /// x0_hat wherever it was asked for.
    means: Vec<Vec<f64>>,
}

/// A denoiser that remembers what it said.
struct Remembering<'a> {
    inner: &'a mut dyn Denoiser,
    means: Vec<Vec<f64>>,
}

impl Denoiser for Remembering<'_> {
    fn x0_hat(&mut self, xt: &[f64], t: f64) -> Result<Vec<f64>> {
        let mean = self.inner.x0_hat(xt, t)?;
        self.means.push(mean.clone());
        Ok(mean)
    }
}

/// Samples the first seeds once more, watching.
pub fn watch(
    device: &Device,
    model: &Model,
    sampler: &dyn Sampler,
    sampling: &Sampling,
    seeds: &[u64],
    numbers: Numbers,
) -> std::result::Result<Shown, Failure> {
    let seeds = &seeds[..seeds.len().min(ROWS)];
    let mut denoiser = model.denoiser(device, seeds.len().min(32), numbers)?;
    let mut remembering = Remembering { inner: &mut denoiser, means: vec![] };
    let x1 = model.starts(seeds);
    sample_watched(&model.path, sampler, &mut remembering, x1, seeds, sampling, &mut |_, _| {})?;
    Ok(Shown { shape: model.path.shape(), images: seeds.len(), means: remembering.means })
}

impl Shown {
    /// Writes a picture with one row per image, from the first prediction to the last.
    pub fn write(&self, path: &Path) -> Outcome {
        let Shape { height, width, channels } = self.shape;
        let size = self.shape.len();
        let mut pixels = Vec::new();
        let columns = COLUMNS.min(self.means.len());
        for image in 0..self.images {
            for column in 0..columns {
                let mean = &self.means[column * (self.means.len() - 1) / (columns - 1).max(1)];
                pixels.extend(to_bytes(&mean[image * size..(image + 1) * size]));
            }
        }
        let zoom = (64 / width.max(1)).clamp(1, 4);
        let picture = grid::compose(width, height, channels, &pixels, columns, zoom);
        file(path, &png::encode(picture.width, picture.height, picture.channels, &picture.pixels))
    }
}
