//! An experiment as seen on a terminal: training with progress, figures and tables as files.

use super::{drawing, page, table};
use crate::atomic_file::save_in_folder;
use crate::commands::train;
use crate::diagnostics::{Failure, Outcome};
use softdiff::engine::Device;
use softdiff::experiment::{
    Experiment, ExperimentHost, ExperimentResults, ExperimentRunner, FigureInputs, PlannedModel, Show,
};
use softdiff::model::CheckpointChoice;
use softdiff::recipe::{Recipe, SampleSection};
use softdiff::run::{RunFolder, StopRequest};
use softdiff::train::{Finished, PreparedRun};
use std::path::{Path, PathBuf};

/// Trains with progress on standard error, and draws into the experiment's folder.
pub struct ExperimentTerminal {
    pub experiment: &'static Experiment,
    pub folder: PathBuf,
    pub device: Device,
    pub stop: StopRequest,
    pub json: bool,
}

impl ExperimentTerminal {
    fn figure(&self, model: &PlannedModel, sampling: &SampleSection, kind: &str) -> PathBuf {
        self.folder.join("figures").join(page::file_name(model, sampling, kind))
    }

    /// Writes the tables and the page; gives the names of all files.
    pub fn publish(&self, runner: &ExperimentRunner<'_>, results: &ExperimentResults) -> Result<Vec<String>, Failure> {
        let page = page::make(self.experiment, &runner.models, results, &self.folder)?;
        let files = [
            ("results.md", table::markdown(self.experiment, results)),
            ("results.csv", table::csv(results)),
            ("report.html", page.to_html()),
        ];
        let mut written = vec![runner.results_file().display().to_string()];
        for (name, text) in files {
            let path = self.folder.join(name);
            save_in_folder(&path, text.as_bytes())?;
            written.push(path.display().to_string());
        }
        Ok(written)
    }
}

impl ExperimentHost for ExperimentTerminal {
    type Error = Failure;

    fn say(&mut self, text: &str) {
        if !self.json {
            eprintln!("== {text}");
        }
    }

    fn train(&mut self, recipe: Recipe, run: &Path) -> Result<Finished, Failure> {
        let finished = train::perform(recipe, run, CheckpointChoice::Usual, &self.device, &self.stop, self.json)?;
        self.stop.check()?;
        Ok(finished)
    }

    fn prepare(&mut self, recipe: Recipe, run: &Path) -> Result<PreparedRun, Failure> {
        let folder = RunFolder::new(run);
        let lock = folder.lock()?;
        let mut watcher = train::Terminal::new(self.stop.clone(), self.json);
        train::prepare(recipe, &folder, &lock, &mut watcher)
    }

    fn has_figures(&self, model: &PlannedModel, sampling: &SampleSection) -> bool {
        self.figure(model, sampling, "samples").is_file()
    }

    fn draw(&mut self, inputs: &FigureInputs<'_>) -> Outcome {
        let FigureInputs { planned, model, sampling, images, reference, .. } = *inputs;
        let figure = |kind: &str| self.figure(planned, sampling, kind);
        for show in self.experiment.shows {
            match show {
                Show::Paths => drawing::paths(&figure("paths"), model, reference)?,
                Show::Means => drawing::means(&figure("means"), model, sampling, &self.device)?,
                Show::Neighbours => drawing::neighbours(&figure("neighbours"), inputs)?,
                Show::Schedules => {}
            }
        }
        drawing::samples(&figure("samples"), model.path.shape(), images)
    }
}
