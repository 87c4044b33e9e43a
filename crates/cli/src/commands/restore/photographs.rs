//! Photographs of any size: one restored file for each, and more on request.

use super::outputs::PhotographFiles;
use super::preview::Preview;
use super::read::{photograph, truth};
use super::write::make_folder;
use super::{Restore, write};
use crate::atomic_file::save;
use crate::diagnostics::{Failure, Outcome};
use crate::output::counted;
use crate::progress::Progress;
use clap::ValueEnum;
use serde_json::{Value, json};
use softdiff::Device;
use softdiff::corruption::Shape;
use softdiff::image::{PhotographFile, Picture, from_unit, grid};
use softdiff::model::Model;
use softdiff::restore::{PhotoQuality, Restoration, RestoreEvent};
use std::path::PathBuf;
use std::time::Instant;

/// How much work a photograph is worth.
#[derive(Clone, Copy, Default, PartialEq, ValueEnum)]
pub enum Quality {
    /// 8 evaluations of the network.
    Fast,
    /// 16.
    #[default]
    Default,
    /// 32.
    Best,
}

impl Quality {
    /// Evaluations of the network for the restored image, and steps of each sample that is asked for.
    fn steps(self) -> usize {
        match self {
            Quality::Fast => PhotoQuality::Fast.steps(),
            Quality::Default => PhotoQuality::Default.steps(),
            Quality::Best => PhotoQuality::Best.steps(),
        }
    }
}

/// Samples that are drawn for --samples and --spread.
const SAMPLES: u64 = 4;

/// Restores photographs with one model.
pub struct Photographs<'a> {
    restore: &'a Restore,
    model: &'a Model,
    seeds: Vec<u64>,
    /// Whether each sample is written.
    samples: bool,
    steps: usize,
}

