//! `softdiff restore` on photographs under attack: signals, limits on files and memory, names that steer terminals, special files.
#![cfg(target_os = "linux")]

mod support;

use softdiff::image::png;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use support::{Scratch, command, photograph, text};

/// Two seconds are promised; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

static SHARED: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("photographs-hostile"));
static MODEL: LazyLock<String> = LazyLock::new(|| support::photograph_model(&SHARED));

fn restore(folder: &Scratch, arguments: &[&str]) -> Command {
    let mut command = command(&[&["restore", "--device", "cpu"], arguments].concat());
    command.current_dir(folder.path("")).env("SOFTDIFF_PHOTO_MODEL", &*MODEL);
    command
}

/// The same where a shell sets a limit first.
fn limited(folder: &Scratch, limit: &str, arguments: &[&str]) -> Output {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_softdiff")]);
    shell.args(["restore", "--device", "cpu"]).args(arguments);
    shell.current_dir(folder.path("")).env("SOFTDIFF_PHOTO_MODEL", &*MODEL).output().unwrap()
}

fn names(folder: &Scratch) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path("")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_signal_ends_the_restoration_of_a_photograph_at_once_and_leaves_no_file() {
    let scratch = Scratch::new("photo-signal");
    photograph(&scratch.path("photo.png"), 900, 700);
    for (name, code) in [("-TERM", 75), ("-HUP", 75), ("-INT", 130)] {
        let child =
            restore(&scratch, &["photo.png", "--task=deblur", "--steps=10000"]).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
        let begun = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert_eq!(names(&scratch), ["photo.png"]);
    }
}

#[test]
fn a_limit_on_file_sizes_is_an_error_with_the_path_and_no_file_is_left() {
    let scratch = Scratch::new("photo-limit");
    let noise: Vec<u8> = (0..90 * 90u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(scratch.path("photo.png"), png::encode(90, 90, 1, &noise)).unwrap();
    let output = limited(&scratch, "-f 1", &["photo.png", "--level=1", "--noise=0.02", "--steps=2", "--compare"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write photo-restored.png") && said.contains("ulimit -f"), "{said}");
    assert_eq!(names(&scratch), ["photo.png"]);
}

#[test]
fn a_photograph_or_samples_that_do_not_fit_into_memory_are_refused_with_the_number_and_the_remedy() {
    let scratch = Scratch::new("photo-memory");
    let side = 8000;
    std::fs::write(scratch.path("large.png"), png::encode(side, side, 1, &vec![90; side * side])).unwrap();
    photograph(&scratch.path("small.png"), 500, 500);
    let mebibytes = |count: u64| format!("-v {}", count << 10);
    photograph(&scratch.path("tiny.png"), 375, 375);
    let cases: [(u64, &[&str], &str); 6] = [
        (4096, &["large.png", "--task=denoise"], "smaller image"),
        (4096, &["large.png", "--steps=1"], "smaller image"),
        (4096, &["large.png", "--level=1"], "smaller image"),
        (8192, &["small.png", "--level=1", "--seeds=0..100000"], "fewer --seeds"),
        (768, &["small.png", "--task=super-resolve", "--factor=4"], "smaller image"),
        (300, &["tiny.png", "--task=super-resolve", "--factor=2"], "smaller image"),
    ];
    for (limit, arguments, remedy) in cases {
        let output = limited(&scratch, &mebibytes(limit), arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("B of memory, and ") && said.contains("under ulimit -v"), "{arguments:?}: {said}");
        assert!(said.contains(remedy), "{arguments:?}: {said}");
    }
    assert_eq!(names(&scratch), ["large.png", "small.png", "tiny.png"]);
}

#[test]
fn names_of_photographs_cannot_steer_the_terminal() {
    let scratch = Scratch::new("photo-names");
    let name = "a\u{1b}]0;title\u{7}\u{202e}.png";
    photograph(&scratch.path(name), 20, 20);
    std::fs::write(scratch.path("b\u{1b}[2J.png"), "no image").unwrap();
    let output = restore(&scratch, &[".", "--level=1", "--steps=1", "--spread", "--seeds=0..2"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("1 of 2 images could not be restored"), "{said}");
    assert!(!said.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{said:?}");
    assert!(said.contains("a\\u{1b}]0;title"), "{said}");
}

#[test]
fn pipes_and_endless_files_as_image_kernel_mask_or_truth_are_refused_at_once() {
    let scratch = Scratch::new("photo-pipes");
    photograph(&scratch.path("photo.png"), 20, 20);
    for file in ["pipe.png", "pipe.json"] {
        assert!(Command::new("mkfifo").arg(scratch.path(file)).status().unwrap().success());
    }
    symlink("/dev/zero", scratch.path("zero.png")).unwrap();
    for file in ["pipe.png", "pipe.json", "zero.png", "/dev/zero"] {
        let cases: [&[&str]; 5] = [
            &[&MODEL, file],
            &["photo.png", "--kernel", file],
            &["photo.png", "--mask", file],
            &["photo.png", "--level=1", "--truth", file],
            &["photo.png", "--corruption=custom", "--map", file],
        ];
        for arguments in cases {
            let mut child = restore(&scratch, arguments).stderr(Stdio::piped()).spawn().unwrap();
            let begun = Instant::now();
            while child.try_wait().unwrap().is_none() {
                if begun.elapsed() > PATIENCE {
                    child.kill().unwrap();
                    panic!("{arguments:?} did not end");
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stderr));
        }
    }
}
