//! Models from disk: a run, one of its checkpoints, or an exported model.

use super::choice::{self, CheckpointChoice, Chosen};
use super::export::SCHEDULE;
use super::exported::ExportedFolder;
use super::guide::{self, Guide};
use super::posthoc::post_hoc_average;
use super::stored_size;
use super::{Condition, ModelError};
use crate::checkpoint::PARAMS;
use crate::network::Network;
use crate::objective::Prediction;
use crate::path::Path;
use crate::prior::Prior;
use crate::recipe::{Recipe, Weights};
use crate::run::RunFolder;
use crate::schedule::Schedule;
use crate::spectrum::SPECTRUM_FILE;
use crate::train::{known_by, of_run};
use softdiff_engine::{Graph, Hint, Params};
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
