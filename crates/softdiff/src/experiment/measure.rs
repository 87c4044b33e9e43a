//! A model's images and their distance to the data.

use super::ExperimentError;
use crate::data::{Dataset, Source};
use crate::inception::{Extractor, Inception, Preset};
use crate::metrics::{Distance, ImageSet, ImageSetInfo, Measured, TaskProgress, evenly_spaced};
use crate::model::{Generator, Model, batch_size};
use crate::recipe::{DataSection, SampleSection};
use softdiff_engine::Device;
use std::path::Path;

/// Directions of the sliced distance, as in `softdiff eval`.
const DIRECTIONS: usize = 500;
/// The most images of the data that samples are compared with by their pixels.
pub(super) const REFERENCE: usize = 10_000;

/// The data that samples are measured against.
pub struct ReferenceData {
    section: DataSection,
    set: ImageSet,
    distance: Distance,
}

impl ReferenceData {
    /// Loads the data, and its features where the network is there.
    pub fn load(
        section: &DataSection,
        network: Option<&Inception>,
        device: &Device,
        progress: TaskProgress<'_>,
    ) -> Result<ReferenceData, ExperimentError> {
        let loading = |done, total| progress("loading", "images", done, total);
        let source = Source::open_split(Path::new(&section.source), section.split)?;
        let set = ImageSet::of_recipe(source.load(&section.load_options(), &loading)?, section);
        let distance = match network {
            Some(network) => Distance::fid(Extractor::new(device, network, Preset::default()), &set, progress)?,
            None => {
                let reference = evenly_spaced(&set.dataset, 0, REFERENCE);
                Distance::SlicedWasserstein { reference, directions: DIRECTIONS }
            }
        };
        Ok(ReferenceData { section: section.clone(), set, distance })
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
    pub fn distance(&mut self, images: &[u8]) -> Result<Measured, ExperimentError> {
        let dataset = &self.set.dataset;
        Ok(self.distance.of(images, [dataset.height(), dataset.width(), dataset.channels()])?)
    }

    /// The same for as many images of the data that are not among those compared with; none for FID, which is compared
    /// with all of them.
    pub fn floor(&mut self, samples: usize) -> Result<Option<f64>, ExperimentError> {
        if matches!(self.distance, Distance::Fid { .. }) {
            return Ok(None);
        }
        let others = evenly_spaced(&self.set.dataset, 1, samples);
        Ok(Some(self.distance(&others)?.value))
    }
}

/// Images of a set of seeds as bytes: 0, 1, ... the first, then as many others.
pub(super) fn images(
    model: &Model,
    section: &SampleSection,
    set: usize,
    samples: usize,
    device: &Device,
    progress: TaskProgress<'_>,
) -> Result<(Vec<u8>, usize), ExperimentError> {
    let (sampler, sampling) = (section.build()?, section.sampling(&model.path)?);
    let batch = batch_size::SAMPLING.on(device).min(samples.max(1));
    let precision = model.recipe.train.precision;
    let model = model.guided(section.guidance)?;
    let generation = model.generation(sampler.as_ref(), &sampling, batch);
    let mut generator = Generator::new(device, model.predictor(), &generation, precision)?;
    progress("sampling", "images", 0, samples);
    let seeds: Vec<u64> = (0..samples as u64).map(|seed| seed + (set * samples) as u64).collect();
    let mut bytes = Vec::with_capacity(samples * model.path.shape().len());
    for (part, seeds) in seeds.chunks(batch).enumerate() {
        bytes.extend(section.quantise.bytes(&generator.images(&generation, seeds, &mut |_, _| Ok(()))?));
        progress("sampling", "images", part * batch + seeds.len(), samples);
    }
    Ok((bytes, generator.evaluations()))
}
