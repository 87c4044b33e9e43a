//! Autoguidance: samples guided by a weaker model.

use softdiff::corruption::Shape;
use softdiff::engine::{Device, Precision};
use softdiff::hint::Hint;
use softdiff::metrics::{Evaluator, ImageSet};
use softdiff::model::{Generator, LikelihoodOptions, ModelError};
use softdiff::recipe::Recipe;
use softdiff::sampler::{Denoiser, Multistep, SamplerError, Sampling};
use softdiff::{Dataset, Model, Training};
use std::path::PathBuf;

/// A model of 8x8 images after so few steps that another seed or size gives quite another one.
fn model(sets: &[&str]) -> Model {
    let usual = ["network.channels=8", "network.multipliers=[1]", "network.blocks=1", "train.batch=4", "train.steps=3"];
    let rest = ["train.precision=f32", "train.warmup=0", "train.rate=1e-2", "train.ema=[]", "sample.weights=raw"];
    let sets: Vec<String> = usual.iter().chain(&rest).chain(sets).map(|set| set.to_string()).collect();
    let pixels = (0..16 * 64).map(|i| (i * i % 251) as u8).collect();
    let images = Dataset::new(8, 8, 1, pixels, None, vec![]);
    Training::of(Recipe::builtin("ve", &sets).unwrap()).images(images).run().unwrap().model()
}

fn guided() -> Model {
    model(&[]).with_guide(model(&["seed=7", "network.channels=16"])).unwrap()
}

fn x0_hat(model: &Model, xt: &[f64], t: f64) -> Vec<f64> {
    model.denoiser(&Device::Cpu, 1, Precision::F32).unwrap().x0_hat(xt, t).unwrap()
}

#[test]
fn predictions_go_beyond_the_model_by_the_difference_to_its_guide() {
    let (strong, weak) = (model(&[]), model(&["seed=7", "network.channels=16"]));
    let both = guided();
    for t in [1.0, 0.6, 0.2, 0.01] {
        let xt = strong.path.diffuse(&[0.3; 64], t, &(0..64).map(|i| f64::from(i).sin()).collect::<Vec<_>>()).unwrap();
        let (strong, weak) = (x0_hat(&strong, &xt, t), x0_hat(&weak, &xt, t));
        assert!(strong.iter().zip(&weak).any(|(s, w)| (s - w).abs() > 1e-3), "the two are not one model");
        for factor in [0.0, 0.5, 1.0, 2.5] {
            let found = x0_hat(&both.guided(factor).unwrap(), &xt, t);
            let size = xt.iter().fold(1.0f64, |most, x| most.max(x.abs()));
            for ((f, s), w) in found.iter().zip(&strong).zip(&weak) {
                assert!((f - (w + factor * (s - w))).abs() < 1e-5 * size, "{factor} at {t}: {f}, of {s} and {w}");
            }
        }
    }
}

#[test]
fn a_model_that_guides_itself_changes_nothing_but_the_number_of_evaluations() {
    let model = model(&[]);
    let alone = model.sample(0..3).sampler("multistep").steps(4).values().unwrap();
    let itself = model.clone().with_guide(model.clone()).unwrap();
    let mut section = itself.recipe.sample.clone();
    (section.sampler, section.steps, section.guidance) = ("multistep".into(), 4, 2.0);
    let guided = itself.sample(0..3).sampling(section.clone()).values().unwrap();
    assert!(alone.iter().zip(&guided).all(|(a, b)| (a - b).abs() < 1e-4 * (1.0 + a.abs())));
    let steps = itself.sample(0..3).sampling(section).denoise_steps().unwrap().last().unwrap().unwrap();
    assert_eq!(steps.xt, guided, "one step at a time");

    let sampling = Sampling::uniform(4).unwrap();
    for (guidance, each) in [(1.0, 4), (2.0, 8)] {
        let model = itself.guided(guidance).unwrap();
        let generation = model.generation(&Multistep, &sampling, 2);
        let mut generator = Generator::new(&Device::Cpu, model.predictor(), &generation, Precision::F32).unwrap();
        generator.images(&generation, &[0, 1, 2], &mut |_, _| Ok(())).unwrap();
        assert_eq!(generator.evaluations(), each);
    }
}

