//! `softdiff reproduce`, at budgets of seconds.

mod support;

use serde_json::Value;
use support::{Scratch, TINY, done, softdiff, text};

/// The tiny recipe without what an experiment decides.
fn tiny<'a>(name: &'a str, out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let sets = TINY.iter().copied().filter(|set| !set.contains("preview.") && !set.contains("sample."));
    let sets: Vec<&str> = sets.collect();
    [&["reproduce", name, "--out", out], &sets[..], more].concat()
}

fn reproduce(name: &str, out: &str, more: &[&str]) -> Value {
    let all = [&tiny(name, out, &[]), more, &["--json"]].concat();
    serde_json::from_str::<Value>(&done(&all)).unwrap()["results"].clone()
}

fn read(path: String) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_experiment_is_listed_and_a_slip_is_answered_with_the_nearest() {
    let listed = done(&["reproduce", "list"]);
    let names = listed.lines().filter(|line| !line.starts_with(' ')).count();
    assert!(names == 13 && listed.contains("Table 1") && listed.contains("4 trainings, 6 measurements"), "{listed}");
    let failed = softdiff(&["reproduce", "sampler-abalation"]);
    let said = text(&failed.stderr);
    assert!(failed.status.code() == Some(1) && said.contains("hint: did you mean sampler-ablation?"), "{said}");
    let failed = softdiff(&["reproduce", "results", "--data", "a", "--data", "b"]);
    assert!(text(&failed.stderr).contains("hint: give --data once"));
    let failed = softdiff(&["reproduce", "results", "--minutes", "0"]);
    assert!(text(&failed.stderr).contains("minutes above zero"));
    assert_eq!(softdiff(&["reproduce", "results", "--minutes", "1", "--images", "2M"]).status.code(), Some(2));
    let mut command = support::command(&["reproduce", "results", "--metric", "fid"]);
    let failed = command.env("SOFTDIFF_INCEPTION", "").output().unwrap();
    assert!(text(&failed.stderr).contains("hint: softdiff data fetch fid-inception, or give --network FILE"));
}

