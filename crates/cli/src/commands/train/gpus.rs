//! `softdiff train --gpus N`: this program as N processes on this machine, one for each GPU.

use crate::diagnostics::{Failure, Outcome};
use softdiff::engine::cuda::CudaDevice;
use softdiff::ranks::STARTED_BY;
use softdiff::run::{StopRequest, StopSignal};
use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How often the processes are looked after.
const LOOK: Duration = Duration::from_millis(50);
/// The longest that the others may take to save and end when one has failed. They notice a lost rank within 12 s.
const GRACE: Duration = Duration::from_secs(60);

/// Starts `count` processes with the words of this one but `--gpus`, and ends as they do.
pub fn start(count: usize, device: &str, stop: &StopRequest) -> Outcome {
    if !["auto", "cuda"].contains(&device) {
        let failure = Failure::new(format!("--gpus {count} with --device {device}"));
        return Err(failure.hint("leave --device out; CUDA_VISIBLE_DEVICES=2,3 chooses among the GPUs of a machine"));
    }
    let there = CudaDevice::count()?;
    if !(1..=there).contains(&count) {
        let failure = Failure::new(format!("--gpus {count}: this machine has {there}"));
        return Err(failure.hint("softdiff doctor shows them; CUDA_VISIBLE_DEVICES chooses among them"));
    }
    // Taken by rank 0 as soon as it starts.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let program = std::env::current_exe()?;
    let words = without_gpus(std::env::args_os().skip(1));
    let commands = (0..count).map(|rank| {
        let mut command = Command::new(&program);
        command.args(&words).envs(variables(rank, count, port));
        command
    });
    run(commands.collect(), stop, GRACE)
}

/// The words of the command line without `--gpus N`.
fn without_gpus(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut words) = (Vec::new(), words);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--gpus") => drop(words.next()),
            Some(word) if word.starts_with("--gpus=") => {}
            _ => kept.push(word),
        }
    }
    kept
}

/// What tells a process its place: the variables of `torchrun`.
fn variables(rank: usize, count: usize, port: u16) -> Vec<(&'static str, String)> {
    vec![
        ("RANK", rank.to_string()),
        ("LOCAL_RANK", rank.to_string()),
        ("WORLD_SIZE", count.to_string()),
        ("LOCAL_WORLD_SIZE", count.to_string()),
        ("MASTER_ADDR", Ipv4Addr::LOCALHOST.to_string()),
        ("MASTER_PORT", port.to_string()),
        ("TORCHELASTIC_USE_AGENT_STORE", "False".into()),
        (STARTED_BY, std::process::id().to_string()),
    ]
}

/// Ends this process in good order when the one that started it is gone.
pub fn follow_starter(stop: &StopRequest) {
    let starter = std::env::var(STARTED_BY).ok().and_then(|number| number.parse::<u32>().ok());
    #[cfg(unix)]
    if let Some(starter) = starter {
        let stop = stop.clone();
        std::thread::spawn(move || {
            while std::os::unix::process::parent_id() == starter {
                std::thread::sleep(Duration::from_millis(500));
            }
            stop.ask(StopSignal::HangUp);
        });
    }
    #[cfg(not(unix))]
    let _ = (starter, stop);
}

/// Processes that belong together; those that are left when this goes are killed.
struct Group(Vec<(Child, Option<ExitStatus>)>);

impl Group {
    fn start(commands: Vec<Command>) -> std::io::Result<Group> {
        let mut group = Group(vec![]);
        for mut command in commands {
            // A signal to all processes of the terminal comes to them once, from here.
            #[cfg(unix)]
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            group.0.push((command.spawn()?, None));
        }
        Ok(group)
    }

    /// Those that run, after a look at all.
    fn running(&mut self) -> impl Iterator<Item = &mut Child> {
        for (child, status) in &mut self.0 {
            if status.is_none() {
                *status = child.try_wait().ok().flatten();
            }
        }
        self.0.iter_mut().filter(|(_, status)| status.is_none()).map(|(child, _)| child)
    }

    /// The first in order that has failed.
    fn failed(&self) -> Option<(usize, ExitStatus)> {
        let mut ended = self.0.iter().enumerate().filter_map(|(rank, (_, status))| Some((rank, (*status)?)));
        ended.find(|(_, status)| !status.success())
    }

