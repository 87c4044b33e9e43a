//! Noise levels over time: `sigma_t` of Soft Diffusion, Eq. 4, with derivatives.

use crate::curve::Curve;
use softdiff_engine::Hint;
use std::borrow::Cow;
use std::f64::consts::FRAC_PI_2;

/// Share of the time in which the paper's diffusion only adds noise: "less than 20 %" (section 4).
pub const NOISE_STAGE: f64 = 0.18;
/// The paper's noise grows from here ...
pub const PAPER_SMALLEST: f64 = 0.01;
/// ... to here, for values in [0, 1].
pub const PAPER_LARGEST: f64 = 0.1;

/// A parameter of a noise schedule that makes no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{parameter} of the noise is {value}")]
pub struct NoiseError {
    parameter: &'static str,
    value: f64,
    remedy: &'static str,
}

impl Hint for NoiseError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(self.remedy.into())
    }
}

/// How much of the image a variance-preserving diffusion keeps: `alpha_t`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Alpha {
    /// `alpha = exp(-1/2 integral of beta)`, beta rising linearly (Ho et al. 2020; score_sde: 0.1 to 20).
    Linear {
        /// beta at t = 0.
        beta_min: f64,
        /// beta at t = 1.
        beta_max: f64,
    },
    /// `alpha = cos(pi/2 (t + s)/(1 + s)) / cos(pi/2 s/(1 + s))` (Nichol and Dhariwal 2021; s = 0.008).
    Cosine {
        /// s.
        offset: f64,
    },
}

impl Alpha {
    /// score_sde's range of beta.
    pub const LINEAR: Alpha = Alpha::Linear { beta_min: 0.1, beta_max: 20.0 };
    /// The usual cosine.
    pub const COSINE: Alpha = Alpha::Cosine { offset: 0.008 };

    /// alpha and its derivative at t.
    pub fn at(&self, t: f64) -> (f64, f64) {
        match *self {
            Alpha::Linear { beta_min, beta_max } => {
                let alpha = (-0.5 * self.integrated_beta(t)).exp();
                (alpha, -0.5 * (beta_min + t * (beta_max - beta_min)) * alpha)
            }
            Alpha::Cosine { offset } => {
                let angle = |t: f64| FRAC_PI_2 * (t + offset) / (1.0 + offset);
                let start = angle(0.0).cos();
                // At t = 1 the cosine is zero but for rounding.
                let alpha = if t >= 1.0 { 0.0 } else { angle(t).cos() / start };
                (alpha, -angle(t).sin() / start * FRAC_PI_2 / (1.0 + offset))
            }
        }
    }

    /// `1 - alpha^2`, without loss near t = 0.
    fn lost_variance(&self, t: f64) -> f64 {
        match self {
            Alpha::Linear { .. } => -(-self.integrated_beta(t)).exp_m1(),
            Alpha::Cosine { .. } => {
                let alpha = self.at(t).0;
                ((1.0 - alpha) * (1.0 + alpha)).max(0.0)
            }
        }
    }

    fn integrated_beta(&self, t: f64) -> f64 {
        match *self {
            Alpha::Linear { beta_min, beta_max } => t * (beta_min + 0.5 * t * (beta_max - beta_min)),
            Alpha::Cosine { .. } => -2.0 * self.at(t).0.ln(),
        }
    }

    fn check(&self) -> Result<(), NoiseError> {
        let fail = |parameter, value, remedy| Err(NoiseError { parameter, value, remedy });
        match *self {
            Alpha::Linear { beta_min, .. } if !(beta_min >= 0.0 && beta_min.is_finite()) => {
                fail("beta_min", beta_min, "give a number from 0 on, such as 0.1")
            }
            Alpha::Linear { beta_min, beta_max } if !(beta_max > beta_min && beta_max.is_finite()) => {
                fail("beta_max", beta_max, "give a number above beta_min, such as 20")
            }
            Alpha::Cosine { offset } if !(0.0..1.0).contains(&offset) => {
                fail("the offset", offset, "give a number from 0 to 1, such as 0.008")
            }
            _ => Ok(()),
        }
    }
}

