//! Typed reading of a document's tables: whatever is wrong is noted with its place, and reading goes on.

use super::document::{Document, Entry, RecipeText, TextSpan, TomlNode, TomlValue};
use super::problem::{FoundProblem, RecipeError};
use softdiff_engine::suggest;
use std::cell::RefCell;
use std::ops::RangeInclusive;

/// Numbers that are allowed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Range {
    /// Above 0.
    Positive,
    /// From 0 on.
    FromZero,
    /// From 0 to 100.
    Hundred,
    /// From 0 to 1.
    Unit,
    /// From 0 to below 1.
    BelowOne,
    /// Above 0, below 1.
    Between,
}

impl Range {
    fn contains(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                Range::Positive => value > 0.0,
                Range::FromZero => value >= 0.0,
                Range::Hundred => (0.0..=100.0).contains(&value),
                Range::Unit => (0.0..=1.0).contains(&value),
                Range::BelowOne => (0.0..1.0).contains(&value),
                Range::Between => value > 0.0 && value < 1.0,
            }
    }

    pub fn words(self) -> &'static str {
        match self {
            Range::Positive => "a number above 0",
            Range::FromZero => "a number from 0 on",
            Range::Hundred => "a number from 0 to 100",
            Range::Unit => "a number from 0 to 1",
            Range::BelowOne => "a number from 0 to below 1",
            Range::Between => "a number above 0 and below 1",
        }
    }
}

/// What is wrong so far.
pub(super) struct Problems<'a> {
    sources: &'a [RecipeText],
    found: RefCell<Vec<FoundProblem>>,
}

impl<'a> Problems<'a> {
    pub fn new(document: &'a Document) -> Self {
        Problems { sources: &document.sources, found: RefCell::new(Vec::new()) }
    }

    pub fn add(&self, place: Option<TextSpan>, key: Option<String>, message: String, hint: String) {
        self.found.borrow_mut().push(FoundProblem { place, key, message, hint: Some(hint) });
    }

    /// All of them in the order of their places.
    pub fn into_result(self, origin: &str) -> Result<(), RecipeError> {
        let mut found = self.found.into_inner();
        if found.is_empty() {
            return Ok(());
        }
        found.sort_by_key(|found| found.place);
        let problems = found.into_iter().map(|found| found.located(self.sources)).collect();
        Err(RecipeError { origin: origin.to_owned(), problems })
    }

    /// What was written at a place, short enough to show.
    fn written(&self, place: TextSpan) -> String {
        let text = self.sources.get(place.source).and_then(|source| source.text.get(place.start..place.end));
        let text = text.unwrap_or_default();
        let mut short: String = text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        short
    }
}

/// One table of a recipe.
pub(super) struct Reader<'a> {
    name: String,
    place: Option<TextSpan>,
    entries: &'a [Entry],
    asked: RefCell<Vec<&'static str>>,
    problems: &'a Problems<'a>,
}

impl<'a> Reader<'a> {
    pub fn new(document: &'a Document, problems: &'a Problems<'a>) -> Self {
        Reader { name: String::new(), place: None, entries: &document.entries, asked: RefCell::default(), problems }
    }

