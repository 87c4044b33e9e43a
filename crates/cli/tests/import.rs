//! `softdiff import` as a user runs it, on the checkpoint of the official code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../softdiff/tests/golden/ncsnpp/tiny.pth");
const TINY_EMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../softdiff/tests/golden/ncsnpp/tiny.ema.safetensors");

fn softdiff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_softdiff")).args(arguments).output().unwrap()
}

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The numbers after the header, which follow the order of the names.
fn numbers(path: impl AsRef<Path>) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + header..].to_vec()
}

#[test]
fn the_average_is_written_as_python_would() {
    let out = folder("average").join("tiny.safetensors");
    let run = softdiff(&["import", TINY, "--names", "official", "--out", out.to_str().unwrap()]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(run.stdout.is_empty());
    assert!(text(&run.stderr).contains("ema weights of step 3, 157 tensors"));
    assert!(numbers(&out) == numbers(TINY_EMA));
    let header = fs::read(&out).unwrap();
    for fact in [r#""format":"score_sde""#, r#""source":"tiny.pth""#, r#""step":"3""#, r#""ema_decay":"0.999""#] {
        assert!(header.windows(fact.len()).any(|window| window == fact.as_bytes()), "{fact}");
    }
    assert_eq!(fs::read_dir(out.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn the_trained_weights_are_others_and_json_is_one_object() {
    let out = folder("model").join("tiny.safetensors");
    let run = softdiff(&[
        "import",
        TINY,
        "--names",
        "official",
        "--weights",
        "model",
        "--json",
        "--out",
        out.to_str().unwrap(),
    ]);
    let facts: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(facts["weights"], "model");
    assert_eq!(facts["tensors"], 157);
    assert!(run.stderr.is_empty());
    assert!(numbers(&out) != numbers(TINY_EMA));
}

#[test]
fn by_default_the_weights_get_our_names_and_the_network_is_told() {
    let out = folder("ours").join("tiny.safetensors");
    let run = softdiff(&["import", TINY, "--out", out.to_str().unwrap()]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let bytes = fs::read(&out).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let network: serde_json::Value = serde_json::from_str(header["__metadata__"]["network"].as_str().unwrap()).unwrap();
    assert_eq!((&network["channels"], &network["image_size"]), (&8.into(), &32.into()));
    assert_eq!(header["down.0.res.0.conv0.weight"]["shape"], serde_json::json!([8, 3, 3, 8]));
    assert_eq!(header["middle.attention.query.weight"]["shape"], serde_json::json!([16, 1, 1, 16]));
}

#[test]
fn an_existing_file_is_replaced_only_by_force() {
    let out = folder("existing").join("precious.safetensors");
    fs::write(&out, "precious").unwrap();
    let arguments = ["import", TINY, "--names", "official", "--out", out.to_str().unwrap()];
    let run = softdiff(&arguments);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("exists already\nhint: choose another --out, or add --force"));
    assert_eq!(fs::read(&out).unwrap(), b"precious");
    assert!(softdiff(&[&arguments[..], &["--force"]].concat()).status.success());
    assert!(numbers(&out) == numbers(TINY_EMA));
}

#[test]
fn the_checkpoint_itself_is_never_replaced() {
    let copy = folder("itself").join("tiny.pth");
    fs::copy(TINY, &copy).unwrap();
    let copy = copy.to_str().unwrap();
    let run = softdiff(&["import", copy, "--out", copy, "--force"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("is the checkpoint itself"));
    assert!(fs::read(copy).unwrap() == fs::read(TINY).unwrap());
}

#[test]
fn inspect_shows_the_facts_and_every_parameter() {
    let run = softdiff(&["import", TINY, "--inspect"]);
    let table = text(&run.stdout);
    for line in [
        "step        3\n",
        "ema         decay 0.999, 3 updates\n",
        "adam        lr 0.002, betas 0.9 and 0.999, eps 1e-8, weight decay 0, step 3, 156 parameters\n",
        "sigmas      1000 levels, 49.99999999999999 to 0.010000000000000004\n",
        "all_modules.4.Conv_0.weight        8 x 8 x 3 x 3\n",
    ] {
        assert!(table.contains(line), "{line}\n{table}");
    }
    let json = softdiff(&["import", TINY, "--inspect", "--json"]);
    let facts: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(facts["adam"]["lr"], 0.002);
    assert_eq!(facts["parameters"].as_array().unwrap().len(), 157);
}

#[test]
fn a_bad_file_gives_the_reason_and_a_hint() {
    let bad = folder("bad").join("bad.pth");
    fs::write(&bad, "no checkpoint").unwrap();
    let run = softdiff(&["import", bad.to_str().unwrap(), "--inspect"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).starts_with("error: not a zip archive"));
    assert!(text(&run.stderr).contains("\nhint: "));
    let missing = softdiff(&["import", "no/such.pth", "--inspect"]);
    assert!(text(&missing.stderr).contains("cause: "));
    assert!(text(&missing.stderr).contains("hint: check the path"));
}

#[test]
fn neither_out_nor_inspect_is_bad_usage() {
    assert_eq!(softdiff(&["import", TINY]).status.code(), Some(2));
}

#[test]
fn imported_weights_make_images() {
    let folder = folder("images");
    let (weights, grid) = (folder.join("tiny.safetensors"), folder.join("grid.png"));
    let (weights, grid) = (weights.to_str().unwrap(), grid.to_str().unwrap());
    assert!(softdiff(&["import", TINY, "--out", weights, "--image-size", "16"]).status.success());
    let few = ["--seeds", "0..2", "--steps", "3", "--device", "cpu", "--out", grid, "--json"];
    let run = softdiff(&[&["sample", weights, "--sampler", "reverse-diffusion"], &few[..]].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    let facts: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((&facts["model"], &facts["step"]), (&"tiny".into(), &3.into()));
    softdiff::image::decode(&fs::read(grid).unwrap()).unwrap();
    let refused = softdiff(&["sample", TINY_EMA]);
    assert!(text(&refused.stderr).contains("does not say which network"), "{}", text(&refused.stderr));
    let refused = softdiff(&["sample", TINY]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("hint:"), "{}", text(&refused.stderr));
}
