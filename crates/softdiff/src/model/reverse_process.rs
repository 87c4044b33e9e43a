//! The reverse process to look at: x_t and the predicted clean images over time, as an image or as a film.

use super::{Model, visible};
use crate::corruption::Shape;
use crate::image::{Film, FilmFormat, Picture, from_unit, grid};
use crate::sampler::{Result, Sampler, Sampling, Watched, sample_watched};
use softdiff_engine::Device;
use softdiff_engine::Precision;
use std::cell::RefCell;

/// Images and times in the image of means.
const ROWS: usize = 8;
const COLUMNS: usize = 12;
/// Times in a film, and how many milliseconds each is shown; the last one is held.
const FRAMES: usize = 60;
const SHOWN: u16 = 70;
const HELD: u16 = 2500;

/// One time on the way.
struct ReverseStep {
    xt: Vec<u8>,
    x0_hat: Option<Vec<u8>>,
}

/// What was seen on the way, at no more times than a film has.
pub struct ReverseProcess {
    shape: Shape,
    images: usize,
    seen: Vec<ReverseStep>,
}

impl Model {
    /// Samples up to eight images, keeping what is on the way.
    pub fn watch_sampling(
        &self,
        device: &Device,
        sampler: &dyn Sampler,
        sampling: &Sampling,
        seeds: &[u64],
        precision: Precision,
    ) -> Result<ReverseProcess> {
        let seeds = &seeds[..seeds.len().min(ROWS)];
        let mut denoiser = self.denoiser(device, seeds.len(), precision)?;
        let seen = RefCell::new(Vec::<ReverseStep>::new());
        // The first answer at each time looked at is remembered.
        let remember = |x0_hat: &[f64]| {
            if let Some(last) = seen.borrow_mut().last_mut() {
                last.x0_hat.get_or_insert_with(|| from_unit(x0_hat));
            }
            Ok(())
        };
        let mut remembering = Watched { inner: &mut denoiser, look: remember };
        let kept = evenly(sampling.times.len(), FRAMES);
        let mut number = 0;
        let mut look = |t: f64, x: &[f64]| {
            if kept.contains(&number) {
                let sigma = self.path.sigma(t);
                seen.borrow_mut().push(ReverseStep { xt: from_unit(&visible(x, sigma)), x0_hat: None });
            }
            number += 1;
        };
        sample_watched(&self.path, sampler, &mut remembering, self.starts(seeds), seeds, sampling, &mut look)?;
        Ok(ReverseProcess { shape: self.path.shape(), images: seeds.len(), seen: seen.into_inner() })
    }
}

/// At most `most` of `count` precision, evenly spaced, the first and the last among them.
fn evenly(count: usize, most: usize) -> Vec<usize> {
    let most = most.min(count);
    (0..most).map(|i| i * (count - 1) / (most - 1).max(1)).collect()
}

impl ReverseProcess {
    fn zoom(&self) -> usize {
        grid::usual_zoom(self.shape.width)
    }

    fn grid(&self, pixels: &[u8], columns: usize) -> Picture {
        let Shape { height, width, channels } = self.shape;
        grid::compose(width, height, channels, pixels, columns, self.zoom())
    }

    /// The predicted clean images, one row per image, from the first prediction to the last.
    pub fn means(&self) -> Picture {
        let means: Vec<&Vec<u8>> = self.seen.iter().filter_map(|seen| seen.x0_hat.as_ref()).collect();
        let (size, columns) = (self.shape.len(), evenly(means.len(), COLUMNS));
        let part = |image: usize, column: &usize| &means[*column][image * size..(image + 1) * size];
        let images = 0..self.images;
        let pixels: Vec<u8> =
            images.flat_map(|image| columns.iter().flat_map(move |column| part(image, column)).copied()).collect();
        self.grid(&pixels, columns.len())
    }

    /// The bytes of a film: x_t to the left, the predicted clean image to the right; none where there is nothing to show.
    pub fn film(&self, format: FilmFormat) -> Option<Vec<u8>> {
        let columns = if self.images > 2 { 2 } else { 1 };
        let last = self.seen.len().saturating_sub(1);
        let frame = |(number, seen): (usize, &ReverseStep)| {
            let left = self.grid(&seen.xt, columns);
            let right = self.grid(seen.x0_hat.as_ref().unwrap_or(&seen.xt), columns);
            (side_by_side(&left, &right, 2 * self.zoom()), if number == last { HELD } else { SHOWN })
        };
        let film = Film::new(self.seen.iter().enumerate().map(frame).collect())?;
        Some(film.encode(format))
    }
}

/// Two images of one size with a white bar between them.
fn side_by_side(left: &Picture, right: &Picture, bar: usize) -> Picture {
    let row = left.width * left.channels;
    let white = vec![255; bar * left.channels];
    let rows = left.pixels.chunks_exact(row).zip(right.pixels.chunks_exact(row));
    let pixels = rows.flat_map(|(left, right)| [left, &white, right].concat()).collect();
    Picture { width: 2 * left.width + bar, height: left.height, channels: left.channels, pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_chosen_evenly_with_both_ends() {
        assert_eq!(evenly(5, 60), [0, 1, 2, 3, 4]);
        assert_eq!(evenly(281, 3), [0, 140, 280]);
        assert_eq!(evenly(1, 60), [0]);
        assert!(evenly(0, 60).is_empty());
    }

    #[test]
    fn pictures_stand_beside_each_other() {
        let picture = |value| Picture { width: 1, height: 2, channels: 1, pixels: vec![value; 2] };
        let both = side_by_side(&picture(3), &picture(7), 1);
        assert_eq!((both.width, both.pixels), (3, vec![3, 255, 7, 3, 255, 7]));
    }
}
