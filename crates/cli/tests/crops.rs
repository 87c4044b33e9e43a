//! `softdiff data prepare --crops` as a user runs it.

mod support;

use serde_json::Value;
use softdiff::data::{Dataset, Exif, Source, Split};
use softdiff::image::png;
use std::fs;
use std::path::Path;
use support::{Scratch, command, done, softdiff, text};

/// Noise in red and green, and one blue that tells the photograph; the left part is flat.
fn photograph(width: usize, height: usize, blue: u8, flat: usize) -> Vec<u8> {
    let noise = |at: usize| (((at as u32).wrapping_mul(2_654_435_761).wrapping_add(u32::from(blue))) >> 24) as u8;
    let pixel = |at: usize| if at % width < flat { [90, 90, blue] } else { [noise(2 * at), noise(2 * at + 1), blue] };
    png::encode(width, height, 3, &(0..width * height).flat_map(pixel).collect::<Vec<u8>>())
}

/// A folder of photographs, each with a blue of its own.
fn folder(scratch: &Scratch, sizes: &[(usize, usize, usize)]) -> String {
    let folder = scratch.path("photographs");
    fs::create_dir(&folder).unwrap();
    for (number, &(width, height, flat)) in sizes.iter().enumerate() {
        let file = Path::new(&folder).join(format!("{number:03}.png"));
        fs::write(file, photograph(width, height, 2 * number as u8, flat)).unwrap();
    }
    folder
}

/// The blues of the crops of one part.
fn blues(file: &str, split: Split) -> Vec<u8> {
    let source = Source::open_split(Path::new(file), split).unwrap();
    (0..source.len()).map(|index| source.read(index, Exif::Apply).unwrap().pixels[2]).collect()
}

#[test]
fn the_parts_share_no_photograph_and_threads_change_nothing() {
    let scratch = Scratch::new("crops");
    let sizes: Vec<_> = (0..24).map(|number| (60 + 10 * number, 90, if number == 7 { 60 } else { 0 })).collect();
    let photographs = folder(&scratch, &[&sizes[..], &[(1000, 800, 0)]].concat());
    let prepare = |out: &str, threads: &str, more: &[&str]| {
        let arguments = ["data", "prepare", &photographs, "--out", out, "--crops", "16", "--count", "1000", "--json"];
        let run = command(&[&arguments[..], more].concat()).env("RAYON_NUM_THREADS", threads).output().unwrap();
        assert!(run.status.success(), "{}", text(&run.stderr));
        serde_json::from_slice::<Value>(&run.stdout).unwrap()
    };
    let (one, other) = (scratch.path("one.npz"), scratch.path("other.npz"));
    let facts = prepare(&one, "1", &[]);
    assert_eq!(facts["hash"], prepare(&other, "5", &[])["hash"]);
    assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap(), "the same bytes from one thread and from five");

    let listed = facts["photographs"].as_array().unwrap();
    let held_out = |photograph: &Value| photograph["held_out"].as_bool().unwrap();
    for (split, held) in [(Split::Train, false), (Split::Test, true)] {
        let blues = blues(&one, split);
        for (number, photograph) in listed.iter().enumerate() {
            let crops = if held_out(photograph) == held { photograph["crops"].as_u64().unwrap() } else { 0 };
            assert_eq!(blues.iter().filter(|&&blue| blue == 2 * number as u8).count() as u64, crops);
        }
    }
    assert_eq!((facts["train"].as_u64().unwrap() + facts["test"].as_u64().unwrap(), listed.len()), (1000, 25));
    assert!((1..10).contains(&listed.iter().filter(|photograph| held_out(photograph)).count()));
    assert!(listed.iter().all(|photograph| (1..=80).contains(&photograph["crops"].as_u64().unwrap())), "{facts}");
    assert!(facts["flat"].as_u64().unwrap() <= 100);
    assert_eq!(Dataset::open(&one).unwrap().hash().to_string(), facts["hash"]);

    // Another seed draws other crops of the same held-out photographs.
    let third = scratch.path("third.npz");
    let seeded = prepare(&third, "2", &["--seed", "1"]);
    assert_ne!(seeded["hash"], facts["hash"]);
    assert!(listed.iter().zip(seeded["photographs"].as_array().unwrap()).all(|(a, b)| held_out(a) == held_out(b)));
    let shown = done(&["data", "inspect", &one, "--split", "test", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["pictures"], facts["test"]);
}

