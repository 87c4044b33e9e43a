//! What does not fit into memory is refused with the number and the remedy; nothing is ended by a failed allocation.
#![cfg(target_os = "linux")]

mod support;

use std::io::Write;
use std::process::{Command, Output, Stdio};
use support::{Scratch, done, softdiff, text, tiny, tiny_run};

/// 8 GiB of address space, in KiB.
const LIMIT: u64 = 8 << 20;

/// Runs the program under `ulimit -v`.
fn limited(kibibytes: u64, arguments: &[&str]) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit -v {kibibytes}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_softdiff")]);
    command.args(arguments).output().unwrap()
}

/// What the program says when it refuses: an error with both numbers and a hint.
fn refused(output: &Output) -> String {
    let message = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{:?}: {message}", output.status);
    assert!(message.contains("error:") && message.contains("hint:"), "{message}");
    assert!(!message.contains("memory allocation of"), "{message}");
    message
}

/// The same for what does not fit.
fn refused_for_memory(output: &Output) -> String {
    let message = refused(output);
    assert!(message.contains("B of memory, and "), "{message}");
    message
}

#[test]
fn a_training_that_does_not_fit_is_refused_before_it_begins() {
    let scratch = Scratch::new("memory-train");
    let (run, images) = (scratch.path("run"), scratch.path("images.npz"));
    done(&["data", "prepare", "embedded:fashion-mnist", "--out", &images, "--limit", "16"]);
    let source = format!("--set=data.source={images}");
    let training = ["train", "quickstart", "--out", &run, "--device=cpu", &source];
    let cases: [(&[&str], &str); 5] = [
        (&["--set=network.channels=1024"], "under ulimit -v"),
        (&["--set=network.channels=2048"], "network.channels"),
        (&["--set=network.channels=2048", "--dry-run"], "network.channels"),
        (&["--set=train.batch=16384"], "train.accumulate=8"),
        (&["--set=data.size=8192"], "data.size"),
    ];
    for (more, remedy) in cases {
        let message = refused_for_memory(&limited(LIMIT, &[&training, more].concat()));
        assert!(message.contains(remedy), "{more:?}: {message}");
    }
    // The first image decides, before 255 others are decoded.
    let large = ["train", "quickstart", "--out", &run, "--device=cpu", "--set=data.size=8192"];
    let message = refused_for_memory(&limited(LIMIT, &large));
    assert!(message.contains("4096 images of 8192 x 8192 x 1 needs 274.9 GB"), "{message}");
    let facts = done(&[&training[..], &["--dry-run", "--json"]].concat());
    let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
    assert!(facts["memory"].as_u64().unwrap() > 4 * facts["parameters"].as_u64().unwrap());
}

