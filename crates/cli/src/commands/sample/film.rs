//! The reverse process to look at: x_t and the predicted clean images over time, as a picture or as a film.

use crate::atomic_file::save;
use crate::diagnostics::{Failure, Outcome};
use softdiff::corruption::Shape;
use softdiff::engine::Device;
use softdiff::engine::Precision;
use softdiff::image::{Film, FilmFormat, Picture, from_unit, grid};
use softdiff::model::{Model, visible};
use softdiff::sampler::{Sampler, Sampling, Watched, sample_watched};
use std::cell::RefCell;
use std::path::Path;

/// Images and times in the picture of means.
const ROWS: usize = 8;
const COLUMNS: usize = 12;
/// Times in a film, and how many milliseconds each is shown; the last one is held.
const FRAMES: usize = 60;
const SHOWN: u16 = 70;
const HELD: u16 = 2500;

/// One time on the way.
struct Seen {
    xt: Vec<u8>,
    x0_hat: Option<Vec<u8>>,
}

/// What was seen on the way, at no more times than a film has.
pub struct Shown {
    shape: Shape,
    images: usize,
    seen: Vec<Seen>,
}

/// Samples the first seeds once more, watching.
pub fn watch(
    device: &Device,
    model: &Model,
    sampler: &dyn Sampler,
    sampling: &Sampling,
    seeds: &[u64],
    precision: Precision,
) -> Result<Shown, Failure> {
    let seeds = &seeds[..seeds.len().min(ROWS)];
    let mut denoiser = model.denoiser(device, seeds.len(), precision)?;
    let seen = RefCell::new(Vec::<Seen>::new());
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
            let sigma = model.path.sigma(t);
            seen.borrow_mut().push(Seen { xt: from_unit(&visible(x, sigma)), x0_hat: None });
        }
        number += 1;
    };
    sample_watched(&model.path, sampler, &mut remembering, model.starts(seeds), seeds, sampling, &mut look)?;
    Ok(Shown { shape: model.path.shape(), images: seeds.len(), seen: seen.into_inner() })
}

/// At most `most` of `count` numbers, evenly spaced, the first and the last among them.
fn evenly(count: usize, most: usize) -> Vec<usize> {
    let most = most.min(count);
    (0..most).map(|i| i * (count - 1) / (most - 1).max(1)).collect()
}

impl Shown {
    fn zoom(&self) -> usize {
        grid::usual_zoom(self.shape.width)
    }

    fn grid(&self, pixels: &[u8], columns: usize) -> Picture {
        let Shape { height, width, channels } = self.shape;
        grid::compose(width, height, channels, pixels, columns, self.zoom())
    }

    /// Writes a picture with one row per image, from the first prediction to the last.
    pub fn write_means(&self, path: &Path) -> Outcome {
        let means: Vec<&Vec<u8>> = self.seen.iter().filter_map(|seen| seen.x0_hat.as_ref()).collect();
        let (size, columns) = (self.shape.len(), evenly(means.len(), COLUMNS));
        let part = |image: usize, column: &usize| &means[*column][image * size..(image + 1) * size];
        let images = 0..self.images;
        let pixels: Vec<u8> =
            images.flat_map(|image| columns.iter().flat_map(move |column| part(image, column)).copied()).collect();
        let picture = self.grid(&pixels, columns.len());
        save(path, &picture.to_png())
    }

    /// Writes a film: x_t to the left, the predicted clean image to the right.
    pub fn write_film(&self, path: &Path, format: FilmFormat) -> Outcome {
        let columns = if self.images > 2 { 2 } else { 1 };
        let last = self.seen.len().saturating_sub(1);
        let frame = |(number, seen): (usize, &Seen)| {
            let left = self.grid(&seen.xt, columns);
            let right = self.grid(seen.x0_hat.as_ref().unwrap_or(&seen.xt), columns);
            (beside(&left, &right, 2 * self.zoom()), if number == last { HELD } else { SHOWN })
        };
        let film = Film::new(self.seen.iter().enumerate().map(frame).collect());
        let film = film.ok_or_else(|| Failure::new("there is nothing to show in a film"))?;
        save(path, &film.encode(format))
    }
}

/// Two pictures of one size with a white bar between them.
fn beside(left: &Picture, right: &Picture, bar: usize) -> Picture {
    let row = left.width * left.channels;
    let white = vec![255; bar * left.channels];
    let rows = left.pixels.chunks_exact(row).zip(right.pixels.chunks_exact(row));
    let pixels = rows.flat_map(|(left, right)| [left, &white, right].concat()).collect();
    Picture { width: 2 * left.width + bar, height: left.height, channels: left.channels, pixels }
}

/// The format of a film by its file's name.
pub fn format(path: &Path) -> std::result::Result<FilmFormat, Failure> {
    path.extension().and_then(|ending| FilmFormat::of_ending(&ending.to_string_lossy())).ok_or_else(|| {
        Failure::new(format!("{}: no format of films", path.display()))
            .hint("give a .gif, or a .png, which is animated")
    })
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
        let both = beside(&picture(3), &picture(7), 1);
        assert_eq!((both.width, both.pixels), (3, vec![3, 255, 7, 3, 255, 7]));
    }
}
