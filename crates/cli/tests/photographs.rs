//! `softdiff restore` on photographs of any size, with a model for them that is trained for seconds.

mod support;

use serde_json::Value;
use softdiff::image::{Metadata, PhotographFile, Picture, decode, decode_as_stored, png};
use std::path::Path;
use std::process::Output;
use std::sync::LazyLock;
use support::{Scratch, bytes, command, photograph, text};

/// A folder that no test changes.
static SHARED: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("photographs"));

/// A denoiser of grey images of 16x16.
static MODEL: LazyLock<String> = LazyLock::new(|| support::photograph_model(&SHARED));

/// Runs `softdiff restore` in a folder, with the model by the variable, in two steps where the task has steps.
fn restore(folder: &Scratch, arguments: &[&str]) -> Output {
    let has_steps = !arguments.iter().any(|word| ["denoise", "jpeg"].contains(word));
    let steps: &[&str] = if has_steps { &["--steps", "2"] } else { &[] };
    let mut command = command(&[&["restore", "--device", "cpu"], steps, arguments].concat());
    command.current_dir(folder.path("")).env("SOFTDIFF_PHOTO_MODEL", &*MODEL).output().unwrap()
}

fn restored(folder: &Scratch, arguments: &[&str]) -> Value {
    let output = restore(folder, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_str(&text(&output.stdout)).unwrap()
}

fn read(path: String) -> Picture {
    decode(&bytes(path)).unwrap()
}

fn size(picture: &Picture) -> (usize, usize, usize) {
    (picture.width, picture.height, picture.channels)
}

#[test]
fn a_photograph_is_restored_beside_the_user_without_naming_a_model() {
    let scratch = Scratch::new("photo");
    photograph(&scratch.path("photo.png"), 45, 30);
    let output = restore(&scratch, &["photo.png", "--task", "deblur"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    for words in
        ["photo.png: deblur of level ", "(estimated), noise ", "45x30 in 1 tile", "wrote photo-restored.png in "]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(size(&read(scratch.path("photo-restored.png"))), (45, 30, 1));
    let quiet = restore(&scratch, &["photo.png", "-q", "--force", "--level", "1"]);
    assert!(quiet.status.success() && !text(&quiet.stderr).contains("wrote"), "{}", text(&quiet.stderr));
}

#[test]
fn samples_spread_and_before_and_after_are_written_on_request() {
    let scratch = Scratch::new("photo-more");
    photograph(&scratch.path("photo.png"), 40, 24);
    let flags = [
        "photo.png",
        "--level",
        "1",
        "--seeds",
        "0..2",
        "--samples",
        "--spread",
        "--compare",
        "--out",
        "new/better.png",
    ];
    let facts = restored(&scratch, &flags);
    let names = ["better", "better-spread", "better-compare", "better-sample-000", "better-sample-001"];
    let files = facts["images"][0]["files"].as_array().unwrap();
    assert_eq!(files.iter().filter_map(Value::as_str).collect::<Vec<_>>(), names.map(|name| format!("new/{name}.png")));
    for name in names {
        let picture = read(scratch.path(&format!("new/{name}.png")));
        let wide = if name == "better-compare" { (2 * 40 + 3, 24 + 2, 1) } else { (40, 24, 1) };
        assert_eq!(size(&picture), wide, "{name}");
    }
    // Without samples on request there are none; with one of the two flags there are four.
    assert_eq!((&facts["images"][0]["samples"], &facts["images"][0]["evaluations"]), (&2.into(), &2.into()));
    let four = restored(&scratch, &["photo.png", "--level", "1", "--spread", "--out", "spread.png"]);
    assert_eq!(four["images"][0]["samples"], 4);
    let larger = ["photo.png", "--task", "super-resolve", "--factor", "2", "--compare"];
    assert_eq!(restored(&scratch, &larger)["images"][0]["width"], 80);
    assert_eq!(size(&read(scratch.path("photo-restored.png"))), (80, 48, 1));
    assert_eq!(size(&read(scratch.path("photo-restored-compare.png"))), (163, 50, 1));
}

#[test]
fn a_folder_is_restored_whole_and_one_bad_image_does_not_stop_the_others() {
    let scratch = Scratch::new("photo-folder");
    std::fs::create_dir(scratch.path("in")).unwrap();
    photograph(&scratch.path("in/a.png"), 20, 20);
    std::fs::write(scratch.path("in/b.jpg"), "no image").unwrap();
    photograph(&scratch.path("in/c.png"), 24, 20);
    std::fs::write(scratch.path("in/notes.txt"), "left alone").unwrap();
    let output = restore(&scratch, &["in", "--task", "denoise", "--out", "out", "--json"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("error: in/b.jpg: ") && said.contains("error: 1 of 3 images could not be restored"),
        "{said}"
    );
    let facts: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!((&facts["code"], facts["images"].as_array().unwrap().len()), (&Value::from(1), 3));
    assert!(facts["images"][1]["error"].is_string() && facts["images"][2]["task"] == "denoise", "{facts}");
    let mut written: Vec<_> = std::fs::read_dir(scratch.path("out")).unwrap().map(|e| e.unwrap().file_name()).collect();
    written.sort();
    assert_eq!(written, ["a-restored.png", "c-restored.png"]);
}

#[test]
fn a_clean_picture_with_a_hole_is_filled_in_without_a_warning() {
    let scratch = Scratch::new("photo-hole");
    photograph(&scratch.path("photo.png"), 40, 30);
    let mask: Vec<u8> = (0..40 * 30).map(|i| if (10..20).contains(&(i % 40)) { 255 } else { 0 }).collect();
    std::fs::write(scratch.path("mask.png"), png::encode(40, 30, 1, &mask)).unwrap();
    let facts = restored(&scratch, &["photo.png", "--mask", "mask.png"]);
    let image = &facts["images"][0];
    assert!(image["warning"].is_null() && image["misfit"].as_f64().unwrap() < 1.0, "{facts}");
    let (before, after) = (read(scratch.path("photo.png")), read(scratch.path("photo-restored.png")));
    assert!((0..mask.len()).all(|i| mask[i] == 255 || before.pixels[i] == after.pixels[i]));
}

#[test]
fn a_flag_that_would_change_nothing_is_refused_and_seeds_are_seeds_of_samples() {
    let scratch = Scratch::new("photo-flags");
    photograph(&scratch.path("photo.png"), 24, 20);
    for (flags, flag) in [
        (vec!["--sampler", "heun"], "--sampler"),
        (vec!["--set", "sample.churn_rate=2"], "--set"),
        (vec!["--batch", "4"], "--batch"),
        (vec!["--task", "denoise", "--quality", "best"], "--quality"),
        (vec!["--task", "denoise", "--steps", "4"], "--steps"),
        (vec!["--task", "denoise", "--sampler", "heun"], "--sampler"),
    ] {
        let failed = restore(&scratch, &[&["photo.png"], &flags[..]].concat());
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{flags:?}: {said}");
        assert!(said.contains(&format!("{flag} has no effect")) && said.contains("hint: leave it out"), "{said}");
    }
    let none = restore(&scratch, &["photo.png", "--batch", "0"]);
    assert_eq!(none.status.code(), Some(2), "{}", text(&none.stderr));
    assert_eq!(command(&["sample", &MODEL, "--batch", "0"]).output().unwrap().status.code(), Some(2));
    let facts = restored(&scratch, &["photo.png", "--level", "1", "--seeds", "5..7", "--sampler", "heun"]);
    assert_eq!(facts["images"][0]["samples"], 2);
    for seed in ["5", "6"] {
        read(scratch.path(&format!("photo-restored-sample-00{seed}.png")));
    }
}

#[test]
fn a_folder_is_restored_in_two_commands_and_names_stay_apart() {
    let scratch = Scratch::new("photo-rest");
    std::fs::create_dir(scratch.path("in")).unwrap();
    for name in ["in/a.png", "in/b.png"] {
        photograph(&scratch.path(name), 20, 20);
    }
    let flags = ["in", "--task", "denoise", "--out", "out"];
    restored(&scratch, &flags);
    let first = bytes(scratch.path("out/a-restored.png"));
    photograph(&scratch.path("in/c.png"), 24, 20);
    std::fs::write(scratch.path("out/a-restored.png"), "finished").unwrap();
    let facts = restored(&scratch, &[&flags[..], &["--skip-existing"]].concat());
    let skipped: Vec<bool> = facts["images"].as_array().unwrap().iter().map(|i| i["skipped"] == true).collect();
    assert_eq!(skipped, [true, true, false], "{facts}");
    assert_eq!(bytes(scratch.path("out/a-restored.png")), b"finished");
    assert_eq!(size(&read(scratch.path("out/c-restored.png"))), (24, 20, 1));
    // What differs by the ending alone has names of its own; the contents decide the format.
    std::fs::copy(scratch.path("in/a.png"), scratch.path("in/a.jpg")).unwrap();
    restored(&scratch, &["in", "--task", "denoise", "--out", "apart"]);
    for name in ["a.png", "a.jpg"] {
        assert_eq!(bytes(scratch.path(&format!("apart/{name}-restored.png"))), first, "{name}");
    }
    read(scratch.path("apart/b-restored.png"));
}

#[test]
fn what_is_passed_over_of_folders_and_archives_is_said() {
    let scratch = Scratch::new("photo-within");
    std::fs::create_dir_all(scratch.path("in/within")).unwrap();
    for name in ["in/a.png", "in/within/b.png", "in/within/c.png"] {
        photograph(&scratch.path(name), 20, 20);
    }
    for (place, words) in [
        ("in", "in: 1 folder within passed over"),
        ("images.zip", "images.zip has 2 images, of which the first is restored; --index"),
    ] {
        if place.ends_with("zip") {
            let made =
                command(&["sample", &MODEL, "--seeds", "0..2", "--steps", "1", "--out", place, "--device", "cpu"])
                    .current_dir(scratch.path(""))
                    .output()
                    .unwrap();
            assert!(made.status.success(), "{}", text(&made.stderr));
        }
        let output = restore(&scratch, &[place, "--task", "denoise", "--out", "out"]);
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains(words), "{said}");
    }
    let chosen = restore(&scratch, &["images.zip", "--index", "1", "--task", "denoise", "--out", "out"]);
    assert!(chosen.status.success() && !text(&chosen.stderr).contains("of which"), "{}", text(&chosen.stderr));
}

#[test]
fn nothing_is_replaced_without_force() {
    let scratch = Scratch::new("photo-force");
    photograph(&scratch.path("photo.png"), 20, 20);
    std::fs::write(scratch.path("photo-restored.png"), "precious").unwrap();
    let refused = restore(&scratch, &["photo.png", "--level", "1"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("photo-restored.png exists already") && said.contains("--force"), "{said}");
    assert_eq!(bytes(scratch.path("photo-restored.png")), b"precious");
    restored(&scratch, &["photo.png", "--level", "1", "--force"]);
    read(scratch.path("photo-restored.png"));
    // What is left of a run that was killed is no reason to refuse; an image to be restored is.
    std::fs::write(scratch.path("new-preview.png"), "left").unwrap();
    restored(&scratch, &["photo.png", "--level", "1", "--out", "new.png"]);
    let refused = restore(&scratch, &["new-preview.png", "--level", "1", "--out", "new.png", "--force"]);
    assert!(text(&refused.stderr).contains("a preview would be written to new-preview.png"));
}

#[test]
fn what_cannot_be_done_with_photographs_is_said_in_one_message() {
    let scratch = Scratch::new("photo-bad");
    photograph(&scratch.path("photo.png"), 20, 20);
    photograph(&scratch.path("mask.png"), 10, 20);
    std::fs::create_dir(scratch.path("other")).unwrap();
    photograph(&scratch.path("other/photo.png"), 20, 20);
    std::fs::create_dir(scratch.path("folder.png")).unwrap();
    std::fs::write(scratch.path("wide.png"), png::encode(9000, 1, 1, &[0; 9000])).unwrap();
    std::fs::write(scratch.path("text.txt"), "no image").unwrap();
    for (flags, problem, hint) in [
        (vec!["photo.png", "--mask", "mask.png"], "mask.png has 10x20 pixels, the image 20x20", "give a mask of 20x20"),
        (vec!["photo.png", "--spread", "--seeds", "3"], "one sample has no spread", "--seeds 0..4"),
        (vec!["photo.png", "other/photo.png"], "two images would be written to photo-restored.png", "rename one"),
        (vec!["photo.png", "other", "--out", "x.png"], "x.png is one file", "give --out a folder"),
        (vec!["photo.png", "--out", "text.txt"], "text.txt is a file", "ends in .png"),
        (vec!["photo.png", "--out", "new.jpg"], "new.jpg is a file, and neither a PNG", "ends in .png"),
        (vec!["photo.png", "--out", "folder.png"], "folder.png is a folder with the name of a file", "another --out"),
        (vec!["photo.png", "--level", "1000"], "photo.png: the level of the blur is 1000", "from 0 to 100"),
        (vec!["photo.png", "--level", "-1"], "photo.png: the level of the blur is -1", "from 0 on"),
        (vec!["photo.png", "--task", "super-resolve", "--factor", "9"], "--factor is 9", "2, 3 or 4"),
        (vec!["photo.png", "--task", "jpeg"], "not a JPEG file", "--task denoise"),
        (vec!["photo.png", "--task", "jpeg", "--degrade"], "--degrade cannot compress", "--truth"),
        (vec!["wide.png"], "9000 x 1, more than the limit of 8192", "hint: resize it, or cut it"),
        (vec!["missing.jpg"], "missing.jpg", "hint: "),
        (vec!["text.txt"], "text.txt", "hint: "),
        (vec![&**MODEL], "is a model, and no image is given", "give images after it"),
    ] {
        let failed = restore(&scratch, &flags);
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{flags:?}: {said}");
        assert!(said.contains(problem) && said.contains(hint), "{flags:?}: {said}");
        assert_eq!(said.matches("error: ").count(), 1, "{said}");
    }
    assert!(!Path::new(&scratch.path("photo-restored.png")).exists());
}

#[test]
fn a_truth_that_is_no_multiple_of_the_factor_is_cut() {
    let scratch = Scratch::new("photo-truth");
    photograph(&scratch.path("truth.png"), 62, 40);
    photograph(&scratch.path("small.png"), 20, 13);
    let flags = ["small.png", "--task", "super-resolve", "--factor", "3", "--truth"];
    let output = restore(&scratch, &[&flags[..], &["truth.png"]].concat());
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("truth.png is cut to 60x39") && said.contains("dB"), "{said}");
    photograph(&scratch.path("other.png"), 63, 40);
    let refused = restore(&scratch, &[&flags[..], &["other.png", "--force"]].concat());
    assert!(text(&refused.stderr).contains("has 63x40 pixels"), "{}", text(&refused.stderr));
}

#[test]
fn a_photograph_that_stays_grey_when_it_is_colourised_is_warned_of() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../softdiff/tests/golden/blurred/astronaut.png");
    let scratch = Scratch::new("photo-colours");
    let grey = read(golden.into()).with_channels(1);
    std::fs::write(scratch.path("grey.png"), grey.to_png()).unwrap();
    let flags = ["restore", "grey.png", "--task", "colourise", "--quality", "fast", "--device", "cpu"];
    let output = command(&flags).current_dir(scratch.path("")).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("warning: grey.png: the restored image has hardly any colours"));
    assert!(said.contains("hint: colourise with a model of one size"), "{said}");
}

#[test]
fn noise_and_compression_are_told_from_blur_and_the_choice_can_be_overridden() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../softdiff/tests/golden/compressed");
    let jpeg = format!("{golden}/astronaut-10.jpg");
    let clean_file = format!("{golden}/astronaut.png");
    let clean = read(clean_file.clone());
    let scratch = Scratch::new("photo-choice");
    let eta = softdiff::engine::rng::RandomStream::new(0, "noise").normals(clean.pixels.len());
    let noisy = clean.pixels.iter().zip(eta).map(|(&p, e)| (f64::from(p) + 25.0 * e).round().clamp(0.0, 255.0) as u8);
    let noisy = Picture { pixels: noisy.collect(), ..clean };
    std::fs::write(scratch.path("noisy.png"), noisy.to_png()).unwrap();
    let blurred = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/images/astronaut-blurred.png");
    for (image, flags, task) in [
        ("noisy.png", &[][..], "denoise"),
        ("noisy.png", &["--task", "deblur"][..], "deblur"),
        ("noisy.png", &["--level", "1"][..], "deblur"),
        (&jpeg, &[][..], "JPEG artefacts"),
        (&jpeg, &["--task", "deblur"][..], "deblur"),
        (blurred, &[][..], "deblur"),
        (&clean_file, &[][..], "denoise"),
    ] {
        let flags = [&["--out", "x.png", "--force", "--json", image], flags].concat();
        let output = restore(&scratch, &flags);
        let facts: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        assert_eq!(facts["images"][0]["task"], task, "{flags:?}");
        let said = text(&output.stderr);
        assert_eq!(said.contains("--task deblur undoes a blur"), task != "deblur", "{said}");
    }
}

