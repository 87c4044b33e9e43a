//! The format of `torch.save` before 1.6: four pickles (a magic number, the version, the machine, the object), a list of keys,
//! then each key's storage as a count and its numbers.

use super::DType;
use crate::import::ImportError;
use crate::import::pickle::{Global, Pickle, PickleNode, PickleValue, read_first};
use softdiff_data::bytes::Bytes;
use std::collections::HashMap;

/// The only version there is.
const VERSION: i64 = 1001;

/// The object's pickle and every storage by its key; `bytes` begin at the end of the magic number.
pub fn read(bytes: &[u8]) -> Result<(Pickle, HashMap<String, &[u8]>), ImportError> {
    let mut rest = bytes.strip_prefix(b".").unwrap_or(bytes);
    let mut next = || -> Result<Pickle, ImportError> {
        let (pickle, end) = read_first(rest)?;
        rest = rest.get(end..).unwrap_or_default();
        Ok(pickle)
    };
    let (version, machine, object, keys) = (next()?, next()?, next()?, next()?);
    let version = version.root().integer()?;
    if version != VERSION {
        let expected = "the version 1001";
        return Err(ImportError::OutOfRange { place: "the version".into(), value: version as f64, expected });
    }
    if !matches!(machine.root().get("little_endian")?.value(), PickleValue::Bool(true)) {
        return Err(ImportError::ByteOrder { part: "the checkpoint".into(), found: "big".into() });
    }
    let types = storage_types(&object.root())?;
    let mut bytes = Bytes::new(rest, "the storages");
    let mut storages = HashMap::new();
    for key in keys.root().items()? {
        let name = key.text()?;
        let dtype = types.get(name).ok_or_else(|| key.wrong("the key of a storage"))?;
        let count = bytes.u64()?;
        let length = count.checked_mul(dtype.bytes() as u64);
        let overflow = || ImportError::TensorOverflow { place: key.place(), what: "the storage" };
        storages.insert(name.to_string(), bytes.take(length.ok_or_else(overflow)?)?);
    }
    Ok((object, storages))
}

/// The number format of each storage that the tensors of a dictionary refer to.
fn storage_types(root: &PickleNode) -> Result<HashMap<String, DType>, ImportError> {
    let mut types = HashMap::new();
    for entry in root.entries()? {
        let (_, node) = entry?;
        let PickleValue::Call { arguments, .. } = node.value() else { continue };
        let mut tensor = node.at(*arguments);
        // A parameter holds its tensor.
        if let PickleValue::Call { function: Global::RebuildParameter, .. } = node.value() {
            let [inner] = tensor.tuple("the arguments of a parameter")?;
            let PickleValue::Call { arguments, .. } = inner.value() else { return Err(inner.wrong("a tensor")) };
            tensor = inner.at(*arguments);
        }
        let [storage] = tensor.tuple("the arguments of a tensor")?;
        let &PickleValue::Persistent(description) = storage.value() else { continue };
        let [_, kind, key] = storage.at(description).tuple("the description of a storage")?;
        let &PickleValue::Global(Global::Storage(dtype)) = kind.value() else {
            return Err(kind.wrong("a storage type"));
        };
        types.insert(key.text()?.to_string(), dtype);
    }
    Ok(types)
}
