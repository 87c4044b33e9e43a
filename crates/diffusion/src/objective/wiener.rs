//! Wiener preconditioning: the network predicts only what the best linear estimate leaves open.
//!
//! `x0_hat = E x_0 + W_t (x_t - E x_t) + B_t F`, with W_t the best linear estimate of x_0 from x_t per frequency, and B_t the standard deviation of its error. It is EDM's preconditioning (Karras et al. 2022, section 5:
//! c_skip and c_out) for a path whose signal-to-noise ratio differs between frequencies: the target of F has variance 1 at
//! every frequency and time. With x_t = C_t x_0 + sigma_t eta, a coefficient of variance P and gain c:
//! `W = c P / (c^2 P + sigma^2)`, `B^2 = P - W c P`.

use crate::corruption::{CorruptionError, LinearMap, Shape, cosine_basis};
use crate::linalg::Matrix;
use crate::path::{Path, PathError};
use crate::spectrum::Spectrum;
use rayon::prelude::*;
use softdiff_engine::{Graph, Hint, Result as EngineResult, Var};
use std::borrow::Cow;

/// Times at which the coefficients are computed; linear in between.
const ROWS: usize = 257;

/// Why a path cannot be preconditioned.
#[derive(Debug, thiserror::Error)]
pub enum WienerError {
    /// A corruption that does not act per frequency.
    #[error(
        "objective.parametrisation \"wiener\" needs a corruption that acts on frequencies (blur, heat, fading, pixelation or \
         noise alone), and this path has a {0} map"
    )]
    Map(&'static str),
    /// A spectrum of other images.
    #[error("the spectrum is that of images of {found}, the path's are {expected}")]
    Shape {
        /// The spectrum's.
        found: Shape,
        /// The path's.
        expected: Shape,
    },
    /// A bad path.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl Hint for WienerError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            WienerError::Map(_) => "use parametrisation \"residual\"".into(),
            WienerError::Shape { .. } => return None,
            WienerError::Path(error) => return error.hint(),
        })
    }
}

/// W_t and B_t of a path and a data set, as tables over time. Images count from the path's centre.
#[derive(Debug, Clone, PartialEq)]
pub struct Wiener {
    spectrum: Spectrum,
    /// `[ROWS, image]` each: W - 1, B, and the part of the mean that W does not bring back, `E x_0 - W E x_t`.
    tables: [Vec<f64>; 3],
}

/// W - 1, B and the offset of a batch of times, in a graph: `[n, h, w, c]` each.
#[derive(Debug, Clone, Copy)]
pub struct WienerVars {
    coefficients: [Var; 3],
}

impl Wiener {
    /// Computes the tables.
    pub fn new(path: &Path, spectrum: &Spectrum) -> Result<Wiener, WienerError> {
        let (found, expected) = (spectrum.shape(), path.shape());
        if found != expected {
            return Err(WienerError::Shape { found, expected });
        }
        let centre = spectrum.transform().apply(expected, &vec![path.centre(); expected.len()]);
        let centre = centre.map_err(PathError::from)?;
        let mean: Vec<f64> = spectrum.mean().iter().zip(&centre).map(|(mean, centre)| mean - centre).collect();
        let mut tables = [const { Vec::new() }; 3];
        for row in 0..ROWS {
            let moment = path.at(row as f64 / (ROWS - 1) as f64)?;
            let seen = Gains::of(&moment.map, expected)?.seen(spectrum, &mean);
            let sigma2 = moment.sigma * moment.sigma;
            for i in 0..expected.len() {
                let variance = spectrum.variance()[i];
                let covariance = seen.gain[i / expected.channels] * variance;
                let total = seen.variance[i] + sigma2;
                let skip = if total > 0.0 { covariance / total } else { 0.0 };
                tables[0].push(skip - 1.0);
                tables[1].push((variance - skip * covariance).max(0.0).sqrt());
                tables[2].push(mean[i] - skip * seen.mean[i]);
            }
        }
        Ok(Wiener { spectrum: spectrum.clone(), tables })
    }

    /// The data's spectrum.
    pub fn spectrum(&self) -> &Spectrum {
        &self.spectrum
    }

