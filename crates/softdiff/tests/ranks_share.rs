//! Several ranks, as threads, that share images and features: rank 0 has the bits of one process.

mod run_support;

use run_support::folder;
use softdiff::Model;
use softdiff::data::{LoadOptions, Source, Transform};
use softdiff::engine::ranks::{Ranks, Reduce, ThreadRank};
use softdiff::engine::{Device, Params};
use softdiff::hint::Hint;
use softdiff::inception::{Extractor, Inception, Preset, random_weights};
use softdiff::model::{Generator, batch_size};
use softdiff::run::{RunFolder, StopRequest, StopSignal};
use softdiff::sampler::SamplerError;
use softdiff::train::{CheckpointScore, Training, Watcher};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// What rank 0 of `size` gives, while the others do their part.
fn on_ranks<T: Send>(size: usize, each: impl Fn(Ranks) -> Option<T> + Sync) -> T {
    let each = &each;
    thread::scope(|scope| {
        let ranks = ThreadRank::all(size).into_iter().map(|rank| Ranks::new(Arc::new(rank), Reduce::Exact));
        let threads: Vec<_> = ranks.map(|ranks| scope.spawn(move || each(ranks))).collect();
        let given: Vec<Option<T>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        given.into_iter().flatten().next().unwrap()
    })
}

const TINY: [&str; 17] = [
    "data.limit=64",
    "data.size=8",
    "schedule.images=32",
    "schedule.candidates=24",
    "schedule.knots=8",
    "path.corruption.largest=3",
    "prior.modes=4",
    "prior.components=1",
    "network.channels=8",
    "network.multipliers=[1, 2]",
    "train.batch=8",
    "train.steps=4",
    "train.accumulate=8",
    "train.ema=[0.9]",
    "sample.weights=ema-0.9",
    "sample.sampler=heun",
    "sample.steps=4",
];

fn training<'a>(sets: &[&str]) -> Training<'a> {
    let training = Training::from_recipe("quickstart").device(&Device::Cpu);
    TINY.iter().chain(sets).fold(training, |training, set| training.set(*set))
}

/// A model, trained for a moment.
fn model(name: &str) -> Model {
    let root = folder(name);
    training(&["preview=", "checkpoint.keep_best=0"]).run_in(&root).unwrap();
    Model::open(&root, None).unwrap()
}

/// Images of `seeds`, made `batch` at a time by `size` ranks, and the evaluations for each.
fn images(model: &Model, sampler: &str, seeds: &[u64], batch: usize, size: usize) -> Result<(Vec<f64>, usize), String> {
    let mut section = model.recipe.sample.clone();
    section.sampler = sampler.into();
    let (sampler, sampling) = (section.build().unwrap(), section.sampling(&model.path).unwrap());
    on_ranks(size, |ranks| {
        let batch = batch_size::of_part(batch, seeds.len(), &Device::Cpu, &ranks);
        let generation = model.generation(&*sampler, &sampling, batch);
        let precision = model.recipe.train.precision;
        let generator = Generator::new(&Device::Cpu, model.predictor(), &generation, precision).unwrap();
        let mut generator = generator.with_ranks(ranks.clone());
        model.require_same(&ranks, &generation, seeds, b"options").unwrap();
        if !ranks.is_first() {
            generator.serve(&generation).unwrap();
            return None;
        }
        let mut all = Vec::new();
        let made = seeds.chunks(batch * size).try_for_each(|part| {
            all.extend(generator.images(&generation, part, &mut |_, _| Ok(()))?);
            Ok::<(), SamplerError>(())
        });
        generator.release().unwrap();
        Some(made.map(|()| (all, generator.evaluations())).map_err(|error| error.in_full()))
    })
}

