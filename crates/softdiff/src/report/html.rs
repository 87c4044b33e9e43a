//! A page as HTML: everything inside, nothing fetched, no script.

use super::{Body, Figure, Page, PageBlock, Section};
use base64::prelude::{BASE64_STANDARD, Engine};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
const CHART_STYLE: &str = include_str!("chart.css");

/// Longest word of a table that is never broken.
const LONGEST_WORD: usize = 24;

/// Text with the letters that HTML and SVG take for their own written out.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Control letters are not allowed in either.
            c if c.is_control() && c != '\n' && c != '\t' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// An SVG with the style that a page would have brought.
pub(super) fn standalone(svg: &str) -> String {
    let end = svg.find('>').map_or(0, |end| end + 1);
    let background = "svg { background: #fff; }\n";
    format!("{}<style>{background}{CHART_STYLE}</style>{}\n", &svg[..end], &svg[end..])
}

impl Page {
    /// The whole page.
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>\n{STYLE}{CHART_STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n<p class=\"lead\">{}</p>\n",
            escape(&self.lead)
        );
        page.push_str("<nav aria-label=\"Sections\">\n");
        for (index, section) in self.sections.iter().enumerate() {
            let _ = writeln!(page, "<a href=\"#s{index}\">{}</a>", escape(&section.title));
        }
        page.push_str("</nav>\n");
        for (index, section) in self.sections.iter().enumerate() {
            write_section(&mut page, index, section);
        }
        let _ = writeln!(page, "<footer>Written by {}.</footer>\n</main>\n</body>\n</html>", crate::run::build());
        page
    }
}

// Writing into a String cannot fail.
fn write_section(page: &mut String, index: usize, section: &Section) {
    let _ = writeln!(page, "<section>\n<h2 id=\"s{index}\">{}</h2>", escape(&section.title));
    for block in &section.blocks {
        match block {
            PageBlock::Text(text) => {
                let _ = writeln!(page, "<p>{}</p>", escape(text));
            }
            PageBlock::Code(text) => {
                let _ = writeln!(page, "<pre tabindex=\"0\">{}</pre>", escape(text));
            }
            PageBlock::Figure(figure) => write_figure(page, figure),
            PageBlock::Row(figures) => {
                page.push_str("<div class=\"row\">\n");
                figures.iter().for_each(|figure| write_figure(page, figure));
                page.push_str("</div>\n");
            }
            PageBlock::Table { head, rows } => write_table(page, head, rows),
        }
    }
    page.push_str("</section>\n");
}

fn write_figure(page: &mut String, figure: &Figure) {
    let caption = escape(&figure.caption);
    let _ = writeln!(page, "<figure data-name=\"{}\">", figure.name);
    match &figure.body {
        Body::Svg(svg) => page.push_str(svg),
        Body::Png { bytes, width } => {
            let data = BASE64_STANDARD.encode(bytes);
            let _ = write!(page, "<img src=\"data:image/png;base64,{data}\" width=\"{width}\" alt=\"{caption}\">");
        }
    }
    let _ = writeln!(page, "\n<figcaption>{caption}</figcaption>\n</figure>");
}

fn write_table(page: &mut String, head: &[String], rows: &[Vec<String>]) {
    let numeric: Vec<bool> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty());
            rows.len() > 1 && cells.clone().count() > 0 && cells.clone().all(|cell| is_number(cell))
        })
        .collect();
    let class = |column: usize| if numeric.get(column) == Some(&true) { " class=\"n\"" } else { "" };
    page.push_str("<div class=\"wide\" tabindex=\"0\"><table>\n");
    if head.iter().any(|name| !name.is_empty()) {
        page.push_str("<thead><tr>");
        for (column, name) in head.iter().enumerate() {
            let _ = write!(page, "<th scope=\"col\"{}>{}</th>", class(column), escape(name));
        }
        page.push_str("</tr></thead>\n");
    }
    page.push_str("<tbody>\n");
    for row in rows {
        page.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            // A word that a hyphen would break is better kept whole; a long one is not.
            let whole = cell.len() <= LONGEST_WORD && !cell.contains(char::is_whitespace);
            let class = if whole && class(column).is_empty() { " class=\"w\"" } else { class(column) };
            let _ = write!(page, "<td{class}>{}</td>", escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn is_number(cell: &str) -> bool {
    cell.split_whitespace().next().is_some_and(|word| word.trim_end_matches('%').parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
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
