//! `softdiff data fetch` against a server on this machine, and data that is known by its name.

#[path = "../../fetch/tests/support/mod.rs"]
mod server;
mod support;

use server::{Manners, Server};
use std::path::Path;
use std::process::{Command, Output};
use support::{Scratch, command, text};

/// The smallest file of Fashion-MNIST, as published; it is fetched first.
const LABELS: &[u8] = include_bytes!("golden/fashion-mnist/t10k-labels-idx1-ubyte.gz");
const LABELS_FILE: &str = "fashion-mnist/t10k-labels-idx1-ubyte.gz";
const CIFAR: &[u8] = include_bytes!("../../diffusion/tests/golden/cifar10-test-256.bin");

/// The program with this data folder and server, and nothing of the user's own.
fn with_data(scratch: &Scratch, mirror: &str, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.env("SOFTDIFF_DATA", scratch.path("data")).env("SOFTDIFF_MIRROR", mirror).env("SOFTDIFF_INCEPTION", "");
    command.current_dir(scratch.path("")).env("SOFTDIFF_CACHE", scratch.path("cache")).env("NO_PROXY", "*");
    command
}

fn run(scratch: &Scratch, mirror: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = with_data(scratch, mirror, arguments).output().unwrap();
    (status.code(), text(&stdout), text(&stderr))
}

/// A folder of CIFAR-10 with 256 records in each batch.
fn small_cifar10(scratch: &Scratch) {
    let folder = scratch.path("data/cifar-10-batches-bin");
    std::fs::create_dir_all(&folder).unwrap();
    let names = (1..=5).map(|number| format!("data_batch_{number}.bin")).chain(["test_batch.bin".into()]);
    names.for_each(|name| std::fs::write(format!("{folder}/{name}"), CIFAR).unwrap());
}

const NOWHERE: &str = "http://127.0.0.1:1";

#[test]
fn a_published_file_is_fetched_verified_and_kept_while_the_rest_is_missing() {
    let scratch = Scratch::new("fetch");
    let server = Server::start(&[(LABELS_FILE, LABELS.to_vec())], Manners::default());
    let (code, out, said) = run(&scratch, &server.address, &["data", "fetch", "fashion-mnist"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("fetching fashion-mnist/t10k-labels-idx1-ubyte.gz, 0.005 MB"), "{said}");
    assert!(said.contains("error: cannot fetch") && said.contains("status 404"), "{said}");
    assert_eq!(support::bytes(scratch.path(&format!("data/{LABELS_FILE}"))), LABELS);
    // The hint names the three that are still missing, from their publisher to their place.
    assert!(!said.contains("https://publisher") && said.matches("\n  to ").count() == 3, "{said}");
    let train = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images-idx3-ubyte.gz";
    assert!(
        said.contains(train) && said.contains(&scratch.path("data/fashion-mnist/train-images-idx3-ubyte.gz")),
        "{said}"
    );
    run(&scratch, &server.address, &["data", "fetch", "fashion-mnist"]);
    let labels = server.requests().iter().filter(|path| path.contains("t10k-labels")).count();
    assert_eq!(labels, 1, "it is not fetched again");
}

#[test]
fn failures_are_said_in_json_too() {
    let scratch = Scratch::new("fetch-json");
    let (code, out, _) = run(&scratch, NOWHERE, &["data", "fetch", "mnist", "--json"]);
    let facts: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &facts["code"]), (Some(1), &1.into()));
    assert!(facts["hint"].as_str().unwrap().contains("SOFTDIFF_MIRROR"), "{out}");
    let (_, _, said) = run(&scratch, NOWHERE, &["data", "fetch", "cifar"]);
    assert!(said.contains("hint: did you mean cifar10?"), "{said}");
    let (_, _, said) = run(&scratch, "localhost", &["data", "fetch", "mnist"]);
    assert!(said.contains("SOFTDIFF_MIRROR is \"localhost\""), "{said}");
}

