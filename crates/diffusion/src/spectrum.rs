//! The mean and variance of images per frequency: what the best linear estimate of an image needs to know of the data.
//!
//! Images are expressed along the principal axes of their channels and, within each axis, in the cosine basis (DCT-II).
//! There the coefficients of photographs are nearly uncorrelated, so their variances stand for the whole covariance.

use crate::corruption::{CorruptionError, LinearMap, Shape, cosine_basis};
use crate::linalg::{Matrix, SymmetricEigen};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use softdiff_engine::Hint;
use softdiff_engine::to_safetensors;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Version of the file.
const FORMAT: &str = "softdiff-spectrum/1";
/// The name of the file in a run or model folder.
pub const SPECTRUM_FILE: &str = "spectrum.safetensors";
/// Largest file that is read.
pub const LARGEST_SPECTRUM: u64 = 1 << 30;
/// Largest side of an image.
const LARGEST_SIDE: usize = 8192;

/// A file that is not a spectrum.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", file.display())]
pub struct SpectrumError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

impl Hint for SpectrumError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some("copy the file again from where the run or model came from".into())
    }
}

/// Mean and variance of every coefficient, in the order of an image: rows, columns, channel axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Spectrum {
    shape: Shape,
    /// Row k is principal axis k of the channels.
    axes: Matrix,
    mean: Vec<f64>,
    variance: Vec<f64>,
}

impl Spectrum {
    /// The spectrum of images in [0, 1]; with `mirror` that of the images and their mirror images.
    pub fn of_images(shape: Shape, images: &[f64], mirror: bool) -> Result<Spectrum, CorruptionError> {
        let count = shape.count(images)?.max(1) as f64;
        let axes = channel_axes(shape, images)?;
        let coefficients = transform(shape, &axes).apply_batch(shape, images)?;
        let mut mean = vec![0.0; shape.len()];
        let mut square = vec![0.0; shape.len()];
        for image in coefficients.chunks_exact(shape.len()) {
            for (index, value) in image.iter().enumerate() {
                mean[index] += value / count;
                square[index] += value * value / count;
            }
        }
        if mirror {
            // Mirroring changes the sign of the odd horizontal frequencies.
            let odd = |index: usize| index / shape.channels % shape.width % 2 == 1;
            mean.iter_mut().enumerate().filter(|(index, _)| odd(*index)).for_each(|(_, mean)| *mean = 0.0);
        }
        let variance = square.iter().zip(&mean).map(|(square, mean)| (square - mean * mean).max(0.0)).collect();
        Ok(Spectrum { shape, axes, mean, variance })
    }

    /// The images it belongs to.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Row k is principal axis k of the channels.
    pub fn axes(&self) -> &Matrix {
        &self.axes
    }

    /// The mean of every coefficient.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The variance of every coefficient.
    pub fn variance(&self) -> &[f64] {
        &self.variance
    }

    /// The map from images to coefficients; it is orthonormal.
    pub fn transform(&self) -> LinearMap {
        transform(self.shape, &self.axes)
    }

    /// The spectrum in the bytes of a file; `file` is for the error.
    pub fn from_file(bytes: &[u8], file: &Path) -> Result<Spectrum, SpectrumError> {
        Spectrum::from_bytes(bytes).map_err(|problem| SpectrumError { file: file.into(), problem })
    }

    /// The content of its file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let Shape { height, width, channels } = self.shape;
        let image = vec![height, width, channels];
        let bytes = |values: &[f64]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
        let raw = [
            ("axes", vec![channels, channels], bytes(self.axes.values())),
            ("mean", image.clone(), bytes(&self.mean)),
            ("variance", image, bytes(&self.variance)),
        ];
        let views = raw
            .iter()
            .map(|(name, shape, bytes)| Ok((*name, TensorView::new(Dtype::F64, shape.clone(), bytes)?)))
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(|e| e.to_string())?;
        to_safetensors(views, &[("format", FORMAT.to_owned())]).map_err(|e| e.to_string())
    }

    /// Reads and checks the content of a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Spectrum, String> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| e.to_string())?;
        let format = header.metadata().as_ref().and_then(|entries| entries.get("format").cloned());
        if format.as_deref() != Some(FORMAT) {
            return Err(format!("its format is {format:?}, not {FORMAT:?}"));
        }
        let file = SafeTensors::deserialize(bytes).map_err(|e| e.to_string())?;
        let read = |name: &str| -> Result<(Vec<usize>, Vec<f64>), String> {
            let view = file.tensor(name).map_err(|e| e.to_string())?;
            if view.dtype() != Dtype::F64 {
                return Err(format!("{name} is not stored in f64"));
            }
            let values: Vec<f64> = view.data().as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect();
            match values.iter().all(|value| value.is_finite()) {
                true => Ok((view.shape().to_vec(), values)),
                false => Err(format!("{name} holds a value that is not finite")),
            }
        };
        let (image, mean) = read("mean")?;
        let [height, width, channels] = image[..] else { return Err("its mean is not an image".to_owned()) };
        if image.iter().any(|&size| size == 0 || size > LARGEST_SIDE) {
            return Err(format!("its shape is {height}x{width}x{channels}"));
        }
        let (variance_shape, variance) = read("variance")?;
        let (axes_shape, axes) = read("axes")?;
        if variance_shape != image || axes_shape != [channels, channels] || variance.iter().any(|&v| v < 0.0) {
            return Err("its tensors do not fit together".to_owned());
        }
        let axes = Matrix::from_vec(channels, channels, axes).map_err(|e| e.in_full())?;
        Ok(Spectrum { shape: Shape { height, width, channels }, axes, mean, variance })
    }
}

