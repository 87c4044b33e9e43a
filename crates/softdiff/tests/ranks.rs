//! Several ranks that train one network, as threads: the number of ranks changes no bit, and none goes on alone.

mod run_support;

use run_support::folder;
use softdiff::checkpoint::{Identity, Retention, TrainingState};
use softdiff::corruption::{HeatDissipation, Shape};
use softdiff::curve::Interpolation;
use softdiff::data::{Dataset, LoadOptions, Source, Transform};
use softdiff::engine::device::Record;
use softdiff::engine::optim::AdamConfig;
use softdiff::engine::ranks::{Communicator, Ranks, Reduce, ThreadRank};
use softdiff::engine::{Device, Params, Precision};
use softdiff::network::UNetConfig;
use softdiff::path::Path;
use softdiff::prior::Prior;
use softdiff::run::{RunFolder, StopRequest, StopSignal};
use softdiff::train::{ImageFeed, RunSpec, RunStore, Stepper, TrainError, Training, Unwatched, Watcher, train};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const SIDE: usize = 8;
const SHARES: usize = 8;

fn dataset() -> Dataset {
    let transform = Transform { size: Some((SIDE, SIDE)), ..Transform::default() };
    let options = LoadOptions { transform, limit: Some(50), ..LoadOptions::default() };
    Source::open(FilePath::new("embedded:fashion-mnist")).unwrap().load(&options, &|_, _| {}).unwrap()
}

fn path() -> Arc<Path> {
    let heat = HeatDissipation::new(Shape::new(SIDE, SIDE, 1), 4.0).unwrap();
    Arc::new(Path::two_stage(Box::new(heat), vec![0.0, 0.5, 1.5, 4.0], Interpolation::Linear).unwrap())
}

fn spec<'a>(dataset: &'a Dataset, prior: &'a Prior, ranks: Ranks) -> RunSpec<'a> {
    let network = UNetConfig { dropout: 0.1, ..UNetConfig::small(SIDE, 1, 8, &[1, 2]) };
    RunSpec {
        adam: AdamConfig { rate: 1e-3, warmup: 2, ema: vec![0.9], ..AdamConfig::default() },
        seed: 3,
        steps: 8,
        batch: 16,
        accumulate: SHARES,
        mirror: true,
        stratified: true,
        precision: Precision::F32,
        log_every: 2,
        bins: 3,
        identity: Identity::of(b"recipe", b"schedule"),
        checkpoint_every: 3,
        retention: Retention { last: 2, every: None, best: None },
        ranks,
        ..RunSpec::new(dataset, path(), prior, Arc::new(network))
    }
}

