//! All that training needs to go on from an imported checkpoint, in a second file beside its weights.
//!
//! `params.NAME` are the weights last trained, `ema.NAME` their average, `first.NAME` and `second.NAME` Adam's moments, under our names
//! and in our layouts. The header says how many updates Adam has done.

use super::safetensors_file::write_safetensors;
use super::score_sde::OfficialTensor;
use super::{ImportError, read_file};
use crate::checkpoint::{TrainingProgress, TrainingState};
use safetensors::{Dtype, SafeTensors};
use softdiff_engine::optim::{Adam, AdamConfig};
use softdiff_engine::shared_bytes::SharedBytes;
use softdiff_engine::{Hint, Params};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const PREFIXES: [&str; 4] = ["params.", "ema.", "first.", "second."];
const UPDATES: &str = "updates";

/// A training state in a file.
pub struct TrainingFile {
    path: PathBuf,
    bytes: SharedBytes,
    updates: u64,
}

/// A file that is no training state.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct TrainingFileError {
    path: PathBuf,
    problem: String,
}

impl Hint for TrainingFileError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some("import the checkpoint again".into())
    }
}

impl TrainingFile {
    /// The place of the state that belongs to a file of weights.
    pub fn place(weights: &Path) -> PathBuf {
        weights.with_extension("train.safetensors")
    }

    /// Writes the four sets of tensors, each by our names.
    pub fn write(
        out: &mut impl Write,
        sets: [Vec<(String, OfficialTensor)>; 4],
        updates: u64,
        mut metadata: BTreeMap<String, String>,
    ) -> io::Result<()> {
        metadata.insert(UPDATES.into(), updates.to_string());
        let named = PREFIXES.into_iter().zip(sets);
        let all: Vec<(String, OfficialTensor)> = named
            .flat_map(|(prefix, set)| set.into_iter().map(move |(name, tensor)| (format!("{prefix}{name}"), tensor)))
            .collect();
        write_safetensors(out, &all, &metadata)
    }

    /// The state next to a file of imported weights, if there is one.
    pub fn beside(weights: &Path) -> Result<Option<TrainingFile>, TrainingFileError> {
        let path = TrainingFile::place(weights);
        if !weights.is_file() || !path.is_file() {
            return Ok(None);
        }
        let fail = |problem: String| TrainingFileError { path: path.clone(), problem };
        let bytes = read_file(&path).map_err(|error: ImportError| fail(error.to_string()))?;
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|error| fail(error.to_string()))?;
        let updates = header.metadata().as_ref().and_then(|facts| facts.get(UPDATES)?.parse().ok());
        let updates = updates.ok_or_else(|| fail("it does not say how many updates Adam has done".into()))?;
        Ok(Some(TrainingFile { path, bytes, updates }))
    }

    /// Updates that Adam has done.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    fn fail(&self, problem: String) -> TrainingFileError {
        TrainingFileError { path: self.path.clone(), problem }
    }

    fn tensors(&self) -> Result<SafeTensors<'_>, TrainingFileError> {
        SafeTensors::deserialize(&self.bytes).map_err(|error| self.fail(error.to_string()))
    }

    /// Names and shapes of the weights.
    pub fn shapes(&self) -> Result<Vec<(String, Vec<usize>)>, TrainingFileError> {
        let file = self.tensors()?;
        let shape =
            |name: &str| Some((name.strip_prefix(PREFIXES[0])?.to_owned(), file.tensor(name).ok()?.shape().to_vec()));
        Ok(file.names().into_iter().filter_map(shape).collect())
    }

    /// The state for parameters like `template`; every average of the recipe begins with the imported one.
    pub fn state(&self, template: &Params<f32>, config: &AdamConfig) -> Result<TrainingState, TrainingFileError> {
        let file = self.tensors()?;
        let values = |prefix: &str, name: &str, shape: &[usize]| -> Result<Vec<f32>, TrainingFileError> {
            let name = format!("{prefix}{name}");
            let tensor = file.tensor(&name).map_err(|error| self.fail(error.to_string()))?;
            if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
                return Err(self.fail(format!(
                    "{name} is {:?} {:?}, expected F32 {shape:?}",
                    tensor.dtype(),
                    tensor.shape()
                )));
            }
            Ok(tensor.data().as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect())
        };
        let params = |prefix: &str| -> Result<Params<f32>, TrainingFileError> {
            let mut params = template.clone();
            for spec in template.specs() {
                let found = values(prefix, &spec.name, &spec.shape)?;
                params.set(&spec.name, &spec.shape, &found).map_err(|error| self.fail(error.in_full()))?;
            }
            Ok(params)
        };
        let moments = |prefix: &str| -> Result<Vec<Vec<f32>>, TrainingFileError> {
            let trained = template.specs().iter().filter(|spec| spec.trainable);
            trained.map(|spec| values(prefix, &spec.name, &spec.shape)).collect()
        };
        let [weights, average, first, second] = PREFIXES;
        let ema = vec![params(average)?; config.ema.len()];
        let (first, second) = (moments(first)?, moments(second)?);
        let adam = Adam { config: config.clone(), step: self.updates, first, second, ema };
        Ok(TrainingState { params: params(weights)?, adam, progress: TrainingProgress::default() })
    }
}
