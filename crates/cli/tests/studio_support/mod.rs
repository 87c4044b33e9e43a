//! A studio of a test's own, and a client that says exactly what it is told to.
#![allow(dead_code)] // Each test file uses a part of it.

pub mod browser;

use crate::support::command;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running studio, ended with the test.
pub struct Server {
    child: Child,
    /// What it printed.
    pub url: String,
    /// Host and port.
    pub address: String,
    /// The header with the token of the printed address, as a line; empty without one.
    pub cookie: String,
}

/// An answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&self.body)))
    }
}

impl Server {
    pub fn start(arguments: &[&str]) -> Server {
        Server::run(command(&[&["studio", "--port", "0", "--device", "cpu"], arguments].concat()))
    }

    /// Runs a command that starts a studio.
    pub fn run(mut command: Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        let port = url.split("://").nth(1).unwrap().split('/').next().unwrap().rsplit(':').next().unwrap().to_owned();
        let cookie = url.split("token=").nth(1).map(|token| format!("Cookie: softdiff-{port}={token}\r\n"));
        Server { child, url, address: format!("127.0.0.1:{port}"), cookie: cookie.unwrap_or_default() }
    }

    /// Sends bytes, takes the whole answer.
    pub fn raw(&self, request: &[u8]) -> Answer {
        self.raw_or_closed(request).expect("there is no answer")
    }

    /// Sends bytes, takes the whole answer; none if the connection is closed without one.
    pub fn raw_or_closed(&self, request: &[u8]) -> Option<Answer> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // Whoever refuses may close before all is sent; the answer is what counts.
        let _ = stream.write_all(request);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
        let body = answer.split_off(end + 4);
        let head = String::from_utf8(answer).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some(Answer { status, head, body })
    }

    pub fn get(&self, path: &str) -> Answer {
        self.raw(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{}\r\n", self.address, self.cookie).as_bytes())
    }

    pub fn post(&self, path: &str, kind: &str, body: &[u8]) -> Answer {
        let (host, length) = (&self.address, body.len());
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n");
        self.raw(&[head.as_bytes(), self.cookie.as_bytes(), b"\r\n", body].concat())
    }

    /// A connection on which a client says as much as is given, and waits.
    pub fn waiting(&self, said: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Ends it by a signal, such as `-TERM`: its exit code, and how long that took.
    pub fn end(&mut self, signal: &str) -> (Option<i32>, Duration) {
        let begun = Instant::now();
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
        (self.child.wait().unwrap().code(), begun.elapsed())
    }

    pub fn order(&self, path: &str, order: &Value) -> Answer {
        self.post(path, "application/json", order.to_string().as_bytes())
    }

    /// Follows a task to its end: its last state and all it showed.
    pub fn follow(&self, id: &Value) -> (Value, Vec<Value>) {
        let mut frames = Vec::new();
        for _ in 0..600 {
            let job = self.get(&format!("/api/job?id={id}&since={}", frames.len())).json();
            frames.extend(job["frames"].as_array().unwrap().iter().cloned());
            let over = !["waiting", "running"].contains(&job["state"].as_str().unwrap());
            if over && job["more"] == false {
                return (job, frames);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("task {id} does not end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
