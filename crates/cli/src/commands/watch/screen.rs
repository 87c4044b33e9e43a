//! The terminal while it shows a dashboard: another screen, painted without flicker, left as it was found.

use crate::output;
use std::fmt::Write;

/// Other screen; cursor hidden; long lines cut instead of wrapped; empty.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
/// All of that undone.
const LEAVE: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Terminals that know it show what lies between at once; others ignore it.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

/// The terminal's other screen, until dropped.
pub struct Screen {
    last: Option<ScreenFrame>,
}

/// What is to be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenFrame {
    /// Lines from the top.
    pub lines: Vec<String>,
    /// What draws a picture below them.
    pub picture: Option<String>,
    /// Columns and rows of the terminal.
    pub size: (usize, usize),
}

impl Screen {
    /// Changes to the other screen.
    pub fn enter() -> Screen {
        output::bytes(ENTER.as_bytes());
        Screen { last: None }
    }

    /// Shows a frame.
    pub fn draw(&mut self, frame: ScreenFrame) {
        output::bytes(painted(&frame, self.last.as_ref()).as_bytes());
        self.last = Some(frame);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        output::bytes((forgotten(self.last.as_ref()).to_owned() + LEAVE).as_bytes());
    }
}

/// What turns the last frame into this one. Lines are written over and never cleared first, so nothing flickers; a
/// picture is drawn only when it or its place changed.
fn painted(frame: &ScreenFrame, last: Option<&ScreenFrame>) -> String {
    let (_, rows) = frame.size;
    let mut text = String::from(BEGIN);
    if last.is_none_or(|last| last.size != frame.size) {
        text += "\x1b[2J";
    }
    let lines = &frame.lines[..frame.lines.len().min(rows)];
    for (row, line) in lines.iter().enumerate() {
        let _ = write!(text, "\x1b[{};1H{line}\x1b[K", row + 1);
    }
    let unchanged = last.is_some_and(|last| {
        (last.size, last.lines.len(), &last.picture) == (frame.size, frame.lines.len(), &frame.picture)
    });
    if !unchanged && lines.len() < rows {
        let _ = write!(text, "\x1b[{};1H\x1b[J", lines.len() + 1);
        text += forgotten(last);
        text += frame.picture.as_deref().unwrap_or_default();
    }
    text + END
}

/// What removes a picture that other text would not overwrite.
fn forgotten(last: Option<&ScreenFrame>) -> &'static str {
    let picture = last.and_then(|last| last.picture.as_deref()).unwrap_or_default();
    if picture.starts_with("\x1b_G") { super::picture::FORGET } else { "" }
}

/// Columns and rows of the terminal, asked each time because it may be resized.
pub fn size() -> (usize, usize) {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout())
        && size.ws_col > 0
        && size.ws_row > 0
    {
        return (size.ws_col.into(), size.ws_row.into());
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok()).filter(|&n| n > 0);
    (number("COLUMNS").unwrap_or(80), number("LINES").unwrap_or(24))
}

/// Width and height of a character in pixels, as the terminal tells, else those of the VT340.
pub fn cell() -> (usize, usize) {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout())
        && size.ws_xpixel > 0
        && size.ws_ypixel > 0
        && size.ws_col > 0
        && size.ws_row > 0
    {
        return ((size.ws_xpixel / size.ws_col).max(1).into(), (size.ws_ypixel / size.ws_row).max(1).into());
    }
    (10, 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(lines: &[&str], picture: Option<&str>) -> ScreenFrame {
        let lines = lines.iter().map(ToString::to_string).collect();
        ScreenFrame { lines, picture: picture.map(Into::into), size: (20, 3) }
    }

    #[test]
    fn the_screen_is_cleared_once_and_then_written_over() {
        let first = frame(&["a", "b"], None);
        let text = painted(&first, None);
        assert!(text.starts_with("\x1b[?2026h\x1b[2J\x1b[1;1Ha\x1b[K\x1b[2;1Hb\x1b[K\x1b[3;1H\x1b[J"), "{text:?}");
        let text = painted(&frame(&["c", "b"], None), Some(&first));
        assert_eq!(text, "\x1b[?2026h\x1b[1;1Hc\x1b[K\x1b[2;1Hb\x1b[K\x1b[?2026l");
        let smaller = ScreenFrame { size: (20, 2), ..first.clone() };
        assert!(painted(&smaller, Some(&first)).contains("\x1b[2J"));
    }

    #[test]
    fn a_picture_is_drawn_when_it_or_its_place_changes_and_lines_beyond_the_screen_never() {
        let first = frame(&["a"], Some("<picture>"));
        assert!(painted(&first, None).contains("<picture>"));
        assert!(!painted(&frame(&["b"], Some("<picture>")), Some(&first)).contains("<picture>"));
        assert!(painted(&frame(&["a", "b"], Some("<picture>")), Some(&first)).contains("<picture>"));
        assert!(painted(&frame(&["a"], Some("<other>")), Some(&first)).contains("<other>"));
        let long = painted(&frame(&["1", "2", "3", "4", "5"], Some("<picture>")), None);
        assert!(long.contains("\x1b[3;1H3") && !long.contains('5') && !long.contains("<picture>"), "{long:?}");
    }
}
