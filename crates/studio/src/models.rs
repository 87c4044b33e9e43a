//! Models to sample and restore with: those that were named at the start, and the runs with a checkpoint.

use super::problem::HttpProblem;
use super::query::QueryValues;
use super::runs::Runs;
use serde_json::{Value, json};
use softdiff::engine::Device;
use softdiff::model::Model;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// Models by identifier; the one used last stays loaded.
#[derive(Clone)]
pub struct Models {
    named: Arc<Vec<PathBuf>>,
    photos: Option<PathBuf>,
    runs: Runs,
    open: Arc<Mutex<Option<OpenModel>>>,
    choice: Arc<String>,
    device: Arc<OnceLock<Device>>,
}

struct OpenModel {
    place: PathBuf,
    changed: Option<SystemTime>,
    model: Arc<Model>,
}

impl Models {
    /// The models at `named`, those of the runs, and the one for photographs, to be run on the device called `choice`.
    pub fn new(named: Vec<PathBuf>, photos: Option<PathBuf>, runs: Runs, choice: String) -> Models {
        let (named, choice) = (Arc::new(named), Arc::new(choice));
        Models { named, photos, runs, open: Arc::default(), choice, device: Arc::default() }
    }

    /// Where to compute: opened when it is first needed, by the thread that works.
    pub fn device(&self) -> Result<&Device, HttpProblem> {
        if let Some(device) = self.device.get() {
            return Ok(device);
        }
        let device = Device::open(&self.choice).map_err(HttpProblem::failed)?;
        Ok(self.device.get_or_init(|| device))
    }

    /// Identifier, name and place of each.
    fn list(&self) -> Vec<(String, String, PathBuf)> {
        let named = self.named.iter().enumerate().map(|(index, place)| {
            let name = place.file_name().unwrap_or(place.as_os_str()).to_string_lossy().into_owned();
            (format!("model-{index}"), name, place.clone())
        });
        let usable = |place: &Path| place.join("checkpoints").is_dir() || place.join("model.safetensors").is_file();
        let runs = self.runs.list().into_iter().filter(|(_, place)| usable(place));
        let photos = self.photos.iter().map(|place| ("photos".to_owned(), "photos".to_owned(), place.clone()));
        named.chain(runs.map(|(name, place)| (format!("run-{name}"), name, place))).chain(photos).collect()
    }

    /// `/api/models`: identifier and name of each.
    pub fn answer(&self) -> Value {
        self.list().into_iter().map(|(id, name, _)| json!({ "id": id, "name": name })).collect()
    }

    /// `/api/model?id=`: what one is for, and its own way of sampling.
    pub fn facts(&self, query: &QueryValues) -> Result<Value, HttpProblem> {
        let (name, place) = self.place(query.value("id").unwrap_or_default())?;
        let model = self.open(&place)?;
        let (shape, sample) = (model.path.shape(), &model.recipe.sample);
        Ok(json!({
            "name": name, "any_size": model.takes_any_size(), "width": shape.width, "height": shape.height,
            "sampler": sample.sampler, "samplers": model.samplers().collect::<Vec<_>>(), "steps": sample.steps,
        }))
    }

    /// Name and folder of the model with that identifier.
    pub fn place(&self, id: &str) -> Result<(String, PathBuf), HttpProblem> {
        let found = self.list().into_iter().find(|(known, ..)| known == id).map(|(_, name, place)| (name, place));
        found.ok_or_else(|| {
            HttpProblem::missing("there is no such model", "start with --model or --runs, or reload the page")
        })
    }

    /// Opens a model, unless it is open and has not changed.
    pub fn open(&self, place: &Path) -> Result<Arc<Model>, HttpProblem> {
        let changed = std::fs::metadata(place.join("checkpoints")).and_then(|meta| meta.modified()).ok();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = open.as_ref().filter(|open| open.place == place && open.changed == changed) {
            return Ok(same.model.clone());
        }
        // Two large models at once may be too much.
        *open = None;
        let model = Arc::new(Model::open(place, None).map_err(HttpProblem::failed)?);
        *open = Some(OpenModel { place: place.into(), changed, model: model.clone() });
        Ok(model)
    }
}
