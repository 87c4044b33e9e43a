//! Looking on: events followed while they are written and cut, and a run's state told from outside.

mod run_support;

use run_support::folder;
use softdiff::run::{Event, EventKind, Follower, News, Presence, RunFolder};
use softdiff::watch::{RunState, Watch};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::Duration;

fn warning(step: u64) -> Event {
    Event { step, kind: EventKind::Warning { message: format!("at {step}") } }
}

fn line(event: &Event) -> String {
    serde_json::to_string(event).unwrap() + "\n"
}

fn append(run: &RunFolder, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(run.events()).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn steps(news: &News) -> Vec<u64> {
    news.events.iter().map(|event| event.step).collect()
}

#[test]
fn events_are_followed_byte_by_byte_and_each_is_told_once() {
    let run = RunFolder::new(&folder("follow_bytes"));
    let mut follower = Follower::new(&run);
    assert_eq!(follower.look().unwrap(), News::default(), "there is no file yet");
    let mut seen = Vec::new();
    for step in 1..5 {
        for byte in line(&warning(step)).chars() {
            append(&run, &byte.to_string());
            let news = follower.look().unwrap();
            assert!(!news.anew);
            seen.extend(steps(&news));
            assert_eq!(seen.len() as u64, if byte == '\n' { step } else { step - 1 });
        }
    }
    assert_eq!(seen, [1, 2, 3, 4]);
}

#[test]
fn a_stream_that_was_cut_is_told_anew_even_when_it_is_longer_again() {
    let run = RunFolder::new(&folder("follow_cut"));
    let stopped = Event { step: 3, kind: EventKind::Stopped { reason: "SIGTERM".into(), checkpoint: None } };
    append(&run, &[warning(1), warning(2), warning(3), stopped].iter().map(line).collect::<String>());
    let mut follower = Follower::new(&run);
    assert_eq!(steps(&follower.look().unwrap()), [1, 2, 3, 3]);
    // Cut to step 2, as a run that continues does, and grown past where it was, between two looks.
    fs::write(run.events(), (1..9).map(|step| line(&warning(step))).collect::<String>()).unwrap();
    let news = follower.look().unwrap();
    assert!(news.anew && steps(&news) == [1, 2, 3, 4, 5, 6, 7, 8], "{news:?}");
    fs::write(run.events(), line(&warning(1))).unwrap();
    let news = follower.look().unwrap();
    assert!(news.anew && steps(&news) == [1], "{news:?}");
    fs::remove_file(run.events()).unwrap();
    assert_eq!(follower.look().unwrap(), News { anew: true, events: vec![] });
    assert_eq!(follower.look().unwrap(), News::default());
}

#[test]
fn lines_that_are_no_events_are_counted_and_passed_over() {
    let run = RunFolder::new(&folder("follow_garbage"));
    let long = "x".repeat(5 << 20);
    append(&run, &format!("{}garbage\n{{\"step\":2}}\n{long}\n{}\0\n", line(&warning(1)), line(&warning(3))));
    let mut follower = Follower::new(&run);
    assert_eq!(steps(&follower.look().unwrap()), [1, 3]);
    assert!(follower.unreadable() >= 4);
    append(&run, &line(&warning(4)));
    assert_eq!(steps(&follower.look().unwrap()), [4]);
}

#[test]
fn a_writer_is_told_without_taking_its_lock() {
    let run = RunFolder::new(&folder("presence"));
    assert_eq!(run.writer(), (None, Presence::Absent));
    let lock = run.lock().unwrap();
    let (holder, presence) = run.writer();
    let holder = holder.unwrap();
    assert_eq!(holder.pid, std::process::id());
    if cfg!(target_os = "linux") {
        assert_eq!(presence, Presence::Alive);
        let memory = holder.memory().unwrap();
        assert!(memory.resident > 0 && memory.peak >= memory.resident);
    }
    let content = fs::read(run.root().join("run.lock")).unwrap();
    drop(lock);
    assert_eq!(run.writer(), (None, Presence::Absent));
    // What a killed process leaves; this one lives on but has the file no longer open.
    fs::write(run.root().join("run.lock"), content).unwrap();
    if cfg!(target_os = "linux") {
        assert_eq!(run.writer().1, Presence::Dead);
    }
    fs::write(run.root().join("run.lock"), r#"{"pid":1,"host":"another"}"#).unwrap();
    assert_eq!(run.writer().1, Presence::Unknown);
    fs::write(run.root().join("run.lock"), "garbage").unwrap();
    assert_eq!(run.writer(), (None, Presence::Absent));
}

fn started(steps: u64) -> Event {
    let kind = EventKind::Started {
        config_hash: String::new(),
        schedule_hash: String::new(),
        parameters: 5,
        batch: 4,
        steps,
        time_bins: vec![0.5, 1.0],
    };
    Event { step: 0, kind }
}

fn step(step: u64, loss: f64) -> Event {
    let loss_by_time = vec![Some(loss), None];
    Event { step, kind: EventKind::Step { images_seen: 4 * step, loss, loss_by_time, rate: 1e-3, norm: 2.0 } }
}

#[test]
fn a_run_is_watched_from_its_beginning_to_its_end() {
    let run = RunFolder::new(&folder("watched"));
    let lock = run.lock().unwrap();
    let mut watch = Watch::new(&run);
    let mut look = |second: u64| watch.look(Duration::from_secs(second)).unwrap();
    let first = look(0);
    assert_eq!((first.state, first.step, first.steps, first.throughput), (RunState::Preparing, 0, None, None));
    append(&run, &(line(&started(40)) + &line(&step(10, 3.0))));
    look(10);
    append(&run, &line(&step(20, 2.0)));
    let evaluation = |step, value| {
        let kind = EventKind::Evaluation { metric: "fid".into(), value, images: 9 };
        line(&Event { step, kind })
    };
    append(&run, &(evaluation(10, 7.0) + &evaluation(20, 8.0)));
    let now = look(15);
    assert_eq!((now.state, now.step, now.steps, now.images_seen), (RunState::Training, 20, Some(40), 80));
    let throughput = now.throughput.unwrap();
    assert_eq!((throughput.steps_per_second, throughput.images_per_second), (2.0, 8.0));
    assert_eq!(now.seconds_left, Some(10.0));
    let loss = now.loss.unwrap();
    assert_eq!((loss.last, loss.mean, loss.by_time), (2.0, 2.5, vec![Some(2.0), None]));
    let fid = now.evaluations["fid"];
    assert_eq!((fid.step, fid.value, fid.at, fid.lowest), (20, 8.0, 10, 7.0));
    let stopped = EventKind::Stopped { reason: "SIGTERM".into(), checkpoint: None };
    append(&run, &line(&Event { step: 20, kind: stopped }));
    drop(lock);
    let now = look(16);
    assert_eq!((now.state, now.seconds_left, now.memory), (RunState::Stopped("SIGTERM".into()), None, None));
    fs::write(run.events(), line(&started(40)) + &line(&step(40, 1.0))).unwrap();
    let now = look(17);
    assert!(now.state == RunState::Finished && now.evaluations.is_empty() && now.state.is_over());
    assert_eq!(watch.losses(), [(40, 1.0)]);
}
