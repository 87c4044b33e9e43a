//! The commands in the pages' blocks run as they stand, one page after the other, each in a folder of its own where the data
//! that it names is: with tiny settings, which `WRAPPER` adds, and fewer images, steps and samples.
#![cfg(unix)]

#[path = "support/docs.rs"]
mod docs;
mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use support::{Scratch, text};

/// What pages name and what runs in its place. FID needs a network of 87 MB, so the same images are measured otherwise.
const SMALLER: [(&str, &str); 21] = [
    ("--metrics fid --network inception-2015-12-05.safetensors", "--metrics sliced-wasserstein"),
    ("--network inception-2015-12-05.safetensors", "--metrics sliced-wasserstein"),
    ("--metrics fid", "--metrics sliced-wasserstein"),
    ("--metrics prdc,memorisation", "--metrics memorisation"),
    ("0..50000", "0..3"),
    ("0..10000", "0..3"),
    ("0..1000", "0..3"),
    ("100..164", "100..102"),
    ("0..64", "0..2"),
    ("0..16", "0..2"),
    ("0..6 ", "0..2 "),
    ("--sampler SAMPLER --steps STEPS", "--sampler multistep --steps 2"),
    ("--steps 50", "--steps 2"),
    ("--steps 25", "--steps 2"),
    ("--count 170000", "--count 24"),
    ("--images 64k --samples 96", "--images 8 --samples 2"),
    ("--images 40k --samples 96", "--images 8 --samples 2"),
    ("sample FOLDER", "sample models/cifar10-small"),
    ("--only 1/8", "--only 1/3"),
    ("--against DATA", "--against embedded:fashion-mnist"),
    ("reproduce results --images 2M", "reproduce results --images 8 --samples 2"),
];

/// `softdiff` for a page: the program with what makes a verb a matter of a second.
const WRAPPER: &str = r#"#!/bin/sh
small="--device cpu --set data.limit=24 --set train.steps=2 --set train.batch=2 --set train.warmup=1 --set train.cooldown=0
    --set checkpoint.every=2 --set checkpoint.keep_best=0 --set preview.every=2 --set preview.images=1 --set preview.steps=2"
network="--set network.channels=8 --set network.blocks=1 --set network.multipliers=[1,2]"
levels="--set schedule.images=16 --set schedule.candidates=24 --set schedule.knots=8 --set prior.modes=4 --set prior.components=1"
case " $* " in
*train.from=*) network= ;;
*" photos "* | *" vp "* | *" ve "* | *path.kind=ve*) levels= ;;
esac
case "$1 $2" in
"quickstart "*) exec "$SOFTDIFF" "$@" $small $network $levels --samples 2 ;;
"train "*) exec "$SOFTDIFF" "$@" $small $network $levels ;;
"reproduce schedule-oracle") exec "$SOFTDIFF" "$@" --set data.limit=24 ;;
"reproduce results") exec "$SOFTDIFF" "$@" $network $levels --set data.limit=24 --set train.batch=2 ;;
"reproduce "*) exec "$SOFTDIFF" "$@" $network --set data.limit=24 --set train.batch=2 ;;
"restore "*) exec "$SOFTDIFF" "$@" --device cpu ;;
"report "*) exec "$SOFTDIFF" "$@" --samples 2 ;;
"data fetch") [ "$3" = list ] || exit 0 ;; # `--test data_fetch` has a server for it.
esac
case "$1 $*" in
"eval "*--metrics*) exec "$SOFTDIFF" "$@" ;;
"eval "*) exec "$SOFTDIFF" "$@" --metrics sliced-wasserstein ;;
*) exec "$SOFTDIFF" "$@" ;;
esac
"#;

