//! The front door: a training run in a few lines, with or without a folder.

use super::borrowed::{BorrowedRun, send_preparation};
use super::prepare::adopt_shares;
use super::scored::{Scored, scorer};
use super::together::{of_first, require_shares};
use super::{
    CustomParts, PrepareError, PrepareProgress, PreparedRun, RunSpec, RunStore, TrainError, Trained, TrainingMemory,
    Unwatched, Watcher, guidance_without_guide, too_few_images, train,
};
use crate::corruption::Shape;
use crate::data::Dataset;
use crate::device_choice::DeviceChoice;
use crate::model::CheckpointChoice;
use crate::network::Network;
use crate::objective::{Loss, Objective, Prediction};
use crate::path::Path;
use crate::prior::Prior;
use crate::ranks::SHARES;
use crate::recipe::{CorruptionSection, Recipe, RecipeError};
use crate::run::{NewFolder, RunFolder};
use softdiff_engine::Device;
use softdiff_engine::ranks::{Ranks, Reduce};
use std::path::Path as FilePath;
use std::sync::Arc;

/// The defaults of a training on images in memory.
const IN_MEMORY: &str = "
name = \"in-memory\"
[data]
source = \"images in memory\"
[network]
preset = \"small\"
[train]
steps = 10_000
batch = 64
warmup = 500
[checkpoint]
keep_best = 0
[sample]
steps = 100
";

/// A training run to be described and started.
///
/// ```
/// use softdiff::{Dataset, Path, Shape, Training};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // 32 grey images of 8x8 pixels, and a path that only adds noise.
/// let images = Dataset::new(8, 8, 1, vec![128; 32 * 64], None, vec![]);
/// let path = Path::variance_exploding(Shape::new(8, 8, 1), 0.01, 10.0)?;
/// let trained = Training::new(images, path).set("network.channels=8").steps(2).batch(4).run()?;
/// let samples = trained.model().sample(0..4).steps(2).images()?;
/// assert_eq!(samples.len(), 4);
/// # Ok(())
/// # }
/// ```
pub struct Training<'a> {
    recipe: RecipeSource,
    /// Changes of its keys.
    sets: Vec<String>,
    objective: Option<Objective>,
    images: Option<Dataset>,
    corruption: Option<CorruptionSection>,
    custom: CustomParts,
    device: DeviceChoice,
    checkpoint: CheckpointChoice,
    ranks: Ranks,
    watcher: Option<&'a mut dyn Watcher>,
    progress: Option<&'a PrepareProgress<'a>>,
}

enum RecipeSource {
    /// A built-in name or a file.
    Named(String),
    InMemory,
    Known(Box<Recipe>),
}

/// Trains a built-in recipe, or that of a file, in `folder`, or continues what is there.
///
/// ```no_run
/// let trained = softdiff::train("quickstart", "runs/first")?;
/// trained.model().sample(0..64).grid("samples.png")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn train_recipe(recipe: &str, folder: impl AsRef<FilePath>) -> Result<Trained, TrainError> {
    Training::from_recipe(recipe).run_in(folder)
}

