//! `softdiff sample`, `eval` and the scores of `train`, shared by processes under the real `mpirun` of Open MPI and MPICH, where
//! they are installed.
#![cfg(target_os = "linux")]

mod support;

use serde_json::Value;
use softdiff::inception::random_weights;
use std::process::Output;
use std::time::Duration;
use support::mpirun::{ended, launchers, lose_rank_1, mpirun, process_of, signal, succeed};
use support::{Scratch, bytes, command, done, text, tiny, tiny_run};

/// Runs a command in several processes, of which rank 0 alone may say that it wrote a file.
fn share(launcher: &str, ranks: usize, arguments: &[&str]) -> Output {
    let output = succeed(mpirun(launcher, ranks, arguments));
    assert!(text(&output.stderr).matches("wrote ").count() <= 1, "{}", text(&output.stderr));
    output
}

#[test]
fn sampled_files_are_those_of_one_process_byte_by_byte() {
    let scratch = Scratch::new("mpirun-sample");
    let run = tiny_run(&scratch);
    // 37 images are no multiple of the ranks; two images at a time take several rounds.
    let sample = |out: &str| {
        let words = ["sample", &run, "--device=cpu", "--seeds=0..37", "--batch=2", "--out", out];
        words.map(str::to_owned)
    };
    let compare = |name: &str, command: &dyn Fn(&str) -> Vec<String>, files: &[&str]| {
        let of = |out: &str| command(out);
        let alone = scratch.path(&format!("alone-{name}"));
        done(&of(&alone).iter().map(String::as_str).collect::<Vec<_>>());
        for (launcher, ranks) in launchers().into_iter().zip([2, 4]) {
            let together = scratch.path(&format!("{}-{name}", launcher.replace('.', "-")));
            let words = of(&together);
            share(launcher, ranks, &words.iter().map(String::as_str).collect::<Vec<_>>());
            for file in files {
                assert!(
                    bytes(format!("{together}{file}")) == bytes(format!("{alone}{file}")),
                    "{launcher} {name}{file}"
                );
            }
        }
    };
    for name in ["grid.png", "images.npz", "images.zip"] {
        compare(name, &|out| sample(out).to_vec(), &[""]);
    }
    compare("folder", &|out| sample(out).to_vec(), &["/00000000.png", "/00000018.png", "/00000036.png"]);
    // Rank 0 alone makes these.
    compare(
        "film.gif",
        &|out| ["sample", &run, "--device=cpu", "--seeds=0..3", "--film", out].map(str::to_owned).to_vec(),
        &[""],
    );
    // A part of the seeds is shared as well.
    compare("part.npz", &|out| [&sample(out)[..], &["--only=2/3".to_owned()]].concat(), &[""]);
}

/// The FID network with random weights, as a file.
fn random_network(scratch: &Scratch) -> String {
    let file = scratch.path("random.safetensors");
    std::fs::write(&file, random_weights(1).unwrap()).unwrap();
    file
}

#[test]
fn metrics_of_features_are_those_of_one_process_to_the_last_digit() {
    let scratch = Scratch::new("mpirun-eval");
    let (run, network) = (tiny_run(&scratch), random_network(&scratch));
    let images = scratch.path("images.npz");
    done(&["sample", &run, "--device=cpu", "--seeds=0..9", "--out", &images]);
    let eval = |name: &str| {
        // FID infinity needs a hundred images, and is computed from the same features.
        let options = "--device=cpu --size=16 --against=embedded:fashion-mnist --against-limit=11 --kid-subset-size=5 \
                       --kid-subsets=4 --neighbours=3 --json --metrics=fid,kid,prdc,feature-memorisation,memorisation";
        let places =
            [("--network", network.clone()), ("--save-statistics", scratch.path(&format!("{name}-statistics.npz")))];
        let mut words: Vec<String> =
            ["eval", &images].into_iter().chain(options.split(' ')).map(str::to_owned).collect();
        words.extend(places.into_iter().flat_map(|(flag, place)| [flag.to_owned(), place]));
        words
    };
    let results = |output: &Output| {
        let facts: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        assert!(output.status.success(), "{facts}");
        assert!(facts["results"]["fid"]["value"].as_f64().unwrap() > 0.0, "{facts}");
        [facts["results"].clone(), facts["protocol"].clone(), facts["warnings"].clone()]
    };
    let words = eval("alone");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = command(&words).env("SOFTDIFF_CACHE", scratch.path("cache")).output().unwrap();
    let alone = results(&output);
    for (launcher, ranks) in launchers().into_iter().zip([2, 4]) {
        let words = eval(launcher);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // The features of the reference are computed, then those of the cache are taken.
        for _ in 0..2 {
            let mut command = mpirun(launcher, ranks, &words);
            command.env("SOFTDIFF_CACHE", scratch.path(&format!("{launcher}-cache")));
            assert_eq!(results(&succeed(command)), alone, "{launcher}");
            let statistics = |name: &str| bytes(scratch.path(&format!("{name}-statistics.npz")));
            assert!(statistics(launcher) == statistics("alone"), "{launcher}");
        }
    }
}

