//! Walking the values of a pickle: each step checks the kind and knows, for errors, where it stands.

use super::value::{Id, Pickle, PickleKey, PickleValue};
use crate::import::ImportError;
use softdiff_data::quote::quote;

/// A value and its place, such as `optimizer.param_groups[0].lr`.
#[derive(Clone)]
pub struct PickleNode<'a> {
    pickle: &'a Pickle,
    id: Id,
    place: String,
}

impl Pickle {
    /// The outermost value.
    pub fn root(&self) -> PickleNode<'_> {
        PickleNode { pickle: self, id: self.root, place: String::new() }
    }
}

impl<'a> PickleNode<'a> {
    /// The value itself.
    pub fn value(&self) -> &'a PickleValue {
        self.pickle.value(self.id)
    }

    /// Where the value stands.
    pub fn place(&self) -> String {
        if self.place.is_empty() { "the checkpoint".into() } else { self.place.clone() }
    }

    /// Whether the value is `None`.
    pub fn is_none(&self) -> bool {
        matches!(self.value(), PickleValue::None)
    }

    /// Another value of the same pickle, in the same place.
    pub fn at(&self, id: Id) -> PickleNode<'a> {
        PickleNode { pickle: self.pickle, id, place: self.place.clone() }
    }

    fn child(&self, id: Id, place: String) -> PickleNode<'a> {
        PickleNode { pickle: self.pickle, id, place }
    }

    fn named(&self, id: Id, name: &str) -> PickleNode<'a> {
        let dot = if self.place.is_empty() { "" } else { "." };
        // Names that need no quotes are shown bare: `optimizer.state`.
        let plain = name.len() <= 100 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte));
        let name = if plain { name.to_string() } else { quote(name) };
        self.child(id, format!("{}{dot}{name}", self.place))
    }

    /// The error for a value that is not what was `expected`.
    pub fn wrong(&self, expected: &'static str) -> ImportError {
        ImportError::WrongType { place: self.place(), expected, found: self.value().kind() }
    }

    /// The value of a key that must be there.
    pub fn get(&self, key: &str) -> Result<PickleNode<'a>, ImportError> {
        self.find(key)?.ok_or_else(|| ImportError::MissingKey { place: self.place(), key: quote(key) })
    }

    /// The value of a key that may be there.
    pub fn find(&self, key: &str) -> Result<Option<PickleNode<'a>>, ImportError> {
        self.pairs()?;
        Ok(self.pickle.lookup(self.id, PickleKey::Text(key.into())).map(|id| self.named(id, key)))
    }

    /// The value of an integer key that may be there.
    pub fn find_integer(&self, key: i64) -> Result<Option<PickleNode<'a>>, ImportError> {
        self.pairs()?;
        Ok(self.pickle.lookup(self.id, PickleKey::Int(key)).map(|id| self.child(id, format!("{}[{key}]", self.place))))
    }

    fn pairs(&self) -> Result<&'a [(Id, Id)], ImportError> {
        match self.value() {
            PickleValue::Dict(pairs) => Ok(pairs),
            _ => Err(self.wrong("a dict")),
        }
    }

    /// The number of entries of a dictionary.
    pub fn entry_count(&self) -> Result<usize, ImportError> {
        Ok(self.pairs()?.len())
    }

    /// The entries of a dictionary whose keys are strings.
    pub fn entries(&self) -> Result<impl Iterator<Item = Result<(&'a str, PickleNode<'a>), ImportError>>, ImportError> {
        Ok(self.pairs()?.iter().map(|&(key, value)| {
            let key = self.at(key).text()?;
            Ok((key, self.named(value, key)))
        }))
    }

    /// The items of a list or a tuple.
    pub fn items(&self) -> Result<impl ExactSizeIterator<Item = PickleNode<'a>>, ImportError> {
        match self.value() {
            PickleValue::List(ids) | PickleValue::Tuple(ids) => {
                Ok(ids.iter().enumerate().map(|(index, &id)| self.child(id, format!("{}[{index}]", self.place))))
            }
            _ => Err(self.wrong("a list or a tuple")),
        }
    }

    /// The items of a tuple whose length is known, in the same place.
    pub fn tuple<const N: usize>(&self, expected: &'static str) -> Result<[PickleNode<'a>; N], ImportError> {
        match self.value() {
            PickleValue::Tuple(ids) if ids.len() >= N => {
                let first = ids.first_chunk::<N>().ok_or_else(|| self.wrong(expected))?;
                Ok(first.map(|id| self.at(id)))
            }
            _ => Err(self.wrong(expected)),
        }
    }

    /// A string.
    pub fn text(&self) -> Result<&'a str, ImportError> {
        match self.value() {
            PickleValue::Text(text) => Ok(text),
            _ => Err(self.wrong("a string")),
        }
    }

    /// An integer.
    pub fn integer(&self) -> Result<i64, ImportError> {
        match self.value() {
            PickleValue::Int(value) => Ok(*value),
            _ => Err(self.wrong("an integer")),
        }
    }
}
