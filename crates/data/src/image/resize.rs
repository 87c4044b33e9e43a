//! Antialiased bilinear resizing, equal to Pillow's `BILINEAR` bit for bit (`docs/decisions/data.md`).
//!
//! A triangle of half-width `max(1, in/out)` around each output pixel's centre; the weights are normalised, rounded to
//! 22 bits, and applied along rows, then along columns, each time rounding to 8 bits (Pillow, `Resample.c`).

use super::Picture;
use std::ops::Range;

/// Fixed-point bits of a weight: 32 less 8 of the sample and 2 spare.
const PRECISION_BITS: u32 = 32 - 8 - 2;

/// The inputs of one output sample.
struct ResampleWindow {
    first: usize,
    weights: Vec<i32>,
}

/// The image at another size.
pub fn bilinear(picture: &Picture, width: usize, height: usize) -> Picture {
    let rows = if width == picture.width { picture.clone() } else { along_rows(picture, 0..picture.width, width) };
    if height == rows.height { rows } else { along_columns(&rows, 0..rows.height, height) }
}

/// A square part of the image, with its top left corner at (`left`, `top`), at another size. At its edges the pixels around
/// it count as they would in the resized image, so that a part of one is as smooth at its edges as in its middle: Pillow's
/// `resize(size, BILINEAR, box)`. `None` if the part does not lie in the image.
pub fn bilinear_part(picture: &Picture, left: usize, top: usize, part: usize, side: usize) -> Option<Picture> {
    if part == side {
        return picture.crop(left, top, side, side);
    }
    // As far as the triangle of an output pixel at the edge may reach.
    let margin = part.div_ceil(side).max(1) + 1;
    let around = |first: usize, length: usize| {
        let from = first.saturating_sub(margin);
        (from, (first + part + margin).min(length) - from)
    };
    if left.checked_add(part)? > picture.width || top.checked_add(part)? > picture.height {
        return None;
    }
    let (from_x, width) = around(left, picture.width);
    let (from_y, height) = around(top, picture.height);
    let surroundings = picture.crop(from_x, from_y, width, height)?;
    let (x, y) = (left - from_x, top - from_y);
    Some(along_columns(&along_rows(&surroundings, x..x + part, side), y..y + part, side))
}

/// Pillow's `precompute_coeffs` and `normalize_coeffs_8bpc` with the triangle filter, for a part of `input` samples.
fn windows(input: usize, part: Range<usize>, output: usize) -> Vec<ResampleWindow> {
    let scale = part.len() as f64 / output as f64;
    let support = scale.max(1.0);
    let window = |index: usize| {
        let centre = part.start as f64 + (index as f64 + 0.5) * scale;
        // Casts truncate towards zero, as in C, and negative values become 0.
        let first = (centre - support + 0.5) as usize;
        let end = ((centre + support + 0.5) as usize).min(input);
        let triangle = |at: usize| (1.0 - ((at as f64 - centre + 0.5) * (1.0 / support)).abs()).max(0.0);
        let weights: Vec<f64> = (first..end).map(triangle).collect();
        let total: f64 = weights.iter().sum();
        let fixed = |weight: &f64| {
            let weight = if total == 0.0 { *weight } else { weight / total };
            (0.5 + weight * f64::from(1 << PRECISION_BITS)) as i32
        };
        ResampleWindow { first, weights: weights.iter().map(fixed).collect() }
    };
    (0..output).map(window).collect()
}

fn rounded(sum: i32) -> u8 {
    (sum >> PRECISION_BITS).clamp(0, 255) as u8
}

const HALF: i32 = 1 << (PRECISION_BITS - 1);

fn along_rows(picture: &Picture, columns: Range<usize>, width: usize) -> Picture {
    let channels = picture.channels;
    let windows = windows(picture.width, columns, width);
    let mut pixels = Vec::with_capacity(width * picture.height * channels);
    for row in picture.pixels.chunks_exact(picture.width * channels) {
        for ResampleWindow { first, weights } in &windows {
            let inputs = &row[first * channels..];
            for channel in 0..channels {
                let inputs = inputs.iter().skip(channel).step_by(channels);
                pixels.push(rounded(inputs.zip(weights).fold(HALF, |sum, (&s, weight)| sum + i32::from(s) * weight)));
            }
        }
    }
    Picture { width, pixels, ..*picture }
}

fn along_columns(picture: &Picture, rows: Range<usize>, height: usize) -> Picture {
    let row = picture.width * picture.channels;
    let mut pixels = Vec::with_capacity(row * height);
    let mut sums = vec![0; row];
    for ResampleWindow { first, weights } in windows(picture.height, rows, height) {
        sums.fill(HALF);
        for (line, weight) in picture.pixels.chunks_exact(row).skip(first).zip(weights) {
            sums.iter_mut().zip(line).for_each(|(sum, &sample)| *sum += i32::from(sample) * weight);
        }
        pixels.extend(sums.iter().map(|&sum| rounded(sum)));
    }
    Picture { height, pixels, ..*picture }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_size_changes_nothing_and_a_flat_picture_stays_flat() {
        let flat = Picture { width: 9, height: 7, channels: 3, pixels: vec![77; 9 * 7 * 3] };
        assert_eq!(bilinear(&flat, 9, 7), flat);
        for (width, height) in [(1, 1), (3, 20), (64, 2)] {
            assert!(bilinear(&flat, width, height).pixels.iter().all(|&sample| sample == 77));
        }
    }

    #[test]
    fn a_part_has_the_pixels_that_the_whole_image_has_there() {
        let pixels = (0..96 * 64 * 3u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let noise = Picture { width: 96, height: 64, channels: 3, pixels };
        let half = bilinear(&noise, 48, 32);
        for (x, y) in [(0, 0), (16, 8), (32, 16)] {
            let part = bilinear_part(&noise, 2 * x, 2 * y, 32, 16).unwrap();
            assert_eq!(Some(part), half.crop(x, y, 16, 16));
        }
        assert_eq!(bilinear_part(&noise, 3, 5, 16, 16), noise.crop(3, 5, 16, 16));
        assert_eq!(bilinear_part(&noise, 65, 0, 32, 16), None);
        assert_eq!(bilinear_part(&noise, usize::MAX, 0, 32, 16), None);
    }
}
