//! `softdiff report` and `softdiff quickstart`.

mod support;

use support::{Scratch, bytes, done, softdiff, text, tiny, tiny_run};

#[test]
fn a_run_becomes_one_page_and_its_figures() {
    let scratch = Scratch::new("report");
    let run = tiny_run(&scratch);
    let (page, figures) = (scratch.path("page.html"), scratch.path("figures"));
    done(&["report", &run, "--device", "cpu", "--samples", "4", "--out", &page, "--figures", &figures]);
    let html = String::from_utf8(bytes(&page)).unwrap();
    let sections = ["At a glance", "Samples", "The corruption path", "The schedule", "The prior", "Training"];
    let more = ["Nearest neighbours", "Samplers side by side", "Conditional means", "Quality over", "Do it again"];
    for title in sections.iter().chain(&more) {
        assert!(html.contains(&format!(">{title}")), "{title}");
    }
    // Nothing is fetched: the only addresses are the name space of SVG and pictures inside the page.
    assert_eq!(html.matches("http").count(), html.matches("http://www.w3.org/2000/svg").count() + 1);
    assert!(
        html.contains("http-equiv") && html.matches("src=").count() == html.matches("src=\"data:image/png").count()
    );
    for picture in ["samples", "path", "prior", "neighbours", "samplers", "means"] {
        softdiff::image::decode(&bytes(format!("{figures}/{picture}.png"))).unwrap();
    }
    for drawing in ["loss", "loss-by-time", "norm", "schedule", "hops", "distances", "noise", "quality"] {
        let svg = String::from_utf8(bytes(format!("{figures}/{drawing}.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>") && svg.contains("<style>"), "{drawing}");
        let words = svg.split("base64,").next().unwrap();
        assert!(!words.contains("NaN") && !words.contains("inf"), "{drawing}");
    }
}

#[test]
fn records_alone_are_enough_and_one_figure_can_be_had() {
    let scratch = Scratch::new("report-records");
    let run = tiny_run(&scratch);
    std::fs::remove_dir_all(format!("{run}/checkpoints")).unwrap();
    done(&["report", &run, "--device", "cpu"]);
    let html = String::from_utf8(bytes(format!("{run}/report.html"))).unwrap();
    assert!(html.contains("Training") && !html.contains("Conditional means"));
    let svg = scratch.path("loss.svg");
    done(&["report", &run, "--device", "cpu", "--figure", "loss", "--out", &svg]);
    assert!(bytes(&svg).starts_with(b"<svg"));
    let failed = softdiff(&["report", &run, "--figure", "lost"]);
    let said = text(&failed.stderr);
    assert!(
        failed.status.code() == Some(1)
            && said.contains("there is no figure \"lost\"")
            && said.contains("did you mean loss")
    );
    let failed = softdiff(&["report", &run, "--figure", "samples"]);
    assert!(text(&failed.stderr).contains("of this run has no figure \"samples\""), "{}", text(&failed.stderr));
    let failed = softdiff(&["report", &scratch.path("nothing")]);
    assert!(failed.status.code() == Some(1) && text(&failed.stderr).contains("is no run"));
}

#[test]
fn results_are_kept_with_their_run_and_drawn_without_measuring_again() {
    let scratch = Scratch::new("report-kept");
    let run = tiny_run(&scratch);
    let against = ["--against", "embedded:fashion-mnist", "--size", "16", "--against-limit", "64", "--device", "cpu"];
    for (sampler, steps) in [("heun", "2"), ("heun", "4"), ("naive", "3")] {
        let images = scratch.path("images.npz");
        let sampling = ["--sampler", sampler, "--steps", steps, "--seeds", "0..8", "--device", "cpu", "--out", &images];
        done(&[&["sample", &run][..], &sampling].concat());
        let keeping = ["eval", &images, "--metrics", "sliced-wasserstein", "--directions", "20", "--run", &run];
        done(&[&keeping[..], &against].concat());
    }
    let images = scratch.path("images.npz");
    let again = ["eval", &images, "--metrics", "sliced-wasserstein", "--directions", "20", "--run", &run];
    done(&[&again[..], &against].concat());
    let kept = std::fs::read_dir(format!("{run}/evaluations")).unwrap().count();
    assert_eq!(kept, 3, "the same measurement again replaces its file");
    done(&["report", &run, "--device", "cpu", "--samples", "0"]);
    let html = String::from_utf8(bytes(format!("{run}/report.html"))).unwrap();
    for words in [">Metrics<", ">Quality over evaluations<", ">heun<", ">naive<", "reference.hash", "0..=7"] {
        assert!(html.contains(words), "{words}");
    }
    assert!(html.contains("softdiff sample runs/quickstart --weights ema-0.9 --sampler heun --steps 4 --seeds 0..=7"));
    assert!(
        html.contains(
            "--against embedded:fashion-mnist --run runs/quickstart --metrics sliced-wasserstein --size 16x16"
        )
    );
    // Heun asks twice in every step but the last.
    let tables = scratch.path("tables");
    done(&["export", &run, "--csv", &tables]);
    let table = String::from_utf8(bytes(format!("{tables}/metrics.csv"))).unwrap();
    assert!(table.lines().count() == 4 && table.contains(",heun,4,7,8,0..=7,8,ema-0.9,blake3:"), "{table}");
    let nowhere = ["eval", &images, "--metrics", "sliced-wasserstein", "--run", &tables];
    let failed = softdiff(&[&nowhere[..], &against].concat());
    let said = text(&failed.stderr);
    assert!(
        failed.status.code() == Some(1) && said.contains("is no run") && said.contains("hint: give --run"),
        "{said}"
    );
    // Images of another run do not belong here, whatever its recipe is called; nor do those of another model.
    let other = scratch.path("other");
    done(&tiny(&other, &["--set=seed=1"]));
    let failed =
        softdiff(&[&["eval", &images, "--metrics", "sliced-wasserstein", "--run", &other][..], &against].concat());
    let said = text(&failed.stderr);
    assert!(
        failed.status.code() == Some(1)
            && said.contains("made by another run of \"quickstart\"")
            && said.contains("hint:"),
        "{said}"
    );
    // Those of a model that was exported from the run do, and so may those that say nothing.
    let (model, folder) = (scratch.path("model"), scratch.path("folder"));
    done(&["export", &run, "--out", &model, "--set", "sample.steps=2"]);
    done(&["sample", &model, "--seeds", "0..8", "--device", "cpu", "--out", &images]);
    done(&[&again[..], &against].concat());
    done(&["sample", &model, "--seeds", "0..8", "--device", "cpu", "--out", &folder]);
    let unlabelled =
        softdiff(&[&["eval", &folder, "--metrics", "sliced-wasserstein", "--run", &run][..], &against].concat());
    let said = text(&unlabelled.stderr);
    assert!(unlabelled.status.success() && said.contains("does not say which model made its images"), "{said}");
    let recipe = String::from_utf8(bytes(format!("{run}/config.toml"))).unwrap();
    std::fs::write(format!("{run}/config.toml"), recipe.replace("\"quickstart\"", "\"another\"")).unwrap();
    let failed = softdiff(&[&again[..], &against].concat());
    let said = text(&failed.stderr);
    assert!(
        failed.status.code() == Some(1) && said.contains("made by \"quickstart\"") && said.contains("hint:"),
        "{said}"
    );
}

#[test]
fn the_report_of_an_exported_model_says_how_its_samples_are_guided_and_after_how_many_steps() {
    let scratch = Scratch::new("report-guided");
    let (run, model, figures) = (tiny_run(&scratch), scratch.path("model"), scratch.path("figures"));
    done(&["export", &run, "--out", &model, "--guide", &run, "--set", "sample.guidance=1.5"]);
    let page = |place: &str| {
        done(&["report", place, "--device", "cpu", "--samples", "4", "--figures", &figures]);
        text(&bytes(format!("{place}/report.html")))
    };
    let html = page(&model);
    // Heun's seven evaluations, of two networks.
    for words in ["heun in 4 steps (14 evaluations", "weights, guidance 1.5", "8 of 8 steps", "8 steps of training"] {
        assert!(html.contains(words), "{words}");
    }
    assert!(page(&run).contains("heun in 4 steps (7 evaluations"));
}

#[test]
fn a_recipe_with_guidance_is_warned_of_and_its_run_reported_without() {
    let scratch = Scratch::new("report-unguided");
    let run = scratch.path("run");
    let warning = "warning: sample.guidance is 1.5, and a run has no guide";
    for more in [&["--set=sample.guidance=1.5", "--dry-run"][..], &["--set=sample.guidance=1.5"]] {
        let trained = softdiff(&tiny(&run, more));
        let said = text(&trained.stderr);
        assert!(trained.status.success() && said.contains(warning), "{more:?}: {said}");
    }
    done(&["report", &run, "--device", "cpu", "--samples", "4"]);
    let html = text(&bytes(format!("{run}/report.html")));
    assert!(html.contains("Not guided: the recipe has sample.guidance = 1.5") && html.contains("(7 evaluations"));
    // What would fail says what to give.
    let failed = softdiff(&["sample", &run, "--device", "cpu"]);
    assert!(text(&failed.stderr).contains("--guide MODEL"), "{}", text(&failed.stderr));
}

#[test]
fn quickstart_goes_all_the_way() {
    let scratch = Scratch::new("quickstart");
    let run = scratch.path("run");
    let small = ["train.steps=2", "train.batch=4", "network.channels=8", "preview.every=false", "data.limit=256"];
    let small: Vec<&str> = small.iter().flat_map(|set| ["--set", set]).collect();
    let lean = ["--set", "prior.components=1", "--set", "prior.modes=4", "--set", "sample.steps=2", "--samples", "4"];
    let all = [&["quickstart", "--out", &run, "--device", "cpu", "--json"], &small[..], &lean].concat();
    let facts: serde_json::Value = serde_json::from_str(&done(&all)).unwrap();
    assert_eq!(facts["step"], 2);
    softdiff::image::decode(&bytes(facts["samples"].as_str().unwrap())).unwrap();
    assert!(bytes(facts["report"].as_str().unwrap()).starts_with(b"<!doctype html>"));
    // Again, it has nothing left to train and comes to the same.
    let grid = bytes(facts["samples"].as_str().unwrap());
    let again: serde_json::Value = serde_json::from_str(&done(&all)).unwrap();
    assert_eq!((again["step"].clone(), bytes(again["samples"].as_str().unwrap())), (2.into(), grid));
}

#[test]
fn the_best_checkpoint_is_known_by_a_metric_of_its_images() {
    let scratch = Scratch::new("best");
    let run = scratch.path("run");
    let best = ["--set=checkpoint.keep_best=1", "--set=checkpoint.images=4", "--set=checkpoint.keep_last=1"];
    let metric = |name: &'static str| [&best[..], &[name]].concat();
    done(&support::tiny(&run, &metric("--set=checkpoint.metric=sliced-wasserstein")));
    let events = String::from_utf8(bytes(format!("{run}/events.jsonl"))).unwrap();
    let scores: Vec<f64> = events
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|event| event["event"] == "evaluation")
        .map(|event| event["value"].as_f64().unwrap())
        .collect();
    assert_eq!(scores.len(), 2, "one at each of the steps 4 and 8");
    // The last stays as the last, step 4 only if it was the better one.
    let kept = std::path::Path::new(&format!("{run}/checkpoints/step-000000004")).exists();
    assert_eq!(kept, scores[0] < scores[1], "{scores:?}");
    let other = scratch.path("other");
    let failed = softdiff(&support::tiny(&other, &metric("--set=checkpoint.metric=beauty")));
    let said = text(&failed.stderr);
    assert!(failed.status.code() == Some(1) && said.contains("sliced-wasserstein"), "{said}");
}

