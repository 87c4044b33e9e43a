//! From a component's samples to one sample per pixel, as libjpeg's `jdsample.c` with "fancy" upsampling: a triangle
//! filter for the factors 2 x 1, 2 x 2 and 1 x 2, repetition for all others.

use crate::frame::Plane;
use std::borrow::Cow;

/// Narrower components are only repeated.
const MIN_FANCY_WIDTH: usize = 3;

/// Rows of pixels of one plane, made one at a time.
pub struct Rows<'a> {
    plane: &'a Plane,
    width: usize,
    sums: Vec<u16>,
    out: Vec<u8>,
}

impl<'a> Rows<'a> {
    /// Prepares rows of `width` pixels.
    pub fn new(plane: &'a Plane, width: usize) -> Self {
        Rows { plane, width, sums: Vec::new(), out: Vec::new() }
    }

    /// Row `y` of the full picture.
    pub fn row(&mut self, y: usize) -> Cow<'_, [u8]> {
        let plane = self.plane;
        let fancy = plane.width >= MIN_FANCY_WIDTH;
        match (plane.h_factor, plane.v_factor) {
            (1, 1) => return Cow::Borrowed(line(plane, y)),
            (2, 1) if fancy => {
                let sums = line(plane, y).iter().map(|&sample| u16::from(sample));
                refill(&mut self.sums, sums);
                widen(&self.sums, &mut self.out, (1, 2), 2);
            }
            (2, 2) if fancy => {
                let (near, far) = vertical(plane, y);
                refill(&mut self.sums, near.iter().zip(far).map(|(&near, &far)| 3 * u16::from(near) + u16::from(far)));
                widen(&self.sums, &mut self.out, (8, 7), 4);
            }
            (1, 2) => {
                let (near, far) = vertical(plane, y);
                let bias = if y.is_multiple_of(2) { 1 } else { 2 };
                let mixed =
                    near.iter().zip(far).map(|(&near, &far)| (3 * u16::from(near) + u16::from(far) + bias) >> 2);
                self.out.clear();
                self.out.extend(mixed.map(|sample| sample as u8));
            }
            (h, v) => {
                self.out.clear();
                self.out.extend(line(plane, y / v).iter().flat_map(|&sample| std::iter::repeat_n(sample, h)));
            }
        }
        self.out.truncate(self.width);
        Cow::Borrowed(&self.out)
    }
}

fn refill(sums: &mut Vec<u16>, values: impl Iterator<Item = u16>) {
    sums.clear();
    sums.extend(values);
}

/// The real samples of row `y`; rows beyond the last repeat it.
fn line(plane: &Plane, y: usize) -> &[u8] {
    let start = y.min(plane.height.saturating_sub(1)) * plane.stride;
    plane.samples.get(start..start + plane.width).unwrap_or_default()
}

/// The row that pixel row `y` falls in, and the one it is nearest to; rows beyond an edge repeat it.
fn vertical(plane: &Plane, y: usize) -> (&[u8], &[u8]) {
    let far = if y.is_multiple_of(2) { (y / 2).saturating_sub(1) } else { y / 2 + 1 };
    (line(plane, y / 2), line(plane, far))
}

/// Doubles a row: each pixel is 3/4 its own sample and 1/4 its neighbour; the two biases round alternately down and up.
fn widen(sums: &[u16], out: &mut Vec<u8>, (left_bias, right_bias): (u16, u16), shift: u32) {
    out.clear();
    for (x, &here) in sums.iter().enumerate() {
        // At the edges the sample itself takes the neighbour's part.
        let left = sums.get(x.wrapping_sub(1)).copied().unwrap_or(here);
        let right = sums.get(x + 1).copied().unwrap_or(here);
        out.push(((3 * here + left + left_bias) >> shift) as u8);
        out.push(((3 * here + right + right_bias) >> shift) as u8);
    }
}
