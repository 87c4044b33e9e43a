//! A network for images of one size as a [`Denoiser`] of photographs of any size: overlapping tiles, blended.

use super::RestoreError;
use crate::corruption::Shape;
use crate::model::{Model, NetworkDenoiser, Predictor};
use crate::objective::Prediction;
use crate::sampler::{self, Denoiser, SamplerError};
use rayon::prelude::*;
use softdiff_engine::{Device, Precision};
use std::f64::consts::FRAC_PI_2;
use std::sync::Arc;

/// The side of a tile at most, and how many are computed at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileSize {
    /// Pixels.
    pub side: usize,
    /// Tiles at a time.
    pub batch: usize,
}

impl TileSize {
    /// What suits a device: large tiles waste less on their overlap, small ones stay near a CPU's caches.
    pub fn on(device: &Device) -> TileSize {
        if device.is_gpu() { TileSize { side: 384, batch: 4 } } else { TileSize { side: 256, batch: 1 } }
    }

    /// The same, with the side that covers a photograph with the fewest pixels of overlap.
    pub fn covering(self, photograph: Shape) -> TileSize {
        let pixels = |side: &usize| {
            let grid = TileGrid::new(photograph, *side);
            grid.places().count() * grid.tile.pixels()
        };
        let sides = (self.side / 2).next_multiple_of(MULTIPLE)..=self.side;
        let side = sides.step_by(MULTIPLE).min_by_key(pixels).unwrap_or(self.side);
        TileSize { side, ..self }
    }

    /// How many tiles cover a photograph.
    pub fn tiles(self, photograph: Shape) -> usize {
        TileGrid::new(photograph, self.side).places().count()
    }
}

/// Pixels by which neighbouring tiles overlap.
const OVERLAP: usize = 32;
/// The sides of tiles are multiples of this: networks halve them several times.
const MULTIPLE: usize = 32;

/// Where the tiles of a photograph are, and how much each counts at each of its pixels.
#[derive(Clone, Debug, PartialEq)]
struct TileGrid {
    photograph: Shape,
    tile: Shape,
    tops: Vec<usize>,
    lefts: Vec<usize>,
}

impl TileGrid {
    fn new(photograph: Shape, side: usize) -> TileGrid {
        let side = side.max(2 * OVERLAP).next_multiple_of(MULTIPLE);
        // Networks are for squares.
        let side = side.min(photograph.height.max(photograph.width).next_multiple_of(MULTIPLE));
        let tile = Shape::new(side, side, photograph.channels);
        let (tops, lefts) = (starts(photograph.height, tile.height), starts(photograph.width, tile.width));
        TileGrid { photograph, tile, tops, lefts }
    }

    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.tops.iter().flat_map(|&top| self.lefts.iter().map(move |&left| (top, left)))
    }

    /// The values of tiles, one after the other; beyond the photograph, which may be smaller, it is mirrored.
    fn cut(&self, photograph: &[f64], places: &[(usize, usize)]) -> Vec<f64> {
        let Shape { height, width, channels } = self.photograph;
        let row = self.tile.width * channels;
        let mut tiles = vec![0.0; places.len() * self.tile.len()];
        tiles.par_chunks_exact_mut(row).enumerate().for_each(|(line, out)| {
            let ((top, left), y) = (places[line / self.tile.height], line % self.tile.height);
            let line = &photograph[mirrored(top + y, height) * width * channels..][..width * channels];
            let inside = row.min((width - left) * channels);
            out[..inside].copy_from_slice(&line[left * channels..][..inside]);
            for (x, pixel) in out.chunks_exact_mut(channels).enumerate().skip(inside / channels) {
                pixel.copy_from_slice(&line[mirrored(left + x, width) * channels..][..channels]);
            }
        });
        tiles
    }

    /// Adds tiles and their weights to their sums over all tiles.
    fn add(&self, tiles: &[f64], places: &[(usize, usize)], sum: &mut [f64], weights: &mut [f64]) {
        let Shape { height, width, channels } = self.photograph;
        let side = self.tile.width;
        let across = |left: usize| (0..side.min(width - left)).map(move |x| weight(x, side, left, width)).collect();
        let across: Vec<Vec<f64>> = places.iter().map(|&(_, left)| across(left)).collect();
        let rows = sum.par_chunks_exact_mut(width * channels).zip(weights.par_chunks_exact_mut(width)).enumerate();
        rows.for_each(|(y, (sum, weights))| {
            let tiles = tiles.chunks_exact(self.tile.len()).zip(places).zip(&across);
            for ((tile, &(top, left)), across) in tiles.filter(|((_, (top, _)), _)| (*top..top + side).contains(&y)) {
                let down = weight(y - top, side, top, height);
                let line = tile[(y - top) * side * channels..].chunks_exact(channels);
                let sums = sum[left * channels..].chunks_exact_mut(channels).zip(&mut weights[left..]);
                for ((across, pixel), (sum, weights)) in across.iter().zip(line).zip(sums) {
                    let weight = down * across;
                    *weights += weight;
                    sum.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += weight * value);
                }
            }
        });
    }
}

