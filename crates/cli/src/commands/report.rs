//! `softdiff report`: a run as one page.

use super::device::DeviceFlag;
use crate::atomic_file::{save, save_in_folder, unwritable};
use crate::diagnostics::{Failure, Outcome};
use crate::progress::Progress;
use clap::Args;
use serde_json::json;
use softdiff::engine::{Device, suggest};
use softdiff::report::{FIGURES, Page, page};
use softdiff::run::RunFolder;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Example: the page, then one figure of it, then all of them
  softdiff report runs/first
  softdiff report runs/first --figure loss-by-time --out loss.svg
  softdiff report runs/first --figures figures/

The page needs nothing beside it: send it to anyone. --samples 0 makes it from the records alone.

Figures, where a run has what they show: samples, path, schedule, joint, hops, distances, noise, prior, loss, loss-by-time, norm,
scores, preview, samplers, means, neighbours, quality.";

/// Make report.html from a run, finished or not.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Report {
    /// The run's folder.
    run: PathBuf,
    /// Where to; the run's report.html if not given.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Images to sample for it; 0 for none.
    #[arg(long, default_value_t = 256, value_name = "COUNT")]
    samples: usize,
    /// Write this figure alone, as SVG or PNG; the names are below.
    #[arg(long, value_name = "NAME")]
    figure: Option<String>,
    /// Write every figure into this folder too.
    #[arg(long, value_name = "FOLDER")]
    figures: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceFlag,
}

impl Report {
    pub fn run(self, json: bool) -> Outcome {
        let folder = RunFolder::new(&self.run);
        if !folder.config().is_file() {
            let failure = Failure::new(format!("{} is no run: it has no config.toml", self.run.display()));
            return Err(failure.hint("give the folder that softdiff train wrote"));
        }
        // Before anything is sampled.
        let samples = match &self.figure {
            Some(name) => self.samples * usize::from(needs_samples(name)?),
            None => self.samples,
        };
        let device = self.device.open()?;
        let page = make(&folder, &device, samples)?;
        let mut written = Vec::new();
        if let Some(name) = &self.figure {
            let Some(figure) = page.figures().find(|figure| figure.name == *name) else {
                let mut names: Vec<&str> = page.figures().map(|figure| figure.name).collect();
                names.dedup();
                let failure = Failure::new(format!("the report of this run has no figure {name:?}"));
                return Err(failure.hint(format!("it has {}", names.join(", "))));
            };
            let (ending, bytes) = figure.file();
            let out = self.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.{ending}")));
            save(&out, &bytes)?;
            written.push(out);
        } else {
            let html = page.to_html();
            match &self.out {
                Some(out) => save(out, html.as_bytes())?,
                None => save_in_folder(&folder.report(), html.as_bytes())?,
            }
            written.push(self.out.clone().unwrap_or_else(|| folder.report()));
        }
        if let Some(to) = &self.figures {
            written.extend(save_figures(&page, to)?);
        }
        let written: Vec<String> = written.iter().map(|file| file.display().to_string()).collect();
        if json {
            println!("{}", json!({ "run": self.run.display().to_string(), "files": written }));
        } else {
            written.iter().for_each(|file| eprintln!("wrote {file}"));
        }
        Ok(())
    }
}

/// Whether a figure of that name is of samples; an error where there is no such figure.
fn needs_samples(name: &str) -> Result<bool, Failure> {
    let names = || FIGURES.iter().map(|(known, _)| *known);
    FIGURES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, sampled)| *sampled)
        .ok_or_else(|| Failure::new(format!("there is no figure {name:?}")).hint(suggest::hint(name, names())))
}

/// Makes the page, with progress.
pub fn make(folder: &RunFolder, device: &Device, samples: usize) -> Result<Page, Failure> {
    // Each begins when its first part is done, so that its rate is its own.
    let (sampling, comparing) = (OnceCell::new(), OnceCell::new());
    let mut progress = |task: &str, done: usize, total: usize| {
        let (progress, task, unit) = match task {
            "sampling" => (&sampling, "sampling", "images"),
            _ => (&comparing, "comparing samplers", "settings"),
        };
        progress.get_or_init(|| Progress::new(task, unit).continuing(done)).update(done, total);
    };
    Ok(page(folder, device, samples, &mut progress)?)
}

/// Writes each figure as a file; those of one name are numbered.
fn save_figures(page: &Page, to: &Path) -> Result<Vec<PathBuf>, Failure> {
    std::fs::create_dir_all(to).map_err(|error| unwritable(to, &error))?;
    let mut written: Vec<PathBuf> = Vec::new();
    for figure in page.figures() {
        let (ending, bytes) = figure.file();
        let name = |number: usize| match number {
            1 => to.join(format!("{}.{ending}", figure.name)),
            n => to.join(format!("{}-{n}.{ending}", figure.name)),
        };
        let Some(out) = (1..).map(name).find(|out| !written.contains(out)) else { continue };
        save(&out, &bytes)?;
        written.push(out);
    }
    Ok(written)
}
