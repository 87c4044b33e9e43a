//! Restoring an uploaded photograph as it is, with a model that takes any size.

use super::{Hole, RestoreForm};
use crate::images::{shown, shrunk};
use crate::jobs::Job;
use serde_json::json;
use softdiff::Device;
use softdiff::corruption::Shape;
use softdiff::image::{PhotographFile, Picture, from_unit};
use softdiff::model::Model;
use softdiff::recipe::SampleSection;
use softdiff::restore::{Restoration, RestoreError, RestoreEvent};

/// Longest side of what the page shows; the file to download has every pixel.
const LONGEST_SIDE: usize = 1024;

/// What is asked for.
pub struct PhotographOrder<'a> {
    pub model: &'a Model,
    pub file: &'a PhotographFile,
    /// The photograph as the page shows it, for the rectangle.
    pub shown: &'a Picture,
    pub form: &'a RestoreForm,
}

impl PhotographOrder<'_> {
    /// Restores it: the best guess after each step, then samples if there are to be some, and the file.
    pub fn restore(&self, job: &Job, device: &Device) -> Result<(), RestoreError> {
        let PhotographOrder { model, file, form, .. } = *self;
        let found = &file.picture;
        let task = form.task(|hole| self.scaled(hole).mask(found))?;
        let section = SampleSection { steps: form.steps, ..model.recipe.restoring().sample };
        let stop = || job.is_cancelled();
        let restoration = Restoration::new(model)
            .task(task)
            .sampling(section)
            .guess_steps(form.steps)
            .seeds(0..form.samples as u64)
            .device(device)
            .stop_if(&stop);
        let observed = if form.degrade { restoration.degrade(found)? } else { restoration.observe(found)? };
        let Shape { height, width, channels } = observed.observation.shape();
        let wanted = if observed.task == "colourise" { channels } else { found.channels.min(channels) };
        let picture =
            |values: &[f64]| Picture { width, height, channels, pixels: from_unit(values) }.with_channels(wanted);
        let png = |values: &[f64]| shown(&shrunk(&picture(values), LONGEST_SIDE));
        job.show(json!({ "text": observed.summary() }));
        job.show(json!({ "before": png(observed.observation.values()) }));
        let restored = restoration.restore(observed, &mut |event| match event {
            RestoreEvent::Work { done, total } => job.update(done, total),
            RestoreEvent::Guess(guess) => job.show(json!({ "after": png(guess) })),
        })?;
        job.keep(file.to_png(&picture(&restored.mean)));
        if form.samples > 1 {
            job.show(json!({ "name": "where samples differ", "png": png(&restored.spread()) }));
        }
        for (index, sample) in restored.samples.chunks_exact(height * width * channels).enumerate() {
            job.show(json!({ "name": format!("sample {index}"), "png": png(sample) }));
        }
        if let Some((problem, remedy)) = restored.warning() {
            job.show(json!({ "text": format!("Warning: {problem}; {}", remedy.replace("--", "")) }));
        }
        Ok(())
    }

    /// The rectangle in pixels of the photograph itself.
    fn scaled(&self, hole: &Hole) -> Hole {
        let (large, small) = (&self.file.picture, self.shown);
        let across = |x: usize| x.saturating_mul(large.width) / small.width.max(1);
        let down = |y: usize| y.saturating_mul(large.height) / small.height.max(1);
        Hole { left: across(hole.left), top: down(hole.top), width: across(hole.width), height: down(hole.height) }
    }
}