/// Whether a line is about this program, and can run here.
fn runs(line: &str) -> bool {
    // Launchers have tests of their own (`--test mpirun`).
    let elsewhere = [
        "cargo ",
        "pip ",
        "SOFTDIFF_INCEPTION=",
        ".ci/",
        "python",
        "git ",
        ". ",
        "mpirun ",
        "srun ",
        "[ ",
        "torchrun ",
    ];
    // Benchmarks race PyTorch; the studio serves until it is stopped; here are no GPUs.
    let inside = ["softdiff bench ", "softdiff studio", " --gpus "];
    !elsewhere.iter().any(|start| line.starts_with(start)) && !inside.iter().any(|words| line.contains(words))
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Records of CIFAR-10: a label, then smooth red, green and blue planes.
fn records(count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for image in 0..count {
        bytes.push((image % 10) as u8);
        for plane in 0..3 {
            let pixel = |p: usize| ((p / 32) * (image % 5 + 1) + (p % 32) * (plane + 1) + 37 * image) as u8;
            bytes.extend((0..1024).map(pixel));
        }
    }
    bytes
}

/// The data that pages name, where they name it.
fn provide_data(folder: &Path) {
    let golden = docs::sources().join("crates/softdiff/tests/golden");
    for model in ["models/cifar10", "models/cifar10-small"] {
        copy_folder(&docs::sources().join(model), &folder.join(model));
    }
    let cifar = folder.join("cifar-10-batches-bin");
    std::fs::create_dir(&cifar).unwrap();
    for name in ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"] {
        std::fs::write(cifar.join(format!("{name}.bin")), records(8)).unwrap();
    }
    std::fs::write(folder.join("test_batch.bin"), records(8)).unwrap();
    let sharp = golden.join("blurred/astronaut.png");
    for name in ["YOUR_IMAGES", "PICTURES", "PHOTOGRAPHS", "holidays"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    std::fs::copy(golden.join("pictures/baseline-420.jpg"), folder.join("photo.jpg")).unwrap();
    std::fs::copy(&sharp, folder.join("holidays/first.png")).unwrap();
    for (index, record) in records(24).chunks(3073).enumerate() {
        let pixels: Vec<u8> = (0..1024).flat_map(|p| [record[1 + p], record[1025 + p], record[2049 + p]]).collect();
        let ppm = [b"P6 32 32 255\n", &pixels[..]].concat();
        for name in ["YOUR_IMAGES", "PICTURES"] {
            std::fs::write(folder.join(name).join(format!("{index:02}.ppm")), &ppm).unwrap();
        }
        let pixels: Vec<u8> = pixels.chunks(96).flat_map(|row| row.repeat(5)).collect::<Vec<u8>>().repeat(5);
        let ppm = [b"P6 160 160 255\n", &pixels[..]].concat();
        std::fs::write(folder.join("PHOTOGRAPHS").join(format!("{index:02}.ppm")), ppm).unwrap();
    }
}

#[test]
fn the_commands_of_every_page_run_as_they_stand() {
    let mut pages_with_commands = 0;
    for (name, page) in docs::pages() {
        let (_, blocks) = docs::prose_and_commands(&page);
        let mut script = blocks.join("\n").replace("\\\n", " ");
        script = script.lines().filter(|line| runs(line)).map(|line| format!("{line}\n")).collect();
        if !script.contains("softdiff ") {
            continue;
        }
        pages_with_commands += 1;
        for (named, smaller) in SMALLER {
            script = script.replace(named, smaller);
        }
        let scratch = Scratch::new("docs");
        let folder = scratch.path("");
        provide_data(Path::new(&folder));
        let wrapper = scratch.path("softdiff");
        std::fs::write(&wrapper, WRAPPER).unwrap();
        std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
        // A run that a page takes as given.
        let before = match name.as_str() {
            "README.md" => "softdiff quickstart\n",
            "docs/distributed.md" => "softdiff train quickstart --out runs/first\n",
            "docs/restoration.md" => {
                "softdiff train photos --out runs/mine --set data.source=PICTURES --set data.size=16\n"
            }
            _ => "",
        };
        let mut shell = Command::new("sh");
        let shell = shell.args(["-e", "-x", "-c", &format!("{before}{script}")]).current_dir(&folder);
        let ended = shell.env("PATH", path).env("SOFTDIFF", env!("CARGO_BIN_EXE_softdiff")).output().unwrap();
        assert!(ended.status.success(), "{name}:\n{}", text(&ended.stderr));
    }
    assert!(pages_with_commands >= 6, "only {pages_with_commands} pages have commands");
}
