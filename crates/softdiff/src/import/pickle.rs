//! Python's pickle, protocol 2, read as data: an interpreter that can build values and nothing else.
//!
//! It knows the opcodes that `torch.save` writes. `REDUCE` records a call instead of making it, and the callee must be on
//! a fixed list ([`Global`]). Everything else is refused by name.

mod construct;
mod global;
mod machine;
mod node;
mod opcode;
mod value;

pub use global::Global;
pub use node::PickleNode;
pub use value::{Id, Pickle, PickleKey, PickleValue};

use super::ImportError;

/// The longest pickle: a full NCSN++ checkpoint with its optimizer has a quarter of a megabyte.
pub const MAX_BYTES: usize = 16 << 20;
/// The most opcodes: that checkpoint has some 100 000.
pub const MAX_OPCODES: u64 = 1 << 22;
/// The most values, and items of containers, all together: that checkpoint has some 100 000.
pub const MAX_ITEMS: u64 = 1 << 19;
/// The most memo slots.
pub const MAX_MEMO: usize = 1 << 19;
/// The most open marks: torch needs six.
pub const MAX_MARKS: usize = 64;
/// The longest string. Short, because a shared string can be hashed as a key again and again.
pub const MAX_TEXT: u32 = 1 << 10;

/// Reads a pickle.
pub fn read(bytes: &[u8]) -> Result<Pickle, ImportError> {
    if bytes.len() > MAX_BYTES {
        return Err(ImportError::PickleLimit { offset: 0, what: "bytes", limit: MAX_BYTES as u64 });
    }
    let (pickle, end) = machine::Machine::new(bytes).run()?;
    match bytes.len() as u64 - end {
        0 => Ok(pickle),
        left => Err(ImportError::PickleLeftover { offset: end - 1, left, what: "bytes after it" }),
    }
}

/// Reads the pickle that `bytes` begin with, and says where it ends.
pub fn read_first(bytes: &[u8]) -> Result<(Pickle, usize), ImportError> {
    let (pickle, end) = machine::Machine::new(bytes.get(..MAX_BYTES).unwrap_or(bytes)).run()?;
    Ok((pickle, end as usize))
}
