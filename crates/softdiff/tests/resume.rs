//! A resumed run equals an uninterrupted one, bit for bit: weights, averages, moments and events.

mod run_support;

use run_support::folder;
use run_support::training::{End, train};
use softdiff::checkpoint::TrainingState;
use softdiff::run::fs::{Disk, Fs};
use std::fs;
use std::path::Path;

const STEPS: u64 = 40;

/// Every bit of a state, in order.
fn bits(state: &TrainingState) -> Vec<u32> {
    let TrainingState { params, adam, .. } = state;
    let all = |params: &softdiff::engine::Params<f32>| -> Vec<u32> {
        (0..params.specs().len())
            .flat_map(|i| params.value(i).iter().map(|v| v.to_bits()).collect::<Vec<_>>())
            .collect()
    };
    let moments = adam.first.iter().chain(&adam.second).flatten().map(|v| v.to_bits());
    all(params).into_iter().chain(adam.ema.iter().flat_map(all)).chain(moments).collect()
}

/// The straight and the interrupted run must be the same, on disk too.
fn assert_equal(straight: (&Path, &TrainingState), other: (&Path, &TrainingState), what: &str) {
    assert!(bits(straight.1) == bits(other.1), "{what}: other bits");
    assert!(straight.1 == other.1, "{what}: another state");
    let read = |root: &Path, name: &str| fs::read(root.join(name)).unwrap();
    let events = |root: &Path| String::from_utf8(read(root, "events.jsonl")).unwrap();
    assert_eq!(events(straight.0), events(other.0), "{what}");
    for name in Disk.list(&straight.0.join("checkpoints/step-000000040")).unwrap() {
        let file = format!("checkpoints/step-000000040/{name}");
        assert!(read(straight.0, &file) == read(other.0, &file), "{what}: {file}");
    }
}

#[test]
fn a_run_stopped_and_resumed_at_any_step_equals_an_uninterrupted_one() {
    let straight = folder("resume_straight");
    let expected = train(&straight, STEPS, End::Never);
    let events = fs::read_to_string(straight.join("events.jsonl")).unwrap();
    assert_eq!(events.lines().count(), 1 + 8 + 4 + 3, "begun, steps, checkpoints, skipped updates");
    assert_eq!((expected.progress.guard.skipped, expected.adam.step), (3, 37));
    for stop in [1, 7, 19, 20, 39] {
        for end in [End::Asked(stop), End::Killed(stop)] {
            let root = folder("resume_interrupted");
            let stopped = train(&root, STEPS, end);
            assert_eq!(stopped.progress.step, stop);
            let resumed = train(&root, STEPS, End::Never);
            assert_equal((&straight, &expected), (&root, &resumed), &format!("{end:?}"));
        }
    }
}

#[test]
fn a_run_interrupted_after_every_few_steps_equals_an_uninterrupted_one() {
    let straight = folder("resume_many_straight");
    let expected = train(&straight, STEPS, End::Never);
    let root = folder("resume_many");
    for stop in (3..STEPS).step_by(3) {
        train(&root, STEPS, End::Asked(stop));
    }
    let resumed = train(&root, STEPS, End::Never);
    assert_equal((&straight, &expected), (&root, &resumed), "every third step");
}

#[test]
fn a_run_whose_last_checkpoint_is_damaged_still_ends_as_an_uninterrupted_one() {
    let straight = folder("resume_damaged_straight");
    let expected = train(&straight, STEPS, End::Never);
    let root = folder("resume_damaged");
    train(&root, STEPS, End::Asked(27));
    fs::write(root.join("checkpoints/step-000000027/adam.safetensors"), "junk").unwrap();
    let resumed = train(&root, STEPS, End::Never);
    assert_equal((&straight, &expected), (&root, &resumed), "fallen back to step 20");
}

#[test]
fn a_longer_run_continues_a_finished_one() {
    let straight = folder("resume_longer_straight");
    let expected = train(&straight, STEPS, End::Never);
    let root = folder("resume_longer");
    train(&root, 25, End::Asked(25));
    let resumed = train(&root, STEPS, End::Never);
    assert_equal((&straight, &expected), (&root, &resumed), "25 and 15 steps");
}

#[test]
fn a_poisoned_batch_leaves_the_weights_byte_identical() {
    let before = train(&folder("resume_nan_before"), STEPS, End::Asked(12));
    let after = train(&folder("resume_nan_after"), STEPS, End::Asked(15));
    assert!(bits(&before) == bits(&after) && before.adam == after.adam);
    assert_eq!((after.progress.step, after.progress.guard.skipped_in_a_row), (15, 3));
}
