//! `E[x_0 | x_t, y]`: what a denoiser says, corrected by what was seen.
//!
//! Of x_0 given x_t only the mean is known, x0_hat. Its covariance is taken to be the one that Gaussian images of
//! covariance S would leave, `(S^-1 + C_t^T C_t / sigma_t^2)^-1`: small where x_t tells, S where it does not. Then
//!
//! `E[x_0 | x_t, y] = x0_hat + d`, `(S^-1 + C_t^T C_t / sigma_t^2 + A^T A / s^2) d = A^T (y - A x0_hat) / s^2`.
//!
//! Exact for Gaussian images of covariance S on any path and for any A, which the tests hold it to. With C_t = I and white S
//! it is PiGDM's correction, and with s = 0 besides DDNM's projection.
//!
//! Where only noise happened (A = I) on a path of noise alone (C_t = alpha I), nothing need be assumed: x_t and y are two looks at
//! x_0 with white noise, which are as good as one with less, and of that the network gives the mean.
//!
//! A network for photographs knows more than such images would leave it to know, and a correction that is too large puts the noise
//! of y into the image. The covariance is then scaled to what `y - A x0_hat` shows of it ([`Conditioned::calibrated`]).

use super::solve::System;
use super::white_noise::denoised;
use super::{ImageCovariance, Observation};
use crate::corruption::LinearMap;
use crate::objective::ObjectiveError;
use crate::path::{Moment, Path};
use crate::sampler::{Denoiser, Result, SamplerError};
use rayon::prelude::*;

/// A denoiser that also knows an observation.
pub struct Conditioned<'a> {
    inner: &'a mut dyn Denoiser,
    path: &'a Path,
    observation: &'a Observation,
    spread: &'a ImageCovariance,
    calibrated: bool,
}

impl<'a> Conditioned<'a> {
    /// Conditions `inner`; `spread` is that of the images about their mean.
    pub fn new(
        inner: &'a mut dyn Denoiser,
        path: &'a Path,
        observation: &'a Observation,
        spread: &'a ImageCovariance,
    ) -> Self {
        Conditioned { inner, path, observation, spread, calibrated: false }
    }

    /// Scales the covariance of x_0 given x_t, M, by the c at which `|y - A x0_hat|^2 = c tr(A M A^T) + n s^2`, at most 1: the
    /// residual has as much power as the error and the noise together. For images of many values, which c is estimated from.
    pub fn calibrated(self, calibrated: bool) -> Self {
        Conditioned { calibrated, ..self }
    }

    /// `E[x_0 | x_t, y]` for A = I and C_t = alpha I, from the mean of both looks at x_0 and its noise.
    fn combined(&mut self, xt: &[f64], moment: &Moment, alpha: f64) -> Result<Vec<f64>> {
        let s2 = self.observation.sigma().powi(2);
        let weight = s2 / moment.sigma.powi(2);
        let sum = 1.0 + weight * alpha * alpha;
        let offset = self.path.offset(moment.t)?.unwrap_or_else(|| vec![0.0]);
        let looks = xt.iter().zip(self.observation.values().iter().cycle()).zip(offset.iter().cycle());
        let mean: Vec<f64> = looks.map(|((x, y), offset)| (y + weight * alpha * (x - offset)) / sum).collect();
        denoised(self.path, self.inner, &mean, (s2 / sum).sqrt(), moment.t)
    }
}

