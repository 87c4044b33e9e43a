//! What is wrong with a recipe, each with its place, the line and a caret.

use super::document::{RecipeText, TextSpan};
use std::fmt;

/// The most problems that are shown.
const MOST: usize = 20;
/// The widest excerpt of a line.
const WIDEST: usize = 100;

/// One problem of a recipe.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RecipeProblem {
    /// `file:line:column`, or `--set`.
    pub location: String,
    /// Line of the file, from 1 on.
    pub line: Option<usize>,
    /// Column of the line in characters, from 1 on.
    pub column: Option<usize>,
    /// The key at fault, such as `train.batch`, where there is one.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// The line with a caret below what is meant.
    pub excerpt: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

/// A recipe that cannot be used: all that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RecipeError {
    /// The file, or the name of a built-in recipe.
    pub origin: String,
    /// The problems in the order of their places; never empty.
    pub problems: Vec<RecipeProblem>,
}

impl RecipeError {
    /// An error about the recipe as a whole.
    pub(super) fn whole(origin: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let problem = RecipeProblem {
            location: origin.to_owned(),
            line: None,
            column: None,
            key: None,
            message: message.into(),
            excerpt: None,
            hint: Some(hint.into()),
        };
        RecipeError { origin: origin.to_owned(), problems: vec![problem] }
    }
}

impl fmt::Display for RecipeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)?;
        if let Some(excerpt) = &self.excerpt {
            write!(f, "\n{excerpt}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RecipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems.len();
        if count > 1 {
            write!(f, "{} has {count} problems", self.origin)?;
        }
        for (index, problem) in self.problems.iter().take(MOST).enumerate() {
            if count > 1 || index > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{problem}")?;
        }
        if count > MOST {
            write!(f, "\n\nand {} more", count - MOST)?;
        }
        Ok(())
    }
}

impl std::error::Error for RecipeError {}

/// A problem before its place is looked up.
#[derive(Clone, Debug)]
pub(super) struct FoundProblem {
    pub place: Option<TextSpan>,
    pub key: Option<String>,
    pub message: String,
    pub hint: Option<String>,
}

impl FoundProblem {
    /// With location and excerpt; `sources[0]` is the file, the others are `--set`s.
    pub fn located(self, sources: &[RecipeText]) -> RecipeProblem {
        let FoundProblem { place, key, message, hint } = self;
        let Some((place, source)) = place.and_then(|place| Some((place, sources.get(place.source)?))) else {
            let location = sources.first().map_or(String::new(), |source| source.name.clone());
            return RecipeProblem { location, line: None, column: None, key, message, excerpt: None, hint };
        };
        let line = Line::of(&source.text, place);
        let excerpt = Some(line.excerpt(place.source == 0));
        if place.source > 0 {
            return RecipeProblem {
                location: source.name.clone(),
                line: None,
                column: None,
                key,
                message,
                excerpt,
                hint,
            };
        }
        let (number, column) = (line.number, line.before.chars().count() + 1);
        let location = format!("{}:{number}:{column}", source.name);
        RecipeProblem { location, line: Some(number), column: Some(column), key, message, excerpt, hint }
    }
}

/// The line of a place, cut at it.
struct Line<'a> {
    number: usize,
    before: &'a str,
    marked: &'a str,
    after: &'a str,
}

impl<'a> Line<'a> {
    fn of(text: &'a str, place: TextSpan) -> Line<'a> {
        // Places come from the parser, but nothing here may panic should one lie between the bytes of a character.
        let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        let start = boundary(place.start);
        let first = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let last = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let end = boundary(place.end).clamp(start, last);
        Line {
            number: text[..start].matches('\n').count() + 1,
            before: &text[first..start],
            marked: &text[start..end],
            after: &text[end..last],
        }
    }

    /// `12 | batch = 0` and a caret below the 0.
    fn excerpt(&self, numbered: bool) -> String {
        let number = if numbered { self.number.to_string() } else { String::new() };
        let margin = " ".repeat(number.len());
        let keep = |text: &str, count: usize| text.chars().take(count).map(printable).collect::<String>();
        let skipped = self.before.chars().count().saturating_sub(WIDEST / 2);
        let before: String = self.before.chars().skip(skipped).map(printable).collect();
        let marked = keep(self.marked, WIDEST / 2);
        let after = keep(self.after, WIDEST.saturating_sub(before.chars().count() + marked.chars().count()));
        let carets = "^".repeat(marked.chars().count().max(1));
        let indent = " ".repeat(before.chars().count());
        let line = format!("{number} | {before}{marked}{after}");
        format!("{}\n{margin} | {indent}{carets}", line.trim_end())
    }
}

/// Tabs and control characters would move the caret, or the terminal.
fn printable(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}
