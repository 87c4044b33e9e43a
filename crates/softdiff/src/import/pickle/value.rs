//! What a pickle contains, as data.
//!
//! Values live in one flat list and refer to each other by index. Sharing through the memo is therefore free and can be
//! followed but never copied, cycles cannot leak, and dropping is one loop over the list whatever the nesting.

use super::global::Global;
use std::collections::HashMap;
use std::rc::Rc;

/// The index of a value in its pickle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(pub(super) u32);

/// One value; containers hold the indices of their items.
#[derive(Clone, Debug)]
pub enum PickleValue {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer of at most 64 bits.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Text(Rc<str>),
    /// A tuple.
    Tuple(Vec<Id>),
    /// A list.
    List(Vec<Id>),
    /// A dictionary, in the order of first insertion.
    Dict(Vec<(Id, Id)>),
    /// A function or class of the fixed list.
    Global(Global),
    /// A function with its argument tuple, recorded and not called, and the state that `BUILD` gave it.
    Call {
        /// What would have been called.
        function: Global,
        /// A tuple.
        arguments: Id,
        /// The operand of `BUILD`.
        state: Option<Id>,
    },
    /// Something stored outside the pickle, by its description.
    Persistent(Id),
}

impl PickleValue {
    /// The kind of the value as error messages name it.
    pub fn kind(&self) -> &'static str {
        match self {
            PickleValue::None => "None",
            PickleValue::Bool(_) => "a bool",
            PickleValue::Int(_) => "an integer",
            PickleValue::Float(_) => "a float",
            PickleValue::Text(_) => "a string",
            PickleValue::Tuple(_) => "a tuple",
            PickleValue::List(_) => "a list",
            PickleValue::Dict(_) => "a dict",
            PickleValue::Global(_) => "a global",
            PickleValue::Call { function: Global::RebuildTensor | Global::RebuildParameter, .. } => "a tensor",
            PickleValue::Call { .. } => "an object",
            PickleValue::Persistent(_) => "a storage",
        }
    }
}

/// A dictionary key; other kinds of keys are refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PickleKey {
    /// A string.
    Text(Rc<str>),
    /// An integer.
    Int(i64),
}

/// Every value of a pickle.
#[derive(Debug)]
pub struct Pickle {
    pub(super) values: Vec<PickleValue>,
    /// Where in its dictionary a key stands: one index for all dictionaries, so that lookups stay fast in hostile ones.
    pub(super) index: HashMap<(Id, PickleKey), usize>,
    pub(super) root: Id,
}

impl Pickle {
    /// The value at an index.
    pub fn value(&self, id: Id) -> &PickleValue {
        self.values.get(id.0 as usize).unwrap_or(&PickleValue::None)
    }

    /// The value of `key` in the dictionary `dict`.
    pub fn lookup(&self, dict: Id, key: PickleKey) -> Option<Id> {
        let position = *self.index.get(&(dict, key))?;
        match self.value(dict) {
            PickleValue::Dict(pairs) => pairs.get(position).map(|&(_, value)| value),
            _ => None,
        }
    }
}
