//! Restoring an image with a trained model.

use super::task::shape_of;
use super::{
    ImageCovariance, Observed, POOR_FIT, PathEntry, PosteriorSampler, PosteriorSamples, RestoreError, Result, Task,
    TileSize,
};
use crate::image::Picture;
use crate::model::{Model, batch_size};
use crate::recipe::SampleSection;
use crate::sampler::{Denoiser, SamplerError, Watched};
use softdiff_engine::Device;

/// How an image is restored.
///
/// ```no_run
/// use softdiff::{image, model::Model, restore::{Restoration, Task}};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Model::open("runs/first".as_ref(), None)?;
/// let image = image::decode(&std::fs::read("blurred.png")?)?;
/// let restored = Restoration::new(&model).task(Task::DEBLUR).seeds(0..4).run(&image)?;
/// println!("misfit {}, first pixel {} ± {}", restored.misfit, restored.mean[0], restored.std[0]);
/// # Ok(())
/// # }
/// ```
pub struct Restoration<'a> {
    model: &'a Model,
    task: Option<Task>,
    noise: Option<f64>,
    section: SampleSection,
    seeds: Vec<u64>,
    conditioned: bool,
    batch: Option<usize>,
    device: Option<Device>,
    stop_if: Option<&'a dyn Fn() -> bool>,
}

/// Images that explain an observation.
#[derive(Clone, Debug)]
pub struct Restored {
    /// One image per seed.
    pub samples: Vec<f64>,
    /// Their mean: the best guess in squared error.
    pub mean: Vec<f64>,
    /// The standard deviation of each value over them; zeros where there is one only.
    pub std: Vec<f64>,
    /// How far the mean, degraded again, is from what was seen, in units of its noise: about 1 where it explains it.
    pub misfit: f64,
    /// What was seen.
    pub observed: Observed,
    /// Steps of the sampler.
    pub steps: usize,
    conditioned: bool,
}

impl<'a> Restoration<'a> {
    /// With a model's own sampler, of whatever the image looks like, 8 samples.
    pub fn new(model: &'a Model) -> Restoration<'a> {
        Restoration {
            model,
            task: None,
            noise: None,
            section: model.recipe.sample.clone(),
            seeds: (0..8).collect(),
            conditioned: true,
            batch: None,
            device: None,
            stop_if: None,
        }
    }

    /// What to undo, where it is known.
    pub fn task(mut self, task: impl Into<Option<Task>>) -> Self {
        self.task = task.into();
        self
    }

    /// The standard deviation of the noise, where it is known.
    pub fn noise(mut self, noise: impl Into<Option<f64>>) -> Self {
        self.noise = noise.into();
        self
    }

    /// Sampler and steps other than the recipe's.
    pub fn sampling(mut self, section: SampleSection) -> Self {
        self.section = section;
        self
    }

    /// One sample for each.
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = u64>) -> Self {
        self.seeds = seeds.into_iter().collect();
        self
    }

    /// Goes back along the path without looking at the observation again; what was seen may then change.
    pub fn unconditioned(mut self, unconditioned: bool) -> Self {
        self.conditioned = !unconditioned;
        self
    }

    /// Samples at a time.
    pub fn batch(mut self, batch: impl Into<Option<usize>>) -> Self {
        self.batch = batch.into();
        self
    }

    /// Where to compute; on a GPU if there is one that works.
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Asked after every evaluation of the network; true ends the restoration by [`SamplerError::Stopped`].
    pub fn stop_if(mut self, stop: &'a dyn Fn() -> bool) -> Self {
        self.stop_if = Some(stop);
        self
    }

    /// What was seen in a degraded image.
    pub fn observe(&self, image: &Picture) -> Result<Observed> {
        self.check(self.task_of(image).observe(self.model, image, self.noise)?)
    }

    /// Degrades a clean image first.
    pub fn degrade(&self, image: &Picture) -> Result<Observed> {
        self.check(self.task_of(image).degrade(self.model, image, self.noise)?)
    }

    fn task_of(&self, image: &Picture) -> Task {
        self.task.clone().unwrap_or_else(|| Task::guess(shape_of(image), self.model))
    }

    fn check(&self, observed: Observed) -> Result<Observed> {
        match !self.conditioned && observed.entry == PathEntry::Beginning {
            true => Err(RestoreError::NeverEntered),
            false => Ok(observed),
        }
    }