#[test]
fn the_held_out_loss_is_that_of_the_test_part_and_training_does_not_notice() {
    let scratch = Scratch::new("held-out");
    let metric = |name: &'static str| {
        vec!["--set=checkpoint.keep_best=1", "--set=checkpoint.images=70", "--set=data.limit=128", name]
    };
    let events = |run: &str| -> Vec<serde_json::Value> {
        let events = String::from_utf8(bytes(format!("{run}/events.jsonl"))).unwrap();
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let of_kind = |run: &str, kind: &str| -> Vec<serde_json::Value> {
        events(run).into_iter().filter(|event| event["event"] == kind).collect()
    };
    let (run, again, other) = (scratch.path("run"), scratch.path("again"), scratch.path("other"));
    for run in [&run, &again] {
        done(&support::tiny(run, &metric("--set=checkpoint.metric=held-out-loss")));
    }
    let scores = of_kind(&run, "evaluation");
    let named: Vec<_> = scores.iter().map(|score| (score["step"].as_u64(), score["metric"].as_str())).collect();
    let expected = [4, 8].map(|step| [(Some(step), Some("held-out-loss")), (Some(step), Some("training-loss"))]);
    assert_eq!(named, expected.concat());
    assert!(scores.iter().all(|score| score["images"] == 70 && score["value"].as_f64().unwrap() > 0.0), "{scores:?}");
    assert_ne!(scores[0]["value"], scores[1]["value"]);
    assert_eq!(scores, of_kind(&again, "evaluation"));
    done(&support::tiny(&other, &metric("--set=checkpoint.metric=sliced-wasserstein")));
    assert_eq!(of_kind(&run, "step"), of_kind(&other, "step"));
    let shown = done(&["watch", &run, "--once"]);
    assert!(shown.contains("held-out-loss") && shown.contains("training-loss"), "{shown}");
    done(&["report", &run]);
    let page = String::from_utf8(bytes(format!("{run}/report.html"))).unwrap();
    assert!(page.contains("held-out-loss") && page.contains("training-loss"));
}

