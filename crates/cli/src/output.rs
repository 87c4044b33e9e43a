//! What is printed: data on standard output, everything else on standard error, and no panic when the pipe is closed.
//!
//! The macros shadow those of the standard library, which panic when a pipe is closed.

use softdiff::quote::shown;
use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicU8, Ordering};

macro_rules! println {
    () => { $crate::output::data(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::data(format_args!("{}\n", format_args!($($text)*))) };
}
macro_rules! print {
    ($($text:tt)*) => { $crate::output::data(format_args!($($text)*)) };
}
macro_rules! eprintln {
    () => { $crate::output::note(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::note(format_args!("{}\n", format_args!($($text)*))) };
}
macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::note(format_args!($($text)*)) };
}

/// How much is said on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors and warnings.
    Quiet,
    /// What was done, and how far it is.
    Usual,
    /// Time and memory, and errors as the program sees them.
    Verbose,
}

/// Set once, before anything is said.
static VERBOSITY: AtomicU8 = AtomicU8::new(Verbosity::Usual as u8);

/// Chooses how much is said.
pub fn set_verbosity(verbosity: Verbosity) {
    VERBOSITY.store(verbosity as u8, Ordering::Relaxed);
}

/// Whether only errors and warnings are wanted.
pub fn is_quiet() -> bool {
    VERBOSITY.load(Ordering::Relaxed) == Verbosity::Quiet as u8
}

/// Whether all there is to know is wanted.
pub fn is_verbose() -> bool {
    VERBOSITY.load(Ordering::Relaxed) == Verbosity::Verbose as u8
}

/// So many of something, in words: `1 image`, `2 images`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Writes data. A closed pipe ends the program without an error: the reader has enough.
pub fn data(text: Arguments) {
    bytes(text.to_string().as_bytes());
}

/// The same for bytes.
pub fn bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            note(format_args!("error: cannot write to standard output: {error}\n"));
            std::process::exit(1);
        }
    }
}

/// Says something on standard error, unless only errors and warnings are wanted and it is neither. Names from files may be
/// anything, so what would steer a terminal is escaped here, for every message.
pub fn note(text: Arguments) {
    coloured_note(&escaped(&text.to_string()));
}

fn escaped(text: &str) -> String {
    match text.strip_suffix('\n') {
        Some(line) => shown(line) + "\n",
        None => shown(text),
    }
}

/// The same for a text that has colours, and nothing else to escape.
pub fn coloured_note(text: &str) {
    let important = ["error:", "warning:", "cause:", "hint:", "stopped"].iter().any(|word| text.starts_with(word));
    if is_quiet() && !important {
        return;
    }
    let mut out = std::io::stderr().lock();
    // Nobody listening is no reason to stop.
    let _ = out.write_all(painted(text, colours()).as_bytes()).and_then(|()| out.flush());
}

/// Whether standard error has colours: <https://no-color.org> and <https://bixense.com/clicolors>.
pub fn colours() -> bool {
    coloured(std::io::stderr().is_terminal())
}

/// The same for standard output.
pub fn data_colours() -> bool {
    coloured(std::io::stdout().is_terminal())
}

fn coloured(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if set("NO_COLOR").is_some() {
        return false;
    }
    if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
        return true;
    }
    let off = set("CLICOLOR").is_some_and(|value| value == "0") || set("TERM").is_some_and(|value| value == "dumb");
    !off && terminal
}

/// The words that lead a line, in their colours.
fn painted(text: &str, colours: bool) -> String {
    const WORDS: [(&str, &str); 4] = [("error:", "1;31"), ("warning:", "1;33"), ("cause:", "1;31"), ("hint:", "1;36")];
    if !colours {
        return text.to_owned();
    }
    let line = |line: &str| match WORDS.iter().find(|(word, _)| line.starts_with(word)) {
        Some((word, code)) => format!("\x1b[{code}m{word}\x1b[0m{}", &line[word.len()..]),
        None => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_messages_cannot_steer_the_terminal_and_lines_stay_lines() {
        assert_eq!(
            escaped("wrote \x1b]0;x\x07\u{202e}.png\nand more\n"),
            "wrote \\u{1b}]0;x\\u{7}\\u{202e}.png\nand more\n"
        );
        assert!(escaped(&format!("{}\n", "a".repeat(100_000))).ends_with("bytes more)\n"));
    }

    #[test]
    fn colours_only_lead_lines_and_without_them_nothing_changes() {
        let text = "error: bad\n3 | error: x\nhint: mend it\n";
        assert_eq!(painted(text, false), text);
        assert_eq!(painted(text, true), "\x1b[1;31merror:\x1b[0m bad\n3 | error: x\n\x1b[1;36mhint:\x1b[0m mend it\n");
    }
}
