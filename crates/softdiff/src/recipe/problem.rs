//! What is wrong with a recipe, each with its place, the line and a caret.

use super::document::{RecipeText, TextSpan};
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;

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
    /// The line, and what is meant in it.
    pub excerpt: Option<RecipeExcerpt>,
    /// What to do.
    pub hint: Option<String>,
}

/// A line of a recipe or a `--set`, cut to a width, without control characters.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RecipeExcerpt {
    /// What is shown of the line.
    pub text: String,
    /// The bytes of it that are meant.
    pub marked: Range<usize>,
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
    pub(crate) fn whole(origin: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
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

    /// All that is wrong, with places and remedies, for a terminal with or without colours.
    pub fn render(&self, colours: bool) -> String {
        let count = self.problems.len();
        let shown = self.problems.iter().take(MOST).map(|problem| problem.render(colours)).collect::<Vec<_>>();
        let heading = if count > 1 { format!("{} has {count} problems\n\n", self.origin) } else { String::new() };
        let more = if count > MOST { format!("\n\nand {} more", count - MOST) } else { String::new() };
        heading + &shown.join("\n\n") + &more
    }
}

impl RecipeProblem {
    fn render(&self, colours: bool) -> String {
        let hint = self.hint.as_ref().map_or(String::new(), |hint| format!("\nhint: {hint}"));
        let Some(RecipeExcerpt { text, marked }) = &self.excerpt else {
            return format!("{}: {}{hint}", self.location, self.message);
        };
        let renderer = if colours { Renderer::styled() } else { Renderer::plain() };
        let line = Snippet::source(text.as_str()).annotation(AnnotationKind::Primary.span(marked.clone()));
        let line = line.line_start(self.line.unwrap_or(1)).line_numbering(self.line.is_some());
        let title = Level::ERROR.no_name().primary_title(format!("{}: {}", self.location, self.message));
        renderer.render(&[title.element(line)]) + &hint
    }
}

impl fmt::Display for RecipeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl fmt::Display for RecipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
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
        let location = sources.first().map_or(String::new(), |source| source.name.clone());
        let mut problem = RecipeProblem { location, line: None, column: None, key, message, excerpt: None, hint };
        if let Some((place, source)) = place.and_then(|place| Some((place, sources.get(place.source)?))) {
            let line = Line::of(source, place);
            problem.location.clone_from(&source.name);
            problem.excerpt = Some(line.excerpt());
            if place.source == 0 {
                let (number, column) = (line.number, line.before.chars().count() + 1);
                problem.location = format!("{}:{number}:{column}", source.name);
                (problem.line, problem.column) = (Some(number), Some(column));
            }
        }
        problem
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
    fn of(RecipeText { text, newlines, .. }: &'a RecipeText, place: TextSpan) -> Line<'a> {
        // Places come from the parser, but nothing here may panic should one lie between the bytes of a character.
        let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        let start = boundary(place.start);
        let lines_before = newlines.partition_point(|&newline| newline < start);
        let first = lines_before.checked_sub(1).map_or(0, |line| newlines[line] + 1);
        let last = newlines.get(lines_before).copied().unwrap_or(text.len());
        let end = boundary(place.end).clamp(start, last);
        Line {
            number: lines_before + 1,
            before: &text[first..start],
            marked: &text[start..end],
            after: &text[end..last],
        }
    }

    /// The marked part and some of what is around it.
    fn excerpt(&self) -> RecipeExcerpt {
        let keep = |text: &str, count: usize| text.chars().take(count).map(printable).collect::<String>();
        let skipped = self.before.chars().count().saturating_sub(WIDEST / 2);
        let before: String = self.before.chars().skip(skipped).map(printable).collect();
        let marked = keep(self.marked, WIDEST / 2);
        let after = keep(self.after, WIDEST.saturating_sub(before.chars().count() + marked.chars().count()));
        let range = before.len()..before.len() + marked.len();
        RecipeExcerpt { text: before + &marked + &after, marked: range }
    }
}

/// Tabs and control characters would move the caret, or the terminal.
fn printable(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}