/// The standard deviation of the noise over time.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Noise {
    /// Always the same.
    Constant {
        /// sigma.
        sigma: f64,
    },
    /// `smallest (largest/smallest)^(t/until)`, then constant. With `until` = 1 noise grows all the time (the VE
    /// diffusion, and the paper's simultaneous ablation); below 1 it comes first and the corruption after it (the
    /// paper's two stages).
    Geometric {
        /// sigma at t = 0.
        smallest: f64,
        /// sigma from `until` on.
        largest: f64,
        /// When it is reached.
        until: f64,
    },
    /// `sqrt(1 - alpha^2)`: the variance-preserving diffusion.
    VariancePreserving {
        /// What is kept of the image.
        alpha: Alpha,
    },
    /// `1 - alpha^2`: the sub-VP diffusion (Song et al. 2021).
    SubVariancePreserving {
        /// What is kept of the image.
        alpha: Alpha,
    },
    /// Through knots of its own, chosen together with the levels of the corruption ([`crate::schedule::JointGrid`]). A
    /// schedule's file has the knots.
    #[serde(skip)]
    Curve(Curve),
}

impl Noise {
    /// The paper's noise: geometric from 0.01 to 0.1 in the first stage, then constant.
    pub const PAPER: Noise = Noise::Geometric { smallest: PAPER_SMALLEST, largest: PAPER_LARGEST, until: NOISE_STAGE };

    /// Refuses parameters that make no sense.
    pub fn check(&self) -> Result<(), NoiseError> {
        let fail = |parameter, value, remedy| Err(NoiseError { parameter, value, remedy });
        match *self {
            Noise::Constant { sigma } if !(sigma >= 0.0 && sigma.is_finite()) => {
                fail("sigma", sigma, "give a finite number from 0 on")
            }
            Noise::Geometric { smallest, .. } if !(smallest > 0.0 && smallest.is_finite()) => {
                fail("the smallest sigma", smallest, "give a number above 0, such as 0.01")
            }
            Noise::Geometric { smallest, largest, .. } if !(largest >= smallest && largest.is_finite()) => {
                fail("the largest sigma", largest, "noise may not fall with time: give at least the smallest")
            }
            Noise::Geometric { until, .. } if !(until > 0.0 && until <= 1.0) => {
                fail("the end of the first stage", until, "give a time above 0 and up to 1, such as 0.18")
            }
            Noise::Curve(ref curve) if curve.range().0 < 0.0 => {
                fail("the first knot", curve.range().0, "give standard deviations from 0 on")
            }
            Noise::VariancePreserving { alpha } | Noise::SubVariancePreserving { alpha } => alpha.check(),
            _ => Ok(()),
        }
    }

    /// sigma at t.
    pub fn sigma(&self, t: f64) -> f64 {
        match *self {
            Noise::Constant { sigma } => sigma,
            Noise::Geometric { smallest, largest, until } => {
                if t >= until {
                    largest
                } else {
                    smallest * (largest / smallest).powf(t / until)
                }
            }
            Noise::Curve(ref curve) => curve.value(t),
            Noise::VariancePreserving { alpha } => alpha.lost_variance(t).sqrt(),
            Noise::SubVariancePreserving { alpha } => alpha.lost_variance(t),
        }
    }

    /// d(sigma^2)/dt, which the paper's stochastic differential equations contain; always finite (at the end of a stage,
    /// the one to the right).
    pub fn sigma2_derivative(&self, t: f64) -> f64 {
        match *self {
            Noise::Constant { .. } => 0.0,
            Noise::Geometric { smallest, largest, until } => {
                // Where noise grows to the end, the end has a slope too: that of the way back.
                if t >= until && until < 1.0 {
                    0.0
                } else {
                    2.0 * self.sigma(t).powi(2) * (largest / smallest).ln() / until
                }
            }
            Noise::Curve(ref curve) => 2.0 * curve.value(t) * curve.derivative(t),
            Noise::VariancePreserving { alpha } => {
                let (value, slope) = alpha.at(t);
                -2.0 * value * slope
            }
            Noise::SubVariancePreserving { alpha } => {
                let (value, slope) = alpha.at(t);
                -4.0 * value * slope * alpha.lost_variance(t)
            }
        }
    }

