//! `softdiff sample` from a trained run: grids, files, pictures of means, films.

mod support;

use serde_json::{Value, json};
use support::{Scratch, bytes, done, softdiff, text, tiny, tiny_run};

#[test]
fn a_run_gives_a_grid_files_an_archive_and_films() {
    let scratch = Scratch::new("sample");
    let run = tiny_run(&scratch);
    let (grid, folder, npz) = (scratch.path("grid.png"), scratch.path("images"), scratch.path("images.npz"));
    let (means, gif, apng) = (scratch.path("means.png"), scratch.path("film.gif"), scratch.path("film.png"));
    let few = ["--seeds", "0..3", "--device", "cpu"];
    let facts =
        done(&[&["sample", &run, "--out", &grid, "--means", &means, "--film", &gif, "--json"], &few[..]].concat());
    let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
    assert_eq!((&facts["images"], &facts["steps"], &facts["sampler"]), (&3.into(), &4.into(), &"heun".into()));
    done(&[&["sample", &run, "--out", &folder, "--film", &apng], &few[..]].concat());
    done(&[&["sample", &run, "--out", &npz], &few[..]].concat());
    for picture in [&grid, &means, &apng] {
        softdiff::image::decode(&bytes(picture)).unwrap();
    }
    assert!(bytes(&gif).starts_with(b"GIF89a"));
    // x_t at five times, both grids of 3 pictures of 16x16 four times as large, in two columns.
    let film = bytes(&apng);
    let control = film.windows(4).position(|window| window == b"acTL").unwrap();
    assert_eq!(film[control + 4..control + 8], [0, 0, 0, 5]);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
}

#[test]
fn what_begins_with_hardly_corrupted_pictures_ends_near_them() {
    let scratch = Scratch::new("sample-begin");
    let run = tiny_run(&scratch);
    let (first, back) = (scratch.path("first"), scratch.path("back"));
    done(&["sample", &run, "--seeds", "7", "--device", "cpu", "--out", &first]);
    let begin = ["--begin-with", &first, "--begin-at", "0.05", "--device", "cpu"];
    done(&[&["sample", &run, "--seeds", "0..2", "--out", &back], &begin[..]].concat());
    let picture = |folder: &str, seed: usize| {
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        softdiff::image::decode(&bytes(&files[seed])).unwrap().pixels
    };
    for seed in 0..2 {
        let pairs = picture(&first, 0).into_iter().zip(picture(&back, seed));
        let away = pairs.map(|(a, b)| f64::from(a.abs_diff(b))).sum::<f64>() / (16.0 * 16.0);
        assert!(away > 0.0 && away < 12.0, "{away} of 255 away");
    }
}

#[test]
fn the_evaluations_of_every_sampler_are_counted() {
    let scratch = Scratch::new("sample-evaluations");
    let (run, npz) = (tiny_run(&scratch), scratch.path("images.npz"));
    let counted = |sampler: &str, set: &str| {
        let arguments = ["sample", &run, "--seeds", "0..2", "--device", "cpu", "--sampler", sampler, "--steps", "3"];
        let more = ["--set", set, "--out", &npz, "--json"];
        let facts: serde_json::Value = serde_json::from_str(&done(&[&arguments[..], &more].concat())).unwrap();
        let evaluations = facts["evaluations"].as_u64().unwrap();
        // The same number stands in the file, from which eval and report read it.
        let file = bytes(&npz);
        let written = format!("\"evaluations\":{evaluations},");
        let spaced = format!("\"evaluations\": {evaluations},");
        let contains = |text: &str| file.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(contains(&written) || contains(&spaced), "{sampler}: {evaluations} is not in the file");
        evaluations
    };
    assert_eq!(counted("momentum", "sample.tolerance=1e-2"), 3);
    assert_eq!(counted("heun", "sample.tolerance=1e-2"), 5);
    // Three solves of one accepted step of seven evaluations at the least, and the prediction at the end: the count that
    // used to be written, (3 - 1) 6 + 1, cannot be.
    let (coarse, fine) =
        (counted("dormand-prince", "sample.tolerance=1e-1"), counted("dormand-prince", "sample.tolerance=1e-4"));
    assert!(coarse >= 22 && fine > coarse, "{coarse} {fine}");
    let together = counted("dormand-prince", "sample.together=true");
    assert!(together >= 22, "{together}");
}