    fn send(&mut self, signal: StopSignal) {
        for child in self.running() {
            send(child, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for child in self.running() {
            // It may have ended just now.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(unix)]
fn send(child: &Child, signal: StopSignal) {
    use rustix::process::{Pid, Signal, kill_process};
    let signal = match signal {
        StopSignal::Terminate => Signal::TERM,
        StopSignal::HangUp => Signal::HUP,
        StopSignal::Interrupt => Signal::INT,
    };
    // It was not waited for, so the number is still its own; it may have ended.
    let _ = kill_process(Pid::from_child(child), signal);
}

#[cfg(not(unix))]
fn send(child: &mut Child, _: StopSignal) {
    let _ = child.kill();
}

/// Runs processes to their end, and passes signals on. When one fails, the others are asked to stop, and killed when they have had
/// `grace` to save; the exit code is that of the first that failed.
fn run(commands: Vec<Command>, stop: &StopRequest, grace: Duration) -> Outcome {
    let _hold = stop.hold();
    let mut group = Group::start(commands)?;
    let (mut passed_on, mut first_failed) = (false, None);
    while group.running().next().is_some() {
        if let Some(signal) = stop.signal().filter(|_| !passed_on) {
            passed_on = true;
            group.send(signal);
        }
        if let (Some(failed), None) = (group.failed(), &first_failed) {
            first_failed = Some((failed, Instant::now()));
            if !passed_on {
                group.send(StopSignal::Terminate);
            }
        }
        match &first_failed {
            Some((_, at)) if at.elapsed() > grace => break,
            _ => std::thread::sleep(LOOK),
        }
    }
    match first_failed.map(|(failed, _)| failed).or_else(|| group.failed()) {
        None => Ok(()),
        Some((rank, status)) => Err(failure(rank, status)),
    }
}

/// What a rank failed with. It has said why, unless it was killed.
fn failure(rank: usize, status: ExitStatus) -> Failure {
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => Failure::new(format!("rank {rank} ended with code {code}")).with_code(code).silent(),
        None => {
            let failure = Failure::new(format!("rank {rank} was killed ({status})")).with_code(75);
            failure.hint("run the same command again to continue; the system's log says who killed it")
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Processes that do this, with the number of the rank as `$RANK`.
    fn shells(count: usize, script: &str) -> Vec<Command> {
        let shell = |rank: usize| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).envs(variables(rank, count, 1));
            command
        };
        (0..count).map(shell).collect()
    }

    fn code(outcome: Outcome) -> u8 {
        outcome.map_or_else(|failure| failure.code(), |()| 0)
    }

    #[test]
    fn every_process_knows_its_place_and_all_must_succeed() {
        let script = "test $RANK = $LOCAL_RANK -a $WORLD_SIZE = 3 -a $MASTER_ADDR = 127.0.0.1 -a $RANK -lt 3";
        assert_eq!(code(run(shells(3, script), &StopRequest::default(), GRACE)), 0);
    }

    #[test]
    fn the_code_is_that_of_the_first_that_fails_and_the_others_may_save() {
        let folder = tempfile::tempdir().unwrap();
        // Rank 1 fails; the others save when they are asked to stop, and end with another code.
        let script = format!(
            "trap 'sleep 0.3; touch {0}/saved-$RANK; exit 75' TERM; touch {0}/ready-$RANK
             if [ $RANK = 1 ]; then while [ ! -e {0}/ready-0 -o ! -e {0}/ready-2 ]; do sleep 0.01; done; exit 7; fi
             while true; do sleep 0.02; done",
            folder.path().display()
        );
        let begun = Instant::now();
        assert_eq!(code(run(shells(3, &script), &StopRequest::default(), GRACE)), 7);
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert!(folder.path().join("saved-0").exists() && folder.path().join("saved-2").exists());
    }

    #[test]
    fn one_that_does_not_end_is_killed_after_its_time() {
        let script = "if [ $RANK = 1 ]; then sleep 0.2; exit 3; fi; trap '' TERM; while true; do sleep 0.05; done";
        let begun = Instant::now();
        assert_eq!(code(run(shells(2, script), &StopRequest::default(), Duration::from_millis(300))), 3);
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_signal_is_passed_on_once() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "trap 'echo >> {0}/heard-$RANK; [ $(wc -l < {0}/heard-$RANK) = 1 ] && sleep 0.3 && exit 75' TERM
             touch {0}/ready-$RANK; while true; do sleep 0.02; done",
            folder.path().display()
        );
        let stop = StopRequest::default();
        let asking = stop.clone();
        let ready = [0, 1].map(|rank| folder.path().join(format!("ready-{rank}")));
        let asks = std::thread::spawn(move || {
            while !ready.iter().all(|file| file.exists()) {
                std::thread::sleep(Duration::from_millis(10));
            }
            // A shell that was started with SIGINT ignored cannot trap it, so this is SIGTERM.
            asking.ask(StopSignal::Terminate);
        });
        assert_eq!(code(run(shells(2, &script), &stop, GRACE)), 75);
        asks.join().unwrap();
        for rank in [0, 1] {
            let heard = std::fs::read_to_string(folder.path().join(format!("heard-{rank}"))).unwrap();
            assert_eq!(heard.lines().count(), 1);
        }
    }

    #[test]
    fn one_that_is_killed_leaves_code_75() {
        assert_eq!(code(run(shells(1, "kill -KILL $$"), &StopRequest::default(), GRACE)), 75);
    }

    #[test]
    fn the_processes_get_all_words_but_the_number() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for text in ["train --gpus 4 quick --out a", "train quick --gpus=4 --out a", "train quick --out a --gpus 4"] {
            assert_eq!(without_gpus(words(text).into_iter()), words("train quick --out a"));
        }
    }
}
