//! Text from an untrusted file as it may be shown.

/// Quoted, control characters escaped, and short.
pub fn quote(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

/// A message as a terminal may show it: control characters and those that turn the direction of text are escaped, newlines and
/// tabs stay, and one that is very long is cut.
pub fn shown(message: &str) -> String {
    const LONGEST: usize = 16_000;
    let mut safe = escaped(message.chars().take(LONGEST), |c| c == '\n' || c == '\t');
    if let Some((cut, _)) = message.char_indices().nth(LONGEST) {
        safe += &format!("… ({} bytes more)", message.len() - cut);
    }
    safe
}

/// The same for a name or a fact, which stays on one line.
pub fn one_line(text: &str) -> String {
    escaped(shown(text).chars(), |_| false)
}

/// A name or a fact in a Markdown document: on one line, and neither markup nor HTML.
pub fn markdown(text: &str) -> String {
    let mut safe = String::new();
    for c in one_line(text).chars() {
        if r"\`*_[]<>&#|~!".contains(c) {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

/// A cell of a table that a spreadsheet may open: text that it would take for a formula begins with an apostrophe.
pub fn cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    if formula { format!("'{text}") } else { text.to_owned() }
}

fn escaped(text: impl Iterator<Item = char>, keep: fn(char) -> bool) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut safe = String::new();
    for c in text {
        match (c.is_control() && !keep(c)) || turns(c) {
            true => safe.extend(c.escape_default()),
            false => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_can_steer_the_terminal() {
        assert_eq!(shown("two\nlines \u{1b}[31m"), "two\nlines \\u{1b}[31m");
        assert_eq!(one_line("a\nb\u{202e}c\u{7}é"), "a\\nb\\u{202e}c\\u{7}é");
    }

    #[test]
    fn a_name_is_neither_markup_nor_html_nor_a_formula() {
        assert_eq!(markdown("a_b\n# <img src=x> [l](u) | c-d.1"), r"a\_b\\n\# \<img src=x\> \[l\](u) \| c-d.1");
        let cells = ["=1+1", "-cmd", "@x", "-1.5e-3", "+inf", "fid"].map(cell);
        assert_eq!(cells, ["'=1+1", "'-cmd", "'@x", "-1.5e-3", "+inf", "fid"]);
    }

    #[test]
    fn a_long_message_is_cut() {
        let cut = shown(&"é".repeat(20_000));
        assert!(cut.len() < 33_000 && cut.ends_with("… (8000 bytes more)"), "{}", cut.len());
    }
}
