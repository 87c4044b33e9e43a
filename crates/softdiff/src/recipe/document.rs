//! A recipe's text as a tree whose every part knows its place, with `--set`s laid over it.

use super::problem::{FoundProblem, RecipeError, RecipeProblem};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Recipes above this size are refused.
pub const MAX_BYTES: usize = 1 << 20;
/// Tables and lists inside each other beyond this are refused.
const DEEPEST: usize = 8;

/// A text that places refer to.
#[derive(Clone, Debug)]
pub(super) struct RecipeText {
    /// The file, or `--set`.
    pub name: String,
    pub text: String,
    /// Where its lines end: a recipe with many problems is not searched for each of them.
    pub newlines: Vec<usize>,
}

impl RecipeText {
    fn new(name: &str, text: &str) -> RecipeText {
        let newlines = text.match_indices('\n').map(|(at, _)| at).collect();
        RecipeText { name: name.to_owned(), text: text.to_owned(), newlines }
    }
}

/// A part of a source, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TextSpan {
    pub source: usize,
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Debug)]
pub(super) struct TomlNode {
    pub value: TomlValue,
    pub place: TextSpan,
}

#[derive(Clone, Debug)]
pub(super) enum TomlValue {
    Text(String),
    Whole(i128),
    Number(f64),
    Flag(bool),
    Date,
    List(Vec<TomlNode>),
    Table(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: String,
    pub key_place: TextSpan,
    pub node: TomlNode,
}

/// A whole recipe.
#[derive(Debug)]
pub(super) struct Document {
    pub sources: Vec<RecipeText>,
    pub entries: Vec<Entry>,
}

impl Document {
    /// Reads a text and lays `a.b=c`s over it, one after the other.
    pub fn parse(text: &str, origin: &str, sets: &[String]) -> Result<Document, RecipeError> {
        if text.len() > MAX_BYTES {
            let message = format!("{} bytes are more than the {MAX_BYTES} a recipe may have", text.len());
            return Err(RecipeError::whole(origin, message, "is this a recipe?"));
        }
        let mut sources = vec![RecipeText::new(origin, text)];
        let fail = |sources: &[RecipeText], found: FoundProblem| {
            let problems: Vec<RecipeProblem> = vec![found.located(sources)];
            RecipeError { origin: origin.to_owned(), problems }
        };
        nesting(text, 0).map_err(|found| fail(&sources, found))?;
        let parsed = DeTable::parse(text).map_err(|error| fail(&sources, syntax(&error, 0, 0)))?;
        let entries = table(parsed.into_inner(), 0, 0, 0).map_err(|found| fail(&sources, found))?;
        let mut document = Document { sources: Vec::new(), entries };
        for (index, set) in sets.iter().enumerate() {
            sources.push(RecipeText::new("--set", set));
            document.set(set, index + 1).map_err(|found| fail(&sources, found))?;
        }
        document.sources = sources;
        Ok(document)
    }

