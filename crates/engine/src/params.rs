//! Named parameters, apart from any graph: initialised, read and written as safetensors.

use crate::atomic_file;
use crate::error::{Error, Result, suggest};
use crate::hint::HintedMessage;
use crate::regular_file;
use crate::rng::Stream;
use crate::tensors::to_safetensors;
use crate::{Graph, Init, ParamSpec, Scalar, TensorShape};
use safetensors::{Dtype, SafeTensors, View};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

/// Longest weight file that is read: a network of a billion weights.
const LARGEST: u64 = 4 << 30;

/// The values of a graph's parameters, in the order of their declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Params<T> {
    specs: Vec<ParamSpec>,
    values: Vec<Vec<T>>,
}

/// What the random numbers of [`Params::initialise`] are for.
const INITIALISATION: u32 = 0x494E_4954;

impl<T: Scalar> Params<T> {
    /// All zeros.
    pub fn zeros(graph: &Graph) -> Self {
        let specs: Vec<ParamSpec> = graph.params().iter().map(|(spec, _)| spec.clone()).collect();
        let values = specs.iter().map(|spec| vec![T::ZERO; spec.shape.numel()]).collect();
        Params { specs, values }
    }

    /// As the graph declares each; a parameter's values depend on the seed and its name only.
    pub fn initialise(graph: &Graph, seed: u64) -> Self {
        let mut params = Self::zeros(graph);
        for (spec, values) in params.specs.iter().zip(&mut params.values) {
            let stream = Stream { seed, purpose: INITIALISATION, step: fnv1a(&spec.name) };
            let mut random = vec![0.0f32; values.len()];
            let (scale, shift) = match spec.init {
                Init::Constant(value) => (0.0, value),
                Init::Uniform { bound } => {
                    stream.fill_uniform(0, &mut random);
                    (2.0 * bound, -bound)
                }
                Init::Normal { deviation } => {
                    stream.fill_normal(0, &mut random);
                    (deviation, 0.0)
                }
            };
            values.iter_mut().zip(random).for_each(|(v, r)| *v = T::from_f64(f64::from(r) * scale + shift));
        }
        params
    }

    /// The declarations.
    pub fn specs(&self) -> &[ParamSpec] {
        &self.specs
    }

    /// Number of single values.
    pub fn numel(&self) -> usize {
        self.values.iter().map(Vec::len).sum()
    }

    /// Values of parameter number `index`.
    pub fn value(&self, index: usize) -> &[T] {
        &self.values[index]
    }

    /// Values of the parameter number `index`, to change in place.
    pub fn value_mut(&mut self, index: usize) -> &mut [T] {
        &mut self.values[index]
    }

