//! A run's folder from elsewhere: recipe, schedule, prior, manifest and state of a checkpoint, events, and notes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softdiff::Model;
use softdiff::history::{History, steps_csv, tensorboard};
use softdiff::report::Records;
use softdiff::run::RunFolder;
use softdiff::watch::Watch;
use softdiff_fuzz::{files, replace, scratch, training};
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

static RUN: LazyLock<(PathBuf, Vec<PathBuf>)> = LazyLock::new(|| {
    let run = scratch("run");
    training().run_in(&run).expect("it trains");
    let files = files(&run);
    (run, files)
});

fuzz_target!(|bytes: &[u8]| {
    let (root, files) = &*RUN;
    let Some((file, before)) = replace(files, bytes) else { return };
    let folder = RunFolder::new(root);
    let _ = Model::open(root, None);
    if let Ok(history) = History::read(&folder) {
        let _ = (steps_csv(&history), tensorboard(&history));
    }
    if let Ok(records) = Records::read(&folder) {
        let _ = (records.step(), records.parameters(), records.training());
    }
    let _ = Watch::new(&folder).look(Duration::ZERO);
    fs::write(file, before).expect("the file can be written");
});
