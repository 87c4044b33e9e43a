//! The keys of a recipe, each declared once: name, type, default, what it may be, what it means. Reading, writing and the
//! list that `softdiff recipe keys` prints follow from the declaration.
//!
//! [`section!`] declares a section whose keys always have a meaning, [`section_by!`] one whose keys depend on its kind.

use super::reader::{Range, Reader, either, whole_words};
use super::writer::{ToToml, TomlWriter};
use std::ops::RangeInclusive;

/// A key of a recipe.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyInfo {
    /// Its section, such as `train`.
    pub section: &'static str,
    /// Its name.
    pub name: &'static str,
    /// With which kinds it has a meaning, such as `fitted`; empty for all.
    pub only: Vec<&'static str>,
    /// Its default as TOML; empty where it must be given.
    pub default: String,
    /// What it may be.
    pub expected: String,
    /// What it means.
    pub about: &'static str,
}

/// How a key is read, written and described.
pub(super) trait RecipeKey<T> {
    /// The value, or `usual` where the key is not given or wrong, which is then noted.
    fn read(&self, r: &Reader, key: &'static str, usual: T) -> T;
    /// Writes the key.
    fn write(&self, w: &mut TomlWriter, key: &str, value: &T);
    /// What it may be, in words.
    fn expected(&self) -> String;
    /// The keys that belong to this one, each with the further choice that it needs, such as ` with alpha cosine`.
    fn parts(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
}

/// A key whose value is itself TOML: how it is read, and what it may be.
macro_rules! plain_keys {
    ($($(#[$meta:meta])* $name:ident($($part:ident: $part_type:ty),*) -> $value:ty, |$self:ident, $r:ident, $key:ident| $read:expr, $expected:expr;)*) => {
        $(
            $(#[$meta])*
            pub(super) struct $name($(pub $part_type),*);

            impl RecipeKey<$value> for $name {
                fn read(&self, $r: &Reader, $key: &'static str, usual: $value) -> $value {
                    let $self = self;
                    $read.unwrap_or(usual)
                }
                fn write(&self, w: &mut TomlWriter, key: &str, value: &$value) {
                    w.line(key, value.to_toml());
                }
                fn expected(&self) -> String {
                    let $self = self;
                    let _ = $self;
                    $expected
                }
            }
        )*
    };
}

plain_keys! {
    /// A whole number.
    Whole(range: RangeInclusive<u64>) -> u64, |k, r, key| r.whole(key, k.0.clone()), whole_words(&k.0);
    /// A whole number that counts things in memory.
    Size(range: RangeInclusive<u64>) -> usize, |k, r, key| r.size(key, k.0.clone()), whole_words(&k.0);
    /// A whole number, or false for none.
    WholeOrOff(range: RangeInclusive<u64>) -> Option<u64>, |k, r, key| r.whole_or_off(key, k.0.clone()),
        format!("{}, or false", whole_words(&k.0));
    /// A whole number that counts things in memory, or false for none.
    SizeOrOff(range: RangeInclusive<u64>) -> Option<usize>,
        |k, r, key| r.whole_or_off(key, k.0.clone()).map(|value| value.and_then(|value| usize::try_from(value).ok())),
        format!("{}, or false", whole_words(&k.0));
    /// A number.
    Number(range: Range) -> f64, |k, r, key| r.number(key, k.0), k.0.words().to_owned();
    /// A number, or false for none.
    NumberOrOff(range: Range) -> Option<f64>, |k, r, key| r.number_or_word(key, k.0, "false"),
        format!("{}, or false", k.0.words());
    /// A list of numbers, at most so many.
    Numbers(range: Range, most: usize) -> Vec<f64>, |k, r, key| r.numbers(key, k.0, k.1),
        format!("a list of at most {}, each {}", k.1, k.0.words());
    /// A list of whole numbers, at most so many.
    Sizes(range: RangeInclusive<u64>, most: usize) -> Vec<usize>, |k, r, key| r.sizes(key, k.0.clone(), k.1),
        format!("a list of at most {}, each {}", k.1, whole_words(&k.0));
    /// True or false.
    Flag() -> bool, |_k, r, key| r.flag(key), "true or false".to_owned();
    /// Text.
    Text() -> String, |_k, r, key| r.text(key), "text".to_owned();
    /// Text, or false for none.
    TextOrOff() -> Option<String>, |_k, r, key| r.text_or_false(key), "text, or false".to_owned();
    /// Text that must be given; the hint says what.
    Required(hint: &'static str) -> String, |k, r, key| Some(r.required(key, k.0)), k.0.to_owned();
}

/// A list of whole numbers, at most so many, or "auto".
pub(super) struct SizesOrAuto(pub RangeInclusive<u64>, pub usize);

impl RecipeKey<Option<Vec<usize>>> for SizesOrAuto {
    fn read(&self, r: &Reader, key: &'static str, usual: Option<Vec<usize>>) -> Option<Vec<usize>> {
        if r.peek(key) == Some(AUTO) {
            return r.text(key).and(None);
        }
        r.sizes(key, self.0.clone(), self.1).or(usual)
    }
    fn write(&self, w: &mut TomlWriter, key: &str, value: &Option<Vec<usize>>) {
        match value {
            Some(sizes) => w.line(key, sizes.to_toml()),
            None => w.value(key, AUTO),
        }
    }
    fn expected(&self) -> String {
        format!("\"{AUTO}\", or {}", Sizes(self.0.clone(), self.1).expected())
    }
}

const AUTO: &str = "auto";

/// One of some words.
pub(super) struct Word<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Clone + PartialEq> RecipeKey<T> for Word<T> {
    fn read(&self, r: &Reader, key: &'static str, usual: T) -> T {
        r.choice(key, self.0).unwrap_or(usual)
    }
    fn write(&self, w: &mut TomlWriter, key: &str, value: &T) {
        w.word(key, self.0, value);
    }
    fn expected(&self) -> String {
        either(&self.0.iter().map(|(word, _)| *word).collect::<Vec<_>>())
    }
}

/// Declares a section whose keys always have a meaning. After the defaults come the things they depend on. A key marked
/// `unless_default` is written only where it differs: runs begun before there was this key keep their identity.
macro_rules! section {
    ($(#[$meta:meta])* pub struct $name:ident in $table:literal ($($context:ident: $context_type:ty),*) {
        $($field:ident: $type:ty = $default:expr, $key:expr, $about:literal $(, $unless_default:ident)?;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(#[doc = $about] pub $field: $type,)*
        }

        impl $name {
            /// Every key with its default.
            #[allow(clippy::redundant_field_names)]
            pub(in crate::recipe) fn defaults($($context: $context_type),*) -> Self {
                $name { $($field: $default,)* }
            }

            /// The keys of a table, the others as in `usual`.
            pub(in crate::recipe) fn read_keys(r: &crate::recipe::reader::Reader, usual: Self) -> Self {
                use crate::recipe::keys::RecipeKey;
                $name { $($field: $key.read(r, stringify!($field), usual.$field),)* }
            }

            /// The section but for the keys named.
            pub(in crate::recipe) fn write_keys(&self, w: &mut crate::recipe::writer::TomlWriter, without: &[&str]) {
                use crate::recipe::keys::RecipeKey;
                w.section($table);
                $(
                    let left_out = false $(|| crate::recipe::keys::section!(@ $unless_default, self.$field == $default))?;
                    if !left_out && !without.contains(&stringify!($field)) {
                        $key.write(w, stringify!($field), &self.$field);
                    }
                )*
            }

            /// What its keys are; `usual` has their defaults.
            pub(in crate::recipe) fn describe(usual: &Self) -> Vec<crate::recipe::keys::KeyInfo> {
                use crate::recipe::keys::{RecipeKey, default_text};
                vec![$(crate::recipe::keys::KeyInfo {
                    section: $table,
                    name: stringify!($field),
                    only: Vec::new(),
                    default: default_text(&$key, stringify!($field), &usual.$field),
                    expected: $key.expected(),
                    about: $about,
                },)*]
            }
        }
    };
    (@ unless_default, $same:expr) => { $same };
}

/// Declares a section whose keys depend on the word of one of them, such as `kind`.
macro_rules! section_by {
    ($(#[$meta:meta])* pub enum $name:ident in $table:literal by $selector:literal ($($context:ident: $context_type:ty),*) {
        $($(#[$variant_meta:meta])* $variant:ident = $word:literal $({
            $($field:ident: $type:ty = $default:expr, $key:expr, $about:literal;)*
        })?,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[$variant_meta])* $variant $({ $(#[doc = $about] $field: $type,)* })?,)*
        }

        impl $name {
            /// The names of all kinds.
            pub const KINDS: &'static [&'static str] = &[$($word),*];

            /// Its kind.
            pub fn kind(&self) -> &'static str {
                match self {
                    $($name::$variant $({ $($field: _,)* })? => $word,)*
                }
            }

            /// The keys of the kind that is given, or of `usual`; those of other kinds are refused.
            pub(in crate::recipe) fn read_keys(
                r: &crate::recipe::reader::Reader,
                usual: &'static str,
                $($context: $context_type),*
            ) -> Self {
                use crate::recipe::keys::RecipeKey;
                let kinds: Vec<_> = Self::KINDS.iter().map(|kind| (*kind, *kind)).collect();
                let kind = r.choice($selector, &kinds).unwrap_or(usual);
                let section = match kind {
                    $($word => $name::$variant $({ $($field: $key.read(r, stringify!($field), $default),)* })?,)*
                    _ => unreachable!("a choice is one of the kinds"),
                };
                crate::recipe::keys::refuse_others(r, $selector, kind, &Self::owners());
                section
            }

            /// The section.
            pub(in crate::recipe) fn write_keys(&self, w: &mut crate::recipe::writer::TomlWriter) {
                #[allow(unused_imports)]
                use crate::recipe::keys::RecipeKey;
                w.section($table);
                w.value($selector, self.kind());
                match self {
                    $($name::$variant $({ $($field,)* })? => { $($($key.write(w, stringify!($field), $field);)*)? })*
                }
            }

            /// Every key with the kinds it belongs to, and the further choice that it needs.
            fn owners() -> crate::recipe::keys::Owners {
                use crate::recipe::keys::RecipeKey;
                let mut owners = Vec::new();
                $($($(crate::recipe::keys::own_parts(&mut owners, stringify!($field), $word, $key.parts());)*)?)*
                owners
            }

            /// What its keys are.
            pub(in crate::recipe) fn describe($($context: $context_type),*) -> Vec<crate::recipe::keys::KeyInfo> {
                use crate::recipe::keys::{RecipeKey, KeyInfo, default_text};
                let expected = crate::recipe::reader::either(Self::KINDS);
                let mut all = vec![KeyInfo {
                    section: $table,
                    name: $selector,
                    only: Vec::new(),
                    default: String::new(),
                    expected,
                    about: "which of these it is",
                }];
                $($($(all.push(KeyInfo {
                    section: $table,
                    name: stringify!($field),
                    only: vec![$word],
                    default: default_text(&$key, stringify!($field), &$default),
                    expected: $key.expected(),
                    about: $about,
                });)*)?)*
                all
            }
        }
    };
}

pub(super) use {section, section_by};

/// Every key of a recipe, section by section; keys that several kinds have alike are one.
pub fn all() -> Vec<KeyInfo> {
    use super::section::*;
    let sample = SampleSection::defaults("momentum", Weights::Ema(0.999));
    let sections = [
        DataSection::describe(&DataSection::defaults()),
        PathSection::describe(None),
        CorruptionSection::describe(),
        ScheduleSection::describe(&ScheduleSection::defaults()),
        PriorSection::describe(),
        NetworkSection::describe(&NetworkSection::preset(NetworkPreset::NcsnppCifar10)),
        ObjectiveSection::describe(&ObjectiveSection::defaults()),
        TrainSection::describe(&TrainSection::defaults()),
        CheckpointSection::describe(&CheckpointSection::defaults()),
        PreviewSection::describe(&PreviewSection::defaults(sample.sampler.clone())),
        SampleSection::describe(&sample),
    ];
    let mut keys: Vec<KeyInfo> = Vec::new();
    for mut key in sections.into_iter().flatten() {
        match keys.iter_mut().find(|known| same_but_for_kind(known, &key)) {
            Some(known) => known.only.append(&mut key.only),
            None => keys.push(key),
        }
    }
    keys
}

fn same_but_for_kind(one: &KeyInfo, other: &KeyInfo) -> bool {
    let content = |key: &KeyInfo| (key.section, key.name, key.default.clone(), key.expected.clone(), key.about);
    content(one) == content(other)
}

/// A default as it would be written; empty for text that must be given.
pub(super) fn default_text<T>(key: &impl RecipeKey<T>, name: &str, value: &T) -> String {
    let mut w = TomlWriter::default();
    key.write(&mut w, name, value);
    let text = w.finish();
    let text = text.split_once(" = ").map_or("", |(_, value)| value).lines().next().unwrap_or("").to_owned();
    if text == "\"\"" { String::new() } else { text }
}

/// Keys with the kinds that have them, and the further choice that they need.
pub(super) type Owners = Vec<(&'static str, Vec<&'static str>, String)>;

/// Notes that a kind has a key.
pub(super) fn own(owners: &mut Owners, key: &'static str, kind: &'static str, condition: String) {
    match owners.iter_mut().find(|(known, ..)| *known == key) {
        Some((_, kinds, _)) => kinds.push(kind),
        None => owners.push((key, vec![kind], condition)),
    }
}

/// Notes that a kind has a key, or the parts of one.
pub(super) fn own_parts(
    owners: &mut Owners,
    key: &'static str,
    kind: &'static str,
    parts: &'static [(&'static str, &'static str)],
) {
    if parts.is_empty() {
        own(owners, key, kind, String::new());
    }
    parts.iter().for_each(|(key, condition)| own(owners, key, kind, (*condition).to_owned()));
}

/// Refuses the keys of other kinds.
pub(super) fn refuse_others(r: &Reader, selector: &str, kind: &str, owners: &Owners) {
    let words = owners.iter().map(|(key, kinds, condition)| (*key, format!("{selector} {}{condition}", either(kinds))));
    let words: Vec<(&'static str, String)> = words.collect();
    let words: Vec<(&'static str, &str)> = words.iter().map(|(key, owner)| (*key, owner.as_str())).collect();
    r.refuse(&format!("{selector} \"{kind}\""), &words);
}