#[test]
fn metrics_without_a_network_and_likelihood_are_measured_by_rank_0_alone() {
    let scratch = Scratch::new("mpirun-likelihood");
    let run = tiny_run(&scratch);
    let data = ["--against=embedded:fashion-mnist", "--against-limit=2", "--size=16"];
    let likelihood = [&["eval", &run, "--metrics=likelihood", "--device=cpu", "--tolerance=0.1"], &data[..]].concat();
    let images = scratch.path("images.npz");
    done(&["sample", &run, "--device=cpu", "--seeds=0..2", "--out", &images]);
    let pixels = [&["eval", &images, "--metrics=sliced-wasserstein,pairs", "--device=cpu"], &data[..]].concat();
    for words in [likelihood, pixels] {
        let alone = done(&words);
        for launcher in launchers() {
            assert_eq!(text(&share(launcher, 2, &words).stdout), alone, "{launcher}");
        }
    }
}

#[test]
fn scores_by_fid_and_previews_of_a_training_are_those_of_one_process() {
    let scratch = Scratch::new("mpirun-scores");
    let network = random_network(&scratch);
    let sets = [
        "--set=train.batch=8",
        "--set=train.accumulate=8",
        "--set=data.limit=16",
        "--set=checkpoint.keep_best=1",
        "--set=checkpoint.metric=fid",
        "--set=checkpoint.images=5",
        "--set=preview.images=3",
    ];
    let environment = |name: &str| [("SOFTDIFF_INCEPTION", network.clone()), ("SOFTDIFF_CACHE", scratch.path(name))];
    let alone = scratch.path("alone");
    let output = command(&tiny(&alone, &sets)).envs(environment("cache")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let events = text(&bytes(format!("{alone}/events.jsonl")));
    assert_eq!(events.matches("\"metric\":\"fid\"").count(), 2, "{events}");
    for (launcher, ranks) in launchers().into_iter().zip([2, 4]) {
        let run = scratch.path(launcher);
        let mut command = mpirun(launcher, ranks, &tiny(&run, &sets));
        // Rank 0's network is enough.
        command.envs(environment(&format!("{launcher}-cache")));
        succeed(command);
        for file in ["events.jsonl", "samples/preview-000000004.png", "samples/preview-000000008.png"] {
            assert!(bytes(format!("{run}/{file}")) == bytes(format!("{alone}/{file}")), "{launcher} {file}");
        }
    }
}

/// The arguments of a command that makes more images than anybody waits for.
fn endless<'a>(run: &'a str, out: &'a str) -> [&'a str; 7] {
    ["sample", run, "--device=cpu", "--seeds=0..1000000", "--steps=50", "--out", out]
}

#[test]
fn when_a_rank_dies_or_hangs_while_images_are_made_the_others_end_within_15_seconds_and_name_it() {
    let scratch = Scratch::new("mpirun-sample-lost");
    let run = tiny_run(&scratch);
    for launcher in launchers() {
        let out = scratch.path(&launcher.replace('.', "-"));
        let child = mpirun(launcher, 2, &endless(&run, &out)).spawn().unwrap();
        lose_rank_1(launcher, child, &out, &|| std::fs::read_dir(&out).is_ok_and(|mut files| files.next().is_some()));
    }
}

#[test]
fn a_signal_to_any_rank_ends_all_and_leaves_no_half_file() {
    let scratch = Scratch::new("mpirun-sample-stop");
    let run = tiny_run(&scratch);
    for (launcher, rank) in launchers().into_iter().zip([0, 1]) {
        let folder = scratch.path(launcher);
        std::fs::create_dir(&folder).unwrap();
        let out = format!("{folder}/images.npz");
        let child = mpirun(launcher, 2, &endless(&run, &out)).spawn().unwrap();
        let has_begun = || std::fs::read_dir(&folder).is_ok_and(|mut files| files.next().is_some());
        signal("-TERM", process_of(rank, &out, &has_begun));
        let output = ended(child, Duration::from_secs(30));
        let said = text(&output.stderr) + &text(&output.stdout);
        assert_eq!(output.status.code(), Some(75), "{launcher}: {said}");
        assert!(said.contains("stopped by SIGTERM") && !said.contains(" died"), "{launcher}: {said}");
        assert!(!has_begun(), "{launcher}: {said}");
    }
}

#[test]
fn sample_and_eval_without_mpi_and_gpus_are_refused_with_what_to_do() {
    for words in [vec!["sample", "model", "--device=cpu"], vec!["eval", "images", "--against=data", "--device=cpu"]] {
        let output = command(&words).envs([("RANK", "1"), ("WORLD_SIZE", "2")]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(said.contains("torchrun started 2 processes") && said.contains("mpirun -n 2 softdiff ..."), "{said}");
    }
}