#[test]
fn images_and_evaluations_are_those_of_one_process_on_1_2_and_4_ranks() {
    let model = model("share_images");
    // More than one batch of each, a last batch that is not full, and fewer images than ranks.
    for (sampler, count, batch) in [("heun", 23, 4), ("momentum", 3, 32), ("dormand-prince", 5, 2)] {
        let seeds: Vec<u64> = (100..100 + count).collect();
        let alone = model.sample(seeds.clone()).sampler(sampler).device(&Device::Cpu).batch(batch).values().unwrap();
        let (_, evaluations) = images(&model, sampler, &seeds, batch, 1).unwrap();
        for size in [1, 2, 4] {
            let found = images(&model, sampler, &seeds, batch, size).unwrap();
            assert!(found == (alone.clone(), evaluations), "{sampler}, {size} ranks");
        }
    }
}

#[test]
fn images_that_are_not_finite_on_any_rank_are_the_error_of_one_process() {
    let mut model = model("share_nan");
    let name = model.params.specs()[0].name.clone();
    let (shape, mut values) = (model.params.specs()[0].shape.clone(), model.params.get(&name).unwrap().to_vec());
    values[0] = f32::MAX;
    model.params.set(&name, &shape, &values).unwrap();
    let seeds: Vec<u64> = (0..4).collect();
    let alone = images(&model, "heun", &seeds, 1, 1).unwrap_err();
    assert!(alone.contains("is not finite"), "{alone}");
    assert_eq!(images(&model, "heun", &seeds, 1, 4).unwrap_err(), alone);
}

#[test]
fn a_rank_with_another_model_or_other_seeds_is_refused() {
    let model = model("share_other");
    let (sampler, sampling) =
        (model.recipe.sample.build().unwrap(), model.recipe.sample.sampling(&model.path).unwrap());
    let refused = |seeds: &(dyn Fn(usize) -> Vec<u64> + Sync), options: &(dyn Fn(usize) -> Vec<u8> + Sync)| {
        on_ranks(2, |ranks| {
            let generation = model.generation(&*sampler, &sampling, 1);
            let (seeds, options) = (seeds(ranks.rank()), options(ranks.rank()));
            let refused = model.require_same(&ranks, &generation, &seeds, &options);
            ranks.is_first().then(|| refused.err().map(|error| error.to_string()).unwrap_or_default())
        })
    };
    assert_eq!(refused(&|_| vec![3, 4], &|_| vec![1]), "");
    let other_seeds = refused(&|rank| vec![3, 4 + rank as u64], &|_| vec![1]);
    assert!(other_seeds.starts_with("rank 1 differs from rank 0: the model, the options"), "{other_seeds}");
    assert!(refused(&|_| vec![3], &|rank| vec![rank as u8]).starts_with("rank 1 differs"));
}

#[test]
fn features_are_those_of_one_process_on_1_2_and_4_ranks_which_get_the_network_from_rank_0() {
    let file = folder("share_features").join("random.safetensors");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, random_weights(1).unwrap()).unwrap();
    let network = Inception::read(&file).unwrap();
    let transform = Transform { size: Some((8, 8)), ..Transform::default() };
    let options = LoadOptions { transform, limit: Some(11), ..LoadOptions::default() };
    let set = Source::open(FilePath::new("embedded:fashion-mnist")).unwrap().load(&options, &|_, _| {}).unwrap();
    let mut alone = Extractor::new(&Device::Cpu, &network, Preset::PytorchFid);
    let expected = alone.features(set.pixels(), 8, 8, 1).unwrap();
    assert!(expected.iter().all(|value| value.is_finite()) && expected.iter().any(|value| *value != expected[0]));
    // An image's features depend on neither its place in a batch nor the other images there.
    let single = alone.features(set.picture(6), 8, 8, 1).unwrap();
    assert!(single == expected[6 * single.len()..7 * single.len()]);
    for size in [1, 2, 4] {
        let found = on_ranks(size, |ranks| {
            let own = ranks.is_first().then(|| network.clone());
            let network = Inception::of_first(own, &ranks).unwrap().unwrap();
            let extractor = Extractor::new(&Device::Cpu, &network, Preset::PytorchFid);
            let mut extractor = extractor.with_ranks(ranks.clone());
            if !ranks.is_first() {
                extractor.serve().unwrap();
                return None;
            }
            let features = extractor.features(set.pixels(), 8, 8, 1).unwrap();
            extractor.release().unwrap();
            Some((features, network.hash()))
        });
        assert!(found == (expected.clone(), network.hash()), "{size} ranks");
    }
    assert!(on_ranks(2, |ranks| Some(Inception::of_first(None, &ranks).unwrap().is_none())));
}