impl<'a> Training<'a> {
    /// Images in memory and any path. By default: a small U-Net, the paper's objective and optimiser, 10,000
    /// steps of 64 images, and a prior that is fitted to the corrupted images where these are more than noise.
    pub fn new(images: Dataset, path: impl Into<Arc<Path>>) -> Training<'a> {
        let custom = CustomParts { path: Some(path.into()), ..CustomParts::default() };
        Training { images: Some(images), custom, ..Training::by(RecipeSource::InMemory) }
    }

    /// Images in memory and a corruption that recipes know on the paper's path, whose levels are measured on these images;
    /// the rest as in [`Training::new`]. A recipe describes it, so its folder can be opened by [`crate::Model::open`].
    ///
    /// ```
    /// use softdiff::corruption::CorruptionSpec;
    /// use softdiff::recipe::CorruptionSection;
    /// use softdiff::{Dataset, Training};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pixels = (0..64 * 64).map(|i| (i * i % 251) as u8).collect();
    /// let images = Dataset::new(8, 8, 1, pixels, None, vec![]);
    /// let blur = CorruptionSection::One(CorruptionSpec::named("blur")?.with_largest(4.0));
    /// let training = Training::corrupting(images, blur).set("network.channels=8").set("schedule.knots=8");
    /// let trained = training.steps(2).batch(4).run()?;
    /// assert_eq!(trained.prepared.schedule.as_ref().unwrap().knots.last(), Some(&4.0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn corrupting(images: Dataset, corruption: CorruptionSection) -> Training<'a> {
        Training { images: Some(images), corruption: Some(corruption), ..Training::by(RecipeSource::InMemory) }
    }

    /// A built-in recipe by its name, or a recipe file.
    pub fn from_recipe(name: &str) -> Training<'a> {
        Training::by(RecipeSource::Named(name.into()))
    }

    /// A recipe.
    pub fn of(recipe: Recipe) -> Training<'a> {
        Training::by(RecipeSource::Known(Box::new(recipe)))
    }

    fn by(recipe: RecipeSource) -> Training<'a> {
        Training {
            recipe,
            sets: vec![],
            objective: None,
            images: None,
            corruption: None,
            custom: CustomParts::default(),
            device: DeviceChoice::default(),
            checkpoint: CheckpointChoice::Usual,
            ranks: Ranks::default(),
            watcher: None,
            progress: None,
        }
    }

    /// Changes a key of the recipe, such as `train.rate=1e-3`; [`crate::recipe`] lists them. A mistake is an error of
    /// [`Training::run`].
    pub fn set(mut self, change: impl Into<String>) -> Self {
        self.sets.push(change.into());
        self
    }

    /// Images in memory, in place of those of the recipe.
    pub fn images(mut self, images: Dataset) -> Self {
        self.images = Some(images);
        self
    }

    /// A custom network.
    pub fn network(mut self, network: impl Network + 'static) -> Self {
        self.custom.network = Some(Arc::new(network));
        self
    }

    /// Another of the paper's objectives.
    pub fn objective(mut self, objective: Objective) -> Self {
        self.objective = Some(objective);
        self
    }

    /// A custom loss; the network still predicts what [`Training::objective`] says.
    pub fn loss(mut self, loss: impl Loss + 'static) -> Self {
        self.custom.objective = Some(Arc::new(loss));
        self
    }

    /// How the network's output is read, where the objective does not say it.
    pub fn prediction(mut self, prediction: Prediction) -> Self {
        self.custom.prediction = Some(prediction);
        self
    }

    /// Where sampling starts.
    pub fn prior(mut self, prior: Prior) -> Self {
        self.custom.prior = Some(prior);
        self
    }

    /// Updates to do.
    pub fn steps(self, steps: u64) -> Self {
        self.set(format!("train.steps={steps}"))
    }

    /// Images per update.
    pub fn batch(self, batch: usize) -> Self {
        self.set(format!("train.batch={batch}"))
    }

    /// Seed of everything random.
    pub fn seed(self, seed: u64) -> Self {
        self.set(format!("seed={seed}"))
    }

    /// What to compute on: by default `"auto"`.
    pub fn device(mut self, device: impl Into<DeviceChoice>) -> Self {
        self.device = device.into();
        self
    }

    /// Which checkpoint the folder of [`Training::run_in`] is continued from: by default the last. Later ones are set aside.
    pub fn checkpoint(mut self, choice: CheckpointChoice) -> Self {
        self.checkpoint = choice;
        self
    }

    /// The processes that train together, each a part of every batch. All make the same call; only rank 0 writes, and the others
    /// get from it what it prepared.
    pub fn ranks(mut self, ranks: Ranks) -> Self {
        self.ranks = ranks;
        self
    }

    /// Who watches: notes, steps, events, and whether to stop.
    pub fn watch(mut self, watcher: &'a mut dyn Watcher) -> Self {
        self.watcher = Some(watcher);
        self
    }

    /// Called while images are loaded and the schedule is measured.
    pub fn progress(mut self, progress: &'a PrepareProgress<'a>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Trains in memory: nothing is written.
    pub fn run(self) -> Result<Trained, TrainError> {
        self.run_with(None)
    }

    /// Trains in a folder: events, previews and checkpoints are written there, and what is there is continued. One process
    /// at a time works on a folder.
    ///
    /// A folder whose path, network and prediction are those of a recipe can be opened by [`crate::Model::open`] and the command
    /// line; another one is opened by running the same training again, which then goes on from its last checkpoint.
    pub fn run_in(self, folder: impl AsRef<FilePath>) -> Result<Trained, TrainError> {
        if !self.ranks.is_first() {
            return self.run_with(None);
        }
        in_folder(folder.as_ref(), |store| self.run_with(Some(store)))
    }

    /// Loads the images and makes schedule and prior; trains nothing.
    pub fn prepare(self) -> Result<PreparedRun, TrainError> {
        self.prepare_with(None, None).map(|(prepared, ..)| prepared)
    }

    /// The same for a run's folder, where schedule and prior are kept.
    pub fn prepare_in(self, folder: impl AsRef<FilePath>) -> Result<PreparedRun, TrainError> {
        in_folder(folder.as_ref(), |store| self.prepare_with(Some(store), None).map(|(prepared, ..)| prepared))
    }

    fn run_with(self, store: Option<RunStore>) -> Result<Trained, TrainError> {
        let (device, checkpoint, ranks) = (self.device.open()?, self.checkpoint, self.ranks.clone());
        let mut unwatched = Unwatched;
        let (prepared, watcher) = if ranks.is_first() {
            let prepared = self.prepare_with(store, Some(&device))?;
            send_preparation(&ranks, store)?;
            prepared
        } else {
            let borrowed = BorrowedRun::receive(&ranks)?;
            self.prepare_with(borrowed.as_ref().map(BorrowedRun::store), Some(&device))?
        };
        ranks.require_same("recipe, schedule or prior", format!("{:?}", prepared.identity).as_bytes())?;
        let watcher = watcher.unwrap_or(&mut unwatched);
        let is_scored = of_first(&ranks, store.is_some() && prepared.recipe.checkpoint.keep_best > 0)?;
        let scorer = if is_scored { scorer(&prepared, &device, &ranks, watcher)? } else { None };
        let mut spec = RunSpec { checkpoint, ranks, ..prepared.spec()? };
        if !spec.ranks.is_first() {
            spec.best_by = None;
        }
        let finished = train(&spec, store, &device, &mut Scored { watcher, scorer })?;
        Ok(Trained { prepared, finished })
    }

    fn recipe(&self) -> Result<Recipe, RecipeError> {
        match &self.recipe {
            RecipeSource::Named(name) => Recipe::open(name, &self.sets),
            RecipeSource::InMemory => match &self.corruption {
                None => Recipe::parse(IN_MEMORY, "in-memory", &self.sets),
                Some(corruption) => {
                    let text = format!("{IN_MEMORY}{}", corruption.to_toml());
                    let mut recipe = Recipe::parse(&text, "in-memory", &self.sets)?;
                    let is_set = self.sets.iter().any(|set| set.trim_start().starts_with("prior"));
                    if let (Some(images), false) = (&self.images, is_set) {
                        let shape = Shape::new(images.height(), images.width(), images.channels());
                        recipe.prior = recipe.prior.for_images(shape, images.len());
                    }
                    Ok(recipe)
                }
            },
            RecipeSource::Known(recipe) if self.sets.is_empty() => Ok(Recipe::clone(recipe)),
            RecipeSource::Known(recipe) => recipe.with_sets(&self.sets),
        }
    }

    /// Training on a device is refused before the schedule and the prior are made where its memory cannot suffice.
    fn prepare_with(
        self,
        store: Option<RunStore>,
        device: Option<&Device>,
    ) -> Result<(PreparedRun, Option<&'a mut dyn Watcher>), TrainError> {
        let mut recipe = self.recipe()?;
        recipe.objective = self.objective.unwrap_or(recipe.objective);
        let is_begun = store.is_some_and(|store| adopt_shares(&mut recipe, store.folder));
        let (ranks, batch) = (self.ranks.size(), recipe.train.batch);
        if ranks > 1 && !is_begun && recipe.train.accumulate == 1 && self.ranks.reduce == Reduce::Exact {
            let usual = SHARES.is_multiple_of(ranks) && batch.is_multiple_of(SHARES);
            recipe.train.accumulate = if usual { SHARES } else { ranks };
        }
        require_shares(batch, recipe.train.accumulate.max(1), ranks)?;
        let Training { images, custom, mut watcher, progress, .. } = self;
        let progress = progress.unwrap_or(&|_, _, _, _| {});
        let mut unwatched = Unwatched;
        let notes_to: &mut dyn Watcher = match &mut watcher {
            Some(watcher) => *watcher,
            None => &mut unwatched,
        };
        if let Some(warning) = guidance_without_guide(&recipe.sample) {
            notes_to.note(&format!("warning: {warning}"));
        }
        if let (Some(place), true) = (&recipe.train.from, store.is_none_or(|store| store.is_new()))
            && !FilePath::new(place).exists()
        {
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(TrainError::From { place: place.into(), source: source.into() });
        }
        let (images, words) = match images {
            Some(images) => (images, "images in memory".into()),
            None => PreparedRun::load(&recipe, store, progress)?,
        };
        if let Some(device) = device.filter(|_| !images.is_empty()) {
            let shape = Shape::new(images.height(), images.width(), images.channels());
            let memory = match &custom.network {
                Some(network) => TrainingMemory::of(&**network, shape, &recipe.train)?,
                None => TrainingMemory::of(&recipe.network(shape).map_err(PrepareError::from)?, shape, &recipe.train)?,
            };
            memory.require(device)?;
            notes_to.note(&format!("memory: {}", memory.words(device)));
            if let Some(warning) = too_few_images(images.len(), &recipe.train) {
                notes_to.note(&format!("warning: {warning}"));
            }
        }
        let prepared = PreparedRun::with_images(recipe, images, &words, custom, store, notes_to, progress)?;
        Ok((prepared, watcher))
    }
}

/// Does `work` in the locked folder. A folder that was made for it goes again where it failed before anything was in it.
fn in_folder<T>(root: &FilePath, work: impl FnOnce(RunStore) -> Result<T, TrainError>) -> Result<T, TrainError> {
    let folder = RunFolder::new(root);
    let new = NewFolder::of(&folder);
    let lock = folder.lock()?;
    work(RunStore { folder: &folder, lock: &lock }).inspect_err(|_| new.remove(&lock))
}