fn transform(shape: Shape, axes: &Matrix) -> LinearMap {
    let cosines = LinearMap::Separable { rows: cosine_basis(shape.height), cols: cosine_basis(shape.width) };
    LinearMap::Compose(vec![LinearMap::ChannelMix(axes.clone()), cosines])
}

/// The eigenvectors of the covariance of a pixel's channels, one per row.
fn channel_axes(shape: Shape, images: &[f64]) -> Result<Matrix, CorruptionError> {
    let n = shape.channels;
    let pixels = (images.len() / n.max(1)).max(1) as f64;
    let mut mean = vec![0.0; n];
    let mut square = Matrix::zeros(n, n);
    for pixel in images.chunks_exact(n) {
        for a in 0..n {
            mean[a] += pixel[a] / pixels;
            for b in 0..n {
                square[(a, b)] += pixel[a] * pixel[b] / pixels;
            }
        }
    }
    let covariance = Matrix::from_fn(n, n, |a, b| square[(a, b)] - mean[a] * mean[b]);
    Ok(SymmetricEigen::new(&covariance)?.vectors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::rng::RandomStream;

    const SHAPE: Shape = Shape { height: 6, width: 6, channels: 3 };

    fn images() -> Vec<f64> {
        RandomStream::new(1, "images").normals(40 * SHAPE.len()).iter().map(|v| 0.5 + 0.2 * v).collect()
    }

    #[test]
    fn the_variances_add_up_to_those_of_the_images() {
        let images = images();
        let spectrum = Spectrum::of_images(SHAPE, &images, false).unwrap();
        let mean: Vec<f64> =
            (0..SHAPE.len()).map(|i| images.iter().skip(i).step_by(SHAPE.len()).sum::<f64>() / 40.0).collect();
        let total: f64 =
            images.iter().enumerate().map(|(i, v)| (v - mean[i % SHAPE.len()]).powi(2)).sum::<f64>() / 40.0;
        assert!((spectrum.variance().iter().sum::<f64>() / total - 1.0).abs() < 1e-9);
        let back = spectrum.transform().adjoint(SHAPE, spectrum.mean()).unwrap();
        assert!(back.iter().zip(&mean).all(|(a, b)| (a - b).abs() < 1e-12));
    }

    #[test]
    fn mirroring_makes_the_mean_symmetric_and_keeps_the_second_moments() {
        let images = images();
        let [plain, mirrored] = [false, true].map(|mirror| Spectrum::of_images(SHAPE, &images, mirror).unwrap());
        let both: Vec<f64> = images
            .chunks(18)
            .flat_map(|row| row.chunks(3).rev().flatten().copied().collect::<Vec<f64>>())
            .chain(images.iter().copied())
            .collect();
        let expected = Spectrum::of_images(SHAPE, &both, false).unwrap();
        let same = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(same(mirrored.mean(), expected.mean()) && same(mirrored.variance(), expected.variance()));
        assert!(!same(plain.mean(), mirrored.mean()));
    }

    #[test]
    fn a_file_is_read_back_and_a_bad_one_refused() {
        let spectrum = Spectrum::of_images(SHAPE, &images(), true).unwrap();
        let mut bytes = spectrum.to_bytes().unwrap();
        assert_eq!(Spectrum::from_bytes(&bytes).unwrap(), spectrum);
        let last = bytes.len() - 8;
        bytes[last..].copy_from_slice(&f64::NAN.to_le_bytes());
        assert!(Spectrum::from_bytes(&bytes).unwrap_err().contains("not finite"));
        assert!(Spectrum::from_bytes(&bytes[..last]).is_err());
    }
}