#[test]
fn the_held_out_loss_needs_a_test_part() {
    let scratch = Scratch::new("no-test-part");
    let images = scratch.path("images.npz");
    done(&["data", "prepare", "embedded:fashion-mnist", "--limit", "64", "--out", &images]);
    let source = format!("--set=data.source={images}");
    let metric = ["--set=checkpoint.keep_best=1", "--set=checkpoint.metric=held-out-loss"];
    let failed = softdiff(&support::tiny(&scratch.path("run"), &[&metric[..], &[&source]].concat()));
    let said = text(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1));
    assert!(said.contains("has no test part") && said.contains("\nhint: give data with a test part"), "{said}");
    let all = ["--set=data.split=all", "--set=checkpoint.images=4"];
    let failed = softdiff(&support::tiny(&scratch.path("other"), &[&metric[..], &all].concat()));
    assert!(text(&failed.stderr).contains("data.split is not \"train\""), "{}", text(&failed.stderr));
}

#[test]
fn a_wrong_figure_is_refused_before_anything_is_read_and_the_help_names_them_all() {
    let scratch = Scratch::new("report-figures");
    let run = tiny_run(&scratch);
    let help = done(&["report", "--help"]);
    let page = scratch.path("page.html");
    done(&["report", &run, "--device", "cpu", "--samples", "4", "--out", &page]);
    let html = text(&bytes(&page));
    for (name, _) in softdiff::report::FIGURES {
        assert!(help.contains(name), "{name}");
    }
    for name in html.split("data-name=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(softdiff::report::FIGURES.iter().any(|(known, _)| *known == name), "{name}");
    }
    // With an unreadable checkpoint, whatever samples fails: the name is looked at first.
    std::fs::remove_dir_all(format!("{run}/checkpoints")).unwrap();
    std::fs::create_dir_all(format!("{run}/checkpoints/step-000000008")).unwrap();
    let said = text(&softdiff(&["report", &run, "--figure", "nope"]).stderr);
    assert!(said.contains("there is no figure \"nope\"") && said.contains("loss-by-time"), "{said}");
}

#[test]
fn the_quality_has_bars_and_an_axis_from_zero_and_the_time_is_told() {
    let scratch = Scratch::new("report-quality");
    let run = tiny_run(&scratch);
    let (svg, page) = (scratch.path("quality.svg"), scratch.path("page.html"));
    done(&["report", &run, "--device", "cpu", "--samples", "4", "--figure", "quality", "--out", &svg]);
    let quality = text(&bytes(&svg));
    assert!(quality.contains("class=\"bar\"") && quality.contains(">0</text>"), "{quality}");
    done(&["report", &run, "--device", "cpu", "--samples", "0", "--out", &page]);
    let html = text(&bytes(&page));
    assert!(html.contains(" s for 8 steps, ") && html.contains(" each</td>"), "{html}");
    assert_eq!(html.matches("class=\"broad\"").count(), html.matches("class=\"narrow\"").count());
    assert!(html.matches("class=\"narrow\"").count() >= 4);
}
