//! Computes what was asked for: the sets, their features, then the numbers.

use super::features::Features;
use super::metric::{Metric, POINTS, options};
use super::sets::{Reference, Set};
use super::{Measure, keep, pixels};
use crate::diagnostics::Failure;
use crate::progress::Progress;
use serde_json::json;
use softdiff::hash;
use softdiff::image::Quantise;
use softdiff::inception::{Extractor, FEATURES};
use softdiff::metrics::{
    Evaluation, FidReference, KidOptions, Made, Measured, MetricError, Protocol, fid, fid_infinity, kid, nearest, prdc,
};
use std::time::Instant;

/// Below this many pictures FID is dominated by its bias.
const FEW: usize = 10_000;

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
    // Both said before the features of the reference cost their time.
    if let Some(run) = &flags.run {
        keep::check(run, images.made.as_ref())?;
    }
    let count = images.dataset.len();
    if network.is_some() && count < 2 {
        return Err(MetricError::TooFew { metric: "a distance of features", found: count, least: 2 }.into());
    }
    let protocol = Protocol {
        images: images.pictures.clone(),
        reference: reference.pictures()?,
        quantisation: quantisation(images.made.as_ref()).into(),
        network: network.as_ref().map_or(String::new(), |network| hash::to_text(network.hash())),
        preset: if network.is_some() { flags.preset.to_string() } else { String::new() },
        options: options(flags, &metrics),
    };
    let mut evaluation = Evaluation::new(protocol, device.to_string());
    evaluation.made = images.made.clone();
    if count > 1 && (1..count).all(|index| images.dataset.picture(index) == images.dataset.picture(0)) {
        evaluation.warnings.push("all generated pictures are equal".into());
    }
    if let Some(network) = network {
        if !network.is_published() {
            let warning = "the network's weights are not the published ones: compare only with results of this file";
            evaluation.warnings.push(warning.into());
        }
        let mut extractor = Extractor::new(&device, &network, flags.preset);
        of_features(flags, &metrics, &mut extractor, &images, &reference, &mut evaluation)?;
    }
    if let Reference::Set(reference) = &reference {
        pixels::measure(flags, &metrics, &images.dataset, &reference.dataset, &mut evaluation)?;
    }
    evaluation.seconds = start.elapsed().as_secs_f64();
    Ok(evaluation)
}

/// How the floats of samples became bytes.
fn quantisation(made: Option<&Made>) -> &'static str {
    match made.map(|made| made.quantise).unwrap_or_default() {
        Quantise::Round => "8 bits, floats rounded to the nearest",
        Quantise::Truncate => "8 bits, floats truncated",
    }
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
    // How many features of single pictures the metrics want.
    let pairs =
        if wants(Metric::Kid) || wants(Metric::Prdc) || wants(Metric::FeatureMemorisation) { flags.samples } else { 0 };
    let kept = if wants(Metric::FidInfinity) { usize::MAX } else { pairs };
    let kept_reference = if wants(Metric::FeatureMemorisation) { usize::MAX } else { pairs };
    let generated = Features::of(extractor, &images.dataset, kept, "features of the images")?;
    let real = Features::of_reference(flags, extractor, reference, kept_reference)?;
    let results = &mut evaluation.results;
    if wants(Metric::Fid) {
        results.insert("fid".into(), Measured::new(fid(&generated.statistics, &real.statistics)?));
    }
    if wants(Metric::FidInfinity) {
        let progress = Progress::new("FID infinity", "points");
        let update = |done, total| progress.update(done, total);
        let factored = FidReference::new(&real.statistics)?;
        let found = fid_infinity(&generated.rows, FEATURES, &factored, POINTS, flags.seed, &update)?;
        let measured = Measured::new(found.value).error(found.error).detail("points", json!(found.points));
        results.insert("fid_infinity".into(), measured);
    }
    let first = |rows: &[f32]| rows.len().min(flags.samples.saturating_mul(FEATURES));
    let (some, some_real) = (&generated.rows[..first(&generated.rows)], &real.rows[..first(&real.rows)]);
    if wants(Metric::Kid) {
        let options = KidOptions { subsets: flags.kid_subsets, subset_size: flags.kid_subset_size, seed: flags.seed };
        let found = kid(some, some_real, FEATURES, options)?;
        let measured = Measured::new(found.value).error(found.deviation).detail("subset_size", found.subset_size);
        results.insert("kid".into(), measured);
    }
    if wants(Metric::Prdc) {
        let found = prdc(some, some_real, FEATURES, flags.neighbours.into())?;
        let shares = [found.precision, found.recall, found.density, found.coverage];
        for (name, share) in ["precision", "recall", "density", "coverage"].into_iter().zip(shares) {
            results.insert(name.into(), Measured::new(share));
        }
    }
    if wants(Metric::FeatureMemorisation) {
        let found = nearest(some, &real.rows, FEATURES, &|_, _| {})?;
        results.insert("feature_memorisation".into(), pixels::memorised(&found));
    }
    if wants(Metric::FidInfinity) && images.dataset.len() < FEW {
        let warning = format!(
            "FID infinity of {} pictures rests on sets of a tenth of that; its usual number is 50000",
            images.dataset.len()
        );
        evaluation.warnings.push(warning);
    }
    let (count, of_reference) = (images.dataset.len(), real.statistics.count());
    if wants(Metric::Fid) && count.min(of_reference) < FEW {
        evaluation.warnings.push(format!(
            "FID of {} pictures is much larger than of 50000, the usual number: compare only equal numbers, or measure fid-infinity",
            count.min(of_reference)
        ));
    }
    Ok(())
}
