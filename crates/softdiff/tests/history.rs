//! A run's records for other programs.

mod run_support;

use run_support::folder;
use softdiff::hint::Hint;
use softdiff::history::{History, evaluations_csv, event_file_name, steps_csv, tensorboard};
use softdiff::run::RunFolder;
use std::fs;
use std::path::Path;

const EVENTS: &str = r#"{"step":0,"event":"started","config_hash":"a","schedule_hash":"b","parameters":5,"batch":4,"steps":300,"time_bins":[0.5,1.0]}
{"step":10,"event":"step","images_seen":40,"loss":1.5,"loss_by_time":[null,0.75],"rate":0.0002,"norm":"inf"}
{"step":20,"event":"step","images_seen":80,"loss":1.25,"loss_by_time":[2.5,0.5],"rate":0.0002,"norm":3.0}
{"step":20,"event":"evaluation","metric":"fid","value":7.5,"images":50000}
{"step":20,"event":"preview","file":"samples/preview.png"}
{"step":20,"event":"preview","file":"samples/gone.png"}
{"step":20,"event":"preview","file":"../follow.png"}
{"step":100,"event":"checkpoint","name":"step-000000100"}
{"step":150,"event":"warning","message":"high"}
{"step":300,"event":"step","images_seen":1200,"loss":1.0,"loss_by_time":[],"rate":0.0002,"norm":2.0}
{"step":310,"event":"step","images_seen":12"#;

/// Two sessions, the second from step 100 on: half a second per step, then a tenth.
const SESSIONS: &str = r#"[
{"started_unix":1000,"build":"","pid":1,"host":"","device":"","threads":1,"from_step":0},
{"started_unix":5000,"build":"","pid":2,"host":"","device":"","threads":1,"from_step":100}]"#;

fn golden(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tensorboard").join(name)).unwrap()
}

fn run(name: &str) -> RunFolder {
    let run = RunFolder::new(&folder(name));
    fs::write(run.events(), EVENTS).unwrap();
    fs::write(run.env(), SESSIONS).unwrap();
    fs::create_dir_all(run.samples()).unwrap();
    fs::write(run.samples().join("preview.png"), golden("preview.png")).unwrap();
    for (step, seconds) in [(100, 50.0), (300, 70.0)] {
        let folder = run.checkpoints().join(format!("step-{step:09}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("state.json"), format!(r#"{{"step":{step},"elapsed_seconds":{seconds:?}}}"#)).unwrap();
    }
    run
}

/// `golden/tensorboard/make.py` wrote the file with TensorBoard's own classes.
#[test]
fn an_event_file_has_the_bytes_that_tensorboard_itself_writes() {
    let history = History::read(&run("history_tensorboard")).unwrap();
    assert_eq!(event_file_name(&history), "events.out.tfevents.0000001000.softdiff");
    assert!(tensorboard(&history) == golden("run.tfevents"));
}

#[test]
fn tables_have_a_row_per_event_and_nothing_where_there_is_no_number() {
    let history = History::read(&run("history_csv")).unwrap();
    let steps = "\
step,seconds,images_seen,loss,rate,norm,loss_by_time_0-0.5,loss_by_time_0.5-1
10,5.000,40,1.5,0.0002,inf,,0.75
20,10.000,80,1.25,0.0002,3,2.5,0.5
300,70.000,1200,1,0.0002,2,,
";
    assert_eq!(steps_csv(&history), steps);
    assert_eq!(evaluations_csv(&history), "step,metric,value,images\n20,fid,7.5,50000\n");
}

#[test]
fn a_damaged_line_is_an_error_with_its_number_and_a_hint() {
    let run = run("history_damaged");
    fs::write(run.events(), EVENTS.replacen("\"loss\":1.25", "\"loss\":x", 1)).unwrap();
    let Err(error) = History::read(&run) else { panic!() };
    assert!(error.to_string().starts_with("line 3 of "), "{error}");
    assert!(error.hint().is_some());
}