#[test]
fn a_batch_of_samples_that_does_not_fit_is_refused_and_any_seed_is_a_seed() {
    let scratch = Scratch::new("memory-sample");
    let (run, out) = (tiny_run(&scratch), scratch.path("samples.npz"));
    let sample = |more: &[&str]| limited(LIMIT, &[&["sample", &run, "--device=cpu", "--steps=1"], more].concat());
    for batch in ["--batch=200000", "--batch=1000000"] {
        let message = refused_for_memory(&sample(&["--seeds=0..1000000", batch, "--out", &out]));
        assert!(message.contains("smaller batch"), "{message}");
    }
    let message = refused(&sample(&["--seeds=0..10000000", "--out", &scratch.path("samples.png")]));
    assert!(message.contains("a grid has at most 4096 images, and 10000000 are asked for"), "{message}");
    let message = refused(&sample(&["--seeds=0..10000000", "--out", &scratch.path("samples.zip")]));
    assert!(message.contains("a zip archive has at most"), "{message}");
    assert_eq!(std::fs::read_dir(scratch.path("")).unwrap().count(), 1, "only the run");
    let largest = sample(&["--seeds=18446744073709551615", "--out", &out]);
    assert!(largest.status.success(), "{}", text(&largest.stderr));
    let output = sample(&["--seeds=18446744073709551616"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("no seed from 0 to 18446744073709551615"));
}

#[test]
fn samples_of_a_restoration_that_do_not_fit_are_refused() {
    let scratch = Scratch::new("memory-restore");
    let (run, images) = (tiny_run(&scratch), scratch.path("images"));
    done(&["sample", &run, "--device=cpu", "--seeds=0..1", "--out", &images]);
    let (image, out) = (format!("{images}/00000000.png"), scratch.path("restored"));
    let restore = ["restore", &run, &image, "--degrade", "--level=1", "--device=cpu", "--out", &out];
    let message = refused_for_memory(&limited(LIMIT, &[&restore[..], &["--seeds=0..10000000"]].concat()));
    assert!(message.contains("restoring 10000000 samples of 16x16 ") && message.contains("fewer --seeds"), "{message}");
    assert!(!std::path::Path::new(&out).exists());
}

#[test]
fn of_a_long_file_that_is_no_model_only_the_beginning_is_read() {
    let scratch = Scratch::new("memory-sparse");
    let (file, out) = (scratch.path("long.safetensors"), scratch.path("out.png"));
    sparse(&file, b"", 20 << 30);
    let output = softdiff(&["sample", &file, "--device=cpu", "--out", &out, "--verbose"]);
    let message = refused(&output);
    let words: Vec<&str> = message.split_whitespace().collect();
    let place = words.iter().position(|word| *word == "MiB").expect("the most memory is said");
    assert!(words[place - 1].parse::<u64>().unwrap() < 200, "{message}");
}

#[test]
fn an_image_that_does_not_fit_is_refused_before_it_is_decoded() {
    let scratch = Scratch::new("memory-image");
    let (folder, crops) = (scratch.path("images"), scratch.path("crops.npz"));
    std::fs::create_dir(&folder).unwrap();
    let side = 8192;
    let png = softdiff::image::png::encode(side, side, 1, &vec![7; side * side]);
    for name in ["a.png", "b.png"] {
        std::fs::write(format!("{folder}/{name}"), &png).unwrap();
    }
    let output = limited(640 << 10, &["data", "prepare", &folder, "--crops=64", "--out", &crops]);
    let message = refused_for_memory(&output);
    assert!(message.contains("an image of 8192 x 8192 needs") && message.contains("smaller image"), "{message}");
    // Where one fits, one is decoded at a time; flat ones give no crops.
    let output = limited(2 << 20, &["data", "prepare", &folder, "--crops=64", "--out", &crops]);
    assert!(refused(&output).contains("there are no images"), "{}", text(&output.stderr));
}

#[test]
fn images_are_written_as_they_are_made() {
    let scratch = Scratch::new("memory-stream");
    let run = tiny_run(&scratch);
    let sample = |batch: &str, out: &str| {
        let (batch, out) = (format!("--batch={batch}"), scratch.path(out));
        done(&["sample", &run, "--device=cpu", "--steps=1", "--seeds=0..10", &batch, "--out", &out]);
        out
    };
    for ending in ["npz", "zip", "png"] {
        let [whole, parts] = ["10", "3"].map(|batch| support::bytes(sample(batch, &format!("{batch}.{ending}"))));
        assert_eq!(whole, parts, "{ending}");
    }
    let folder = sample("3", "folder");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 10);
    // More images than would fit as numbers: 2,000,000 of 16 x 16 take 4 GB as f64.
    let out = scratch.path("many.npz");
    let arguments = ["sample", &run, "--device=cpu", "--steps=1", "--seeds=0..2000000", "--out", &out];
    let mut child = Command::new("bash")
        .args(["-c", "ulimit -v 2000000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_softdiff")])
        .args(arguments)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let temporary_grows = || {
        let files = std::fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap());
        files
            .filter(|file| file.file_name().to_string_lossy().starts_with("many.npz"))
            .any(|file| file.metadata().is_ok_and(|metadata| metadata.len() > 16 * 16 * 256))
    };
    let mut waited = 0;
    while !temporary_grows() {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(std::time::Duration::from_millis(100));
        waited += 1;
        assert!(waited < 3000, "nothing was written in 300 s");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_model_whose_recipe_describes_a_larger_network_than_its_weights_is_refused_before_memory_is_taken() {
    let scratch = Scratch::new("memory-model");
    let (run, model) = (tiny_run(&scratch), scratch.path("model"));
    done(&["export", &run, "--out", &model]);
    std::fs::remove_file(format!("{model}/manifest.json")).unwrap();
    let config = format!("{model}/config.toml");
    let recipe = std::fs::read_to_string(&config).unwrap();
    assert!(recipe.contains("channels = 8\n"), "{recipe}");
    std::fs::write(&config, recipe.replace("channels = 8\n", "channels = 1024\n")).unwrap();
    // Far less than such a network takes.
    let message = refused(&limited(1 << 20, &["sample", &model, "--device=cpu", "--out", &scratch.path("a.png")]));
    assert!(
        message.contains("model.safetensors: it has ") && message.contains(" weights, and the network"),
        "{message}"
    );
}

/// The header of an array of bytes.
fn npy_header(shape: &str) -> Vec<u8> {
    let text = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({shape}), }}");
    [&b"\x93NUMPY\x01\x00\x76\x00"[..], format!("{text:<117}\n").as_bytes()].concat()
}

/// A file that begins with these bytes, and has zeros up to `length` that take no room on the disk.
fn sparse(path: &str, begins: &[u8], length: u64) {
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(begins).unwrap();
    file.set_len(length).unwrap();
}

