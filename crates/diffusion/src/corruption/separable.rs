//! Maps that treat rows and columns of every channel apart: `X -> R X S^T`.

use super::Shape;
use crate::linalg::{Matrix, Strided, multiply_into};

/// The channels of an image one after the other, each row by row.
pub(super) fn planes_from_image(shape: Shape, image: &[f64]) -> Vec<f64> {
    let mut planes = Vec::with_capacity(image.len());
    for channel in 0..shape.channels {
        planes.extend(image.iter().skip(channel).step_by(shape.channels));
    }
    planes
}

/// The inverse of [`planes_from_image`].
pub(super) fn image_from_planes(shape: Shape, planes: &[f64]) -> Vec<f64> {
    let mut image = vec![0.0; planes.len()];
    for (channel, plane) in planes.chunks_exact(shape.pixels()).enumerate() {
        for (slot, value) in image.iter_mut().skip(channel).step_by(shape.channels).zip(plane) {
            *slot = *value;
        }
    }
    image
}

/// `R X S^T` for every channel plane X, or `R^T X S` when `adjoint`.
pub(super) fn multiply_planes(shape: Shape, rows: &Matrix, cols: &Matrix, planes: &[f64], adjoint: bool) -> Vec<f64> {
    let (rows, cols) = (Strided::of(rows), Strided::of(cols));
    let (left, right) = if adjoint { (rows.transposed(), cols) } else { (rows, cols.transposed()) };
    let mut half = vec![0.0; planes.len()];
    let all_rows = Strided::new(planes, shape.channels * shape.height, shape.width);
    multiply_into(all_rows, right, &mut half, false);
    let mut out = vec![0.0; planes.len()];
    for (plane, out) in half.chunks_exact(shape.pixels()).zip(out.chunks_exact_mut(shape.pixels())) {
        multiply_into(left, Strided::new(plane, shape.height, shape.width), out, false);
    }
    out
}
