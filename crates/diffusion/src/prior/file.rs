//! `prior.safetensors`.

use super::{Component, Mixture, Modes, Prior, PriorError, Signal};
use crate::corruption::Shape;
use crate::linalg::Matrix;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use softdiff_engine::{HintedMessage, atomic_file, regular_file, to_safetensors};
use std::io::Write;
use std::path::Path;

/// Version of the file.
const FORMAT: &str = "softdiff-prior/1";
/// Files above this size are refused.
pub const LARGEST_PRIOR: u64 = 4 << 30;

/// Images beyond this side are no images.
const LARGEST_SIDE: usize = 8192;

type NamedTensors = Vec<(&'static str, Vec<usize>, Vec<f64>)>;

impl Prior {
    /// Writes the file, complete or not at all. That of a run is written through its folder instead.
    pub fn write(&self, path: &Path) -> Result<(), PriorError> {
        let fail = |problem: HintedMessage| PriorError::File { path: path.display().to_string(), problem };
        let bytes = self.to_bytes().map_err(|problem| fail(problem.into()))?;
        atomic_file::write(path, |file| file.write_all(&bytes)).map_err(|e| fail(e.to_string().into()))
    }

    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, PriorError> {
        let fail =
            |e: std::io::Error| PriorError::File { path: path.display().to_string(), problem: e.to_string().into() };
        Self::from_file(&regular_file::read(path, LARGEST_PRIOR).map_err(fail)?, path)
    }

    /// The prior in the bytes of a file; `path` is for the error.
    pub fn from_file(bytes: &[u8], path: &Path) -> Result<Self, PriorError> {
        let fail = |problem: HintedMessage| PriorError::File { path: path.display().to_string(), problem };
        if bytes.len() as u64 > LARGEST_PRIOR {
            return Err(fail(format!("it is larger than the {LARGEST_PRIOR} bytes a prior may have").into()));
        }
        Self::from_bytes(bytes).map_err(fail)
    }

    /// The content of its file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let (kind, tensors): (&str, NamedTensors) = match &self.signal {
            Signal::None => ("noise", vec![("sigma", vec![1], vec![self.sigma])]),
            Signal::Data { images } => {
                let count = images.len() / self.shape.len();
                let Shape { height, width, channels } = self.shape;
                ("data", vec![("images", vec![count, height, width, channels], images.clone())])
            }
            Signal::Modes { modes, mixture, offset } => {
                let (count, dimensions) = (mixture.components.len(), mixture.components[0].mean.len());
                let collect =
                    |part: fn(&Component) -> &[f64]| mixture.components.iter().flat_map(part).copied().collect();
                (
                    "modes",
                    vec![
                        ("basis", vec![modes.count(), self.shape.pixels()], modes.basis().values().to_vec()),
                        ("gains", vec![modes.count()], modes.gains().to_vec()),
                        ("offset", vec![offset.len()], offset.clone()),
                        ("weights", vec![count], mixture.components.iter().map(|c| c.weight).collect()),
                        ("means", vec![count, dimensions], collect(|c| &c.mean)),
                        ("covariances", vec![count, dimensions, dimensions], collect(|c| c.covariance.values())),
                        (
                            "fit",
                            vec![3],
                            vec![
                                mixture.log_likelihood,
                                mixture.iterations as f64,
                                f64::from(u8::from(mixture.converged)),
                            ],
                        ),
                    ],
                )
            }
        };
        let Shape { height, width, channels } = self.shape;
        let mut entries = vec![
            ("format", FORMAT.to_owned()),
            ("kind", kind.to_owned()),
            ("shape", format!("{height}x{width}x{channels}")),
            ("sigma", self.sigma.to_string()),
            ("leaks_training_images", self.leaks_training_images().to_string()),
        ];
        if self.centre != 0.0 {
            entries.push(("centre", self.centre.to_string()));
        }
        let raw: Vec<(&str, Vec<usize>, Vec<u8>)> = tensors
            .into_iter()
            .map(|(name, shape, values)| (name, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()))
            .collect();
        let views = raw
            .iter()
            .map(|(name, shape, bytes)| Ok((*name, TensorView::new(Dtype::F64, shape.clone(), bytes)?)))
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(|e| e.to_string())?;
        to_safetensors(views, &entries).map_err(|e| e.to_string())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, HintedMessage> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| e.to_string())?;
        let entries = header.metadata().clone().unwrap_or_default();
        let entry = |key: &str| {
            entries.get(key).ok_or_else(|| HintedMessage::new(format!("no \"{key}\" in its header"), "is it a prior?"))
        };
        if entry("format")? != FORMAT {
            let message = format!("format \"{}\" is not \"{FORMAT}\"", entry("format")?);
            return Err(HintedMessage::new(message, "fit the prior anew"));
        }
        let sizes: Vec<usize> = entry("shape")?.split('x').filter_map(|size| size.parse().ok()).collect();
        let [height, width, channels] = sizes[..] else { return Err("its shape is not three numbers".into()) };
        if [height, width, channels].iter().any(|&size| size == 0 || size > LARGEST_SIDE) {
            return Err(format!("its shape is {height}x{width}x{channels}").into());
        }
        let shape = Shape { height, width, channels };
        let sigma: f64 = entry("sigma")?.parse().map_err(|_| "its sigma is not a number".to_owned())?;
        if !(sigma >= 0.0 && sigma.is_finite()) {
            return Err(format!("its sigma is {sigma}").into());
        }
        let centre: f64 = entries.get("centre").map_or(Ok(0.0), |text| text.parse()).unwrap_or(f64::NAN);
        if !centre.is_finite() {
            return Err("its centre is not a number".into());
        }
        let file = SafeTensors::deserialize(bytes).map_err(|e| e.to_string())?;
        let signal = match entry("kind")?.as_str() {
            "noise" => Signal::None,
            "data" => {
                let (_, images) = read_tensor(&file, "images")?;
                if images.is_empty() || shape.count(&images).is_err() {
                    return Err(format!("its images do not have the shape {shape}").into());
                }
                Signal::Data { images }
            }
            "modes" => read_modes(&file, shape)?,
            other => return Err(HintedMessage::new(format!("kind \"{other}\" is not known"), "use a newer softdiff")),
        };
        Ok(Prior { shape, sigma, centre, signal })
    }
}

