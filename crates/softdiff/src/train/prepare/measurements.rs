//! What is measured on a run's images before training: schedule, prior, spectrum, expected losses. What a store holds is read
//! back; what is measured anew is kept there.

use super::super::{RunStore, Watcher};
use super::PrepareError;
use crate::corruption::Shape;
use crate::data::Dataset;
use crate::image::to_unit;
use crate::objective::{SPECTRUM_IMAGES, expected_loss};
use crate::path::{Path, PathError};
use crate::prior::Prior;
use crate::recipe::{PriorSection, Recipe};
use crate::schedule::{Schedule, ScheduleProgress, plan};
use crate::spectrum::Spectrum;

/// The images of a run, and where what is measured on them is kept.
#[derive(Clone, Copy)]
pub(super) struct DataMeasurements<'a> {
    pub recipe: &'a Recipe,
    pub dataset: &'a Dataset,
    pub shape: Shape,
    pub store: Option<RunStore<'a>>,
}

impl DataMeasurements<'_> {
    /// The levels of corruption, where the path has some that are measured; `words` name the images.
    pub(super) fn schedule(
        &self,
        words: &str,
        watcher: &mut dyn Watcher,
        progress: &ScheduleProgress<'_>,
    ) -> Result<Option<Schedule>, PrepareError> {
        if let Some(store) = self.store
            && let Some(schedule) = store.folder.read_schedule()?
        {
            return Ok(Some(schedule));
        }
        let Some(schedule) = self.make_schedule(words, progress)? else { return Ok(None) };
        if let Some(store) = self.store {
            store.publish(&store.folder.schedule(), schedule.to_json().as_bytes())?;
        }
        watcher.note(&format!(
            "schedule of {} levels from {} images, {:.4} to {:.4}",
            schedule.knots.len(),
            schedule.data.images,
            schedule.knots.first().copied().unwrap_or(0.0),
            schedule.knots.last().copied().unwrap_or(0.0)
        ));
        Ok(Some(schedule))
    }

    fn make_schedule(&self, words: &str, progress: &ScheduleProgress<'_>) -> Result<Option<Schedule>, PrepareError> {
        if let Some(schedule) = self.recipe.schedule_file()? {
            return Ok(Some(schedule));
        }
        let Some(corruption) = self.recipe.corruption(self.shape)? else { return Ok(None) };
        let Some(mut request) = self.recipe.schedule_request(&*corruption, words)? else { return Ok(None) };
        request.images = request.images.min(self.dataset.len());
        Ok(Some(plan(&*corruption, self.dataset.pixels(), &request, progress)?))
    }

    /// p_1.
    pub(super) fn prior(
        &self,
        path: &Path,
        kind: &PriorSection,
        watcher: &mut dyn Watcher,
    ) -> Result<Prior, PrepareError> {
        if let Some(store) = self.store
            && store.folder.prior().exists()
        {
            return Ok(store.folder.read_prior()?);
        }
        let prior = kind.make(path, self.dataset.pixels(), self.recipe.seed)?;
        if let Some(store) = self.store {
            let bytes = prior.to_bytes().expect("a prior in memory can always be written");
            store.publish(&store.folder.prior(), &bytes)?;
        }
        watcher.note(&format!("prior: {}", kind.kind()));
        Ok(prior)
    }

    /// The spectrum of the images.
    pub(super) fn spectrum(&self) -> Result<Spectrum, PrepareError> {
        /// Enough for the variance of every frequency to be known within 3 %.
        const IMAGES: usize = 4096;
        if let Some(store) = self.store
            && let Some(spectrum) = store.folder.read_spectrum()?
        {
            return Ok(spectrum);
        }
        let images = self.spread(IMAGES);
        let spectrum = Spectrum::of_images(self.shape, &images, self.recipe.data.mirror).map_err(PathError::from)?;
        if let Some(store) = self.store {
            let bytes = spectrum.to_bytes().expect("a spectrum in memory can always be written");
            store.publish(&store.folder.spectrum(), &bytes)?;
        }
        Ok(spectrum)
    }

    /// The losses to expect over time, for a balanced weight.
    pub(super) fn expected_loss(&self, path: &Path) -> Result<Vec<f64>, PrepareError> {
        Ok(expected_loss(path, &self.spread(SPECTRUM_IMAGES))?)
    }

    /// `count` images, or all there are, from everywhere in the data set.
    fn spread(&self, count: usize) -> Vec<f64> {
        let all = self.dataset.len();
        let count = count.min(all);
        (0..count).flat_map(|i| to_unit(self.dataset.picture(i * all / count))).collect()
    }
}
