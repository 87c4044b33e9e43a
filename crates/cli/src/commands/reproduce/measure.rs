//! A model's images and their distance to the data.

use crate::diagnostics::Failure;
use crate::progress::{Progress, Tasks};
use softdiff::data::{Dataset, Source};
use softdiff::engine::Device;
use softdiff::inception::{Extractor, Inception, Preset};
use softdiff::metrics::{Distance, ImageSet, ImageSetInfo, Measured, evenly_spaced};
use softdiff::model::{Generator, Model, batch_size};
use softdiff::recipe::{DataSection, SampleSection};
use softdiff::run::{StopRequest, Stopped};
use softdiff::train::numbers;
use std::path::Path;

/// Directions of the sliced distance, as in `softdiff eval`.
const DIRECTIONS: usize = 500;
/// The most images of the data that samples are compared with by their pixels.
pub const REFERENCE: usize = 10_000;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Metric {
    /// Fréchet Inception distance; needs the network.
    Fid,
    /// Sliced Wasserstein distance of the pixels.
    SlicedWasserstein,
}

impl Metric {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Fid => "fid",
            Metric::SlicedWasserstein => "sliced-wasserstein",
        }
    }
}

/// The data that samples are measured against.
pub struct Reference {
    section: DataSection,
    set: ImageSet,
    distance: Distance,
}

impl Reference {
    /// Loads the data, and its features where the network is there.
    pub fn load(section: &DataSection, network: Option<&Inception>, device: &Device) -> Result<Reference, Failure> {
        let tasks = Tasks::default();
        let loading = |done, total| tasks.update("loading", "images", done, total);
        let source = Source::open_split(Path::new(&section.source), section.split)?;
        let set = ImageSet::of_recipe(source.load(&section.load_options(), &loading)?, section);
        let progress = |task, unit, done, total| tasks.update(task, unit, done, total);
        let distance = match network {
            Some(network) => Distance::fid(Extractor::new(device, network, Preset::default()), &set, &progress)?,
            None => {
                let reference = evenly_spaced(&set.dataset, 0, REFERENCE);
                Distance::SlicedWasserstein { reference, directions: DIRECTIONS }
            }
        };
        Ok(Reference { section: section.clone(), set, distance })
    }

    /// All of it.
    pub fn dataset(&self) -> &Dataset {
        &self.set.dataset
    }

    /// Number, size, part and hash.
    pub fn words(&self) -> String {
        let ImageSetInfo { count, size: [width, height, channels], split, hash, .. } = &self.set.info;
        let used = match self.distance {
            Distance::Fid { .. } => *count,
            Distance::SlicedWasserstein { .. } => REFERENCE.min(count / 2).max(1),
        };
        format!("{used} of {count} images of {height}x{width}x{channels}, part {split}, {hash}")
    }

    /// Whether this is the data of that section.
    pub fn is_of(&self, section: &DataSection) -> bool {
        self.section == *section
    }

    /// The distance of 8-bit images, and its error where that is known.
    pub fn distance(&mut self, images: &[u8]) -> Result<Measured, Failure> {
        let dataset = &self.set.dataset;
        Ok(self.distance.of(images, [dataset.height(), dataset.width(), dataset.channels()])?)
    }

    /// The same for as many images of the data that are not among those compared with; none for FID, which is compared
    /// with all of them.
    pub fn floor(&mut self, samples: usize) -> Result<Option<f64>, Failure> {
        if matches!(self.distance, Distance::Fid { .. }) {
            return Ok(None);
        }
        let others = evenly_spaced(&self.set.dataset, 1, samples);
        Ok(Some(self.distance(&others)?.value))
    }
}

/// Images of a set of seeds as bytes: 0, 1, ... the first, then as many others; a signal ends it between two batches.
pub fn images(
    model: &Model,
    section: &SampleSection,
    set: usize,
    samples: usize,
    device: &Device,
    stop: &StopRequest,
) -> Result<(Vec<u8>, usize), Failure> {
    let (sampler, sampling) = (section.build()?, section.sampling(&model.path)?);
    let batch = batch_size::SAMPLING.on(device).min(samples.max(1));
    let precision = numbers(model.recipe.train.precision);
    let generation = model.generation(sampler.as_ref(), &sampling, batch);
    let mut generator = Generator::new(device, model.predictor(), &generation, precision)?;
    let progress = Progress::new("sampling", "images");
    let seeds: Vec<u64> = (0..samples as u64).map(|seed| seed + (set * samples) as u64).collect();
    let mut bytes = Vec::with_capacity(samples * model.path.shape().len());
    for (part, seeds) in seeds.chunks(batch).enumerate() {
        if let Some(signal) = stop.signal() {
            let checkpoint = "the model".to_owned();
            return Err(Stopped { signal, step: model.step, checkpoint }.into());
        }
        bytes.extend(section.quantise.bytes(&generator.images(&generation, seeds, &mut |_, _| {})?));
        progress.update(part * batch + seeds.len(), samples);
    }
    Ok((bytes, generator.evaluations()))
}
