//! What the opcodes build: tuples, lists, dictionaries and recorded calls.

use super::global::Global;
use super::machine::{Machine, PickleStep};
use super::value::{Id, PickleKey, PickleValue};

impl Machine<'_> {
    pub(super) fn tuple(&mut self, length: usize) -> PickleStep {
        let ids = self.pop_many(length)?;
        self.push_tuple(ids)
    }

    pub(super) fn push_tuple(&mut self, ids: Vec<Id>) -> PickleStep {
        self.charge(ids.len())?;
        self.push(PickleValue::Tuple(ids))
    }

    pub(super) fn append(&mut self, ids: Vec<Id>) -> PickleStep {
        self.charge(ids.len())?;
        let list = self.top()?;
        match self.value_mut(list) {
            Some(PickleValue::List(items)) => {
                items.extend(ids);
                Ok(())
            }
            _ => Err(self.not("a list", list)),
        }
    }

    pub(super) fn set_items(&mut self, ids: Vec<Id>) -> PickleStep {
        self.charge(ids.len())?;
        let dict = self.top()?;
        let (pairs, odd) = ids.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(self.operand("a value for every key", "a key alone"));
        }
        for &[key, value] in pairs {
            self.set_item(dict, key, value)?;
        }
        Ok(())
    }

    /// As in Python, a key written twice keeps its first place and its last value.
    fn set_item(&mut self, dict: Id, key: Id, value: Id) -> PickleStep {
        let name = match self.pickle.value(key) {
            PickleValue::Text(text) => PickleKey::Text(text.clone()),
            PickleValue::Int(value) => PickleKey::Int(*value),
            _ => return Err(self.not("a string or an integer as key", key)),
        };
        let Some(PickleValue::Dict(pairs)) = self.pickle.values.get_mut(dict.0 as usize) else {
            return Err(self.not("a dict", dict));
        };
        let position = *self.pickle.index.entry((dict, name)).or_insert(pairs.len());
        match pairs.get_mut(position) {
            Some(pair) => pair.1 = value,
            None => pairs.push((key, value)),
        }
        Ok(())
    }

    /// Records a call, and makes none.
    pub(super) fn reduce(&mut self) -> PickleStep {
        let arguments = self.pop()?;
        let callee = self.pop()?;
        let &PickleValue::Global(function) = self.pickle.value(callee) else {
            return Err(self.not("an allowed function", callee));
        };
        let PickleValue::Tuple(items) = self.pickle.value(arguments) else {
            return Err(self.not("a tuple of arguments", arguments));
        };
        match function {
            // It is filled by SETITEMS later, so it has to be a dictionary already.
            Global::OrderedDict if items.is_empty() => self.push(PickleValue::Dict(Vec::new())),
            Global::OrderedDict => Err(self.operand("OrderedDict without arguments", "arguments")),
            Global::Storage(_) => Err(self.operand("an allowed function", "a storage type")),
            _ => self.push(PickleValue::Call { function, arguments, state: None }),
        }
    }

    pub(super) fn build(&mut self) -> PickleStep {
        let given = self.pop()?;
        let object = self.top()?;
        match self.value_mut(object) {
            Some(PickleValue::Call { state, .. }) => {
                *state = Some(given);
                Ok(())
            }
            // Attributes of an OrderedDict (`_metadata`) carry no weights.
            Some(PickleValue::Dict(_)) => Ok(()),
            _ => Err(self.not("an object", object)),
        }
    }

    fn value_mut(&mut self, id: Id) -> Option<&mut PickleValue> {
        self.pickle.values.get_mut(id.0 as usize)
    }

    fn not(&self, expected: &'static str, found: Id) -> crate::import::ImportError {
        self.operand(expected, self.pickle.value(found).kind())
    }
}
