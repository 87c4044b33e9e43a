//! The model's parameters by name, and the checks that every tensor of the checkpoint passes.

use super::OfficialTensor;
use crate::import::ImportError;
use crate::import::pickle::PickleNode;
use crate::import::torch::TorchFile;
use softdiff_data::quote::quote;
use std::collections::HashSet;

/// Added to every name by `torch.nn.DataParallel`.
const WRAPPER: &str = "module.";

/// The model's state.
pub struct OfficialModel {
    /// In the order of `parameters()`.
    pub parameters: Vec<(String, OfficialTensor)>,
    /// The one buffer.
    pub sigmas: Option<Vec<f64>>,
}

impl OfficialModel {
    /// Reads the state of the network.
    pub fn read(file: &TorchFile, node: &PickleNode) -> Result<OfficialModel, ImportError> {
        let mut model = OfficialModel { parameters: Vec::new(), sigmas: None };
        let mut seen = HashSet::new();
        for entry in node.entries()? {
            let (key, value) = entry?;
            let name = key.strip_prefix(WRAPPER).unwrap_or(key);
            if !seen.insert(name) {
                return Err(ImportError::DuplicateParameter { name: name.into() });
            }
            if name == "sigmas" {
                model.sigmas = Some(read_sigmas(file, &value)?);
            } else if is_parameter(name) {
                model.parameters.push((name.into(), read_weights(file, &value, name, None)?));
            } else {
                return Err(ImportError::UnknownParameter { name: quote(name) });
            }
        }
        if model.parameters.is_empty() {
            return Err(ImportError::Count { place: node.place(), expected: "at least 1".into(), found: 0 });
        }
        Ok(model)
    }

    /// The parameters that training changes, in order.
    pub fn trained(&self) -> impl Iterator<Item = &(String, OfficialTensor)> {
        self.parameters.iter().filter(|parameter| !is_frozen(parameter))
    }

    /// The parameters that training leaves alone, in order.
    pub fn frozen(&self) -> impl Iterator<Item = &(String, OfficialTensor)> {
        self.parameters.iter().filter(|parameter| is_frozen(parameter))
    }
}

/// `all_modules.` and a name that is safe to print.
pub fn is_parameter(name: &str) -> bool {
    name.strip_prefix("all_modules.").is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte))
    })
}

/// The Fourier frequencies: the only `W` of one axis (those of the 1x1 layers have two).
pub fn is_frozen((name, tensor): &(String, OfficialTensor)) -> bool {
    name.ends_with(".W") && tensor.shape.len() == 1
}

/// The tensor that belongs to a parameter: floating point, of the given shape, finite.
pub fn read_weights(
    file: &TorchFile,
    node: &PickleNode,
    parameter: &str,
    shape: Option<&[usize]>,
) -> Result<OfficialTensor, ImportError> {
    let tensor = file.tensor(node)?;
    if !tensor.dtype.is_float() {
        return Err(ImportError::NotFloat { place: node.place(), found: tensor.dtype.name() });
    }
    if let Some(expected) = shape
        && tensor.shape != expected
    {
        return Err(ImportError::Shape {
            parameter: parameter.into(),
            place: node.place(),
            expected: expected.into(),
            found: tensor.shape,
        });
    }
    let data = tensor.data.into_f32();
    if let Some((index, &value)) = data.iter().enumerate().find(|(_, value)| !value.is_finite()) {
        return Err(ImportError::NonFinite { parameter: parameter.into(), place: node.place(), index, value });
    }
    Ok(OfficialTensor { shape: tensor.shape, data })
}

fn read_sigmas(file: &TorchFile, node: &PickleNode) -> Result<Vec<f64>, ImportError> {
    let sigmas = file.tensor(node)?.data.into_f64();
    match sigmas.iter().find(|sigma| !(sigma.is_finite() && **sigma >= 0.0)) {
        Some(&value) => Err(ImportError::OutOfRange { place: node.place(), value, expected: "noise levels >= 0" }),
        None => Ok(sigmas),
    }
}