fn read_modes(file: &SafeTensors<'_>, shape: Shape) -> Result<Signal, HintedMessage> {
    let (basis_shape, basis) = read_tensor(file, "basis")?;
    let (_, gains) = read_tensor(file, "gains")?;
    let (_, offset) = read_tensor(file, "offset")?;
    let (_, weights) = read_tensor(file, "weights")?;
    let (_, means) = read_tensor(file, "means")?;
    let (_, covariances) = read_tensor(file, "covariances")?;
    let (_, fit) = read_tensor(file, "fit")?;
    let [modes, pixels] = basis_shape[..] else { return Err("its basis is no matrix".into()) };
    let dimensions = modes.saturating_mul(shape.channels);
    let square = dimensions.saturating_mul(dimensions);
    let fits = pixels == shape.pixels()
        && gains.len() == modes
        && offset.len() == shape.len()
        && !weights.is_empty()
        && means.len() == weights.len().saturating_mul(dimensions)
        && covariances.len() == weights.len().saturating_mul(square)
        && fit.len() == 3
        && dimensions > 0;
    if !fits {
        return Err(HintedMessage::new("the sizes of its tensors do not agree", "fit the prior anew"));
    }
    let parts = weights.iter().zip(means.chunks_exact(dimensions)).zip(covariances.chunks_exact(square));
    let components = parts
        .map(|((&weight, mean), covariance)| {
            let covariance = Matrix::from_vec(dimensions, dimensions, covariance.to_vec())?;
            Component::new(weight, mean.to_vec(), covariance)
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(HintedMessage::of)?;
    let mixture = Mixture { components, log_likelihood: fit[0], iterations: fit[1] as usize, converged: fit[2] != 0.0 };
    let basis = Matrix::from_vec(modes, pixels, basis).map_err(HintedMessage::of)?;
    Ok(Signal::Modes { modes: Modes::from_parts(shape, basis, gains), mixture, offset })
}

fn read_tensor(file: &SafeTensors<'_>, name: &str) -> Result<(Vec<usize>, Vec<f64>), String> {
    let tensor = file.tensor(name).map_err(|e| e.to_string())?;
    if tensor.dtype() != Dtype::F64 {
        return Err(format!("tensor \"{name}\" is {:?}, not F64", tensor.dtype()));
    }
    let values: Vec<f64> = tensor.data().as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect();
    match values.iter().find(|v| !v.is_finite()) {
        Some(bad) => Err(format!("tensor \"{name}\" contains {bad}")),
        None => Ok((tensor.shape().to_vec(), values)),
    }
}
