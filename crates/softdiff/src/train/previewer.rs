//! Previews: a sheet of images from fixed noise, as a file of the run.

use super::live_sampler::LiveSampler;
use super::recorder::Recorder;
use super::together::of_first;
use super::{RunSpec, RunStore, TrainError};
use crate::checkpoint::{Checkpoints, TrainingState, folder_name};
use crate::image::{from_unit, grid};
use crate::run::EventKind;
use crate::sampler::{Options, SamplerError, Sampling, by_name};
use softdiff_engine::ranks::Ranks;
use softdiff_engine::{Device, Hint, Params};
use std::path::PathBuf;

/// Makes the previews of a run.
pub(super) struct Previewer<'a> {
    spec: &'a RunSpec<'a>,
    store: Option<RunStore<'a>>,
    device: &'a Device,
    sampler: LiveSampler<'a>,
    /// Whether rank 0 has a store.
    is_kept: bool,
}

impl<'a> Previewer<'a> {
    pub(super) fn new(
        spec: &'a RunSpec,
        store: Option<RunStore<'a>>,
        device: &'a Device,
    ) -> Result<Previewer<'a>, TrainError> {
        let sampler = LiveSampler::new(device, spec.ranks.clone());
        let is_kept = of_first(&spec.ranks, store.is_some())?;
        Ok(Previewer { spec, store, device, sampler, is_kept })
    }

    /// The newest checkpoint of the run that makes images of finite numbers.
    pub(super) fn newest_that_samples(&mut self) -> Result<Option<PathBuf>, TrainError> {
        /// Enough to see what becomes of an image on its way.
        const STEPS: usize = 8;
        const IMAGES: usize = 4;
        let Some(store) = self.store else { return Ok(None) };
        let (fs, folder, spec) = (store.folder.fs(), store.folder.checkpoints(), self.spec);
        let all = Checkpoints::open(fs, &folder, spec.identity.clone(), spec.retention.clone())?;
        let template = Params::zeros(&spec.step()?.graph);
        let (sampler, sampling) = (by_name("heun", &Options::default())?, Sampling::uniform(STEPS)?);
        let mut live = LiveSampler::new(self.device, Ranks::default());
        for step in all.steps()?.into_iter().rev() {
            let Ok(state) = all.get(step).and_then(|stored| stored.restore(&template, &spec.adam)) else { continue };
            match live.images(spec, state.averaged(), (sampler.as_ref(), &sampling), IMAGES, from_unit) {
                Ok(_) => return Ok(Some(folder.join(folder_name(step)))),
                Err(SamplerError::NotFinite { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Writes the sheet of these weights; gives the event that says so. Without a store there is no place for it. The other ranks
    /// make a part of its images.
    pub(super) fn show(
        &mut self,
        state: &TrainingState,
        recorder: &mut Recorder,
    ) -> Result<Option<EventKind>, TrainError> {
        let Some(preview) = self.spec.preview.as_ref().filter(|_| self.is_kept) else { return Ok(None) };
        let by = (preview.sampler.as_ref(), &preview.sampling);
        let Some(store) = self.store else {
            self.sampler.serve(self.spec, state.averaged(), by, preview.images)?;
            return Ok(None);
        };
        let mut sample = || self.sampler.images(self.spec, state.averaged(), by, preview.images, from_unit);
        let images = match recorder.abandonable(state, |_| sample())? {
            Ok(images) => images,
            // Whether training goes on is decided by the guard; a preview must not end the run.
            Err(error @ SamplerError::NotFinite { .. }) => {
                return Ok(Some(EventKind::Warning { message: format!("no preview: {}", error.in_full()) }));
            }
            Err(error) => return Err(error.into()),
        };
        let shape = self.spec.path.shape();
        let (columns, zoom) = (grid::square_columns(preview.images), grid::usual_zoom(shape.width));
        let sheet = grid::compose(shape.width, shape.height, shape.channels, &images, columns, zoom);
        let name = format!("preview-{:09}.png", state.progress.step);
        store.publish(&store.folder.samples().join(&name), &sheet.to_png())?;
        Ok(Some(EventKind::Preview { file: format!("samples/{name}") }))
    }
}
