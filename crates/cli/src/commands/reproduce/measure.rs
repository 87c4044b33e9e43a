//! A model's images and their distance to the data.

use crate::commands::eval::features::Features;
use crate::diagnostics::Failure;
use crate::progress::Progress;
use softdiff::data::{Dataset, Source};
use softdiff::engine::Device;
use softdiff::hash;
use softdiff::inception::{Extractor, Inception, Preset};
use softdiff::metrics::{Fid, Note, Pictures, StatisticsCache, sliced_wasserstein};
use softdiff::model::{Generator, Model};
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
    /// All of it.
    pub dataset: Dataset,
    by: By,
}

// There is one of them per command.
#[allow(clippy::large_enum_variant)]
enum By {
    Features(Fid),
    Pixels(Vec<u8>),
}

impl Reference {
    /// Loads the data, and its features where the network is there.
    pub fn load(section: &DataSection, network: Option<&Inception>, device: &Device) -> Result<Reference, Failure> {
        let path = Path::new(&section.source);
        let options = section.load_options();
        let loading = Progress::new("loading", "images");
        let dataset =
            Source::open_split(path, section.split)?.load(&options, &|done, total| loading.update(done, total))?;
        drop(loading);
        let by = match network {
            Some(network) => {
                let mut extractor = Extractor::new(device, network, Preset::default());
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
                let note = Note {
                    count: dataset.len(),
                    pictures: Pictures::of(&dataset, &name, section.split, &options.transform),
                    network: hash::to_text(network.hash()),
                    preset: extractor.preset().to_string(),
                };
                let cache = StatisticsCache::new(note);
                let statistics = match cache.get() {
                    Some(statistics) => statistics,
                    None => {
                        let made = Features::of(&mut extractor, &dataset, 0, "features of the data")?.statistics;
                        cache.put(&made);
                        made
                    }
                };
                By::Features(Fid::with_statistics(extractor, &statistics)?)
            }
            None => By::Pixels(spread(&dataset, 0, REFERENCE)),
        };
        Ok(Reference { section: section.clone(), dataset, by })
    }

    /// Number, size, part and hash.
    pub fn words(&self) -> String {
        let name = Path::new(&self.section.source).file_name().unwrap_or_default().to_string_lossy();
        let transform = self.section.load_options().transform;
        let Pictures { count, size: [width, height, channels], split, hash, .. } =
            Pictures::of(&self.dataset, &name, self.section.split, &transform);
        let used = match self.by {
            By::Features(_) => count,
            By::Pixels(_) => REFERENCE.min(count / 2).max(1),
        };
        format!("{used} of {count} images of {height}x{width}x{channels}, part {split}, {hash}")
    }

    /// Whether this is the data of that section.
    pub fn is_of(&self, section: &DataSection) -> bool {
        self.section == *section
    }

    /// The distance of 8-bit pictures, and its error where that is known.
    pub fn distance(&mut self, pictures: &[u8]) -> Result<(f64, Option<f64>), Failure> {
        let (height, width, channels) = (self.dataset.height(), self.dataset.width(), self.dataset.channels());
        match &mut self.by {
            By::Features(fid) => Ok((fid.of(pictures, height, width, channels)?, None)),
            By::Pixels(reference) => {
                let size = height * width * channels;
                let (value, error) = sliced_wasserstein(pictures, reference, size, DIRECTIONS, 0)?;
                Ok((value, Some(error)))
            }
        }
    }

    /// The same for as many images of the data that are not among those compared with; none for FID, which is compared
    /// with all of them.
    pub fn floor(&mut self, samples: usize) -> Result<Option<f64>, Failure> {
        if matches!(self.by, By::Features(_)) {
            return Ok(None);
        }
        let others = spread(&self.dataset, 1, samples);
        Ok(Some(self.distance(&others)?.0))
    }
}

/// The bytes of up to half of the images, evenly spread; with the other offset, other ones.
pub fn spread(dataset: &Dataset, offset: usize, most: usize) -> Vec<u8> {
    let count = most.min(dataset.len() / 2).max(1);
    let every = dataset.len() / count;
    (0..count).flat_map(|i| dataset.picture(i * every + offset.min(every - 1))).copied().collect()
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
    let batch = if device.is_gpu() { 256 } else { 32 }.min(samples.max(1));
    let precision = numbers(model.recipe.train.precision);
    let generation = model.generation(sampler.as_ref(), &sampling, batch);
    let mut generator = Generator::new(device, model.predictor(), &generation, precision)?;
    let progress = Progress::new("sampling", "images");
    let seeds: Vec<u64> = (0..samples as u64).map(|seed| seed + (set * samples) as u64).collect();
    let mut bytes = Vec::with_capacity(samples * model.path.shape().len());
    for (part, seeds) in seeds.chunks(batch).enumerate() {
        if let Some(signal) = stop.signal() {
            let checkpoint = "the model".to_owned();
            return Err(Stopped { signal, step: model.step, checkpoint: Some(checkpoint) }.into());
        }
        bytes.extend(section.quantise.bytes(&generator.images(&generation, seeds, &mut |_, _| {})?));
        progress.update(part * batch + seeds.len(), samples);
    }
    Ok((bytes, generator.evaluations()))
}
