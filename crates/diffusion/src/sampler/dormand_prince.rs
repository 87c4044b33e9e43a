//! Dormand and Prince (1980): fifth order with an error estimate of fourth, steps chosen to meet a tolerance.

use super::{Denoiser, Past, Result, Sampler, SamplerError, StepContext, check_finite, checked_x0_hat};
use crate::path::Path;

/// Nodes of the method.
const C: [f64; 7] = [0.0, 0.2, 0.3, 0.8, 8.0 / 9.0, 1.0, 1.0];
/// Its stages; the last row is also the solution of fifth order, so its slope starts the next step.
const A: [[f64; 6]; 7] = [
    [0.0; 6],
    [0.2, 0.0, 0.0, 0.0, 0.0, 0.0],
    [3.0 / 40.0, 9.0 / 40.0, 0.0, 0.0, 0.0, 0.0],
    [44.0 / 45.0, -56.0 / 15.0, 32.0 / 9.0, 0.0, 0.0, 0.0],
    [19372.0 / 6561.0, -25360.0 / 2187.0, 64448.0 / 6561.0, -212.0 / 729.0, 0.0, 0.0],
    [9017.0 / 3168.0, -355.0 / 33.0, 46732.0 / 5247.0, 49.0 / 176.0, -5103.0 / 18656.0, 0.0],
    [35.0 / 384.0, 0.0, 500.0 / 1113.0, 125.0 / 192.0, -2187.0 / 6784.0, 11.0 / 84.0],
];
/// Fifth order less fourth.
const E: [f64; 7] =
    [71.0 / 57600.0, 0.0, -71.0 / 16695.0, 71.0 / 1920.0, -17253.0 / 339200.0, 22.0 / 525.0, -1.0 / 40.0];
/// Steps shrink and grow by at most these factors, and aim at this part of the largest size that would pass.
const SHRINK: f64 = 0.2;
const GROW: f64 = 5.0;
const SAFETY: f64 = 0.9;

/// How exact, and how hard to try.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Error of one step relative to the value ...
    pub relative: f64,
    /// ... and besides.
    pub absolute: f64,
    /// Evaluations after which to give up.
    pub evaluations: usize,
}

impl Default for Tolerance {
    /// score_sde's 1e-5.
    fn default() -> Self {
        Tolerance { relative: 1e-5, absolute: 1e-5, evaluations: 100_000 }
    }
}

impl Tolerance {
    /// Both tolerances alike.
    pub fn of(tolerance: f64) -> Self {
        Tolerance { relative: tolerance, absolute: tolerance, ..Self::default() }
    }

    fn check(&self) -> Result<()> {
        for value in [self.relative, self.absolute] {
            if !(value > 0.0 && value.is_finite()) {
                let remedy = "give a number above 0, such as 1e-5";
                return Err(SamplerError::Option { sampler: "dormand-prince", option: "the tolerance", value, remedy });
            }
        }
        Ok(())
    }
}

/// Solves `dy/dt = slope(t, y)` from `t` to `end`, in either direction.
pub(super) fn integrate(
    mut slope: impl FnMut(f64, &[f64]) -> Result<Vec<f64>>,
    (mut t, end): (f64, f64),
    mut y: Vec<f64>,
    tolerance: Tolerance,
) -> Result<Vec<f64>> {
    tolerance.check()?;
    let length = (end - t).abs();
    if length == 0.0 {
        return Ok(y);
    }
    let sign = (end - t).signum();
    let (mut size, mut evaluations) = (length.min(0.02), 1);
    // A path may have a corner just at the start: its slope on the side of the way to go is wanted.
    let mut slopes = vec![slope(t + 1e-12 * (end - t), &y)?];
    while (end - t) * sign > 0.0 {
        let last = (end - t).abs() <= size * (1.0 + 1e-12);
        let step = if last { end - t } else { sign * size };
        slopes.truncate(1);
        let mut next = Vec::new();
        for (c, row) in C.iter().zip(&A).skip(1) {
            next = y.clone();
            for (slope, a) in slopes.iter().zip(row).filter(|(_, a)| **a != 0.0) {
                next.iter_mut().zip(slope).for_each(|(y, k)| *y += step * a * k);
            }
            let at = if *c == 1.0 && last { end } else { t + c * step };
            slopes.push(slope(at, &next)?);
        }
        evaluations += C.len() - 1;
        // The worst value decides: every image meets the tolerance, not their mean.
        let mut worst = 0f64;
        for i in 0..y.len() {
            let error: f64 = slopes.iter().zip(E).map(|(slope, e)| step * e * slope[i]).sum();
            let scale = tolerance.absolute + tolerance.relative * y[i].abs().max(next[i].abs());
            worst = worst.max(error.abs() / scale);
        }
        if worst <= 1.0 {
            t = if last { end } else { t + step };
            y = next;
            // First same as last.
            slopes.swap(0, C.len() - 1);
        }
        let factor = if worst == 0.0 { GROW } else { (SAFETY * worst.powf(-0.2)).clamp(SHRINK, GROW) };
        size = step.abs() * factor;
        if evaluations > tolerance.evaluations || size < 1e-13 {
            return Err(SamplerError::Unreachable { tolerance: tolerance.relative, t, evaluations });
        }
    }
    Ok(y)
}

