//! Power may go at any moment: the newest complete checkpoint and the events up to it are there afterwards.

mod run_support;

use run_support::power_fs::PowerFs;
use run_support::{checkpoints_on, folder, newest, state};
use softdiff::run::fs::{AtomicFs, Fs, read_up_to};
use softdiff::run::{Event, EventKind, RunFolder, RunLock};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const WIDTH: usize = 2;
const KEPT: usize = 1;
const CONFIG: &[u8] = b"the recipe";

fn event(step: u64) -> Event {
    Event { step, kind: EventKind::Warning { message: format!("step {step}") } }
}

fn line(step: u64) -> String {
    serde_json::to_string(&event(step)).unwrap() + "\n"
}

/// A run that begins, saves after steps 1, 2 and 3 in the order of a training, and deletes the older ones.
/// Gives how many changes were made when each step's save had returned.
fn run(fs: &PowerFs, root: &Path, lock: &RunLock) -> BTreeMap<u64, usize> {
    let run = RunFolder::on(Arc::new(fs.clone()), root);
    fs.create_folder(&run.checkpoints()).unwrap();
    run.publish(lock, &run.config(), CONFIG).unwrap();
    let (mut events, _) = run.resume_events(lock, None).unwrap();
    let all = checkpoints_on(run.fs(), &run.checkpoints(), KEPT);
    let mut saved = BTreeMap::new();
    for step in 1..=3 {
        events.write(&event(step)).unwrap();
        events.sync().unwrap();
        let done = all.save(&state(WIDTH, step), &BTreeMap::new()).unwrap();
        assert!(done.warnings.is_empty(), "{:?}", done.warnings);
        saved.insert(step, fs.changes());
    }
    saved
}

#[test]
fn every_state_that_a_power_loss_can_leave_opens_with_the_newest_complete_checkpoint() {
    let disk = folder("power_loss");
    let lock = RunLock::acquire(&disk.join("run.lock")).unwrap();
    let (fs, root) = (PowerFs::new(), Path::new("/runs/first"));
    let saved = run(&fs, root, &lock);
    let mut looked_at = 0;
    for count in 0..=fs.changes() {
        let promised = saved.iter().filter(|(_, changes)| **changes <= count).map(|(step, _)| *step).max();
        for left in fs.after_power_loss(count) {
            looked_at += 1;
            check(&left, root, promised, &lock, &format!("after {count} of {} changes", fs.changes()));
        }
    }
    println!("{looked_at} states after {} changes", fs.changes());
    assert!(looked_at > 1000, "only {looked_at} states");
}

fn check(fs: &PowerFs, root: &Path, promised: Option<u64>, lock: &RunLock, when: &str) {
    let run = RunFolder::on(Arc::new(fs.clone()), root);
    let all = checkpoints_on(run.fs(), &run.checkpoints(), KEPT);
    for step in all.steps().unwrap() {
        assert!(all.get(step).is_ok(), "{when}: step {step} has a checkpoint's name and is incomplete");
    }
    let found = all.resume(lock).unwrap();
    assert!(found.skipped.is_empty(), "{when}");
    let step = found.newest.map(|stored| stored.manifest().step);
    assert!(step >= promised, "{when}: step {promised:?} was saved, and {step:?} is found");
    let names = fs.list(&run.checkpoints()).unwrap();
    assert!(names.iter().all(|name| !name.contains("tmp-") && !name.starts_with("trash")), "{when}: {names:?}");
    match read_up_to(fs, &run.config(), 100) {
        Ok(bytes) => assert_eq!(bytes, CONFIG, "{when}"),
        Err(_) => assert_eq!(step, None, "{when}: the recipe is gone"),
    }
    if let Some(step) = step {
        assert!(newest(&all, WIDTH) == state(WIDTH, step), "{when}");
        run.resume_events(lock, Some(step)).unwrap();
        let events = String::from_utf8(read_up_to(fs, &run.events(), 10_000).unwrap()).unwrap();
        assert_eq!(events, (1..=step).map(line).collect::<String>(), "{when}");
    }
    // And the run goes on.
    let next = step.unwrap_or(0) + 1;
    all.save(&state(WIDTH, next), &BTreeMap::new()).unwrap();
    assert!(newest(&all, WIDTH) == state(WIDTH, next), "{when}");
}

/// The model itself: without a sync, the rename of a new file can be there while its bytes are not.
#[test]
fn a_rename_before_the_sync_of_the_file_can_leave_half_of_it() {
    let (fs, path) = (PowerFs::new(), Path::new("/file"));
    let mut file = fs.create_new(Path::new("/file.tmp")).unwrap();
    file.write_all(b"content").unwrap();
    fs.rename(Path::new("/file.tmp"), path).unwrap();
    let read = |fs: &PowerFs| read_up_to(fs, path, 100).ok().map(|bytes| String::from_utf8(bytes).unwrap());
    let left =
        |fs: &PowerFs| fs.after_power_loss(fs.changes()).iter().map(read).collect::<std::collections::BTreeSet<_>>();
    let all = [None, Some(""), Some("con"), Some("content")].map(|text| text.map(str::to_owned));
    assert_eq!(left(&fs), all.into());
    file.sync().unwrap();
    assert_eq!(left(&fs), [None, Some("content".into())].into());
    fs.sync_folder(Path::new("/")).unwrap();
    assert_eq!(left(&fs), [Some("content".into())].into());
}
