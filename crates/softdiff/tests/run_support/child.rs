//! Running a test of this very program as another process, to be killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Where the child works; also how a child knows that it is one.
const FOLDER: &str = "SOFTDIFF_TEST_FOLDER";

/// The folder to work in, in a child.
pub fn folder_of_child() -> Option<std::path::PathBuf> {
    std::env::var_os(FOLDER).map(Into::into)
}

/// Starts the ignored test `name` of this program as a child that works in `folder`, after `setup` in a shell.
pub fn spawn(name: &str, folder: &Path, setup: &str) -> (Child, impl Iterator<Item = String> + use<>) {
    let script = format!("{setup}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1", "--quiet"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap() as ChildStdout).lines();
    (child, lines.map_while(Result::ok))
}

/// Sends a signal by its name.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}