/// What each of `size` ranks does, in order.
fn on_ranks<T: Send>(size: usize, reduce: Reduce, each: impl Fn(usize, Ranks) -> T + Sync) -> Vec<T> {
    let each = &each;
    thread::scope(|scope| {
        let threads: Vec<_> = ThreadRank::all(size)
            .into_iter()
            .map(|rank| scope.spawn(move || each(rank.rank(), Ranks::new(Arc::new(rank), reduce))))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Trains on `size` ranks in a folder, of which only rank 0 knows.
fn run(
    root: &FilePath,
    size: usize,
    change: impl Fn(&mut RunSpec) + Sync,
    watcher: impl Fn(usize) -> Box<dyn Watcher> + Sync,
) -> Vec<Result<TrainingState, TrainError>> {
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    on_ranks(size, Reduce::Exact, |rank, ranks| {
        let mut spec = spec(&dataset, &prior, ranks);
        change(&mut spec);
        let folder = RunFolder::new(root);
        let lock = (rank == 0).then(|| folder.lock().unwrap());
        let store = lock.as_ref().map(|lock| RunStore { folder: &folder, lock });
        train(&spec, store, &Device::Cpu, &mut *watcher(rank)).map(|finished| finished.state)
    })
}

fn unwatched(_: usize) -> Box<dyn Watcher> {
    Box::new(Unwatched)
}

fn steps(size: usize, reduce: Reduce, accumulate: usize) -> Vec<(Vec<Record>, Params<f32>)> {
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    on_ranks(size, reduce, |_, ranks| {
        let spec = RunSpec { accumulate, ..spec(&dataset, &prior, ranks) };
        let step = spec.step().unwrap();
        let TrainingState { params, adam, .. } = spec.new_state(&step);
        let mut stepper = Stepper::new(&spec, &step, (params, adam), &Device::Cpu, ImageFeed::Dataset).unwrap();
        (0..4).for_each(|step| stepper.run(step).unwrap());
        let records = stepper.wait().unwrap();
        let finished = stepper.finished();
        (if records.is_empty() { finished } else { records }, stepper.learner().state().unwrap().0)
    })
}

#[test]
fn draws_losses_and_weights_are_the_same_bits_on_1_2_4_and_8_ranks() {
    let alone = steps(1, Reduce::Exact, SHARES).remove(0);
    assert_eq!(alone.0.len(), 4);
    for size in [2, 4, 8] {
        for (rank, found) in steps(size, Reduce::Exact, SHARES).into_iter().enumerate() {
            assert!(found == alone, "rank {rank} of {size}");
        }
    }
}

#[test]
fn the_fast_sum_and_other_shares_agree_to_rounding() {
    let (records, mut weights) = steps(1, Reduce::Exact, 1).remove(0);
    for (size, accumulate) in [(2, SHARES), (4, 1), (8, SHARES)] {
        let all = steps(size, Reduce::Fast, accumulate);
        assert!(all.iter().all(|found| *found == all[0]), "the ranks differ");
        let (found, mut params) = all[0].clone();
        for (found, expected) in found.iter().zip(&records) {
            assert!((found.loss - expected.loss).abs() < 1e-5 * expected.loss, "{} {}", found.loss, expected.loss);
            let times = |record: &Record| record.samples.iter().map(|(t, _)| *t).collect::<Vec<_>>();
            assert_eq!(times(found), times(expected));
        }
        for (a, b) in params.trainable_mut().zip(weights.trainable_mut()) {
            assert!(a.iter().zip(b.iter()).all(|(a, b)| (a - b).abs() < 2e-5), "{size} ranks");
        }
    }
}

#[test]
fn only_rank_0_writes_and_the_folder_is_that_of_one_process() {
    let (alone, together) = (folder("ranks_alone"), folder("ranks_together"));
    let expected = run(&alone, 1, |_| {}, unwatched).remove(0).unwrap();
    for state in run(&together, 4, |_| {}, unwatched) {
        let state = state.unwrap();
        assert!(state.params == expected.params && state.adam == expected.adam);
    }
    let events = |root: &FilePath| std::fs::read(RunFolder::new(root).events()).unwrap();
    assert_eq!(events(&alone), events(&together));
}

/// Asks its own rank to stop after a step.
struct Stopper {
    after: u64,
    stop: StopRequest,
}

impl Watcher for Stopper {
    fn step(&mut self, done: u64, _: u64, _: f64) {
        if done == self.after {
            self.stop.ask(StopSignal::Terminate);
        }
    }
    fn stop_request(&self) -> StopRequest {
        self.stop.clone()
    }
}

#[test]
fn a_signal_to_any_rank_stops_all_with_a_checkpoint_and_another_number_of_ranks_goes_on() {
    let expected = run(&folder("ranks_straight"), 1, |_| {}, unwatched).remove(0).unwrap();
    let root = folder("ranks_stopped");
    for (size, stopped_rank, after) in [(2, 1, 2), (8, 5, 4), (1, 0, 5)] {
        let watcher = |rank| -> Box<dyn Watcher> {
            let after = if rank == stopped_rank { after } else { u64::MAX };
            Box::new(Stopper { after, stop: StopRequest::default() })
        };
        for result in run(&root, size, |_| {}, watcher) {
            match result.unwrap_err() {
                TrainError::Stopped(stopped) => {
                    assert_eq!((stopped.signal, stopped.step), (StopSignal::Terminate, Some(after)))
                }
                error => panic!("{error}"),
            }
        }
    }
    for state in run(&root, 4, |_| {}, unwatched) {
        let state = state.unwrap();
        assert!(state.params == expected.params && state.adam == expected.adam);
    }
}

/// Ends its rank after a step, as one that is killed.
struct Dies {
    after: u64,
}

impl Watcher for Dies {
    fn step(&mut self, done: u64, _: u64, _: f64) {
        if done == self.after {
            std::panic::resume_unwind(Box::new("killed"));
        }
    }
    fn stop_request(&self) -> StopRequest {
        StopRequest::default()
    }
}

#[test]
fn when_a_rank_dies_the_others_stop_and_name_it_and_the_run_goes_on_from_its_checkpoint() {
    let expected = run(&folder("ranks_lived"), 1, |_| {}, unwatched).remove(0).unwrap();
    let root = folder("ranks_died");
    let begun = Instant::now();
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    let died = thread::scope(|scope| {
        let (root, dataset, prior) = (&root, &dataset, &prior);
        let threads: Vec<_> = ThreadRank::all(4)
            .into_iter()
            .map(|rank| {
                scope.spawn(move || {
                    let number = rank.rank();
                    let spec = spec(dataset, prior, Ranks::new(Arc::new(rank), Reduce::Exact));
                    let folder = RunFolder::new(root);
                    let lock = (number == 0).then(|| folder.lock().unwrap());
                    let store = lock.as_ref().map(|lock| RunStore { folder: &folder, lock });
                    let mut watcher = Dies { after: if number == 2 { 4 } else { u64::MAX } };
                    train(&spec, store, &Device::Cpu, &mut watcher).map(drop)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    assert!(begun.elapsed() < Duration::from_secs(15));
    for (rank, result) in died.into_iter().enumerate() {
        match (rank, result) {
            (2, result) => assert!(result.is_err(), "it was killed"),
            (_, Ok(Err(error))) => assert!(error.to_string().starts_with("rank 2 ended"), "{error}"),
            (rank, _) => panic!("rank {rank} went on"),
        }
    }
    for state in run(&root, 2, |_| {}, unwatched) {
        assert!(state.unwrap().params == expected.params);
    }
}

#[test]
fn what_is_not_finite_on_one_rank_is_skipped_on_all() {
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    let all = on_ranks(4, Reduce::Exact, |rank, ranks| {
        let spec = spec(&dataset, &prior, ranks);
        let step = spec.step().unwrap();
        let TrainingState { params, adam, .. } = spec.new_state(&step);
        let mut stepper = Stepper::new(&spec, &step, (params, adam), &Device::Cpu, ImageFeed::Fixed).unwrap();
        stepper.run(0).unwrap();
        let before = stepper.learner().state().unwrap();
        let images = spec.batch / SHARES * SIDE * SIDE;
        let bad = if rank == 3 { f32::NAN } else { 0.5 };
        stepper.learner().set("x0", &vec![bad; images]).unwrap();
        stepper.run(1).unwrap();
        let untouched = stepper.learner().state().unwrap() == before;
        (untouched, stepper.finished().iter().map(|record| record.applied).collect::<Vec<_>>())
    });
    for (rank, found) in all.into_iter().enumerate() {
        assert_eq!(found, (true, vec![true, false]), "rank {rank}");
    }
}

#[test]
fn shares_that_the_ranks_cannot_divide_are_refused() {
    let results = run(&folder("ranks_uneven"), 3, |_| {}, unwatched);
    for result in results {
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), "the 8 parts of a batch cannot be divided among 3 ranks");
    }
}

const TINY: [&str; 15] = [
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
    "preview=",
    "checkpoint.keep_best=0",
    "train.ema=[0.9]",
];

/// A recipe on `size` ranks in a folder, with changes by rank.
fn recipe(
    root: &FilePath,
    size: usize,
    images: impl Fn(usize) -> Option<Dataset> + Sync,
) -> Vec<Result<TrainingState, TrainError>> {
    on_ranks(size, Reduce::Exact, |rank, ranks| {
        let mut training = Training::from_recipe("quickstart").device(&Device::Cpu).ranks(ranks);
        for set in TINY {
            training = training.set(set);
        }
        if size == 1 {
            training = training.set("train.accumulate=8");
        }
        if let Some(images) = images(rank) {
            training = training.images(images);
        }
        training.run_in(root).map(|trained| trained.finished.state)
    })
}

#[test]
fn the_other_ranks_get_recipe_schedule_and_prior_from_rank_0_and_one_process_goes_on() {
    let (alone, together) = (folder("ranks_recipe_alone"), folder("ranks_recipe_together"));
    let expected = recipe(&alone, 1, |_| None).remove(0).unwrap();
    for state in recipe(&together, 4, |_| None) {
        assert!(state.unwrap().params == expected.params);
    }
    let read = |root: &FilePath, name: &str| std::fs::read(root.join(name)).unwrap();
    for name in ["config.toml", "schedule.json", "prior.safetensors", "events.jsonl", "data.json"] {
        assert!(read(&alone, name) == read(&together, name), "{name}");
    }
    // The recipe says nothing of shares; the run has eight.
    let mut training = Training::from_recipe("quickstart").device(&Device::Cpu);
    for set in TINY {
        training = training.set(set);
    }
    assert_eq!(training.run_in(&together).unwrap().finished.from_step, 4);
    // One that was begun without shares goes on with one for each rank.
    let whole = folder("ranks_recipe_whole");
    let steps = |training: Training<'static>, steps: &str| {
        let sets = TINY.iter().chain([&steps]).map(|set| (*set).to_owned());
        sets.fold(training.device(&Device::Cpu), Training::set)
    };
    steps(Training::from_recipe("quickstart"), "train.steps=2").run_in(&whole).unwrap();
    let results = on_ranks(2, Reduce::Exact, |_, ranks| {
        steps(Training::from_recipe("quickstart").ranks(ranks), "train.steps=4").run_in(&whole).unwrap().finished
    });
    assert!(results.iter().all(|finished| (finished.from_step, finished.step) == (2, 4)));
}

#[test]
fn a_rank_with_other_images_is_refused() {
    let images = |rank: usize| {
        let dataset = dataset();
        let mut pixels = dataset.pixels().to_vec();
        pixels[7] ^= u8::from(rank == 1);
        Some(Dataset::new(SIDE, SIDE, 1, pixels, None, vec![]))
    };
    let results = recipe(&folder("ranks_images"), 2, images);
    let said: Vec<String> = results.into_iter().map(|result| result.unwrap_err().to_string()).collect();
    assert!(said[0].starts_with("rank 1 ended") && said[1].contains("images"), "{said:?}");
}