    /// d(sigma)/dt; infinite where a variance-preserving diffusion starts from no noise.
    pub fn sigma_derivative(&self, t: f64) -> f64 {
        let (slope, sigma) = (self.sigma2_derivative(t), self.sigma(t));
        if slope == 0.0 { 0.0 } else { slope / (2.0 * sigma) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Interpolation;

    fn every_noise() -> Vec<Noise> {
        vec![
            Noise::Constant { sigma: 0.1 },
            Noise::PAPER,
            Noise::Geometric { smallest: 0.01, largest: 50.0, until: 1.0 },
            Noise::VariancePreserving { alpha: Alpha::LINEAR },
            Noise::VariancePreserving { alpha: Alpha::COSINE },
            Noise::SubVariancePreserving { alpha: Alpha::LINEAR },
            Noise::Curve(Curve::uniform(vec![0.01, 0.02, 0.05, 0.05, 0.1], Interpolation::Linear).unwrap()),
            Noise::Curve(Curve::uniform(vec![0.01, 0.02, 0.05, 0.1], Interpolation::MonotoneCubic).unwrap()),
        ]
    }

    #[test]
    fn noise_never_falls_and_derivatives_equal_finite_differences() {
        for noise in every_noise() {
            noise.check().unwrap();
            let mut previous = noise.sigma(0.0);
            for i in 1..200 {
                let t = i as f64 / 200.0 + 0.0013;
                assert!(noise.sigma(t) >= previous, "{noise:?} at {t}");
                previous = noise.sigma(t);
                let step = 1e-6;
                let slope = (noise.sigma(t + step) - noise.sigma(t - step)) / (2.0 * step);
                assert!((slope - noise.sigma_derivative(t)).abs() < 1e-5 * (1.0 + slope), "{noise:?} at {t}");
                let square = |t: f64| noise.sigma(t).powi(2);
                let slope = (square(t + step) - square(t - step)) / (2.0 * step);
                assert!((slope - noise.sigma2_derivative(t)).abs() < 1e-5 * (1.0 + slope), "{noise:?} at {t}");
            }
        }
    }

    #[test]
    fn the_papers_noise_runs_from_a_hundredth_to_a_tenth_in_the_first_stage() {
        assert_eq!((Noise::PAPER.sigma(0.0), Noise::PAPER.sigma(0.18), Noise::PAPER.sigma(1.0)), (0.01, 0.1, 0.1));
        assert!((Noise::PAPER.sigma(0.09) - 0.01 * 10f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn variance_is_preserved_and_tiny_times_keep_their_digits() {
        for alpha in [Alpha::LINEAR, Alpha::COSINE] {
            for t in [0.0, 0.1, 0.5, 1.0] {
                let sigma = Noise::VariancePreserving { alpha }.sigma(t);
                assert!((alpha.at(t).0.powi(2) + sigma * sigma - 1.0).abs() < 1e-14);
                assert!((Noise::SubVariancePreserving { alpha }.sigma(t) - sigma * sigma).abs() < 1e-15);
            }
        }
        let early = Noise::VariancePreserving { alpha: Alpha::LINEAR }.sigma(1e-12);
        assert!((early / (0.1 * 1e-12f64).sqrt() - 1.0).abs() < 1e-9);
        assert_eq!(Noise::VariancePreserving { alpha: Alpha::COSINE }.sigma(1.0), 1.0);
    }

    #[test]
    fn parameters_that_make_no_sense_are_refused_with_a_remedy() {
        let bad = [
            Noise::Constant { sigma: f64::NAN },
            Noise::Geometric { smallest: 0.0, largest: 1.0, until: 1.0 },
            Noise::Geometric { smallest: 0.1, largest: 0.01, until: 1.0 },
            Noise::Geometric { smallest: 0.01, largest: 0.1, until: 0.0 },
            Noise::VariancePreserving { alpha: Alpha::Linear { beta_min: 20.0, beta_max: 0.1 } },
            Noise::SubVariancePreserving { alpha: Alpha::Cosine { offset: -1.0 } },
            Noise::Curve(Curve::straight(-0.1, 0.1).unwrap()),
        ];
        for noise in bad {
            assert!(noise.check().unwrap_err().hint().is_some(), "{noise:?}");
        }
    }
}
