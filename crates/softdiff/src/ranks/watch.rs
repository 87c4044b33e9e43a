//! A second line between the ranks, on which nothing is sent but signs of life. A rank that waits for a message of MPI waits
//! for ever if the other one is dead or stopped; here that is seen, and the process ends.
//!
//! Every rank has a connection to rank 0. Lines: `.` every second, `stop SIGNAL`, `end WHY` and `bye`.

use super::connect::connect;
use super::meeting::{NAME, host_of, name_of};
use crate::run::{Holder, StopHold, StopRequest, StopSignal, Stopped};
use softdiff_engine::ranks::Ranks;
use softdiff_engine::{Error, Result};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

pub(super) const BEAT: Duration = Duration::from_secs(1);
/// A rank that says nothing for so long is lost.
const SILENCE: Duration = Duration::from_secs(10);
/// How long a rank that a signal ends waits for the reason: a launcher that loses one rank signals the others.
const REASON: Duration = Duration::from_millis(200);
/// Longest line, so that nobody can fill the memory.
const LONGEST: usize = 4096;

/// The line to the other ranks.
pub(super) struct RankWatch(Arc<Line>);

struct Line {
    rank: usize,
    hosts: Vec<String>,
    stop: StopRequest,
    /// The ranks at the other ends: on rank 0 all others, elsewhere rank 0.
    peers: Mutex<Vec<(usize, TcpStream)>>,
    leaving: AtomicBool,
    /// There where a signal ends this process, after the others know.
    ends_by_signal: OnceLock<StopHold>,
}

impl RankWatch {
    /// Connects the ranks, which say by MPI where, and begins to watch. A lost rank ends this process.
    pub(super) fn begin(ranks: &Ranks, stop: &StopRequest) -> Result<RankWatch> {
        let hosts = hosts(ranks)?;
        let local = hosts.iter().all(|host| *host == hosts[0]);
        let connected = connect(ranks, &hosts, local);
        // All or none.
        let failed = ranks.largest(u8::from(connected.is_err()))?;
        let peers = connected.map_err(|error| {
            let what = "the ranks cannot watch each other".into();
            let hint = "let the hosts connect to each other on any TCP port, or name rank 0's: MASTER_ADDR=HOST";
            Error::Device { what, problem: error.to_string(), hint: hint.into() }
        })?;
        if failed != 0 {
            return Err(Error::Rank { rank: None, problem: "could not connect to rank 0, and says why".into() });
        }
        RankWatch::over(ranks.rank(), hosts, peers, stop)
    }

    /// Begins to watch over these connections. A lost rank ends this process.
    pub(super) fn over(
        rank: usize,
        hosts: Vec<String>,
        peers: Vec<(usize, TcpStream)>,
        stop: &StopRequest,
    ) -> Result<RankWatch> {
        let mut readers = Vec::new();
        for (peer, stream) in &peers {
            readers.push((*peer, stream.try_clone().map_err(lost_line)?));
        }
        let leaving = AtomicBool::new(false);
        let (peers, ends_by_signal) = (Mutex::new(peers), OnceLock::new());
        let line = Arc::new(Line { rank, hosts, stop: stop.clone(), peers, leaving, ends_by_signal });
        for (peer, stream) in readers {
            let line = line.clone();
            let name = format!("watching rank {peer}");
            Builder::new().name(name).spawn(move || line.listen(peer, stream)).map_err(lost_line)?;
        }
        let beating = line.clone();
        Builder::new().name("signs of life".into()).spawn(move || beating.beat()).map_err(lost_line)?;
        Ok(RankWatch(line))
    }

    /// From now on a signal to any rank ends all of them.
    pub(super) fn end_by_signal(&self) {
        self.0.ends_by_signal.get_or_init(|| self.0.stop.hold());
    }

    /// The host of each rank.
    pub(super) fn hosts(&self) -> &[String] {
        &self.0.hosts
    }

    /// Says that this rank ends in order, or why not.
    pub(super) fn leave(&self, reason: Option<&str>) {
        self.0.leaving.store(true, Ordering::SeqCst);
        match reason {
            Some(reason) => self.0.say(&format!("end {}", reason.lines().next().unwrap_or_default()), None),
            None => self.0.say("bye", None),
        }
    }
}

fn lost_line(error: std::io::Error) -> Error {
    Error::Rank { rank: None, problem: format!("cannot be watched: {error}") }
}

/// The host of each rank.
fn hosts(ranks: &Ranks) -> Result<Vec<String>> {
    let name = name_of(&Holder::this().host);
    let all = match ranks.others() {
        Some(others) => others.gather(&name)?,
        None => name.to_vec(),
    };
    Ok(all.chunks_exact(NAME).map(host_of).collect())
}

