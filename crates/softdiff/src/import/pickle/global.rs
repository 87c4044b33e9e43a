//! The only functions and classes a pickle may name. None of them is ever called: they are labels in the value tree.

use crate::import::torch::DType;

/// A name on the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Global {
    /// `collections.OrderedDict`: read as a dictionary.
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`: a view of a storage.
    RebuildTensor,
    /// `torch._utils._rebuild_parameter`: a tensor that is trained.
    RebuildParameter,
    /// `torch.FloatStorage` and its siblings.
    Storage(DType),
    /// `numpy.core.multiarray.scalar`: one number.
    NumpyScalar,
    /// `numpy.dtype`.
    NumpyDtype,
    /// `_codecs.encode`: how protocol 2 spells bytes.
    Encode,
}

impl Global {
    /// The label for a module and a name, if it is on the list.
    pub fn find(module: &str, name: &str) -> Option<Global> {
        Some(match (module, name) {
            ("collections", "OrderedDict") => Global::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Global::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Global::RebuildParameter,
            ("torch", storage) => Global::Storage(DType::of_storage(storage)?),
            ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Global::NumpyScalar,
            ("numpy", "dtype") => Global::NumpyDtype,
            ("_codecs", "encode") => Global::Encode,
            _ => return None,
        })
    }
}