impl Denoiser for Conditioned<'_> {
    fn x0_hat(&mut self, xt: &[f64], t: f64) -> Result<Vec<f64>> {
        let moment = self.path.at(t)?;
        let alpha = moment.scale().filter(|_| *self.observation.map() == LinearMap::Identity);
        let mut x0_hat = match alpha {
            Some(alpha) => self.combined(xt, &moment, alpha)?,
            None => self.inner.x0_hat(xt, t)?,
        };
        let size = self.path.shape().len();
        if x0_hat.len() != xt.len() || !xt.len().is_multiple_of(size) {
            return Err(SamplerError::Size { what: "the denoiser's answer", found: x0_hat.len(), expected: xt.len() });
        }
        if alpha.is_some() {
            return Ok(x0_hat);
        }
        let seen = self.observation.values();
        let weight = (self.observation.sigma() / moment.sigma).powi(2);
        let system =
            System { observation: self.observation, spread: self.spread, path_term: Some((&moment.map, weight)) };
        x0_hat.par_chunks_exact_mut(size).try_for_each(|image| -> Result<()> {
            let shift = if self.calibrated { system.solve_calibrated(image)? } else { system.solve(image, seen)? };
            image.iter_mut().zip(shift).for_each(|(x, d)| *x += d);
            Ok(())
        })?;
        Ok(x0_hat)
    }

    /// What was seen says nothing about an image one step less corrupted.
    fn one_step(&mut self, _: &[f64], _: f64, _: f64) -> Result<Vec<f64>> {
        Err(ObjectiveError::OneStep.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::{Blur, Boundary, Kernel, Shape};
    use crate::curve::Interpolation;
    use crate::linalg::{Cholesky, Matrix};
    use crate::noise::Alpha;
    use crate::sampler::Oracle;
    use softdiff_engine::rng::RandomStream;

    const SHAPE: Shape = Shape { height: 4, width: 4, channels: 1 };

    #[test]
    fn white_gaussian_images_have_the_closed_posterior_mean() {
        let (variance, s) = (0.09f64, 0.03);
        let blur = Box::new(Blur::new(SHAPE, Boundary::Reflect, 3.0).unwrap());
        let path = Path::two_stage(blur, vec![0.01, 0.8, 3.0], Interpolation::Linear).unwrap();
        let mean: Vec<f64> = (0..16).map(|i| 0.3 + 0.02 * f64::from(i)).collect();
        let mut oracle = Oracle::gaussian(&path, mean.clone(), &[variance.sqrt(); 16]).unwrap();
        let known: Vec<bool> = (0..16).map(|i| i % 3 != 0).collect();
        let values = RandomStream::new(4, "seen").normals(16);
        let seen = Observation::masked(SHAPE, &known, s, values).unwrap();
        let spread = ImageCovariance::white(variance).unwrap();
        for t in [0.05, 0.18, 0.5, 1.0] {
            let xt = RandomStream::new(5, "x_t").normals(32);
            let found = Conditioned::new(&mut oracle, &path, &seen, &spread).x0_hat(&xt, t).unwrap();
            // Precisions add up: I/v (mean), C^T C / sigma^2 (x_t), A^T A / s^2 (y).
            let moment = path.at(t).unwrap();
            let (c, a) = (moment.map.to_dense(SHAPE).unwrap(), seen.map().to_dense(SHAPE).unwrap());
            let sigma2 = moment.sigma * moment.sigma;
            let precision = Matrix::diagonal(&[1.0 / variance; 16])
                .combined(1.0, &c.transposed_times(&c), 1.0 / sigma2)
                .combined(1.0, &a.transposed_times(&a), 1.0 / (s * s));
            let factor = Cholesky::new(&precision).unwrap();
            for (xt, found) in xt.chunks(16).zip(found.chunks(16)) {
                let (from_xt, from_y) = (c.transposed_times_vector(xt), a.transposed_times_vector(seen.values()));
                let sum = |i: usize| mean[i] / variance + from_xt[i] / sigma2 + from_y[i] / (s * s);
                let expected = factor.solve(&(0..16).map(sum).collect::<Vec<f64>>());
                let error = expected.iter().zip(found).map(|(e, f)| (e - f).abs()).fold(0.0, f64::max);
                assert!(error < 1e-5, "{error} at {t}");
            }
        }
    }

    /// Says the same of every x_t.
    struct Fixed(Vec<f64>);

    impl Denoiser for Fixed {
        fn x0_hat(&mut self, _: &[f64], _: f64) -> Result<Vec<f64>> {
            Ok(self.0.clone())
        }

        fn one_step(&mut self, _: &[f64], _: f64, _: f64) -> Result<Vec<f64>> {
            unreachable!("nobody asks")
        }
    }

    #[test]
    fn the_correction_is_as_large_as_the_residual_says() {
        let (shape, s) = (Shape::new(64, 64, 3), 0.1);
        let path = Path::variance_exploding(shape, 0.004, 1.0).unwrap();
        let normals = |name| RandomStream::new(2, name).normals(shape.len());
        let truth: Vec<f64> = normals("truth").iter().map(|x| 0.5 + 0.2 * x).collect();
        let blur = Kernel::gaussian(0.3).map(shape, Boundary::Reflect);
        let blurred = blur.apply(shape, &truth).unwrap();
        let y: Vec<f64> = blurred.iter().zip(normals("noise")).map(|(x, n)| x + s * n).collect();
        let seen = Observation::new(shape, blur, s, y).unwrap();
        let spread = ImageCovariance::white(0.04).unwrap();
        let far = |a: &[f64]| a.iter().zip(&truth).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / truth.len() as f64;
        let t = 0.6;
        let expected = 1.0 / (1.0 / 0.04 + 1.0 / path.sigma(t).powi(2));
        let corrected = |x0_hat: Vec<f64>, calibrated: bool| {
            let mut denoiser = Fixed(x0_hat);
            let mut conditioned = Conditioned::new(&mut denoiser, &path, &seen, &spread).calibrated(calibrated);
            far(&conditioned.x0_hat(&vec![0.0; shape.len()], t).unwrap())
        };
        // Of a denoiser that is right, nothing is to be corrected.
        assert!(corrected(truth.clone(), true) < 1e-2 * corrected(truth.clone(), false));
        // Of one whose error is M, the correction is that without calibration.
        let wrong: Vec<f64> = truth.iter().zip(normals("error")).map(|(x, n)| x + expected.sqrt() * n).collect();
        let (found, plain) = (corrected(wrong.clone(), true), corrected(wrong, false));
        assert!((found / plain - 1.0).abs() < 0.02 && found < 0.9 * expected, "{found} {plain} {expected}");
    }

    /// Of images whose pixels are black or white, each with probability 1/2 and alone.
    struct BlackAndWhite<'a>(&'a Path);

    /// `P(white | z) = 1 / (1 + exp((1 - 2 z) / (2 tau^2)))` for z = x_0 + tau n: the mean of a pixel that is 0 or 1.
    fn mean_of(z: f64, tau: f64) -> f64 {
        1.0 / (1.0 + ((1.0 - 2.0 * z) / (2.0 * tau * tau)).exp())
    }

    impl Denoiser for BlackAndWhite<'_> {
        fn x0_hat(&mut self, xt: &[f64], t: f64) -> Result<Vec<f64>> {
            let (alpha, sigma) = (self.0.at(t)?.scale().unwrap(), self.0.sigma(t));
            let offset = self.0.offset(t)?.map_or(0.0, |offset| offset[0]);
            Ok(xt.iter().map(|x| mean_of((x - offset) / alpha, sigma / alpha)).collect())
        }

        fn one_step(&mut self, _: &[f64], _: f64, _: f64) -> Result<Vec<f64>> {
            unreachable!("nobody asks")
        }
    }

    #[test]
    fn where_only_noise_happened_the_mean_is_that_of_images_that_are_not_gaussian() {
        let ve = Path::variance_exploding(SHAPE, 0.004, 1.0).unwrap();
        let vp = Path::variance_preserving(SHAPE, Alpha::LINEAR).unwrap().centred();
        let s = 0.4;
        for path in [ve, vp] {
            let y = RandomStream::new(6, "seen").normals(16);
            let seen = Observation::new(SHAPE, LinearMap::Identity, s, y.clone()).unwrap();
            let spread = ImageCovariance::white(0.25).unwrap();
            let mut denoiser = BlackAndWhite(&path);
            for t in [0.3, 0.7, 1.0] {
                let xt = RandomStream::new(7, "x_t").normals(32);
                let found = Conditioned::new(&mut denoiser, &path, &seen, &spread).x0_hat(&xt, t).unwrap();
                let (alpha, sigma) = (path.at(t).unwrap().scale().unwrap(), path.sigma(t));
                let offset = path.offset(t).unwrap().map_or(0.0, |offset| offset[0]);
                // The densities of both looks, of a white and of a black pixel.
                let odds = |x: f64, y: f64| {
                    let from_x = ((x - offset).powi(2) - (x - offset - alpha).powi(2)) / (2.0 * sigma * sigma);
                    from_x + (y * y - (y - 1.0).powi(2)) / (2.0 * s * s)
                };
                for ((x, y), found) in xt.iter().zip(y.iter().cycle()).zip(found) {
                    let expected = 1.0 / (1.0 + (-odds(*x, *y)).exp());
                    assert!((expected - found).abs() < 1e-6, "{expected} {found} at {t}");
                }
            }
        }
    }
}
