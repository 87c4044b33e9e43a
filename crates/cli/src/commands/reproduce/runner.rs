//! Runs any experiment: train every model, measure it at every setting, keep what is done.

use super::budget::Budget;
use super::measure::{REFERENCE, Reference, images, spread};
use super::plan::Entry;
use super::results::{Levels, Results, Row};
use super::{beside, drawing, page, table};
use crate::atomic_file::save;
use crate::commands::train;
use crate::diagnostics::{Failure, Outcome};
use softdiff::engine::Device;
use softdiff::experiment::{Experiment, GaussianImages, Setting, Show, reflected};
use softdiff::image::to_unit;
use softdiff::inception::Inception;
use softdiff::model::{CheckpointChoice, Model};
use softdiff::recipe::{Recipe, SampleSection};
use softdiff::run::{RunFolder, StopRequest};
use softdiff::schedule::Schedule;
use softdiff::spectrum::Spectrum;
use softdiff::train::PreparedRun;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Times at which a schedule is drawn.
const TIMES: usize = 200;

/// Everything an experiment is run with.
pub struct Job {
    pub experiment: &'static Experiment,
    pub entries: Vec<Entry>,
    pub budget: Budget,
    /// Images behind each number, if that was asked for.
    pub samples: Option<usize>,
    /// Sets of sampling seeds behind each number.
    pub seeds: usize,
    /// The FID network; without it pixels are compared.
    pub network: Option<Inception>,
    /// The experiment's folder.
    pub folder: PathBuf,
    pub device: Device,
    pub stop: StopRequest,
    /// As it was typed.
    pub command: String,
    pub json: bool,
}

impl Job {
    /// Does what is left to do, then writes the tables and the page; gives the names of these files.
    pub fn run(&self) -> Result<(Results, Vec<String>), Failure> {
        std::fs::create_dir_all(self.folder.join("figures")).map_err(|error| {
            Failure::new(format!("cannot make {}: {error}", self.folder.display())).hint("give another --out")
        })?;
        let mut results = self.begin()?;
        let mut reference: Option<Reference> = None;
        for entry in &self.entries {
            self.say(&format!("{} {}", self.experiment.name, entry.name));
            let mut recipe = entry.recipe.clone();
            let mut run = self.run_folder(entry);
            if !self.experiment.trains() {
                let prepared = self.prepare(&run, recipe)?;
                if self.experiment.exact {
                    self.measure_exactly(entry, &prepared, &mut results)?;
                }
            } else {
                recipe.train.steps = results.steps;
                match beside::trained(&self.folder, &run, &recipe) {
                    Some(other) => {
                        self.say(&format!("the same model is there, trained: {}", other.display()));
                        run = other;
                    }
                    None => drop(self.train(entry, recipe)?),
                }
                if reference.as_ref().is_none_or(|known| !known.is_of(&entry.recipe.data)) {
                    reference = Some(Reference::load(&entry.recipe.data, self.network.as_ref(), &self.device)?);
                }
                if let Some(reference) = &mut reference {
                    results.reference = reference.words();
                    results.floor = reference.floor(results.samples)?;
                    self.measure(entry, &run, reference, &mut results)?;
                }
            }
            if self.experiment.shows.contains(&Show::Schedules) {
                let levels = self.levels(entry, &run)?;
                results.schedules.retain(|old| old.variant != levels.variant);
                results.schedules.push(levels);
            }
        }
        results.rows = self.in_order(&results);
        results.write(&self.results_file())?;
        let files = self.publish(&results)?;
        Ok((results, files))
    }

