//! Over-relaxation of Sinkhorn iteration (Thibault et al. 2017), fitted as it runs.

/// Passes over which the rate of convergence is measured, at least.
const BLOCK: usize = 4;
/// Largest over-relaxation: below 2 the iteration converges near its fixed point.
const LARGEST_FACTOR: f64 = 1.998;
/// Growth of the error within a block that means too much of it.
const DIVERGENCE: f64 = 8.0;

/// The over-relaxation factor, fitted to the rate of convergence seen.
pub(super) struct Relaxation {
    /// The factor for the next pass.
    pub factor: f64,
    largest: f64,
    /// Error at the start of the block of passes under observation, and passes since.
    start_error: f64,
    passes: usize,
}

impl Default for Relaxation {
    fn default() -> Self {
        Relaxation { factor: 1.0, largest: LARGEST_FACTOR, start_error: f64::INFINITY, passes: 0 }
    }
}

impl Relaxation {
    /// Notes the error of one pass; at the end of a block fits the factor and returns the rate seen.
    pub fn observe(&mut self, error: f64) -> Option<f64> {
        self.passes += 1;
        // A factor near two forgets its start slowly; a rate is only seen beyond that.
        let block = (BLOCK as f64).max(3.0 / (2.0 - self.factor)) as usize;
        let diverging = error > DIVERGENCE * self.start_error;
        if self.passes < block && !diverging {
            return None;
        }
        let rate = (error / self.start_error).powf(1.0 / self.passes as f64);
        if diverging {
            self.largest = 1.0 + 0.8 * (self.factor - 1.0);
            self.factor = 1.0;
        } else if rate > 0.0 {
            // Young: (rate + w - 1)^2 = rate w^2 eta links the rate at factor w to that of plain iteration, eta.
            let rate = rate.max(self.factor - 1.0).min(1.0);
            let eta = ((rate + self.factor - 1.0) / self.factor).powi(2) / rate;
            let best = 2.0 / (1.0 + (1.0 - eta).max(0.0).sqrt());
            self.factor = if best.is_finite() { best.min(self.largest) } else { self.factor };
            self.largest += 0.1 * (LARGEST_FACTOR - self.largest);
        }
        self.start_error = error;
        self.passes = 0;
        Some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_leads_to_youngs_best_factor() {
        let mut relaxation = Relaxation::default();
        let mut error = 1.0;
        // Plain iteration that loses a fiftieth each pass.
        for _ in 0..2 * BLOCK {
            error *= 0.98;
            relaxation.observe(error);
        }
        let best = 2.0 / (1.0 + 0.02f64.sqrt());
        assert!((relaxation.factor - best).abs() < 1e-9, "{} instead of {best}", relaxation.factor);
    }

    #[test]
    fn a_growing_error_falls_back_to_plain_passes() {
        let mut relaxation = Relaxation { factor: 1.9, start_error: 1e-3, ..Relaxation::default() };
        assert!(relaxation.observe(1.0).is_some());
        assert!(relaxation.factor == 1.0 && relaxation.largest < 1.9);
    }
}
