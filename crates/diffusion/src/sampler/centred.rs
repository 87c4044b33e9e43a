//! A denoiser as seen from a path's centre.

use super::{Denoiser, Result};

/// `x0_hat(x + m) - m`.
pub(super) struct Centred<'a> {
    pub inner: &'a mut dyn Denoiser,
    /// m.
    pub centre: f64,
}

impl Centred<'_> {
    fn shifted(x: &[f64], by: f64) -> Vec<f64> {
        x.iter().map(|x| x + by).collect()
    }
}

impl Denoiser for Centred<'_> {
    fn x0_hat(&mut self, xt: &[f64], t: f64) -> Result<Vec<f64>> {
        let answer = self.inner.x0_hat(&Self::shifted(xt, self.centre), t)?;
        Ok(Self::shifted(&answer, -self.centre))
    }

    fn one_step(&mut self, xt: &[f64], t: f64, t_next: f64) -> Result<Vec<f64>> {
        let answer = self.inner.one_step(&Self::shifted(xt, self.centre), t, t_next)?;
        Ok(Self::shifted(&answer, -self.centre))
    }
}
