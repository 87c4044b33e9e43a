//! A checkpoint is complete or absent, and damage never goes unseen.

mod run_support;

use run_support::failing_fs::{EFBIG, EIO, ENOSPC, FailingFs};
use run_support::{checkpoints, checkpoints_on, folder, identity, keep, newest, optimiser, state, template};
use softdiff::checkpoint::{Better, CheckpointError, CheckpointWriter, Checkpoints, Identity, Retention, Save};
use softdiff::engine::rng::philox;
use softdiff::hint::Hint;
use softdiff::run::RunLock;
use softdiff::run::fs::{Disk, Fs};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

const WIDTH: usize = 20;

fn save(checkpoints: &Checkpoints, step: u64) {
    let saved = checkpoints.save(&state(WIDTH, step), &BTreeMap::new()).unwrap();
    assert!(saved.warnings.is_empty(), "{:?}", saved.warnings);
}

#[test]
fn a_state_survives_bit_for_bit() {
    let all = checkpoints(&folder("ckpt_round_trip"), 3);
    for step in [1, 150, 1_234_567_890] {
        save(&all, step);
        let (read, expected) = (newest(&all, WIDTH), state(WIDTH, step));
        assert!(read == expected);
        // Equality does not tell -0 from 0.
        let bits = |s: &softdiff::checkpoint::TrainingState| -> Vec<u32> {
            s.adam.first.iter().chain(&s.adam.second).flatten().map(|v| v.to_bits()).collect()
        };
        assert_eq!(bits(&read), bits(&expected));
    }
}

#[test]
fn equal_states_give_equal_files() {
    let (a, b) = (folder("ckpt_equal_a"), folder("ckpt_equal_b"));
    save(&checkpoints(&a, 3), 7);
    save(&checkpoints(&b, 3), 7);
    let names = Disk.list(&a.join("step-000000007")).unwrap();
    let expected = [
        "adam.safetensors",
        "ema-0.9.safetensors",
        "ema-0.9999.safetensors",
        "manifest.json",
        "params.safetensors",
        "state.json",
    ];
    assert_eq!(names, expected);
    for name in names {
        let read = |root: &Path| fs::read(root.join("step-000000007").join(&name)).unwrap();
        assert!(read(&a) == read(&b), "{name}");
    }
    assert_eq!(fs::read_to_string(a.join("latest")).unwrap(), "step-000000007\n");
}

#[test]
fn the_first_format_is_still_read() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/checkpoint-v1");
    let all = checkpoints(&golden, 3);
    assert_eq!(all.get(7).unwrap().manifest().schema, 1);
    assert!(newest(&all, WIDTH) == state(WIDTH, 7));
}

#[test]
fn weights_alone_can_be_read_for_sampling() {
    let all = checkpoints(&folder("ckpt_weights"), 3);
    save(&all, 5);
    let (stored, expected) = (all.get(5).unwrap(), state(WIDTH, 5));
    assert!(stored.weights(&template(WIDTH), None).unwrap() == expected.params);
    assert!(stored.weights(&template(WIDTH), Some(0.9999)).unwrap() == expected.adam.ema[1]);
    let error = stored.weights(&template(WIDTH), Some(0.5)).unwrap_err().to_string();
    assert!(error.ends_with("step-000000005/ema-0.5.safetensors is missing"), "{error}");
}

#[test]
fn a_network_of_another_shape_is_refused_by_name() {
    let all = checkpoints(&folder("ckpt_shape"), 3);
    save(&all, 5);
    let error = all.get(5).unwrap().restore(&template(WIDTH + 1), &optimiser()).unwrap_err().to_string();
    assert!(error.contains("params.safetensors: parameter `net.0.weight` has shape [3, 20]"), "{error}");
}

#[test]
fn a_checkpoint_of_another_recipe_or_schedule_is_refused_with_both_hashes() {
    let all = checkpoints(&folder("ckpt_identity"), 3);
    save(&all, 5);
    let stored = all.get(5).unwrap();
    stored.check_belongs_to(&identity()).unwrap();
    stored.check_belongs_to(&Identity { build: "softdiff 0.0.9".into(), ..identity() }).unwrap();
    for (config, schedule, field) in [("other", "schedule", "config_hash"), ("recipe", "other", "schedule_hash")] {
        let error = stored.check_belongs_to(&Identity::of(config.as_bytes(), schedule.as_bytes())).unwrap_err();
        let CheckpointError::Field { field: named, expected, found, .. } = &error else { panic!("{error}") };
        assert!(*named == field && expected != found && error.hint().is_some());
    }
}

