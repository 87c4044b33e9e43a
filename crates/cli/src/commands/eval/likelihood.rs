//! Bits per dimension of pictures under a model.

use super::metric::{Metric, options};
use super::{Measure, keep};
use crate::diagnostics::Failure;
use crate::progress::Progress;
use softdiff::metrics::{Evaluation, Measured, MetricError, Pictures, Protocol};
use softdiff::model::{LikelihoodOptions, Model};
use std::time::Instant;

/// Pictures at a time, on a GPU and on a processor.
const BATCH: [usize; 2] = [64, 8];

/// Measures it.
pub fn measure(flags: &Measure) -> Result<Evaluation, Failure> {
    let start = Instant::now();
    let metrics = Metric::expand(&flags.metrics);
    if metrics.len() > 1 {
        let failure = Failure::new("likelihood is measured of a model, the other metrics of pictures");
        return Err(failure.hint("measure it alone: --metrics likelihood"));
    }
    let (place, set) = flags.sets.model_and_pictures()?;
    let model = Model::open(&place, None)?;
    if let Some(run) = &flags.run {
        keep::check(run, None)?;
    }
    let shape = model.path.shape();
    let size = [shape.width, shape.height, shape.channels];
    if set.pictures.size != size {
        let text = |size: [usize; 3]| size.map(|side| side.to_string()).join(" x ");
        return Err(MetricError::Sizes { left: text(size), right: text(set.pictures.size) }.into());
    }
    let device = flags.device.open()?;
    let protocol = Protocol {
        images: Pictures {
            source: model.name.clone(),
            hash: format!("{} at step {}", model.weights, model.step),
            size,
            ..Pictures::default()
        },
        reference: set.pictures.clone(),
        quantisation: "8 bits, uniformly dequantised".into(),
        network: String::new(),
        preset: String::new(),
        options: options(flags, &metrics),
    };
    let batch = BATCH[usize::from(!device.is_gpu())].min(set.dataset.len().max(1));
    let measured = LikelihoodOptions { probes: flags.probes, tolerance: flags.tolerance, seed: flags.seed, batch };
    let mut denoiser = model.denoiser(&device, batch, model.recipe.train.precision)?;
    let progress = Progress::new("likelihood", "pictures");
    let update = &mut |done, total| progress.update(done, total);
    let bits = model.bits_per_dimension(&mut denoiser, set.dataset.pixels(), &measured, update)?;
    drop(progress);
    let count = bits.len() as f64;
    let mean = bits.iter().sum::<f64>() / count;
    let variance = bits.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let evaluations = denoiser.evaluations() as f64 / count;
    let measured = Measured::new(mean).error((variance / count).sqrt()).detail("evaluations", evaluations.round());
    let mut evaluation = Evaluation::new(protocol, device.to_string());
    evaluation.results.insert("bits_per_dimension".into(), measured);
    let noise = model.path.sigma(0.0);
    if noise > 0.0 {
        evaluation.warnings.push(format!(
            "the path begins with noise {noise}: this is the likelihood of pictures with that noise, and smaller noise allows fewer bits"
        ));
    }
    evaluation.seconds = start.elapsed().as_secs_f64();
    Ok(evaluation)
}