#[test]
fn files_longer_than_memory_are_read_where_they_lie() {
    let scratch = Scratch::new("memory-files");
    // Each with 4 GiB of address space and 1 GiB of memory.
    let inspect = |path: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", "ulimit -v 4194304; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_softdiff")]);
        command.env("SOFTDIFF_MEMORY", "1000000000").args(["data", "inspect", path]).output().unwrap()
    };
    let header = npy_header("1200, 1024, 1024, 1");
    let array = scratch.path("array.npy");
    sparse(&array, &header, header.len() as u64 + 1200 * 1024 * 1024);
    let output = inspect(&array);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("1024 x 1024"));
    let mut child = support::command(&["data", "inspect", &array]).stdout(Stdio::null()).spawn().unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        most = most.max(peak.unwrap_or(0u64));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!((1..700_000).contains(&most), "{most} kB of a file of 1,258,291 kB");
    for (name, begins) in [("a.zip", &b"PK\x03\x04"[..]), ("a.bin", b""), ("a.tar", b""), ("a.gz", b"\x1f\x8b\x08")] {
        let path = scratch.path(name);
        sparse(&path, begins, 3 << 30);
        refused(&inspect(&path));
    }
    // What is longer than the address space is an error too.
    let path = scratch.path("long.zip");
    sparse(&path, b"PK\x03\x04", 7 << 30);
    let message = refused(&inspect(&path));
    assert!(message.contains("needs 7.5 GB of memory") && message.contains("under ulimit -v"), "{message}");
    let path = scratch.path("a.pth");
    sparse(&path, b"PK\x03\x04", 3 << 30);
    refused(&limited(4 << 20, &["import", &path, "--out", &scratch.path("out.safetensors")]));
}

#[test]
fn what_unpacks_into_more_than_memory_is_refused() {
    let scratch = Scratch::new("memory-packed");
    let (plain, folder) = (scratch.path("plain.npy"), scratch.path(""));
    // Compresses 120 to 1: within the limit of a ratio, and more than the memory that there is.
    let line =
        |i: u64| -> Vec<u8> { [&i.to_le_bytes()[..], &i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()].concat() };
    let mut content = npy_header("300000, 32, 32, 1");
    for image in 0..300_000u64 {
        content.extend(line(image));
        content.resize(content.len() + 1008, 0);
    }
    std::fs::write(&plain, content).unwrap();
    let pack = "cd \"$0\"; gzip -k plain.npy; python3 -c \"
import zipfile
with zipfile.ZipFile('packed.npz', 'w', zipfile.ZIP_DEFLATED) as z: z.write('plain.npy', 'images.npy')\"";
    if !Command::new("bash").args(["-c", pack, &folder]).status().unwrap().success() {
        return; // Without gzip or Python there is nothing to read.
    }
    for name in ["plain.npy.gz", "packed.npz"] {
        let path = scratch.path(name);
        let inspect = |memory: &str| {
            let mut command = support::command(&["data", "inspect", &path]);
            command.env("SOFTDIFF_MEMORY", memory).output().unwrap()
        };
        let message = refused_for_memory(&inspect("200000000"));
        assert!(message.contains("unpack the file to disk"), "{message}");
        let output = inspect("1000000000");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

#[test]
fn a_prepared_set_that_is_larger_than_memory_is_prepared_and_trained_on() {
    let scratch = Scratch::new("memory-prepared");
    let grey = scratch.path("grey.npy");
    let (count, size) = (24_000, 32 * 32);
    let noise = (0..count * size as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8);
    std::fs::write(&grey, [npy_header(&format!("{count}, 32, 32, 1")), noise.collect()].concat()).unwrap();
    // 74 MB as RGB, and 60 MB of memory.
    let small = |arguments: &[&str]| support::command(arguments).env("SOFTDIFF_MEMORY", "60000000").output().unwrap();
    let (large, little) = (scratch.path("large.npz"), scratch.path("little.npz"));
    done(&["data", "prepare", &grey, "--channels=rgb", "--out", &large]);
    let output = small(&["data", "prepare", &grey, "--channels=rgb", "--out", &little]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(support::bytes(&large), support::bytes(&little));
    let source = format!("--set=data.source={large}");
    let more = ["--set=data.limit=false", "--set=data.size=32", &source];
    let [whole, mapped] = ["whole", "mapped"].map(|name| scratch.path(name));
    done(&tiny(&whole, &more));
    let output = small(&tiny(&mapped, &more));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let weights = |run: &str| support::bytes(format!("{run}/checkpoints/step-000000008/params.safetensors"));
    assert_eq!(weights(&whole), weights(&mapped));
    // The same images from a file that must be decoded are refused, with the way out.
    let source = format!("--set=data.source={grey}");
    let run = scratch.path("refused");
    let arguments = ["train", "quickstart", "--out", &run, "--device=cpu", "--set=data.channels=rgb", &source];
    let message = refused_for_memory(&small(&arguments));
    assert!(message.contains("softdiff data prepare") && message.contains("by SOFTDIFF_MEMORY"), "{message}");
}
