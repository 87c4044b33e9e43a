//! From a recipe to a run: its images, schedule, prior and network.

mod error;
mod identity;
mod measurements;

pub use error::PrepareError;

use super::{Preview, RunSpec, RunStore, StartFrom, Watcher};
use crate::checkpoint::Identity;
use crate::corruption::Shape;
use crate::data::{Dataset, Source};
use crate::network::{Embedding, Network};
use crate::objective::{Loss, Precondition, Prediction, Weight};
use crate::path::Path;
use crate::prior::Prior;
use crate::recipe::{PriorSection, Recipe, TimeCondition};
use crate::sampler::{SamplerError, by_name};
use crate::schedule::Schedule;
pub(in crate::train) use identity::adopt_shares;
pub(crate) use identity::{known_by, of_run};
use measurements::DataMeasurements;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

/// Called with task, unit, how many are done, and of how many.
pub type PrepareProgress<'a> = dyn Fn(&'static str, &'static str, usize, usize) + Sync + 'a;

/// A run whose images, schedule and prior are there.
pub struct PreparedRun {
    /// The recipe.
    pub recipe: Recipe,
    /// The images.
    pub dataset: Dataset,
    /// The levels of corruption, where the path has some that were measured.
    pub schedule: Option<Schedule>,
    /// The path.
    pub path: Arc<Path>,
    /// p_1.
    pub prior: Prior,
    /// What is minimised.
    pub objective: Arc<dyn Loss>,
    /// The losses to expect over time, where the objective's weight is balanced by them.
    pub expected: Option<Vec<f64>>,
    /// What the network predicts.
    pub prediction: Prediction,
    /// The network.
    pub network: Arc<dyn Network>,
    /// What checkpoints belong to.
    pub identity: Identity,
    /// Whether path, network and prediction are those of the recipe.
    pub is_described: bool,
}

/// Parts of a run that are given in memory, in place of what its recipe says.
#[derive(Default)]
pub struct CustomParts {
    /// The path.
    pub path: Option<Arc<Path>>,
    /// p_1.
    pub prior: Option<Prior>,
    /// The network.
    pub network: Option<Arc<dyn Network>>,
    /// What is minimised.
    pub objective: Option<Arc<dyn Loss>>,
    /// What the network predicts.
    pub prediction: Option<Prediction>,
}

impl PreparedRun {
    /// Loads the images of the recipe, and makes the schedule and the prior, or reads those of the store back.
    pub fn new(
        recipe: Recipe,
        custom: CustomParts,
        store: Option<RunStore>,
        watcher: &mut dyn Watcher,
        progress: &PrepareProgress,
    ) -> Result<PreparedRun, PrepareError> {
        let (dataset, words) = PreparedRun::load(&recipe, store, progress)?;
        PreparedRun::with_images(recipe, dataset, &words, custom, store, watcher, progress)
    }

    /// The images of the recipe, and what they are in words.
    pub(in crate::train) fn load(
        recipe: &Recipe,
        store: Option<RunStore>,
        progress: &PrepareProgress,
    ) -> Result<(Dataset, String), PrepareError> {
        if let Some(store) = store {
            identity::check_recipe(recipe, store.folder)?;
        }
        let source = Source::open_split(FilePath::new(&recipe.data.source), recipe.data.split)?;
        let loading = |done, total| progress("loading", "images", done, total);
        let dataset = source.load(&recipe.data.load_options(), &loading)?;
        let name = source.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((dataset, format!("{} {name}", source.format())))
    }

