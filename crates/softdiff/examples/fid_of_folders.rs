//! The Fréchet Inception distance of two sets of images: folders, archives, or anything else that can be trained on.
//!
//! ```text
//! cargo run --release -p softdiff --example fid_of_folders -- samples/ photographs/
//! ```

use softdiff::inception::{Extractor, FEATURES, Inception, Preset};
use softdiff::metrics::{Statistics, fid};
use softdiff::{Dataset, Device};
use std::error::Error;
use std::path::Path;

/// None where the Inception network is missing.
pub(crate) fn run(left: &Path, right: &Path) -> Result<Option<f64>, Box<dyn Error>> {
    let Some(network) = std::env::var_os("SOFTDIFF_INCEPTION") else { return Ok(None) };
    let network = Inception::read(Path::new(&network))?;
    let mut extractor = Extractor::new(&Device::open("auto")?, &network, Preset::PytorchFid);
    let mut statistics = |place: &Path| -> Result<Statistics, Box<dyn Error>> {
        let set = Dataset::open(place)?;
        let features = extractor.features(set.pixels(), set.height(), set.width(), set.channels())?;
        Ok(Statistics::of(&features, FEATURES)?)
    };
    Ok(Some(fid(&statistics(left)?, &statistics(right)?)?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut places = std::env::args().skip(1);
    let (Some(left), Some(right)) = (places.next(), places.next()) else {
        return Err("give two sets of images".into());
    };
    match run(Path::new(&left), Path::new(&right))? {
        Some(distance) => println!("FID {distance:.3}"),
        None => println!(
            "name the file of the Inception network in SOFTDIFF_INCEPTION; docs/evaluation.md says where to get it"
        ),
    }
    Ok(())
}
