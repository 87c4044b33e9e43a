//! The operations. Each file holds an operation's builder method, shape rule, gradient rule and CPU kernel.
//!
//! To add one: write its struct with [`Operation`], name it in the list at the end of this file, and give an example
//! in `op_cases.rs` (the tests fail until there is one).

pub(crate) mod attention;
mod cast;
mod concat;
mod conv;
mod dropout;
mod elementwise;
pub(crate) mod group_norm;
mod interpolate;
pub(crate) mod matmul;
mod max_pool;
mod random;
mod reduce;
mod resample;
mod reshape;
mod select;

pub use attention::{Attention, AttentionGradient};
pub use cast::Cast;
pub use concat::{Concat, SliceChannels};
pub use conv::{Conv2d, Conv2dInputGradient, Conv2dWeightGradient, Window};
pub use dropout::{Dropout, Mask};
pub use elementwise::{Binary, BinaryKind, Combine, Function, Unary, UnaryGradient};
pub use group_norm::{GroupNorm, GroupNormGradient, NormOptions};
pub use interpolate::{Interpolate, InterpolateSlope, InterpolateTableGradient};
pub use matmul::Matmul;
pub use max_pool::{MaxPool, MaxPoolGradient};
pub use random::{Random, RandomKind};
pub use reduce::{Expand, Sum};
pub use resample::{Align, Resample, Taps};
pub use reshape::Reshape;

use crate::error::{Error, Result};
use crate::rng::{Draw, Stream};
use crate::{Graph, Node, Scalar, Storage, TensorShape, Var};

/// What a kernel is called with.
pub struct Call<'a, T> {
    /// Values of the inputs.
    pub inputs: &'a [&'a [T]],
    /// Shapes of the inputs.
    pub input_shapes: &'a [&'a TensorShape],
    /// Where the outputs go; holds anything before, must be wholly written.
    pub outputs: &'a mut [&'a mut [T]],
    /// Shapes of the outputs.
    pub output_shapes: &'a [&'a TensorShape],
    /// As many elements as [`Operation::scratch`] asked for, holding anything.
    pub scratch: &'a mut [T],
    /// Seed of the run.
    pub seed: u64,
    /// Which random numbers are drawn.
    pub draw: Draw,
}

impl<T> Call<'_, T> {
    /// The random stream for `purpose` in this run.
    pub fn stream(&self, purpose: u32) -> Stream {
        Stream { seed: self.seed, purpose, step: self.draw.step }
    }

    /// The place in the whole batch's tensor of the first of `elements` elements of this part's.
    pub fn first_element(&self, elements: usize) -> usize {
        self.draw.part as usize * elements
    }
}

/// An operation: its shape rule, gradient rule and CPU kernel.
pub trait Operation {
    /// Its name in messages and profiles.
    const NAME: &'static str;
    /// Whether it has a gradient rule.
    const DIFFERENTIABLE: bool = true;

    /// Shapes of the outputs, or what is wrong with the inputs.
    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String>;

    /// How the outputs may be stored: by default as the first input, if there is one.
    fn storages(&self, inputs: &[Storage], outputs: usize) -> Vec<Storage> {
        vec![inputs.first().copied().unwrap_or(Storage::Full); outputs]
    }

