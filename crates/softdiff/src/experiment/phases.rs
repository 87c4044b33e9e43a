//! The beginning of an experiment: what is known already, and how long to train.

use super::budget::{Budget, MeasuredPace, share};
use super::results::{EXACT, ExperimentResults};
use super::{ExperimentError, ExperimentHost, ExperimentRunner};
use crate::metrics::Metric;
use std::path::Path;
use std::time::Instant;

/// Steps of a first look at how long a step takes: a GPU has to run ahead before it shows its pace.
const PROBE_CPU: u64 = 12;
const PROBE_GPU: u64 = 100;

impl ExperimentRunner<'_> {
    /// What is known already, with the steps and samples of this budget.
    pub(super) fn begin<H: ExperimentHost>(&self, host: &mut H) -> Result<ExperimentResults, H::Error> {
        let metric = match (self.experiment.exact, &self.network) {
            (true, _) => EXACT,
            (false, Some(_)) => Metric::Fid.name(),
            (false, None) => Metric::SlicedWasserstein.name(),
        };
        let network = self.network.as_ref().map(|network| network.hash().to_string());
        let before = ExperimentResults::read(&self.results_file())?;
        let batch = self.models.first().map_or(1, |model| model.recipe.train.batch);
        let name = |source: &str| Path::new(source).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut data: Vec<String> = self.models.iter().map(|model| name(&model.recipe.data.source)).collect();
        data.dedup();
        let mut results = ExperimentResults {
            experiment: self.experiment.name.into(),
            paper: self.experiment.paper.into(),
            data,
            budget: self.budget.words(),
            batch,
            seeds: self.seeds,
            metric: metric.into(),
            network,
            device: self.device.to_string(),
            command: self.command.clone(),
            ..ExperimentResults::default()
        };
        let mut same = None;
        if let Some(before) = before {
            same = (before.budget == results.budget).then_some((before.steps, before.samples));
            if before.network == results.network {
                results.rows = before.rows;
            }
        }
        if !self.experiment.trains() {
            return Ok(results);
        }
        (results.steps, results.samples) = match same {
            Some((steps, samples)) if steps > 0 => (steps, self.samples.unwrap_or(samples)),
            _ => self.steps_and_samples(host, batch)?,
        };
        let trained = results.rows.iter().map(|row| row.train_steps).max().unwrap_or(0);
        if results.steps < trained {
            return Err(self.too_long(trained, results.steps).into());
        }
        // Another look at the pace would find another number. The other budgets need no note, and a wrong recipe, which
        // is found out in training, shall leave none.
        if matches!(self.budget, Budget::Minutes(_)) {
            results.write(&self.results_file())?;
        }
        Ok(results)
    }

    pub(super) fn too_long(&self, trained: u64, steps: u64) -> ExperimentError {
        ExperimentError::TrainedLonger { folder: self.folder.clone(), trained, steps }
    }

    /// Steps of each model and images behind each number.
    fn steps_and_samples<H: ExperimentHost>(&self, host: &mut H, batch: usize) -> Result<(u64, usize), H::Error> {
        let most = self.budget.usual_samples(self.device.is_gpu());
        let samples = self.samples.unwrap_or(most);
        let Some(first) = self.models.first() else { return Ok((1, samples)) };
        Ok(match self.budget {
            Budget::Images(images) => (images.div_ceil(batch as u64), samples),
            Budget::Paper | Budget::Recipe => (first.recipe.train.steps, samples),
            Budget::Minutes(minutes) => {
                host.say("measuring the pace");
                let begun = Instant::now();
                let mut recipe = first.recipe.clone();
                recipe.train.steps = if self.device.is_gpu() { PROBE_GPU } else { PROBE_CPU };
                let finished = host.train(recipe, &self.run_folder(first))?;
                let step = finished.seconds / finished.step.max(1) as f64;
                let mut total = 0;
                for model in &self.models {
                    for setting in model.variant.settings {
                        let evaluations = model.sampling(setting).expected_evaluations();
                        total += self.seeds * evaluations.map_err(ExperimentError::from)?;
                    }
                }
                let preparation = (begun.elapsed().as_secs_f64() - finished.seconds).max(0.0);
                let pace = MeasuredPace { step, preparation, batch, models: self.models.len(), evaluations: total };
                let (steps, samples) = share(60.0 * minutes, &pace, self.samples, most);
                host.say(&format!("{step:.3} s per step: {steps} steps for each model, {samples} images per number"));
                // The pace was measured on steps that are done.
                (steps.max(finished.step), samples)
            }
        })
    }
}
