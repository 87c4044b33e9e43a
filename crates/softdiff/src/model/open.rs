//! Models from disk: a run, one of its checkpoints, or an exported model.

use super::Condition;
use super::choice::{self, CheckpointChoice, Chosen};
use super::export::SCHEDULE;
use super::exported::ExportedFolder;
use super::guide::{self, Guide};
use super::posthoc::post_hoc_average;
use super::stored_size;
use crate::checkpoint::{CheckpointError, PARAMS};
use crate::network::Network;
use crate::objective::Prediction;
use crate::path::Path;
use crate::prior::{Prior, PriorError};
use crate::recipe::{BuildError, Recipe, RecipeError, Weights};
use crate::run::{RunError, RunFolder};
use crate::sampler::SamplerError;
use crate::schedule::{Schedule, ScheduleError};
use crate::spectrum::{SPECTRUM_FILE, SpectrumError};
use crate::train::{known_by, of_run};
use softdiff_engine::{Graph, Hint, Params};
use std::borrow::Cow;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

/// The weights of an exported model.
pub const WEIGHTS: &str = "model.safetensors";

/// A trained model: everything that sampling and restoring need.
#[derive(Clone)]
pub struct Model {
    /// What it is called.
    pub name: String,
    /// The recipe it was trained by.
    pub recipe: Recipe,
    /// The path it was trained on.
    pub path: Arc<Path>,
    /// The levels of that path, where they were measured.
    pub schedule: Option<Schedule>,
    /// Where the path ends.
    pub prior: Prior,
    /// The network.
    pub network: Arc<dyn Network>,
    /// How its output is read.
    pub prediction: Prediction,
    /// What it is conditioned on besides the image.
    pub condition: Condition,
    /// Its weights.
    pub params: Params<f32>,
    /// A weaker model to guide its samples by.
    pub guide: Option<Guide>,
    /// Which weights these are.
    pub weights: Weights,
    /// Training steps behind them.
    pub step: u64,
    /// Which checkpoint of a run this is; none for an exported or imported model.
    pub checkpoint: Option<Chosen>,
    /// Whether path, network and prediction are those of the recipe; only then the model can be exported.
    pub is_described: bool,
}

