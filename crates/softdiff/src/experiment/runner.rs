//! Runs any experiment: train every model, measure it at every setting, keep what is done.

use super::measure::{REFERENCE, ReferenceData, images};
use super::results::{ExperimentResults, MeasurementRow, ScheduleLevels};
use super::{Budget, Experiment, ExperimentError, GaussianImages, PlannedModel, Show, reflected, reuse};
use crate::image::to_unit;
use crate::inception::Inception;
use crate::metrics::{Measured, Nearest, TaskProgress, evenly_spaced, memorisation, nearest};
use crate::model::{CheckpointChoice, Model};
use crate::recipe::{Recipe, SampleSection};
use crate::run::RunFolder;
use crate::schedule::Schedule;
use crate::spectrum::Spectrum;
use crate::train::{Finished, PreparedRun, Training};
use softdiff_engine::Device;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Times at which a schedule is drawn.
const TIMES: usize = 200;

/// Everything an experiment is run with.
pub struct ExperimentRunner<'a> {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// Its models, as [`Experiment::plan`] gives them.
    pub models: Vec<PlannedModel>,
    /// How long to train.
    pub budget: Budget,
    /// Images behind each number, if not what the budget allows.
    pub samples: Option<usize>,
    /// Sets of sampling seeds behind each number.
    pub seeds: usize,
    /// The FID network; without it pixels are compared.
    pub network: Option<Inception>,
    /// The experiment's folder.
    pub folder: PathBuf,
    /// Where to compute.
    pub device: Device,
    /// The command, for the record.
    pub command: String,
    /// How far long tasks are.
    pub progress: TaskProgress<'a>,
}

/// Who runs an experiment: trains its models, draws its figures and receives its progress.
pub trait ExperimentHost {
    /// The host's own errors.
    type Error: From<ExperimentError>;

    /// A line about what happens next.
    fn say(&mut self, _text: &str) {}

    /// Trains the run of a recipe in its folder, or continues it.
    fn train(&mut self, recipe: Recipe, run: &Path) -> Result<Finished, Self::Error> {
        Ok(Training::of(recipe).run_in(run).map_err(ExperimentError::from)?.finished)
    }

    /// Makes only the schedule and the prior of a run.
    fn prepare(&mut self, recipe: Recipe, run: &Path) -> Result<PreparedRun, Self::Error> {
        Ok(Training::of(recipe).prepare_in(run).map_err(ExperimentError::from)?)
    }

    /// Whether the figures of a measurement are there already.
    fn has_figures(&self, _model: &PlannedModel, _sampling: &SampleSection) -> bool {
        true
    }

    /// Draws the figures of a measurement.
    fn draw(&mut self, _drawing: &FigureInputs<'_>) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// What figures are drawn of.
pub struct FigureInputs<'a> {
    /// The model's part in the experiment.
    pub planned: &'a PlannedModel,
    /// The trained model.
    pub model: &'a Model,
    /// How it was sampled.
    pub sampling: &'a SampleSection,
    /// The samples of the first set of seeds, as bytes.
    pub images: &'a [u8],
    /// The data.
    pub reference: &'a ReferenceData,
    /// The nearest training images of the samples, where the experiment shows them.
    pub nearest: &'a [Nearest],
}

impl ExperimentRunner<'_> {
    /// Does what is left to do, and writes `results.json` after every measurement.
    pub fn run<H: ExperimentHost>(&self, host: &mut H) -> Result<ExperimentResults, H::Error> {
        let figures = self.folder.join("figures");
        std::fs::create_dir_all(figures)
            .map_err(|error| ExperimentError::Folder { folder: self.folder.clone(), error })?;
        let mut results = self.begin(host)?;
        let mut reference: Option<ReferenceData> = None;
        for model in &self.models {
            host.say(&format!("{} {}", self.experiment.name, model.name));
            let mut recipe = model.recipe.clone();
            let mut run = self.run_folder(model);
            if !self.experiment.trains() {
                let prepared = host.prepare(recipe, &run)?;
                if self.experiment.exact {
                    self.measure_exactly(model, &prepared, &mut results)?;
                }
            } else {
                recipe.train.steps = results.steps;
                match reuse::trained(&self.folder, &run, &recipe) {
                    Some(other) => {
                        host.say(&format!("the same model is there, trained: {}", other.display()));
                        run = other;
                    }
                    None => drop(host.train(recipe, &run)?),
                }
                let data = &model.recipe.data;
                let reference = match reference.take().filter(|known| known.is_of(data)) {
                    Some(known) => reference.insert(known),
                    None => {
                        let network = self.network.as_ref();
                        reference.insert(ReferenceData::load(data, network, &self.device, self.progress)?)
                    }
                };
                results.reference = reference.words();
                results.floor = reference.floor(results.samples)?;
                self.measure(host, model, &run, reference, &mut results)?;
            }
            if self.experiment.shows.contains(&Show::Schedules) {
                let levels = self.levels(model, &run)?;
                results.schedules.retain(|old| old.variant != levels.variant);
                results.schedules.push(levels);
            }
        }
        results.rows = self.in_order(&results);
        results.write(&self.results_file())?;
        Ok(results)
    }