#[test]
fn a_run_with_many_checkpoints_gives_averages_of_any_width_and_steps_at_its_knots() {
    let scratch = Scratch::new("sample-posthoc");
    let (run, grid) = (scratch.path("run"), scratch.path("grid.png"));
    done(&tiny(&run, &["--set=checkpoint.every=1", "--set=checkpoint.keep_last=9"]));
    let sample = |more: &[&str]| {
        done(&[&["sample", &run, "--seeds", "0..2", "--device", "cpu", "--out", &grid, "--json"], more].concat())
    };
    let facts: serde_json::Value = serde_json::from_str(&sample(&["--weights", "posthoc-0.2"])).unwrap();
    assert_eq!(facts["weights"], "posthoc-0.2");
    let exported = scratch.path("exported");
    done(&["export", &run, "--weights", "posthoc-0.2", "--out", &exported]);
    let first = bytes(&grid);
    done(&["sample", &exported, "--seeds", "0..2", "--device", "cpu", "--out", &grid]);
    assert_eq!(bytes(&grid), first);
    // Eight knots from the end of the noise stage on.
    let knots = ["--set", "sample.grid=knots", "--steps", "12"];
    let facts: serde_json::Value = serde_json::from_str(&sample(&knots)).unwrap();
    assert_eq!(facts["evaluations"], 23);
    for (arguments, problem, hint) in [
        (vec!["--weights", "posthoc-0.3"], "posthoc-0.3", "up to 0.28"),
        (vec!["--set", "sample.grid=knots", "--steps", "5"], "the number of steps", "sample.grid = uniform"),
    ] {
        let failed = softdiff(&[&["sample", &run, "--device", "cpu"], &arguments[..]].concat());
        let said = text(&failed.stderr);
        assert!(!failed.status.success() && said.contains(problem) && said.contains(hint), "{said}");
    }
}

#[test]
fn what_cannot_be_sampled_says_why() {
    let scratch = Scratch::new("sample-bad");
    let run = tiny_run(&scratch);
    let empty = scratch.path("empty");
    std::fs::create_dir_all(&empty).unwrap();
    let image = scratch.path("image.png");
    std::fs::write(&image, softdiff::image::png::encode(16, 16, 1, &[90; 256])).unwrap();
    for (arguments, problem, hint) in [
        (vec!["sample", &empty], "is not a model", "give a run's folder"),
        (vec!["sample", &run, "--guide", &image, "--guidance", "2"], "image.png is not a model", "give a run's folder"),
        (vec!["sample", &run, "--sampler", "huen"], "huen", "did you mean heun?"),
        (vec!["sample", &run, "--film", "film.mp4"], "film.mp4", "give a .gif"),
        (vec!["sample", &run, "--weights", "ema-0.5"], "keeps no ema-0.5", "it has ema-0.9, raw"),
        (vec!["sample", &run, "--ending", "happy"], "happy", "give denoised"),
        (vec!["sample", &run, "--begin-with", "embedded:fashion-mnist"], "the model makes 16x16", "data prepare"),
        (vec!["sample", &run, "--begin-with", &empty, "--begin-at", "0"], "--begin-at is 0", "above 0"),
    ] {
        let failed = softdiff(&arguments);
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(problem) && said.contains(hint), "{arguments:?}: {said}");
    }
}

#[test]
fn steps_are_those_that_a_recipe_may_have() {
    for command in [&["sample", "run"][..], &["restore", "image.png"], &["corrupt", "image.png", "--out=x.png"]] {
        for steps in ["0", "10000000000"] {
            let failed = softdiff(&[command, &["--steps", steps]].concat());
            let said = text(&failed.stderr);
            assert_eq!(failed.status.code(), Some(2), "{said}");
            assert!(said.contains("--steps") && said.contains("is not in 1..=1000000"), "{said}");
        }
    }
}