#[test]
fn what_cannot_guide_is_named() {
    let refused = |guide: Model| match model(&[]).with_guide(guide) {
        Err(error @ ModelError::OtherGuide { .. }) => error.to_string(),
        other => panic!("{:?}", other.map(|model| model.name)),
    };
    assert_eq!(
        refused(model(&["path.largest=20"])),
        "ve cannot guide ve: it has another path, or reads its network's output differently"
    );
    let parametrisation = "objective.parametrisation=clean";
    assert!(refused(model(&[parametrisation])).contains("reads its network's output differently"));
    let Err(error) = model(&[]).guided(1.5).map(drop) else { panic!("there is no guide") };
    assert!(matches!(error, SamplerError::NoGuide(1.5)));
    assert!(error.hint().unwrap().contains("--guide"));
}

#[test]
fn an_exported_model_keeps_its_guide_and_notices_damage() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("guided");
    std::fs::remove_dir_all(&folder).ok();
    let mut model = guided();
    model.recipe.sample.guidance = 1.5;
    model.recipe.sample.steps = 3;
    model.export(&folder, false).unwrap();
    let read = Model::open(&folder, None).unwrap();
    assert_eq!(read.recipe.sample.guidance, 1.5);
    assert_eq!(read.path.shape(), Shape::new(8, 8, 1));
    assert_eq!(read.sample(0..2).values().unwrap(), model.sample(0..2).values().unwrap());
    let card = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(card.contains("samples are guided, with `sample.guidance = 1.5`, by a weaker model"), "{card}");

    let weights = folder.join("guide.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    let Err(error) = Model::open(&folder, None) else { panic!("a weight was changed") };
    assert!(error.to_string().contains("guide.safetensors"), "{error}");
    std::fs::remove_file(&weights).unwrap();
    assert!(Model::open(&folder, None).is_err());
}

#[test]
fn files_of_a_guide_that_the_manifest_does_not_name_are_no_guide() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("guided-before");
    std::fs::remove_dir_all(&folder).ok();
    let names = ["guide.toml", "guide.safetensors"];
    guided().export(&folder, false).unwrap();
    let before = names.map(|name| std::fs::read(folder.join(name)).unwrap());
    model(&[]).export(&folder, false).unwrap();
    assert!(names.iter().all(|name| !folder.join(name).exists()), "the guide of the model before is still there");
    names.iter().zip(before).for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes).unwrap());
    assert!(Model::open(&folder, None).unwrap().guide.is_none());
    std::fs::remove_file(folder.join("manifest.json")).unwrap();
    assert!(Model::open(&folder, None).unwrap().guide.is_none());
}

#[test]
fn an_export_does_not_say_of_samples_that_they_are_guided_where_they_cannot_be_or_are_not() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("guided-by-none");
    std::fs::remove_dir_all(&folder).ok();
    let mut alone = model(&[]);
    alone.recipe.sample.guidance = 1.5;
    let error = alone.export(&folder, false).unwrap_err();
    assert!(matches!(error, ModelError::Sampler(SamplerError::NoGuide(1.5))), "{error}");
    assert!(!folder.exists());
    guided().export(&folder, false).unwrap();
    let card = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(card.contains("samples are not guided, but can be"), "{card}");
}

#[test]
fn the_likelihood_of_a_guided_model_is_said_to_be_without_its_guide() {
    let mut model = guided();
    model.recipe.sample.guidance = 1.5;
    let images = ImageSet::new(Dataset::new(8, 8, 1, vec![90; 64], None, vec![]), "grey");
    let options = LikelihoodOptions { tolerance: 1e-2, ..LikelihoodOptions::default() };
    let found = Evaluator::new(&Device::Cpu).likelihood(&model, &images, &options).unwrap();
    assert!(found.warnings.iter().any(|warning| warning.contains("without its guide")), "{:?}", found.warnings);
}

#[test]
fn the_models_of_the_repository_are_whole_and_as_large_as_the_pages_say() {
    for (name, guidance, most) in [("cifar10", 1.5, 45), ("cifar10-small", 1.5, 20), ("photos", 1.0, 20)] {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(name);
        let model = Model::open(&folder, None).unwrap();
        assert_eq!((model.name.as_str(), model.recipe.sample.guidance), (name, guidance));
        assert_eq!(model.guide.is_some(), guidance != 1.0);
        let bytes: u64 = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes <= most * 1_000_000, "{name}: {bytes}");
    }
}
