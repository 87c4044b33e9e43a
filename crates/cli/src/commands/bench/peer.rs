//! A peer program: Python that runs beside us and answers one JSON line per request.

use crate::diagnostics::Failure;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running peer. It ends when dropped.
pub struct Peer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts `python3 -c script arguments...` and reads its greeting.
    pub fn start(script: &str, arguments: &[String]) -> Result<(Peer, Value), Failure> {
        let python = std::env::var("SOFTDIFF_PYTHON").unwrap_or_else(|_| "python3".into());
        let hint = "the peer needs python3 with the packages it compares with; SOFTDIFF_PYTHON names another python";
        let mut child = Command::new(&python)
            .arg("-c")
            .arg(script)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| Failure::new(format!("cannot start {python}: {e}")).hint(hint))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::new("the peer has no standard input or output"));
        };
        let mut peer = Peer { child, requests, answers: BufReader::new(answers) };
        let greeting = peer.answer().map_err(|failure| failure.hint(hint))?;
        Ok((peer, greeting))
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, request: &Value) -> Result<Value, Failure> {
        writeln!(self.requests, "{request}")?;
        self.requests.flush()?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Value, Failure> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            let mut complaint = String::new();
            if let Some(mut stderr) = self.child.stderr.take() {
                std::io::Read::read_to_string(&mut stderr, &mut complaint)?;
            }
            let last = complaint.trim().lines().last().unwrap_or("it said nothing").to_string();
            return Err(Failure::new(format!("the peer program stopped: {last}")));
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
