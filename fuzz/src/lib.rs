//! What the targets of whole folders share: a tiny run and model, made once, of which one file is replaced.

use softdiff::Training;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of this process, in memory where the system has such a place.
pub fn scratch(name: &str) -> PathBuf {
    let shared = Path::new("/dev/shm");
    let base = if shared.is_dir() { shared.into() } else { std::env::temp_dir() };
    let folder = base.join(format!("softdiff-fuzz-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

/// A training of two steps on images of 16x16.
pub fn training() -> Training<'static> {
    let changes = [
        "data.limit=64",
        "data.size=16",
        "schedule.images=32",
        "schedule.candidates=24",
        "schedule.knots=8",
        "path.corruption.largest=6",
        "prior.modes=4",
        "prior.components=1",
        "network.channels=4",
        "network.multipliers=[1]",
        "train.ema=[0.9]",
        "train.log_every=1",
        "preview.every=false",
    ];
    let training = Training::from_recipe("quickstart").device("cpu").steps(2).batch(2);
    changes.into_iter().fold(training, |training, change| training.set(change))
}

/// Every file in a folder and the folders in it.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder can be listed") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all.sort();
    all
}

/// Replaces the file that the first byte chooses by the rest; gives its path and what it was.
pub fn replace<'a>(files: &'a [PathBuf], bytes: &[u8]) -> Option<(&'a Path, Vec<u8>)> {
    let (choice, content) = bytes.split_first()?;
    let file = &files[usize::from(*choice) % files.len()];
    let before = fs::read(file).expect("the file can be read");
    fs::write(file, content).expect("the file can be written");
    Some((file, before))
}
