//! `softdiff data` as a user runs it.

use serde_json::Value;
use softdiff::image::{decode, png};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn softdiff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_softdiff")).args(arguments).output().unwrap()
}

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("data").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Two classes of two pictures, one of them a copy, and one broken file.
fn tree(name: &str) -> PathBuf {
    let root = folder(name);
    for (file, shade) in [("ape/1.png", 10), ("ape/2.png", 20), ("bee/1.png", 10), ("bee/2.png", 30)] {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), png::encode(6, 4, 3, &[shade; 72])).unwrap();
    }
    fs::write(root.join("bee/broken.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    root
}

#[test]
fn inspect_shows_sizes_classes_duplicates_and_broken_files() {
    let root = tree("inspect");
    let grid = root.join("grid.png");
    let run = softdiff(&["data", "inspect", root.to_str().unwrap(), "--grid", grid.to_str().unwrap()]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let expected = format!(
        "source      {}: folder of images
images      5
sizes       6 x 4
colours     RGB
mean        0.0686  0.0686  0.0686
std         0.0325  0.0325  0.0325
classes     2: ape 2, bee 2
duplicates  1
            bee/1.png is ape/1.png
broken      1
            bee/broken.png: PNG: the file is cut off
",
        root.display()
    );
    assert_eq!(text(&run.stdout), expected);
    let picture = decode(&fs::read(grid).unwrap()).unwrap();
    // Four good pictures of 6 x 4, sixteen times as large, three in a row, with lines between.
    assert_eq!((picture.width, picture.height, picture.channels), (3 * 97 + 1, 2 * 65 + 1, 3));
}

#[test]
fn inspect_gives_one_json_object_and_nothing_else() {
    let run = softdiff(&["data", "inspect", tree("json").to_str().unwrap(), "--json"]);
    assert!(run.stderr.is_empty(), "{}", text(&run.stderr));
    let facts: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(facts["good"], 4);
    assert_eq!(facts["sizes"][0]["width"], 6);
    assert_eq!(facts["classes"][1]["name"], "bee");
    assert_eq!(facts["duplicates"][0]["same_as"], "ape/1.png");
    assert_eq!(facts["broken"][0]["file"], "bee/broken.png");
}

#[test]
fn the_embedded_set_is_a_path_like_any_other() {
    let run = softdiff(&["data", "inspect", "embedded:fashion-mnist", "--split", "test", "--json"]);
    let facts: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((facts["pictures"].as_u64(), facts["grey"].as_u64()), (Some(1024), Some(1024)));
    assert_eq!(facts["classes"][9]["name"], "ankle boot");
}

#[test]
fn prepare_writes_pictures_of_one_size_that_can_be_inspected() {
    let root = tree("prepare");
    fs::remove_file(root.join("bee/broken.png")).unwrap();
    let out = folder("prepared").join("small.npz");
    let arguments = ["data", "prepare", root.to_str().unwrap(), "--out", out.to_str().unwrap(), "--size", "2"];
    let run = softdiff(&arguments);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(run.stdout.is_empty());
    assert!(text(&run.stderr).contains("4 images of 2 x 2 x 3, blake3:"), "{}", text(&run.stderr));
    let first = fs::read(&out).unwrap();
    let again = softdiff(&arguments);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("exists already\nhint: choose another --out, or add --force"));
    assert!(softdiff(&[&arguments[..], &["--force"]].concat()).status.success());
    assert!(fs::read(&out).unwrap() == first, "the same data give the same bytes");
    assert_eq!(fs::read_dir(out.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
    let inspected = softdiff(&["data", "inspect", out.to_str().unwrap(), "--json"]);
    let facts: Value = serde_json::from_slice(&inspected.stdout).unwrap();
    assert_eq!((facts["pictures"].as_u64(), facts["classes"][0]["name"].as_str()), (Some(4), Some("ape")));
}

#[test]
fn a_bad_picture_stops_prepare_and_is_named() {
    let root = tree("bad");
    let out = root.join("out.npz");
    let arguments = ["data", "prepare", root.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let run = softdiff(&arguments);
    assert_eq!(run.status.code(), Some(1));
    let expected = "error: bee/broken.png: PNG: the file is cut off\nhint: fetch or remove the file, or add --on-bad skip to leave bad images out\n";
    assert_eq!(text(&run.stderr), expected);
    assert!(!out.exists());
    let skipping = softdiff(&[&arguments[..], &["--on-bad", "skip"]].concat());
    let said = text(&skipping.stderr);
    assert!(said.starts_with("error: 1 of 5 images are bad, more than 1 %:\n  bee/broken.png: PNG"), "{said}");
    assert!(said.contains("--on-bad-limit 5%"), "{said}");
    let refused = softdiff(&[&arguments[..], &["--on-bad", "skip", "--on-bad-limit", "19.9%"]].concat());
    assert!(text(&refused.stderr).contains("more than 19.9 %") && !out.exists(), "{}", text(&refused.stderr));
    for limit in ["20%", "0.2"] {
        let run = softdiff(&[&arguments[..], &["--on-bad", "skip", "--on-bad-limit", limit, "--force"]].concat());
        assert!(run.status.success() && out.exists(), "{}", text(&run.stderr));
    }
    for limit in ["5 percent", "101%", "-1%", "nan"] {
        let run = softdiff(&[&arguments[..], &[&format!("--on-bad-limit={limit}")]].concat());
        assert_eq!(run.status.code(), Some(2), "{limit}");
    }
}

#[test]
fn skipped_pictures_are_listed_and_counted() {
    let root = folder("skip");
    for i in 0..120 {
        fs::write(root.join(format!("{i:03}.png")), png::encode(2, 2, 1, &[i; 4])).unwrap();
    }
    fs::write(root.join("050.png"), "no picture").unwrap();
    let out = folder("skipped").join("a.npz");
    let run = softdiff(&[
        "data",
        "prepare",
        root.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--on-bad",
        "skip",
        "--json",
    ]);
    let facts: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((facts["pictures"].as_u64(), facts["skipped"][0]["file"].as_str()), (Some(119), Some("050.png")));
    assert!(text(&run.stderr).starts_with("skipped: 050.png: not a PNG, JPEG"));
}

#[test]
fn each_mistake_has_its_hint() {
    let root = tree("hints");
    fs::remove_file(root.join("bee/broken.png")).unwrap();
    fs::write(root.join("bee/wide.png"), png::encode(9, 4, 3, &[0; 108])).unwrap();
    let one = root.join("bee/wide.png");
    let cut = root.join("cut.tar.gz");
    fs::write(&cut, b"\x1f\x8b\x08").unwrap();
    let prepare = |path: &str, more: &[&str]| {
        let out = root.join("never.npz");
        let run = softdiff(&[&["data", "prepare", path, "--out", out.to_str().unwrap()], more].concat());
        assert_eq!(run.status.code(), Some(1));
        text(&run.stderr).to_string()
    };
    let root_name = root.to_str().unwrap();
    for (path, more, message) in [
        (root_name, &[][..], "differ in size: ape/1.png is 6 x 4, bee/wide.png is 9 x 4\nhint: give --size"),
        (
            root_name,
            &["--crop", "celeba"],
            "crop celeba does not fit it\nhint: choose a --crop that fits; celeba is for",
        ),
        (root_name, &["--split", "test"], "has no test part\nhint: leave --split out"),
        (one.to_str().unwrap(), &[], "it is one PNG image\nhint: give the folder"),
        (
            cut.to_str().unwrap(),
            &[],
            "damaged or cut off\nhint: the file is damaged or not completely downloaded: fetch it again",
        ),
        ("no/such/place", &[], "hint: check the path"),
        ("embedded:mnist", &[], "hint: there is one: embedded:fashion-mnist"),
    ] {
        let shown = prepare(path, more);
        assert!(shown.starts_with("error: ") && shown.contains(message), "{message}\n{shown}");
    }
}

#[test]
fn bad_usage_exits_with_2_and_says_what_is_expected() {
    for (arguments, message) in [
        (&["data", "prepare", "x"][..], "--out"),
        (&["data", "prepare", "x", "--out", "y", "--size", "0"], "expected a side from 1 to 8192"),
        (&["data", "prepare", "x", "--out", "y", "--crop", "face"], "expected none, centre, celeba"),
        (&["data", "inspect", "x", "--split", "half"], "possible values: train, test, all"),
    ] {
        let run = softdiff(arguments);
        assert_eq!(run.status.code(), Some(2));
        assert!(text(&run.stderr).contains(message), "{}", text(&run.stderr));
    }
}

#[test]
fn help_has_a_worked_example() {
    for verb in [&["data", "--help"][..], &["data", "inspect", "--help"], &["data", "prepare", "--help"]] {
        let run = softdiff(verb);
        assert!(text(&run.stdout).contains("Example:") && text(&run.stdout).contains("\n  softdiff data "));
    }
}

#[test]
fn orientation_is_applied_unless_ignored() {
    let root = folder("orientation");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../softdiff/tests/golden/orientation/6.jpg");
    fs::copy(golden, root.join("a.jpg")).unwrap();
    let path = root.to_str().unwrap();
    for (flags, size) in [(&[][..], (4, 7)), (&["--ignore-exif"], (7, 4))] {
        let run = softdiff(&[&["data", "inspect", path, "--json"], flags].concat());
        let facts: Value = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!(
            (facts["sizes"][0]["width"].as_u64(), facts["sizes"][0]["height"].as_u64()),
            (Some(size.0), Some(size.1))
        );
        let out = root.join(format!("{}.npz", flags.len()));
        let run = softdiff(&[&["data", "prepare", path, "--json", "--out", out.to_str().unwrap()], flags].concat());
        let facts: Value = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!((facts["width"].as_u64(), facts["height"].as_u64()), (Some(size.0), Some(size.1)), "{facts}");
    }
}

#[test]
#[cfg(unix)]
fn names_from_files_cannot_steer_the_terminal() {
    let root = folder("names");
    let (folder, out) = (root.to_str().unwrap(), root.join("out.npz"));
    fs::write(format!("{folder}/a\u{1b}]0;title\u{7}\n\u{202e}.png"), "no image").unwrap();
    let inspected = softdiff(&["data", "inspect", folder]);
    let prepared = softdiff(&["data", "prepare", folder, "--out", out.to_str().unwrap()]);
    for said in [&inspected.stdout, &inspected.stderr, &prepared.stderr] {
        assert!(!text(said).contains(['\u{1b}', '\u{7}', '\u{202e}']), "{:?}", text(said));
    }
    assert!(text(&inspected.stdout).contains("\\u{1b}]0;title\\u{7}\\n\\u{202e}.png"), "{}", text(&inspected.stdout));
}
