//! Images of a model of one size: samples, their mean and their spread, in a folder.

use super::outputs::PhotographFiles;
use super::{Restore, write};
use crate::commands::images;
use crate::diagnostics::{Failure, Outcome};
use crate::progress::Progress;
use serde_json::json;
use softdiff::corruption::Shape;
use softdiff::image::is_picture_name;
use softdiff::model::Model;
use softdiff::restore::{self, Restoration, RestoreEvent};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

impl Restore {
    /// Refuses what only photographs have.
    fn check_for_one_size(&self, model: &Model, images: &[PathBuf]) -> Outcome {
        let Shape { height, width, .. } = model.path.shape();
        if images.len() > 1 {
            let failure = Failure::new(format!("{} restores one image of {width}x{height} at a time", model.name));
            return Err(failure.hint("give one image, or a model that takes images of any size"));
        }
        for (flag, given) in [
            ("--quality", self.quality.is_some()),
            ("--samples", self.samples),
            ("--spread", self.spread),
            ("--compare", self.compare),
            ("--skip-existing", self.skip_existing),
        ] {
            if given {
                let failure =
                    Failure::new(format!("{flag} has no effect: {} makes images of {width}x{height}", model.name));
                return Err(failure
                    .hint("leave it out: the folder of --out gets the mean, the spread, each sample and a sheet"));
            }
        }
        Ok(())
    }

    pub(super) fn of_one_size(&self, model: &Model, images: &[PathBuf], json: bool) -> Outcome {
        self.check_for_one_size(model, images)?;
        let out = self.out.clone().unwrap_or_else(|| "restored".into());
        let is_file = if out.exists() { !out.is_dir() } else { is_picture_name(&out.to_string_lossy()) };
        if is_file {
            let failure = Failure::new(format!("{} is a file, and the images need a folder", out.display()));
            return Err(failure.hint("give another --out, such as restored"));
        }
        let section = self.section(model)?;
        let seeds = self.seeds.as_ref().map_or_else(|| (0..8).collect(), |seeds| seeds.0.clone());
        let files: Vec<PathBuf> = write::names(&seeds).iter().map(|name| out.join(name)).collect();
        PhotographFiles::check(&files, self.force)?;
        let picture = images::one(&images[0], self.index.unwrap_or(0))?;
        let found = Shape::new(picture.height, picture.width, picture.channels);
        let task = self.task.task(model, found, None, self.degrade)?;
        let sampler = section.sampler.clone();
        let restoration = Restoration::new(model)
            .task(task)
            .noise(self.task.noise)
            .sampling(section)
            .seeds(seeds.iter().copied())
            .unconditioned(self.free)
            .batch(self.batch.map(NonZeroUsize::get));
        let observed = if self.degrade { restoration.degrade(&picture)? } else { restoration.observe(&picture)? };
        let truth = match &self.truth {
            Some(file) => Some(restore::fitted(&images::one(file, 0)?, observed.path.shape())?),
            None => observed.truth.clone(),
        };
        let device = self.device.open()?;
        let begun = Instant::now();
        let progress = Progress::new("restoring", "samples");
        let mut update = |event: RestoreEvent| {
            if let RestoreEvent::Work { done, total } = event {
                progress.update(done, total);
            }
        };
        let restored = restoration.device(&device).restore(observed, &mut update)?;
        drop(progress);
        let seconds = begun.elapsed().as_secs_f64();
        let files = write::files(&out, &restored, truth.as_deref(), &seeds)?;
        let scores = truth.as_deref().map(|truth| restored.scores(truth)).transpose()?;
        let (warning, steps, seen) = (restored.warning(), restored.steps, &restored.observed);
        let (start, noise) = (seen.entry.time(), seen.observation.sigma());
        if json {
            let facts = json!({
                "model": model.name, "step": model.step, "checkpoint": model.checkpoint, "weights": model.weights.to_string(), "task": seen.task,
                "level": seen.level, "boundary": seen.boundary, "noise": noise, "entered_at": start, "mismatch": seen.mismatch,
                "sampler": sampler, "steps": steps, "samples": seeds.len(), "seconds": seconds,
                "misfit": restored.misfit, "warning": warning.map(|(problem, remedy)| format!("{problem}; {remedy}")), "scores": scores, "files": files,
                "device": device.to_string(),
            });
            println!("{facts}");
            return Ok(());
        }
        let level = seen.level.map_or(String::new(), |level| format!(" of level {level:.3}"));
        let boundary = seen.boundary.map_or(String::new(), |edge| format!(", boundary {edge:?}").to_lowercase());
        eprintln!("{}{level}{boundary}, by {} at {}", seen.task, model.name, model.stage());
        eprintln!("noise {noise:.4}{}", if seen.noise_estimated { ", estimated from the image" } else { "" });
        eprintln!("entered at t = {start:.3}, {sampler} in {steps} steps, {seconds:.1} s on {device}");
        if let Some(scores) = scores {
            eprint!("{}", write::table(&scores));
        }
        if let Some((problem, remedy)) = warning {
            eprintln!("warning: {problem}");
            eprintln!("hint: {remedy}");
        }
        eprintln!("wrote {} images to {}; sheet.png has them all", files.len(), out.display());
        Ok(())
    }
}