impl Line {
    fn peers(&self) -> MutexGuard<'_, Vec<(usize, TcpStream)>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Sends a line to all peers but one. That a peer is lost is noticed by who listens to it.
    fn say(&self, line: &str, except: Option<usize>) {
        for (peer, stream) in self.peers().iter_mut() {
            if Some(*peer) != except {
                let _ = stream.write_all(format!("{line}\n").as_bytes());
            }
        }
    }

    /// Sends signs of life, and a signal to rank 0; from there to all, where it ends them.
    fn beat(&self) {
        let mut told = false;
        while !self.is_leaving() {
            self.say(".", None);
            let ends = self.ends_by_signal.get().is_some();
            if let Some(signal) = self.stop.signal().filter(|_| !told && (self.rank != 0 || ends)) {
                told = true;
                self.say(&format!("stop {signal}"), None);
                if ends {
                    // Rank 0 ends first: a launcher may kill it when another one has ended.
                    std::thread::sleep(if self.rank == 0 { REASON } else { 2 * BEAT });
                    self.end_by(signal);
                }
            }
            std::thread::sleep(BEAT / 2);
        }
    }

    /// Ends by a signal, unless it is known already that a rank is lost.
    fn end_by(&self, signal: StopSignal) {
        if !self.leaving.swap(true, Ordering::SeqCst) {
            self.say("bye", None);
            self.stop.end(Stopped { signal, step: None, checkpoint: None });
        }
    }

    fn listen(&self, peer: usize, mut stream: TcpStream) {
        let (mut heard, mut text, mut buffer) = (Instant::now(), Vec::new(), [0; 512]);
        loop {
            let length = match stream.read(&mut buffer) {
                Ok(0) => return self.lost(peer, "died"),
                Ok(length) => length,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
                {
                    0
                }
                Err(_) => return self.lost(peer, "died"),
            };
            if length > 0 {
                heard = Instant::now();
            } else if heard.elapsed() > SILENCE {
                return self.lost(peer, &format!("has not answered for {} s", SILENCE.as_secs()));
            }
            text.extend_from_slice(&buffer[..length]);
            while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                match line.trim_end().split_once(' ') {
                    None if line.starts_with("bye") => {
                        if let (Some(_), Some(signal)) = (self.ends_by_signal.get(), self.stop.signal()) {
                            std::thread::sleep(REASON);
                            self.end_by(signal);
                        }
                        return;
                    }
                    Some(("stop", signal)) => self.stop_by(signal),
                    // Rank 0 passes on what it hears, with the number in it.
                    Some(("end", reason)) => {
                        // What is wrong on all ranks is said by each.
                        std::thread::sleep(BEAT / 2);
                        return match peer == 0 && reason.starts_with("rank ") {
                            true => self.end(None, reason),
                            false => self.lost(peer, &format!("ended: {reason}")),
                        };
                    }
                    _ => {}
                }
            }
            text.truncate(LONGEST);
        }
    }

    /// Does as if this process had received another's signal; a second one would end it at once.
    fn stop_by(&self, signal: &str) {
        let known = [StopSignal::Terminate, StopSignal::HangUp, StopSignal::Interrupt];
        let signal = known.into_iter().find(|known| known.to_string() == signal);
        if let (Some(signal), None) = (signal, self.stop.signal()) {
            self.stop.ask(signal);
        }
    }

    /// A rank is lost: tells the others, and ends.
    fn lost(&self, peer: usize, problem: &str) {
        let host = self.hosts.get(peer).map_or("", String::as_str);
        self.end(Some(peer), &format!("rank {peer} on {host} {problem}"));
    }

    fn end(&self, lost: Option<usize>, problem: &str) {
        if self.leaving.swap(true, Ordering::SeqCst) {
            return;
        }
        if self.rank == 0 {
            self.say(&format!("end {problem}"), lost);
        }
        self.stop.end(super::RankError::Lost(problem.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::meeting::meet;
    use std::net::TcpListener;

    #[test]
    fn a_rank_that_is_lost_after_the_ranks_have_met_is_noticed_before_they_have_joined_their_gpus() {
        let place = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().to_string();
        let come = |rank| meet(&place, (rank, 2), 1, || Ok(vec![0]), Duration::from_secs(20)).unwrap();
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| come(1));
            (come(0), second.join().unwrap())
        });
        let watch = RankWatch::over(0, first.hosts, first.peers, &StopRequest::default()).unwrap();
        std::thread::sleep(2 * BEAT);
        assert!(!watch.0.is_leaving());
        drop(second);
        let begun = Instant::now();
        while !watch.0.is_leaving() {
            assert!(begun.elapsed() < SILENCE, "nobody noticed");
            std::thread::sleep(BEAT / 10);
        }
    }
}
