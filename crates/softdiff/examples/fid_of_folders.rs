//! The Fréchet Inception distance of two sets of images: folders, archives, or anything else that can be trained on.
//!
//! ```text
//! cargo run --release -p softdiff --example fid_of_folders -- samples/ photographs/
//! ```

use softdiff::Device;
use softdiff::inception::Inception;
use softdiff::metrics::{Evaluator, ImageSet, Reference};
use std::error::Error;
use std::path::Path;

/// None where the Inception network is missing.
pub(crate) fn run(left: &Path, right: &Path) -> Result<Option<f64>, Box<dyn Error>> {
    let Some(network) = std::env::var_os("SOFTDIFF_INCEPTION") else { return Ok(None) };
    let network = Inception::read(Path::new(&network))?;
    let mut evaluator = Evaluator::new(&Device::open("auto")?).with_network(&network);
    Ok(Some(evaluator.fid(&ImageSet::open(left)?, &Reference::open(right)?)?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut places = std::env::args().skip(1);
    let (Some(left), Some(right)) = (places.next(), places.next()) else {
        return Err("give two sets of images".into());
    };
    match run(Path::new(&left), Path::new(&right))? {
        Some(distance) => println!("FID {distance:.3}"),
        None => println!("name the file of the Inception network in SOFTDIFF_INCEPTION (docs/evaluation.md)"),
    }
    Ok(())
}