#[test]
fn what_jpeg_compression_left_is_removed_by_as_much_as_it_rounded() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../softdiff/tests/golden/compressed");
    let [jpeg, truth] = ["astronaut-10.jpg", "astronaut.png"].map(|name| format!("{golden}/{name}"));
    let scratch = Scratch::new("photo-jpeg");
    let flags = ["restore", &jpeg, "--task", "jpeg", "--truth", &truth, "--device", "cpu", "--json"];
    let output = command(&flags).current_dir(scratch.path("")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("JPEG artefacts, noise 0.09"), "{}", text(&output.stderr));
    let facts: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let image = &facts["images"][0];
    let [before, after] = ["seen", "mean"].map(|which| image["scores"][which]["psnr"].as_f64().unwrap());
    assert!(after > before + 0.4, "{before} dB to {after} dB");
}

#[test]
fn without_a_model_for_photographs_one_must_be_named() {
    let scratch = Scratch::new("photo-none");
    photograph(&scratch.path("photo.png"), 20, 20);
    let mut without = command(&["restore", "photo.png"]);
    let failed = without.current_dir(scratch.path("")).env("SOFTDIFF_PHOTO_MODEL", "").output().unwrap();
    let said = text(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1));
    assert!(said.contains("no model for photographs") && said.contains("hint: name a model first"), "{said}");
    let named = command(&["restore", &MODEL, "photo.png", "--level", "1", "--steps", "2", "--device", "cpu"])
        .current_dir(scratch.path(""))
        .env("SOFTDIFF_PHOTO_MODEL", "")
        .output()
        .unwrap();
    assert!(named.status.success(), "{}", text(&named.stderr));
    read(scratch.path("photo-restored.png"));
}

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../softdiff/tests/golden");

