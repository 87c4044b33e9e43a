//! `manifest.json`: what a checkpoint consists of, sealed by a hash of the manifest's own text.

use super::error::{CheckpointError, Result};
use serde::{Deserialize, Serialize};
use softdiff_engine::HintedMessage;
use std::collections::BTreeMap;
use std::path::Path;

/// The manifest's name.
pub const MANIFEST: &str = "manifest.json";
/// The format's version; a higher one is refused.
pub const SCHEMA: u32 = 1;

/// Longest manifest that is read: thousands of files.
pub(super) const LONGEST: u64 = 1 << 20;

/// What a checkpoint belongs to: a checkpoint of another recipe or schedule must not be continued.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Hash of the resolved recipe.
    pub config_hash: String,
    /// Hash of `schedule.json`.
    pub schedule_hash: String,
    /// Hash of `prior.safetensors`; empty in checkpoints of versions that did not record it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prior_hash: String,
    /// Hash of `spectrum.safetensors`; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spectrum_hash: String,
    /// The program that wrote it: version and target.
    pub build: String,
}

impl Identity {
    /// For a run with this resolved recipe and this schedule, written by this build.
    pub fn of(config: &[u8], schedule: &[u8]) -> Identity {
        let (config_hash, schedule_hash) = (hash(config), hash(schedule));
        Identity { config_hash, schedule_hash, build: crate::run::build(), ..Identity::default() }
    }

    /// With this prior, and this spectrum where there is one, as their files have them.
    pub fn with_measurements(self, prior: &[u8], spectrum: Option<&[u8]>) -> Identity {
        Identity { prior_hash: hash(prior), spectrum_hash: spectrum.map_or(String::new(), hash), ..self }
    }
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Length in bytes.
    pub bytes: u64,
    /// blake3 of the content, in hexadecimal.
    pub blake3: String,
}

/// The content of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the format.
    pub schema: u32,
    /// Training steps done.
    pub step: u64,
    /// Images the network has seen.
    pub images_seen: u64,
    /// What it belongs to.
    #[serde(flatten)]
    pub identity: Identity,
    /// Every other file, by name.
    pub files: BTreeMap<String, FileEntry>,
}

/// The text that separates the sealed part from its seal.
const BEFORE_SEAL: &str = ",\n  \"seal\": \"";
const AFTER_SEAL: &str = "\"\n}\n";
const HEX: usize = 2 * blake3::OUT_LEN;

impl Manifest {
    /// JSON whose last entry, `seal`, is the blake3 of all the text before it.
    pub(super) fn write(&self) -> Vec<u8> {
        let Ok(mut text) = serde_json::to_string_pretty(self) else {
            unreachable!("strings, integers and a map with string keys are always JSON")
        };
        text.truncate(text.strip_suffix("\n}").map_or(text.len(), str::len));
        let seal = blake3::hash(text.as_bytes()).to_hex();
        text += BEFORE_SEAL;
        text += &seal;
        text += AFTER_SEAL;
        text.into_bytes()
    }

    /// Reads and checks the seal, before anything else is believed.
    pub(super) fn read(checkpoint: &Path, bytes: &[u8]) -> Result<Manifest> {
        let format = |problem: HintedMessage| CheckpointError::Format {
            checkpoint: checkpoint.into(),
            file: MANIFEST.into(),
            problem,
        };
        let ending = BEFORE_SEAL.len() + HEX + AFTER_SEAL.len();
        let cut = bytes.len().checked_sub(ending).ok_or_else(|| format("cut off".into()))?;
        let (sealed, ending) = bytes.split_at(cut);
        let seal = ending
            .strip_prefix(BEFORE_SEAL.as_bytes())
            .and_then(|rest| rest.strip_suffix(AFTER_SEAL.as_bytes()))
            .ok_or_else(|| format("damaged: it does not end with its seal".into()))?;
        let computed = blake3::hash(sealed).to_hex();
        if computed.as_bytes() != seal {
            return Err(CheckpointError::Hash {
                checkpoint: checkpoint.into(),
                file: MANIFEST.into(),
                expected: String::from_utf8_lossy(seal).escape_default().to_string(),
                found: computed.to_string(),
            });
        }
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(|e| format(e.to_string().into()))?;
        if manifest.schema > SCHEMA {
            return Err(CheckpointError::Field {
                checkpoint: checkpoint.into(),
                file: MANIFEST.into(),
                field: "schema",
                expected: format!("at most {SCHEMA}"),
                found: manifest.schema.to_string(),
            });
        }
        if let Some(name) = manifest.files.keys().find(|name| name.contains(['/', '\\']) || *name == "..") {
            return Err(format(format!("the file name {name:?} leads out of the checkpoint").into()));
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::Hint;

    fn manifest() -> Manifest {
        let entry = FileEntry { bytes: 5, blake3: "ab".repeat(32) };
        let files = BTreeMap::from([("params.safetensors".to_string(), entry)]);
        Manifest { schema: SCHEMA, step: 7, images_seen: 896, identity: Identity::default(), files }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let bytes = manifest().write();
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(json["seal"].as_str().unwrap().len(), HEX);
        assert_eq!(Manifest::read(Path::new("c"), &bytes).unwrap(), manifest());
    }

    #[test]
    fn every_single_flipped_bit_breaks_the_seal() {
        let bytes = manifest().write();
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            Manifest::read(Path::new("c"), &flipped).unwrap_err();
        }
    }

    #[test]
    fn a_newer_schema_is_refused_with_both_numbers() {
        let newer = Manifest { schema: 2, ..manifest() };
        let error = Manifest::read(Path::new("run/step-1"), &newer.write()).unwrap_err();
        assert_eq!(error.to_string(), "run/step-1/manifest.json: schema is 2, expected at most 1");
        assert!(error.hint().is_some());
    }

    #[test]
    fn a_file_name_that_leads_elsewhere_is_refused() {
        let mut hostile = manifest();
        let entry = hostile.files["params.safetensors"].clone();
        hostile.files.insert("../../secret".into(), entry);
        let error = Manifest::read(Path::new("c"), &hostile.write()).unwrap_err().to_string();
        assert_eq!(error, r#"c/manifest.json: the file name "../../secret" leads out of the checkpoint"#);
    }
}
