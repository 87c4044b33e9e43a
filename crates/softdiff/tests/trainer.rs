//! The real training loop on a small network: resuming is exact, the number of threads is irrelevant, images depend on
//! their seeds alone.

mod run_support;

use run_support::folder;
use softdiff::checkpoint::{Better, Checkpoints, Identity, Retention, TrainingState};
use softdiff::corruption::{HeatDissipation, Shape};
use softdiff::curve::Interpolation;
use softdiff::data::{Dataset, LoadOptions, Source, Transform};
use softdiff::engine::Precision;
use softdiff::engine::device::Record;
use softdiff::engine::optim::AdamConfig;
use softdiff::engine::{Device, Graph, Init, Params, Var};
use softdiff::hint::Hint;
use softdiff::model::{Condition, Generation, Model, NetworkDenoiser, Predictor, post_hoc_average};
use softdiff::network::{Network, UNetConfig};
use softdiff::objective::Prediction;
use softdiff::path::Path;
use softdiff::prior::Prior;
use softdiff::run::{Event, EventKind, RunFolder, StopRequest, StopSignal};
use softdiff::sampler::{FlowMomentum, Momentum, Sampling};
use softdiff::train::{
    CheckpointScore, ImageFeed, Preview, RunSpec, RunStore, Stepper, TrainError, Training, Unwatched, Watcher, train,
};
use std::path::Path as FilePath;
use std::sync::Arc;

const SIDE: usize = 8;
const STEPS: u64 = 12;

fn dataset() -> Dataset {
    let transform = Transform { size: Some((SIDE, SIDE)), ..Transform::default() };
    let options = LoadOptions { transform, limit: Some(50), ..LoadOptions::default() };
    Source::open(FilePath::new("embedded:fashion-mnist")).unwrap().load(&options, &|_, _| {}).unwrap()
}

fn path() -> Arc<Path> {
    let heat = HeatDissipation::new(Shape::new(SIDE, SIDE, 1), 4.0).unwrap();
    Arc::new(Path::two_stage(Box::new(heat), vec![0.0, 0.5, 1.5, 4.0], Interpolation::Linear).unwrap())
}

fn network() -> UNetConfig {
    UNetConfig { dropout: 0.1, ..UNetConfig::small(SIDE, 1, 8, &[1, 2]) }
}

fn spec<'a>(dataset: &'a Dataset, prior: &'a Prior) -> RunSpec<'a> {
    RunSpec {
        adam: AdamConfig { rate: 1e-3, warmup: 4, ema: vec![0.9, 0.99], ..AdamConfig::default() },
        seed: 3,
        steps: STEPS,
        batch: 8,
        mirror: true,
        precision: Precision::F32,
        log_every: 4,
        bins: 3,
        identity: Identity::of(b"recipe", b"schedule"),
        checkpoint_every: 5,
        retention: Retention { last: 1, every: None, best: Some(Better::Lower) },
        best_by: Some("score".into()),
        preview: Some(Preview {
            every: 6,
            images: 4,
            sampler: Box::new(FlowMomentum),
            sampling: Sampling::uniform(3).unwrap(),
        }),
        ..RunSpec::new(dataset, path(), prior, Arc::new(network()))
    }
}

/// Asks to stop after a step, and scores step 5 best.
#[derive(Default)]
struct Stopper {
    after: Option<u64>,
    /// The same during the evaluation of a step.
    during: Option<u64>,
    stop: StopRequest,
    events: Vec<Event>,
}