#[test]
fn the_restored_file_keeps_the_metadata_and_says_that_its_pixels_are_upright() {
    let scratch = Scratch::new("photo-metadata");
    for name in ["6.jpg", "3.jpg", "8.png", "3-last.png", "5.webp", "6.webp"] {
        let file = format!("{GOLDEN}/orientation/{name}");
        restored(&scratch, &[&file, "--level", "0.5", "--noise", "0.01", "--out", "x.png", "--force"]);
        let (before, after) = (Metadata::of(&bytes(&file)), Metadata::of(&bytes(scratch.path("x.png"))));
        assert!(before.exif.is_some(), "{name}");
        assert_eq!(after.exif, before.upright().exif, "{name}");
        // Whoever heeds the orientation sees the pixels as they are, turned once.
        let (upright, stored) = (read(file), bytes(scratch.path("x.png")));
        let picture = decode(&stored).unwrap();
        assert_eq!((picture.width, picture.height), (upright.width, upright.height), "{name}");
        assert_eq!(picture, decode_as_stored(&stored).unwrap(), "{name}");
    }
    let picture = Picture { width: 20, height: 20, channels: 1, pixels: vec![99; 400] };
    let mut profile = vec![7; 300];
    profile[16..20].copy_from_slice(b"GRAY");
    let metadata = Metadata {
        exif: None,
        profile: Some(profile),
        xmp: Some(b"<x:xmpmeta>sunset</x:xmpmeta>".to_vec()),
        resolution: Some((11811, 11811)),
    };
    std::fs::write(scratch.path("photo.png"), png::encode_with(&picture, None, &metadata)).unwrap();
    restored(&scratch, &["photo.png", "--level", "1"]);
    assert_eq!(Metadata::of(&bytes(scratch.path("photo-restored.png"))), metadata);
}

