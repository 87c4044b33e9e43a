//! Predictor-corrector: any sampler's step, then Langevin steps at the time reached (Song et al. 2021, algorithms 2-5).

use super::{Denoiser, Past, Result, Sampler, SamplerError, StepContext, checked_x0_hat};

/// After the predictor, `x += e score + sqrt(2 e) z` with `e = 2 (snr sigma)^2`.
///
/// Song et al. take `e = 2 (snr |z| / |score|)^2` with norms averaged over the batch, which ties an image to its company,
/// and norms of one image alone blow up where its score vanishes. The score of a noisy image is about `-z / sigma`, so
/// that |z| / |score| is about sigma: that is what stands here.
/// score = (C x0_hat - x) / sigma^2 holds for any linear corruption, so the corrector is not bound to C = alpha I.
pub struct PredictorCorrector {
    /// The predictor.
    pub predictor: Box<dyn Sampler>,
    /// Signal-to-noise ratio of a Langevin step; score_sde takes 0.16.
    pub snr: f64,
    /// Langevin steps after each predictor step.
    pub corrections: usize,
}

impl PredictorCorrector {
    /// score_sde's settings for CIFAR-10: one correction at 0.16.
    pub fn new(predictor: Box<dyn Sampler>) -> Self {
        PredictorCorrector { predictor, snr: 0.16, corrections: 1 }
    }
}

impl Sampler for PredictorCorrector {
    fn name(&self) -> &'static str {
        "predictor-corrector"
    }

    fn is_affine(&self) -> bool {
        false
    }

    fn order(&self) -> u32 {
        // The Langevin steps do not shrink with the step in time: what they leave does not vanish.
        0
    }

    fn evaluations(&self) -> usize {
        self.predictor.evaluations() + self.corrections
    }

    fn draws(&self) -> usize {
        self.predictor.draws() + self.corrections
    }

    fn step(&self, step: &StepContext, x: &[f64], denoiser: &mut dyn Denoiser, past: &mut Past) -> Result<Vec<f64>> {
        if !(self.snr > 0.0 && self.snr.is_finite()) {
            let remedy = "give a number above 0, such as 0.16";
            return Err(SamplerError::Option { sampler: self.name(), option: "snr", value: self.snr, remedy });
        }
        let mut x = self.predictor.step(step, x, denoiser, past)?;
        let to = step.to;
        if to.sigma == 0.0 {
            return Ok(x);
        }
        let size = 2.0 * (self.snr * to.sigma).powi(2);
        for correction in 0..self.corrections {
            let eta = step.noise(self.predictor.draws() + correction, x.len())?;
            let x0_hat = checked_x0_hat(denoiser, &x, to.t)?;
            let y_hat = to.map.apply_batch(step.path.shape(), &x0_hat)?;
            for (i, x) in x.iter_mut().enumerate() {
                let score = (y_hat[i] - *x) / (to.sigma * to.sigma);
                *x += size * score + (2.0 * size).sqrt() * eta[i];
            }
        }
        Ok(x)
    }
}