    /// `a.b=c` sets, `a.b=` removes.
    fn set(&mut self, set: &str, source: usize) -> Result<(), FoundProblem> {
        let whole = TextSpan { source, start: 0, end: set.len() };
        let bad = |place, message: &str| FoundProblem {
            place: Some(place),
            key: None,
            message: message.to_owned(),
            hint: Some("write it as --set section.key=value, such as --set train.batch=64".to_owned()),
        };
        if set.len() > MAX_BYTES {
            let message = format!("{} bytes are more than the {MAX_BYTES} a value may have", set.len());
            return Err(FoundProblem {
                place: None,
                key: None,
                message,
                hint: Some("give a shorter --set".to_owned()),
            });
        }
        let (path, value) = set.split_once('=').ok_or_else(|| bad(whole, "there is no '=' in it"))?;
        let keys: Vec<&str> = path.split('.').map(str::trim).collect();
        let path_place = TextSpan { end: path.len(), ..whole };
        if keys.iter().any(|key| key.is_empty()) || keys.len() > DEEPEST {
            return Err(bad(path_place, "what stands before the '=' is no key"));
        }
        let node = set_value(value, path.len() + 1, source)?;
        let mut entries = &mut self.entries;
        for (depth, key) in keys.iter().enumerate() {
            let position = entries.iter().position(|entry| entry.key == *key);
            if depth + 1 == keys.len() {
                match (position, node) {
                    (Some(position), Some(node)) => entries[position] = entry(key, path_place, node),
                    (Some(position), None) => drop(entries.remove(position)),
                    (None, Some(node)) => entries.push(entry(key, path_place, node)),
                    (None, None) => {}
                }
                return Ok(());
            }
            let position = position.unwrap_or_else(|| {
                entries.push(entry(
                    key,
                    path_place,
                    TomlNode { value: TomlValue::Table(Vec::new()), place: path_place },
                ));
                entries.len() - 1
            });
            match &mut entries[position].node.value {
                TomlValue::Table(inner) => entries = inner,
                _ => {
                    let name = keys[..=depth].join(".");
                    return Err(bad(path_place, &format!("{name} is a value and has no keys of its own")));
                }
            }
        }
        Ok(())
    }
}

fn entry(key: &str, key_place: TextSpan, node: TomlNode) -> Entry {
    Entry { key: key.to_owned(), key_place, node }
}

/// The value of a `--set`: TOML, or the text itself where quotes would be a burden. None removes.
fn set_value(value: &str, offset: usize, source: usize) -> Result<Option<TomlNode>, FoundProblem> {
    let text = value.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let offset = offset + (value.len() - value.trim_start().len());
    let place = TextSpan { source, start: offset, end: offset + text.len() };
    nesting(text, source)?;
    let plain = || TomlNode { value: TomlValue::Text(text.to_owned()), place };
    match DeValue::parse(text) {
        // A bare date is more likely the name of a folder.
        Ok(parsed) if matches!(parsed.get_ref(), DeValue::Datetime(_)) => Ok(Some(plain())),
        Ok(parsed) => node(parsed, source, offset, 0).map(Some),
        Err(error) if text.starts_with(['[', '{', '"', '\'']) => Err(syntax(&error, source, offset)),
        Err(_) => Ok(Some(plain())),
    }
}

/// The parser bounds nesting, but dotted keys within inline tables multiply its bounds, and freeing what it built
/// recurses; so text with far more brackets or dots in a row than any recipe has is not parsed.
fn nesting(text: &str, source: usize) -> Result<(), FoundProblem> {
    const MOST: usize = 64;
    let (mut open, mut dots) = (0usize, 0usize);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'{' | b'[' => open += 1,
            b'}' | b']' => open = open.saturating_sub(1),
            b'.' => dots += 1,
            b'\n' | b'=' | b',' => dots = 0,
            _ => {}
        }
        if open > MOST || dots > MOST {
            return Err(too_deep(TextSpan { source, start: index, end: index + 1 }));
        }
    }
    Ok(())
}

fn too_deep(place: TextSpan) -> FoundProblem {
    let hint = Some(format!("a recipe has sections with keys; nothing in it is more than {DEEPEST} deep"));
    FoundProblem { place: Some(place), key: None, message: "this is nested too deeply".to_owned(), hint }
}

fn syntax(error: &toml::de::Error, source: usize, offset: usize) -> FoundProblem {
    let place = error.span().map(|span| TextSpan { source, start: span.start + offset, end: span.end + offset });
    let hint = match error.message() {
        "duplicate key" => "it stands further up already: keep one of the two",
        _ => "recipes are TOML: [section], then key = value, text in \"quotes\"",
    };
    FoundProblem { place, key: None, message: error.message().to_owned(), hint: Some(hint.to_owned()) }
}

fn place(span: std::ops::Range<usize>, source: usize, offset: usize) -> TextSpan {
    TextSpan { source, start: span.start + offset, end: span.end + offset }
}

fn table(parsed: DeTable<'_>, source: usize, offset: usize, depth: usize) -> Result<Vec<Entry>, FoundProblem> {
    let mut entries = Vec::with_capacity(parsed.len());
    for (key, value) in parsed {
        let key_place = place(key.span(), source, offset);
        let node = node(value, source, offset, depth + 1)?;
        entries.push(Entry { key: key.into_inner().into_owned(), key_place, node });
    }
    Ok(entries)
}

fn node(value: Spanned<DeValue<'_>>, source: usize, offset: usize, depth: usize) -> Result<TomlNode, FoundProblem> {
    let place = place(value.span(), source, offset);
    if depth > DEEPEST {
        return Err(too_deep(place));
    }
    let value = match value.into_inner() {
        DeValue::String(text) => TomlValue::Text(text.into_owned()),
        // Too long for any range there is.
        DeValue::Integer(number) => {
            let (negative, digits) = (number.as_str().starts_with('-'), number.as_str());
            let beyond = if negative { i128::MIN } else { i128::MAX };
            TomlValue::Whole(i128::from_str_radix(digits, number.radix()).unwrap_or(beyond))
        }
        DeValue::Float(number) => TomlValue::Number(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => TomlValue::Flag(flag),
        DeValue::Datetime(_) => TomlValue::Date,
        DeValue::Array(list) => {
            let items: Result<Vec<TomlNode>, FoundProblem> =
                list.into_iter().map(|item| node(item, source, offset, depth + 1)).collect();
            TomlValue::List(items?)
        }
        DeValue::Table(inner) => TomlValue::Table(table(inner, source, offset, depth)?),
    };
    Ok(TomlNode { value, place })
}
