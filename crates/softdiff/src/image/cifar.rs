//! CIFAR-10 in its binary form: records of a label byte and 1024 red, green and blue bytes.

use super::ImageError;
use crate::corruption::Shape;
use std::path::Path;

const SIDE: usize = 32;
const PIXELS: usize = SIDE * SIDE;
const RECORD: usize = 1 + 3 * PIXELS;
/// The original files have 30,730,000 bytes; more than this is something else.
const LARGEST_FILE: u64 = 512 << 20;

/// All images of a file, one after the other, values in [0, 1].
pub fn read_cifar10(path: &Path) -> Result<(Shape, Vec<f64>), ImageError> {
    let size = std::fs::metadata(path).map_err(|e| ImageError::file(path, e))?.len();
    if size == 0 || size > LARGEST_FILE || !size.is_multiple_of(RECORD as u64) {
        let problem = format!(
            "{size} bytes are not whole CIFAR-10 records of {RECORD} bytes; give a .bin file of the binary version"
        );
        return Err(ImageError::file(path, problem));
    }
    let bytes = std::fs::read(path).map_err(|e| ImageError::file(path, e))?;
    let mut values = Vec::with_capacity(bytes.len() / RECORD * 3 * PIXELS);
    for record in bytes.chunks_exact(RECORD) {
        let (red, rest) = record[1..].split_at(PIXELS);
        let (green, blue) = rest.split_at(PIXELS);
        for ((r, g), b) in red.iter().zip(green).zip(blue) {
            values.extend([r, g, b].map(|v| f64::from(*v) / 255.0));
        }
    }
    Ok((Shape::new(SIDE, SIDE, 3), values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_become_pixels_and_other_files_are_refused() {
        let file = std::env::temp_dir().join(format!("softdiff-cifar-{}.bin", std::process::id()));
        let mut record = vec![7u8];
        for channel in [0u8, 51, 255] {
            record.extend([channel; PIXELS]);
        }
        std::fs::write(&file, [record.clone(), record.clone()].concat()).unwrap();
        let (shape, values) = read_cifar10(&file).unwrap();
        assert_eq!((shape.len() * 2, &values[..3]), (values.len(), &[0.0, 0.2, 1.0][..]));
        std::fs::write(&file, &record[1..]).unwrap();
        assert!(read_cifar10(&file).unwrap_err().to_string().contains("3073"));
        std::fs::remove_file(&file).unwrap();
        assert!(read_cifar10(&file).is_err());
    }
}
