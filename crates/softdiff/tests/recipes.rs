//! Recipes: the built-in ones are sound, bad ones are refused with a place and a remedy, nothing panics.

use softdiff::corruption::Shape;
use softdiff::image::Quantise;
use softdiff::network::Network;
use softdiff::objective::Objective;
use softdiff::recipe::{BUILTIN, BuildError, KnotMethod, PathSection, Recipe};
use softdiff::schedule::plan;
use softdiff_engine::{Graph, Params};

fn sets(sets: &[&str]) -> Vec<String> {
    sets.iter().map(|&set| set.to_owned()).collect()
}

#[test]
fn every_builtin_recipe_reads_and_its_explicit_form_is_the_same_recipe() {
    for (name, _) in BUILTIN {
        let recipe = Recipe::builtin(name, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(recipe.name, *name);
        let text = recipe.to_toml();
        let again = Recipe::parse(&text, "config.toml", &[]).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        assert_eq!(again, recipe, "{name}");
        assert_eq!(again.to_toml(), text, "{name}");
    }
}

#[test]
fn every_builtin_recipe_builds_its_path_network_and_sampler() {
    let shape = Shape::new(16, 16, 3);
    let images: Vec<f64> = (0..20 * shape.len()).map(|i| (i * 7919 % 256) as f64 / 255.0).collect();
    for (name, _) in BUILTIN {
        let small = ["schedule.images=8", "schedule.candidates=40"];
        let recipe = Recipe::builtin(name, &[]).unwrap();
        let measures = recipe.path.corruption().is_some() && recipe.schedule.measures();
        let recipe = if measures { Recipe::builtin(name, &sets(&small)).unwrap() } else { recipe };
        let corruption = recipe.corruption(shape).unwrap();
        assert_eq!(corruption.is_some(), recipe.path.corruption().is_some());
        let request = corruption.as_deref().and_then(|c| recipe.schedule_request(c, "test images").unwrap());
        let schedule = request.map(|request| plan(&*corruption.unwrap(), &images, &request, &|_, _| {}).unwrap());
        let path = recipe.path(shape, schedule.as_ref()).unwrap();
        assert!(path.at(1.0).unwrap().sigma > 0.0, "{name}");
        recipe.sample.build().unwrap();
        recipe.sample.sampling(&path).unwrap();
        recipe.network(Shape::new(64, 64, 3)).unwrap();
        recipe.adam();
    }
}

#[test]
fn the_papers_recipes_have_the_papers_numbers() {
    for name in ["cifar10-blur", "celeba64-blur"] {
        let recipe = Recipe::builtin(name, &[]).unwrap();
        assert_eq!(recipe.objective, Objective::PAPER);
        assert_eq!((recipe.schedule.candidates, recipe.schedule.knots, recipe.sample.steps), (256, 32, 280));
        assert_eq!((recipe.train.batch, recipe.train.rate, recipe.train.warmup), (128, 2e-4, 5000));
        assert_eq!(recipe.schedule.method, KnotMethod::ShortestPath);
    }
}

#[test]
fn a_composition_keeps_the_levels_of_each_part_in_its_own_share_of_the_way() {
    let parts = "path.corruption.parts=[{kind=\"blur\", largest=3, until=0.5}, \
                 {kind=\"masking\", order=\"spiral\", from=0.5, schedule=\"straight\"}]";
    let changes = ["path.corruption=", "prior=", "schedule=", "path.corruption.kind=composed", parts];
    let recipe =
        Recipe::builtin("cifar10-blur", &sets(&[&changes[..], &["schedule.method=straight"]].concat())).unwrap();
    let again = Recipe::parse(&recipe.to_toml(), "config.toml", &[]).unwrap();
    assert_eq!(again, recipe);
    let shape = Shape::new(8, 8, 3);
    let path = recipe.path(shape, None).unwrap();
    let at = |progress: f64| path.at(0.18 + 0.82 * progress).unwrap().map;
    let softdiff::corruption::LinearMap::Compose(maps) = at(0.754) else { panic!("{:?}", at(0.754)) };
    let blur = recipe.path.corruption().unwrap();
    let softdiff::recipe::CorruptionSection::Composed { parts } = blur else { panic!("{blur:?}") };
    assert_eq!(maps[0], parts[0].corruption.build(shape).unwrap().at(3.0).unwrap());
    assert_eq!(maps[1], parts[1].corruption.build(shape).unwrap().at(0.508).unwrap());
    // Half-way the image is blurred and whole.
    let ones = vec![1.0; shape.len()];
    let softdiff::corruption::LinearMap::Compose(maps) = at(0.5) else { panic!("{:?}", at(0.5)) };
    assert_eq!(maps[1].apply(shape, &ones).unwrap(), ones);
    assert_eq!(recipe.prior.kind(), "noise");
}

#[test]
fn a_joint_schedule_gives_the_path_noise_of_its_own() {
    let changes = ["schedule.method=joint", "schedule.metric=", "schedule.images=20", "schedule.candidates=30"];
    let recipe = Recipe::builtin("cifar10-blur", &sets(&[&changes[..], &["schedule.knots=9"]].concat())).unwrap();
    assert_eq!(Recipe::parse(&recipe.to_toml(), "config.toml", &[]).unwrap(), recipe);
    assert!(
        Recipe::builtin("cifar10-blur", &sets(&["schedule.method=joint"])).unwrap_err().to_string().contains("metric")
    );
    let shape = Shape::new(8, 8, 3);
    let images: Vec<f64> = (0..20 * shape.len()).map(|i| (i * 7919 % 256) as f64 / 255.0).collect();
    let corruption = recipe.corruption(shape).unwrap().unwrap();
    let request = recipe.schedule_request(&*corruption, "test images").unwrap().unwrap();
    let schedule = plan(&*corruption, &images, &request, &|_, _| {}).unwrap();
    let path = recipe.path(shape, Some(&schedule)).unwrap();
    for (k, (level, sigma)) in schedule.knots.iter().zip(schedule.sigmas.as_ref().unwrap()).enumerate() {
        let t = k as f64 / 8.0;
        assert!((path.level(t).unwrap() - level).abs() < 1e-12 && (path.at(t).unwrap().sigma - sigma).abs() < 1e-12);
    }
    assert!(matches!(recipe.path(shape, None), Err(BuildError::NeedsSchedule { method: "joint" })));
}

/// score_sde: sigma_max 50 for CIFAR-10 (configs/ve/cifar10_ncsnpp_continuous.py), 90 for CelebA-64 (configs/ve/celeba_ncsnpp.py).
#[test]
fn ve_and_the_matched_pace_have_score_sdes_largest_noise_for_the_size_of_the_images() {
    for (name, expected) in [("cifar10-blur", 50.0), ("celeba64-blur", 90.0), ("quickstart", 50.0)] {
        let matched = Recipe::builtin(name, &sets(&["schedule.method=mse-matched", "schedule.knots="])).unwrap();
        assert_eq!(matched.schedule.method, KnotMethod::MseMatched { pace: expected }, "{name}");
        assert_eq!(matched.schedule.knots, 256, "{name}");
        let ve = ["path=", "schedule=", "prior=", "path.kind=ve", "sample.sampler=reverse-diffusion"];
        let ve = Recipe::builtin(name, &sets(&ve)).unwrap();
        assert_eq!(ve.path, PathSection::Ve { smallest: 0.01, largest: expected }, "{name}");
    }
}

#[test]
fn in_a_run_shorter_than_its_cooldown_the_rate_falls_from_the_beginning() {
    let whole = Recipe::builtin("cifar10-small", &[]).unwrap();
    assert_eq!((whole.adam().cooldown, whole.adam().rate_at(1 << 14)), (42_000, whole.train.rate));
    let short = Recipe::builtin("cifar10-small", &sets(&["train.steps=100", "train.warmup=0"])).unwrap();
    assert_eq!((short.adam().cooldown, short.adam().rate_at(50)), (100, short.train.rate / 2.0));
}

#[test]
fn vp_is_centred_but_for_runs_saved_without_the_key() {
    let shape = Shape::new(4, 4, 1);
    for name in ["vp", "sub-vp"] {
        let recipe = Recipe::builtin(name, &[]).unwrap();
        let path = recipe.path(shape, None).unwrap();
        assert_eq!((path.centre(), path.at(1.0).unwrap().sigma < 0.51), (0.5, true));
        let text = recipe.to_toml();
        assert_eq!(Recipe::parse_saved(&text, "config.toml", &[]).unwrap(), recipe);
        let old = Recipe::parse_saved(&text.replace("centred = true\n", ""), "config.toml", &[]).unwrap();
        let path = old.path(shape, None).unwrap();
        assert_eq!((path.centre(), path.at(1.0).unwrap().sigma > 0.99), (0.0, true));
        // Keys laid over it later do not change that.
        assert_eq!(old.with_sets(&sets(&["sample.steps=7"])).unwrap().path, old.path);
    }
}

#[test]
fn a_path_that_needs_a_schedule_says_so() {
    let shape = Shape::new(16, 16, 1);
    let recipe = Recipe::builtin("quickstart", &[]).unwrap();
    assert!(matches!(recipe.path(shape, None), Err(BuildError::NeedsSchedule { .. })));
    let even = ["schedule.method=even", "schedule.candidates=", "schedule.images="];
    Recipe::builtin("quickstart", &sets(&even)).unwrap().path(shape, None).unwrap();
}

#[test]
fn sets_are_laid_over_the_file_and_empty_ones_remove() {
    let over = [
        "train.batch=64",
        "train.steps=1e5",
        "sample.sampler=heun",
        "data.source=my pictures",
        "name=2026",
        "train.ema=[0.9, 0.99]",
        "sample.weights=ema-0.99",
        "path.kind=ve",
        "path.corruption=",
        "path.noise_stage=",
        "schedule=",
        "prior.kind=noise",
        "prior.modes=",
    ];
    let recipe = Recipe::builtin("cifar10-blur", &sets(&over)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((recipe.train.batch, recipe.train.steps), (64, 100_000));
    assert_eq!((recipe.data.source.as_str(), recipe.name.as_str()), ("my pictures", "2026"));
    assert_eq!(recipe.train.ema, [0.9, 0.99]);
    assert!(recipe.path.corruption().is_none());
}

#[test]
fn the_recipes_of_the_paper_and_of_score_sde_truncate_samples_and_a_run_goes_on_with_either() {
    for (name, _) in BUILTIN {
        let recipe = Recipe::builtin(name, &[]).unwrap();
        let ours = ["quickstart", "cifar10-small", "photos"].contains(name);
        assert_eq!(recipe.sample.quantise == Quantise::Round, ours, "{name}");
        let rounded = recipe.with_sets(&sets(&["sample.quantise=round"])).unwrap();
        assert!(!rounded.to_toml().contains("quantise"), "saved recipes without the key stay as they are");
    }
}

#[test]
fn the_network_for_photographs_has_the_same_weights_for_tiles_of_any_size() {
    let recipe = Recipe::builtin("photos", &[]).unwrap();
    let weights = |side: usize| {
        let network = recipe.network(Shape::new(side, side, 3)).unwrap();
        let mut graph = Graph::new();
        let x = graph.input("x", [1, side, side, 3]).unwrap();
        let t = graph.input("t", [1]).unwrap();
        network.emit(&mut graph, x, t, false).unwrap();
        Params::<f32>::zeros(&graph)
    };
    let (crops, tiles) = (weights(64), weights(136));
    assert!(crops == tiles);
    assert!(crops.numel() < 9_900_000, "{} weights", crops.numel());
}

#[test]
fn every_one_of_very_many_problems_has_its_line() {
    let text: String = (0..60_000).map(|i| format!("k{i} = 1\n")).collect();
    let error = Recipe::parse(&text, "many.toml", &[]).unwrap_err();
    let lines: Vec<usize> = error.problems.iter().filter_map(|problem| problem.line).collect();
    assert_eq!(lines, (1..=60_000).collect::<Vec<_>>());
}

/// What earlier versions took for every size, stated in the files of their runs.
#[test]
fn networks_are_as_before_where_these_fit_and_suit_other_sizes_where_nothing_is_stated() {
    for (name, _) in BUILTIN {
        let recipe = Recipe::builtin(name, &[]).unwrap();
        if recipe.network.multipliers.is_some() {
            continue;
        }
        for side in [32, 64] {
            let network = recipe.network(Shape::new(side, side, 3)).unwrap();
            assert_eq!((&network.multipliers[..], &network.attention[..]), (&[1, 2, 2, 2][..], &[16][..]), "{name}");
        }
        let mut settled = recipe.clone();
        settled.network.settle(Some(64));
        assert!(
            settled.to_toml().contains("multipliers = [1, 2, 2, 2]\n")
                && settled.to_toml().contains("attention = [16]\n")
        );
        let large = recipe.network(Shape::new(256, 256, 3)).unwrap();
        assert_eq!((&large.multipliers[..], &large.attention[..]), (&[1, 1, 2, 2, 2, 2][..], &[16][..]), "{name}");
    }
    let stated =
        Recipe::builtin("cifar10-blur", &sets(&["network.multipliers=[1, 2]", "network.attention=[]"])).unwrap();
    let network = stated.network(Shape::new(256, 256, 3)).unwrap();
    assert_eq!((&network.multipliers[..], network.attention.len()), (&[1, 2][..], 0));
    let again = stated.with_sets(&sets(&["network.multipliers=auto"])).unwrap();
    assert_eq!(again.network.multipliers, None);
}

#[test]
fn guidance_that_is_only_garbage_is_refused() {
    for guidance in ["1e38", "100.5", "-1", "nan"] {
        let error = Recipe::builtin("quickstart", &[format!("sample.guidance={guidance}")]).unwrap_err().to_string();
        assert!(error.contains("sample.guidance must be a number from 0 to 100"), "{guidance}: {error}");
    }
    assert_eq!(Recipe::builtin("quickstart", &["sample.guidance=100".into()]).unwrap().sample.guidance, 100.0);
}