    /// Restores a degraded image.
    pub fn run(&self, image: &Picture) -> Result<Restored> {
        self.restore(self.observe(image)?, &mut |_, _| {})
    }

    /// Restores what was observed; `progress` takes what is done and all there is to do: tiles of a photograph that is computed
    /// in tiles ([`Restoration::tiles`]), else samples.
    pub fn restore(&self, observed: Observed, progress: &mut dyn FnMut(usize, usize)) -> Result<Restored> {
        let device = match &self.device {
            Some(device) => device.clone(),
            None => Device::open("auto")?,
        };
        let precision = self.model.recipe.train.precision;
        if observed.path.shape() != self.model.path.shape() {
            let shape = observed.path.shape();
            let size = TileSize::on(&device);
            let total = size.tiles(shape) * self.evaluations(&observed)? * self.seeds.len();
            let mut done = 0;
            let mut count = |tiles: usize| {
                done += tiles;
                progress(done.min(total), total);
            };
            let denoiser = self.model.tiled_denoiser(&device, shape, size, precision)?;
            return self.restore_with(&mut denoiser.reporting(&mut count), 1, observed, &mut |_, _| {});
        }
        let batch = self.batch.unwrap_or(batch_size::RESTORATION.on(&device)).clamp(1, self.seeds.len().max(1));
        let mut denoiser = self.model.denoiser(&device, batch, precision)?;
        self.restore_with(&mut denoiser, batch, observed, progress)
    }

    /// In how many tiles a photograph is computed on a device; none where the model takes it whole, as it takes its own images.
    pub fn tiles(&self, observed: &Observed, device: &Device) -> Option<usize> {
        let shape = observed.path.shape();
        (shape != self.model.path.shape()).then(|| TileSize::on(device).tiles(shape))
    }

    /// The same with a denoiser of the caller's, which takes `batch` images at a time.
    pub fn restore_with(
        &self,
        denoiser: &mut dyn Denoiser,
        batch: usize,
        observed: Observed,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Restored> {
        let observation = &observed.observation;
        let spread = ImageCovariance::fitting(observation)?;
        let sampler = self.section.build()?;
        let posterior = PosteriorSampler {
            path: &observed.path,
            prior: &self.model.prior,
            sampler: sampler.as_ref(),
            steps: self.section.steps,
            entry: observed.entry,
            spread: self.conditioned.then_some(&spread),
            batch,
        };
        let look = |_: &[f64]| match self.stop_if.is_some_and(|stop| stop()) {
            true => Err(SamplerError::Stopped),
            false => Ok(()),
        };
        let mut denoiser = Watched { inner: denoiser, look };
        let PosteriorSamples { samples, mean, std } =
            posterior.run(&mut denoiser, observation, &self.seeds, progress)?;
        let (misfit, steps) = (observation.misfit(&mean)?, posterior.sampling()?.times.len() - 1);
        Ok(Restored { samples, mean, std, misfit, observed, steps, conditioned: self.conditioned })
    }

    /// Evaluations of the network for each sample.
    pub fn evaluations(&self, observed: &Observed) -> Result<usize> {
        let start = observed.entry.time();
        let steps = super::posterior::steps_from(start, self.section.steps)?;
        Ok(steps * self.section.build()?.evaluations())
    }
}

impl Restored {
    /// The standard deviations as an image, the largest of them white.
    pub fn spread(&self) -> Vec<f64> {
        let largest = self.std.iter().copied().fold(0.0, f64::max);
        self.std.iter().map(|std| if largest > 0.0 { std / largest } else { 0.0 }).collect()
    }

    /// What to say of a restored image that does not explain what was seen, and what to do about it.
    pub fn warning(&self) -> Option<(String, &'static str)> {
        let problem = format!(
            "the restored image, degraded again, differs from the picture by {:.1} times its noise (about 1 is expected): \
             do not trust it",
            self.misfit
        );
        let remedy = match self.conditioned {
            false => "leave --free out, so that the image is taken into account at every step",
            true => "the image was degraded in another way; try another --boundary, --level, --noise or --corruption",
        };
        (self.misfit > POOR_FIT).then_some((problem, remedy))
    }
}
