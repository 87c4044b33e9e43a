//! Fetching from a server on this machine: complete, resumed, refused.

mod support;

use ring::digest::{SHA256, digest};
use softdiff_data::sets::named::{NamedData, OtherForm, PublishedFile};
use softdiff_engine::Hint;
use softdiff_fetch::{FetchError, FetchProgress, Fetched, ServerProblem, fetch};
use std::path::{Path, PathBuf};
use support::{Manners, Server};

const FIRST: &str = "set/first.gz";
const SECOND: &str = "set/second.gz";

fn sum(bytes: &[u8]) -> &'static str {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>().leak()
}

/// Bytes without a pattern.
fn bytes(count: u32, seed: u32) -> Vec<u8> {
    (0..count).map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn first() -> Vec<u8> {
    bytes(300_000, 1)
}

fn second() -> Vec<u8> {
    bytes(10, 2)
}

/// Two files, published nowhere: tests fetch them from a mirror.
fn set() -> &'static NamedData {
    let file = |path, bytes: Vec<u8>| {
        let (length, sha256) = (bytes.len() as u64, sum(&bytes));
        PublishedFile { path, addresses: &["https://publisher.invalid/file"], bytes: length, sha256 }
    };
    let files = vec![file(FIRST, first()), file(SECOND, second())].leak();
    let unpacked = vec![("unpacked/all", sum(b"all"))].leak();
    let instead = Some(OtherForm { place: "unpacked", files: unpacked });
    Box::leak(Box::new(NamedData { name: "set", what: "a set", place: "set", files, instead }))
}

fn whole(manners: Manners) -> Server {
    Server::start(&[(FIRST, first()), (SECOND, second())], manners)
}

fn get(folder: &Path, server: &Server) -> Result<Fetched, FetchError> {
    fetch(set(), folder, Some(&server.address), &mut |_| {})
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    all.sort();
    all
}

/// Leaves so many bytes of an interrupted attempt.
fn leave(folder: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(folder.join("set")).unwrap();
    std::fs::write(folder.join(FIRST).with_extension("gz.partial"), bytes).unwrap();
}

fn assert_complete(folder: &Path) {
    assert_eq!(files(folder), [folder.join(FIRST), folder.join(SECOND)]);
    assert!(std::fs::read(folder.join(FIRST)).unwrap() == first());
    assert!(std::fs::read(folder.join(SECOND)).unwrap() == second());
}

#[test]
fn a_set_is_fetched_once_and_then_only_verified() {
    let (folder, server) = (tempfile::tempdir().unwrap(), whole(Manners::default()));
    let mut last = 0;
    let fetched = fetch(set(), folder.path(), Some(&server.address), &mut |progress| {
        if let FetchProgress::Fetching(file, done) = progress
            && file.path == FIRST
        {
            last = done;
        }
    });
    assert_eq!(fetched.unwrap().files, [folder.path().join(FIRST), folder.path().join(SECOND)]);
    assert_complete(folder.path());
    assert_eq!(last, 300_000);
    let again = get(folder.path(), &server).unwrap();
    assert_eq!((again.place, again.files.len()), (folder.path().join("set"), 0));
    assert_eq!(server.requests(), [format!("/{FIRST}"), format!("/{SECOND}")]);
}

#[test]
fn a_broken_connection_is_taken_up_where_it_broke() {
    let (folder, server) =
        (tempfile::tempdir().unwrap(), whole(Manners { breaks_after: Some(120_000), ..Manners::default() }));
    get(folder.path(), &server).unwrap();
    assert_complete(folder.path());
    let first = [format!("/{FIRST}"), format!("/{FIRST} from 120000"), format!("/{FIRST} from 240000")];
    assert_eq!(server.requests()[..3], first);
}

#[test]
fn an_interrupted_attempt_is_continued() {
    let (folder, server) = (tempfile::tempdir().unwrap(), whole(Manners::default()));
    leave(folder.path(), &first()[..1000]);
    get(folder.path(), &server).unwrap();
    assert_complete(folder.path());
    assert_eq!(server.requests()[0], format!("/{FIRST} from 1000"));
    // All was there but the name.
    std::fs::rename(folder.path().join(FIRST), folder.path().join(FIRST).with_extension("gz.partial")).unwrap();
    assert_eq!(get(folder.path(), &server).unwrap().files, [folder.path().join(FIRST)]);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_server_that_knows_no_ranges_sends_all_of_it_again() {
    let (folder, server) =
        (tempfile::tempdir().unwrap(), whole(Manners { ignores_ranges: true, ..Manners::default() }));
    leave(folder.path(), &first()[..1000]);
    get(folder.path(), &server).unwrap();
    assert_complete(folder.path());
}

#[test]
fn the_beginning_of_another_file_is_given_up() {
    for beginning in [bytes(1000, 77), bytes(400_000, 77), bytes(300_000, 77)] {
        let (folder, server) = (tempfile::tempdir().unwrap(), whole(Manners::default()));
        leave(folder.path(), &beginning);
        get(folder.path(), &server).unwrap();
        assert_complete(folder.path());
    }
}

#[test]
fn a_damaged_file_is_replaced_with_a_warning() {
    let (folder, server) = (tempfile::tempdir().unwrap(), whole(Manners::default()));
    get(folder.path(), &server).unwrap();
    std::fs::write(folder.path().join(SECOND), "damaged").unwrap();
    let mut replaced = Vec::new();
    let fetched = fetch(set(), folder.path(), Some(&server.address), &mut |progress| {
        if let FetchProgress::Replacing(file) = progress {
            replaced.push(file.path);
        }
    });
    assert_eq!((fetched.unwrap().files, replaced), (vec![folder.path().join(SECOND)], vec![SECOND]));
    assert_complete(folder.path());
}

#[test]
fn another_form_of_the_data_is_verified_and_taken() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("unpacked")).unwrap();
    std::fs::write(folder.path().join("unpacked/all"), "all").unwrap();
    let nowhere = Some("http://127.0.0.1:1");
    assert_eq!(fetch(set(), folder.path(), nowhere, &mut |_| {}).unwrap().place, folder.path().join("unpacked"));
    std::fs::write(folder.path().join("unpacked/all"), "not all").unwrap();
    assert!(fetch(set(), folder.path(), nowhere, &mut |_| {}).is_err());
}