    /// W - 1, B and the offset at t, interpolated as in the graph.
    pub fn at(&self, t: f64) -> [Vec<f64>; 3] {
        let size = self.spectrum.shape().len();
        let position = t.clamp(0.0, 1.0) * (ROWS - 1) as f64;
        let row = (position as usize).min(ROWS - 2);
        let part = position - row as f64;
        std::array::from_fn(|table| {
            let [low, high] = [row, row + 1].map(|row| &self.tables[table][row * size..][..size]);
            low.iter().zip(high).map(|(low, high)| low + part * (high - low)).collect()
        })
    }

    /// `x0_hat` from the network's output at `x_t`, for any number of images at one time.
    pub fn x0_hat(&self, output: &[f64], xt: &[f64], t: f64) -> Result<Vec<f64>, CorruptionError> {
        let [skip, gain, offset] = self.at(t);
        let (shape, transform) = (self.spectrum.shape(), self.spectrum.transform());
        let size = shape.len();
        shape.count(xt)?;
        let image = |(output, xt): (&[f64], &[f64])| -> Result<Vec<f64>, CorruptionError> {
            let (seen, predicted) = (transform.apply(shape, xt)?, transform.apply(shape, output)?);
            let change: Vec<f64> = (0..size).map(|i| skip[i] * seen[i] + gain[i] * predicted[i] + offset[i]).collect();
            Ok(transform.adjoint(shape, &change)?.iter().zip(xt).map(|(change, x)| x + change).collect())
        };
        let images: Result<Vec<_>, _> = output.par_chunks(size).zip(xt.par_chunks(size)).map(image).collect();
        Ok(images?.concat())
    }

    /// The coefficients at times `t [n]`, looked up in the graph.
    pub fn lookup(&self, g: &mut Graph, t: Var) -> EngineResult<WienerVars> {
        let Shape { height, width, channels } = self.spectrum.shape();
        let n = g.shape(t).numel();
        let position = g.scale(t, (ROWS - 1) as f64)?;
        let mut coefficients = [t; 3];
        for (var, values) in coefficients.iter_mut().zip(&self.tables) {
            let table = g.constant([ROWS, height * width * channels], values.clone())?;
            let row = g.interpolate(table, position)?;
            *var = g.reshape(row, [n, height, width, channels])?;
        }
        Ok(WienerVars { coefficients })
    }

    /// `x0_hat` in the engine.
    pub fn emit(&self, g: &mut Graph, output: Var, xt: Var, vars: &WienerVars) -> EngineResult<Var> {
        let shape = self.spectrum.shape();
        let fixed = |g: &mut Graph, m: Matrix| g.constant([1, m.rows(), m.cols()], m.into_values());
        let (rows, cols) = (cosine_basis(shape.height), cosine_basis(shape.width));
        let axes = self.spectrum.axes();
        let (b, d, m) = (fixed(g, rows.clone())?, fixed(g, cols.clone())?, fixed(g, axes.clone())?);
        let (bt, dt, mt) = (fixed(g, rows.transposed())?, fixed(g, cols.transposed())?, fixed(g, axes.transposed())?);
        let [skip, gain, offset] = vars.coefficients;
        let coefficients = |g: &mut Graph, x: Var| {
            let mixed = g.channel_mix(x, m)?;
            g.separable(mixed, b, d)
        };
        let seen = coefficients(g, xt)?;
        let predicted = coefficients(g, output)?;
        let (kept, added) = (g.mul(seen, skip)?, g.mul(predicted, gain)?);
        let sum = g.combine(&[(1.0, kept), (1.0, added)])?;
        let change = g.add(sum, offset)?;
        let planes = g.separable(change, bt, dt)?;
        let change = g.channel_mix(planes, mt)?;
        g.add(change, xt)
    }
}

/// A corruption as seen by the frequencies of the cosine basis.
enum Gains {
    /// One gain per frequency.
    Diagonal(Vec<f64>),
    /// `X -> rows X cols^T` on coefficients.
    Separable { rows: Matrix, cols: Matrix },
}

/// Moments of `C x_0` per coefficient; `gain` per frequency.
struct SignalMoments {
    gain: Vec<f64>,
    mean: Vec<f64>,
    variance: Vec<f64>,
}

