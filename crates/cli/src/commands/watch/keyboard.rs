//! Keys as they are pressed, and what the terminal says of itself; the terminal is left as it was found.

#[cfg(unix)]
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::time::{Duration, Instant};

/// Within this time a terminal answers, unless it is far away.
const ANSWER: Duration = Duration::from_millis(200);

/// Standard input without waiting for Enter, until dropped; nothing is ever pressed where it is no terminal.
pub struct Keyboard {
    #[cfg(unix)]
    before: Option<Termios>,
}

impl Keyboard {
    /// Takes keys singly and unseen. Ctrl-C stays a signal.
    #[cfg(unix)]
    pub fn take() -> Keyboard {
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(mut changed) = before.clone() {
            changed.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // Reading gives what there is, be it nothing.
            changed.special_codes[SpecialCodeIndex::VMIN] = 0;
            changed.special_codes[SpecialCodeIndex::VTIME] = 0;
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &changed);
        }
        Keyboard { before }
    }

    /// Keys are not known here.
    #[cfg(not(unix))]
    pub fn take() -> Keyboard {
        Keyboard {}
    }

    /// What was typed since.
    #[cfg(unix)]
    fn typed(&self) -> Vec<u8> {
        let mut bytes = [0; 256];
        match self.before {
            Some(_) => rustix::io::read(std::io::stdin(), &mut bytes).map_or(vec![], |count| bytes[..count].to_vec()),
            None => vec![],
        }
    }

    #[cfg(not(unix))]
    fn typed(&self) -> Vec<u8> {
        vec![]
    }

    /// Whether q was pressed since.
    pub fn wants_to_leave(&self) -> bool {
        self.typed().iter().any(|key| matches!(key, b'q' | b'Q'))
    }

    /// Asks the terminal what it is (DA1); attribute 4 is sixels.
    pub fn shows_sixels(&self) -> bool {
        #[cfg(unix)]
        if self.before.is_none() {
            return false;
        }
        crate::output::bytes(b"\x1b[c");
        let (asked, mut answer) = (Instant::now(), Vec::new());
        while asked.elapsed() < ANSWER && cfg!(unix) {
            answer.extend(self.typed());
            if let Some(attributes) = attributes(&answer) {
                return attributes.contains(&4);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

#[cfg(unix)]
impl Drop for Keyboard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// What a terminal can do, by its whole answer: `ESC [ ? class ; attribute ; ... c`.
fn attributes(answer: &[u8]) -> Option<Vec<u32>> {
    let text = String::from_utf8_lossy(answer);
    let (numbers, _) = text.split_once("\x1b[?")?.1.split_once('c')?;
    Some(numbers.split(';').skip(1).filter_map(|number| number.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_tells_its_attributes() {
        assert_eq!(attributes(b"x\x1b[?62;4;22c"), Some(vec![4, 22]));
        assert_eq!(attributes(b"\x1b[?4c"), Some(vec![]), "the class is no attribute");
        assert_eq!(attributes(b"\x1b[?62;4"), None);
        assert_eq!(attributes(b"q"), None);
    }
}