/// Where tiles of `side` begin along a photograph's side: evenly, each overlapping the next by [`OVERLAP`] or more.
fn starts(length: usize, side: usize) -> Vec<usize> {
    if length <= side {
        return vec![0];
    }
    let (last, stride) = (length - side, side - OVERLAP);
    let count = last.div_ceil(stride);
    (0..=count).map(|i| i * last / count).collect()
}

/// How much a tile that begins at `start` counts at one of its places: from nearly nothing at an edge beyond which the
/// photograph goes on, but the network cannot see, to 1.
fn weight(place: usize, side: usize, start: usize, length: usize) -> f64 {
    let before = if start == 0 { usize::MAX } else { place };
    let after = if start + side >= length { usize::MAX } else { side - 1 - place };
    let distance = (before.min(after) as f64 + 0.5) / OVERLAP as f64;
    1e-4 + (FRAC_PI_2 * distance.min(1.0)).sin().powi(8)
}

fn mirrored(place: usize, length: usize) -> usize {
    let folded = place % (2 * length);
    folded.min(2 * length - 1 - folded)
}

/// Denoises photographs of one size by tiles. What it needs beside a photograph is a batch of tiles, however many there are.
pub struct TiledDenoiser<'a, D> {
    inner: D,
    grid: TileGrid,
    batch: usize,
    progress: Option<&'a mut dyn FnMut(usize) -> sampler::Result<()>>,
}

impl<'a, D: Denoiser> TiledDenoiser<'a, D> {
    /// Denoises tiles by the denoiser that `make` gives for their shape.
    pub fn new<E>(
        photograph: Shape,
        size: TileSize,
        make: impl FnOnce(Shape) -> Result<D, E>,
    ) -> Result<TiledDenoiser<'a, D>, E> {
        let grid = TileGrid::new(photograph, size.side);
        Ok(TiledDenoiser { inner: make(grid.tile)?, grid, batch: size.batch.max(1), progress: None })
    }

    /// Calls `progress` after each batch of tiles, with their number; its error stops.
    pub fn reporting(mut self, progress: &'a mut dyn FnMut(usize) -> sampler::Result<()>) -> Self {
        self.progress = Some(progress);
        self
    }

    fn photograph(&mut self, xt: &[f64], t: f64) -> sampler::Result<Vec<f64>> {
        let mut sum = vec![0.0; xt.len()];
        let mut weights = vec![0.0; self.grid.photograph.pixels()];
        let places: Vec<_> = self.grid.places().collect();
        for part in places.chunks(self.batch) {
            let predicted = self.inner.x0_hat(&self.grid.cut(xt, part), t)?;
            self.grid.add(&predicted, part, &mut sum, &mut weights);
            if let Some(progress) = &mut self.progress {
                progress(part.len())?;
            }
        }
        sum.par_chunks_exact_mut(self.grid.photograph.channels).zip(&weights).for_each(|(pixel, weight)| {
            pixel.iter_mut().for_each(|value| *value /= weight);
        });
        Ok(sum)
    }
}

