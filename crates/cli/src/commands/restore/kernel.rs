//! The kernel of a blur in a file: what a point of light became.

use crate::diagnostics::Failure;
use softdiff::corruption::Kernel;
use softdiff::data::npy::Array;
use softdiff::hint::Hint;
use softdiff::image;
use softdiff_engine::regular_file;
use std::path::Path;

/// The largest file: rows of numbers as text.
const MOST_BYTES: u64 = 4 << 20;

/// Reads a kernel from an image, a NumPy array or rows of numbers in JSON. The numbers of the latter two must sum to 1; an
/// image is scaled to that.
pub fn read(file: &Path) -> Result<Kernel, Failure> {
    let refused = |problem: String, hint: &str| Failure::new(format!("{}: {problem}", file.display())).hint(hint);
    let kinds = "give a .png image, or a .npy or .json file with rows of numbers";
    let bytes = regular_file::read(file, MOST_BYTES).map_err(|error| refused(error.to_string(), kinds))?;
    let is_image = image::Format::recognise(&bytes).is_some();
    let rows: Vec<Vec<f64>> = if is_image {
        let picture = image::decode(&bytes).map_err(|error| refused(error.to_string(), kinds))?.with_channels(1);
        picture.pixels.chunks_exact(picture.width).map(|row| row.iter().map(|&v| f64::from(v)).collect()).collect()
    } else if bytes.starts_with(b"\x93NUMPY") {
        let array = Array::read(&bytes).and_then(|array| Ok((array.shape.clone(), array.floats()?)));
        match array.map_err(|error| refused(error.to_string(), kinds))? {
            (shape, values) if shape.len() == 2 && shape[1] > 0 => {
                values.chunks_exact(shape[1] as usize).map(<[f64]>::to_vec).collect()
            }
            (shape, _) => return Err(refused(format!("an array of shape {shape:?}"), "give one of rows and columns")),
        }
    } else {
        serde_json::from_slice::<Vec<Vec<f64>>>(&bytes).map_err(|error| {
            refused(format!("no rows of numbers: {error}"), "write them as [[0, 0.1, 0], [0.1, 0.6, 0.1], [0, 0.1, 0]]")
        })?
    };
    let kernel = match is_image {
        true => Kernel::from_rows_scaled(&rows),
        false => Kernel::from_rows(&rows),
    };
    let kernel = kernel.map_err(|error| refused(error.to_string(), &error.hint().unwrap_or_default()))?;
    if is_image {
        eprintln!("note: {} is scaled to sum to 1", file.display());
    }
    Ok(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff::corruption::{Boundary, Shape};

    #[test]
    fn a_point_of_light_becomes_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kernel.json");
        std::fs::write(&file, "[[0, 0, 0.1], [0.2, 0.4, 0], [0, 0, 0.3]]").unwrap();
        let shape = Shape::new(3, 3, 1);
        let point = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
        let seen = read(&file).unwrap().map(shape, Boundary::Zero).apply(shape, &point).unwrap();
        let kernel = [0.0, 0.0, 0.1, 0.2, 0.4, 0.0, 0.0, 0.0, 0.3];
        assert!(seen.iter().zip(kernel).all(|(seen, kernel)| (seen - kernel).abs() < 1e-12), "{seen:?}");
    }
}