/// Why a model could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Neither a run nor an exported model.
    #[error("{} is not a model: it has no config.toml", .0.display())]
    NoModel(PathBuf),
    /// A file of another kind, such as an image.
    #[error("{} is not a model: it is no file of weights (.safetensors)", .0.display())]
    NotWeights(PathBuf),
    /// A file that is no imported model.
    #[error("{}: {problem}", file.display())]
    Imported {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Imported weights of a network that is conditioned on the index of a noise level, without the noise levels.
    #[error("{}: its network is conditioned on the index of a noise level, and the file has no noise levels", .0.display())]
    NoNoiseLevels(PathBuf),
    /// Imported weights of a model on another path than score_sde's.
    #[error("{}: its network is conditioned on the time of a path that the file does not describe", .0.display())]
    ConditionedOnTime(PathBuf),
    /// The newest checkpoint of a run is damaged.
    #[error("{problem}")]
    NewestDamaged {
        /// What is wrong with it.
        #[source]
        problem: CheckpointError,
        /// The newest that is whole.
        whole: u64,
    },
    /// A run without checkpoints.
    #[error("{} has no checkpoint yet", .0.display())]
    NoCheckpoint(PathBuf),
    /// A run none of whose checkpoints was scored.
    #[error("{} has no best checkpoint, for none that is kept was scored", .0.display())]
    NoBest(PathBuf),
    /// A run without the checkpoint asked for.
    #[error("{} has no checkpoint at step {step}", run.display())]
    NoSuchCheckpoint {
        /// The run.
        run: PathBuf,
        /// What was asked for.
        step: u64,
        /// Those that there are.
        there: String,
    },
    /// A choice of checkpoints where there is one only.
    #[error("{} is one model, without checkpoints to choose from", .0.display())]
    NoChoice(PathBuf),
    /// An exported model without one of its files.
    #[error("{}: this exported model lacks {file}", folder.display())]
    Lacks {
        /// The model.
        folder: PathBuf,
        /// What is not there.
        file: String,
    },
    /// Other weights of a model that has one kind only.
    #[error("{} has the weights {has} only, and {wanted} are asked for", place.display())]
    OtherWeights {
        /// The model.
        place: PathBuf,
        /// What it has.
        has: Weights,
        /// What was asked for.
        wanted: Weights,
    },
    /// Events that cannot be read.
    #[error("{0}")]
    Run(#[from] RunError),
    /// A checkpoint without the average asked for.
    #[error("{} keeps no {wanted}", run.display())]
    NoAverage {
        /// The run.
        run: PathBuf,
        /// What was asked for.
        wanted: String,
        /// What there is.
        kept: Vec<String>,
    },
    /// An average that the checkpoints cannot give.
    #[error("{} cannot give an average of width {width}: {problem}", run.display())]
    PostHoc {
        /// The run.
        run: PathBuf,
        /// What was asked for.
        width: f64,
        /// What is wrong.
        problem: String,
    },
    /// Weights that cannot be read.
    #[error("{}: {problem}", file.display())]
    Weights {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A guide that is no weaker version of the model.
    #[error("{guide} cannot guide {model}: it has {what}")]
    OtherGuide {
        /// The guide's name.
        guide: String,
        /// The model's.
        model: String,
        /// What differs.
        what: &'static str,
    },
    /// A model whose path or network no recipe describes.
    #[error("a model with a custom path, network or prediction cannot be exported")]
    NotDescribed,
    /// Sampling.
    #[error("{0}")]
    Sampler(#[from] SamplerError),
    /// An ending that no format of images has.
    #[error("{}: no format is called .{ending}", file.display())]
    ImageFormat {
        /// The file.
        file: PathBuf,
        /// Its ending.
        ending: String,
    },
    /// More images than a format takes.
    #[error("{what} has at most {most} images, and {images} are asked for")]
    TooManyImages {
        /// The format.
        what: &'static str,
        /// Seeds given.
        images: u64,
        /// The most it takes.
        most: u64,
    },
    /// A folder that cannot be written.
    #[error("cannot write {}: {problem}", file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A bad recipe.
    #[error("{0}")]
    Recipe(#[from] RecipeError),
    /// A recipe that does not fit.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// A bad schedule.
    #[error("{0}")]
    Schedule(#[from] ScheduleError),
    /// A bad prior.
    #[error("{0}")]
    Prior(#[from] PriorError),
    /// A bad spectrum.
    #[error("{0}")]
    Spectrum(#[from] SpectrumError),
    /// A bad checkpoint.
    #[error("{0}")]
    Checkpoint(#[from] CheckpointError),
    /// A bad network.
    #[error("{0}")]
    Engine(#[from] softdiff_engine::Error),
}

impl Hint for ModelError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            ModelError::NoModel(..) => "give a run's folder, one of its checkpoints, or an exported model".into(),
            ModelError::Imported { .. } | ModelError::NotWeights(..) => "give a run's folder, an exported model, or what softdiff import wrote".into(),
            ModelError::NoNoiseLevels(..) => "import the checkpoint again (softdiff import)".into(),
            ModelError::ConditionedOnTime(..) => "use the run or the model folder that the weights were exported from".into(),
            ModelError::NewestDamaged { whole, .. } => {
                format!("restore it from a copy, or give --checkpoint {whole}, the newest that is whole").into()
            }
            ModelError::NoCheckpoint(..) => "let it train up to one (checkpoint.every)".into(),
            ModelError::NoBest(..) => "give --checkpoint last, or train with checkpoint.keep_best = 1 (the metric fid needs softdiff data fetch fid-inception)".into(),
            ModelError::NoSuchCheckpoint { there, .. } => format!("give best, last, or one of {there}").into(),
            ModelError::NoChoice(..) => "leave --checkpoint out, or give a run's folder".into(),
            ModelError::Lacks { .. } => "copy the whole folder again, or export the model again".into(),
            ModelError::OtherWeights { .. } => "leave --weights out, or give the run's folder".into(),
            ModelError::NoAverage { kept, .. } => format!("it has {}", kept.join(", ")).into(),
            ModelError::PostHoc { .. } => "keep more checkpoints (checkpoint.keep_every), or give another width".into(),
            ModelError::Weights { .. } => "export the model again".into(),
            ModelError::OtherGuide { .. } => "train it by the same recipe and on the same images, with a smaller network and fewer steps".into(),
            ModelError::NotDescribed => "keep the program that trains it and its run folder".into(),
            ModelError::ImageFormat { .. } => "give a .png, .npz or .zip, or a folder".into(),
            ModelError::TooManyImages { .. } => "give --out an .npz or a folder, or fewer --seeds".into(),
            ModelError::Unwritable { .. } => "check the folder, the free space and the limit on file sizes (ulimit -f)".into(),
            _ => return None,
        })
    }
}

impl Model {
    /// Opens a run (its best checkpoint, else its last), a checkpoint's folder, an exported model, or imported weights.
    ///
    /// `weights` none takes those that the recipe samples with.
    pub fn open(place: &FilePath, weights: Option<Weights>) -> Result<Model, ModelError> {
        Model::open_at(place, weights, CheckpointChoice::Usual)
    }

    /// Whether something that looks like a model is there, whole or not: a run, one of its checkpoints, or a file of weights.
    pub fn is_at(place: &FilePath) -> bool {
        let is_weights = place.extension().is_some_and(|ending| ending == "safetensors") && place.is_file();
        is_weights || (place.is_dir() && RunFolder::new(&find_run(place).0).config().is_file())
    }

    /// The same with a choice among the checkpoints of a run.
    pub fn open_at(place: &FilePath, weights: Option<Weights>, choice: CheckpointChoice) -> Result<Model, ModelError> {
        let asked = !matches!(choice, CheckpointChoice::Usual | CheckpointChoice::Last);
        if place.is_file() {
            let model = if asked { Err(ModelError::NoChoice(place.into())) } else { Model::open_imported(place) }?;
            check_weights(place, model.weights, weights)?;
            return Ok(model);
        }
        let (root, step) = find_run(place);
        if asked && (step.is_some() || ExportedFolder::is_at(&root)) {
            return Err(ModelError::NoChoice(place.into()));
        }
        let folder = RunFolder::new(&root);
        if !folder.config().is_file() {
            return Err(ModelError::NoModel(place.into()));
        }
        folder.refuse_links()?;
        let exported = match step.is_none() && ExportedFolder::is_at(&root) {
            true => Some(ExportedFolder::open(&root)?),
            false => None,
        };
        let counts = |name: &str| exported.as_ref().is_none_or(|exported| exported.has(name));
        let recipe = Recipe::saved(&folder.config(), &[])?;
        let prior = folder.read_prior()?;
        let schedule = if counts(SCHEDULE) { folder.read_schedule()? } else { None };
        let spectrum = if counts(SPECTRUM_FILE) { folder.read_spectrum()? } else { None };
        let path = Arc::new(recipe.path(prior.shape, schedule.as_ref())?);
        let network = recipe.network(prior.shape)?;
        let graph = network.graph(1)?.0;
        let wanted = weights;
        let mut weights = wanted.unwrap_or(recipe.sample.weights);
        let mut guide = None;
        let (params, step, checkpoint) = if let Some(exported) = &exported {
            let manifest = exported.manifest.as_ref();
            weights = manifest.and_then(|manifest| manifest.weights.parse().ok()).unwrap_or(recipe.sample.weights);
            check_weights(place, weights, wanted)?;
            if [guide::RECIPE, guide::PARAMS].iter().all(|name| exported.has(name)) {
                guide = Some(guide::read(&root, prior.shape)?);
            }
            let step = manifest.map_or(recipe.train.steps, |manifest| manifest.step);
            (read_weights(&root.join(WEIGHTS), &graph)?, step, None)
        } else {
            let (stored, chosen) = {
                let (metric, retention) = (&recipe.checkpoint.metric, recipe.checkpoint.retention());
                choice::find(&folder, metric, &retention, step.map_or(choice, CheckpointChoice::Step))?
            };
            let average = match weights {
                Weights::Ema(decay) if !recipe.train.ema.contains(&decay) => {
                    let kept = recipe.train.ema.iter().map(|decay| format!("ema-{decay}"));
                    let kept = kept.chain(["raw".to_owned()]).collect();
                    return Err(ModelError::NoAverage { run: root, wanted: weights.to_string(), kept });
                }
                Weights::Ema(decay) => Some(decay),
                Weights::Raw | Weights::PostHoc(_) => None,
            };
            stored.check_belongs_to(&of_run(&recipe, "", schedule.as_ref(), &prior, spectrum.as_ref()))?;
            let step = stored.manifest().step;
            let template = stored_size::template(&graph, &stored.path().join(PARAMS))?;
            let params = match weights {
                Weights::PostHoc(width) => post_hoc_average(&folder, &recipe.train.ema, step, &template, width)?,
                _ => stored.weights(&template, average)?,
            };
            (params, step, Some(chosen))
        };
        let prediction = recipe.prediction(&path, spectrum.as_ref())?;
        let name = recipe.name.clone();
        let condition = Condition::Time;
        Ok(Model {
            name,
            recipe,
            path,
            schedule,
            prior,
            network: Arc::new(network),
            prediction,
            condition,
            params,
            guide,
            weights,
            step,
            checkpoint,
            is_described: true,
        })
    }

    /// What its images say of the run that made them.
    pub fn run_identity(&self) -> String {
        known_by(&self.recipe, self.schedule.as_ref(), &self.prior)
    }

    /// The step, and which checkpoint that is, in words.
    pub fn stage(&self) -> String {
        let chosen = self.checkpoint.as_ref().map_or(String::new(), |chosen| format!(", {chosen}"));
        format!("step {}{chosen}", self.step)
    }
}

/// Refuses other weights than those that a model has.
fn check_weights(place: &FilePath, has: Weights, wanted: Option<Weights>) -> Result<(), ModelError> {
    match wanted.filter(|wanted| *wanted != has) {
        Some(wanted) => Err(ModelError::OtherWeights { place: place.into(), has, wanted }),
        None => Ok(()),
    }
}

/// The run that `place` belongs to, and the step where it is one of its checkpoints.
fn find_run(place: &FilePath) -> (PathBuf, Option<u64>) {
    let place = place.canonicalize().unwrap_or_else(|_| place.into());
    let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let step = name.strip_prefix("step-").and_then(|step| step.parse().ok());
    match (step, place.parent().and_then(FilePath::parent)) {
        (Some(step), Some(run)) if run.join("config.toml").is_file() => (run.into(), Some(step)),
        _ => (place, None),
    }
}

pub(super) fn read_weights(file: &FilePath, graph: &Graph) -> Result<Params<f32>, ModelError> {
    let fail = |problem: String| ModelError::Weights { file: file.into(), problem };
    let mut params = stored_size::template(graph, file)?;
    let limit = stored_size::longest(graph);
    let bytes = crate::run::fs::read_within(&crate::run::fs::Disk, file, limit).map_err(|e| fail(e.to_string()))?;
    params.read_safetensors(&bytes).map_err(|e| fail(e.in_full()))?;
    Ok(params)
}