impl Watcher for Stopper {
    fn step(&mut self, done: u64, _: u64, _: f64) {
        if self.after == Some(done) {
            self.stop.ask(StopSignal::Terminate);
        }
    }
    fn event(&mut self, event: &Event) {
        self.events.push(event.clone());
    }
    fn evaluate(
        &mut self,
        step: u64,
        _: &Params<f32>,
    ) -> Result<Vec<CheckpointScore>, Box<dyn std::error::Error + Send + Sync>> {
        if self.during == Some(step) {
            self.stop.ask(StopSignal::HangUp);
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        Ok(vec![CheckpointScore { metric: "score".into(), value: (step as f64 - 5.0).abs(), images: 1 }])
    }
    fn stop_request(&self) -> StopRequest {
        self.stop.clone()
    }
}

fn run(root: &FilePath, spec: &RunSpec, watcher: &mut dyn Watcher) -> Result<TrainingState, TrainError> {
    let folder = RunFolder::new(root);
    let lock = folder.lock().unwrap();
    train(spec, Some(RunStore { folder: &folder, lock: &lock }), &Device::Cpu, watcher).map(|finished| finished.state)
}

#[test]
fn a_run_stopped_at_any_step_and_started_again_equals_an_uninterrupted_one() {
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    let spec = spec(&dataset, &prior);
    let straight = folder("trainer_straight");
    let expected = run(&straight, &spec, &mut Stopper::default()).unwrap();
    assert_eq!((expected.progress.step, expected.progress.images_seen, expected.adam.step), (12, 96, 12));
    for stop in [1, 4, 5, 6, 11] {
        let root = folder("trainer_stopped");
        let error = run(&root, &spec, &mut Stopper { after: Some(stop), ..Stopper::default() }).unwrap_err();
        assert!(matches!(error, TrainError::Stopped(ref s) if s.step == Some(stop)), "{error}");
        let resumed = run(&root, &spec, &mut Stopper::default()).unwrap();
        assert!(resumed.params == expected.params && resumed.adam == expected.adam, "stopped at {stop}");
        for file in ["events.jsonl", "samples/preview-000000006.png", "samples/preview-000000012.png"] {
            let read = |root: &FilePath| std::fs::read(root.join(file)).unwrap();
            assert!(read(&straight) == read(&root), "stopped at {stop}: {file} differs");
        }
    }
    for during in [5, 10, 12] {
        let root = folder("trainer_abandoned");
        let error = run(&root, &spec, &mut Stopper { during: Some(during), ..Stopper::default() }).unwrap_err();
        assert!(matches!(error, TrainError::Stopped(ref s) if s.step == Some(during)), "{error}");
        run(&root, &spec, &mut Stopper::default()).unwrap();
        let events = |root: &FilePath| std::fs::read(root.join("events.jsonl")).unwrap();
        assert!(events(&straight) == events(&root), "abandoned at {during}");
    }
    let kept = |step: u64| straight.join(format!("checkpoints/step-{step:09}")).is_dir();
    assert!(kept(5) && !kept(10) && kept(12), "the best and the newest stay");
}

#[test]
fn a_run_in_memory_and_the_step_that_is_benchmarked_end_with_the_same_bits_as_a_run_in_a_folder() {
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    let spec = spec(&dataset, &prior);
    let expected = run(&folder("trainer_in_folder"), &spec, &mut Unwatched).unwrap();
    let mut watcher = Stopper::default();
    let found = train(&spec, None, &Device::Cpu, &mut watcher).unwrap().state;
    assert!(found.params == expected.params && found.adam == expected.adam);
    assert!(!watcher.events.is_empty());
    let on_disk = |event: &Event| matches!(event.kind, EventKind::Checkpoint { .. } | EventKind::Preview { .. });
    assert!(!watcher.events.iter().any(on_disk));
    let error = train(&spec, None, &Device::Cpu, &mut Stopper { after: Some(3), ..Stopper::default() }).unwrap_err();
    assert!(error.to_string().contains("at step 3; nothing is saved"), "{error}");

    let step = spec.step().unwrap();
    let state = spec.new_state(&step);
    let feed = ImageFeed::Dataset;
    let mut stepper = Stepper::new(&spec, &step, (state.params, state.adam), &Device::Cpu, feed).unwrap();
    (0..STEPS).for_each(|step| stepper.run(step).unwrap());
    assert_eq!(stepper.wait().unwrap().len(), STEPS as usize);
    assert!(stepper.state(Default::default()).unwrap().params == expected.params);
}

/// Multiplies by a number.
struct Gain;

impl Network for Gain {
    fn emit(&self, g: &mut Graph, x: Var, _: Var, _: bool) -> Result<Var, softdiff::engine::Error> {
        let gain = g.param("gain", [1, 1, 1, 1], Init::Constant(0.3))?;
        g.mul(x, gain)
    }
}

#[test]
fn a_folder_of_a_custom_path_and_network_is_continued_by_the_same_program_and_no_other() {
    let root = folder("trainer_own");
    let training = |path: Path, steps| Training::new(dataset(), path).network(Gain).steps(steps).batch(8).device("cpu");
    let noise = |largest| Path::variance_exploding(Shape::new(SIDE, SIDE, 1), 0.01, largest).unwrap();
    training(noise(5.0), 3).run_in(&root).unwrap();
    let finished = training(noise(5.0), 5).run_in(&root).unwrap().finished;
    assert_eq!((finished.from_step, finished.step), (3, 5));
    let straight = training(noise(5.0), 5).run().unwrap().finished;
    assert!(straight.state.params == finished.state.params && straight.state.adam == finished.state.adam);
    let error = training(noise(6.0), 5).run_in(&root).err().unwrap().to_string();
    assert!(error.contains("config_hash"), "{error}");
    let error = Model::open(&root, None).err().unwrap().to_string();
    assert!(error.contains("is not a model"), "{error}");
    let error = training(noise(5.0), 0).run().err().unwrap().to_string();
    assert!(error.contains("train.steps"), "{error}");
    let none = Dataset::new(SIDE, SIDE, 1, vec![], None, vec![]);
    let error = Training::new(none, noise(5.0)).run().err().unwrap().to_string();
    assert!(error.contains("no images to train on"), "{error}");
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let root = folder(&format!("trainer_threads_{threads}"));
        pool.install(|| run(&root, &spec(&dataset, &prior), &mut Unwatched).unwrap())
    };
    let (one, three) = (with(1), with(3));
    assert!(one.params == three.params && one.adam == three.adam);
}

