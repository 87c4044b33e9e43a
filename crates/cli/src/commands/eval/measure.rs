//! Computes what was asked for, each thing once: features, statistics, then the numbers.

use super::Measure;
use super::metric::Metric;
use super::sets::{Reference, Set};
use crate::atomic_file;
use crate::diagnostics::Failure;
use crate::progress::Progress;
use serde_json::{Value, json};
use softdiff::data::Dataset;
use softdiff::hash;
use softdiff::inception::{Extractor, FEATURES};
use softdiff::metrics::{
    Evaluation, FidReference, KidOptions, Measured, MetricError, Note, Protocol, Statistics, StatisticsCache,
    fid_infinity, kid, memorisation, nearest, prdc, psnr, sliced_wasserstein, ssim,
};
use std::collections::BTreeMap;
use std::time::Instant;

/// Below this many pictures FID is dominated by its bias.
const FEW: usize = 10_000;
/// Sizes through which the line of FID infinity is drawn.
const POINTS: usize = 8;
/// What equal pictures count for in a mean of PSNR, whose true value is infinite.
const PSNR_OF_EQUALS: f64 = 100.0;

/// Features of a set: all of them where they are needed, and always their statistics.
struct Features {
    statistics: Statistics,
    /// Of the first so many pictures.
    rows: Vec<f32>,
}

/// Everything that was asked for.
pub fn all(flags: &Measure) -> Result<Evaluation, Failure> {
    let start = Instant::now();
    let metrics = Metric::expand(&flags.metrics);
    let device = flags.device.open()?;
    let needs = |f: fn(Metric) -> bool| metrics.iter().any(|&metric| f(metric));
    // The network first: a wrong file should not cost the time of decoding.
    let network = if needs(Metric::needs_network) { Some(flags.network()?) } else { None };
    let (images, reference) = flags.sets.load()?;
    if let (Reference::Statistics { path, .. }, true) = (&reference, needs(Metric::needs_reference_pictures)) {
        let failure = Failure::new(format!("{} holds statistics, which are enough for fid alone", path.display()));
        return Err(failure.hint("give the data set itself, or --metrics fid,fid-infinity"));
    }
    let protocol = Protocol {
        images: images.pictures.clone(),
        reference: reference.pictures()?,
        quantisation: "8 bits".into(),
        network: network.as_ref().map_or(String::new(), |network| hash::to_text(network.hash())),
        preset: if network.is_some() { flags.preset.to_string() } else { String::new() },
        options: options(flags, &metrics),
    };
    let mut evaluation = Evaluation::new(protocol, device.to_string());
    if let Some(network) = network {
        if !network.is_published() {
            let warning =
                "the network's weights are not the published ones: compare only with results of the same file";
            evaluation.warnings.push(warning.into());
        }
        let mut extractor = Extractor::new(&device, &network, flags.preset);
        of_features(flags, &metrics, &mut extractor, &images, &reference, &mut evaluation)?;
    }
    if let Reference::Set(reference) = &reference {
        of_pixels(flags, &metrics, &images.dataset, &reference.dataset, &mut evaluation)?;
    }
    evaluation.seconds = start.elapsed().as_secs_f64();
    Ok(evaluation)
}

/// The options of every number, by its name in the results.
fn options(flags: &Measure, metrics: &[Metric]) -> BTreeMap<String, Value> {
    let (seed, samples) = (flags.seed, flags.samples);
    let mut options = BTreeMap::new();
    for metric in metrics {
        let (names, value): (&[&str], Value) = match metric {
            Metric::Fid => (&["fid"], json!({})),
            Metric::FidInfinity => (&["fid_infinity"], json!({ "points": POINTS, "seed": seed })),
            Metric::Kid => {
                let (subsets, size) = (flags.kid_subsets, flags.kid_subset_size);
                (&["kid"], json!({ "subsets": subsets, "subset_size": size, "seed": seed, "samples": samples }))
            }
            Metric::Prdc => (
                &["precision", "recall", "density", "coverage"],
                json!({ "neighbours": flags.neighbours, "samples": samples }),
            ),
            Metric::SlicedWasserstein => {
                (&["sliced_wasserstein"], json!({ "directions": flags.directions, "seed": seed, "samples": samples }))
            }
            Metric::Memorisation => (&["memorisation"], json!({ "samples": samples, "space": "pixels" })),
            Metric::Pairs | Metric::All => (&["psnr", "ssim"], json!({})),
        };
        options.extend(names.iter().map(|name| (name.to_string(), value.clone())));
    }
    options
}

