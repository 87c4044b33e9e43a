//! Looking at what a denoiser answers.

use super::{Denoiser, Result};

/// A denoiser whose answers are shown to `look(answer)`, which may stop the sampling by an error.
pub struct Watched<'a, F> {
    /// The denoiser.
    pub inner: &'a mut dyn Denoiser,
    /// Who looks.
    pub look: F,
}

impl<F: FnMut(&[f64]) -> Result<()>> Denoiser for Watched<'_, F> {
    fn x0_hat(&mut self, xt: &[f64], t: f64) -> Result<Vec<f64>> {
        let answer = self.inner.x0_hat(xt, t)?;
        (self.look)(&answer).map(|()| answer)
    }

    fn one_step(&mut self, xt: &[f64], t: f64, t_next: f64) -> Result<Vec<f64>> {
        let answer = self.inner.one_step(xt, t, t_next)?;
        (self.look)(&answer).map(|()| answer)
    }
}
