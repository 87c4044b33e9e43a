//! A browser, driven by as much of WebDriver as the tests need.

use super::Answer;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the page may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser without a window.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts one; none where none is installed.
    pub fn start() -> Option<Browser> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let flag = format!("--port={port}");
        let quiet = || Stdio::null();
        let driver = Command::new("chromedriver").arg(flag).stdout(quiet()).stderr(quiet()).spawn().ok()?;
        let mut browser = Browser { driver, port, session: String::new() };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "chromedriver does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        let arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let made = browser.ask("POST", "/session", Some(&wanted));
        browser.session = made["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {made}")).to_owned();
        Some(browser)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.map_or(String::new(), Value::to_string);
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {}\r\n", self.port, body.len());
        stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut part = [0; 65536];
        // The driver may keep the connection open: its length tells where the answer ends.
        loop {
            if let Some(answer) = whole(&answer) {
                return answer.json()["value"].clone();
            }
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "the driver's answer ends early");
            answer.extend_from_slice(&part[..count]);
        }
    }

    fn tell(&self, command: &str, body: Value) -> Value {
        let value = self.ask("POST", &format!("/session/{}/{command}", self.session), Some(&body));
        assert!(value.get("error").is_none(), "{command}: {value}");
        value
    }

    /// A window of this size, light or dark.
    pub fn looks(&self, width: u32, height: u32, dark: bool) {
        let devtools = |command: &str, parameters: Value| {
            self.tell("goog/cdp/execute", json!({ "cmd": command, "params": parameters }));
        };
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        devtools("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } });
        devtools("Emulation.setEmulatedMedia", json!({ "features": [scheme] }));
    }

    /// Opens an address.
    pub fn open(&self, url: &str) {
        self.tell("url", json!({ "url": url }));
    }

    /// The value of a script.
    pub fn run(&self, script: &str) -> Value {
        self.tell("execute/sync", json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true.
    pub fn wait(&self, expression: &str) {
        let begun = Instant::now();
        while self.run(&format!("return Boolean({expression});")) != true {
            let problem = self.run("return document.getElementById('problem')?.textContent;");
            assert!(begun.elapsed() < PATIENCE, "never: {expression}; the page says {problem}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses keys.
    pub fn keys(&self, keys: &[&str]) {
        let actions: Vec<Value> = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })))
            .collect();
        self.tell("actions", json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }));
    }

    /// What is seen, as PNG in base64.
    pub fn screenshot(&self) -> String {
        let value = self.ask("GET", &format!("/session/{}/screenshot", self.session), None);
        value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
    }

    /// What the console complained about.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.tell("se/log", json!({ "type": "browser" }));
        log.as_array().into_iter().flatten().map(|entry| entry["message"].to_string()).collect()
    }
}

fn whole(answer: &[u8]) -> Option<Answer> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length: usize = head.split("content-length:").nth(1)?.split("\r\n").next()?.trim().parse().ok()?;
    let body = answer.get(end + 4..end + 4 + length)?.to_vec();
    Some(Answer { status: 200, head, body })
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.ask("DELETE", &format!("/session/{}", self.session), None);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
