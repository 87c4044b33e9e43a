//! Restore an image of which every other row is missing: 8 images that agree with what is left, and their mean.

use softdiff::image::{self, Picture};
use softdiff::restore::{Restoration, Restored, Task};
use softdiff::{Model, Recipe};
use std::error::Error;

pub(crate) fn run(model: &Model, image: &Picture, steps: usize) -> Result<Restored, Box<dyn Error>> {
    let known = (0..image.width * image.height).map(|pixel| (pixel / image.width).is_multiple_of(2)).collect();
    let Recipe { sample, .. } = model.recipe.with_sets(&[format!("sample.steps={steps}")])?;
    Ok(Restoration::new(model).task(Task::Inpaint { known }).sampling(sample).seeds(0..8).run(image)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(file)) = (arguments.next(), arguments.next()) else {
        return Err("give a run or model, and an image of its size".into());
    };
    let model = Model::open(model.as_ref(), None)?;
    let restored = run(&model, &image::decode(&std::fs::read(file)?)?, 100)?;
    println!("misfit {:.2}, standard deviation of the first value {:.3}", restored.misfit, restored.std[0]);
    Ok(())
}