    /// Only trains some of the models, by their places, and measures nothing: other processes train the others.
    pub fn train_only<H: ExperimentHost>(&self, places: Range<usize>, host: &mut H) -> Result<(), H::Error> {
        std::fs::create_dir_all(&self.folder)
            .map_err(|error| ExperimentError::Folder { folder: self.folder.clone(), error })?;
        let steps = self.begin(host)?.steps;
        for model in &self.models[places] {
            host.say(&format!("{} {}", self.experiment.name, model.name));
            let (mut recipe, run) = (model.recipe.clone(), self.run_folder(model));
            if !self.experiment.trains() {
                drop(host.prepare(recipe, &run)?);
                continue;
            }
            recipe.train.steps = steps;
            if reuse::trained(&self.folder, &run, &recipe).is_none() {
                host.train(recipe, &run)?;
            }
        }
        Ok(())
    }

    /// The measurements of this experiment, as its table has them.
    fn in_order(&self, results: &ExperimentResults) -> Vec<MeasurementRow> {
        let settings = self.models.iter().flat_map(|model| model.variant.settings.iter().map(move |one| (model, one)));
        let find = |(model, setting): (&PlannedModel, _)| {
            let section = model.sampling(setting);
            results.find(&model.name, &section.sampler, section.steps).cloned()
        };
        settings.filter_map(find).collect()
    }

    /// `results.json`.
    pub fn results_file(&self) -> PathBuf {
        self.folder.join("results.json")
    }

    /// The run of a model, if it is trained for this experiment.
    pub(super) fn run_folder(&self, model: &PlannedModel) -> PathBuf {
        self.folder.join(&model.name)
    }

    /// Measures a schedule at every setting with the exact denoiser.
    fn measure_exactly(
        &self,
        model: &PlannedModel,
        prepared: &PreparedRun,
        results: &mut ExperimentResults,
    ) -> Result<(), ExperimentError> {
        let (shape, Some(schedule)) = (prepared.path.shape(), &prepared.schedule) else { return Ok(()) };
        let path = reflected(&prepared.recipe, schedule)?;
        let images = to_unit(&evenly_spaced(&prepared.dataset, 0, REFERENCE));
        let gaussian = GaussianImages::new(&Spectrum::of_images(shape, &images, false)?)?;
        results.reference = format!("the spectrum of {} images of {shape}", images.len() / shape.len());
        for setting in model.variant.settings {
            let begun = Instant::now();
            let section = model.sampling(setting);
            let value = gaussian.distance(&path, section.build()?.as_ref(), &section.sampling(&path)?)?;
            results.put(MeasurementRow {
                variant: model.name.clone(),
                sampler: section.sampler.clone(),
                sampler_steps: section.steps,
                evaluations: section.expected_evaluations()?,
                train_steps: 0,
                images_seen: 0,
                samples: 0,
                metric: results.metric.clone(),
                value,
                by_seed: vec![],
                error: None,
                memorised: None,
                seconds: begun.elapsed().as_secs_f64(),
                paper: setting.paper.into(),
            });
        }
        Ok(())
    }