    /// The same for images in memory, which `words` name in the schedule.
    pub fn with_images(
        mut recipe: Recipe,
        dataset: Dataset,
        words: &str,
        custom: CustomParts,
        store: Option<RunStore>,
        watcher: &mut dyn Watcher,
        progress: &PrepareProgress,
    ) -> Result<PreparedRun, PrepareError> {
        if dataset.is_empty() {
            return Err(PrepareError::NoImages);
        }
        let shape = Shape::new(dataset.height(), dataset.width(), dataset.channels());
        let is_described = custom.path.is_none() && custom.network.is_none() && custom.prediction.is_none();
        // From here on the recipe states its network, as the run's file and identity do.
        if let Some(store) = store {
            identity::adopt_network(&mut recipe, store.folder);
        }
        recipe.network.settle(custom.network.is_none().then_some(shape.height));
        let network = match custom.network {
            Some(network) => network,
            None => Arc::new(recipe.network(shape)?),
        };
        let described = custom.path.as_deref().map_or(String::new(), identity::described);
        if let Some(store) = store {
            identity::start_over_if_another(&recipe, &described, store)?;
            identity::check_data(&recipe, &dataset, shape, store)?;
        }
        let measured = DataMeasurements { recipe: &recipe, dataset: &dataset, shape, store };
        let (path, schedule, usual) = match custom.path {
            Some(path) => {
                let usual = PriorSection::usual(&path, dataset.len())?;
                (path, None, usual)
            }
            None => {
                let measuring = |done, total| progress("scheduling", "distances", done, total);
                let schedule = measured.schedule(words, watcher, &measuring)?;
                (Arc::new(recipe.path(shape, schedule.as_ref())?), schedule, recipe.prior.clone())
            }
        };
        let prior = match custom.prior {
            Some(prior) => prior,
            None => measured.prior(&path, &usual, watcher)?,
        };
        let expected = match recipe.objective.weight {
            Weight::Balanced => Some(measured.expected_loss(&path)?),
            _ => None,
        };
        let spectrum = match (&custom.prediction, recipe.objective.precondition) {
            (None, Precondition::Wiener) => Some(measured.spectrum()?),
            _ => None,
        };
        let prediction = match custom.prediction {
            Some(prediction) => prediction,
            None => recipe.prediction(&path, spectrum.as_ref())?,
        };
        // A folder with this file can be opened as a model.
        if let Some(store) = store.filter(|_| is_described) {
            store.publish(&store.folder.config(), recipe.to_toml().as_bytes())?;
            identity::finish(store)?;
        }
        let identity = identity::of_run(&recipe, &described, schedule.as_ref(), &prior, spectrum.as_ref());
        let objective = custom.objective.unwrap_or_else(|| Arc::new(recipe.objective));
        Ok(PreparedRun {
            recipe,
            dataset,
            schedule,
            path,
            prior,
            objective,
            expected,
            prediction,
            network,
            identity,
            is_described,
        })
    }

    /// What the trainer needs.
    pub fn spec(&self) -> Result<RunSpec<'_>, SamplerError> {
        let Recipe { train, checkpoint, preview, sample, .. } = &self.recipe;
        let preview = match preview.every {
            Some(every) => Some(Preview {
                every,
                images: preview.images,
                sampler: by_name(&preview.sampler, &sample.options())?,
                sampling: sample.sampling_in(preview.steps)?,
            }),
            None => None,
        };
        Ok(RunSpec {
            from: train.from.as_ref().map(|place| start_from(place, &self.recipe)),
            objective: self.objective.clone(),
            prediction: self.prediction.clone(),
            expected: self.expected.as_deref(),
            adam: self.recipe.adam(),
            seed: self.recipe.seed,
            steps: train.steps,
            batch: train.batch,
            accumulate: train.accumulate,
            recompute: train.recompute,
            stratified: train.stratified,
            mirror: self.recipe.data.mirror,
            precision: train.precision,
            log_every: train.log_every,
            bins: train.bins,
            identity: self.identity.clone(),
            checkpoint_every: checkpoint.every,
            retention: checkpoint.retention(),
            best_by: (checkpoint.keep_best > 0).then(|| checkpoint.metric.clone()),
            preview,
            ..RunSpec::new(&self.dataset, self.path.clone(), &self.prior, self.network.clone())
        })
    }
}

fn start_from(place: &str, recipe: &Recipe) -> StartFrom {
    let condition = match recipe.network.embedding {
        Embedding::Fourier { .. } => "log-sigma",
        Embedding::Positional => "noise-index",
    };
    let import_note = (recipe.network.condition == TimeCondition::Time).then(|| {
        format!(
            "train.from: an imported network expects network.condition = \"{condition}\", and here it is conditioned on \
             the time"
        )
    });
    StartFrom { place: PathBuf::from(place), import_note }
}