impl<D: Denoiser> Denoiser for TiledDenoiser<'_, D> {
    fn x0_hat(&mut self, xt: &[f64], t: f64) -> sampler::Result<Vec<f64>> {
        let size = self.grid.photograph.len();
        if xt.is_empty() || !xt.len().is_multiple_of(size) {
            return Err(SamplerError::Size { what: "the photographs", found: xt.len(), expected: size });
        }
        let mut all = Vec::with_capacity(xt.len());
        for photograph in xt.chunks_exact(size) {
            all.extend(self.photograph(photograph, t)?);
        }
        Ok(all)
    }

    fn one_step(&mut self, xt: &[f64], t: f64, t_next: f64) -> sampler::Result<Vec<f64>> {
        self.inner.one_step(xt, t, t_next)
    }
}

impl Model {
    /// Whether it can restore images of any size: cropping commutes with its path (`C = alpha I`), and its network sees every
    /// part of an image in the same way.
    pub fn takes_any_size(&self) -> bool {
        let network = &self.recipe.network;
        let sees_all_alike = network.attention.as_ref().is_some_and(Vec::is_empty) && !network.middle_attention;
        let is_plain = matches!(self.prediction, Prediction::Clean(_) | Prediction::Noise);
        self.is_described && self.recipe.path.is_scale() && sees_all_alike && is_plain
    }

    /// Its network on a device, for photographs of `shape`.
    pub fn tiled_denoiser<'a>(
        &self,
        device: &Device,
        shape: Shape,
        size: TileSize,
        precision: Precision,
    ) -> Result<TiledDenoiser<'a, NetworkDenoiser>, RestoreError> {
        TiledDenoiser::new(shape, size, |tile| {
            let (network, path) = (self.recipe.network(tile)?, Arc::new(self.recipe.path(tile, None)?));
            let predictor = Predictor { network: &network, path, ..self.predictor() };
            Ok(NetworkDenoiser::new(device, predictor, size.batch.max(1), precision)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::rng::RandomStream;

    /// The mean over a window of five by five pixels, mirrored at the tile's border: what a network does, in small.
    struct Local(Shape);

    impl Denoiser for Local {
        fn x0_hat(&mut self, xt: &[f64], _: f64) -> sampler::Result<Vec<f64>> {
            let Shape { height, width, channels } = self.0;
            let mut out = Vec::new();
            for tile in xt.chunks_exact(self.0.len()) {
                for i in 0..self.0.len() {
                    let (y, x, channel) = (i / (width * channels), i / channels % width, i % channels);
                    let near = (0..5).flat_map(|dy| (0..5).map(move |dx| (dy, dx)));
                    let fold = |place: usize, d: usize, n: usize| mirrored((place + d + 2 * n - 2) % (2 * n), n);
                    let value =
                        |(dy, dx)| tile[(fold(y, dy, height) * width + fold(x, dx, width)) * channels + channel];
                    out.push(near.map(value).sum::<f64>() / 25.0);
                }
            }
            Ok(out)
        }

        fn one_step(&mut self, _: &[f64], _: f64, _: f64) -> sampler::Result<Vec<f64>> {
            unreachable!("nobody asks")
        }
    }

    #[test]
    fn a_photograph_is_denoised_alike_by_any_tiles_also_one_smaller_than_a_tile() {
        for (height, width) in [(100, 230), (64, 64), (7, 90), (131, 65), (1, 1)] {
            let shape = Shape::new(height, width, 3);
            let photograph = RandomStream::new(1, "photograph").normals(shape.len());
            let whole = Local(shape).x0_hat(&photograph, 0.5).unwrap();
            for (side, batch) in [(64, 1), (80, 3), (96, 100), (512, 2)] {
                let size = TileSize { side, batch };
                let mut tiled = TiledDenoiser::new(shape, size, |tile| Ok::<_, RestoreError>(Local(tile))).unwrap();
                let found = tiled.x0_hat(&photograph, 0.5).unwrap();
                let far = whole.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                // Only the two outermost pixels of a tile see its border, and count for a thousandth.
                assert!(far < 5e-3, "{shape} in tiles of {side}: {far}");
            }
        }
    }

    #[test]
    fn tiles_cover_everything_and_overlap() {
        for length in 1..700 {
            for side in [64, 96, 192] {
                let starts = starts(length, side);
                assert_eq!((starts[0], starts.last().unwrap() + side >= length), (0, true));
                assert!(starts.windows(2).all(|w| w[1] > w[0] && w[1] + OVERLAP <= w[0] + side), "{length} {side}");
            }
        }
    }
}