/// Asks to stop while a checkpoint is scored.
struct StopsAtScore(StopRequest);

impl Watcher for StopsAtScore {
    fn evaluate(
        &mut self,
        _: u64,
        _: &Params<f32>,
    ) -> Result<Vec<CheckpointScore>, Box<dyn std::error::Error + Send + Sync>> {
        self.0.ask(StopSignal::Terminate);
        // Longer than a request takes to be noticed.
        thread::sleep(Duration::from_millis(200));
        Ok(vec![])
    }
    fn stop_request(&self) -> StopRequest {
        self.0.clone()
    }
}

#[test]
fn a_preview_and_a_score_that_a_request_to_stop_left_out_are_made_by_all_ranks_when_the_run_goes_on() {
    let sets = [
        "preview.every=2",
        "preview.images=3",
        "preview.steps=2",
        "checkpoint.every=2",
        "checkpoint.metric=sliced-wasserstein",
        "checkpoint.images=4",
        "checkpoint.keep_best=1",
    ];
    let events = |root: &FilePath| {
        let text = std::fs::read_to_string(RunFolder::new(root).events()).unwrap();
        text.lines().filter(|line| !line.contains("\"stopped\"")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (straight, stopped) = (folder("share_straight"), folder("share_stopped"));
    training(&sets).run_in(&straight).unwrap();
    on_ranks(2, |ranks| {
        let mut watcher = StopsAtScore(StopRequest::default());
        let training = training(&sets).ranks(ranks.clone());
        let said = match ranks.is_first() {
            true => training.watch(&mut watcher).run_in(&stopped),
            false => training.run_in(&stopped),
        };
        said.map(drop).unwrap_err();
        Some(())
    });
    assert_eq!(events(&stopped).iter().filter(|line| line.contains("sliced-wasserstein")).count(), 0);
    on_ranks(2, |ranks| training(&sets).ranks(ranks).run_in(&stopped).map(drop).ok());
    assert_eq!(events(&stopped), events(&straight));
}

#[test]
fn previews_and_scores_of_a_training_are_those_of_one_process_on_1_2_and_4_ranks() {
    let sets = [
        "preview.every=2",
        "preview.images=5",
        "preview.steps=2",
        "checkpoint.every=2",
        "checkpoint.metric=sliced-wasserstein",
        "checkpoint.images=7",
        "checkpoint.keep_best=1",
    ];
    let read = |root: &FilePath, name: &str| std::fs::read(root.join(name)).unwrap();
    let roots = [1, 2, 4].map(|size| {
        let root = folder(&format!("share_training_{size}"));
        on_ranks(size, |ranks| training(&sets).ranks(ranks.clone()).run_in(&root).map(|_| ranks.is_first()).ok());
        root
    });
    let events = String::from_utf8(std::fs::read(RunFolder::new(&roots[0]).events()).unwrap()).unwrap();
    assert_eq!(events.matches("sliced-wasserstein").count(), 2, "{events}");
    for root in &roots[1..] {
        for name in ["events.jsonl", "samples/preview-000000002.png", "samples/preview-000000004.png"] {
            assert!(read(root, name) == read(&roots[0], name), "{} {name}", root.display());
        }
    }
    // Without a folder nothing is made, on any rank.
    on_ranks(2, |ranks| training(&sets).ranks(ranks).run().ok());
}
