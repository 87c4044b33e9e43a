//! When to enter the path: at the time whose C_t is the observation's map, if there is one.

use super::{Observation, Result};
use crate::corruption::{LinearMap, Shape};
use crate::linalg::dot;
use crate::path::Path;
use softdiff_engine::rng::RandomStream;

/// Maps that differ by less, relative to what they do to an image, are the same.
const SAME: f64 = 0.02;
/// Times looked at first, and halvings of the distance between two of them.
const TIMES: usize = 64;
const HALVINGS: usize = 30;

/// Where the way back begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PathEntry {
    /// At time t, whose C_t is `scale` times the observation's map.
    At {
        /// t.
        t: f64,
        /// How much of the observation's brightness the path keeps there: alpha of VP, else 1.
        scale: f64,
    },
    /// At t = 1: the path never passes the observation.
    Beginning,
}

impl PathEntry {
    /// The time.
    pub fn time(self) -> f64 {
        match self {
            PathEntry::At { t, .. } => t,
            PathEntry::Beginning => 1.0,
        }
    }
}

/// The time that fits an observation best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathMatch {
    /// The time.
    pub t: f64,
    /// How much of the observation's brightness the path keeps there.
    pub scale: f64,
    /// `|C_t z - scale A z| / |A z|` over images z.
    pub mismatch: f64,
}

impl PathMatch {
    /// The first time of the path that is as corrupted as the observation, in map and in noise.
    ///
    /// Where the map stands still, as in the noise stage, the noise decides.
    pub fn find(path: &Path, observation: &Observation) -> Result<PathMatch> {
        let images = typical(path.shape());
        let seen = observation.map().apply_batch(path.shape(), &images)?;
        let products = [dot(&images, &images), dot(&images, &seen), dot(&seen, &seen).max(f64::MIN_POSITIVE)];
        let at = |t: f64| match path.at(t)?.scale() {
            // Without looking at the images again, which may be photographs.
            Some(alpha) => Ok(measure_scale(alpha, products, t)),
            None => measure(path, &path.at(t)?.map, &images, &seen, t),
        };
        let times = (0..=TIMES).map(|i| at(i as f64 / TIMES as f64)).collect::<Result<Vec<PathMatch>>>()?;
        let best = times.iter().copied().fold(times[0], |best, m| if m.mismatch < best.mismatch { m } else { best });
        let alike = |m: &PathMatch| m.mismatch <= (1.2 * best.mismatch).max(SAME / 2.0);
        let noisy = |m: &PathMatch| path.sigma(m.t) >= m.scale * observation.sigma();
        // Among equals the first that is noisy enough; if none is, the last, which has most noise.
        let equal = || times.iter().filter(|m| alike(m));
        if equal().count() > 2 {
            let Some(chosen) = equal().find(|m| noisy(m)).or(equal().next_back()) else { return Ok(best) };
            return Ok(
                between(chosen.t - 1.0 / TIMES as f64, *chosen, &at, &|m| alike(m) && noisy(m))?.unwrap_or(*chosen)
            );
        }
        closest(best, &at)
    }

    /// Where to begin.
    pub fn entry(&self) -> PathEntry {
        if self.mismatch <= SAME { PathEntry::At { t: self.t, scale: self.scale } } else { PathEntry::Beginning }
    }
}

/// The first time after `before` that will do, `chosen` being one.
fn between(
    before: f64,
    chosen: PathMatch,
    at: &dyn Fn(f64) -> Result<PathMatch>,
    will_do: &dyn Fn(&PathMatch) -> bool,
) -> Result<Option<PathMatch>> {
    if !will_do(&chosen) {
        return Ok(None);
    }
    let (mut low, mut high) = (before.max(0.0), chosen);
    for _ in 0..HALVINGS {
        let middle = at(0.5 * (low + high.t))?;
        if will_do(&middle) { high = middle } else { low = middle.t }
    }
    Ok(Some(high))
}

/// The least mismatch around a time, by golden section.
fn closest(best: PathMatch, at: &dyn Fn(f64) -> Result<PathMatch>) -> Result<PathMatch> {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let step = 1.0 / TIMES as f64;
    let (mut low, mut high) = ((best.t - step).max(0.0), (best.t + step).min(1.0));
    let mut found = best;
    for _ in 0..HALVINGS {
        let (left, right) = (at(high - GOLDEN * (high - low))?, at(low + GOLDEN * (high - low))?);
        if left.mismatch < right.mismatch {
            high = right.t
        } else {
            low = left.t
        }
        let nearer = if left.mismatch < right.mismatch { left } else { right };
        if nearer.mismatch < found.mismatch {
            found = nearer;
        }
    }
    Ok(found)
}