#[test]
fn another_file_of_the_same_length_is_refused_and_nothing_stays() {
    let (folder, server) =
        (tempfile::tempdir().unwrap(), Server::start(&[(FIRST, bytes(300_000, 5))], Manners::default()));
    let error = get(folder.path(), &server).unwrap_err();
    assert!(error.to_string().contains("has the SHA-256"), "{error}");
    assert!(error.hint().unwrap().starts_with("nothing of it was kept"));
    assert!(files(folder.path()).is_empty());
}

#[test]
fn a_file_of_another_length_and_an_endless_one_are_refused_and_nothing_stays() {
    let folder = tempfile::tempdir().unwrap();
    for count in [299_999, 300_001] {
        let server = Server::start(&[(FIRST, bytes(count, 1))], Manners::default());
        let error = get(folder.path(), &server).unwrap_err().to_string();
        assert!(error.contains(&format!("has {count} bytes, and the published file 300000")), "{error}");
    }
    let server = whole(Manners { is_endless: true, ..Manners::default() });
    let error = get(folder.path(), &server).unwrap_err().to_string();
    assert!(error.contains("does not end after the 300000 bytes"), "{error}");
    assert!(files(folder.path()).is_empty());
}

#[test]
fn without_a_network_the_message_says_which_files_to_put_where() {
    let folder = tempfile::tempdir().unwrap();
    let error = fetch(set(), folder.path(), Some("http://127.0.0.1:1"), &mut |_| {}).unwrap_err();
    assert!(matches!(error, FetchError::Server { problem: ServerProblem::Unreachable { .. }, .. }), "{error}");
    let hint = error.hint().unwrap().into_owned();
    for file in [FIRST, SECOND] {
        assert!(hint.contains(folder.path().join(file).to_str().unwrap()), "{hint}");
    }
    assert!(hint.contains("https://publisher.invalid/file") && files(folder.path()).is_empty(), "{hint}");
    // Put there by hand, they are verified.
    std::fs::write(folder.path().join(FIRST), first()).unwrap();
    std::fs::write(folder.path().join(SECOND), second()).unwrap();
    assert!(fetch(set(), folder.path(), Some("http://127.0.0.1:1"), &mut |_| {}).unwrap().files.is_empty());
}

#[test]
fn a_server_without_the_file_is_named_with_its_status() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start(&[(FIRST, first())], Manners::default()));
    let error = get(folder.path(), &server).unwrap_err().to_string();
    assert!(error.ends_with("second.gz: the server answers with status 404"), "{error}");
    // What is complete stays.
    assert_eq!(files(folder.path()), [folder.path().join(FIRST)]);
}

#[test]
fn a_file_without_room_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let files_of = vec![PublishedFile { path: "vast", addresses: &[""], bytes: 1 << 60, sha256: "" }].leak();
    let vast: &'static NamedData =
        Box::leak(Box::new(NamedData { name: "vast", what: "", place: "vast", files: files_of, instead: None }));
    let error = fetch(vast, folder.path(), Some("http://127.0.0.1:1"), &mut |_| {}).unwrap_err();
    assert!(matches!(error, FetchError::NoSpace { .. }), "{error}");
    assert!(files(folder.path()).is_empty());
}

#[test]
fn two_processes_do_not_write_the_same_file() {
    let (folder, server) = (tempfile::tempdir().unwrap(), whole(Manners::default()));
    leave(folder.path(), b"");
    let held = std::fs::File::open(folder.path().join(FIRST).with_extension("gz.partial")).unwrap();
    held.lock().unwrap();
    let error = get(folder.path(), &server).unwrap_err();
    assert!(matches!(error, FetchError::Busy { .. }), "{error}");
    drop(held);
    get(folder.path(), &server).unwrap();
}

#[cfg(unix)]
#[test]
fn a_link_in_place_of_the_partial_file_is_not_written_through() {
    let (folder, server) = (tempfile::tempdir().unwrap(), whole(Manners::default()));
    leave(folder.path(), b"");
    let partial = folder.path().join(FIRST).with_extension("gz.partial");
    std::fs::remove_file(&partial).unwrap();
    std::fs::write(folder.path().join("other"), "untouched").unwrap();
    std::os::unix::fs::symlink(folder.path().join("other"), partial).unwrap();
    assert!(matches!(get(folder.path(), &server).unwrap_err(), FetchError::Io { .. }));
    assert_eq!(std::fs::read(folder.path().join("other")).unwrap(), b"untouched");
}
