//! The run's folder: its lock, its stream of events, its sessions.

mod run_support;

use run_support::child::{folder_of_child, spawn};
use run_support::failing_fs::{ENOSPC, FailingFs};
use run_support::folder;
use softdiff::hint::Hint;
use softdiff::recipe::Recipe;
use softdiff::run::fs::{Disk, Fs, publish};
use softdiff::run::{DeviceMemory, Event, EventKind, EventLog, Events, RunError, RunFolder, RunSession};
use softdiff::train::{CustomParts, PreparedRun, RunStore, Unwatched};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn warning(step: u64) -> Event {
    Event { step, kind: EventKind::Warning { message: format!("at {step}") } }
}

/// Writes events and gives the stream's text.
fn stream(path: &Path, steps: &[u64]) -> String {
    let (mut log, _) = EventLog::resume(&Disk, path, None).unwrap();
    steps.iter().for_each(|step| log.write(&warning(*step)).unwrap());
    log.sync().unwrap();
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_second_writer_is_refused_at_once_and_told_who_has_the_run() {
    let run = RunFolder::new(&folder("run_second_writer"));
    let lock = run.lock().unwrap();
    let asked = Instant::now();
    let error = run.lock().unwrap_err();
    assert!(asked.elapsed() < Duration::from_secs(1));
    let RunError::Locked { holder: Some(holder), .. } = &error else { panic!("{error}") };
    assert_eq!(holder.pid, std::process::id());
    assert!(error.to_string().contains("run_second_writer is being written by process "), "{error}");
    assert!(error.hint().unwrap().contains("kill"));
    drop(lock);
    assert_eq!(run.lock().unwrap().recovered(), None, "a released lock leaves no trace");
}

#[test]
#[ignore = "a child of other tests"]
fn child_that_holds_the_lock() {
    let Some(root) = folder_of_child() else { return };
    let _lock = RunFolder::new(&root).lock().unwrap();
    println!("ready");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
#[cfg(unix)]
fn the_lock_of_another_process_is_respected_and_that_of_a_killed_one_recovered() {
    let root = folder("run_stale_lock");
    let run = RunFolder::new(&root);
    let (mut child, mut lines) = spawn("child_that_holds_the_lock", &root, ":");
    lines.find(|line| line.ends_with("ready")).unwrap();
    let asked = Instant::now();
    let error = run.lock().unwrap_err();
    assert!(asked.elapsed() < Duration::from_secs(1));
    assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    let lock = run.lock().unwrap();
    assert_eq!(lock.recovered().map(|holder| holder.pid), Some(child.id()));
}

#[test]
fn a_garbled_lock_file_is_no_obstacle() {
    let run = RunFolder::new(&folder("run_garbled_lock"));
    fs::write(run.root().join("run.lock"), [0xFF; 100_000]).unwrap();
    let lock = run.lock().unwrap();
    assert_eq!(lock.recovered(), None);
    let RunError::Locked { holder, .. } = run.lock().unwrap_err() else { panic!() };
    assert_eq!(holder.unwrap().pid, std::process::id());
}

#[test]
fn events_are_read_as_they_were_written_and_a_torn_line_is_not_an_event() {
    let path = folder("run_events").join("events.jsonl");
    let text = stream(&path, &[0, 1, 2]);
    let expected: Vec<Event> = (0..3).map(warning).collect();
    for cut in text.len() - 20..=text.len() {
        fs::write(&path, &text[..cut]).unwrap();
        let read: Vec<Event> = Events::open(&Disk, &path).unwrap().map(Result::unwrap).collect();
        assert_eq!(read, expected[..if cut == text.len() { 3 } else { 2 }]);
    }
}

#[test]
fn a_stream_torn_at_any_byte_continues_as_if_it_never_was() {
    let path = folder("run_torn").join("events.jsonl");
    let whole = stream(&path, &[0, 1, 1, 2, 3, 5]);
    let kept = whole.lines().take(4).map(|line| line.len() + 1).sum::<usize>();
    for cut in kept..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let (mut log, repaired) = EventLog::resume(&Disk, &path, Some(2)).unwrap();
        assert_eq!((repaired.kept, repaired.cut_bytes), (4, (cut - kept) as u64));
        log.write(&warning(3)).unwrap();
        log.write(&warning(5)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    }
}

#[test]
fn what_the_earlier_process_said_on_stopping_is_cut() {
    let path = folder("run_stopped").join("events.jsonl");
    let text = stream(&path, &[0, 1, 2]);
    let (mut log, _) = EventLog::resume(&Disk, &path, Some(2)).unwrap();
    let kind = EventKind::Stopped { reason: "SIGTERM".into(), checkpoint: Some("step-000000002".into()) };
    log.write(&Event { step: 2, kind }).unwrap();
    let (_, repaired) = EventLog::resume(&Disk, &path, Some(2)).unwrap();
    assert!(repaired.kept == 3 && repaired.cut_bytes > 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn zeros_after_a_power_cut_are_cut_and_damage_in_the_middle_is_an_error() {
    let path = folder("run_damage").join("events.jsonl");
    let text = stream(&path, &[0, 1]);
    fs::write(&path, format!("{text}\0\0\0\n\0\0")).unwrap();
    EventLog::resume(&Disk, &path, Some(1)).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let damaged = format!("{text}oops\n{text}");
    fs::write(&path, &damaged).unwrap();
    let Err(error) = EventLog::resume(&Disk, &path, Some(1)) else { panic!("damage went unseen") };
    assert!(error.to_string().starts_with("line 3 of "), "{error}");
    assert!(error.hint().is_some());
    assert_eq!(fs::read_to_string(&path).unwrap(), damaged, "nothing is thrown away");
    fs::write(&path, vec![b'x'; 3 << 20]).unwrap();
    let error = Events::open(&Disk, &path).unwrap().next().unwrap().unwrap_err();
    assert!(error.to_string().ends_with("longer than 1048576 bytes"), "{error}");
}

#[test]
fn a_new_run_begins_its_stream_anew() {
    let path = folder("run_anew").join("events.jsonl");
    stream(&path, &[0, 1, 2]);
    let (_, repaired) = EventLog::resume(&Disk, &path, None).unwrap();
    assert!(repaired.kept == 0 && repaired.cut_bytes > 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
}

#[test]
fn events_on_a_failing_disk_are_an_error_and_the_stream_is_repaired_afterwards() {
    let path = folder("run_event_errors").join("events.jsonl");
    let text = stream(&path, &[0, 1]);
    for call in 0.. {
        fs::write(&path, format!("{text}torn")).unwrap();
        let disk = FailingFs::new(call, ENOSPC, false);
        let result = EventLog::resume(&disk, &path, Some(1)).and_then(|(mut log, _)| {
            let first = log.write(&warning(2));
            if first.is_err() {
                assert!(matches!(log.write(&warning(3)), Err(RunError::EventsClosed { .. })));
            }
            first.and_then(|()| log.sync())
        });
        assert_eq!(result.is_err(), disk.calls() > call);
        EventLog::resume(&Disk, &path, Some(1)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        match result {
            Err(error) => assert_eq!(error.hint().unwrap(), "free some space and run the same command again"),
            Ok(()) => break,
        }
    }
}

#[test]
fn a_published_file_is_the_old_or_the_new_one() {
    let path = folder("run_publish").join("schedule.json");
    for call in 0.. {
        fs::write(&path, "old").unwrap();
        let disk = FailingFs::new(call, ENOSPC, true);
        let result = publish(&disk, &path, b"new");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text == "old" && result.is_err() || text == "new");
        if disk.calls() <= call {
            result.unwrap();
            break;
        }
    }
}

/// Prepares a run whose network needs the spectrum of its images.
fn prepare(run: &RunFolder) -> Result<PreparedRun, String> {
    let text = "[data]\nsource = \"embedded:fashion-mnist\"\nsize = 8\nlimit = 64\n\
                [path]\nkind = \"simultaneous\"\nsmallest = 0.02\nlargest = 0.02\n\
                [path.corruption]\nkind = \"heat\"\nlargest = 4\n[schedule]\nmethod = \"even\"\n\
                [objective]\nparametrisation = \"wiener\"\n\
                [network]\npreset = \"small\"\nchannels = 8\nmultipliers = [1, 2]\n[train]\nsteps = 1\n";
    let recipe = Recipe::parse(text, "test.toml", &[]).unwrap();
    let lock = RunFolder::new(run.root()).lock().unwrap();
    PreparedRun::new(
        recipe,
        CustomParts::default(),
        Some(RunStore { folder: run, lock: &lock }),
        &mut Unwatched,
        &|_, _, _, _| {},
    )
    .map_err(|error| error.to_string())
}

#[test]
fn the_prior_and_the_spectrum_of_a_run_on_a_failing_disk_are_whole_or_absent() {
    let whole = RunFolder::new(&folder("run_prepared"));
    prepare(&whole).unwrap();
    let mut errors = String::new();
    for call in 0.. {
        let root = folder("run_prepared_failing");
        let disk = FailingFs::new(call, ENOSPC, true);
        let result = prepare(&RunFolder::on(Arc::new(disk.clone()), &root));
        assert_eq!(result.is_err(), disk.calls() > call, "call {call}");
        let run = RunFolder::new(&root);
        for (file, expected) in [(run.prior(), whole.prior()), (run.spectrum(), whole.spectrum())] {
            assert!(!file.exists() || fs::read(&file).unwrap() == fs::read(expected).unwrap(), "call {call}");
        }
        match result {
            Err(error) => errors += &error,
            Ok(_) => break,
        }
        prepare(&run).unwrap_or_else(|error| panic!("after call {call}: {error}"));
        assert!(Disk.list(&root).unwrap().iter().all(|name| !name.ends_with(".tmp")), "call {call}");
    }
    for name in ["prior.safetensors", "spectrum.safetensors"] {
        assert!(errors.contains(name), "no write of {name} failed: {errors}");
    }
}

#[test]
fn the_sessions_of_a_run_are_listed_in_order() {
    let run = RunFolder::new(&folder("run_sessions"));
    let lock = run.lock().unwrap();
    assert!(run.sessions().is_empty());
    run.add_session(&lock, RunSession::now("cpu", 2, 0)).unwrap();
    run.add_session(&lock, RunSession::now("NVIDIA H200", 16, 500)).unwrap();
    let sessions = run.sessions();
    assert_eq!(sessions.iter().map(|s| (s.from_step, s.threads)).collect::<Vec<_>>(), [(0, 2), (500, 16)]);
    assert!(sessions[1].build.starts_with("softdiff ") && sessions[1].process.pid == std::process::id());
    let memory = Some(DeviceMemory { used: 3 << 30, total: 4 << 30 });
    run.amend_session(&lock, |session| (session.from_step, session.device_memory) = (600, memory)).unwrap();
    let sessions = run.sessions();
    assert_eq!((sessions[0].device_memory, sessions[1].device_memory, sessions[1].from_step), (None, memory, 600));
    fs::write(run.env(), "garbled").unwrap();
    run.add_session(&lock, RunSession::now("cpu", 2, 900)).unwrap();
    assert_eq!(run.sessions().len(), 1, "a garbled note does not keep a run from going on");
}
