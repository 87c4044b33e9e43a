//! Paths of one's own from recipe to samples: compositions, kernels.

mod support;

use serde_json::Value;
use support::{Scratch, done, softdiff, text, tiny};

/// Trains a tiny run with these changes, reports on it, samples from it and restores with it.
fn goes_all_the_way(scratch: &Scratch, name: &str, sets: &[&str]) -> String {
    let run = scratch.path(name);
    let sets: Vec<String> = sets.iter().map(|set| format!("--set={set}")).collect();
    done(&tiny(&run, &sets.iter().map(String::as_str).collect::<Vec<_>>()));
    let (image, page) = (scratch.path("image.png"), scratch.path("page.html"));
    done(&["sample", &run, "--seeds", "0..2", "--out", &image]);
    done(&["report", &run, "--out", &page]);
    let (restored, pictures) = (scratch.path("restored"), pictures(scratch));
    let flags = ["--degrade", "--time", "0.5", "--seeds", "0..2", "--out", &restored, "--device", "cpu"];
    done(&[&["restore", &run, &pictures], &flags[..]].concat());
    run
}

/// Pictures of the size of the tiny run's.
fn pictures(scratch: &Scratch) -> String {
    let folder = scratch.path("pictures");
    if !std::path::Path::new(&folder).exists() {
        done(&["data", "prepare", "embedded:fashion-mnist", "--size", "16", "--limit", "64", "--out", &folder]);
    }
    folder
}

#[test]
fn a_composition_is_shown_trained_sampled_and_restored_each_part_at_its_own_pace() {
    let scratch = Scratch::new("composed");
    let strip = scratch.path("strip.png");
    let way = "blur@0-0.6+masking@0.5-1";
    let flags = ["--order", "spiral", "--steps", "4", "--out", &strip, "--json"];
    let shown = done(&[&["corrupt", "embedded:fashion-mnist", "--corruption", way], &flags[..]].concat());
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["shown"][3]["level"], 1.0);
    for (bad, said) in
        [("blur+maskin", "there is no corruption \"maskin\""), ("blur@1-0", "rising part"), ("blur@x", "0-0.6")]
    {
        let failed = softdiff(&["corrupt", "embedded:fashion-mnist", "--corruption", bad]);
        assert!(text(&failed.stderr).contains(said), "{}", text(&failed.stderr));
    }

    let schedule = scratch.path("heat.json");
    let small = ["--images", "64", "--candidates", "32", "--knots", "6", "--resamplings", "1", "--out", &schedule];
    done(&[&["schedule", &pictures(&scratch), "--corruption", "heat", "--largest", "4"], &small[..]].concat());
    let parts = format!(
        "path.corruption.parts=[{{kind=\"heat\", largest=4, until=0.7, schedule={schedule:?}}}, \
         {{kind=\"masking\", order=\"spiral\", from=0.4, schedule=\"straight\"}}]"
    );
    let sets = ["path.corruption=", "prior=", "path.corruption.kind=composed", &parts];
    let run = goes_all_the_way(&scratch, "run", &sets);
    let config = std::fs::read_to_string(format!("{run}/config.toml")).unwrap();
    assert!(config.matches("[[path.corruption.parts]]").count() == 2 && config.contains("until = 0.7"), "{config}");
    assert!(config.contains("[prior]\nkind = \"noise\""), "what is erased starts from noise: {config}");
    // A run goes on by its own recipe.
    done(&["train", "--out", &run, "--set", "train.steps=10", "--device", "cpu"]);
}

#[test]
fn a_kernel_in_two_dimensions_is_trained_with() {
    let scratch = Scratch::new("kernel");
    let map = scratch.path("map.json");
    std::fs::write(&map, "{\"kernel\": [[0, 0.2, 0], [0.1, 0.3, 0.1], [0, 0, 0.3]], \"boundary\": \"reflect\"}")
        .unwrap();
    let map = format!("path.corruption.map={map:?}");
    goes_all_the_way(&scratch, "run", &["path.corruption=", "path.corruption.kind=custom", &map]);
}

#[test]
fn a_masking_model_may_see_its_mask() {
    let scratch = Scratch::new("mask-channel");
    let masking = ["path.corruption=", "prior=", "path.corruption.kind=masking", "path.corruption.order=spiral"];
    let run = goes_all_the_way(&scratch, "run", &[&masking[..], &["network.mask_channel=true"]].concat());
    assert!(std::fs::read_to_string(format!("{run}/config.toml")).unwrap().contains("mask_channel = true"));
}

#[test]
fn levels_and_noise_chosen_together_are_shown_trained_and_plotted() {
    let scratch = Scratch::new("joint");
    let (joint, strip) = (scratch.path("joint.json"), scratch.path("strip.png"));
    let small = ["--images", "64", "--candidates", "32", "--knots", "6", "--resamplings", "1", "--out", &joint];
    let printed =
        done(&[&["schedule", &pictures(&scratch), "--method", "joint", "--largest", "4"], &small[..]].concat());
    assert!(printed.contains("sigma") && printed.lines().count() == 8, "{printed}");
    let flags = ["--largest", "4", "--schedule", &joint, "--steps", "6", "--out", &strip, "--json"];
    let shown: Value = serde_json::from_str(&done(&[&["corrupt", &pictures(&scratch)], &flags[..]].concat())).unwrap();
    let made: Value = serde_json::from_slice(&support::bytes(&joint)).unwrap();
    for k in 0..6 {
        assert_eq!(shown["shown"][k]["sigma"], made["sigmas"][k]);
    }
    let run = goes_all_the_way(&scratch, "run", &["schedule.method=joint", "schedule.noise_levels=6"]);
    let made: Value = serde_json::from_slice(&support::bytes(format!("{run}/schedule.json"))).unwrap();
    assert_eq!((made["knots"].as_array().unwrap().len(), made["sigmas"].as_array().unwrap().len()), (8, 8));
    let page = std::fs::read_to_string(scratch.path("page.html")).unwrap();
    assert!(page.contains("Noise and level of the corruption together"), "the report plots both");
}
