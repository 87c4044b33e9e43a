//! Restoring an image with a trained model.

use super::error::size;
use super::task::{shape_at, shape_of};
use super::{
    ImageCovariance, Observed, POOR_FIT, PathEntry, PlugAndPlay, PosteriorSampler, PosteriorSamples, RestoreError,
    Result, Task, TileSize, fitted,
};
use crate::corruption::Shape;
use crate::image::Picture;
use crate::model::{Model, batch_size};
use crate::recipe::{Recipe, RecipeError, SampleSection};
use crate::sampler::{Denoiser, SamplerError, Watched};
use softdiff_engine::{Device, memory};
use std::cell::RefCell;

/// Fresh noise per unit of time in samples of restored images: about what the reverse SDE of the photographs' path has.
const RESTORING_CHURN: f64 = 12.0;
/// Evaluations of the network for the best guess of a photograph.
const GUESS_STEPS: usize = 16;
/// Copies of an image that are in memory while it is restored, measured for every task.
const WORKING_COPIES: u64 = 24;
/// Bytes beside the copies of a photograph: those of its tiles, of threads, and of an allocator that has gaps.
const BESIDE_PHOTOGRAPHS: u64 = 256 << 20;
/// A mean chroma below this looks grey. That of coloured photographs is about 0.1.
const GREY: f64 = 5.0 / 255.0;
/// Square matrices of an image's sides, which heat dissipation is made of.
const SIDE_MATRICES: u64 = 3;

impl Recipe {
    /// The same with the sampler that images are restored by: `churn-rate`. What is known of x_0 given y is only approximately
    /// right, and fresh noise makes a sample forget the errors of earlier steps, which a deterministic sampler keeps.
    pub fn restoring(&self) -> Recipe {
        let mut recipe = self.clone();
        recipe.sample.sampler = "churn-rate".into();
        recipe.sample.churn_rate = RESTORING_CHURN;
        recipe
    }

    /// How images are restored by it, with `sets` laid over its `[sample]`: as [`Recipe::restoring`], or `freely` by the sampler
    /// of its own. Guides do not act here.
    pub fn restoring_with(&self, freely: bool, sets: &[String]) -> std::result::Result<SampleSection, RecipeError> {
        let mut recipe = if freely { self.clone() } else { self.restoring() };
        recipe.sample.guidance = 1.0;
        let section = recipe.sample_with(sets)?;
        if section.guidance != 1.0 {
            let message = "sample.guidance has no effect: restored images are not guided";
            return Err(RecipeError::whole("--set", message, "leave it out; softdiff sample takes it"));
        }
        Ok(section)
    }
}

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
    quantization: Option<[u16; 64]>,
    noise: Option<f64>,
    section: Option<SampleSection>,
    seeds: Option<Vec<u64>>,
    guess_steps: usize,
    conditioned: bool,
    batch: Option<usize>,
    device: Option<Device>,
    stop_if: Option<&'a dyn Fn() -> bool>,
}

/// What happens while an image is restored.
#[derive(Clone, Copy, Debug)]
pub enum RestoreEvent<'a> {
    /// So much is done of all there is to do: tiles of a photograph that is computed in tiles ([`Restoration::tiles`]), else
    /// samples.
    Work {
        /// Done.
        done: usize,
        /// To do.
        total: usize,
    },
    /// The best guess of a photograph so far; the last one is the result.
    Guess(&'a [f64]),
}

/// Takes each event.
pub type RestoreWatch<'a> = dyn FnMut(RestoreEvent) + 'a;

/// Images that explain an observation.
#[derive(Clone, Debug)]
pub struct Restored {
    /// One image per seed.
    pub samples: Vec<f64>,
    /// The best guess in squared error: of a model that takes any size by [plug and play](PlugAndPlay), of others the mean of
    /// the samples.
    pub mean: Vec<f64>,
    /// The standard deviation of each value over them; zeros where there is one only.
    pub std: Vec<f64>,
    /// How far the mean, degraded again, is from what was seen, in units of its noise: about 1 where it explains it.
    pub misfit: f64,
    /// What was seen.
    pub observed: Observed,
    /// Steps of the sampler.
    pub steps: usize,
    /// Evaluations of the network for a best guess that is not the mean of the samples.
    pub guess_steps: Option<usize>,
    conditioned: bool,
}

