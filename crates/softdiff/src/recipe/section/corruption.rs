//! `[path.corruption]`: what happens to the image besides noise.

use super::UNLIMITED;
use super::composed::{self, CorruptionPart};
use crate::corruption::{
    CORRUPTIONS, Corruption, CorruptionEntry, CorruptionError, CorruptionSpec, ParameterKind, ParameterValue, Shape,
};
use crate::recipe::keys::{self, KeyInfo};
use crate::recipe::reader::{Range, Reader, either};
use crate::recipe::writer::TomlWriter;

/// `[path.corruption]`: `kind`, by default `"blur"`, with the parameters that the registry [`CORRUPTIONS`] lists for it;
/// or `"composed"`, with `[[path.corruption.parts]]`.
#[derive(Clone, Debug, PartialEq)]
pub enum CorruptionSection {
    /// One corruption.
    One(CorruptionSpec),
    /// Several, one after the other.
    Composed {
        /// In this order.
        parts: Vec<CorruptionPart>,
    },
}

impl Default for CorruptionSection {
    /// The paper's blur.
    fn default() -> Self {
        CorruptionSection::One(CorruptionSpec::default())
    }
}

const COMPOSED: &str = "composed";

/// The corruptions that a path can be made of.
fn entries() -> impl Iterator<Item = &'static CorruptionEntry> {
    CORRUPTIONS.iter().filter(|entry| entry.corrupts)
}

impl CorruptionSection {
    /// Its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            CorruptionSection::One(spec) => spec.name(),
            CorruptionSection::Composed { .. } => COMPOSED,
        }
    }

    /// The corruption, where it is a single one.
    pub fn spec(&self) -> Option<&CorruptionSpec> {
        match self {
            CorruptionSection::One(spec) => Some(spec),
            CorruptionSection::Composed { .. } => None,
        }
    }

    /// Whether nothing of the image is left at its end.
    pub fn erases(&self) -> bool {
        match self {
            CorruptionSection::One(spec) => spec.entry().erases,
            CorruptionSection::Composed { parts } => parts.iter().any(|part| part.corruption.erases()),
        }
    }

    /// The corruption for images of `shape`.
    pub fn build(&self, shape: Shape) -> Result<Box<dyn Corruption>, CorruptionError> {
        match self {
            CorruptionSection::One(spec) => spec.build(shape),
            CorruptionSection::Composed { parts } => composed::build(parts, shape),
        }
    }

    pub(in crate::recipe) fn read(r: &Reader) -> Self {
        let kinds: Vec<_> = entries().map(|entry| entry.name).chain([COMPOSED]).map(|name| (name, name)).collect();
        let kind = r.choice("kind", &kinds).unwrap_or("blur");
        let section = match entries().find(|entry| entry.name == kind) {
            Some(entry) => CorruptionSection::One(read_parameters(r, entry)),
            None => CorruptionSection::Composed { parts: composed::read(r) },
        };
        refuse_others(r, kind);
        r.finish();
        section
    }

    /// What its keys are.
    pub(in crate::recipe) fn describe() -> Vec<KeyInfo> {
        let kinds: Vec<&str> = entries().map(|entry| entry.name).chain([COMPOSED]).collect();
        let section = "path.corruption";
        let about = "which corruption; composed has [[path.corruption.parts]], one after the other";
        let expected = either(&kinds);
        let mut keys =
            vec![KeyInfo { section, name: "kind", only: vec![], default: "\"blur\"".to_owned(), expected, about }];
        for (entry, parameter) in entries().flat_map(|entry| entry.parameters.iter().map(move |p| (entry, p))) {
            let (default, expected) = match parameter.kind {
                ParameterKind::Pixels => ("\"auto\"".to_owned(), format!("{}, or auto", Range::Positive.words())),
                ParameterKind::Fraction => ("0.0".to_owned(), Range::BelowOne.words().to_owned()),
                ParameterKind::Word(words) => (format!("\"{}\"", words[0]), either(words)),
                ParameterKind::Seed { of, word } => ("0".to_owned(), format!("a whole number, with {of} {word}")),
                ParameterKind::File => (String::new(), "a file".to_owned()),
            };
            let (name, about, only) = (parameter.key, parameter.about, vec![entry.name]);
            keys.push(KeyInfo { section, name, only, default, expected, about });
        }
        keys
    }

    /// The section as text.
    pub fn to_toml(&self) -> String {
        let mut w = TomlWriter::default();
        self.write(&mut w);
        w.finish()
    }

    pub(in crate::recipe) fn write(&self, w: &mut TomlWriter) {
        w.section("path.corruption");
        self.write_keys(w);
    }

    /// The keys, under whatever section was begun.
    pub(super) fn write_keys(&self, w: &mut TomlWriter) {
        w.value("kind", self.kind());
        match self {
            CorruptionSection::One(spec) => write_parameters(spec, w),
            CorruptionSection::Composed { parts } => composed::write(parts, w),
        }
    }
}

fn read_parameters(r: &Reader, entry: &'static CorruptionEntry) -> CorruptionSpec {
    let mut spec = CorruptionSpec::of(entry);
    for parameter in entry.parameters {
        let key = parameter.key;
        let value = match parameter.kind {
            ParameterKind::Pixels => r.number_or_word(key, Range::Positive, "auto").map(ParameterValue::Pixels),
            ParameterKind::Fraction => r.number(key, Range::BelowOne).map(ParameterValue::Fraction),
            ParameterKind::Word(words) => {
                let words: Vec<_> = words.iter().map(|word| (*word, *word)).collect();
                r.choice(key, &words).map(ParameterValue::Word)
            }
            ParameterKind::Seed { of, word } if spec.value(of) == Some(&ParameterValue::Word(word)) => {
                r.whole(key, 0..=UNLIMITED).map(ParameterValue::Seed)
            }
            ParameterKind::Seed { .. } => None,
            ParameterKind::File => Some(ParameterValue::File(r.required(key, parameter.about))),
        };
        if let Some(value) = value {
            spec = spec.with(key, value);
        }
    }
    spec
}

/// Refuses the parameters of other corruptions.
fn refuse_others(r: &Reader, kind: &str) {
    let mut owners = vec![("parts", vec![COMPOSED], String::new())];
    for (entry, parameter) in entries().flat_map(|entry| entry.parameters.iter().map(move |p| (entry, p))) {
        let condition = match parameter.kind {
            ParameterKind::Seed { of, word } => format!(" with {of} {word}"),
            _ => String::new(),
        };
        keys::own(&mut owners, parameter.key, entry.name, condition);
    }
    keys::refuse_others(r, "kind", kind, &owners);
}

fn write_parameters(spec: &CorruptionSpec, w: &mut TomlWriter) {
    for (parameter, value) in spec.parameters() {
        let key = parameter.key;
        match (parameter.kind, value) {
            (ParameterKind::Seed { of, word }, _) if spec.value(of) != Some(&ParameterValue::Word(word)) => {}
            (_, ParameterValue::Pixels(None)) => w.value(key, "auto"),
            (_, ParameterValue::Pixels(Some(pixels))) => w.value(key, pixels),
            (_, ParameterValue::Fraction(fraction)) => w.value(key, fraction),
            (_, ParameterValue::Word(word)) => w.value(key, *word),
            (_, ParameterValue::Seed(seed)) => w.value(key, seed),
            (_, ParameterValue::File(file)) => w.value(key, file),
        }
    }
}
