//! A log of events, read whole, followed as it grows, and repaired before a run goes on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softdiff::run::fs::Disk;
use softdiff::run::{EventLog, Follower, RunFolder};
use softdiff_fuzz::scratch;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| scratch("events"));

fuzz_target!(|bytes: &[u8]| {
    let folder = RunFolder::new(&FOLDER);
    let (half, path) = (&bytes[..bytes.len() / 2], folder.events());
    fs::write(&path, half).expect("the file can be written");
    let mut follower = Follower::new(&folder);
    let _ = follower.look();
    fs::write(&path, bytes).expect("the file can be written");
    let _ = follower.look();
    if let Ok(events) = folder.read_events() {
        events.for_each(drop);
    }
    // What was repaired once needs no repair.
    if EventLog::resume(&Disk, &path, Some(10)).is_ok() {
        let (_, repaired) = EventLog::resume(&Disk, &path, Some(10)).expect("a repaired log opens");
        assert_eq!(repaired.cut_bytes, 0);
    }
});
