//! Hostile data: each file is refused with the error that names it and its fault, at once, and none can panic.

use forge::damage::damage_anywhere;
use hostile_data::Case;
use softdiff::data::{DataError, LoadOptions, OnBad, Source, Split};
use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

mod forge;
mod hostile_data;

/// How long one hostile file may take.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 1 });

fn load(name: &str, bytes: Vec<u8>) -> Result<usize, DataError> {
    let source = Source::from_bytes(Path::new(name), bytes, Split::All)?;
    Ok(source.load(&LoadOptions::default(), &|_, _| {})?.len())
}

fn all_give_their_error(cases: Vec<Case>, at_least: usize) {
    assert!(cases.len() >= at_least, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for Case { what, file, bytes, variant, message } in cases {
        let start = Instant::now();
        let found = match load(file, bytes) {
            Ok(count) => format!("accepted {count} pictures"),
            Err(error) => format!("{error:?}: {error}"),
        };
        let names_the_file =
            found.rsplit_once("}: ").is_some_and(|(_, shown)| shown.contains(file.split('/').next_back().unwrap()));
        if !found.contains(variant) || !found.contains(message) || !(names_the_file || found.contains(file)) {
            wrong.push(format!("{what}\n    expected {file}: {variant}: {message}\n    found    {found}"));
        }
        assert!(start.elapsed() < PATIENCE, "{what} took {:?}", start.elapsed());
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn broken_pictures_are_refused() {
    all_give_their_error(hostile_data::pictures(), 30);
}

#[test]
fn broken_archives_are_refused() {
    all_give_their_error(hostile_data::archives(), 20);
}

#[test]
fn broken_arrays_are_refused() {
    all_give_their_error(hostile_data::arrays(), 20);
}

#[test]
fn broken_tables_are_refused() {
    all_give_their_error(hostile_data::tables(), 15);
}

#[test]
#[cfg(target_os = "linux")]
fn a_device_is_not_opened_and_a_folder_without_pictures_says_so() {
    // Reading it would never end.
    let error = Source::open(Path::new("/dev/zero")).err().unwrap();
    assert_eq!(error.to_string(), "/dev/zero: not an ordinary file");
    let empty = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-pictures");
    std::fs::create_dir_all(&empty).unwrap();
    std::fs::write(empty.join("notes.txt"), "x").unwrap();
    let error = Source::open(&empty).err().unwrap().to_string();
    assert!(
        error.starts_with("there are no images in") && error.ends_with("(1 other files were passed over)"),
        "{error}"
    );
    let missing = Source::open(Path::new("no/such/place")).err().unwrap();
    assert!(matches!(missing, DataError::Io { .. }), "{missing}");
}

#[test]
fn damaging_a_source_anywhere_never_panics() {
    let rounds = if cfg!(debug_assertions) { 30 } else { 1500 };
    let accepted = Cell::new(0);
    for (name, file) in hostile_data::good() {
        assert!(load(name, file.clone()).is_ok(), "{name}: {:?}", load(name, file.clone()).err());
        damage_anywhere(&file, 0, rounds, |bytes| {
            if let Ok(source) = Source::from_bytes(Path::new(name), bytes.to_vec(), Split::All) {
                let skip = LoadOptions { on_bad: OnBad::Skip, ..LoadOptions::default() };
                accepted.set(accepted.get() + usize::from(source.load(&skip, &|_, _| {}).is_ok()));
            }
        });
    }
    // The test would be empty if every damage were found at the door.
    assert!(accepted.get() > rounds / 10, "{accepted:?}");
}
