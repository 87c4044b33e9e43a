//! Sample with a sampler of your own: predict the clean image, corrupt it less, and keep half of the noise that was found.

use softdiff::sampler::{Denoiser, Past, Result, Sampler, Stage};
use softdiff::{Dataset, Model};

struct HalfFresh;

impl Sampler for HalfFresh {
    fn name(&self) -> &'static str {
        "half-fresh"
    }
    fn order(&self) -> u32 {
        1
    }
    /// `x' = C' x0_hat + sigma' (sqrt(1/2) (x - C x0_hat) / sigma + sqrt(1/2) eta)`
    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser, _: &mut Past) -> Result<Vec<f64>> {
        let (shape, sigma, half) = (stage.path.shape(), stage.from.sigma, 0.5f64.sqrt());
        let x0_hat = denoiser.x0_hat(x, stage.from.t)?;
        let y_hat = stage.from.map.apply_batch(shape, &x0_hat)?;
        let mut next = stage.to.map.apply_batch(shape, &x0_hat)?;
        for (i, next) in next.iter_mut().enumerate() {
            *next += half * stage.to.sigma * ((x[i] - y_hat[i]) / sigma + stage.eta[i]);
        }
        Ok(next)
    }
}

pub(crate) fn run(model: &Model, steps: usize) -> std::result::Result<Dataset, Box<dyn std::error::Error>> {
    Ok(model.sample(0..16).custom_sampler(Box::new(HalfFresh)).steps(steps).images()?)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let place = std::env::args().nth(1).unwrap_or_else(|| "models/cifar10-small".into());
    println!("{:?}", run(&Model::open(place.as_ref(), None)?, 100)?.statistics());
    Ok(())
}
