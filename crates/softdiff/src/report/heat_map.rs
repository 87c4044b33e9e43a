//! A matrix as a coloured square.

use crate::image::Picture;

/// Dark, middle and light of the map, from small to large values.
const COLOURS: [[f64; 3]; 5] =
    [[68.0, 1.0, 84.0], [59.0, 82.0, 139.0], [33.0, 145.0, 140.0], [94.0, 201.0, 98.0], [253.0, 231.0, 37.0]];

/// `size` times `size` values, row by row, each a square of `zoom` pixels; black where there is none.
pub fn heat_map(size: usize, values: &[f64], zoom: usize) -> Picture {
    let largest = values.iter().copied().filter(|v| v.is_finite()).fold(f64::MIN_POSITIVE, f64::max);
    let side = size * zoom;
    let mut pixels = Vec::with_capacity(side * side * 3);
    for y in 0..side {
        for x in 0..side {
            let value = values.get(y / zoom * size + x / zoom).copied().unwrap_or(f64::NAN);
            pixels.extend(colour(value / largest));
        }
    }
    Picture { width: side, height: side, channels: 3, pixels }
}

/// The colour of a value from 0 to 1.
fn colour(part: f64) -> [u8; 3] {
    if !part.is_finite() {
        return [0; 3];
    }
    let place = part.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f64;
    let below = (place as usize).min(COLOURS.len() - 2);
    [0, 1, 2].map(|c| {
        let (a, b) = (COLOURS[below][c], COLOURS[below + 1][c]);
        (a + (b - a) * (place - below as f64)).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_is_dark_and_large_is_light() {
        let map = heat_map(2, &[0.0, 1.0, 2.0, f64::NAN], 1);
        assert_eq!(map.pixels, [68, 1, 84, 33, 145, 140, 253, 231, 37, 0, 0, 0]);
        assert_eq!(heat_map(2, &[1.0; 4], 3).width, 6);
    }
}