/// The velocity of the marginals: `dC/dt x0_hat - 1/2 d(sigma^2)/dt score` (Soft Diffusion, appendix, the ODE).
pub(super) fn velocity(path: &Path, denoiser: &mut dyn Denoiser, t: f64, x: &[f64]) -> Result<Vec<f64>> {
    check_finite("the sample", x, t)?;
    let x0_hat = checked_x0_hat(denoiser, x, t)?;
    let (moment, speed) = (path.at(t)?, path.derivative(t)?);
    let mut out = speed.map.apply_batch(path.shape(), &x0_hat)?;
    if speed.sigma != 0.0 {
        if moment.sigma <= 0.0 {
            return Err(SamplerError::NoNoise { sampler: "dormand-prince", t });
        }
        let rate = speed.sigma / moment.sigma;
        let y_hat = moment.map.apply_batch(path.shape(), &x0_hat)?;
        out.iter_mut().zip(x.iter().zip(&y_hat)).for_each(|(out, (x, y))| *out += rate * (x - y));
    }
    Ok(out)
}

/// The probability flow solved to a tolerance; the steps of the loop are where it must stop on its way.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DormandPrince {
    /// How exact.
    pub tolerance: Tolerance,
    /// Whether all images take the steps of the worst of them: faster, but then an image depends on its company within
    /// the tolerance.
    pub together: bool,
}

impl DormandPrince {
    fn solve(&self, step: &StepContext, end: f64, x: &[f64], denoiser: &mut dyn Denoiser) -> Result<Vec<f64>> {
        let size = if self.together { x.len().max(1) } else { step.path.shape().len() };
        let mut out = Vec::with_capacity(x.len());
        for part in x.chunks(size) {
            let slope = |t: f64, x: &[f64]| velocity(step.path, denoiser, t, x);
            out.extend(integrate(slope, (step.from.t, end), part.to_vec(), self.tolerance)?);
        }
        Ok(out)
    }
}

impl Sampler for DormandPrince {
    fn name(&self) -> &'static str {
        "dormand-prince"
    }

    fn is_affine(&self) -> bool {
        false
    }

    fn order(&self) -> u32 {
        5
    }

    fn evaluations(&self) -> usize {
        6
    }

    fn draws(&self) -> usize {
        0
    }

    fn step(&self, step: &StepContext, x: &[f64], denoiser: &mut dyn Denoiser, _: &mut Past) -> Result<Vec<f64>> {
        self.solve(step, step.to.t, x, denoiser)
    }

    /// To the start of the path where there is noise, and from there to the clean prediction.
    fn finish(&self, step: &StepContext, x: &[f64], denoiser: &mut dyn Denoiser) -> Result<Vec<f64>> {
        /// Where a path without noise at its start is left.
        const NEARLY_CLEAN: f64 = 1e-3;
        let noisy = step.path.at(0.0)?.sigma > 0.0;
        let end = if noisy { 0.0 } else { NEARLY_CLEAN.min(0.5 * step.from.t) };
        let x = self.solve(step, end, x, denoiser)?;
        checked_x0_hat(denoiser, &x, end)
    }
}