    /// The name of a key with its section.
    pub fn full(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    fn get(&self, key: &'static str) -> Option<&'a TomlNode> {
        self.asked.borrow_mut().push(key);
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The word of a key, without asking for it.
    pub fn peek(&self, key: &str) -> Option<&'a str> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        if let TomlValue::Text(text) = &entry.node.value { Some(text) } else { None }
    }

    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Notes a problem of a key.
    pub fn problem(&self, key: &str, message: impl Into<String>, hint: impl Into<String>) {
        let place = self.entries.iter().find(|entry| entry.key == key).map(|entry| entry.node.place).or(self.place);
        self.problems.add(place, Some(self.full(key)), message.into(), hint.into());
    }

    fn wrong(&self, key: &'static str, node: &TomlNode, expected: &str) {
        let written = self.problems.written(node.place);
        let message = match &node.value {
            TomlValue::Text(_) => format!("{} must be {expected}, got text", self.full(key)),
            TomlValue::List(_) => format!("{} must be {expected}, got a list", self.full(key)),
            TomlValue::Table(_) => format!("{} must be {expected}, got a table", self.full(key)),
            TomlValue::Date => format!("{} must be {expected}, got a date", self.full(key)),
            _ => format!("{} must be {expected}, got {written}", self.full(key)),
        };
        self.problems.add(Some(node.place), Some(self.full(key)), message, format!("give {expected}"));
    }

    /// A section; empty where it is not given.
    pub fn table(&self, key: &'static str) -> Reader<'a> {
        let (entries, place): (&'a [Entry], _) = match self.get(key) {
            Some(TomlNode { value: TomlValue::Table(entries), place }) => (entries, Some(*place)),
            Some(node) => {
                self.wrong(key, node, &format!("a section, [{}]", self.full(key)));
                (&[], Some(node.place))
            }
            None => (&[], self.place),
        };
        Reader { name: self.full(key), place, entries, asked: RefCell::default(), problems: self.problems }
    }

    /// A list of sections, `[[key]]`; empty where it is not given.
    pub fn tables(&self, key: &'static str, most: usize, hint: &str) -> Vec<Reader<'a>> {
        let Some(node) = self.get(key) else { return Vec::new() };
        let TomlValue::List(items) = &node.value else {
            self.wrong(key, node, &format!("a list of sections, [[{}]]: {hint}", self.full(key)));
            return Vec::new();
        };
        if items.len() > most {
            let message = format!("{} has {} entries", self.full(key), items.len());
            self.problem(key, message, format!("give at most {most}"));
        }
        let mut readers = Vec::new();
        for (index, item) in items.iter().take(most).enumerate() {
            match &item.value {
                TomlValue::Table(entries) => readers.push(Reader {
                    name: format!("{}[{index}]", self.full(key)),
                    place: Some(item.place),
                    entries,
                    asked: RefCell::default(),
                    problems: self.problems,
                }),
                _ => self.wrong(key, item, &format!("a section as each entry: {hint}")),
            }
        }
        readers
    }

    /// Whether a key is this word.
    pub fn is_word(&self, key: &'static str, word: &str) -> bool {
        self.get(key).is_some_and(|node| matches!(&node.value, TomlValue::Text(text) if text == word))
    }

    /// Text, or false for none.
    pub fn text_or_false(&self, key: &'static str) -> Option<Option<String>> {
        match self.get(key)?.value {
            TomlValue::Flag(false) => Some(None),
            _ => self.text(key).map(Some),
        }
    }

    pub fn text(&self, key: &'static str) -> Option<String> {
        let node = self.get(key)?;
        match &node.value {
            TomlValue::Text(text) if text.chars().any(char::is_control) => {
                self.wrong(key, node, "text of one line, without control characters");
                None
            }
            TomlValue::Text(text) if !text.trim().is_empty() => Some(text.clone()),
            TomlValue::Text(_) => {
                self.problem(key, format!("{} is empty", self.full(key)), "give some text, or remove the key");
                None
            }
            // What is written bare after --set is meant as text where text is due.
            TomlValue::Whole(_) | TomlValue::Number(_) | TomlValue::Flag(_) if node.place.source > 0 => {
                Some(self.problems.written(node.place))
            }
            _ => {
                self.wrong(key, node, "text in \"quotes\"");
                None
            }
        }
    }

    /// Text that must be there.
    pub fn required(&self, key: &'static str, hint: &str) -> String {
        if !self.has(key) {
            self.asked.borrow_mut().push(key);
            self.problem(key, format!("{} is missing", self.full(key)), hint);
        }
        self.text(key).unwrap_or_default()
    }

    pub fn flag(&self, key: &'static str) -> Option<bool> {
        let node = self.get(key)?;
        match node.value {
            TomlValue::Flag(flag) => Some(flag),
            _ => {
                self.wrong(key, node, "true or false");
                None
            }
        }
    }

    pub fn whole(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let node = self.get(key)?;
        let value = whole(node, &range);
        if value.is_none() {
            self.wrong(key, node, &whole_words(&range));
        }
        value
    }

    pub fn size(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<usize> {
        self.whole(key, range).and_then(|value| usize::try_from(value).ok())
    }

    /// A whole number, or false for none.
    pub fn whole_or_off(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<Option<u64>> {
        let node = self.get(key)?;
        match (&node.value, whole(node, &range)) {
            (TomlValue::Flag(false), _) => Some(None),
            (_, Some(value)) => Some(Some(value)),
            _ => {
                self.wrong(key, node, &format!("{}, or false for none", whole_words(&range)));
                None
            }
        }
    }

    pub fn number(&self, key: &'static str, range: Range) -> Option<f64> {
        let node = self.get(key)?;
        let value = number(node).filter(|value| range.contains(*value));
        if value.is_none() {
            self.wrong(key, node, range.words());
        }
        value
    }

    /// A number, or a word for one that is not fixed here.
    pub fn number_or_word(&self, key: &'static str, range: Range, word: &str) -> Option<Option<f64>> {
        let node = self.get(key)?;
        match &node.value {
            TomlValue::Text(text) if text == word => Some(None),
            TomlValue::Flag(false) if word == "false" => Some(None),
            _ => match number(node).filter(|value| range.contains(*value)) {
                Some(value) => Some(Some(value)),
                None => {
                    let word = if word == "false" { "false for none".to_owned() } else { format!("\"{word}\"") };
                    self.wrong(key, node, &format!("{}, or {word}", range.words()));
                    None
                }
            },
        }
    }

    /// A list of numbers.
    pub fn numbers(&self, key: &'static str, range: Range, most: usize) -> Option<Vec<f64>> {
        let node = self.get(key)?;
        let item = |node: &TomlNode| number(node).filter(|value| range.contains(*value));
        self.list(key, node, most, range.words(), item)
    }

    /// A list of whole numbers.
    pub fn sizes(&self, key: &'static str, range: RangeInclusive<u64>, most: usize) -> Option<Vec<usize>> {
        let node = self.get(key)?;
        let item = |node: &TomlNode| whole(node, &range).and_then(|value| usize::try_from(value).ok());
        self.list(key, node, most, &whole_words(&range), item)
    }

    fn list<T>(
        &self,
        key: &'static str,
        node: &TomlNode,
        most: usize,
        words: &str,
        item: impl Fn(&TomlNode) -> Option<T>,
    ) -> Option<Vec<T>> {
        let TomlValue::List(items) = &node.value else {
            self.wrong(key, node, &format!("a list, each entry {words}"));
            return None;
        };
        if items.len() > most {
            let message = format!("{} has {} entries", self.full(key), items.len());
            self.problem(key, message, format!("give at most {most}"));
            return None;
        }
        let mut values = Vec::with_capacity(items.len());
        for found in items {
            match item(found) {
                Some(value) => values.push(value),
                None => {
                    let message = format!("{} has an entry {}", self.full(key), self.problems.written(found.place));
                    self.problems.add(
                        Some(found.place),
                        Some(self.full(key)),
                        message,
                        format!("each entry is {words}"),
                    );
                    return None;
                }
            }
        }
        Some(values)
    }

    /// One of some words.
    pub fn choice<T: Clone>(&self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let node = self.get(key)?;
        let all = words.iter().map(|(word, _)| *word);
        let TomlValue::Text(text) = &node.value else {
            let all: Vec<String> = all.map(|word| format!("\"{word}\"")).collect();
            self.wrong(key, node, &format!("one of {}", all.join(", ")));
            return None;
        };
        let chosen = words.iter().find(|(word, _)| word == text).map(|(_, value)| value.clone());
        if chosen.is_none() {
            let message = format!("{} is {}", self.full(key), softdiff_data::quote::quote(text));
            self.problem(key, message, suggest::hint(text, all));
        }
        chosen
    }

    /// Refuses keys that have no meaning with the choice made; `owners` says with which choice each has one.
    pub fn refuse(&self, choice: &str, owners: &[(&'static str, &str)]) {
        for (key, owner) in owners {
            if self.asked.borrow().contains(key) || !self.has(key) {
                continue;
            }
            self.asked.borrow_mut().push(key);
            let hint = format!("remove it, or choose {owner}");
            let place = self.entries.iter().find(|entry| entry.key == *key).map(|entry| entry.key_place);
            let message = format!("{} has no meaning with {choice}", self.full(key));
            self.problems.add(place, Some(self.full(key)), message, hint);
        }
    }

    /// Refuses keys that were not asked for.
    pub fn finish(&self) {
        let asked = self.asked.borrow();
        for entry in self.entries.iter().filter(|entry| !asked.contains(&entry.key.as_str())) {
            let where_ = if self.name.is_empty() { "a recipe".to_owned() } else { format!("[{}]", self.name) };
            let what = if matches!(entry.node.value, TomlValue::Table(_)) { "section" } else { "key" };
            let message = format!("{where_} has no {what} {}", softdiff_data::quote::quote(&entry.key));
            let mut known: Vec<&str> = asked.iter().copied().collect();
            known.dedup();
            let hint = suggest::hint(&entry.key, known.iter().copied());
            self.problems.add(Some(entry.key_place), Some(self.full(&entry.key)), message, hint);
        }
    }
}

/// "a", "a or b", "a, b or c".
pub(super) fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}

fn number(node: &TomlNode) -> Option<f64> {
    match node.value {
        TomlValue::Number(value) => Some(value),
        TomlValue::Whole(value) => Some(value as f64),
        _ => None,
    }
}

/// A whole number, also one written as 1e6.
fn whole(node: &TomlNode, range: &RangeInclusive<u64>) -> Option<u64> {
    const EXACT: f64 = (1u64 << 53) as f64;
    let value = match node.value {
        TomlValue::Whole(value) => u64::try_from(value).ok()?,
        TomlValue::Number(value) if value.fract() == 0.0 && (0.0..=EXACT).contains(&value) => value as u64,
        _ => return None,
    };
    range.contains(&value).then_some(value)
}

pub(super) fn whole_words(range: &RangeInclusive<u64>) -> String {
    match (range.start(), range.end()) {
        (low, high) if *high == i64::MAX as u64 => format!("a whole number from {low} on"),
        (low, high) => format!("a whole number from {low} to {high}"),
    }
}