    /// Values of the trainable parameters, in order, to change in place.
    pub fn trainable_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        self.specs.iter().zip(&mut self.values).filter(|(s, _)| s.trainable).map(|(_, v)| v.as_mut_slice())
    }

    /// Values by name.
    pub fn get(&self, name: &str) -> Result<&[T]> {
        self.index(name).map(|i| self.values[i].as_slice())
    }

    /// Sets a parameter by name, from values in its shape's order.
    pub fn set(&mut self, name: &str, shape: &TensorShape, values: &[T]) -> Result<()> {
        let index = self.index(name)?;
        let spec = &self.specs[index];
        if spec.shape != *shape || values.len() != shape.numel() {
            return Err(Error::ShapeMismatch {
                kind: "parameter",
                name: name.into(),
                expected: spec.shape.clone(),
                found: shape.clone(),
            });
        }
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            let value = values[at].to_string();
            return Err(Error::NonFinite { name: name.into(), shape: shape.clone(), index: at, value });
        }
        self.values[index].copy_from_slice(values);
        Ok(())
    }

    /// Replaces values without asking whether they are finite: what a run computed, not what a file claims.
    pub(crate) fn overwrite(&mut self, name: &str, values: &[T]) -> Result<()> {
        let index = self.index(name)?;
        self.values[index].copy_from_slice(values);
        Ok(())
    }

    /// Sets every value.
    pub fn fill(&mut self, value: T) {
        self.values.iter_mut().for_each(|v| v.fill(value));
    }

    fn index(&self, name: &str) -> Result<usize> {
        self.specs.iter().position(|s| s.name == name).ok_or_else(|| Error::Unknown {
            kind: "parameter",
            name: name.into(),
            hint: suggest(name, self.specs.iter().map(|s| s.name.as_str())),
        })
    }

    /// The same values in another element type.
    pub fn cast<U: Scalar>(&self) -> Params<U> {
        let cast = |v: &Vec<T>| v.iter().map(|v| U::from_f64(v.to_f64())).collect();
        Params { specs: self.specs.clone(), values: self.values.iter().map(cast).collect() }
    }

    pub(crate) fn check_fits(&self, specs: &[ParamSpec]) -> Result<()> {
        for (index, spec) in specs.iter().enumerate() {
            match self.specs.get(index) {
                Some(own) if own.name == spec.name && own.shape == spec.shape => {}
                Some(own) if own.name == spec.name => {
                    return Err(Error::ShapeMismatch {
                        kind: "parameter",
                        name: spec.name.clone(),
                        expected: spec.shape.clone(),
                        found: own.shape.clone(),
                    });
                }
                _ => return Err(Error::MissingParameter { name: spec.name.clone(), shape: spec.shape.clone() }),
            }
        }
        Ok(())
    }

    /// Reads values from safetensors bytes. Every parameter must be there, finite and of the declared shape, and
    /// nothing else may be.
    pub fn read_safetensors(&mut self, bytes: &[u8]) -> std::result::Result<(), ReadError> {
        let file = SafeTensors::deserialize(bytes).map_err(|e| ReadError::Format(e.to_string()))?;
        let known: HashMap<&str, &ParamSpec> = self.specs.iter().map(|s| (s.name.as_str(), s)).collect();
        for name in file.names() {
            if !known.contains_key(name) {
                let hint = suggest(name, known.keys().copied());
                return Err(Error::Unknown { kind: "parameter", name: name.into(), hint }.into());
            }
        }
        let mut read = self.clone();
        for spec in &self.specs {
            let tensor = file
                .tensor(&spec.name)
                .map_err(|_| Error::MissingParameter { name: spec.name.clone(), shape: spec.shape.clone() })?;
            let values: Vec<T> = match tensor.dtype() {
                Dtype::F32 => words(tensor.data()).map(|b| T::from_f64(f32::from_le_bytes(b).into())).collect(),
                Dtype::BF16 => {
                    words(tensor.data()).map(|b| T::from_f64(from_bf16(u16::from_le_bytes(b)).into())).collect()
                }
                Dtype::F64 => words(tensor.data()).map(|b| T::from_f64(f64::from_le_bytes(b))).collect(),
                other => {
                    return Err(ReadError::Format(format!("parameter `{}` is stored as {other:?}", spec.name)));
                }
            };
            read.set(&spec.name, &tensor.shape().into(), &values)?;
        }
        *self = read;
        Ok(())
    }

    /// The values as safetensors bytes, with `metadata` in the header.
    pub fn write_safetensors(&self, metadata: &[(&str, String)]) -> std::result::Result<Vec<u8>, ReadError> {
        let views = self.specs.iter().zip(&self.values).map(|(spec, values)| (&spec.name, Stored { spec, values }));
        to_safetensors(views, metadata).map_err(|e| ReadError::Format(e.to_string()))
    }

    /// The same in half the space: as bf16, rounded to the nearest, ties to even.
    pub fn write_bf16_safetensors(&self, metadata: &[(&str, String)]) -> std::result::Result<Vec<u8>, ReadError> {
        let views = self.specs.iter().zip(&self.values).map(|(spec, values)| {
            let bytes = values.iter().flat_map(|v| to_bf16(v.to_f64() as f32).to_le_bytes()).collect();
            (&spec.name, Half { spec, bytes })
        });
        to_safetensors(views, metadata).map_err(|e| ReadError::Format(e.to_string()))
    }

    /// Reads a safetensors file.
    pub fn load(&mut self, path: &Path) -> Result<()> {
        let file_error = |problem: HintedMessage| Error::File { path: path.display().to_string(), problem };
        let bytes = regular_file::read(path, LARGEST).map_err(|e| file_error(e.to_string().into()))?;
        self.read_safetensors(&bytes).map_err(|e| file_error(HintedMessage::of(e)))
    }

    /// Writes a safetensors file: complete or not at all.
    pub fn save(&self, path: &Path, metadata: &[(&str, String)]) -> Result<()> {
        let file_error = |problem: HintedMessage| Error::File { path: path.display().to_string(), problem };
        let bytes = self.write_safetensors(metadata).map_err(|e| file_error(e.to_string().into()))?;
        atomic_file::write(path, |file| file.write_all(&bytes)).map_err(|e| file_error(e.to_string().into()))
    }
}

/// Why a weight file was refused.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not a safetensors file of floats.
    #[error("{0}")]
    Format(String),
    /// Its tensors are not the graph's.
    #[error(transparent)]
    Engine(#[from] Error),
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

struct Stored<'a, T> {
    spec: &'a ParamSpec,
    values: &'a [T],
}

impl<T: Scalar> View for Stored<'_, T> {
    fn dtype(&self) -> Dtype {
        if size_of::<T>() == 4 { Dtype::F32 } else { Dtype::F64 }
    }
    fn shape(&self) -> &[usize] {
        &self.spec.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        let bytes = |v: &T| match size_of::<T>() {
            4 => (v.to_f64() as f32).to_le_bytes().to_vec(),
            _ => v.to_f64().to_le_bytes().to_vec(),
        };
        self.values.iter().flat_map(bytes).collect()
    }
    fn data_len(&self) -> usize {
        size_of_val(self.values)
    }
}

/// A parameter as bf16.
struct Half<'a> {
    spec: &'a ParamSpec,
    bytes: Vec<u8>,
}

impl View for Half<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::BF16
    }
    fn shape(&self) -> &[usize] {
        &self.spec.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Rounds to the nearest, ties to even.
pub(crate) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() { 0x7FFF } else { ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) as u16 }
}

fn from_bf16(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// A 32-bit hash of a name (FNV-1a).
fn fnv1a(name: &str) -> u32 {
    name.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