/// The mismatch of C with what A makes of the images, under the best scale.
fn measure(path: &Path, map: &LinearMap, images: &[f64], seen: &[f64], t: f64) -> Result<PathMatch> {
    let corrupted = map.apply_batch(path.shape(), images)?;
    let square = dot(seen, seen).max(f64::MIN_POSITIVE);
    let scale = dot(&corrupted, seen) / square;
    let squares: f64 = corrupted.iter().zip(seen).map(|(c, a)| (c - scale * a).powi(2)).sum();
    Ok(PathMatch { t, scale, mismatch: (squares / square).sqrt() })
}

/// The same for `C = alpha I`, from the products of images and images, images and what A makes of them, and that with itself.
fn measure_scale(alpha: f64, [images, mixed, square]: [f64; 3], t: f64) -> PathMatch {
    let scale = alpha * mixed / square;
    let squares = alpha * alpha * images - 2.0 * alpha * scale * mixed + scale * scale * square;
    PathMatch { t, scale, mismatch: (squares.max(0.0) / square).sqrt() }
}

/// Four images with detail of all sizes: rows and columns of random walks, and white noise at a tenth.
fn typical(shape: Shape) -> Vec<f64> {
    // One is enough of a photograph.
    let count = if shape.pixels() > 1 << 16 { 1 } else { 4 };
    let mut images = Vec::with_capacity(count * shape.len());
    for number in 0..count {
        let mut stream = RandomStream::numbered(0, "images to compare maps with", number);
        let walk = |stream: &mut RandomStream, n: usize| -> Vec<f64> {
            let steps = (0..n).map(|_| stream.normal());
            steps
                .scan(0.0, |at, step| {
                    *at = 0.95 * *at + 0.3 * step;
                    Some(*at)
                })
                .collect()
        };
        let rows: Vec<Vec<f64>> = (0..shape.channels).map(|_| walk(&mut stream, shape.height)).collect();
        let cols: Vec<Vec<f64>> = (0..shape.channels).map(|_| walk(&mut stream, shape.width)).collect();
        for y in 0..shape.height {
            for x in 0..shape.width {
                images.extend(
                    (0..shape.channels)
                        .map(|c| rows[c][y] + cols[c][x] + rows[c][y] * cols[c][x] + 0.1 * stream.normal()),
                );
            }
        }
    }
    images
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::{Blur, Boundary, Corruption, ErasureOrder, Masking, ShrinkFilter, Shrinking};
    use crate::curve::Interpolation;
    use crate::noise::Alpha;

    const SHAPE: Shape = Shape { height: 16, width: 16, channels: 3 };

    fn blur() -> Blur {
        Blur::new(SHAPE, Boundary::Reflect, 6.0).unwrap()
    }

    fn blur_path() -> Path {
        Path::two_stage(Box::new(blur()), vec![0.01, 0.5, 1.2, 2.5, 6.0], Interpolation::Linear).unwrap()
    }

    fn find(path: &Path, map: LinearMap, sigma: f64) -> PathMatch {
        PathMatch::find(path, &Observation::new(SHAPE, map, sigma, vec![0.0; SHAPE.len()]).unwrap()).unwrap()
    }

    #[test]
    fn a_blur_is_entered_where_the_path_blurs_as_much() {
        let path = blur_path();
        for deviation in [0.6, 1.3, 2.0, 5.5] {
            let found = find(&path, blur().at(deviation).unwrap(), 0.01);
            let level = path.level(found.t).unwrap();
            assert!((level - deviation).abs() < 0.01 * deviation, "{level} for {deviation}");
            assert_eq!(found.entry(), PathEntry::At { t: found.t, scale: found.scale });
            assert!((found.scale - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn noise_alone_is_entered_where_the_path_is_as_noisy() {
        for (path, sigma) in [(blur_path(), 0.05), (Path::variance_exploding(SHAPE, 0.01, 50.0).unwrap(), 0.7)] {
            let found = find(&path, LinearMap::Identity, sigma);
            assert!((path.sigma(found.t) - sigma).abs() < 1e-3 * sigma, "{found:?}");
        }
        let vp = Path::variance_preserving(SHAPE, Alpha::LINEAR).unwrap();
        let found = find(&vp, LinearMap::Identity, 0.5);
        assert!((vp.sigma(found.t) / found.scale - 0.5).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn what_the_path_never_passes_is_entered_at_the_beginning() {
        let mask = Masking::new(SHAPE, ErasureOrder::Rows).at(0.5).unwrap();
        assert_eq!(find(&blur_path(), mask, 0.01).entry(), PathEntry::Beginning);
        assert_eq!(
            find(&blur_path(), Shrinking::new(SHAPE, (4, 4), ShrinkFilter::Box).map(), 0.01).entry(),
            PathEntry::Beginning
        );
    }
}
