//! `softdiff watch`, and records as `softdiff export` writes them.

mod support;

use serde_json::Value;
use softdiff::run::RunFolder;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use support::{Scratch, bytes, command, done, softdiff, text, tiny_run};

/// Every file of a folder: its bytes and when it was written.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => drop(all.insert(path.clone(), (bytes(&path), path.metadata().unwrap().modified().unwrap()))),
        }
    }
    all
}

#[test]
fn a_finished_run_is_shown_and_not_touched() {
    let scratch = Scratch::new("watch");
    let run = tiny_run(&scratch);
    let before = files(Path::new(&run));
    let shown = done(&["watch", &run, "--once"]);
    for words in
        ["run   finished", "8 of 8   100.0 %", "steps/s", "loss by t", "step-000000008", "preview-000000008.png"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(shown.chars().any(|letter| ('\u{2801}'..='\u{28ff}').contains(&letter)), "no curve: {shown}");
    assert!(!shown.contains('\x1b') && shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    // Without a terminal and with nothing more to come, one line is all.
    let line = done(&["watch", &run]);
    assert!(line.starts_with("finished: step 8 of 8, loss ") && line.lines().count() == 1, "{line}");
    let facts: Value = serde_json::from_str(&done(&["watch", &run, "--json"])).unwrap();
    assert_eq!((&facts["state"], &facts["step"], &facts["images_seen"]), (&"finished".into(), &8.into(), &32.into()));
    assert_eq!(facts["preview"]["text"], "samples/preview-000000008.png");
    assert!(facts["throughput"]["images_per_second"].as_f64().unwrap() > 0.0 && facts["seconds_left"].is_null());
    assert!(facts["device_memory"].is_null() && !shown.contains("GPU"));
    let blocks = done(&["watch", &run, "--once", "--images", "blocks"]);
    assert!(blocks.contains("\x1b[38;2;") && blocks.ends_with("▀\x1b[49m\x1b[39m\n"));
    for axis in [" loss ", " step "] {
        assert!(shown.contains(axis), "{axis}: {shown}");
    }
    assert!(files(Path::new(&run)) == before, "watching changed the run");
}

#[test]
fn a_folder_that_is_no_run_is_refused_with_a_hint() {
    let scratch = Scratch::new("watch-nothing");
    for arguments in [&["watch", &scratch.path("none"), "--once"][..], &["export", &scratch.path("none"), "--csv", "x"]]
    {
        let failed = softdiff(arguments);
        let said = text(&failed.stderr);
        assert!(failed.status.code() == Some(1) && said.contains("is no run") && said.contains("hint: give"), "{said}");
    }
    let failed = softdiff(&["export", &scratch.path("none")]);
    assert!(failed.status.code() == Some(2) && text(&failed.stderr).contains("--out"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_live_run_is_followed_until_it_is_over_or_one_has_seen_enough() {
    let scratch = Scratch::new("watch-live");
    let folder = RunFolder::new(Path::new(&scratch.path("run")));
    let lock = folder.lock().unwrap();
    std::fs::write(folder.config(), "").unwrap();
    let started = r#"{"step":0,"event":"started","config_hash":"","schedule_hash":"","parameters":1,"batch":1,"steps":4,"time_bins":[1.0]}"#;
    let step = r#"{"step":4,"event":"step","images_seen":4,"loss":"NaN","loss_by_time":[null],"rate":0.1,"norm":1.0}"#;
    std::fs::write(folder.events(), format!("{started}\n{{\"step\":2,\"event\":\"warn")).unwrap();
    let run = folder.root().to_str().unwrap();
    let follow = || command(&["watch", run]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (interrupted, patient) = (follow(), follow());
    std::thread::sleep(Duration::from_millis(700));
    let asked = Instant::now();
    assert!(Command::new("kill").args(["-INT", &interrupted.id().to_string()]).status().unwrap().success());
    let output = interrupted.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(2));
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(text(&output.stdout).starts_with("preparing: step 0 of 4"), "{}", text(&output.stdout));
    let shown = done(&["watch", run, "--once"]);
    assert!(shown.contains("memory") && shown.contains(&format!("process {}", std::process::id())), "{shown}");
    let memory = softdiff::run::DeviceMemory { used: 5 << 29, total: 16 << 30 };
    folder.add_session(&lock, softdiff::run::RunSession::now("a GPU", 2, 0)).unwrap();
    folder.amend_session(&lock, |session| session.device_memory = Some(memory)).unwrap();
    assert!(done(&["watch", run, "--once"]).contains("GPU 2.5 of 16.0 GiB"));
    std::fs::write(folder.events(), format!("{started}\n{step}\n")).unwrap();
    let output = patient.wait_with_output().unwrap();
    assert!(output.status.success() && text(&output.stdout).contains("\nfinished: step 4 of 4, loss NaN"));
    drop(lock);
}

/// A terminal of 256 colours, and what was written to it.
#[cfg(target_os = "linux")]
struct Terminal {
    screen: std::fs::File,
    seen: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
    end: std::fs::File,
}

#[cfg(target_os = "linux")]
impl Terminal {
    fn open() -> Terminal {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        use std::io::Read;
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let end = std::fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let size = rustix::termios::Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 1000, ws_ypixel: 800 };
        rustix::termios::tcsetwinsize(&end, size).unwrap();
        let screen = std::fs::File::from(master);
        let mut reading = screen.try_clone().unwrap();
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let written = seen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reading.read(&mut bytes) {
                written.lock().unwrap().extend(&bytes[..count]);
            }
        });
        Terminal { screen, seen, end }
    }

    fn run(&self, arguments: &[&str]) -> std::process::Child {
        let end = || self.end.try_clone().unwrap();
        let mut command = command(arguments);
        for name in ["NO_COLOR", "TMUX", "COLORTERM", "KITTY_WINDOW_ID", "TERM_PROGRAM"] {
            command.env_remove(name);
        }
        // A group of its own: Ctrl-Z stops the whole group.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.env("TERM", "xterm-256color").stdin(end()).stdout(end()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn forget(&self) {
        self.seen.lock().unwrap().clear();
    }

    fn wait_for(&self, words: &[u8]) {
        let begun = Instant::now();
        while !self.seen.lock().unwrap().windows(words.len()).any(|window| window == words) {
            let seen = self.seen.lock().unwrap().clone();
            assert!(begun.elapsed() < Duration::from_secs(20), "{}", String::from_utf8_lossy(&seen));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether lines are read whole and seen as they are typed, as before.
    fn is_as_before(&self) -> bool {
        use rustix::termios::{LocalModes, tcgetattr};
        tcgetattr(&self.end).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }
}

#[cfg(target_os = "linux")]
fn signal(name: &str, process: &std::process::Child) {
    assert!(Command::new("kill").args([name, &process.id().to_string()]).status().unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn keys_and_signals_leave_the_dashboard_and_the_terminal_as_it_was() {
    use std::io::Write;
    let scratch = Scratch::new("watch-terminal");
    let run = tiny_run(&scratch);
    for way in ["xq", "\x03", "-INT", "-TERM", "-HUP"] {
        let mut terminal = Terminal::open();
        assert!(terminal.is_as_before());
        let watching = terminal.run(&["watch", &run]);
        // The other screen, and the preview in colours, as this terminal has them.
        terminal.wait_for(b"\x1b[?1049h");
        terminal.wait_for("▀".as_bytes());
        assert!(!terminal.is_as_before());
        match way.strip_prefix('-') {
            Some(_) => signal(way, &watching),
            None => terminal.screen.write_all(way.as_bytes()).unwrap(),
        }
        let output = watching.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{way}");
        terminal.wait_for(b"\x1b[?25h\x1b[?1049l");
        assert!(terminal.is_as_before(), "{way}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_z_gives_the_terminal_back_until_the_command_is_continued() {
    use std::io::Write;
    let scratch = Scratch::new("watch-suspended");
    let run = tiny_run(&scratch);
    let mut terminal = Terminal::open();
    let mut watching = terminal.run(&["watch", &run]);
    let state = || {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", watching.id())).unwrap();
        text.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    for suspend in ["\x1a", "-TSTP"] {
        terminal.wait_for(b"\x1b[?1049h");
        terminal.wait_for("▀".as_bytes());
        terminal.forget();
        match suspend.strip_prefix('-') {
            Some(_) => signal(suspend, &watching),
            None => terminal.screen.write_all(suspend.as_bytes()).unwrap(),
        }
        terminal.wait_for(b"\x1b[?25h\x1b[?1049l");
        let asked = Instant::now();
        while !state() {
            assert!(asked.elapsed() < Duration::from_secs(5), "it goes on");
        }
        assert!(terminal.is_as_before());
        terminal.forget();
        signal("-CONT", &watching);
    }
    // Drawn whole again, also where nothing is new.
    terminal.wait_for(b"\x1b[?1049h");
    terminal.wait_for(b"finished");
    assert!(!terminal.is_as_before());
    terminal.screen.write_all(b"q").unwrap();
    assert!(watching.wait().unwrap().success() && terminal.is_as_before());
}

#[test]
fn records_become_an_event_file_and_tables_and_the_same_ones_again() {
    let scratch = Scratch::new("records");
    let run = tiny_run(&scratch);
    let (logs, tables) = (scratch.path("logs/tiny"), scratch.path("tables"));
    let export = || done(&["export", &run, "--tensorboard", &logs, "--csv", &tables, "--json"]);
    let facts: Value = serde_json::from_str(&export()).unwrap();
    let written: Vec<String> = serde_json::from_value(facts["files"].clone()).unwrap();
    assert!(written.len() == 4 && written[0].contains("events.out.tfevents.") && facts.get("folder").is_none());
    let first: Vec<Vec<u8>> = written.iter().map(bytes).collect();
    let has = |words: &[u8]| first[0].windows(words.len()).any(|window| window == words);
    assert!(has(b"brain.Event:2") && has(b"loss_by_time/0.9-1") && has(b"\x89PNG") && has(b"preview"));
    let steps = String::from_utf8(first[1].clone()).unwrap();
    assert!(steps.starts_with("step,seconds,images_seen,loss,rate,norm,") && steps.lines().count() == 5, "{steps}");
    export();
    assert!(written.iter().map(bytes).collect::<Vec<_>>() == first);
}