impl<'a> Restoration<'a> {
    /// With the sampler of [`Recipe::restoring`], of whatever the image looks like; 8 samples, or of a model that takes any size none.
    pub fn new(model: &'a Model) -> Restoration<'a> {
        Restoration {
            model,
            task: None,
            quantization: None,
            noise: None,
            section: None,
            seeds: None,
            guess_steps: GUESS_STEPS,
            conditioned: true,
            batch: None,
            device: None,
            stop_if: None,
        }
    }

    /// What to undo, where it is known; else it is guessed from the image.
    pub fn task(mut self, task: impl Into<Option<Task>>) -> Self {
        self.task = task.into();
        self
    }

    /// The quantization table of luma of a JPEG file, by which strong compression is recognised where no task is given.
    pub fn quantization(mut self, table: impl Into<Option<[u16; 64]>>) -> Self {
        self.quantization = table.into();
        self
    }

    /// The standard deviation of the noise, where it is known.
    pub fn noise(mut self, noise: impl Into<Option<f64>>) -> Self {
        self.noise = noise.into();
        self
    }

    /// Another sampler, or its steps.
    pub fn sampling(mut self, section: SampleSection) -> Self {
        self.section = Some(section);
        self
    }

    /// One sample for each.
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = u64>) -> Self {
        self.seeds = Some(seeds.into_iter().collect());
        self
    }

    /// Evaluations of the network for the best guess of a model that takes any size.
    pub fn guess_steps(mut self, steps: usize) -> Self {
        self.guess_steps = steps.max(1);
        self
    }

    fn section(&self) -> SampleSection {
        let usual = || if self.conditioned { self.model.recipe.restoring() } else { self.model.recipe.clone() };
        self.section.clone().unwrap_or_else(|| usual().sample)
    }

