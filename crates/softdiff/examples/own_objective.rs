//! Train with a loss of your own, the distance of the predicted and the clean image, and watch it.

use softdiff::engine::op::Function;
use softdiff::engine::{Graph, Result, Var};
use softdiff::objective::EmittedBatch;
use softdiff::train::Watcher;
use softdiff::{Dataset, Loss, Path, Shape, Training};

/// `|x0_hat - x0|` of each image, without a square.
struct DistanceLoss;

impl Loss for DistanceLoss {
    fn emit(&self, g: &mut Graph, batch: &EmittedBatch) -> Result<Var> {
        let x0_hat = batch.x0_hat(g)?;
        let error = g.sub(x0_hat, batch.x0)?;
        let squares = g.square(error)?;
        let sums = g.sum_axes(squares, 1..4)?;
        let sums = g.reshape(sums, [g.shape(batch.t).numel()])?;
        g.map(Function::Sqrt, sums)
    }
}

struct Losses(Vec<f64>);
impl Watcher for Losses {
    fn step(&mut self, _done: u64, _steps: u64, loss: f64) {
        self.0.push(loss);
    }
}

pub(crate) fn run(images: Dataset, steps: u64) -> std::result::Result<Vec<f64>, Box<dyn std::error::Error>> {
    let path = Path::variance_exploding(Shape::new(images.height(), images.width(), images.channels()), 0.01, 10.0)?;
    let mut losses = Losses(vec![]);
    Training::new(images, path).loss(DistanceLoss).steps(steps).watch(&mut losses).run()?;
    Ok(losses.0)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    println!("{:?}", run(Dataset::open("embedded:fashion-mnist")?, 500)?.last());
    Ok(())
}
