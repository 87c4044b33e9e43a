//! A buffer as text, for output that scrolls.

use ratatui::backend::IntoCrossterm;
use ratatui::buffer::Buffer;
use ratatui::crossterm::style::{Color, ContentStyle};
use ratatui::text::Span;

/// The lines without what is empty at their ends, with escape codes where a cell has a style.
pub fn lines(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in buffer.content.chunks(usize::from(buffer.area.width).max(1)) {
        let used = row.iter().rposition(|cell| cell.symbol() != " ").map_or(0, |last| last + 1);
        for run in row[..used].chunk_by(|a, b| a.style() == b.style()) {
            let mut hidden = 0;
            let mut symbols = String::new();
            for cell in run {
                // A wide letter covers the cells after it.
                if hidden == 0 {
                    symbols += cell.symbol();
                    hidden = Span::raw(cell.symbol()).width();
                }
                hidden = hidden.saturating_sub(1);
            }
            let mut style: ContentStyle = run[0].style().into_crossterm();
            for colour in [&mut style.foreground_color, &mut style.background_color, &mut style.underline_color] {
                colour.take_if(|colour| *colour == Color::Reset);
            }
            text += &style.apply(symbols).to_string();
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn only_styled_text_has_escape_codes_and_wide_letters_leave_no_gap() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 9, 2));
        buffer.set_string(0, 0, "a日本b", Style::new());
        buffer.set_string(2, 1, "red", Style::new().red());
        assert_eq!(lines(&buffer), "a日本b\n  \x1b[38;5;1mred\x1b[39m\n");
    }
}
