//! Rows of equally large images side by side.

use super::{Image, ImageError};
use crate::corruption::Shape;

/// White pixels between images.
const GAP: usize = 2;

/// One image of all `rows`, each pixel drawn `zoom` times as large.
pub fn strip(rows: &[Vec<Image>], zoom: usize) -> Result<Image, ImageError> {
    let first = rows.iter().flatten().next().ok_or(ImageError::Empty)?.shape;
    if let Some(other) = rows.iter().flatten().find(|image| image.shape != first) {
        return Err(ImageError::Mixed { first, other: other.shape });
    }
    let zoom = zoom.max(1);
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let (tile_height, tile_width) = (first.height * zoom + GAP, first.width * zoom + GAP);
    let shape = Shape::new(rows.len() * tile_height + GAP, longest * tile_width + GAP, first.channels);
    let mut values = vec![1.0; shape.len()];
    for (row, images) in rows.iter().enumerate() {
        for (column, image) in images.iter().enumerate() {
            for y in 0..first.height * zoom {
                for x in 0..first.width * zoom {
                    let from = (y / zoom * first.width + x / zoom) * first.channels;
                    let (to_y, to_x) = (GAP + row * tile_height + y, GAP + column * tile_width + x);
                    let to = (to_y * shape.width + to_x) * first.channels;
                    values[to..to + first.channels].copy_from_slice(&image.values[from..from + first.channels]);
                }
            }
        }
    }
    Ok(Image { shape, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_stand_side_by_side_with_white_between() {
        let dot = |value: f64| Image { shape: Shape::new(1, 1, 1), values: vec![value] };
        let image = strip(&[vec![dot(0.1), dot(0.2)], vec![dot(0.3)]], 1).unwrap();
        assert_eq!(image.shape, Shape::new(8, 8, 1));
        let at = |y: usize, x: usize| image.values[y * 8 + x];
        assert_eq!((at(2, 2), at(2, 5), at(5, 2), at(5, 5), at(0, 0)), (0.1, 0.2, 0.3, 1.0, 1.0));
        assert!(matches!(strip(&[], 1), Err(ImageError::Empty)));
        let other = Image { shape: Shape::new(1, 2, 1), values: vec![0.0; 2] };
        assert!(matches!(strip(&[vec![dot(0.0), other]], 1), Err(ImageError::Mixed { .. })));
    }
}
