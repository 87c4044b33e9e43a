//! Sample with a sampler of your own: predict the clean image, corrupt it less, and renew half of the noise that was found.

use softdiff::sampler::affine::{AffineUpdate, ETA, X, X0_HAT, corrupted_from, corrupted_to};
use softdiff::sampler::{Result, Sampler, StepContext};
use softdiff::{Dataset, Model};

struct HalfFresh;

impl Sampler for HalfFresh {
    fn name(&self) -> &'static str {
        "half-fresh"
    }
    fn order(&self) -> u32 {
        1
    }
    /// `x' = C' x0_hat + sigma' (sqrt(1/2) (x - C x0_hat) / sigma + sqrt(1/2) eta)`, on a CPU or a GPU.
    fn updates(&self, step: &StepContext) -> Result<Vec<AffineUpdate>> {
        let found = 1.0 / step.sigma(self.name())? * (X - corrupted_from(X0_HAT));
        let half = 0.5f64.sqrt() * step.to.sigma;
        Ok(vec![corrupted_to(X0_HAT) + half * found + half * ETA])
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
