//! `softdiff eval` as a user runs it, with metrics that need no network, and what it says about bad input.

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// 256 CIFAR-10 test images.
fn pictures() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diffusion/tests/golden/cifar10-test-256.bin");
    path.to_str().unwrap().into()
}

fn softdiff(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softdiff"));
    command.args(arguments).env("SOFTDIFF_INCEPTION", "").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_result_says_how_it_was_measured_and_unlike_results_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let pictures = pictures();
    let common = ["--against", &pictures, "--metrics", "sliced-wasserstein,memorisation", "--directions", "20"];
    for (name, limit, seed) in
        [("a.json", "100", "0"), ("b.json", "100", "0"), ("c.json", "90", "0"), ("d.json", "100", "1")]
    {
        let out = at(name);
        let own = ["eval", pictures.as_str(), "--limit", limit, "--seed", seed, "--out", &out, "--json"];
        let neighbours = at("neighbours.png");
        let run = softdiff(&[&own[..], &common[..], &["--show-neighbours", &neighbours]].concat());
        assert!(run.status.success(), "{}", text(&run.stderr));
        let result: Value = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!(result["results"]["memorisation"]["details"]["copies"].to_string(), limit);
        assert_eq!(result["results"]["memorisation"]["value"], 1.0);
        assert_eq!(result["protocol"]["reference"]["count"], 256);
        assert_eq!(result["protocol"]["images"]["size"], serde_json::json!([32, 32, 3]));
        assert_eq!(result["protocol"]["options"]["sliced_wasserstein"]["directions"], 20);
    }
    assert_eq!(&std::fs::read(at("neighbours.png")).unwrap()[1..4], b"PNG");
    let same = softdiff(&["eval", "compare", &at("a.json"), &at("b.json"), "--json"]);
    assert!(same.status.success(), "{}", text(&same.stderr));
    assert_eq!(serde_json::from_slice::<Value>(&same.stdout).unwrap()["metrics"].as_array().unwrap().len(), 2);
    for (other, field) in [("c.json", "images.count is 100"), ("d.json", "options.sliced_wasserstein.seed is 0")] {
        let refused = softdiff(&["eval", "compare", &at("a.json"), &at(other)]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1));
        assert!(said.contains(field) && said.contains("hint: measure both with the same options"), "{said}");
    }
}

#[test]
fn bad_input_is_named_with_a_remedy() {
    let pictures = pictures();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    std::fs::write(at("result.json"), "{}").unwrap();
    std::fs::write(at("network.pth"), "not weights").unwrap();
    let broken = at("network.pth");
    let against = ["--against", pictures.as_str()];
    let pixels = ["--metrics", "sliced-wasserstein"];
    let cases = [
        (vec!["eval", &pictures, "--against", &pictures], "need the FID network", "softdiff data fetch fid-inception"),
        (
            [&["eval", &pictures, "--network", "no/such.pth"][..], &against].concat(),
            "there is no network file no/such.pth",
            "softdiff data fetch fid-inception",
        ),
        (
            [&["eval", &pictures, "--network", &broken][..], &against].concat(),
            "not a safetensors file",
            "give inception-2015-12-05.safetensors",
        ),
        (
            [&["eval", "embedded:fashion-mnist", "--limit", "9"][..], &against, &pixels].concat(),
            "images of 28 x 28 x 1 cannot be compared with images of 32 x 32 x 3",
            "give --size",
        ),
        ([&["eval", "no/such/folder"][..], &against, &pixels].concat(), "cannot read", "check the path"),
        (
            [&["eval", &pictures, "--limit", "3", "--metrics", "pairs"][..], &against].concat(),
            "one set has 3 and the other 256",
            "give equally many",
        ),
        (
            [&["eval", &pictures, "--against-limit", "1", "--metrics", "memorisation"][..], &against].concat(),
            "of 1 images cannot be computed",
            "give at least 2",
        ),
        (vec!["eval", "compare", "a.json", "b.json"], "cannot read a.json", "check the path"),
    ];
    for (arguments, problem, hint) in cases {
        let failed = softdiff(&arguments);
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(problem), "{arguments:?}: {said}");
        assert!(said.lines().any(|line| line.starts_with("hint:") && line.contains(hint)), "{arguments:?}: {said}");
        assert!(failed.stdout.is_empty());
    }
    let none = softdiff(&["eval", "compare", &at("result.json"), &at("result.json")]);
    assert!(text(&none.stderr).contains("is no result of softdiff eval"));
    assert_eq!(softdiff(&["eval", &pictures]).status.code(), Some(2), "--against is required");
}