#[test]
fn an_exported_model_makes_the_same_images_and_damage_is_seen() {
    let scratch = Scratch::new("export");
    let run = tiny_run(&scratch);
    let (full, half) = (scratch.path("full"), scratch.path("half"));
    done(&["export", &run, "--out", &full]);
    done(&["export", &run, "--out", &half, "--precision", "bf16"]);
    let grid = |model: &str| {
        let out = scratch.path("grid.png");
        done(&["sample", model, "--seeds", "0..2", "--device", "cpu", "--out", &out]);
        bytes(&out)
    };
    assert_eq!(grid(&run), grid(&full));
    grid(&half);
    // Folders of earlier versions have another file in the place of model.json, which no one reads.
    let (description, manifest) = (format!("{full}/model.json"), format!("{full}/manifest.json"));
    assert!(String::from_utf8(bytes(&description)).unwrap().contains(r#""library": "softdiff""#));
    std::fs::rename(&description, format!("{full}/model_index.json")).unwrap();
    let older = String::from_utf8(bytes(&manifest)).unwrap().replace("model.json", "model_index.json");
    std::fs::write(&manifest, older).unwrap();
    assert_eq!(grid(&run), grid(&full));
    let size = |folder: &str| bytes(format!("{folder}/model.safetensors")).len();
    assert!(size(&half) * 100 < size(&full) * 55, "{} of {}", size(&half), size(&full));
    let file = format!("{half}/model.safetensors");
    let mut damaged = bytes(&file);
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    std::fs::write(&file, damaged).unwrap();
    let failed = softdiff(&["sample", &half]);
    let said = text(&failed.stderr);
    assert!(failed.status.code() == Some(1) && said.contains("not what the manifest says"), "{said}");
}

#[test]
fn an_exported_model_without_one_of_its_files_names_it_and_needs_no_card() {
    let scratch = Scratch::new("export-lacks");
    let (model, grid) = (scratch.path("model"), scratch.path("grid.png"));
    done(&["export", &tiny_run(&scratch), "--out", &model]);
    let sample = ["sample", &model, "--seeds=0..2", "--device=cpu", "--out", &grid];
    std::fs::remove_file(format!("{model}/README.md")).unwrap();
    done(&sample);
    let refused = |name: &str| {
        let failed = softdiff(&sample);
        let said = text(&failed.stderr);
        assert!(
            failed.status.code() == Some(1) && said.contains(&format!("this exported model lacks {name}")),
            "{said}"
        );
        assert!(said.contains("hint: copy the whole folder again"), "{said}");
    };
    for name in ["model.safetensors", "prior.safetensors", "schedule.json"] {
        let (file, away) = (format!("{model}/{name}"), scratch.path("away"));
        std::fs::rename(&file, &away).unwrap();
        refused(name);
        std::fs::rename(&away, &file).unwrap();
    }
    // Also where no manifest says what there should be.
    std::fs::remove_file(format!("{model}/manifest.json")).unwrap();
    std::fs::remove_file(format!("{model}/prior.safetensors")).unwrap();
    refused("prior.safetensors");
}

#[test]
fn weights_that_an_exported_model_does_not_have_are_refused() {
    let scratch = Scratch::new("export-weights");
    let (model, image) = (scratch.path("model"), scratch.path("image.png"));
    done(&["export", &tiny_run(&scratch), "--out", &model]);
    std::fs::write(&image, softdiff::image::png::encode(16, 16, 1, &[90; 256])).unwrap();
    for arguments in [
        vec!["sample", &model],
        vec!["restore", &model, &image],
        vec!["export", &model, "--out", &scratch.path("again")],
    ] {
        let failed = softdiff(&[&arguments[..], &["--weights", "raw"]].concat());
        let said = text(&failed.stderr);
        assert!(said.contains("has the weights ema-0.9 only, and raw are asked for"), "{said}");
        assert!(failed.status.code() == Some(1) && said.contains("hint: leave --weights out"), "{said}");
    }
    done(&["sample", &model, "--weights", "ema-0.9", "--seeds=0", "--out", &scratch.path("grid.png")]);
}

#[test]
fn a_guide_is_exported_only_with_guidance_and_guidance_only_with_a_guide() {
    let scratch = Scratch::new("export-guide");
    let (run, folder) = (tiny_run(&scratch), scratch.path("guided"));
    let guidance = "--set=sample.guidance=1.5";
    for (arguments, problem, hint) in [
        (["--guide", &run], "a guide changes nothing at sample.guidance = 1", "add --set sample.guidance=1.5"),
        (["--precision=f32", guidance], "sample.guidance is 1.5, and the model has no guide", "--guide MODEL"),
    ] {
        let failed = softdiff(&[&["export", &run, "--out", &folder][..], &arguments].concat());
        let said = text(&failed.stderr);
        assert!(failed.status.code() == Some(1) && said.contains(problem) && said.contains(hint), "{said}");
        assert!(!std::path::Path::new(&folder).exists());
    }
    done(&["export", &run, "--out", &folder, "--guide", &run, guidance]);
}

#[test]
fn an_export_replaces_nothing_unless_forced() {
    let scratch = Scratch::new("export-force");
    let (run, folder) = (tiny_run(&scratch), scratch.path("mine"));
    let card = format!("{folder}/README.md");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&card, "my own").unwrap();
    let failed = softdiff(&["export", &run, "--out", &folder]);
    let said = text(&failed.stderr);
    assert!(failed.status.code() == Some(1) && said.contains("mine is not empty"), "{said}");
    assert!(said.contains("hint: choose another --out, or add --force"), "{said}");
    assert_eq!(bytes(&card), b"my own");
    done(&["export", &run, "--out", &folder, "--force"]);
    assert!(text(&bytes(&card)).contains("library_name: softdiff"));
    // An empty folder is as good as none.
    std::fs::create_dir(scratch.path("empty")).unwrap();
    done(&["export", &run, "--out", &scratch.path("empty")]);
}

#[test]
fn the_best_checkpoint_is_used_where_there_is_one_and_the_output_says_so() {
    let scratch = Scratch::new("best-checkpoint");
    let run = scratch.path("run");
    let best =
        ["--set=checkpoint.keep_best=1", "--set=checkpoint.metric=sliced-wasserstein", "--set=checkpoint.images=4"];
    let trained = softdiff(&tiny(&run, &best));
    assert!(trained.status.success(), "{}", text(&trained.stderr));
    // What it costs is said before the training.
    let said = text(&trained.stderr);
    let cost = said.find("best of 2 checkpoints by sliced-wasserstein: 4 images each in 7 evaluations").expect(&said);
    assert!(cost < said.find("step 2").unwrap_or(usize::MAX), "{said}");
    // The checkpoint of step 4 is better than the last one.
    let events = format!("{run}/events.jsonl");
    let scored: Vec<String> = text(&bytes(&events))
        .lines()
        .map(|line| match line.split_once(r#""metric":"sliced-wasserstein","value":"#) {
            Some((before, _)) if before.contains(r#""step":4,"#) => {
                format!(r#"{before}"metric":"sliced-wasserstein","value":0.001,"images":4}}"#)
            }
            _ => line.to_owned(),
        })
        .collect();
    std::fs::write(&events, scored.join("\n") + "\n").unwrap();
    let out = scratch.path("out.npz");
    let sample = |more: &[&str]| -> Value {
        let common = ["sample", &run, "--seeds", "0..2", "--out", &out, "--device=cpu", "--json"];
        serde_json::from_str(&done(&[&common, more].concat())).unwrap()
    };
    let expected = json!({ "choice": "best", "step": 4, "metric": "sliced-wasserstein", "value": 0.001, "images": 4 });
    assert_eq!(sample(&[])["checkpoint"], expected);
    assert_eq!(sample(&["--checkpoint", "last"])["checkpoint"], json!({ "choice": "last", "step": 8 }));
    assert_eq!(sample(&["--checkpoint", "8"])["checkpoint"], json!({ "choice": "step", "step": 8 }));
    assert_eq!(sample(&["--checkpoint", "best"])["checkpoint"], expected);
    // The result of an evaluation names it too.
    let eval = ["eval", &out, "--against", &out, "--metrics", "sliced-wasserstein"];
    assert!(done(&eval).contains("at step 4, best checkpoint, sliced-wasserstein 0.0010 on 4 images"));
    let exported = softdiff(&["export", &run, "--out", &scratch.path("exported")]);
    assert!(text(&exported.stderr).contains("at step 4, best checkpoint"), "{}", text(&exported.stderr));
    let last: Value = serde_json::from_str(&done(&[
        "export",
        &run,
        "--out",
        &scratch.path("last"),
        "--checkpoint",
        "last",
        "--json",
    ]))
    .unwrap();
    assert_eq!((&last["checkpoint"]["choice"], &last["manifest"]["step"]), (&json!("last"), &json!(8)));
    let picture = scratch.path("picture.png");
    std::fs::write(&picture, softdiff::image::png::encode(16, 16, 1, &[90; 256])).unwrap();
    let restored = done(&[
        "restore",
        &run,
        &picture,
        "--level",
        "1",
        "--seeds",
        "0..1",
        "--out",
        &scratch.path("restored"),
        "--json",
    ]);
    assert_eq!(serde_json::from_str::<Value>(&restored).unwrap()["checkpoint"], expected);
    for (arguments, problem) in [
        (vec!["sample", &run, "--checkpoint", "5"], "no checkpoint at step 5\nhint: give best, last, or one of 4, 8"),
        (vec!["sample", &scratch.path("exported"), "--checkpoint", "best"], "hint: leave --checkpoint out"),
    ] {
        let failed = softdiff(&arguments);
        assert!(failed.status.code() == Some(1) && text(&failed.stderr).contains(problem), "{}", text(&failed.stderr));
    }
}

#[test]
fn a_run_without_scores_is_sampled_at_its_last_checkpoint() {
    let scratch = Scratch::new("last-checkpoint");
    let run = tiny_run(&scratch);
    let out = scratch.path("out.png");
    let made: Value =
        serde_json::from_str(&done(&["sample", &run, "--seeds", "0..1", "--out", &out, "--json"])).unwrap();
    assert_eq!(made["checkpoint"], json!({ "choice": "last", "step": 8 }));
    let failed = softdiff(&["sample", &run, "--checkpoint", "best"]);
    assert!(text(&failed.stderr).contains("has no best checkpoint"), "{}", text(&failed.stderr));
}

#[test]
fn choosing_the_best_by_fid_takes_the_features_of_the_reference_from_the_cache_of_eval() {
    let Some(network) = std::env::var_os("SOFTDIFF_INCEPTION") else {
        eprintln!("skipped: set SOFTDIFF_INCEPTION to the FID network; docs/evaluation.md says where to get it");
        return;
    };
    let scratch = Scratch::new("fid-cache");
    let (run, cache, images) = (scratch.path("run"), scratch.path("cache"), scratch.path("images.npz"));
    let best = ["--set=checkpoint.keep_best=1", "--set=checkpoint.images=4", "--set=data.channels=rgb"];
    let sample = ["sample", &run, "--seeds", "0..4", "--out", &images];
    let eval = [
        "eval",
        &images,
        "--against",
        "embedded:fashion-mnist",
        "--against-limit",
        "64",
        "--size",
        "16",
        "--channels=rgb",
    ];
    for arguments in [&tiny(&run, &best)[..], &sample, &eval] {
        let mut command = support::command(arguments);
        let output = command.env("SOFTDIFF_CACHE", &cache).env("SOFTDIFF_INCEPTION", &network).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 1, "{arguments:?}");
    }
}

#[test]
fn weights_for_pytorch_are_imported_again_and_say_what_they_are_conditioned_on() {
    let scratch = Scratch::new("export-score-sde");
    let (pth, again) = (scratch.path("model.pth"), scratch.path("again.safetensors"));
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/cifar10-small");
    let export = ["export", model, "--format", "score-sde", "--out", &pth];
    let facts: serde_json::Value = serde_json::from_str(&done(&[&export[..], &["--json"]].concat())).unwrap();
    assert_eq!(
        (&facts["settings"]["model.ch_mult"], &facts["conditioned_on"]),
        (&serde_json::json!([2, 2, 2]), &"time".into())
    );
    done(&["import", &pth, "--out", &again]);
    // Sampling them as weights of a VE model would give nonsense.
    for (arguments, problem, hint) in [
        (vec!["sample", &again], "conditioned on the time", "exported from"),
        (export.to_vec(), "exists already", "another --out"),
        ([&export[..5], &[&scratch.path("model.bin")]].concat(), "the ending", ".pth"),
        ([&export[..5], &[&scratch.path("half.pth"), "--precision=bf16"]].concat(), "f32 only", "--precision"),
        ([&export[..5], &[&scratch.path("set.pth"), "--set=sample.steps=2"]].concat(), "no effect", "leave them out"),
    ] {
        let failed = softdiff(&arguments);
        let said = text(&failed.stderr);
        assert!(failed.status.code() == Some(1) && said.contains(problem) && said.contains(hint), "{said}");
    }
    let failed =
        softdiff(&["export", &tiny_run(&scratch), "--format", "score-sde", "--out", &scratch.path("tiny.pth")]);
    assert!(text(&failed.stderr).contains("score_sde has no network like this"), "{}", text(&failed.stderr));
}

#[test]
fn the_images_of_several_jobs_are_the_files_of_one() {
    let scratch = Scratch::new("sample-parts");
    let run = tiny_run(&scratch);
    let (whole, parts) = (scratch.path("whole"), scratch.path("parts"));
    let arguments = |out: &str, more: &[&str]| -> Vec<String> {
        let all = [&["sample", &run, "--seeds=0..5,9", "--device=cpu", "--out", out], more].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let make = |out: &str, more: &[&str]| {
        let all = arguments(out, more);
        done(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    make(&whole, &[]);
    for part in ["--only=3/4", "--only=1/4", "--only=2/4", "--only=4/4"] {
        make(&parts, &[part]);
    }
    let files = |folder: &str| {
        let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
            .into_iter()
            .map(|name| (name.clone(), bytes(std::path::Path::new(folder).join(&name))))
            .collect::<Vec<_>>()
    };
    assert!(files(&whole).len() >= 6 && files(&whole) == files(&parts));
    let failed = softdiff(&["sample", &run, "--seeds=0..2", "--only=1/3", "--device=cpu", "--out", &parts]);
    assert!(text(&failed.stderr).contains("hint: divide them into 2 parts or fewer"), "{}", text(&failed.stderr));
}

#[test]
fn a_film_alone_leaves_the_grid_alone_and_counts_and_names_are_right() {
    let scratch = Scratch::new("sample-film");
    let (run, folder) = (tiny_run(&scratch), scratch.path("here"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(format!("{folder}/samples.png"), "kept").unwrap();
    let film = ["sample", &run, "--device", "cpu", "--seeds", "3", "--film", "film.gif"];
    let made = support::command(&film).current_dir(&folder).output().unwrap();
    let said = text(&made.stderr);
    assert!(made.status.success() && said.starts_with("1 image of quickstart at step 8"), "{said}");
    assert!(bytes(format!("{folder}/film.gif")).starts_with(b"GIF"));
    assert_eq!(bytes(format!("{folder}/samples.png")), b"kept");
    let again = support::command(&film[..6]).current_dir(&folder).output().unwrap();
    assert!(again.status.success() && bytes(format!("{folder}/samples.png")).starts_with(b"\x89PNG"));
    let help = done(&["sample", "--help"]);
    for name in softdiff::sampler::names() {
        assert!(help.contains(name), "{name}");
    }
    let said = text(&softdiff(&["sample", &run, "--sampler", "eular"]).stderr);
    assert!(said.contains("did you mean euler-maruyama?"), "{said}");
    let said = text(&softdiff(&["export", &run]).stderr);
    assert!(said.contains("--tensorboard") && said.contains("--out") && said.contains("--csv"), "{said}");
}