#[test]
fn the_events_tell_the_story_and_the_loss_falls() {
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    let adam = AdamConfig { rate: 1e-2, warmup: 4, ..AdamConfig::default() };
    let spec =
        RunSpec { steps: 450, log_every: 150, checkpoint_every: 0, preview: None, adam, ..spec(&dataset, &prior) };
    let mut watcher = Stopper::default();
    run(&folder("trainer_events"), &spec, &mut watcher).unwrap();
    assert!(matches!(&watcher.events[0].kind, EventKind::Started { time_bins, .. } if time_bins.len() == 3));
    let losses: Vec<f64> = watcher
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Step { loss, loss_by_time, .. } => {
                assert!(loss_by_time.iter().all(|bin| bin.is_some()));
                Some(*loss)
            }
            _ => None,
        })
        .collect();
    assert_eq!(losses.len(), 3);
    assert!(losses[2] < 0.9 * losses[0], "{losses:?}");
}

#[test]
fn a_run_may_compute_again_from_any_step_on_and_ends_with_the_same_bits() {
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    let with = |recompute| RunSpec { recompute, ..spec(&dataset, &prior) };
    let expected = run(&folder("trainer_kept"), &with(false), &mut Unwatched).unwrap();
    for (first, second) in [(true, true), (false, true), (true, false)] {
        let root = folder("trainer_again");
        run(&root, &with(first), &mut Stopper { after: Some(5), ..Stopper::default() }).unwrap_err();
        let state = run(&root, &with(second), &mut Unwatched).unwrap();
        assert!(state.params == expected.params && state.adam == expected.adam, "{first}, then {second}");
    }
}

/// With the raw weights of every step at hand, the average is the sum itself; with a few, nearly.
#[test]
fn an_average_made_after_training_is_the_one_that_would_have_been_tracked() {
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    let template = Params::zeros(&network().graph(1).unwrap().0);
    let average = |every: u64| {
        let root = folder(&format!("trainer_posthoc_{every}"));
        let retention = Retention { last: 100, every: None, best: None };
        let spec = RunSpec { checkpoint_every: every, retention, preview: None, ..spec(&dataset, &prior) };
        run(&root, &spec, &mut Unwatched).unwrap();
        (post_hoc_average(&RunFolder::new(&root), &[0.9, 0.99], STEPS, &template, 0.2), root)
    };
    let (found, root) = average(1);
    let (mut found, checkpoints) = (found.unwrap(), RunFolder::new(&root));
    let all =
        Checkpoints::open(checkpoints.fs(), &checkpoints.checkpoints(), Identity::default(), Retention::default())
            .unwrap();
    // g of width 0.2, from sqrt(g + 1) / ((g + 2) sqrt(g + 3)).
    let power = 1.0 + 1.826_213_780;
    let mut tracked = all.get(1).unwrap().weights(&template, None).unwrap();
    for step in 2..=STEPS {
        let part = 1.0 - (1.0 - 1.0 / step as f64).powf(power);
        let mut raw = all.get(step).unwrap().weights(&template, None).unwrap();
        for (tracked, raw) in tracked.trainable_mut().zip(raw.trainable_mut()) {
            tracked.iter_mut().zip(raw.iter()).for_each(|(a, &b)| *a += part as f32 * (b - *a));
        }
    }
    let mut worst = 0f32;
    for (a, b) in found.trainable_mut().zip(tracked.trainable_mut()) {
        worst = a.iter().zip(b.iter()).fold(worst, |worst, (a, b)| worst.max((a - b).abs()));
    }
    assert!(worst < 1e-5, "{worst}");
    let error = average(100).0.unwrap_err();
    assert!(error.hint().unwrap().contains("keep more checkpoints (checkpoint.keep_every)"), "{error}");
}