impl Gains {
    fn of(map: &LinearMap, shape: Shape) -> Result<Gains, WienerError> {
        let (b, d) = (cosine_basis(shape.height), cosine_basis(shape.width));
        Ok(match map {
            LinearMap::Identity => Gains::Diagonal(vec![1.0; shape.pixels()]),
            LinearMap::Scale(factor) => Gains::Diagonal(vec![*factor; shape.pixels()]),
            LinearMap::Spectral { rows, cols, gains } if *rows == b && *cols == d => Gains::Diagonal(gains.clone()),
            LinearMap::Separable { rows, cols } => {
                Gains::Separable { rows: b.times(rows).times_transposed(&b), cols: d.times(cols).times_transposed(&d) }
            }
            LinearMap::Compose(parts) => {
                let first = Gains::Diagonal(vec![1.0; shape.pixels()]);
                parts.iter().try_fold(first, |product, part| product.then(Gains::of(part, shape)?))?
            }
            LinearMap::PixelDiagonal(_) => return Err(WienerError::Map("pixel mask")),
            LinearMap::ChannelMix(_) => return Err(WienerError::Map("channel mixing")),
            _ => return Err(WienerError::Map("dense")),
        })
    }

    /// The map followed by another.
    fn then(self, next: Gains) -> Result<Gains, WienerError> {
        let scale = |gains: &[f64]| gains.iter().all(|gain| *gain == gains[0]).then(|| gains[0]);
        Ok(match (self, next) {
            (Gains::Diagonal(a), Gains::Diagonal(b)) => Gains::Diagonal(a.iter().zip(&b).map(|(a, b)| a * b).collect()),
            (Gains::Separable { rows, cols }, Gains::Separable { rows: r, cols: c }) => {
                Gains::Separable { rows: r.times(&rows), cols: c.times(&cols) }
            }
            (Gains::Diagonal(gains), Gains::Separable { rows, cols })
            | (Gains::Separable { rows, cols }, Gains::Diagonal(gains)) => {
                let factor = scale(&gains).ok_or(WienerError::Map("composed"))?;
                Gains::Separable { rows: rows.combined(factor, &rows, 0.0), cols }
            }
        })
    }