#[test]
fn an_experiment_trains_equal_models_measures_them_and_keeps_what_is_done() {
    let scratch = Scratch::new("reproduce-loss");
    let out = scratch.path("out");
    let flags = ["--images", "16", "--samples", "4", "--metric", "sliced-wasserstein"];
    let first = reproduce("loss-ablation", &out, &flags);
    let rows = first["rows"].as_array().unwrap();
    assert_eq!((first["steps"].clone(), rows.len()), (4.into(), 2));
    for (row, name) in rows.iter().zip(["soft", "clean"]) {
        assert_eq!((row["variant"].as_str(), row["train_steps"].as_u64()), (Some(name), Some(4)));
        assert_eq!((row["images_seen"].as_u64(), row["evaluations"].as_u64()), (Some(16), Some(30)));
        assert!(row["value"].as_f64().unwrap() > 0.0);
    }
    let folder = format!("{out}/loss-ablation");
    assert!(read(format!("{folder}/results.md")).contains("| clean | momentum | 30 | 30 |"));
    assert_eq!(read(format!("{folder}/results.csv")).lines().count(), 3);
    let html = read(format!("{folder}/report.html"));
    assert!(html.contains("which is not FID") && html.matches("data:image/png").count() == 2);
    // The objective is all that differs.
    let configs = ["soft", "clean"].map(|name| read(format!("{folder}/{name}/config.toml")));
    let differ = configs[0].lines().zip(configs[1].lines()).filter(|(a, b)| a != b).map(|(a, _)| a);
    assert_eq!(differ.collect::<Vec<_>>(), ["name = \"loss-ablation soft\"", "kind = \"soft\""]);

    // A measurement that was lost is made again and comes to the same; the others are kept, to the time they took.
    let file = format!("{folder}/results.json");
    let mut lost: Value = serde_json::from_str(&read(file.clone())).unwrap();
    lost["rows"].as_array_mut().unwrap().remove(0);
    std::fs::write(&file, lost.to_string()).unwrap();
    let again = reproduce("loss-ablation", &out, &flags);
    assert_eq!(again["rows"][1], first["rows"][1]);
    assert_eq!(again["rows"][0]["value"], first["rows"][0]["value"]);

    // Another experiment in the same folder takes the model it would train again.
    let beside = reproduce("simultaneous-noise", &out, &flags);
    assert_eq!(beside["rows"][0]["value"], first["rows"][0]["value"], "both are soft, two-stage and by momentum");
    let trained = |name: &str| std::path::Path::new(&format!("{out}/simultaneous-noise/{name}/config.toml")).exists();
    assert_eq!([trained("two-stage"), trained("simultaneous")], [false, true]);

    // Several sets of seeds: the first is the one above, and the number is the mean.
    let several = reproduce("loss-ablation", &out, &[&flags[..], &["--seeds", "2"]].concat());
    let row = &several["rows"][0];
    let by_seed: Vec<f64> = row["by_seed"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    assert_eq!((by_seed.len(), Some(by_seed[0])), (2, first["rows"][0]["value"].as_f64()));
    assert_ne!(by_seed[0], by_seed[1]);
    assert!((row["value"].as_f64().unwrap() - 0.5 * (by_seed[0] + by_seed[1])).abs() < 1e-12);
    assert!((row["error"].as_f64().unwrap() - (by_seed[0] - by_seed[1]).abs() / 2f64.sqrt()).abs() < 1e-12);
    assert!(read(format!("{folder}/results.md")).contains("0 to 7 in 2 sets; mean ± standard deviation"));

    // A larger budget continues the models and measures anew; a smaller one is refused.
    let longer =
        reproduce("loss-ablation", &out, &["--images", "24", "--samples", "4", "--metric", "sliced-wasserstein"]);
    assert_eq!((longer["steps"].as_u64(), longer["rows"][1]["train_steps"].as_u64()), (Some(6), Some(6)));
    assert_ne!(longer["rows"][1]["value"], first["rows"][1]["value"]);
    let failed = softdiff(&tiny("loss-ablation", &out, &flags));
    assert!(text(&failed.stderr).contains("hint: give a larger budget"), "{}", text(&failed.stderr));
    // Another recipe is refused and leaves no trace.
    let kept = read(file.clone());
    let other = [&["--images", "40", "--set", "seed=1"], &flags[2..]].concat();
    assert!(text(&softdiff(&tiny("loss-ablation", &out, &other)).stderr).contains("begun with another recipe"));
    assert_eq!(read(file), kept);
}

#[test]
fn minutes_become_a_number_of_steps_that_a_second_run_keeps() {
    let scratch = Scratch::new("reproduce-minutes");
    let out = scratch.path("out");
    let flags = ["--minutes", "0.02", "--samples", "4", "--metric", "sliced-wasserstein"];
    let first = reproduce("noise-magnitude", &out, &flags);
    let steps = first["steps"].as_u64().unwrap();
    assert!(steps >= 12 && first["budget"].as_str().unwrap().contains("0.02 minutes"));
    let all = first["rows"].as_array().unwrap();
    assert!(all.len() == 6 && all.iter().all(|row| row["train_steps"] == steps));
    let again = reproduce("noise-magnitude", &out, &flags);
    assert_eq!((&again["steps"], &again["rows"]), (&first["steps"], &first["rows"]));
}

/// The paper's order, without any training: fewer steps along the shortest path do what many do along matched levels.
#[test]
fn with_the_exact_denoiser_280_steps_of_the_shortest_path_are_worth_1000_of_the_matched_one() {
    let scratch = Scratch::new("reproduce-oracle");
    let out = scratch.path("out");
    let results = reproduce("schedule-oracle", &out, &["--set=data.limit=500", "--set=schedule.images=100"]);
    let rows = results["rows"].as_array().unwrap();
    let at = |variant: &str, steps: u64| {
        let row = rows.iter().find(|row| row["variant"] == variant && row["sampler_steps"] == steps).unwrap();
        assert_eq!((row["metric"].as_str(), row["train_steps"].as_u64()), (Some("exact-w2"), Some(0)));
        row["value"].as_f64().unwrap()
    };
    for steps in [50, 100, 280] {
        assert!(3.0 * at("shortest-path", steps) < at("mse-matched", steps), "{rows:?}");
    }
    assert!(at("shortest-path", 280) < at("mse-matched", 1000), "{rows:?}");
    assert!(read(format!("{out}/schedule-oracle/results.md")).contains("W2 to the true Gaussian"));
    assert!(read(format!("{out}/schedule-oracle/report.html")).contains("exact denoiser"));
    assert!(!std::path::Path::new(&format!("{out}/schedule-oracle/shortest-path/events.jsonl")).exists());
}

#[test]
fn schedules_need_no_training_and_pictures_of_an_experiment_are_drawn() {
    let scratch = Scratch::new("reproduce-figures");
    let out = scratch.path("out");
    let schedules = reproduce("schedules", &out, &[]);
    let all = schedules["schedules"].as_array().unwrap();
    assert_eq!(all.len(), 3);
    let level = |index: usize| all[index]["levels"][120][1].as_f64().unwrap();
    assert!((level(0) - level(2)).abs() > 0.05, "the matched schedule is another: {} {}", level(0), level(2));
    assert!(!std::path::Path::new(&format!("{out}/schedules/shortest-path/events.jsonl")).exists());
    let flags = ["--images", "8", "--samples", "4", "--metric", "sliced-wasserstein"];
    let near = reproduce("nearest-neighbours", &out, &flags);
    assert!(near["rows"][0]["memorised"].as_f64().is_some());
    assert!(read(format!("{out}/nearest-neighbours/report.html")).contains("nearest training images"));
    reproduce("conditional-means", &out, &flags);
    for file in ["blur-momentum-30-means.png", "masking-momentum-128-means.png"] {
        let bytes = std::fs::read(format!("{out}/conditional-means/figures/{file}")).unwrap();
        softdiff::image::decode(&bytes).unwrap();
    }
}

#[test]
fn models_that_several_jobs_train_are_measured_as_those_of_one() {
    let scratch = Scratch::new("reproduce-parts");
    let (whole, parts) = (scratch.path("whole"), scratch.path("parts"));
    let flags = ["--images", "16", "--samples", "4", "--metric", "sliced-wasserstein"];
    let expected = reproduce("loss-ablation", &whole, &flags);
    let first = done(&[&tiny("loss-ablation", &parts, &flags)[..], &["--only=2/2", "--json"]].concat());
    assert_eq!(first.trim(), r#"{"only":"2/2"}"#);
    assert!(!std::path::Path::new(&format!("{parts}/loss-ablation/soft/config.toml")).exists());
    let mut task = support::command(&tiny("loss-ablation", &parts, &flags));
    task.envs([("SLURM_ARRAY_TASK_ID", "1"), ("SLURM_ARRAY_TASK_COUNT", "2"), ("SLURM_ARRAY_TASK_MIN", "1")]);
    assert!(task.output().unwrap().status.success());
    // Under a launcher a process has the part of its rank; this one is trained already.
    let mut ranked = support::command(&[&tiny("loss-ablation", &parts, &flags)[..], &["--json"]].concat());
    ranked.envs([("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_LOCAL_RANK", "1")]);
    assert_eq!(text(&ranked.output().unwrap().stdout).trim(), r#"{"only":"2/2"}"#);
    let found = reproduce("loss-ablation", &parts, &flags);
    let values = |results: &Value| {
        let rows = results["rows"].as_array().unwrap();
        rows.iter().map(|row| (row["variant"].clone(), row["value"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(values(&found), values(&expected));
    let failed = softdiff(&["reproduce", "loss-ablation", "--minutes=1", "--only=1/2", "--out", &parts]);
    assert!(text(&failed.stderr).contains("hint: give --images N or --budget paper"), "{}", text(&failed.stderr));
}