    fn all_seeds(&self) -> Vec<u64> {
        let usual = if self.model.takes_any_size() { 0 } else { 8 };
        self.seeds.clone().unwrap_or_else(|| (0..usual).collect())
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

    /// Asked after every evaluation of the network and every batch of tiles; true ends the restoration by
    /// [`SamplerError::Stopped`].
    pub fn stop_if(mut self, stop: &'a dyn Fn() -> bool) -> Self {
        self.stop_if = Some(stop);
        self
    }

    /// What was seen in a degraded image.
    pub fn observe(&self, image: &Picture) -> Result<Observed> {
        let own_size = shape_at(self.model, shape_of(image), 1);
        let task = match &self.task {
            None if self.model.takes_any_size() => {
                self.require_memory(own_size)?;
                let values = fitted(image, own_size)?;
                super::guess::of_photograph(own_size, &values, self.noise, self.quantization)
            }
            _ => self.task_of(image),
        };
        self.require_memory(task.restored_shape(self.model, image))?;
        self.check(task.observe(self.model, image, self.noise)?)
    }

    /// Degrades a clean image first.
    pub fn degrade(&self, image: &Picture) -> Result<Observed> {
        self.require_memory(shape_at(self.model, shape_of(image), 1))?;
        self.check(self.task_of(image).degrade(self.model, image, self.noise)?)
    }

    /// Refuses what does not fit into memory: the image while it is restored, and all samples of it.
    fn require_memory(&self, shape: Shape) -> Result<()> {
        let bytes = |values: &[usize]| values.iter().fold(8u64, |all, &n| all.saturating_mul(n as u64));
        let Shape { height, width, channels } = shape;
        let image = bytes(&[height, width, channels]);
        let sides = bytes(&[height, height]).saturating_add(bytes(&[width, width]));
        let one = image.saturating_mul(WORKING_COPIES).saturating_add(sides.saturating_mul(SIDE_MATRICES));
        let one = if shape == self.model.path.shape() { one } else { one.saturating_add(BESIDE_PHOTOGRAPHS) };
        memory::require(
            one,
            format!("restoring an image of {}", size(&shape)),
            "give a smaller image, or a part of it",
        )?;
        let seeds = self.all_seeds().len();
        let samples = image.saturating_mul(seeds as u64);
        let what = format!("restoring {seeds} samples of {}", size(&shape));
        Ok(memory::require(one.saturating_add(samples), what, "give fewer --seeds, or a smaller image")?)
    }

    fn task_of(&self, image: &Picture) -> Task {
        self.task.clone().unwrap_or_else(|| Task::guess(shape_of(image), self.model))
    }

    fn check(&self, observed: Observed) -> Result<Observed> {
        match observed.entry {
            PathEntry::Beginning if !self.conditioned => Err(RestoreError::NeverEntered),
            // A network takes the noise of a rough guess for detail unless the path's own noise is much larger.
            _ if self.guesses() => Ok(Observed { entry: PathEntry::Beginning, ..observed }),
            _ => Ok(observed),
        }
    }

    /// Restores a degraded image.
    pub fn run(&self, image: &Picture) -> Result<Restored> {
        self.restore(self.observe(image)?, &mut |_| {})
    }

    /// Restores what was observed.
    pub fn restore(&self, observed: Observed, watch: &mut RestoreWatch) -> Result<Restored> {
        let device = match &self.device {
            Some(device) => device.clone(),
            None => Device::open("auto")?,
        };
        let precision = self.model.recipe.train.precision;
        if observed.path.shape() != self.model.path.shape() {
            let shape = observed.path.shape();
            let size = TileSize::on(&device).covering(shape);
            let samples = self.evaluations(&observed)? * self.all_seeds().len();
            let total = size.tiles(shape) * (self.guess_evaluations(&observed) + samples);
            // Tiles and guesses are reported from different places.
            let watch = RefCell::new(watch);
            let mut done = 0;
            let mut count = |tiles: usize| {
                done += tiles;
                (*watch.borrow_mut())(RestoreEvent::Work { done: done.min(total), total });
                self.go_on()
            };
            let denoiser = self.model.tiled_denoiser(&device, shape, size, precision)?;
            let mut guesses = |event: RestoreEvent| {
                if let guess @ RestoreEvent::Guess(_) = event {
                    (*watch.borrow_mut())(guess);
                }
            };
            return self.restore_with(&mut denoiser.reporting(&mut count), 1, observed, &mut guesses);
        }
        let batch = self.batch.unwrap_or(batch_size::RESTORATION.on(&device)).clamp(1, self.all_seeds().len().max(1));
        let mut denoiser = self.model.denoiser(&device, batch, precision)?;
        self.restore_with(&mut denoiser, batch, observed, watch)
    }

    /// In how many tiles a photograph is computed on a device; none where the model takes it whole, as it takes its own images.
    pub fn tiles(&self, observed: &Observed, device: &Device) -> Option<usize> {
        let shape = observed.path.shape();
        (shape != self.model.path.shape()).then(|| TileSize::on(device).covering(shape).tiles(shape))
    }

    /// The same with a denoiser of the caller's, which takes `batch` images at a time.
    pub fn restore_with(
        &self,
        denoiser: &mut dyn Denoiser,
        batch: usize,
        observed: Observed,
        watch: &mut RestoreWatch,
    ) -> Result<Restored> {
        let observation = &observed.observation;
        let spread = ImageCovariance::fitting(observation)?;
        let mut denoiser = Watched { inner: denoiser, look: |_: &[f64]| self.go_on() };
        let denoiser = &mut denoiser;
        let guess_steps = self.guess_evaluations(&observed);
        // A restoration without looking at the observation again may change what was seen.
        let with_known = |mut images: Vec<f64>, known: &[f64]| {
            if self.conditioned {
                observation.set_known(&mut images, known);
            }
            images
        };
        let guess = match self.guesses() {
            true => {
                let guess = PlugAndPlay { path: &observed.path, spread: &spread, steps: self.guess_steps };
                let mut shown = |guess: &[f64]| match observation.knows_pixels() {
                    true => watch(RestoreEvent::Guess(&with_known(guess.to_vec(), observation.values()))),
                    false => watch(RestoreEvent::Guess(guess)),
                };
                let guess = guess.run(denoiser, observation, &mut shown)?;
                Some(with_known(guess, observation.values()))
            }
            false => None,
        };
        let section = self.section();
        let sampler = section.build()?;
        let posterior = PosteriorSampler {
            path: &observed.path,
            prior: &self.model.prior,
            sampler: sampler.as_ref(),
            steps: section.steps,
            entry: observed.entry,
            spread: self.conditioned.then_some(&spread),
            guess: guess.as_deref(),
            calibrated: self.model.takes_any_size(),
            batch,
        };
        let mut progress = |done, total| watch(RestoreEvent::Work { done, total });
        let PosteriorSamples { samples, mean, std } =
            posterior.run(denoiser, observation, &self.all_seeds(), &mut progress)?;
        let [samples, mean] = [samples, mean].map(|images| with_known(images, observation.values()));
        let std = with_known(std, &vec![0.0; observation.values().len()]);
        let steps = posterior.sampling()?.times.len() - 1;
        let (mean, guess_steps) = match guess {
            Some(guess) => (guess, Some(guess_steps)),
            None => (mean, None),
        };
        let misfit = observation.misfit(&mean)?;
        Ok(Restored { samples, mean, std, misfit, observed, steps, guess_steps, conditioned: self.conditioned })
    }

    /// Stops where that is asked for.
    fn go_on(&self) -> std::result::Result<(), SamplerError> {
        match self.stop_if.is_some_and(|stop| stop()) {
            true => Err(SamplerError::Stopped),
            false => Ok(()),
        }
    }

    /// Whether the best guess comes without samples.
    fn guesses(&self) -> bool {
        self.conditioned && self.model.takes_any_size()
    }

    /// Evaluations of the network for the best guess, where it comes without samples.
    fn guess_evaluations(&self, observed: &Observed) -> usize {
        match self.guesses() {
            true => super::plug_and_play::evaluations(&observed.observation, self.guess_steps),
            false => 0,
        }
    }

    /// Evaluations of the network for each sample.
    pub fn evaluations(&self, observed: &Observed) -> Result<usize> {
        let (start, section) = (observed.entry.time(), self.section());
        let steps = super::posterior::steps_from(start, section.steps)?;
        Ok(steps * section.build()?.evaluations())
    }
}

impl Restored {
    /// The mean difference between the largest and the smallest channel of a pixel.
    fn chroma(&self) -> f64 {
        let Shape { channels, .. } = self.observed.observation.shape();
        let extent = |pixel: &[f64]| {
            let most = |pick: fn(f64, f64) -> f64| pixel.iter().copied().reduce(pick).unwrap_or_default();
            most(f64::max) - most(f64::min)
        };
        let all = self.mean.chunks_exact(channels.max(1));
        all.clone().map(extent).sum::<f64>() / all.len().max(1) as f64
    }

