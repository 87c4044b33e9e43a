//! A model as a folder to keep or to publish: weights, path, prior, what it is, and hashes of it all.

use super::guide::{self, Guide};
use super::{Model, ModelError, WEIGHTS};
use crate::checkpoint::FileEntry;
use crate::objective::Prediction;
use crate::sampler::SamplerError;
use crate::spectrum::SPECTRUM_FILE;
use serde::{Deserialize, Serialize};
use softdiff_data::quote;
use softdiff_engine::atomic_file;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// What is in an exported folder, and what it was made from.
pub const MANIFEST: &str = "manifest.json";
/// Which file is what, for other programs; and the model's card, for people.
pub(super) const DESCRIPTION: &str = "model.json";
pub(super) const CARD: &str = "README.md";
/// The version of its format.
pub(super) const SCHEMA: u32 = 1;
/// The levels of the path.
pub(super) const SCHEDULE: &str = "schedule.json";
/// What not every model has.
const OPTIONAL: [&str; 4] = [SCHEDULE, SPECTRUM_FILE, guide::RECIPE, guide::PARAMS];

/// The content of an exported model's `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelManifest {
    /// Version of the format.
    pub schema: u32,
    /// What the model is called.
    pub name: String,
    /// Training steps behind the weights.
    pub step: u64,
    /// Which weights these are: `ema-0.999` and the like, or `raw`.
    pub weights: String,
    /// How they are stored: `f32` or `bf16`.
    pub precision: String,
    /// Number of single weights.
    pub parameters: usize,
    /// The program that wrote it.
    pub build: String,
    /// Every other file, by name.
    pub files: BTreeMap<String, FileEntry>,
}

impl Model {
    /// Writes the folder `to`, with weights of half the size if `half`; gives its manifest. A model that was there is replaced.
    pub fn export(&self, to: &Path, half: bool) -> Result<ModelManifest, ModelError> {
        if !self.is_described {
            return Err(ModelError::NotDescribed);
        }
        let guidance = self.recipe.sample.guidance;
        if guidance != 1.0 && self.guide.is_none() {
            return Err(SamplerError::NoGuide(guidance).into());
        }
        let fail = |file: &Path, problem: String| ModelError::Unwritable { file: file.into(), problem };
        std::fs::create_dir_all(to).map_err(|error| fail(to, error.to_string()))?;
        let metadata = [("name", self.name.clone()), ("format", "softdiff".into())];
        let write_weights = if half { Params32::write_bf16_safetensors } else { Params32::write_safetensors };
        let weights_in = |params: &Params32, name: &str| {
            write_weights(params, &metadata).map_err(|error| fail(&to.join(name), error.to_string()))
        };
        let prior = self.prior.to_bytes().map_err(|problem| fail(&to.join("prior.safetensors"), problem))?;
        let write = |name: &str, bytes: &[u8]| {
            let path = to.join(name);
            atomic_file::write_in_folder(&path, |file| file.write_all(bytes))
                .map_err(|error| fail(&path, error.to_string()))
        };
        let mut files = BTreeMap::new();
        let mut put = |name: &str, bytes: &[u8]| -> Result<(), ModelError> {
            write(name, bytes)?;
            let entry = FileEntry { bytes: bytes.len() as u64, blake3: blake3::hash(bytes).to_hex().to_string() };
            files.insert(name.to_owned(), entry);
            Ok(())
        };
        put("config.toml", self.recipe.public().to_toml().as_bytes())?;
        put("prior.safetensors", &prior)?;
        if let Some(schedule) = &self.schedule {
            put(SCHEDULE, schedule.to_json().as_bytes())?;
        }
        if let Prediction::Wiener(wiener) = &self.prediction {
            let bytes = wiener.spectrum().to_bytes();
            put(SPECTRUM_FILE, &bytes.map_err(|problem| fail(&to.join(SPECTRUM_FILE), problem))?)?;
        }
        put(WEIGHTS, &weights_in(&self.params, WEIGHTS)?)?;
        if let Some(Guide { recipe, params, .. }) = &self.guide {
            put(guide::RECIPE, recipe.public().to_toml().as_bytes())?;
            put(guide::PARAMS, &weights_in(params, guide::PARAMS)?)?;
        }
        let precision = if half { "bf16" } else { "f32" };
        put(DESCRIPTION, self.description().as_bytes())?;
        put(CARD, self.card(precision).as_bytes())?;
        let manifest = ModelManifest {
            schema: SCHEMA,
            name: self.name.clone(),
            step: self.step,
            weights: self.weights.to_string(),
            precision: precision.into(),
            parameters: self.params.numel(),
            build: crate::run::build(),
            files: std::mem::take(&mut files),
        };
        let Ok(text) = serde_json::to_string_pretty(&manifest) else { unreachable!("a manifest is always JSON") };
        write(MANIFEST, (text + "\n").as_bytes())?;
        // What another model left here counts no more.
        for name in OPTIONAL.into_iter().filter(|name| !manifest.files.contains_key(*name)) {
            match std::fs::remove_file(to.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(fail(&to.join(name), error.to_string()));
                }
                _ => {}
            }
        }
        Ok(manifest)
    }

    /// `model.json`: which library opens the folder, and which file is what. Not `model_index.json`, which is diffusers'.
    fn description(&self) -> String {
        let mut description = serde_json::json!({
            "library": "softdiff", "name": self.name, "recipe": "config.toml", "weights": WEIGHTS,
            "prior": "prior.safetensors", "schedule": self.schedule.as_ref().map(|_| SCHEDULE),
            "spectrum": matches!(self.prediction, Prediction::Wiener(_)).then_some(SPECTRUM_FILE),
        });
        if self.guide.is_some() {
            description["guide"] = guide::PARAMS.into();
        }
        format!("{description:#}\n")
    }

    /// The model's card.
    fn card(&self, precision: &str) -> String {
        let shape = self.path.shape();
        let recipe = &self.recipe;
        let leak = match self.prior.leaks_training_images() {
            true => "\nIts prior starts from corrupted training images: samples are not all its own.\n",
            false => "",
        };
        let guide = self.guide.as_ref().map_or(String::new(), |guide| {
            let how = match recipe.sample.guidance {
                1.0 => "Its samples are not guided, but can be (`--guidance 1.5`),".to_owned(),
                guidance => format!("Its samples are guided, with `sample.guidance = {guidance}`,"),
            };
            let size = guide.params.numel();
            format!("\n{how} by a weaker model of {size} weights (`guide.safetensors`, trained by `guide.toml`).\n")
        });
        format!(
            "---\nlibrary_name: softdiff\ntags:\n- diffusion\n- unconditional-image-generation\n---\n\n# {}\n\n\
             A soft diffusion model of images of {shape}: a {} path, {} weights ({}, {precision}) after {} training steps of \
             {} images.\n{leak}{guide}\n```\nsoftdiff sample FOLDER --seeds 0..64 --out samples.png\n```\n\n\
             The recipe it was trained by is `config.toml`; `manifest.json` holds the hash of every file.\n",
            quote::markdown(&self.name),
            recipe.path.kind(),
            self.params.numel(),
            self.weights,
            self.step,
            recipe.train.batch,
        )
    }
}

type Params32 = softdiff_engine::Params<f32>;
