//! Writes tensors as safetensors: the header's length, the header as JSON, the numbers.
//!
//! The `safetensors` crate writes its metadata in the order of a hash map, a new one on every run. Here keys are sorted, so
//! that the same checkpoint always gives the same bytes.

use super::score_sde::OfficialTensor;
use serde_json::{Map, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The format wants the numbers to begin at a multiple of this.
const ALIGNMENT: usize = 8;

/// Writes single-precision tensors in the order of their names.
pub fn write_safetensors(
    out: &mut impl Write,
    tensors: &[(String, OfficialTensor)],
    metadata: &BTreeMap<String, String>,
) -> io::Result<()> {
    let by_name: BTreeMap<&str, &OfficialTensor> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let mut header = Map::new();
    header.insert("__metadata__".into(), json!(metadata));
    let mut start = 0;
    for (name, tensor) in &by_name {
        let end = start + size_of_val(tensor.data.as_slice());
        let entry = json!({ "dtype": "F32", "shape": tensor.shape, "data_offsets": [start, end] });
        header.insert((*name).into(), entry);
        start = end;
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for tensor in by_name.values() {
        for value in &tensor.data {
            out.write_all(&value.to_le_bytes())?;
        }
    }
    Ok(())
}
