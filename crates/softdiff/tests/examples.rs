//! The examples run, with less effort than by themselves.

#[allow(dead_code)]
#[path = "../examples/fid_of_folders.rs"]
mod fid_of_folders;
#[allow(dead_code)]
#[path = "../examples/own_images.rs"]
mod own_images;
#[allow(dead_code)]
#[path = "../examples/own_network.rs"]
mod own_network;
#[allow(dead_code)]
#[path = "../examples/own_objective.rs"]
mod own_objective;
#[allow(dead_code)]
#[path = "../examples/own_sampler.rs"]
mod own_sampler;
#[allow(dead_code)]
#[path = "../examples/restore_image.rs"]
mod restore_image;
#[allow(dead_code)]
#[path = "../examples/train_and_sample.rs"]
mod train_and_sample;

use softdiff::image::Picture;
use softdiff::{Dataset, Path, Shape, Training};
use std::path::PathBuf;

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("examples").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// 64 images of 8x8 pixels: squares of two greys.
fn images() -> Dataset {
    let bright = |i: usize| (i / 8 % 8).max(i % 8) < 3 + i / 64 % 5;
    let pixels = (0..64 * 64).map(|i| if bright(i) { 220 } else { 30 }).collect();
    Dataset::new(8, 8, 1, pixels, None, vec![])
}

#[test]
fn a_recipe_is_trained_in_a_folder_sampled_and_continued() {
    let folder = folder("recipe");
    let sets = |steps: &'static str| {
        let data = ["data.limit=64", "data.size=8", "prior.modes=4", "prior.components=1"];
        let metric = ["checkpoint.metric=sliced-wasserstein", "checkpoint.images=4", "sample.steps=3"];
        [&data[..], &["network.channels=8", "train.batch=8", steps], &metric].concat()
    };
    train_and_sample::run(&folder, &sets("train.steps=3")).unwrap();
    assert!(folder.join("samples.png").is_file() && folder.join("checkpoints/step-000000003").is_dir());
    train_and_sample::run(&folder, &sets("train.steps=5")).unwrap();
    assert!(folder.join("checkpoints/step-000000005").is_dir());
    let model = softdiff::Model::open(&folder, None).unwrap();
    assert_eq!(model.sample(0..4).images().unwrap().len(), 4);
}

#[test]
fn own_images_and_corruptions_networks_and_losses_are_trained() {
    for samples in [own_images::run(images(), 3).unwrap(), own_network::run(images(), 3).unwrap()] {
        assert_eq!((samples.len(), samples.height(), samples.width(), samples.channels()), (16, 8, 8, 1));
    }
    let losses = own_objective::run(images(), 40).unwrap();
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert_eq!(losses.len(), 40);
    assert!(mean(&losses[30..]) < mean(&losses[..10]), "{losses:?}");
}

#[test]
fn a_model_in_memory_is_sampled_by_an_own_sampler_and_restores() {
    let path = Path::variance_exploding(Shape::new(8, 8, 1), 0.01, 10.0).unwrap();
    let model = Training::new(images(), path).set("network.channels=8").steps(3).batch(8).run().unwrap().model();
    assert_eq!(own_sampler::run(&model, 5).unwrap().len(), 16);
    let image = Picture { width: 8, height: 8, channels: 1, pixels: images().picture(1).to_vec() };
    let restored = restore_image::run(&model, &image, 5).unwrap();
    assert_eq!((restored.samples.len(), restored.mean.len()), (8 * 64, 64));
    assert!(model.export(&folder("own"), false).unwrap_err().to_string().contains("cannot be exported"));
}

#[test]
fn the_fid_of_a_folder_to_itself_is_zero_where_the_network_is_there() {
    let place = std::path::Path::new("embedded:fashion-mnist");
    if std::env::var_os("SOFTDIFF_INCEPTION").is_none() {
        assert_eq!(fid_of_folders::run(place, place).unwrap(), None);
        return;
    }
    let folder = folder("fid");
    let sheet = images();
    for index in 0..8 {
        let bytes = softdiff::image::png::encode(8, 8, 1, sheet.picture(index));
        std::fs::write(folder.join(format!("{index}.png")), bytes).unwrap();
    }
    assert!(fid_of_folders::run(&folder, &folder).unwrap().unwrap().abs() < 1e-6);
}

#[test]
fn no_example_is_longer_than_forty_lines() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).unwrap() {
        let file = entry.unwrap().path();
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 40, "{} has {lines} lines", file.display());
    }
}
