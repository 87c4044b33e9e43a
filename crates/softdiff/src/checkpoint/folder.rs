//! One checkpoint on disk: opened by its manifest, verified byte by byte, restored.

use super::error::{CheckpointContext, CheckpointError, Result};
use super::manifest::{FileEntry, Identity, LONGEST, MANIFEST, Manifest};
use super::state::TrainingState;
use super::tensors;
use crate::run::fs::{Fs, read_up_to};
use softdiff_engine::optim::AdamConfig;
use softdiff_engine::{HintedMessage, Params, regular_file};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A checkpoint whose manifest has been read.
#[derive(Clone, Debug)]
pub struct StoredCheckpoint {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    manifest: Manifest,
}

/// What a search for a checkpoint to continue from found.
#[derive(Debug)]
pub struct FoundCheckpoints {
    /// The newest one that verifies; none when there are no checkpoints at all.
    pub newest: Option<StoredCheckpoint>,
    /// Newer ones that cannot be used, newest first.
    pub skipped: Vec<SkippedCheckpoint>,
    /// What an earlier process left half-done and was removed.
    pub removed: Vec<String>,
}

/// A checkpoint that cannot be used.
#[derive(Debug)]
pub struct SkippedCheckpoint {
    /// Its step.
    pub step: u64,
    /// Why.
    pub reason: CheckpointError,
}

/// Bytes read at a time.
const BLOCK: usize = 1 << 20;

impl StoredCheckpoint {
    /// Reads the manifest of the checkpoint in `path`, which must be of step `step`.
    pub(super) fn open(fs: Arc<dyn Fs>, path: PathBuf, step: u64) -> Result<StoredCheckpoint> {
        let file = path.join(MANIFEST);
        regular_file::refuse_link(&path).doing("open", &path)?;
        let bytes = match read_up_to(fs.as_ref(), &file, LONGEST) {
            Ok(bytes) => bytes,
            Err(error) => return Err(unreadable(&path, MANIFEST, error)),
        };
        let manifest = Manifest::read(&path, &bytes)?;
        if manifest.step != step {
            return Err(field(&path, MANIFEST, "step", &step, &manifest.step));
        }
        Ok(StoredCheckpoint { fs, path, manifest })
    }

    /// What the manifest says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Compares length and hash of every file with the manifest.
    pub fn verify(&self) -> Result<()> {
        let mut block = vec![0; BLOCK];
        for (name, entry) in &self.manifest.files {
            let file = self.fs.open(&self.path.join(name)).map_err(|e| unreadable(&self.path, name, e))?;
            // One byte more than the manifest says, so that a longer file is noticed.
            let mut file = file.take(entry.bytes.saturating_add(1));
            let (mut hash, mut length) = (blake3::Hasher::new(), 0);
            loop {
                match file.read(&mut block) {
                    Ok(0) => break,
                    Ok(n) => {
                        hash.update(&block[..n]);
                        length += n as u64;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(unreadable(&self.path, name, error)),
                }
            }
            self.compare(name, entry, length, hash.finalize())?;
        }
        Ok(())
    }

    /// Refuses a checkpoint of another recipe, schedule, prior or spectrum; another build may go on with it.
    pub fn check_belongs_to(&self, run: &Identity) -> Result<()> {
        let own = &self.manifest.identity;
        if own.config_hash != run.config_hash {
            return Err(field(&self.path, MANIFEST, "config_hash", &run.config_hash, &own.config_hash));
        }
        if own.schedule_hash != run.schedule_hash {
            return Err(field(&self.path, MANIFEST, "schedule_hash", &run.schedule_hash, &own.schedule_hash));
        }
        // Earlier versions recorded neither.
        if !own.prior_hash.is_empty() && own.prior_hash != run.prior_hash {
            return Err(field(&self.path, MANIFEST, "prior_hash", &run.prior_hash, &own.prior_hash));
        }
        if !own.prior_hash.is_empty() && own.spectrum_hash != run.spectrum_hash {
            return Err(field(&self.path, MANIFEST, "spectrum_hash", &run.spectrum_hash, &own.spectrum_hash));
        }
        Ok(())
    }

    /// The training state, for parameters like `template` and this optimiser. What is parsed is what was verified.
    pub fn restore(&self, template: &Params<f32>, config: &AdamConfig) -> Result<TrainingState> {
        let state = tensors::decode(&self.path, template, config, |name| self.read(name))?;
        let (step, seen) = (state.progress.step, state.progress.images_seen);
        if step != self.manifest.step {
            return Err(field(&self.path, tensors::STATE, "step", &self.manifest.step, &step));
        }
        if seen != self.manifest.images_seen {
            return Err(field(&self.path, tensors::STATE, "images_seen", &self.manifest.images_seen, &seen));
        }
        Ok(state)
    }

    /// Weights only, to sample from: those of the moving average with this decay, or the raw ones.
    pub fn weights(&self, template: &Params<f32>, average: Option<f64>) -> Result<Params<f32>> {
        let name = average.map_or_else(|| tensors::PARAMS.into(), tensors::ema_file);
        let mut params = template.clone();
        params.read_safetensors(&self.read(&name)?).map_err(|error| CheckpointError::Format {
            checkpoint: self.path.clone(),
            file: name,
            problem: HintedMessage::of(error),
        })?;
        Ok(params)
    }

    /// A file's verified bytes.
    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let entry = self.manifest.files.get(name).ok_or_else(|| missing(&self.path, name))?;
        let bytes = read_up_to(self.fs.as_ref(), &self.path.join(name), entry.bytes)
            .map_err(|e| unreadable(&self.path, name, e))?;
        self.compare(name, entry, bytes.len() as u64, blake3::hash(&bytes))?;
        Ok(bytes)
    }

    fn compare(&self, name: &str, entry: &FileEntry, length: u64, hash: blake3::Hash) -> Result<()> {
        let (checkpoint, file) = (self.path.clone(), name.to_string());
        if length != entry.bytes {
            return Err(CheckpointError::Length { checkpoint, file, expected: entry.bytes, found: length });
        }
        let found = hash.to_hex().to_string();
        if found != entry.blake3 {
            return Err(CheckpointError::Hash { checkpoint, file, expected: entry.blake3.clone(), found });
        }
        Ok(())
    }
}

fn missing(checkpoint: &Path, file: &str) -> CheckpointError {
    CheckpointError::Missing { checkpoint: checkpoint.into(), file: file.into() }
}

fn unreadable(checkpoint: &Path, file: &str, error: io::Error) -> CheckpointError {
    match error.kind() {
        io::ErrorKind::NotFound => missing(checkpoint, file),
        _ => CheckpointError::Io { action: "read", path: checkpoint.join(file), source: error },
    }
}

fn field(
    checkpoint: &Path,
    file: &str,
    field: &'static str,
    expected: &dyn ToString,
    found: &dyn ToString,
) -> CheckpointError {
    CheckpointError::Field {
        checkpoint: checkpoint.into(),
        file: file.into(),
        field,
        expected: expected.to_string(),
        found: found.to_string(),
    }
}