    /// Adds the operations that compute the gradient of each wanted input from those of the outputs.
    fn gradient(
        &self,
        _g: &mut Graph,
        _node: &Node,
        _dy: &[Option<Var>],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Var>>> {
        Err(Error::NotDifferentiable { operation: Self::NAME })
    }

    /// Elements of scratch memory the kernel needs.
    fn scratch(&self, _inputs: &[&TensorShape], _outputs: &[&TensorShape]) -> usize {
        0
    }

    /// Multiplications and additions of one run; 0 for what is bound by memory.
    fn flops(&self, _inputs: &[&TensorShape], _outputs: &[&TensorShape]) -> u64 {
        0
    }

    /// The CPU kernel.
    fn run<T: Scalar>(&self, call: &mut Call<T>);
}

/// The list of operations: makes the enum and hands every call on.
macro_rules! operations {
    ($($kind:ident),* $(,)?) => {
        /// Any operation.
        #[derive(Clone, Debug)]
        pub enum Op {
            $(#[allow(missing_docs)] $kind($kind)),*
        }

        impl Op {
            /// Name of every kind of operation, and whether it has a gradient rule.
            pub const KINDS: &'static [(&'static str, bool)] =
                &[$((<$kind as Operation>::NAME, <$kind as Operation>::DIFFERENTIABLE)),*];

            /// The operation's name.
            pub fn name(&self) -> &'static str {
                match self { $(Op::$kind(_) => <$kind as Operation>::NAME),* }
            }

            /// See [`Operation::shapes`].
            pub fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
                match self { $(Op::$kind(op) => op.shapes(inputs)),* }
            }

            /// See [`Operation::storages`].
            pub fn storages(&self, inputs: &[Storage], outputs: usize) -> Vec<Storage> {
                match self { $(Op::$kind(op) => op.storages(inputs, outputs)),* }
            }

            /// See [`Operation::gradient`].
            pub fn gradient(
                &self, g: &mut Graph, node: &Node, dy: &[Option<Var>], wanted: &[bool],
            ) -> Result<Vec<Option<Var>>> {
                match self { $(Op::$kind(op) => op.gradient(g, node, dy, wanted)),* }
            }

            /// See [`Operation::scratch`].
            pub fn scratch(&self, inputs: &[&TensorShape], outputs: &[&TensorShape]) -> usize {
                match self { $(Op::$kind(op) => op.scratch(inputs, outputs)),* }
            }

            /// See [`Operation::flops`].
            pub fn flops(&self, inputs: &[&TensorShape], outputs: &[&TensorShape]) -> u64 {
                match self { $(Op::$kind(op) => op.flops(inputs, outputs)),* }
            }

            pub(crate) fn run<T: Scalar>(&self, call: &mut Call<T>) {
                match self { $(Op::$kind(op) => op.run(call)),* }
            }
        }

        $(impl From<$kind> for Op {
            fn from(op: $kind) -> Op {
                Op::$kind(op)
            }
        })*
    };
}

operations![
    Attention,
    AttentionGradient,
    Binary,
    Cast,
    Combine,
    Concat,
    Conv2d,
    Conv2dInputGradient,
    Conv2dWeightGradient,
    Dropout,
    Expand,
    GroupNorm,
    GroupNormGradient,
    Interpolate,
    InterpolateSlope,
    InterpolateTableGradient,
    Matmul,
    MaxPool,
    MaxPoolGradient,
    Random,
    Resample,
    Reshape,
    SliceChannels,
    Sum,
    Unary,
    UnaryGradient,
];

/// The only `dy` of an operation with one output; rules are called only when there is one.
fn only(dy: &[Option<Var>]) -> Result<Var> {
    dy.first().copied().flatten().ok_or_else(|| Error::NoGradient("an operation without a gradient to pass on".into()))
}

/// Checks the number of inputs.
fn expect_inputs<const N: usize>(inputs: &[&TensorShape]) -> Result<[TensorShape; N], String> {
    let shapes: Vec<TensorShape> = inputs.iter().map(|&s| s.clone()).collect();
    let found = shapes.len();
    shapes.try_into().map_err(|_| format!("takes {N} inputs, not {found}"))
}

/// Checks that a shape has `N` dimensions.
fn expect_dims<const N: usize>(what: &str, shape: &TensorShape) -> Result<[usize; N], String> {
    shape.dims().ok_or_else(|| format!("{what} must have {N} dimensions, not shape {shape}"))
}

/// Checks that two shapes are equal.
fn expect_same(what: &str, a: &TensorShape, b: &TensorShape) -> Result<(), String> {
    if a == b { Ok(()) } else { Err(format!("{what} have different shapes {a} and {b}")) }
}
