//! Restore an image of which every other row is missing: 8 images that agree with what is left, and their mean.

use softdiff::engine::cuda::Numbers;
use softdiff::image::to_unit;
use softdiff::restore::{Entry, Observation, Restoration, Restored, Spread};
use softdiff::sampler::Momentum;
use softdiff::{Dataset, Device, Model};
use std::error::Error;

pub(crate) fn run(model: &Model, image: &[u8], steps: usize) -> Result<Restored, Box<dyn Error>> {
    let shape = model.path.shape();
    let known: Vec<bool> = (0..shape.pixels()).map(|pixel| (pixel / shape.width).is_multiple_of(2)).collect();
    let observation = Observation::masked(shape, &known, 0.0, to_unit(image))?;
    let restoration = Restoration {
        path: &model.path,
        prior: &model.prior,
        sampler: &Momentum,
        steps,
        entry: Entry::Beginning,
        spread: Some(&Spread::fitting(&observation)?),
        batch: 8,
    };
    let mut denoiser = model.denoiser(&Device::open("auto")?, 8, Numbers::F32)?;
    Ok(restoration.run(&mut denoiser, &observation, &(0..8).collect::<Vec<u64>>(), &mut |_, _| {})?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(images)) = (arguments.next(), arguments.next()) else {
        return Err("give a run or model, and images of its size: a folder, an archive or a file".into());
    };
    let restored = run(&Model::open(model.as_ref(), None)?, Dataset::open(images)?.picture(0), 100)?;
    println!(
        "{:.3} on average, {:?}",
        restored.mean.iter().sum::<f64>() / restored.mean.len() as f64,
        restored.deviation
    );
    Ok(())
}
