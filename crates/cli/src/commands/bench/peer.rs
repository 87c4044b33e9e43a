//! A peer program: Python that runs beside us and answers one JSON line per request.

use crate::diagnostics::Failure;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running peer. It ends when dropped.
pub struct Peer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts `python -c script arguments...` on so many threads and reads its greeting. `packages` are what it needs.
    pub fn start(
        python: &Path,
        script: &str,
        arguments: &[String],
        threads: usize,
        packages: &str,
    ) -> Result<(Peer, Value), Failure> {
        let hint = format!("give --python PROGRAM, a Python that has them: pip install {packages}");
        let mut command = Command::new(python);
        command.arg("-c").arg(script).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"] {
            command.env(name, threads.to_string());
        }
        command.env("JAX_PLATFORMS", "cpu");
        let mut child = command
            .spawn()
            .map_err(|e| Failure::new(format!("{} could not be started: {e}", python.display())).hint(&hint))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::new("the peer has no standard input or output"));
        };
        let mut peer = Peer { child, requests, answers: BufReader::new(answers) };
        let greeting = peer.answer().map_err(|failure| failure.hint(&hint))?;
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