    /// The standard deviations as an image, the largest of them white.
    pub fn spread(&self) -> Vec<f64> {
        let largest = self.std.iter().copied().fold(0.0, f64::max);
        self.std.iter().map(|std| if largest > 0.0 { std / largest } else { 0.0 }).collect()
    }

    /// What to say of a restored image that does not explain what was seen, or that is to have colours and has none, and what to do
    /// about it.
    pub fn warning(&self) -> Option<(String, &'static str)> {
        if self.observed.task == "colourise" && self.misfit <= POOR_FIT && self.chroma() < GREY {
            let problem =
                "the restored image has hardly any colours: the model does not know what is in the image".into();
            return Some((problem, "colourise with a model of one size, trained on images of that kind"));
        }
        let problem = format!(
            "the restored image, degraded again, differs from the picture by {:.1} times its noise (about 1 is expected): \
             do not trust it",
            self.misfit
        );
        let remedy = match (self.conditioned, self.observed.task) {
            (false, _) => "leave --free out, so that the image is taken into account at every step",
            (true, "deblur") if self.observed.level.is_none() => {
                "the image was degraded in another way; try another --kernel, --boundary or --noise"
            }
            (true, "deblur") => {
                "the image was degraded in another way; try another --boundary, --level, --noise or --corruption"
            }
            (true, "undo a map") => "the image was degraded in another way; try another --map or --noise",
            (true, "super-resolve") => "the image was made smaller in another way; try another --shrunk-by or --noise",
            (true, "the path's corruption") => "the image was degraded in another way; try another --time or --noise",
            (true, "inpaint") => "the known pixels have another --noise; without it they stay as they are",
            (true, _) => "the image has another noise; try another --noise",
        };
        (self.misfit > POOR_FIT).then_some((problem, remedy))
    }
}
