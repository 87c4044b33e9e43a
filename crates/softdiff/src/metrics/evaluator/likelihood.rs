//! Bits per dimension of images under a model.

use super::Evaluator;
use crate::metrics::{Evaluation, ImageSet, ImageSetInfo, Measured, Metric, Protocol};
use crate::model::{LikelihoodError, LikelihoodOptions, Model};
use serde_json::json;
use std::time::Instant;

impl Evaluator<'_> {
    /// Measures how likely the model finds the images, in bits per dimension.
    pub fn likelihood(
        &self,
        model: &Model,
        images: &ImageSet,
        options: &LikelihoodOptions,
    ) -> Result<Evaluation, LikelihoodError> {
        let start = Instant::now();
        let shape = model.path.shape();
        let size = [shape.width, shape.height, shape.channels];
        ImageSetInfo::check_sizes(size, images.info.size)?;
        let LikelihoodOptions { probes, tolerance, seed, batch } = *options;
        let settings = json!({ "probes": probes, "tolerance": tolerance, "seed": seed });
        let protocol = Protocol {
            images: ImageSetInfo {
                source: model.name.clone(),
                hash: format!("{} at step {}", model.weights, model.step),
                size,
                ..ImageSetInfo::default()
            },
            reference: images.info.clone(),
            quantisation: "8 bits, uniformly dequantised".into(),
            network: String::new(),
            preset: String::new(),
            options: Metric::Likelihood.results().iter().map(|name| (name.to_string(), settings.clone())).collect(),
        };
        let batch = batch.min(images.dataset.len().max(1));
        let mut denoiser = model.denoiser(&self.device, batch, model.recipe.train.precision)?;
        let update = &mut |done, total| (self.progress)("likelihood", "images", done, total);
        let options = LikelihoodOptions { batch, ..*options };
        let bits = model.bits_per_dimension(&mut denoiser, images.dataset.pixels(), &options, update)?;
        let count = bits.len() as f64;
        let mean = bits.iter().sum::<f64>() / count;
        let variance = bits.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        let evaluations = denoiser.evaluations() as f64 / count;
        let measured = Measured::new(mean).error((variance / count).sqrt()).detail("evaluations", evaluations.round());
        let mut evaluation = Evaluation::new(protocol, self.device.to_string());
        evaluation.results.insert("bits_per_dimension".into(), measured);
        let guidance = model.recipe.sample.guidance;
        if guidance != 1.0 {
            evaluation.warnings.push(format!(
                "samples of {} are guided (sample.guidance = {guidance}): this is the likelihood of the model without its guide",
                model.name
            ));
        }
        let noise = model.path.sigma(0.0);
        if noise > 0.0 {
            evaluation.warnings.push(format!(
                "the path begins with noise {noise}: this is the likelihood of images with that noise, and smaller noise allows fewer bits"
            ));
        }
        evaluation.seconds = start.elapsed().as_secs_f64();
        Ok(evaluation)
    }
}