#[test]
fn a_wrong_file_is_refused_and_nothing_is_kept() {
    let scratch = Scratch::new("fetch-wrong");
    let mut wrong = LABELS.to_vec();
    wrong[4000] ^= 1;
    let server = Server::start(&[(LABELS_FILE, wrong)], Manners::default());
    let (code, _, said) = run(&scratch, &server.address, &["data", "fetch", "fashion-mnist"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("has the SHA-256") && said.contains("hint: nothing of it was kept"), "{said}");
    assert_eq!(std::fs::read_dir(scratch.path("data/fashion-mnist")).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_at_once_and_the_next_run_goes_on_there() {
    let scratch = Scratch::new("fetch-signal");
    let partial = scratch.path(&format!("data/{LABELS_FILE}.partial"));
    for (signal, code) in [("-TERM", 75), ("-INT", 130)] {
        let _ = std::fs::remove_file(&partial);
        let stalling = Server::start(
            &[(LABELS_FILE, LABELS.to_vec())],
            Manners { stalls_after: Some(3000), ..Manners::default() },
        );
        let mut child = with_data(&scratch, &stalling.address, &["data", "fetch", "fashion-mnist"]);
        let child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let begun = std::time::Instant::now();
        while std::fs::metadata(&partial).map_or(0, |partial| partial.len()) < 3000 {
            assert!(begun.elapsed().as_secs() < 30, "it never came to 3000 bytes");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let begun = std::time::Instant::now();
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert!(begun.elapsed().as_secs() < 10);
        assert_eq!(output.status.code(), Some(code));
        assert!(text(&output.stderr).contains("hint: run the same command again to continue"));
        assert_eq!(std::fs::metadata(&partial).unwrap().len(), 3000);
    }
    let server = Server::start(&[(LABELS_FILE, LABELS.to_vec())], Manners::default());
    run(&scratch, &server.address, &["data", "fetch", "fashion-mnist"]);
    assert_eq!(server.requests()[0], format!("/{LABELS_FILE} from 3000"));
    assert_eq!(support::bytes(scratch.path(&format!("data/{LABELS_FILE}"))), LABELS);
    assert!(!Path::new(&partial).exists());
}

#[test]
fn the_list_says_what_is_there_and_how_to_get_the_rest() {
    let scratch = Scratch::new("fetch-list");
    small_cifar10(&scratch);
    let (code, out, _) = run(&scratch, NOWHERE, &["data", "fetch", "list"]);
    assert_eq!(code, Some(0));
    assert!(out.contains(&scratch.path("data/cifar-10-batches-bin")), "{out}");
    assert!(out.contains("not here: softdiff data fetch fid-inception"), "{out}");
    let (_, out, _) = run(&scratch, NOWHERE, &["data", "fetch", "list", "--json"]);
    let facts: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&facts["data"][2]["name"], &facts["data"][2]["place"]), (&"mnist".into(), &serde_json::Value::Null));
    // These records are not the published ones, so they are not called verified.
    assert_eq!(run(&scratch, NOWHERE, &["data", "fetch", "cifar10"]).0, Some(1));
}

/// Every command that takes data, here by its name.
fn commands_with_data(model: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["data", "inspect", "cifar10"],
        vec!["data", "inspect", "cifar-10-batches-bin", "--split=test"],
        vec!["data", "prepare", "cifar10", "--out=prepared.npz", "--force"],
        vec!["corrupt", "cifar10", "--out=strip.png"],
        vec!["schedule", "cifar10", "--images=32", "--candidates=8", "--knots=4", "--out=schedule.json"],
        vec!["eval", "cifar10", "--split=test", "--against", "cifar10", "--metrics=sliced-wasserstein"],
        vec!["train", "cifar10-small", "--dry-run", "--out=run", "--device=cpu"],
        vec!["reproduce", "schedule-oracle", "--data", "cifar10", "--minutes=0.01", "--device=cpu"],
        vec![
            "restore",
            model,
            "cifar10",
            "--index=1",
            "--degrade",
            "--level=1",
            "--steps=1",
            "--out=r",
            "--device=cpu",
        ],
    ]
}

#[test]
fn every_command_finds_data_by_its_name_or_says_how_to_fetch_it() {
    let scratch = Scratch::new("fetch-names");
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/cifar10-small");
    for arguments in commands_with_data(model) {
        let (code, _, said) = run(&scratch, NOWHERE, &arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("hint: softdiff data fetch cifar10\n"), "{arguments:?}: {said}");
    }
    small_cifar10(&scratch);
    for arguments in commands_with_data(model).into_iter().filter(|arguments| arguments[0] != "reproduce") {
        let (code, _, said) = run(&scratch, NOWHERE, &arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
    }
    // Without the network, FID is a command away.
    let (_, _, said) = run(&scratch, NOWHERE, &["eval", "cifar10", "--against", "cifar10", "--metrics=fid"]);
    assert!(said.contains("hint: softdiff data fetch fid-inception"), "{said}");
    let (_, _, said) = run(&scratch, NOWHERE, &["data", "inspect", "cifar-10"]);
    assert!(said.contains("hint: did you mean cifar10?"), "{said}");
}

#[test]
fn a_folder_of_that_name_comes_before_fetched_data() {
    let scratch = Scratch::new("fetch-own");
    std::fs::create_dir(scratch.path("cifar10")).unwrap();
    support::photograph(&scratch.path("cifar10/own.png"), 40, 30);
    let (_, out, said) = run(&scratch, NOWHERE, &["data", "inspect", "cifar10"]);
    assert!(out.contains("40 x 30"), "{out}{said}");
}
