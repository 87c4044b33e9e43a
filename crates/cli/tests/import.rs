//! `softdiff import` as a user runs it, on the checkpoint of the official code.

use softdiff::model::Model;
use softdiff::sampler::Denoiser;
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

const CIFAR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../diffusion/tests/golden/cifar10-test-256.bin");

/// Trains one step of tiny.pth's network, with a rate too small to change a weight.
fn train(from: &Path, out: &Path, more: &[&str]) -> Output {
    let (from, out) = (format!("train.from={}", from.display()), out.display().to_string());
    let source = format!("data.source={CIFAR}");
    let sets = [
        &*from,
        &source,
        "train.steps=1",
        "train.batch=2",
        "train.rate=1e-30",
        "train.ema=[0.5]",
        "preview.every=false",
        "train.precision=f32",
        "checkpoint.keep_best=0",
        "network.channels=8",
        "network.multipliers=[1, 2]",
        "network.blocks=1",
        "network.dropout=0",
        "sample.weights=ema-0.5",
    ];
    let sets = sets.iter().chain(more).flat_map(|set| ["--set", set]);
    softdiff(&["train", "ve", "--out", &out, "--device", "cpu"].into_iter().chain(sets).collect::<Vec<_>>())
}

/// A tensor of a safetensors file.
fn tensor(path: impl AsRef<Path>, name: &str) -> Vec<f32> {
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()));
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let facts: serde_json::Value = serde_json::from_slice(&bytes[8..header]).unwrap();
    let at = |i: usize| header + facts[name]["data_offsets"][i].as_u64().unwrap() as usize;
    bytes[at(0)..at(1)].chunks(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn training_goes_on_with_the_imported_weights_average_and_moments() {
    let root = folder("goes-on");
    let weights = root.join("tiny.safetensors");
    let run = softdiff(&["import", TINY, "--out", weights.to_str().unwrap()]);
    assert!(text(&run.stderr).contains("Adam's moments, for train.from="), "{}", text(&run.stderr));
    let trained = train(&weights, &root.join("run"), &[]);
    assert!(trained.status.success(), "{}", text(&trained.stderr));
    assert!(text(&trained.stderr).contains("Adam's moments after 3 updates"), "{}", text(&trained.stderr));
    let checkpoint = root.join("run/checkpoints/step-000000001");
    let state: serde_json::Value = serde_json::from_slice(&fs::read(checkpoint.join("state.json")).unwrap()).unwrap();
    assert_eq!((&state["updates"], &state["step"]), (&4.into(), &1.into()));
    // The bias has one layout in both; three steps of the official code left these numbers.
    let official = softdiff::import::ScoreSdeCheckpoint::read(TINY).unwrap();
    let name = "all_modules.1.bias";
    let raw = &official.model.iter().find(|(known, _)| known == name).unwrap().1.data;
    let average = &official.ema.iter().find(|(known, _)| known == name).unwrap().1.data;
    let moments = official.adam.as_ref().unwrap().moments.iter().find(|moments| moments.name == name).unwrap();
    let ours = ours_of(&weights, average);
    assert_eq!(&tensor(checkpoint.join("params.safetensors"), &ours), raw);
    // Half of the way from the average to the weights.
    let expected: Vec<f32> = average.iter().zip(raw).map(|(a, w)| a - 0.5 * (a - w)).collect();
    assert_eq!(tensor(checkpoint.join("ema-0.5.safetensors"), &ours), expected);
    // v' = 0.999 v + 0.001 g^2 is never below 0.999 v.
    let second = tensor(checkpoint.join("adam.safetensors"), &format!("second.{ours}"));
    assert!(moments.second.data.iter().any(|v| *v > 0.0));
    assert!(second.iter().zip(&moments.second.data).all(|(now, before)| *now >= 0.9989 * before), "{second:?}");
    // A cool-down counts from the first update, which is past.
    let refused = train(&weights, &root.join("cooled"), &["train.cooldown=1"]);
    assert!(text(&refused.stderr).contains("set train.cooldown = 0"), "{}", text(&refused.stderr));
    // Without the optimiser's state, training begins anew with the average.
    let only = root.join("only.safetensors");
    assert!(softdiff(&["import", TINY, "--weights-only", "--out", only.to_str().unwrap()]).status.success());
    assert!(!root.join("only.train.safetensors").exists());
    let trained = train(&only, &root.join("anew"), &[]);
    assert!(trained.status.success(), "{}", text(&trained.stderr));
    assert_eq!(&tensor(root.join("anew/checkpoints/step-000000001/params.safetensors"), &ours), average);
}

#[test]
fn a_run_that_goes_on_predicts_what_the_imported_network_predicts() {
    let root = folder("predicts");
    let weights = root.join("tiny.safetensors");
    let arguments = ["import", TINY, "--weights", "model", "--out", weights.to_str().unwrap()];
    assert!(softdiff(&arguments).status.success());
    let predicted = |place: &Path| {
        let model = Model::open(place, Some("raw".parse().unwrap())).unwrap();
        let device = softdiff::engine::Device::open("cpu").unwrap();
        let mut denoiser = model.denoiser(&device, 1, softdiff::engine::Precision::F32).unwrap();
        let x: Vec<f64> = (0..3072).map(|i| (i * 37 % 101) as f64 / 100.0).collect();
        [0.1, 0.5, 0.9].map(|t| denoiser.x0_hat(&x, t).unwrap())
    };
    let imported = predicted(&weights);
    let error = |run: &Path| {
        let found = predicted(run);
        let square = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let errors = imported.iter().zip(&found).map(|(a, b)| (square(a, b) / square(a, &[0.0; 3072])).sqrt());
        errors.fold(0.0, f64::max)
    };
    let (told, untold) = (root.join("told"), root.join("untold"));
    let trained = train(&weights, &told, &["network.condition=log-sigma"]);
    assert!(
        trained.status.success() && !text(&trained.stderr).contains("is told the time"),
        "{}",
        text(&trained.stderr)
    );
    assert!(error(&told) < 1e-4, "{}", error(&told));
    // Told the time instead, it is another function; the run says so.
    let trained = train(&weights, &untold, &[]);
    assert!(text(&trained.stderr).contains(r#"expects network.condition = "log-sigma""#), "{}", text(&trained.stderr));
    assert!(error(&untold) > 1e-3, "{}", error(&untold));
}

/// Our name of the tensor with these values.
fn ours_of(weights: &Path, values: &[f32]) -> String {
    let bytes = fs::read(weights).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let facts: serde_json::Value = serde_json::from_slice(&bytes[8..header]).unwrap();
    let names = facts.as_object().unwrap().keys().filter(|name| *name != "__metadata__");
    let mut same = names.filter(|name| tensor(weights, name) == values);
    same.next().unwrap().clone()
}

#[test]
fn weights_of_another_network_are_refused_with_the_shapes_that_differ() {
    let root = folder("differs");
    let weights = root.join("tiny.safetensors");
    assert!(softdiff(&["import", TINY, "--out", weights.to_str().unwrap()]).status.success());
    let refused = train(&weights, &root.join("run"), &["network.channels=16"]);
    let said = text(&refused.stderr);
    assert!(
        said.contains("[32, 16] there and [64, 32] here") && said.contains("give train.from a model with the same"),
        "{said}"
    );
}