    /// Measures a model where it was not yet, and has drawn what belongs to it.
    fn measure<H: ExperimentHost>(
        &self,
        host: &mut H,
        planned: &PlannedModel,
        run: &Path,
        reference: &mut ReferenceData,
        results: &mut ExperimentResults,
    ) -> Result<(), H::Error> {
        let last = Model::open_at(run, None, CheckpointChoice::Last).map_err(ExperimentError::from)?.step;
        if last != results.steps {
            return Err(self.too_long(last, results.steps).into());
        }
        let model = Model::open(run, None).map_err(ExperimentError::from)?;
        for setting in planned.variant.settings {
            let section = planned.sampling(setting);
            let known = results.find(&planned.name, &section.sampler, section.steps).is_some();
            if known && host.has_figures(planned, &section) {
                continue;
            }
            let (mut row, bytes) = self.row(&model, &section, reference, results)?;
            (row.variant, row.paper) = (planned.name.clone(), setting.paper.into());
            let mut near = vec![];
            if self.experiment.shows.contains(&Show::Neighbours) {
                let (pixels, size) = (reference.dataset().pixels(), model.path.shape().len());
                near = nearest(&bytes, pixels, size, &|_, _| {}).map_err(ExperimentError::from)?;
                row.memorised = Some(memorisation(&near).share);
            }
            host.draw(&FigureInputs {
                planned,
                model: &model,
                sampling: &section,
                images: &bytes,
                reference,
                nearest: &near,
            })?;
            let (name, value) = (results.metric_words(), row.value);
            results.put(row);
            results.write(&self.results_file())?;
            let SampleSection { sampler, steps, .. } = &section;
            host.say(&format!("{} by {sampler} in {steps} steps: {name} {value:.4}", planned.name));
        }
        Ok(())
    }

    /// One measurement, and the images of its first set of seeds.
    fn row(
        &self,
        model: &Model,
        section: &SampleSection,
        reference: &mut ReferenceData,
        results: &ExperimentResults,
    ) -> Result<(MeasurementRow, Vec<u8>), ExperimentError> {
        let begun = Instant::now();
        let sampled = |set| images(model, section, set, results.samples, &self.device, self.progress);
        let (bytes, evaluations) = sampled(0)?;
        let Measured { value, error, .. } = reference.distance(&bytes)?;
        let mut by_seed = vec![value];
        for set in 1..self.seeds {
            by_seed.push(reference.distance(&sampled(set)?.0)?.value);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let (value, error) = match over_seeds(&by_seed) {
            Some((mean, deviation)) => (mean, Some(deviation)),
            None => (value, error),
        };
        let row = MeasurementRow {
            variant: String::new(),
            sampler: section.sampler.clone(),
            sampler_steps: section.steps,
            evaluations,
            train_steps: model.step,
            images_seen: model.step * results.batch as u64,
            samples: results.samples,
            metric: results.metric.clone(),
            value,
            error,
            by_seed,
            memorised: None,
            seconds,
            paper: String::new(),
        };
        Ok((row, bytes))
    }

    /// A model's schedule in numbers.
    fn levels(&self, model: &PlannedModel, run: &Path) -> Result<ScheduleLevels, ExperimentError> {
        let folder = RunFolder::new(run);
        let schedule = Schedule::read(&folder.schedule())?;
        let path = model.recipe.path(schedule.shape, Some(&schedule))?;
        let (mut levels, mut noise) = (Vec::new(), Vec::new());
        for time in 0..=TIMES {
            let t = time as f64 / TIMES as f64;
            levels.push((t, path.level(t)?));
            noise.push((t, path.at(t)?.sigma));
        }
        let longest_hop = schedule.hops.iter().copied().fold(0.0, f64::max);
        let (knots, cost) = (schedule.knots.len(), schedule.path_cost);
        Ok(ScheduleLevels { variant: model.name.clone(), knots, cost, longest_hop, levels, noise })
    }
}

/// Mean and standard deviation, where there are several.
fn over_seeds(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (mean, (squares / (count - 1.0)).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_sets_of_seeds_have_a_mean_and_a_standard_deviation() {
        assert_eq!(over_seeds(&[3.0]), None);
        assert_eq!(over_seeds(&[1.0, 2.0, 3.0]), Some((2.0, 1.0)));
    }
}