#[test]
fn every_flipped_bit_and_every_truncation_is_seen_and_the_previous_checkpoint_taken() {
    let root = folder("ckpt_damage");
    let all = checkpoints(&root, 3);
    save(&all, 10);
    save(&all, 20);
    let place = root.join("step-000000020");
    let mut draw = (0..).map(|i| philox([i, 0, 0, 0], [11, 0])[0] as usize);
    for name in Disk.list(&place).unwrap() {
        let path = place.join(&name);
        let whole = fs::read(&path).unwrap();
        for trial in 0..500 {
            let (at, bit) = (draw.next().unwrap() % whole.len(), draw.next().unwrap() % 8);
            let mut damaged = whole.clone();
            match trial % 3 {
                0 => damaged.truncate(at),
                _ => damaged[at] ^= 1 << bit,
            }
            fs::write(&path, damaged).unwrap();
            let found = all.newest_valid().unwrap();
            assert_eq!(found.newest.unwrap().manifest().step, 10, "{name}, byte {at}, bit {bit}");
            let [skipped] = &found.skipped[..] else { panic!("{name}: {:?}", found.skipped) };
            assert!(skipped.step == 20 && skipped.reason.to_string().contains(&name), "{name}: {}", skipped.reason);
        }
        fs::remove_file(&path).unwrap();
        let found = all.newest_valid().unwrap();
        let expected = format!("{} is missing", path.display());
        assert_eq!(found.skipped[0].reason.to_string(), expected);
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(newest(&all, WIDTH).progress.step, 20);
    fs::rename(&place, root.join("step-000000030")).unwrap();
    let found = all.newest_valid().unwrap();
    assert!(found.skipped[0].reason.to_string().ends_with("manifest.json: step is 20, expected 30"));
}

#[test]
fn damage_to_all_of_them_is_an_error_and_not_a_fresh_start() {
    let root = folder("ckpt_all_damaged");
    let all = checkpoints(&root, 3);
    assert!(all.newest_valid().unwrap().newest.is_none());
    save(&all, 10);
    save(&all, 20);
    for step in ["step-000000010", "step-000000020"] {
        fs::write(root.join(step).join("state.json"), "{}").unwrap();
    }
    let error = all.newest_valid().unwrap_err();
    assert!(matches!(error, CheckpointError::AllDamaged { count: 2, .. }), "{error}");
    assert!(error.to_string().contains("step-000000020/state.json is damaged: length is 2, the manifest says"));
}

fn copy(from: &Path, to: &Path) {
    for name in Disk.list(from).unwrap() {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            fs::create_dir(&to).unwrap();
            copy(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}

#[test]
fn a_failure_of_any_file_operation_leaves_the_previous_checkpoint_and_a_typed_error() {
    let before = folder("ckpt_injected_before");
    save(&checkpoints(&before, 2), 1);
    save(&checkpoints(&before, 2), 2);
    let mut failures = 0;
    for (errno, forever) in [(ENOSPC, true), (ENOSPC, false), (EIO, true), (EIO, false), (EFBIG, false)] {
        for call in 0.. {
            let root = folder("ckpt_injected");
            copy(&before, &root);
            let disk = FailingFs::new(call, errno, forever);
            let result = Checkpoints::open(Arc::new(disk.clone()), &root, identity(), keep(2))
                .and_then(|all| all.save(&state(WIDTH, 3), &BTreeMap::new()));
            let reached = disk.calls() > call;
            let all = checkpoints(&root, 2);
            let step = newest(&all, WIDTH).progress.step;
            assert!(newest(&all, WIDTH) == state(WIDTH, step));
            match result {
                Ok(saved) => {
                    assert_eq!(step, 3);
                    assert_eq!(saved.warnings.is_empty(), !reached, "call {call} failed in silence");
                }
                Err(error) => {
                    assert!(reached && (step == 2 || step == 3), "call {call}: {error}");
                    let source = std::error::Error::source(&error).and_then(|e| e.downcast_ref::<io::Error>());
                    assert_eq!(source.and_then(io::Error::raw_os_error), Some(errno), "call {call}: {error}");
                    assert!(errno == EIO || error.hint().is_some());
                    assert!(all.get(2).is_ok(), "call {call} cost the previous checkpoint");
                    failures += 1;
                }
            }
            // The next process clears up and saves the same step.
            let lock = RunLock::acquire(&root.join("run.lock")).unwrap();
            all.resume(&lock).unwrap();
            save(&all, 3);
            assert!(newest(&all, WIDTH) == state(WIDTH, 3));
            let left: Vec<_> = Disk.list(&root).unwrap().into_iter().filter(|n| n.contains("tmp-")).collect();
            assert!(left.is_empty(), "{left:?}");
            if !reached {
                break;
            }
        }
    }
    assert!(failures > 100, "only {failures} failures were tried");
}

#[test]
fn reading_a_failing_disk_is_an_error_that_names_the_file() {
    for call in 0.. {
        let root = folder("ckpt_read_errors");
        save(&checkpoints(&root, 3), 1);
        let disk = FailingFs::new(call, EIO, true);
        let result = Checkpoints::open(Arc::new(disk.clone()), &root, identity(), keep(3)).and_then(|all| {
            let found = all.newest_valid()?;
            found.newest.unwrap().restore(&template(WIDTH), &optimiser())
        });
        if disk.calls() <= call {
            assert!(result.unwrap() == state(WIDTH, 1));
            return;
        }
        assert!(result.unwrap_err().to_string().contains("ckpt_read_errors"));
    }
}

#[test]
fn too_little_space_is_refused_before_anything_is_written() {
    let root = folder("ckpt_space");
    save(&checkpoints(&root, 1), 1);
    let all = checkpoints_on(Arc::new(FailingFs::with_free_space(100_000)), &root, 1);
    let error = all.save(&state(WIDTH, 2), &BTreeMap::new()).unwrap_err();
    let CheckpointError::NoSpace { needed, free: 100_000, .. } = error else { panic!("{error}") };
    assert!(needed > 2 * (1 << 16));
    assert_eq!(error.hint().unwrap(), "free 1 MiB more, or keep fewer checkpoints; the earlier ones are untouched");
    assert!(matches!(all.preflight(&state(WIDTH, 2)), Err(CheckpointError::NoSpace { .. })));
    assert_eq!(newest(&all, WIDTH).progress.step, 1);
    assert_eq!(Disk.list(&root).unwrap(), ["latest", "step-000000001"]);
}

#[test]
fn old_ones_are_deleted_by_the_rules() {
    let root = folder("ckpt_retention");
    let retention = Retention { last: 2, every: Some(40), best: Some(Better::Lower) };
    let all = Checkpoints::open(Arc::new(Disk), &root, identity(), retention).unwrap();
    let scores = BTreeMap::from([(10, 5.0), (20, 3.0), (30, 4.0)]);
    for step in [10, 20, 30, 40, 50, 60, 70] {
        all.save(&state(WIDTH, step), &scores).unwrap();
    }
    assert_eq!(all.steps().unwrap(), BTreeSet::from([20, 40, 60, 70]));
    assert_eq!(Disk.list(&root).unwrap().len(), 5, "four checkpoints and `latest`");
}

#[test]
fn a_damaged_checkpoint_is_replaced_when_training_gets_there_again() {
    let root = folder("ckpt_replace");
    let all = checkpoints(&root, 2);
    save(&all, 10);
    save(&all, 20);
    fs::write(root.join("step-000000020/params.safetensors"), "").unwrap();
    save(&all, 15);
    assert_eq!(all.steps().unwrap(), BTreeSet::from([10, 15, 20]), "the damaged one does not push others out");
    save(&all, 20);
    assert!(newest(&all, WIDTH) == state(WIDTH, 20));
    let before = fs::metadata(root.join("step-000000020")).unwrap().modified().unwrap();
    save(&all, 20);
    let after = fs::metadata(root.join("step-000000020")).unwrap().modified().unwrap();
    assert_eq!(before, after, "a whole one is left alone");
}

#[test]
fn what_an_earlier_process_left_behind_is_removed_and_nothing_else() {
    let root = folder("ckpt_stale");
    let all = checkpoints(&root, 2);
    save(&all, 10);
    for name in ["step-000000020.tmp-4242", "trash-step-000000005", "my-notes", "step-backup", "step-7"] {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("file"), "x").unwrap();
    }
    assert!(all.newest_valid().unwrap().removed.is_empty(), "a reader removes nothing");
    let lock = RunLock::acquire(&root.join("run.lock")).unwrap();
    let found = all.resume(&lock).unwrap();
    assert_eq!(found.removed, ["step-000000020.tmp-4242", "trash-step-000000005"]);
    assert_eq!(found.newest.unwrap().manifest().step, 10);
    for name in ["my-notes", "step-backup", "step-7"] {
        assert!(root.join(name).join("file").exists());
    }
}

#[test]
fn values_that_are_not_finite_are_not_saved() {
    let root = folder("ckpt_nan");
    let all = checkpoints(&root, 3);
    save(&all, 1);
    let mut bad = state(WIDTH, 2);
    bad.adam.second[1][3] = f32::NAN;
    let error = all.save(&bad, &BTreeMap::new()).unwrap_err();
    assert_eq!(error.to_string(), "value 3 of second.net.0.bias is NaN; a checkpoint holds finite numbers only");
    assert_eq!(Disk.list(&root).unwrap(), ["latest", "step-000000001"]);
    let mut twice = state(WIDTH, 2);
    twice.adam.config.ema = vec![0.9, 0.9];
    assert!(matches!(all.save(&twice, &BTreeMap::new()), Err(CheckpointError::SameDecay { .. })));
}

#[test]
fn the_writer_saves_in_the_background_and_a_second_save_waits_for_the_first() {
    let all = checkpoints(&folder("ckpt_writer"), 2);
    let mut writer = CheckpointWriter::new(all.clone()).unwrap();
    for step in 1..=10 {
        let before = writer.save(Save { state: state(WIDTH, step), scores: BTreeMap::new() }).unwrap();
        assert_eq!(before.map(|saved| saved.checkpoint.manifest().step), (step > 1).then_some(step - 1));
    }
    assert_eq!(writer.wait().unwrap().unwrap().checkpoint.manifest().step, 10);
    assert!(writer.wait().unwrap().is_none() && writer.poll().unwrap().is_none());
    drop(writer);
    assert!(newest(&all, WIDTH) == state(WIDTH, 10));
}

#[test]
fn the_writer_reports_an_error_at_the_next_call_and_goes_on() {
    type Ask = fn(&mut CheckpointWriter) -> Result<Option<softdiff::checkpoint::Saved>, CheckpointError>;
    let again: Ask = |writer| writer.save(Save { state: state(WIDTH, 2), scores: BTreeMap::new() });
    let wait: Ask = |writer| writer.wait();
    let poll: Ask = |writer| {
        loop {
            match writer.poll() {
                Ok(None) => std::thread::yield_now(),
                other => return other,
            }
        }
    };
    for ask in [again, wait, poll] {
        let root = folder("ckpt_writer_error");
        // The sixth call is in the middle of the first file.
        let all = checkpoints_on(Arc::new(FailingFs::new(6, ENOSPC, false)), &root, 2);
        let mut writer = CheckpointWriter::new(all.clone()).unwrap();
        assert!(writer.save(Save { state: state(WIDTH, 1), scores: BTreeMap::new() }).unwrap().is_none());
        let error = ask(&mut writer).unwrap_err();
        assert!(matches!(&error, CheckpointError::Io { source, .. } if source.raw_os_error() == Some(ENOSPC)));
        assert!(error.hint().unwrap().contains("free some space"));
        assert!(writer.save(Save { state: state(WIDTH, 3), scores: BTreeMap::new() }).unwrap().is_none());
        writer.wait().unwrap().unwrap();
        assert_eq!(all.steps().unwrap(), BTreeSet::from([3]));
    }
}
