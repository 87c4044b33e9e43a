//! The evaluator: features, statistics, cache, protocol and all metrics of a set of images.

mod features;
mod likelihood;
mod pixels;

use super::statistics_file::StatisticsNote;
use super::{Evaluation, FeatureStatistics, ImageSet, Made, Metric, MetricError, Protocol, Reference};
use crate::image::Quantise;
use crate::inception::{Extractor, Inception, Preset};
use serde_json::{Value, json};
use softdiff_engine::Device;
use softdiff_engine::ranks::Ranks;
use std::collections::BTreeMap;
use std::time::Instant;

/// Sizes through which the line of FID infinity is drawn.
const POINTS: usize = 8;

/// Takes the name of a task, its unit, how much is done and how much there is to do.
pub type TaskProgress<'a> = &'a (dyn Fn(&'static str, &'static str, usize, usize) + Sync);

/// Options of the metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvaluationOptions {
    /// The most images of each set for metrics of pairs: KID, PRDC, sliced Wasserstein, and the generated ones of memorisation.
    pub samples: usize,
    /// Subsets of KID.
    pub kid_subsets: usize,
    /// Images of each set in a subset of KID.
    pub kid_subset_size: usize,
    /// Neighbours of precision, recall, density and coverage.
    pub neighbours: usize,
    /// Random directions of the sliced Wasserstein distance.
    pub directions: usize,
    /// Decides subsets and directions.
    pub seed: u64,
}

impl Default for EvaluationOptions {
    fn default() -> Self {
        EvaluationOptions {
            samples: 10_000,
            kid_subsets: 100,
            kid_subset_size: 1000,
            neighbours: 5,
            directions: 500,
            seed: 0,
        }
    }
}

/// Measures sets of images.
///
/// ```no_run
/// use softdiff::metrics::{Evaluator, ImageSet, Reference};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let network = softdiff::inception::Inception::read("inception-2015-12-05.safetensors".as_ref())?;
/// let mut evaluator = Evaluator::new(&softdiff::engine::Device::open("auto")?).with_network(&network);
/// println!("FID {}", evaluator.fid(&ImageSet::open("generated/")?, &Reference::open("photographs/")?)?);
/// # Ok(())
/// # }
/// ```
pub struct Evaluator<'a> {
    device: Device,
    extractor: Option<Extractor>,
    options: EvaluationOptions,
    progress: TaskProgress<'a>,
    /// The statistics of the last reference set.
    last: Option<(StatisticsNote, FeatureStatistics)>,
}

