//! Train on images in memory with a corruption of your own: a shadow that falls from the right.

use softdiff::corruption::{Corruption, CorruptionError, Levels, LinearMap};
use softdiff::curve::Interpolation;
use softdiff::{Dataset, Path, Shape, Training};
use std::error::Error;

struct Shadow(Shape);

impl Corruption for Shadow {
    fn name(&self) -> &str {
        "shadow"
    }
    fn shape(&self) -> Shape {
        self.0
    }
    fn levels(&self) -> Levels {
        Levels::UNIT
    }
    /// C = diag(1 - level x), with x from 0 at the left to 1 at the right.
    fn at(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let x = |pixel: usize| (pixel % self.0.width) as f64 / (self.0.width - 1) as f64;
        Ok(LinearMap::PixelDiagonal((0..self.0.pixels()).map(|pixel| 1.0 - level * x(pixel)).collect()))
    }
    /// C(1) - I: the level enters linearly.
    fn derivative(&self, _: f64) -> Result<LinearMap, CorruptionError> {
        Ok(LinearMap::Sum(vec![self.at(1.0)?, LinearMap::Scale(-1.0)]))
    }
}

pub(crate) fn run(images: Dataset, steps: u64) -> Result<Dataset, Box<dyn Error>> {
    let shape = Shape::new(images.height(), images.width(), images.channels());
    let path = Path::two_stage(Box::new(Shadow(shape)), vec![0.0, 1.0], Interpolation::Linear)?;
    Ok(Training::new(images, path).steps(steps).run()?.model().sample(0..16).steps(20).images()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:?}", run(Dataset::open("embedded:fashion-mnist")?, 500)?.statistics());
    Ok(())
}
