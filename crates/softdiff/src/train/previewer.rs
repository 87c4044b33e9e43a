//! Previews: a sheet of images from fixed noise, as a file of the run.

use super::live_sampler::LiveSampler;
use super::recorder::Recorder;
use super::{RunSpec, RunStore, TrainError};
use crate::checkpoint::TrainingState;
use crate::image::{from_unit, grid};
use crate::run::EventKind;
use crate::sampler::SamplerError;
use softdiff_engine::{Device, Hint};

/// Makes the previews of a run.
pub(super) struct Previewer<'a> {
    spec: &'a RunSpec<'a>,
    store: Option<RunStore<'a>>,
    sampler: LiveSampler<'a>,
}

impl<'a> Previewer<'a> {
    pub(super) fn new(spec: &'a RunSpec, store: Option<RunStore<'a>>, device: &'a Device) -> Previewer<'a> {
        Previewer { spec, store, sampler: LiveSampler::new(device) }
    }

    /// Writes the sheet of these weights. Without a store there is no place for it.
    pub(super) fn show(&mut self, state: &TrainingState, recorder: &mut Recorder) -> Result<(), TrainError> {
        let (Some(preview), Some(store)) = (&self.spec.preview, self.store) else { return Ok(()) };
        let by = (preview.sampler.as_ref(), &preview.sampling);
        let images = match self.sampler.images(self.spec, state.averaged(), by, preview.images, from_unit) {
            Ok(images) => images,
            // Whether training goes on is decided by the guard; a preview must not end the run.
            Err(error @ SamplerError::NotFinite { .. }) => {
                return recorder.warn(format!("no preview: {}", error.in_full()));
            }
            Err(error) => return Err(error.into()),
        };
        let shape = self.spec.path.shape();
        let (columns, zoom) = (grid::square_columns(preview.images), grid::usual_zoom(shape.width));
        let sheet = grid::compose(shape.width, shape.height, shape.channels, &images, columns, zoom);
        let name = format!("preview-{:09}.png", state.progress.step);
        store.publish(&store.folder.samples().join(&name), &sheet.to_png())?;
        recorder.event(EventKind::Preview { file: format!("samples/{name}") })
    }
}