fn of_features(
    flags: &Measure,
    metrics: &[Metric],
    extractor: &mut Extractor,
    images: &Set,
    reference: &Reference,
    evaluation: &mut Evaluation,
) -> Result<(), Failure> {
    let wants = |metric: Metric| metrics.contains(&metric);
    let of_pairs = metrics.iter().any(|metric| metric.needs_reference_features());
    let kept = if wants(Metric::FidInfinity) {
        usize::MAX
    } else if of_pairs {
        flags.samples
    } else {
        0
    };
    let generated = features(extractor, &images.dataset, kept, "features of the images")?;
    let real = reference_features(flags, extractor, reference, if of_pairs { flags.samples } else { 0 })?;
    let first = |rows: &[f32]| rows.len().min(flags.samples.saturating_mul(FEATURES));
    let results = &mut evaluation.results;
    if wants(Metric::Fid) || wants(Metric::FidInfinity) {
        let factored = FidReference::new(&real.statistics)?;
        let plain = factored.distance(&generated.statistics)?;
        if wants(Metric::Fid) {
            results.insert("fid".into(), Measured::new(plain));
            let count = images.dataset.len();
            if count < FEW {
                evaluation.warnings.push(format!(
                    "FID of {count} pictures is much larger than of 50000, the usual number; compare only equal numbers, or measure fid-infinity"
                ));
            }
        }
        if wants(Metric::FidInfinity) {
            let progress = Progress::new("FID infinity", "points");
            let update = |done, total| progress.update(done, total);
            let found = fid_infinity(&generated.rows, FEATURES, &factored, POINTS, flags.seed, &update)?;
            let measured = Measured::new(found.value).error(found.error).detail("points", json!(found.points));
            results.insert("fid_infinity".into(), measured);
        }
    }
    let (generated, real) = (&generated.rows[..first(&generated.rows)], &real.rows[..first(&real.rows)]);
    if wants(Metric::Kid) {
        let options = KidOptions { subsets: flags.kid_subsets, subset_size: flags.kid_subset_size, seed: flags.seed };
        let found = kid(generated, real, FEATURES, options)?;
        let measured = Measured::new(found.value).error(found.deviation).detail("subset_size", found.subset_size);
        results.insert("kid".into(), measured);
    }
    if wants(Metric::Prdc) {
        let found = prdc(generated, real, FEATURES, flags.neighbours.into())?;
        let shares = [found.precision, found.recall, found.density, found.coverage];
        for (name, share) in ["precision", "recall", "density", "coverage"].into_iter().zip(shares) {
            results.insert(name.into(), Measured::new(share));
        }
    }
    Ok(())
}

/// Features of the reference: from a file, from the cache, or computed and then kept.
fn reference_features(
    flags: &Measure,
    extractor: &mut Extractor,
    reference: &Reference,
    kept: usize,
) -> Result<Features, Failure> {
    let (network, preset) = (hash::to_text(extractor.network().hash()), extractor.preset().to_string());
    let set = match reference {
        Reference::Set(set) => set,
        Reference::Statistics { path, statistics, note } => {
            let made =
                note.as_ref().map(|note| [("network", &note.network, &network), ("preset", &note.preset, &preset)]);
            if let Some((field, found, expected)) =
                made.into_iter().flatten().find(|(_, found, wanted)| found != wanted)
            {
                let (found, expected) = (found.clone(), expected.clone());
                return Err(MetricError::StatisticsProtocol { path: path.clone(), field, found, expected }.into());
            }
            return Ok(Features { statistics: (**statistics).clone(), rows: vec![] });
        }
    };
    let note = Note { count: set.dataset.len(), pictures: set.pictures.clone(), network, preset };
    let cache = StatisticsCache::new(note.clone());
    let cached = if kept == 0 { cache.get() } else { None };
    let features = match cached {
        Some(statistics) => Features { statistics, rows: vec![] },
        None => features(extractor, &set.dataset, kept, "features of the reference")?,
    };
    cache.put(&features.statistics);
    if let Some(path) = &flags.save_statistics {
        atomic_file::write(path, |file| features.statistics.write(file, &note)).map_err(|error| {
            Failure::new(format!("cannot write {}: {error}", path.display())).hint("check the folder")
        })?;
    }
    Ok(features)
}

/// Runs the network over a set; keeps the first `kept` rows.
fn features(
    extractor: &mut Extractor,
    dataset: &Dataset,
    kept: usize,
    task: &'static str,
) -> Result<Features, Failure> {
    let progress = Progress::new(task, "pictures");
    let mut features = Features { statistics: Statistics::new(FEATURES), rows: vec![] };
    let limit = kept.min(dataset.len()) * FEATURES;
    let mut outcome = Ok(());
    let size = [dataset.height(), dataset.width(), dataset.channels()];
    extractor.each_batch(dataset.pixels(), size, &mut |batch| {
        if outcome.is_ok() {
            outcome = features.statistics.add(batch);
        }
        features.rows.extend_from_slice(&batch[..batch.len().min(limit - features.rows.len())]);
        progress.update(features.statistics.count(), dataset.len());
    })?;
    outcome?;
    Ok(features)
}

fn of_pixels(
    flags: &Measure,
    metrics: &[Metric],
    images: &Dataset,
    reference: &Dataset,
    evaluation: &mut Evaluation,
) -> Result<(), Failure> {
    let size = images.picture_size();
    let first = |dataset: &Dataset| dataset.len().min(flags.samples) * size;
    let (some, some_reference) = (&images.pixels()[..first(images)], &reference.pixels()[..first(reference)]);
    let results = &mut evaluation.results;
    if metrics.contains(&Metric::SlicedWasserstein) {
        let (value, error) = sliced_wasserstein(some, some_reference, size, flags.directions, flags.seed)?;
        results.insert("sliced_wasserstein".into(), Measured::new(value).error(error));
    }
    if metrics.contains(&Metric::Memorisation) {
        let progress = Progress::new("nearest neighbours", "reference pictures");
        let found = nearest(some, reference.pixels(), size, &|done, total| progress.update(done, total))?;
        let sum = memorisation(&found);
        let measured =
            Measured::new(sum.share).detail("copies", sum.copies).detail("median_distance", sum.median_distance);
        results.insert("memorisation".into(), measured);
    }
    if metrics.contains(&Metric::Pairs) {
        let (left, right) = (images.len(), reference.len());
        if left != right {
            return Err(MetricError::Counts { metric: "pairs", left, right }.into());
        }
        let (mut ratios, mut similarities) = (0.0, 0.0);
        for index in 0..left {
            let (x, y) = (images.picture(index), reference.picture(index));
            ratios += psnr(x, y)?.min(PSNR_OF_EQUALS);
            similarities += ssim(x, y, images.height(), images.width(), images.channels())?;
        }
        results.insert("psnr".into(), Measured::new(ratios / left as f64));
        results.insert("ssim".into(), Measured::new(similarities / left as f64));
    }
    Ok(())
}