    fn seen(&self, spectrum: &Spectrum, mean: &[f64]) -> SignalMoments {
        let (shape, variance) = (spectrum.shape(), spectrum.variance());
        match self {
            Gains::Diagonal(gains) => SignalMoments {
                gain: gains.clone(),
                mean: (0..shape.len()).map(|i| gains[i / shape.channels] * mean[i]).collect(),
                variance: (0..shape.len()).map(|i| gains[i / shape.channels].powi(2) * variance[i]).collect(),
            },
            Gains::Separable { rows, cols } => {
                let squared = |m: &Matrix| Matrix::from_fn(m.rows(), m.cols(), |i, j| m[(i, j)].powi(2));
                let apply = |rows: &Matrix, cols: &Matrix, x: &[f64]| {
                    let map = LinearMap::Separable { rows: rows.clone(), cols: cols.clone() };
                    map.apply(shape, x).expect("the matrices were made for this shape")
                };
                let (r, c) = (rows.diagonal_values(), cols.diagonal_values());
                SignalMoments {
                    gain: r.iter().flat_map(|r| c.iter().map(move |c| r * c)).collect(),
                    mean: apply(rows, cols, mean),
                    variance: apply(&squared(rows), &squared(cols), variance),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::{Blur, Boundary};
    use crate::curve::Interpolation;
    use softdiff_engine::rng::RandomStream;

    const SHAPE: Shape = Shape { height: 6, width: 6, channels: 3 };

    /// Gaussian images with a falling spectrum and correlated channels.
    fn images(count: usize) -> Vec<f64> {
        let axes = LinearMap::ChannelMix(Matrix::from_fn(3, 3, |i, j| if i == j { 1.0 } else { 0.8 }));
        let (rows, cols) = (cosine_basis(6), cosine_basis(6));
        let gains = (0..36).map(|i| 0.5 / (1.0 + f64::from(i / 6 + i % 6))).collect();
        let map = LinearMap::Compose(vec![LinearMap::Spectral { rows, cols, gains }, axes]);
        let white = RandomStream::new(3, "images").normals(count * SHAPE.len());
        map.apply_batch(SHAPE, &white).unwrap().iter().map(|v| 0.5 + v).collect()
    }

    fn path(boundary: Boundary) -> Path {
        let blur = Box::new(Blur::new(SHAPE, boundary, 3.0).unwrap());
        Path::two_stage(blur, vec![0.01, 0.8, 3.0], Interpolation::Linear).unwrap()
    }

    #[test]
    fn the_linear_part_is_the_best_linear_estimate_of_gaussian_images() {
        let images = images(4000);
        let spectrum = Spectrum::of_images(SHAPE, &images, false).unwrap();
        let vp = Path::variance_preserving(SHAPE, crate::noise::Alpha::LINEAR).unwrap().centred();
        for path in [path(Boundary::Reflect), vp] {
            let wiener = Wiener::new(&path, &spectrum).unwrap();
            for (row, t) in [(20, 20.0 / 256.0), (128, 0.5), (256, 1.0)] {
                let noise = RandomStream::numbered(4, "noise", row).normals(images.len());
                let centre = path.centre();
                let xt: Vec<f64> = path.diffuse(&images, t, &noise).unwrap().iter().map(|x| x - centre).collect();
                let x0_hat = wiener.x0_hat(&vec![0.0; xt.len()], &xt, t).unwrap();
                let difference: Vec<f64> = x0_hat.iter().zip(&images).map(|(a, b)| a + centre - b).collect();
                let mut errors = vec![0.0; SHAPE.len()];
                for image in spectrum.transform().apply_batch(SHAPE, &difference).unwrap().chunks(SHAPE.len()) {
                    errors.iter_mut().zip(image).for_each(|(sum, e)| *sum += e * e / 4000.0);
                }
                // The error of the linear estimate has the variance B^2 at every frequency.
                let [_, gain, _] = wiener.at(t);
                for (error, gain) in errors.iter().zip(&gain) {
                    assert!((error / (gain * gain) - 1.0).abs() < 0.12, "{error} is not {} at {t}", gain * gain);
                }
            }
        }
    }

    #[test]
    fn the_graph_computes_what_the_plain_function_does() {
        let spectrum = Spectrum::of_images(SHAPE, &images(200), true).unwrap();
        for boundary in [Boundary::Zero, Boundary::Reflect] {
            let wiener = Wiener::new(&path(boundary), &spectrum).unwrap();
            let times = [0.0, 0.1234, 0.777];
            let mut g = Graph::new();
            let (x, f) = (g.input("x", [3, 6, 6, 3]).unwrap(), g.input("f", [3, 6, 6, 3]).unwrap());
            let t = g.input("t", [3]).unwrap();
            let vars = wiener.lookup(&mut g, t).unwrap();
            let y = wiener.emit(&mut g, f, x, &vars).unwrap();
            let (xs, fs) = (RandomStream::new(5, "x").normals(324), RandomStream::new(6, "f").normals(324));
            let mut run = softdiff_engine::cpu::CpuExecutor::<f64>::new(softdiff_engine::Plan::new(&g, &[y]).unwrap());
            run.set("x", &xs).unwrap();
            run.set("f", &fs).unwrap();
            run.set("t", &times).unwrap();
            run.run(&softdiff_engine::Params::zeros(&g), 0, 0).unwrap();
            let found = run.get(y).unwrap().to_vec();
            for i in 0..3 {
                let part = i * 108..(i + 1) * 108;
                let expected = wiener.x0_hat(&fs[part.clone()], &xs[part.clone()], times[i]).unwrap();
                let worst = expected.iter().zip(&found[part]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(worst < 1e-12, "{worst}");
            }
        }
    }

    #[test]
    fn masks_are_refused_with_a_remedy() {
        let masking = crate::corruption::Masking::new(SHAPE, crate::corruption::ErasureOrder::Spiral);
        let path = Path::two_stage(Box::new(masking), vec![0.0, 1.0], Interpolation::Linear).unwrap();
        let spectrum = Spectrum::of_images(SHAPE, &images(10), false).unwrap();
        let error = Wiener::new(&path, &spectrum).unwrap_err();
        assert!(error.to_string().contains("pixel mask"), "{error}");
        assert!(error.hint().unwrap().contains("\"residual\""), "{error}");
    }
}
