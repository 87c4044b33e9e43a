//! Hostile checkpoints: each is refused with the error that names its fault, at once, and none can panic.

use forge::checkpoint::Checkpoint;
use forge::damage::damage_anywhere;
use softdiff::import::{ScoreSdeCheckpoint, pickle};
use std::cell::Cell;
use std::time::{Duration, Instant};

mod forge;
mod hostile;

/// How long one hostile file may take.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 1 });

/// A file, the variant of `ImportError` it must give, and a part of the message.
pub struct Case {
    what: &'static str,
    bytes: Vec<u8>,
    variant: &'static str,
    message: &'static str,
}

/// Shorthand for the tables.
pub fn case(what: &'static str, bytes: Vec<u8>, variant: &'static str, message: &'static str) -> Case {
    Case { what, bytes, variant, message }
}

fn all_give_their_error(cases: Vec<Case>, at_least: usize) {
    assert!(cases.len() >= at_least, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for Case { what, bytes, variant, message } in cases {
        let start = Instant::now();
        let found = match ScoreSdeCheckpoint::from_bytes(&bytes) {
            Ok(_) => "accepted".to_string(),
            Err(error) => format!("{error:?}: {error}"),
        };
        // Errors of the archive and of the bytes below it are handed on as they are.
        let found = found.trim_start_matches("Archive(").trim_start_matches("Bytes(");
        if !found.starts_with(variant) || !found.contains(message) {
            wrong.push(format!("{what}\n    expected {variant}: {message}\n    found    {found}"));
        }
        assert!(start.elapsed() < PATIENCE, "{what} took {:?}", start.elapsed());
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_checkpoint_they_are_made_from_is_fine() {
    ScoreSdeCheckpoint::from_bytes(&Checkpoint::default().write()).unwrap();
}

#[test]
fn broken_archives_are_refused() {
    all_give_their_error(hostile::archives::cases(), 25);
}

#[test]
fn broken_pickles_are_refused() {
    all_give_their_error(hostile::pickles::cases(), 40);
}

#[test]
fn broken_tensors_are_refused() {
    all_give_their_error(hostile::tensors::cases(), 20);
}

#[test]
fn checkpoints_that_do_not_fit_together_are_refused() {
    all_give_their_error(hostile::checkpoints::cases(), 20);
}

fn tiny() -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/ncsnpp/tiny.pth")).unwrap()
}

/// Debug builds are some thirty times slower.
fn rounds(release: usize) -> usize {
    if cfg!(debug_assertions) { release / 20 } else { release }
}

#[test]
fn a_checkpoint_cut_anywhere_is_refused() {
    let whole = tiny();
    for length in (0..whole.len()).step_by(whole.len() / rounds(500)) {
        assert!(ScoreSdeCheckpoint::from_bytes(&whole[..length]).is_err(), "cut to {length} bytes");
    }
}

#[test]
fn damaging_a_checkpoint_anywhere_never_panics() {
    let whole = tiny();
    let headers = whole.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    // Half of them in the directory, where a bit matters most.
    for first in [0, headers] {
        damage_anywhere(&whole, first, rounds(1000), |bytes| drop(ScoreSdeCheckpoint::from_bytes(bytes)));
    }
}

#[test]
fn damaging_a_pickle_under_a_right_checksum_never_panics() {
    let forged = Checkpoint::default();
    let whole = forged.pickle();
    let accepted = Cell::new(0);
    damage_anywhere(&whole, 0, rounds(20_000), |bytes| {
        let _ = pickle::read(bytes);
        let entries = forged.entries_with(bytes.to_vec());
        let read = ScoreSdeCheckpoint::from_bytes(&forge::zip::write(&entries));
        accepted.set(accepted.get() + usize::from(read.is_ok()));
    });
    // The test would be empty if nothing got past the pickle.
    assert!(accepted.get() > 0);
}