    /// The measurements of this experiment, as its table has them.
    fn in_order(&self, results: &Results) -> Vec<Row> {
        let settings = |entry: &'_ Entry| {
            let all = entry.variant.settings.iter().map(|setting| sampling(entry, setting));
            all.map(|section| (entry.name.clone(), section)).collect::<Vec<_>>()
        };
        let all = self.entries.iter().flat_map(settings);
        all.filter_map(|(name, section)| results.find(&name, &section.sampler, section.steps).cloned()).collect()
    }

    pub(super) fn results_file(&self) -> PathBuf {
        self.folder.join("results.json")
    }

    /// The run of a model, if it is trained for this experiment.
    fn run_folder(&self, entry: &Entry) -> PathBuf {
        self.folder.join(&entry.name)
    }

    pub(super) fn say(&self, text: &str) {
        if !self.json {
            eprintln!("== {text}");
        }
    }

    pub(super) fn train(&self, entry: &Entry, recipe: Recipe) -> Result<softdiff::train::Finished, Failure> {
        train::perform(recipe, &self.run_folder(entry), &self.device, Some(self.stop.clone()), self.json)
    }

    /// Only the schedule and the prior.
    fn prepare(&self, run: &Path, recipe: Recipe) -> Result<PreparedRun, Failure> {
        let folder = RunFolder::new(run);
        let lock = folder.lock()?;
        let mut watcher = train::Terminal::new(Some(self.stop.clone()), self.json);
        train::prepare(recipe, &folder, &lock, &mut watcher)
    }

    /// Measures a schedule at every setting with the exact denoiser.
    fn measure_exactly(&self, entry: &Entry, prepared: &PreparedRun, results: &mut Results) -> Outcome {
        let (shape, Some(schedule)) = (prepared.path.shape(), &prepared.schedule) else { return Ok(()) };
        let path = reflected(&prepared.recipe, schedule)?;
        let images = to_unit(&spread(&prepared.dataset, 0, REFERENCE));
        let gaussian = GaussianImages::new(&Spectrum::of_images(shape, &images, false)?)?;
        results.reference = format!("the spectrum of {} images of {shape}", images.len() / shape.len());
        for setting in entry.variant.settings {
            let begun = Instant::now();
            let section = sampling(entry, setting);
            let value = gaussian.distance(&path, section.build()?.as_ref(), &section.sampling(&path)?)?;
            results.put(Row {
                variant: entry.name.clone(),
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

    /// Measures a model where it was not yet, and draws what belongs to it.
    fn measure(&self, entry: &Entry, run: &Path, reference: &mut Reference, results: &mut Results) -> Outcome {
        let last = Model::open_at(run, None, CheckpointChoice::Last)?.step;
        if last != results.steps {
            return Err(self.too_long(last, results.steps));
        }
        let model = Model::open(run, None)?;
        let shape = model.path.shape();
        for setting in entry.variant.settings {
            let section = sampling(entry, setting);
            let figure = |kind: &str| self.folder.join("figures").join(page::file_name(entry, &section, kind));
            if results.find(&entry.name, &section.sampler, section.steps).is_some() && figure("samples").is_file() {
                continue;
            }
            let begun = Instant::now();
            let mut values = Vec::with_capacity(self.seeds);
            let (bytes, evaluations) = images(&model, &section, 0, results.samples, &self.device, &self.stop)?;
            let (value, error) = reference.distance(&bytes)?;
            values.push(value);
            for set in 1..self.seeds {
                let (bytes, _) = images(&model, &section, set, results.samples, &self.device, &self.stop)?;
                values.push(reference.distance(&bytes)?.0);
            }
            let seconds = begun.elapsed().as_secs_f64();
            let (value, error) = match over_seeds(&values) {
                Some((mean, deviation)) => (mean, Some(deviation)),
                None => (value, error),
            };
            let mut memorised = None;
            for show in self.experiment.shows {
                match show {
                    Show::Paths => drawing::paths(&figure("paths"), &model, reference)?,
                    Show::Means => drawing::means(&figure("means"), &model, &section, &self.device)?,
                    Show::Neighbours => {
                        memorised = Some(drawing::neighbours(&figure("neighbours"), shape, &bytes, reference)?);
                    }
                    Show::Schedules => {}
                }
            }
            drawing::samples(&figure("samples"), shape, &bytes)?;
            results.put(Row {
                variant: entry.name.clone(),
                sampler: section.sampler.clone(),
                sampler_steps: section.steps,
                evaluations,
                train_steps: model.step,
                images_seen: model.step * results.batch as u64,
                samples: results.samples,
                metric: results.metric.clone(),
                value,
                error,
                by_seed: values,
                memorised,
                seconds,
                paper: setting.paper.into(),
            });
            results.write(&self.results_file())?;
            self.say(&format!(
                "{} by {} in {} steps: {} {value:.4}",
                entry.name,
                section.sampler,
                section.steps,
                results.metric_words()
            ));
        }
        Ok(())
    }

    /// A model's schedule in numbers.
    fn levels(&self, entry: &Entry, run: &Path) -> Result<Levels, Failure> {
        let folder = RunFolder::new(run);
        let schedule = Schedule::read(&folder.schedule())?;
        let path = entry.recipe.path(schedule.shape, Some(&schedule))?;
        let (mut levels, mut noise) = (Vec::new(), Vec::new());
        for time in 0..=TIMES {
            let t = time as f64 / TIMES as f64;
            levels.push((t, path.level(t)?));
            noise.push((t, path.at(t)?.sigma));
        }
        let longest_hop = schedule.hops.iter().copied().fold(0.0, f64::max);
        let (knots, cost) = (schedule.knots.len(), schedule.path_cost);
        Ok(Levels { variant: entry.name.clone(), knots, cost, longest_hop, levels, noise })
    }

    /// The tables and the page.
    fn publish(&self, results: &Results) -> Result<Vec<String>, Failure> {
        let page = page::make(self.experiment, &self.entries, results, &self.folder)?;
        let files = [
            ("results.md", table::markdown(self.experiment, results)),
            ("results.csv", table::csv(results)),
            ("report.html", page.to_html()),
        ];
        let mut written = vec![self.results_file().display().to_string()];
        for (name, text) in files {
            let path = self.folder.join(name);
            save(&path, text.as_bytes())?;
            written.push(path.display().to_string());
        }
        Ok(written)
    }
}

/// How a model is sampled at a setting: the recipe's options, the setting's sampler and steps.
pub fn sampling(entry: &Entry, setting: &Setting) -> SampleSection {
    let usual = entry.recipe.sample.clone();
    SampleSection { sampler: setting.sampler.into(), steps: entry.steps(setting), ..usual }
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