#[test]
fn the_parts_of_a_batch_learn_what_the_whole_does() {
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    for stratified in [false, true] {
        let after = |accumulate| {
            let spec = RunSpec { accumulate, stratified, steps: 6, preview: None, ..spec(&dataset, &prior) };
            let step = spec.step().unwrap();
            let TrainingState { params, adam, .. } = spec.new_state(&step);
            let mut stepper = Stepper::new(&spec, &step, (params, adam), &Device::Cpu, ImageFeed::Dataset).unwrap();
            (0..spec.steps).for_each(|step| stepper.run(step).unwrap());
            (stepper.wait().unwrap(), stepper.learner().state().unwrap().0)
        };
        let (whole, mut weights) = after(1);
        for parts in [2, 4, 8] {
            let (records, mut found) = after(parts);
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-5 * b.abs();
            for (step, (found, whole)) in records.iter().zip(&whole).enumerate() {
                assert!(close(found.loss, whole.loss), "{parts} parts, step {step}: {} {}", found.loss, whole.loss);
                let times = |record: &Record| record.samples.iter().map(|(t, _)| *t).collect::<Vec<_>>();
                assert_eq!(times(found), times(whole), "{parts} parts, step {step}");
            }
            for (found, whole) in found.trainable_mut().zip(weights.trainable_mut()) {
                let worst = found.iter().zip(whole.iter()).fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
                assert!(worst < 2e-5, "{parts} parts: weights differ by {worst}");
            }
        }
    }
}

#[test]
fn a_batch_in_parts_learns_and_parts_must_divide_it() {
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    let parts = |accumulate| RunSpec { accumulate, preview: None, ..spec(&dataset, &prior) };
    let state = run(&folder("trainer_parts"), &parts(4), &mut Unwatched).unwrap();
    assert_eq!((state.progress.images_seen, state.adam.step), (96, 12));
    let error = run(&folder("trainer_uneven"), &parts(3), &mut Unwatched).unwrap_err();
    assert!(error.to_string().contains("8 cannot be cut into 3 equal parts"), "{error}");
}

#[test]
fn a_checkpoint_of_another_recipe_or_of_other_images_is_refused() {
    let (dataset, prior) = (dataset(), Prior::noise(&path()).unwrap());
    let root = folder("trainer_other");
    let first = spec(&dataset, &prior);
    run(&root, &first, &mut Unwatched).unwrap();
    let other = RunSpec { identity: Identity::of(b"another", b"schedule"), ..spec(&dataset, &prior) };
    let error = run(&root, &other, &mut Unwatched).unwrap_err();
    assert!(error.to_string().contains("config_hash"), "{error}");
    let wide = RunSpec { network: Arc::new(UNetConfig { image_size: 16, ..network() }), ..spec(&dataset, &prior) };
    let error = run(&folder("trainer_size"), &wide, &mut Unwatched).unwrap_err();
    assert!(error.to_string().contains("images are 8x8"), "{error}");
}

#[test]
fn an_image_depends_on_its_seed_alone() {
    let (path, network) = (path(), network());
    let prior = Prior::noise(&path).unwrap();
    let params = Params::initialise(&network.graph(1).unwrap().0, 5);
    let (sampler, sampling) = (Momentum, Sampling::uniform(6).unwrap());
    let images = |seeds: &[u64], batch: usize, at_once: usize| {
        let condition = Condition::Time;
        let (prediction, precision) = (Prediction::PAPER, Precision::F32);
        let predictor = Predictor { network: &network, params: &params, prediction, condition, path: path.clone() };
        let mut denoiser = NetworkDenoiser::new(&Device::Cpu, predictor, at_once, precision).unwrap();
        let generation = Generation { path: &path, prior: &prior, sampler: &sampler, sampling: &sampling, batch };
        generation.images(&mut denoiser, seeds, &mut |_, _| Ok(())).unwrap()
    };
    let all = images(&[7, 8, 9, 10, 11], 5, 5);
    let size = SIDE * SIDE;
    for (batch, at_once) in [(1, 1), (2, 2), (3, 4), (5, 1), (5, 16)] {
        assert!(images(&[7, 8, 9, 10, 11], batch, at_once) == all, "{batch} images at a time, {at_once} at once");
    }
    assert!(images(&[10, 7], 2, 2) == [&all[3 * size..4 * size], &all[..size]].concat());
}