impl<'a> Photographs<'a> {
    pub fn new(restore: &'a Restore, model: &'a Model) -> Result<Photographs<'a>, Failure> {
        // Seeds are given for samples; without a look at the image the best guess is the mean of samples.
        let samples = restore.samples || restore.seeds.is_some() && !restore.spread;
        let drawn = if samples || restore.spread || restore.free { SAMPLES } else { 0 };
        let seeds = restore.seeds.as_ref().map_or_else(|| (0..drawn).collect(), |seeds| seeds.0.clone());
        check_flags(restore, !seeds.is_empty())?;
        if restore.spread && seeds.len() < 2 {
            let failure = Failure::new("one sample has no spread");
            return Err(failure.hint("give several, such as --seeds 0..4"));
        }
        let steps = restore.quality.unwrap_or_default().steps();
        let by_set = restore.set.iter().any(|set| set.trim_start().starts_with("sample.steps"));
        let of_section = restore.section(model)?.steps;
        let steps = restore.steps.unwrap_or(if by_set { of_section } else { steps });
        Ok(Photographs { restore, model, seeds, samples, steps })
    }

    /// All of them; one that fails is reported, and the others go on.
    pub fn run(&self, arguments: &[PathBuf], json: bool) -> Outcome {
        let all = PhotographFiles::all(arguments, self.restore.index, self.restore.out.as_deref())?;
        if let Some(truth) = self.restore.truth.as_ref().filter(|_| all.len() > 1) {
            let failure =
                Failure::new(format!("{} is one image, and there are {} to compare", truth.display(), all.len()));
            return Err(failure.hint("restore one image with --truth"));
        }
        let there = |files: &PhotographFiles| self.restore.skip_existing && files.restored.exists();
        let (skipped, all): (Vec<_>, Vec<_>) = all.into_iter().partition(there);
        if !skipped.is_empty() {
            eprintln!("note: {} restored already, and left out", counted(skipped.len(), "image"));
        }
        let files: Vec<PathBuf> = all.iter().flat_map(|files| self.names(files)).collect();
        PhotographFiles::check(&files, self.restore.force)?;
        PhotographFiles::check_previews(&all)?;
        let device = self.restore.device.open()?;
        let skipped =
            skipped.iter().map(|files| json!({ "image": files.image.display().to_string(), "skipped": true }));
        let (mut reports, mut failed) = (skipped.collect::<Vec<Value>>(), 0);
        for (number, files) in all.iter().enumerate() {
            let name = files.image.display().to_string();
            let place = if all.len() > 1 { format!("{} of {}, ", number + 1, all.len()) } else { String::new() };
            match self.one(files, &device, &place).map_err(|failure| failure.of(&name)) {
                Ok(facts) => reports.push(facts),
                Err(failure) if all.len() == 1 => return Err(failure),
                Err(failure) => {
                    failure.report(false);
                    let (problem, remedy) = failure.explain();
                    reports.push(json!({ "image": name, "error": problem, "hint": remedy }));
                    failed += 1;
                }
            }
        }
        let reports = Value::Array(reports);
        if failed > 0 {
            let failure = Failure::new(format!("{failed} of {} images could not be restored", all.len()));
            return Err(failure.hint("the messages above say why; the others are written").fact("images", reports));
        }
        if json {
            let model = self.model;
            println!(
                "{}",
                json!({
                    "model": model.name, "step": model.step, "checkpoint": model.checkpoint,
                    "weights": model.weights.to_string(), "device": device.to_string(), "images": reports,
                })
            );
        }
        Ok(())
    }

    /// The files that a photograph gives.
    fn names(&self, files: &PhotographFiles) -> Vec<PathBuf> {
        let mut names = vec![files.restored.clone()];
        names.extend(self.restore.spread.then(|| files.with("spread")));
        names.extend(self.restore.compare.then(|| files.with("compare")));
        let samples = self.seeds.iter().filter(|_| self.samples);
        names.extend(samples.map(|seed| files.with(&format!("sample-{seed:03}"))));
        names
    }

    fn one(&self, files: &PhotographFiles, device: &Device, place: &str) -> Result<Value, Failure> {
        let restore = self.restore;
        let file = photograph(&files.image, restore.index)?;
        let PhotographFile { picture, alpha, is_16_bit, quantization, .. } = &file;
        let found = Shape::new(picture.height, picture.width, picture.channels);
        let mut section = restore.section(self.model)?;
        section.steps = self.steps;
        let sampler = section.sampler.clone();
        let task = restore.task.task(self.model, found, *quantization, restore.degrade)?;
        let is_chosen = task.is_none();
        let restoration = Restoration::new(self.model)
            .task(task)
            .quantization(*quantization)
            .noise(restore.task.noise)
            .sampling(section)
            .seeds(self.seeds.iter().copied())
            .guess_steps(self.steps)
            .unconditioned(restore.free)
            .device(device);
        let observed = if restore.degrade { restoration.degrade(picture)? } else { restoration.observe(picture)? };
        let truth = match &restore.truth {
            Some(file) => Some(truth(file, found, observed.path.shape())?),
            None => observed.truth.clone(),
        };
        let tiles = restoration.tiles(&observed, device);
        let in_tiles = match tiles {
            None => String::new(),
            Some(1) => " in 1 tile".into(),
            Some(tiles) => format!(" in {tiles} tiles"),
        };
        eprintln!("{}: {place}{}{in_tiles}", files.image.display(), observed.summary());
        if is_chosen && observed.task != "deblur" {
            let reason = if observed.task == "denoise" { "no clear blur" } else { "strong JPEG compression" };
            eprintln!("note: chosen because the image shows {reason}; --task deblur undoes a blur nevertheless");
        }
        let channels = self.model.path.shape().channels;
        if channels < found.channels {
            eprintln!("note: {} is a model of grey images, so the colours are left out", self.model.name);
        }
        if *is_16_bit {
            eprintln!("note: of its 16 bits the high 8 are restored, and 8 are written");
        }
        if alpha.is_some() {
            eprintln!("note: the colours are restored, and the alpha channel is copied");
        }
        let begun = Instant::now();
        let progress = Progress::new("restoring", if tiles.is_some() { "tiles" } else { "samples" });
        // What was grey stays grey, unless it is to be given colours.
        let Shape { height, width, channels } = observed.observation.shape();
        let wanted = if observed.task == "colourise" { channels } else { found.channels.min(channels) };
        let shown =
            |values: &[f64]| Picture { width, height, channels, pixels: from_unit(values) }.with_channels(wanted);
        let mut preview = Preview::new(files.preview());
        let restored = restoration.restore(observed, &mut |event| match event {
            RestoreEvent::Work { done, total } => progress.update(done, total),
            RestoreEvent::Guess(guess) => preview.update(|| shown(guess).to_png()),
        })?;
        drop((progress, preview));
        let seconds = begun.elapsed().as_secs_f64();

        let seen = &restored.observed;
        let after = shown(&restored.mean);
        let mut written = Vec::new();
        let mut write = |path: PathBuf, png: Vec<u8>| -> Outcome {
            make_folder(&path)?;
            save(&path, &png)?;
            written.push(path.display().to_string());
            Ok(())
        };
        write(files.restored.clone(), file.to_png(&after))?;
        if restore.spread {
            write(files.with("spread"), shown(&restored.spread()).to_png())?;
        }
        if restore.compare {
            let both = [shown(seen.observation.values()).pixels, after.pixels].concat();
            write(files.with("compare"), grid::compose(width, height, wanted, &both, 2, 1).to_png())?;
        }
        if self.samples {
            let samples = restored.samples.chunks_exact(width * height * channels);
            for (sample, seed) in samples.zip(&self.seeds) {
                write(files.with(&format!("sample-{seed:03}")), file.to_png(&shown(sample)))?;
            }
        }
        let scores = truth.as_deref().map(|truth| restored.scores(truth)).transpose()?;
        if let Some(scores) = &scores {
            eprint!("{}", write::table(scores));
        }
        let warning = restored.warning();
        if let Some((problem, remedy)) = &warning {
            eprintln!("warning: {}: {problem}", files.image.display());
            eprintln!("hint: {remedy}");
        }
        let more = if written.len() > 1 { format!(" and {} more", written.len() - 1) } else { String::new() };
        eprintln!("wrote {}{more} in {seconds:.1} s on {device}", files.restored.display());
        Ok(json!({
            "image": files.image.display().to_string(), "task": seen.task, "width": width, "height": height, "tiles": tiles,
            "level": seen.level, "level_estimated": seen.level_estimated, "level_error": seen.level_error, "boundary": seen.boundary,
            "noise": seen.observation.sigma(), "noise_estimated": seen.noise_estimated, "noise_error": seen.noise_error,
            "entered_at": seen.entry.time(), "mismatch": seen.mismatch, "evaluations": restored.guess_steps,
            "sampler": sampler, "steps": restored.steps, "samples": self.seeds.len(), "seconds": seconds, "misfit": restored.misfit,
            "warning": warning.map(|(problem, remedy)| format!("{problem}; {remedy}")), "scores": scores, "files": written,
        }))
    }
}

/// Refuses flags that would change nothing; `draws`: there are samples.
fn check_flags(restore: &Restore, draws: bool) -> Outcome {
    let of_samples = "leave it out, or add --samples: no samples are drawn, and it is theirs";
    let of_steps = "leave it out: removing noise takes one evaluation of the network";
    let one_evaluation = restore.task.is_noise() && !draws;
    let of_steps_only = |set: &String| set.trim_start().starts_with("sample.steps");
    for (flag, refused, hint) in [
        ("--sampler", restore.sampler.is_some() && !draws, of_samples),
        ("--set", !restore.set.iter().all(of_steps_only) && !draws, of_samples),
        ("--quality", restore.quality.is_some() && one_evaluation, of_steps),
        ("--steps", restore.steps.is_some() && one_evaluation, of_steps),
        ("--batch", restore.batch.is_some(), "leave it out: photographs are computed in tiles, one sample at a time"),
    ] {
        if refused {
            return Err(Failure::new(format!("{flag} has no effect on this photograph")).hint(hint));
        }
    }
    Ok(())
}