#[test]
fn equal_pictures_have_full_similarity_and_the_help_has_examples() {
    let pictures = pictures();
    let run = softdiff(&["eval", &pictures, "--against", &pictures, "--metrics", "pairs", "--json"]);
    let result: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!((result["results"]["ssim"]["value"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(result["results"]["psnr"]["value"], 100.0);
    assert!(text(&softdiff(&["eval", "--help"]).stdout).contains("Example:"));
}

#[test]
fn pictures_that_are_all_equal_are_measured_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("black")).unwrap();
    for name in ["black/1.ppm", "black/2.ppm"] {
        std::fs::write(folder.path().join(name), [&b"P6 32 32 255\n"[..], &[0; 3072]].concat()).unwrap();
    }
    let black = folder.path().join("black").to_str().unwrap().to_string();
    let run = softdiff(&["eval", &black, "--against", &pictures(), "--metrics", "sliced-wasserstein", "--json"]);
    let result: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(result["warnings"], serde_json::json!(["all generated images are equal"]), "{}", text(&run.stderr));
    assert!(result["results"]["sliced_wasserstein"]["value"].as_f64().unwrap() > 0.1);
}

/// The whole way from pictures to FID; 64 pictures take some ten seconds on two cores.
#[test]
fn fid_with_the_network_is_that_of_the_saved_statistics() {
    let Some(network) = std::env::var_os("SOFTDIFF_INCEPTION") else {
        eprintln!("skipped: set SOFTDIFF_INCEPTION to the FID network; docs/evaluation.md says where to get it");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (pictures, statistics) = (pictures(), folder.path().join("reference.npz"));
    let run = |against: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_softdiff"));
        let limit: &[&str] = if more.contains(&"--limit") { &[] } else { &["--limit", "24"] };
        command.args(["eval", &pictures, "--against", against, "--json"]).args(limit).args(more);
        let run = command.env("SOFTDIFF_CACHE", folder.path()).env("SOFTDIFF_INCEPTION", &network).output().unwrap();
        let result: Result<Value, _> = serde_json::from_slice(&run.stdout);
        (result.map_or(f64::NAN, |result| result["results"]["fid"]["value"].as_f64().unwrap()), text(&run.stderr))
    };
    let statistics = statistics.to_str().unwrap();
    let (first, said) = run(&pictures, &["--against-limit", "40", "--save-statistics", statistics]);
    assert!(first.is_finite(), "{said}");
    // Once from the cache and once from the file.
    for (against, more) in [(pictures.as_str(), &["--against-limit", "40"][..]), (statistics, &[])] {
        let (again, said) = run(against, more);
        assert!((again - first).abs() < 1e-6 * first, "{again} against {first}: {said}");
    }
    let (_, said) = run(statistics, &["--preset", "tensorflow"]);
    assert!(said.contains("were made with preset pytorch-fid, not tensorflow"), "{said}");
    let (_, said) = run(&pictures, &["--limit", "1"]);
    assert!(said.contains("of 1 images cannot be computed") && said.contains("hint: give at least 2"), "{said}");
}

#[test]
fn the_likelihood_of_a_model_is_measured_in_bits_per_dimension() {
    let scratch = support::Scratch::new("eval-likelihood");
    let run = support::tiny_run(&scratch);
    let arguments = ["eval", &run, "--metrics", "likelihood", "--against", "embedded:fashion-mnist", "--size", "16"];
    let few = ["--against-limit", "3", "--tolerance", "1e-2", "--device", "cpu"];
    let result: Value = serde_json::from_str(&support::done(&[&arguments[..], &few, &["--json"]].concat())).unwrap();
    let measured = &result["results"]["bits_per_dimension"];
    assert!(measured["value"].as_f64().unwrap().is_finite() && measured["error"].as_f64().unwrap() > 0.0, "{measured}");
    assert_eq!(result["protocol"]["options"]["bits_per_dimension"]["probes"], 1);
    assert_eq!(result["protocol"]["reference"]["count"], 3);
    let said = support::done(&[&arguments[..], &few].concat());
    assert!(said.starts_with("3 images of") && said.contains("bits_per_dimension"), "{said}");
    for (more, problem, hint) in [
        (vec!["--metrics", "likelihood,fid"], "of a model", "measure it alone"),
        (vec!["--metrics", "likelihood", "--size", "8"], "16 x 16 x 1", "8 x 8 x 1"),
        (vec!["--metrics", "likelihood", "--probes", "0"], "the number of probes", "at least one"),
    ] {
        let start = ["eval", &run, "--against", "embedded:fashion-mnist", "--against-limit", "2", "--device", "cpu"];
        let side: &[&str] = if more.contains(&"--size") { &[] } else { &["--size", "16"] };
        let failed = softdiff(&[&start[..], side, &more].concat());
        let said = text(&failed.stderr);
        assert!(failed.status.code() == Some(1) && said.contains(problem) && said.contains(hint), "{said}");
    }
}
