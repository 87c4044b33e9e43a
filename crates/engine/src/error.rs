//! Everything that can go wrong, with the node or parameter it went wrong at.

use crate::TensorShape;
use crate::hint::HintedMessage;
use crate::memory::{NotEnoughMemory, Size};
use crate::suggest::nearest;

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The largest tensor: any backend indexes it with 32-bit offsets of four bytes.
pub(crate) const MAX_TENSOR_BYTES: u64 = 4 * 0x3FFF_FFFF;

/// The engine's error. Messages name the node or parameter and both shapes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// An operation was given inputs it cannot take.
    #[error("{operation}{place}: {problem} (inputs: {inputs})")]
    Operation {
        /// Name of the operation.
        operation: &'static str,
        /// ` at ...` with the scope it was added in, or nothing.
        place: String,
        /// What does not fit.
        problem: String,
        /// Shapes of all inputs.
        inputs: String,
    },
    /// A tensor is larger than any backend can index.
    #[error("{operation}{place}: one tensor of {shape} takes {} of memory, and the largest possible has {}", Size(*bytes), Size(MAX_TENSOR_BYTES))]
    TooLarge {
        /// Name of the operation.
        operation: &'static str,
        /// ` at ...` with the scope it was added in, or its name.
        place: String,
        /// The tensor's shape.
        shape: TensorShape,
        /// What it takes.
        bytes: u64,
    },
    /// An operation has no gradient rule for a gradient that was asked for.
    #[error("{operation} has no gradient rule")]
    NotDifferentiable {
        /// Name of the operation.
        operation: &'static str,
    },
    /// A gradient was asked for that does not exist.
    #[error("no gradient: {0}")]
    NoGradient(String),
    /// A name was used twice for a parameter or an input.
    #[error("{kind} `{name}` is declared twice, as {first} and as {second}")]
    Duplicate {
        /// `input` or `parameter`.
        kind: &'static str,
        /// The name.
        name: String,
        /// Shape of the first declaration.
        first: TensorShape,
        /// Shape of the second declaration.
        second: TensorShape,
    },
    /// A value has the wrong number of dimensions or elements.
    #[error("{kind} `{name}` has shape {found} but the graph declares {expected}")]
    ShapeMismatch {
        /// `input`, `parameter` or `output`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The shape the graph wants.
        expected: TensorShape,
        /// The shape that was given.
        found: TensorShape,
    },
    /// A name the graph does not have.
    #[error("unknown {kind} `{name}`")]
    Unknown {
        /// `input`, `parameter` or `output`.
        kind: &'static str,
        /// The name.
        name: String,
        /// `did you mean ...?`, or why there is none.
        hint: Option<String>,
    },
    /// A parameter the graph needs is not in the file.
    #[error("parameter `{name}` {shape} is missing")]
    MissingParameter {
        /// The name.
        name: String,
        /// Its shape.
        shape: TensorShape,
    },
    /// A weight is NaN or infinite.
    #[error("parameter `{name}` {shape} has a non-finite value ({value}) at element {index}")]
    NonFinite {
        /// The name.
        name: String,
        /// Its shape.
        shape: TensorShape,
        /// Flat index of the first such element.
        index: usize,
        /// The value.
        value: String,
    },
    /// The GPU, its driver or one of its libraries failed.
    #[error("{what}: {problem}")]
    Device {
        /// What was being done.
        what: String,
        /// What the driver or library said.
        problem: String,
        /// What to do about it.
        hint: String,
    },
    /// Another rank of a run was lost, or differs.
    #[error("{} {problem}", rank.map_or("another rank".into(), |rank| format!("rank {rank}")))]
    Rank {
        /// Which one, where it is known.
        rank: Option<usize>,
        /// What happened to it.
        problem: String,
    },
    /// A plan does not fit the GPU.
    #[error(
        "{planned:.2} GiB are planned for activations beside the weights, and {free:.2} of {total:.2} GiB are free on {device}"
    )]
    Memory {
        /// GiB that the plan needs.
        planned: f64,
        /// GiB that are free.
        free: f64,
        /// GiB that there are.
        total: f64,
        /// The GPU's name.
        device: String,
    },
    /// Something does not fit into the memory of this machine or process.
    #[error(transparent)]
    HostMemory(NotEnoughMemory),
    /// A weight file could not be read or written.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What happened.
        problem: HintedMessage,
    },
}

/// `did you mean ...?` for the candidate nearest to `name`, if one is near.
pub(crate) fn suggest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut candidates: Vec<&str> = candidates.collect();
    // Of equally near ones always the same.
    candidates.sort_unstable();
    nearest(name, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}