#[test]
fn an_alpha_channel_is_copied_and_16_bits_are_restored_as_8_with_a_note() {
    let scratch = Scratch::new("photo-alpha");
    for (name, words) in [
        ("rgba.png", "alpha channel is copied"),
        ("grey-alpha.png", "alpha channel is copied"),
        ("grey-16-bit.png", "of its 16 bits the high 8"),
    ] {
        let file = format!("{GOLDEN}/pictures/{name}");
        let output = restore(&scratch, &[&file, "--level", "0.5", "--out", name]);
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains(words), "{name}: {said}");
        let read = |path: String| PhotographFile::read(&bytes(path)).unwrap();
        let (before, after) = (read(file), read(scratch.path(name)));
        assert_eq!(after.alpha, before.alpha, "{name}");
        assert_eq!((before.is_16_bit, after.is_16_bit), (name == "grey-16-bit.png", false));
    }
}

#[test]
fn a_blur_of_ones_own_kernel_or_at_an_angle_is_undone() {
    let scratch = Scratch::new("photo-kernel");
    photograph(&scratch.path("photo.png"), 32, 32);
    let png = png::encode(3, 3, 1, &[0, 0, 0, 50, 100, 0, 0, 0, 100]);
    std::fs::write(scratch.path("kernel.png"), png).unwrap();
    std::fs::write(scratch.path("kernel.json"), "[[0, 0, 0], [0.2, 0.4, 0], [0, 0, 0.4]]").unwrap();
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 3), }\n";
    let values: Vec<u8> =
        [0.0, 0.0, 0.0, 0.2, 0.4, 0.0, 0.0, 0.0, 0.4].into_iter().flat_map(f64::to_le_bytes).collect();
    let npy = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &values].concat();
    std::fs::write(scratch.path("kernel.npy"), npy).unwrap();
    let after = |flags: &[&str]| {
        let facts = restored(&scratch, &[&["photo.png", "--noise", "0.01", "--force"], flags].concat());
        assert_eq!(facts["images"][0]["task"], "deblur");
        read(scratch.path("photo-restored.png"))
    };
    let by_json = after(&["--kernel", "kernel.json"]);
    assert_eq!(after(&["--kernel", "kernel.npy"]), by_json);
    assert_eq!(after(&["--kernel", "kernel.png"]), by_json);
    let motion = |angle: &str| after(&["--corruption", "motion", "--level", "5", "--angle", angle]);
    assert_ne!(motion("45"), motion("-45"));
    std::fs::write(scratch.path("bright.json"), "[[0.5, 1, 0.5]]").unwrap();
    std::fs::write(scratch.path("even.json"), "[[0.5, 0.5]]").unwrap();
    std::fs::write(scratch.path("ragged.json"), "[[1], [0, 0, 0], [0]]").unwrap();
    std::fs::write(scratch.path("none.json"), "{}").unwrap();
    for (flags, problem, hint) in [
        (vec!["--kernel", "bright.json"], "bright.json: the kernel sums to 2.0000", "divide it by its sum"),
        (vec!["--kernel", "even.json"], "even.json: a kernel of 2x1", "odd numbers"),
        (vec!["--kernel", "ragged.json"], "rows of unequal length", "every row"),
        (vec!["--kernel", "none.json"], "no rows of numbers", "write them as"),
        (vec!["--kernel", "missing.json"], "missing.json: ", "give a .png image"),
        (vec!["--level", "1", "--angle", "5"], "--angle has no effect", "leave it out"),
        (vec!["--corruption", "motion", "--level", "3", "--angle", "1000"], "--angle is 1000", "-360 to 360"),
    ] {
        let failed = restore(&scratch, &[&["photo.png", "--force"], &flags[..]].concat());
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{flags:?}: {said}");
        assert!(said.contains(problem) && said.contains(hint), "{flags:?}: {said}");
    }
}
