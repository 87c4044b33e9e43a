//! Train a built-in recipe in a folder, and sample from the model.
//!
//! ```text
//! cargo run --release -p softdiff --example train_and_sample -- runs/first
//! ```
//!
//! Run it again to continue, and then to sample only: what is in the folder is never lost.

use softdiff::Training;
use std::error::Error;
use std::path::Path;

pub(crate) fn run(folder: &Path, changes: &[&str]) -> Result<(), Box<dyn Error>> {
    let training = changes.iter().fold(Training::from_recipe("quickstart"), |training, change| training.set(*change));
    let trained = training.run_in(folder)?;
    println!("{} steps in {:.0} s", trained.finished.step, trained.finished.seconds);
    trained.model().sample(0..64).steps(20).grid(folder.join("samples.png"))?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "runs/first".into());
    run(Path::new(&folder), &[])
}
