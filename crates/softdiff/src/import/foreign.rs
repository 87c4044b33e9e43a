//! Files of other diffusion software, recognised so that the error can name them. Nothing of them is read.

use safetensors::SafeTensors;
use softdiff_engine::regular_file;
use std::path::Path;

/// Hugging Face's library.
pub const DIFFUSERS: &str = "a model of diffusers";
/// NVlabs/edm and edm2, whose pickles hold Python objects with their source code.
pub const EDM: &str = "a network pickle of EDM";
const OTHER: &str = "a safetensors file";

/// Parameters that every U-Net of diffusers has.
const DIFFUSERS_PARAMETERS: [&str; 2] = ["conv_in.weight", "time_embedding.linear_1.weight"];
/// The module that restores EDM's objects; named within the first bytes of a pickle.
const EDM_MODULE: &[u8] = b"torch_utils.persistence";
/// What diffusers writes into each of its configurations.
const VERSION: &[u8] = b"_diffusers_version";
const SEARCHED: usize = 1 << 20;
/// The longest file of a folder that is searched.
const LONGEST: u64 = 1 << 20;

/// Whether tensors of these names are a U-Net of diffusers.
pub fn is_diffusers(has: impl Fn(&str) -> bool) -> bool {
    DIFFUSERS_PARAMETERS.iter().all(|name| has(name))
}

/// The software that wrote a file, if it is known and not score_sde.
pub fn of_bytes(bytes: &[u8]) -> Option<&'static str> {
    let start = bytes.get(..SEARCHED).unwrap_or(bytes);
    if start.windows(EDM_MODULE.len()).any(|window| window == EDM_MODULE) {
        return Some(EDM);
    }
    // Eight bytes of length, then JSON.
    if bytes.get(8) != Some(&b'{') {
        return None;
    }
    let (_, header) = SafeTensors::read_metadata(bytes).ok()?;
    let names = header.tensors();
    Some(if is_diffusers(|name| names.contains_key(name)) { DIFFUSERS } else { OTHER })
}

/// The software that wrote a folder.
pub fn of_folder(path: &Path) -> Option<&'static str> {
    let said = |file: &str| {
        let text = regular_file::read(&path.join(file), LONGEST).unwrap_or_default();
        text.windows(VERSION.len()).any(|window| window == VERSION)
    };
    (path.is_dir() && ["model_index.json", "config.json"].into_iter().any(said)).then_some(DIFFUSERS)
}
