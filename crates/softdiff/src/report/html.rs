//! A page as HTML: everything inside, nothing fetched, no script. Text is escaped by `maud`; only drawings are taken as they are.

use super::{Body, Figure, Page, PageBlock};
use base64::prelude::{BASE64_STANDARD, Engine};
use maud::{Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
const CHART_STYLE: &str = include_str!("chart.css");

/// Content security policy: nothing is fetched, and no script runs.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";

/// Longest word of a table that is never broken.
const LONGEST_WORD: usize = 24;

/// Text for HTML and SVG, which allow no control characters.
fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "\u{fffd}")
}

/// Text with the characters that have a meaning in HTML and SVG written out.
pub(super) fn escape(text: &str) -> String {
    html! { (plain(text)) }.into_string()
}

/// An SVG file with the style sheet that its page would have.
pub(super) fn standalone(svg: &str) -> String {
    let end = svg.find('>').map_or(0, |end| end + 1);
    let background = "svg { background: #fff; }\n";
    format!("{}<style>{background}{CHART_STYLE}</style>{}\n", &svg[..end], &svg[end..])
}

impl Page {
    /// The page as one HTML file without references to other files.
    pub fn to_html(&self) -> String {
        let title = plain(&self.title);
        let page = html! {
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    title { (title) }
                    style { (PreEscaped(STYLE)) (PreEscaped(CHART_STYLE)) }
                }
                body {
                    main {
                        h1 { (title) }
                        p.lead { (plain(&self.lead)) }
                        nav aria-label="Sections" {
                            @for (index, section) in self.sections.iter().enumerate() {
                                a href={ "#s" (index) } { (plain(&section.title)) } "\n"
                            }
                        }
                        @for (index, section) in self.sections.iter().enumerate() {
                            section {
                                h2 id={ "s" (index) } { (plain(&section.title)) }
                                @for block in &section.blocks { (block.markup()) }
                            }
                        }
                        footer { "Written by " (crate::run::build()) "." }
                    }
                }
            }
        };
        format!("<!doctype html>\n{}\n", page.into_string())
    }
}

impl PageBlock {
    fn markup(&self) -> Markup {
        html! {
            @match self {
                PageBlock::Text(text) => p { (plain(text)) },
                PageBlock::Code(text) => pre tabindex="0" { (plain(text)) },
                PageBlock::Figure(figure) => (figure.markup()),
                PageBlock::Row(figures) => div.row { @for figure in figures { (figure.markup()) } },
                PageBlock::Table { head, rows } => (table(head, rows)),
            }
        }
    }
}

impl Figure {
    fn markup(&self) -> Markup {
        let caption = plain(&self.caption);
        html! {
            figure data-name=(self.name) {
                @match &self.body {
                    Body::Svg(svg) => (PreEscaped(svg)),
                    Body::Chart { wide, narrow } => {
                        (PreEscaped(wide.replacen("<svg ", "<svg class=\"broad\" ", 1)))
                        (PreEscaped(narrow.replacen("<svg ", "<svg class=\"narrow\" ", 1)))
                    }
                    Body::Png { bytes, width } => {
                        img src={ "data:image/png;base64," (BASE64_STANDARD.encode(bytes)) } width=(width) alt=(caption);
                    }
                }
                figcaption { (caption) }
            }
        }
    }
}

fn table(head: &[String], rows: &[Vec<String>]) -> Markup {
    let numeric: Vec<bool> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty());
            rows.len() > 1 && cells.clone().count() > 0 && cells.clone().all(|cell| is_number(cell))
        })
        .collect();
    let is_numeric = |column: usize| numeric.get(column) == Some(&true);
    // A word that a hyphen would break is better kept whole; a long one is not.
    let is_whole = |cell: &str| cell.len() <= LONGEST_WORD && !cell.contains(char::is_whitespace);
    let class = |column: usize, cell: &str| match (is_numeric(column), is_whole(cell)) {
        (true, _) => Some("n"),
        (false, true) => Some("w"),
        (false, false) => None,
    };
    html! {
        div.wide tabindex="0" {
            table {
                @if head.iter().any(|name| !name.is_empty()) {
                    thead {
                        tr {
                            @for (column, name) in head.iter().enumerate() {
                                th scope="col" class=[is_numeric(column).then_some("n")] { (plain(name)) }
                            }
                        }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                td class=[class(column, cell)] { (plain(cell)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
fn is_number(cell: &str) -> bool {
    cell.split_whitespace().next().is_some_and(|word| word.trim_end_matches('%').parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::super::Section;
    use super::*;

    #[test]
    fn nothing_in_a_name_becomes_markup() {
        let evil = "<script>alert(1)</script>\"'&\u{1}";
        let page = Page {
            title: evil.into(),
            lead: evil.into(),
            sections: vec![Section {
                title: evil.into(),
                blocks: vec![
                    PageBlock::Text(evil.into()),
                    PageBlock::Code(evil.into()),
                    PageBlock::Table { head: vec![evil.into()], rows: vec![vec![evil.into()]] },
                    PageBlock::Figure(Figure {
                        name: "x",
                        caption: evil.into(),
                        body: Body::Png { bytes: vec![1], width: 1 },
                    }),
                ],
            }],
        };
        let html = page.to_html();
        assert!(!html.contains("<script") && !html.contains("\"'&") && !html.contains('\u{1}'));
        // Title and h1, lead, link, h2, text, code, head, cell, alt and caption.
        assert_eq!(html.matches("&lt;script&gt;").count(), 11);
        assert!(!html.contains("http://") && !html.contains("https://"));
    }
}