#[test]
fn copies_and_flat_photographs_are_left_out_and_named() {
    let scratch = Scratch::new("crops-left-out");
    let photographs = folder(&scratch, &[(60, 40, 0), (60, 40, 60), (60, 40, 0)]);
    fs::copy(format!("{photographs}/000.png"), format!("{photographs}/copy.png")).unwrap();
    let out = scratch.path("crops.npz");
    let run = softdiff(&["data", "prepare", &photographs, "--out", &out, "--crops", "16", "--count", "50"]);
    let said = text(&run.stderr);
    assert!(run.status.success(), "{said}");
    assert!(said.contains("skipped: 001.png: nearly all of it is flat\n"), "{said}");
    assert!(said.contains("skipped: copy.png: the same picture as 000.png\n"), "{said}");
    assert!(said.contains(" training and ") && said.contains(" test crops of 16 x 16 x 3, blake3:"), "{said}");
    assert!(said.contains("2 photographs (1 held out), 0.0 megapixels; "), "{said}");
}

#[test]
fn photographs_that_cannot_be_used_are_refused_or_skipped() {
    let scratch = Scratch::new("crops-bad");
    let photographs = folder(&scratch, &[&[(20, 20, 0); 110][..], &[(30, 15, 0)]].concat());
    let out = scratch.path("crops.npz");
    let arguments = ["data", "prepare", &photographs, "--out", &out, "--crops", "16", "--count", "120"];
    let refused = |more: &[&str], message: &str, hint: &str| {
        let run = softdiff(&[&arguments[..], more].concat());
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{said}");
        assert!(said.contains(message) && said.contains(&format!("\nhint: {hint}")), "{said}");
        assert!(!Path::new(&out).exists());
    };
    let small = "error: 110.png: the image is 30 x 15, and the crop 16x16 does not fit it";
    refused(&[], small, "give a smaller --crops, or add --on-bad skip");
    let run = softdiff(&[&arguments[..], &["--on-bad", "skip", "--force"]].concat());
    assert!(text(&run.stderr).contains("skipped: 110.png: the image is 30 x 15"), "{}", text(&run.stderr));
    fs::remove_file(&out).unwrap();
    fs::write(format!("{photographs}/110.png"), "no picture").unwrap();
    refused(&[], "error: 110.png: ", "fetch or remove the file, or add --on-bad skip");
    fs::remove_file(format!("{photographs}/110.png")).unwrap();
    refused(
        &["--cap", "1"],
        "120 crops are more than 110 photographs give with at most 1 of each",
        "give a larger --cap",
    );
    let few = ["data", "prepare", &photographs, "--out", &out, "--crops", "16", "--count", "100"];
    let said = text(&softdiff(&few).stderr);
    assert!(said.contains("100 crops are fewer than the 110 photographs\nhint: give a larger --count"), "{said}");
}

#[test]
fn one_photograph_cannot_be_parted_and_flags_of_crops_need_crops() {
    let scratch = Scratch::new("crops-one");
    let photographs = folder(&scratch, &[(60, 40, 0)]);
    let out = scratch.path("crops.npz");
    let arguments = ["data", "prepare", &photographs, "--out", &out, "--crops", "16", "--count", "9"];
    let said = text(&softdiff(&arguments).stderr);
    assert!(said.contains("one photograph that can be used") && said.contains("or --held-out 0"), "{said}");
    done(&[&arguments[..], &["--held-out", "0"]].concat());
    assert_eq!(blues(&out, Split::Train).len(), 9);
    assert!(Source::open_split(Path::new(&out), Split::Test).is_err());
    for (more, named) in [
        (&["--count", "3"][..], "--crops"),
        (&["--crops", "16", "--size", "8"], "--size"),
        (&["--crops", "16", "--held-out", "1"], "expected a number from 0 to below 1"),
    ] {
        let run = softdiff(&[&["data", "prepare", &photographs, "--out", &out][..], more].concat());
        assert_eq!(run.status.code(), Some(2));
        assert!(text(&run.stderr).contains(named), "{}", text(&run.stderr));
    }
}
