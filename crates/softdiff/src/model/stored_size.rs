//! How many weights a file holds, before memory for a network's is allocated.

use super::ModelError;
use serde_json::Value;
use softdiff_engine::{Graph, Params, memory, regular_file};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The longest header of a weight file: some 100 bytes for each of its tensors.
const MAX_HEADER: u64 = 16 << 20;
/// While a file is read there are its bytes, the weights so far and a copy, and one tensor more.
const COPIES: u64 = 4;
/// Networks up to here are allocated whatever the file says, since reading it then names the tensor that is wrong.
const SMALL: u64 = 1 << 20;

/// Zeros for the weights of `graph`, which are to be read from `file`. A recipe that describes a much larger network than the
/// file is of, and one that does not fit into memory, are errors, and nothing is allocated.
pub(super) fn template(graph: &Graph, file: &Path) -> Result<Params<f32>, ModelError> {
    let fail = |problem: String| ModelError::Weights { file: file.into(), problem };
    let wanted = graph.param_elements();
    if wanted > SMALL {
        let stored = stored_elements(file).map_err(|error| fail(error.to_string()))?;
        if wanted > stored.saturating_mul(2) {
            return Err(fail(format!("it has {stored} weights, and the network of the recipe {wanted}")));
        }
    }
    let bytes = wanted.saturating_mul(COPIES * size_of::<f32>() as u64);
    let hint = "use a machine with more memory, or a smaller network";
    memory::require(bytes, format!("reading the {wanted} weights of {}", file.display()), hint)
        .map_err(softdiff_engine::Error::HostMemory)?;
    Ok(Params::zeros(graph))
}

/// The most bytes that a file with the weights of `graph` has: twice as many numbers, and its header.
pub(super) fn longest(graph: &Graph) -> u64 {
    graph.param_elements().saturating_mul(2 * size_of::<f32>() as u64).saturating_add(MAX_HEADER)
}

/// The values of all tensors of a safetensors file, by its header.
fn stored_elements(file: &Path) -> io::Result<u64> {
    let damaged = |problem: &str| io::Error::new(ErrorKind::InvalidData, problem);
    let mut file = regular_file::open(file)?;
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER {
        return Err(damaged("its header is too long"));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header)?;
    let header: Value = serde_json::from_slice(&header).map_err(|_| damaged("its header is not JSON"))?;
    let tensors = header.as_object().ok_or_else(|| damaged("its header names no tensors"))?;
    let elements = |tensor: &Value| {
        let sizes = tensor.get("shape").and_then(Value::as_array).into_iter().flatten();
        sizes.filter_map(Value::as_u64).fold(1, u64::saturating_mul)
    };
    let sizes = tensors.iter().filter(|(name, _)| *name != "__metadata__").map(|(_, tensor)| elements(tensor));
    Ok(sizes.fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::Init;

    #[test]
    fn a_recipe_of_a_larger_network_than_the_file_is_refused_with_both_counts() {
        let file = std::env::temp_dir().join(format!("softdiff-stored-size-{}.safetensors", std::process::id()));
        let graph = |size: usize| {
            let mut graph = Graph::new();
            graph.param("w", [size, 4], Init::Constant(0.0)).unwrap();
            graph
        };
        Params::<f32>::zeros(&graph(5)).save(&file, &[("a", "b".into())]).unwrap();
        assert_eq!(stored_elements(&file).unwrap(), 20);
        assert_eq!(template(&graph(5), &file).unwrap().numel(), 20);
        let error = template(&graph(0x0FFF_FFFF), &file).unwrap_err().to_string();
        assert!(error.ends_with("it has 20 weights, and the network of the recipe 1073741820"), "{error}");
        std::fs::remove_file(file).unwrap();
    }
}