impl<'a> Evaluator<'a> {
    /// An evaluator of the metrics that need no network.
    pub fn new(device: &Device) -> Evaluator<'a> {
        let options = EvaluationOptions::default();
        Evaluator { device: device.clone(), extractor: None, options, progress: &|_, _, _, _| {}, last: None }
    }

    /// With the FID network, its input prepared as pytorch-fid does.
    pub fn with_network(self, network: &Inception) -> Evaluator<'a> {
        self.with_preset(network, Preset::default())
    }

    /// With the FID network and a way to prepare its input.
    pub fn with_preset(mut self, network: &Inception, preset: Preset) -> Evaluator<'a> {
        self.extractor = Some(Extractor::new(&self.device, network, preset));
        self
    }

    /// Shares the images with the other ranks, which call [`Extractor::serve`] until [`Evaluator::release`]. After the network is
    /// given.
    pub fn with_ranks(mut self, ranks: &Ranks) -> Evaluator<'a> {
        self.extractor = self.extractor.map(|extractor| extractor.with_ranks(ranks.clone()));
        self
    }

    /// Ends [`Extractor::serve`] on the other ranks.
    pub fn release(&self) -> Result<(), MetricError> {
        self.extractor.as_ref().map_or(Ok(()), |extractor| Ok(extractor.release()?))
    }

    /// With other options.
    pub fn with_options(mut self, options: EvaluationOptions) -> Evaluator<'a> {
        self.options = options;
        self
    }

    /// Reports progress.
    pub fn with_progress(mut self, progress: TaskProgress<'a>) -> Evaluator<'a> {
        self.progress = progress;
        self
    }

    /// Fréchet Inception distance.
    pub fn fid(&mut self, images: &ImageSet, reference: &Reference) -> Result<f64, MetricError> {
        Ok(self.evaluate(images, reference, &[Metric::Fid])?.results["fid"].value)
    }

    /// Measures `metrics`, and says how. Features of a reference set come from the user's cache, or are stored there.
    pub fn evaluate(
        &mut self,
        images: &ImageSet,
        reference: &Reference,
        metrics: &[Metric],
    ) -> Result<Evaluation, MetricError> {
        let start = Instant::now();
        let needs = |f: fn(Metric) -> bool| metrics.iter().any(|&metric| f(metric));
        if metrics.contains(&Metric::Likelihood) {
            return Err(MetricError::LikelihoodOfImages);
        }
        let needs_network = needs(Metric::needs_network);
        if needs_network && self.extractor.is_none() {
            return Err(MetricError::NoNetwork);
        }
        if let (Reference::Statistics { path, .. }, true) = (reference, needs(Metric::needs_reference_images)) {
            return Err(MetricError::StatisticsOnly { path: path.clone() });
        }
        reference.check_size(images)?;
        let count = images.dataset.len();
        if needs_network && count < 2 {
            return Err(MetricError::TooFew { metric: "a distance of features", found: count, least: 2 });
        }
        let extractor = self.extractor.as_ref().filter(|_| needs_network);
        let protocol = Protocol {
            images: images.info.clone(),
            reference: reference.info()?,
            quantisation: quantisation(images.made.as_ref()).into(),
            network: extractor.map_or(String::new(), |extractor| extractor.network().hash().to_string()),
            preset: extractor.map_or(String::new(), |extractor| extractor.preset().to_string()),
            options: self.protocol_options(metrics),
        };
        let mut evaluation = Evaluation::new(protocol, self.device.to_string());
        evaluation.made = images.made.clone();
        if count > 1 && (1..count).all(|index| images.dataset.picture(index) == images.dataset.picture(0)) {
            evaluation.warnings.push("all generated images are equal".into());
        }
        if let Some(extractor) = extractor {
            if !extractor.network().is_published() {
                let warning =
                    "the network's weights are not the published ones: compare only with results of this file";
                evaluation.warnings.push(warning.into());
            }
            self.measure_features(metrics, images, reference, &mut evaluation)?;
        }
        if let Reference::Images(reference) = reference {
            self.measure_pixels(metrics, &images.dataset, &reference.dataset, &mut evaluation)?;
        }
        evaluation.seconds = start.elapsed().as_secs_f64();
        Ok(evaluation)
    }

    /// The options of every number, by its name in the results.
    fn protocol_options(&self, metrics: &[Metric]) -> BTreeMap<String, Value> {
        let EvaluationOptions { samples, kid_subsets, kid_subset_size, neighbours, directions, seed } = self.options;
        let of = |metric: &Metric| match metric {
            Metric::Fid | Metric::Pairs | Metric::Likelihood => json!({}),
            Metric::FidInfinity => json!({ "points": POINTS, "seed": seed }),
            Metric::Kid => {
                json!({ "subsets": kid_subsets, "subset_size": kid_subset_size, "seed": seed, "samples": samples })
            }
            Metric::Prdc => json!({ "neighbours": neighbours, "samples": samples }),
            Metric::SlicedWasserstein => json!({ "directions": directions, "seed": seed, "samples": samples }),
            Metric::FeatureMemorisation | Metric::Memorisation => json!({ "samples": samples }),
        };
        let named = |metric: &Metric| {
            let value = of(metric);
            metric.results().iter().map(move |name| (name.to_string(), value.clone()))
        };
        metrics.iter().flat_map(named).collect()
    }
}

/// How the floats of samples became bytes.
fn quantisation(made: Option<&Made>) -> &'static str {
    match made.map(|made| made.quantise).unwrap_or_default() {
        Quantise::Round => "8 bits, floats rounded to the nearest",
        Quantise::Truncate => "8 bits, floats truncated",
    }
}
