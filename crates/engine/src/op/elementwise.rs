//! Element by element: linear combinations, products and sums with broadcasting, and functions of one variable.

use super::{Call, Op, Operation, expect_inputs, expect_same, only};
use crate::cpu::simd::vectorized;
use crate::error::Result;
use crate::{Graph, Leaf, Node, Scalar, Storage, TensorShape, Var};
use rayon::prelude::*;

/// Elements of one parallel task.
pub(super) const CHUNK: usize = 16_384;

/// `sum_i coefficients[i] * x_i` over tensors of one shape: scale, add, subtract, residual connections.
#[derive(Clone, Debug)]
pub struct Combine {
    pub(crate) coefficients: Vec<f64>,
}

impl Graph {
    /// `sum c_i x_i`.
    pub fn combine(&mut self, terms: &[(f64, Var)]) -> Result<Var> {
        // A term that is itself a scaled tensor is taken apart, so that the scaled tensor need not exist.
        let unscaled = terms.iter().map(|&(c, x)| match self.scaled(x) {
            Some((factor, source)) => (c * factor, source),
            None => (c, x),
        });
        let (coefficients, inputs): (Vec<f64>, Vec<Var>) = unscaled.unzip();
        self.apply1(Combine { coefficients }, &inputs)
    }

    /// `(factor, source)` if `x` is nothing but a scaled tensor.
    pub(crate) fn scaled(&self, x: Var) -> Option<(f64, Var)> {
        let Leaf::Computed(index) = self.leaf(x) else { return None };
        let node = &self.nodes()[*index];
        match (&node.op, &node.inputs[..]) {
            (Op::Combine(op), [source]) => Some((op.coefficients[0], *source)),
            _ => None,
        }
    }

    /// `factor * x`.
    pub fn scale(&mut self, x: Var, factor: f64) -> Result<Var> {
        self.combine(&[(factor, x)])
    }

    /// `scale * (a + b)`: a residual connection.
    pub fn add_scaled(&mut self, a: Var, b: Var, scale: f64) -> Result<Var> {
        self.combine(&[(scale, a), (scale, b)])
    }

    /// `a + b`, where dimensions of size 1 are repeated.
    pub fn add(&mut self, a: Var, b: Var) -> Result<Var> {
        if self.shape(a) == self.shape(b) {
            return self.add_scaled(a, b, 1.0);
        }
        self.apply1(Binary { kind: BinaryKind::Add }, &[a, b])
    }

    /// `a - b` of one shape.
    pub fn sub(&mut self, a: Var, b: Var) -> Result<Var> {
        self.combine(&[(1.0, a), (-1.0, b)])
    }

    /// `a * b`, where dimensions of size 1 are repeated: also a diagonal map, or a scale per sample.
    pub fn mul(&mut self, a: Var, b: Var) -> Result<Var> {
        self.apply1(Binary { kind: BinaryKind::Multiply }, &[a, b])
    }

    /// `function(x)`.
    pub fn map(&mut self, function: Function, x: Var) -> Result<Var> {
        self.apply1(Unary { function }, &[x])
    }

    /// `x * sigmoid(x)`.
    pub fn silu(&mut self, x: Var) -> Result<Var> {
        self.map(Function::Silu, x)
    }

    /// `max(x, 0)`.
    pub fn relu(&mut self, x: Var) -> Result<Var> {
        self.map(Function::Relu, x)
    }

    /// `x^2`.
    pub fn square(&mut self, x: Var) -> Result<Var> {
        self.map(Function::Square, x)
    }
}

impl Operation for Combine {
    const NAME: &'static str = "combine";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [first, rest @ ..] = inputs else { return Err("needs at least one input".into()) };
        rest.iter().try_for_each(|shape| expect_same("terms", first, shape))?;
        Ok(vec![(*first).clone()])
    }

    fn gradient(&self, g: &mut Graph, _: &Node, dy: &[Option<Var>], wanted: &[bool]) -> Result<Vec<Option<Var>>> {
        let dy = only(dy)?;
        // Terms with one coefficient share one gradient.
        let mut made: Vec<(f64, Var)> = vec![(1.0, dy)];
        let mut gradients = Vec::new();
        for (&coefficient, &wanted) in self.coefficients.iter().zip(wanted) {
            gradients.push(match made.iter().find(|(c, _)| *c == coefficient) {
                _ if !wanted => None,
                Some((_, var)) => Some(*var),
                None => {
                    made.push((coefficient, g.scale(dy, coefficient)?));
                    made.last().map(|(_, var)| *var)
                }
            });
        }
        Ok(gradients)
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let c: Vec<T> = self.coefficients.iter().map(|&c| T::from_f64(c)).collect();
        call.outputs[0].par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
            let range = chunk * CHUNK..chunk * CHUNK + out.len();
            let mut terms = c.iter().zip(call.inputs).map(|(&c, x)| (c, &x[range.clone()]));
            match (terms.next(), terms.next()) {
                (Some(a), Some(b)) => combine_two(a, b, out),
                (Some((c, x)), None) => out.iter_mut().zip(x).for_each(|(out, &x)| *out = c * x),
                _ => {}
            }
            for (c, x) in terms {
                out.iter_mut().zip(x).for_each(|(out, &x)| *out += c * x);
            }
        });
    }
}

vectorized! {
    fn combine_two<T: Scalar>(a: (T, &[T]), b: (T, &[T]), out: &mut [T]) {
        for ((out, &x), &y) in out.iter_mut().zip(a.1).zip(b.1) {
            *out = a.0 * x + b.0 * y;
        }
    }
}

/// What [`Binary`] computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryKind {
    /// `a + b`.
    Add,
    /// `a * b`.
    Multiply,
}

/// A sum or product of two tensors of equal rank, where dimensions of size 1 are repeated.
#[derive(Clone, Debug)]
pub struct Binary {
    pub(crate) kind: BinaryKind,
}

impl Operation for Binary {
    const NAME: &'static str = "binary";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [a, b] = expect_inputs(inputs)?;
        broadcast(&a, &b).map(|shape| vec![shape])
    }

    fn storages(&self, inputs: &[Storage], _: usize) -> Vec<Storage> {
        vec![if inputs.contains(&Storage::Half) { Storage::Half } else { Storage::Full }]
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], wanted: &[bool]) -> Result<Vec<Option<Var>>> {
        let dy = only(dy)?;
        let mut gradients = vec![None, None];
        for side in (0..2).filter(|&side| wanted[side]) {
            let whole = match self.kind {
                BinaryKind::Add => dy,
                BinaryKind::Multiply => g.mul(dy, node.inputs[1 - side])?,
            };
            let shape = g.shape(node.inputs[side]).clone();
            gradients[side] = Some(g.sum_to(whole, &shape)?);
        }
        Ok(gradients)
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let walk = Broadcast::new(call.output_shapes[0], call.input_shapes[0], call.input_shapes[1]);
        let (a, b) = (call.inputs[0], call.inputs[1]);
        let inner = walk.inner;
        // Whole inner runs per task.
        let runs = CHUNK.div_ceil(inner);
        call.outputs[0].par_chunks_mut(runs * inner).enumerate().for_each(|(task, out)| {
            for (run, out) in out.chunks_mut(inner).enumerate() {
                let (at_a, at_b) = walk.offsets(task * runs + run);
                let a = &a[at_a..][..if walk.steps.0 { inner } else { 1 }];
                let b = &b[at_b..][..if walk.steps.1 { inner } else { 1 }];
                match self.kind {
                    BinaryKind::Add => add_run(a, b, out),
                    BinaryKind::Multiply => multiply_run(a, b, out),
                }
            }
        });
    }
}

vectorized! {
    fn add_run<T: Scalar>(a: &[T], b: &[T], out: &mut [T]) {
        match (a, b) {
            (a, &[b]) => out.iter_mut().zip(a).for_each(|(out, &a)| *out = a + b),
            (&[a], b) => out.iter_mut().zip(b).for_each(|(out, &b)| *out = a + b),
            _ => out.iter_mut().zip(a).zip(b).for_each(|((out, &a), &b)| *out = a + b),
        }
    }
}

vectorized! {
    fn multiply_run<T: Scalar>(a: &[T], b: &[T], out: &mut [T]) {
        match (a, b) {
            (a, &[b]) => out.iter_mut().zip(a).for_each(|(out, &a)| *out = a * b),
            (&[a], b) => out.iter_mut().zip(b).for_each(|(out, &b)| *out = a * b),
            _ => out.iter_mut().zip(a).zip(b).for_each(|((out, &a), &b)| *out = a * b),
        }
    }
}

/// The shape of a broadcast result.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Result<TensorShape, String> {
    let fits = a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| a == b || a == 1 || b == 1);
    if !fits {
        let (a, b) = (TensorShape::from(a), TensorShape::from(b));
        return Err(format!("shapes {a} and {b} differ in more than dimensions of size 1"));
    }
    Ok(a.iter().zip(b).map(|(&a, &b)| a.max(b)).collect::<Vec<_>>().into())
}

/// How to walk two broadcast inputs: an outer index over runs of `inner` elements.
struct Broadcast {
    outer: Vec<usize>,
    strides: Vec<(usize, usize)>,
    inner: usize,
    /// Whether each input moves along a run.
    steps: (bool, bool),
}

impl Broadcast {
    fn new(out: &[usize], a: &[usize], b: &[usize]) -> Broadcast {
        let strides = |shape: &[usize]| -> Vec<usize> {
            let dense = TensorShape::from(shape).strides();
            dense.iter().zip(shape).map(|(&stride, &size)| if size == 1 { 0 } else { stride }).collect()
        };
        let (sa, sb) = (strides(a), strides(b));
        // Merge from the innermost dimension outwards while each input either moves or stands still throughout.
        let (mut axis, mut inner, mut steps) = (out.len(), 1, (false, false));
        while axis > 0 {
            let size = out[axis - 1];
            let moves = (sa[axis - 1] != 0, sb[axis - 1] != 0);
            if size > 1 && inner > 1 && moves != steps {
                break;
            }
            if size > 1 {
                steps = moves;
            }
            inner *= size;
            axis -= 1;
        }
        Broadcast { outer: out[..axis].to_vec(), strides: sa.into_iter().zip(sb).take(axis).collect(), inner, steps }
    }

    fn offsets(&self, mut run: usize) -> (usize, usize) {
        let mut offsets = (0, 0);
        for (&size, &(a, b)) in self.outer.iter().zip(&self.strides).rev() {
            let index = run % size;
            run /= size;
            offsets = (offsets.0 + index * a, offsets.1 + index * b);
        }
        offsets
    }
}

/// A function of one variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `x * sigmoid(x)`.
    Silu,
    /// `max(x, 0)`.
    Relu,
    /// `e^x`.
    Exp,
    /// Natural logarithm.
    Ln,
    /// Square root.
    Sqrt,
    /// `x^2`.
    Square,
    /// `1 / x`.
    Reciprocal,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
}

impl Function {
    /// Every function, for tests over all of them.
    pub const ALL: [Function; 9] = [
        Function::Silu,
        Function::Relu,
        Function::Exp,
        Function::Ln,
        Function::Sqrt,
        Function::Square,
        Function::Reciprocal,
        Function::Sin,
        Function::Cos,
    ];

    #[inline(always)]
    fn value<T: Scalar>(self, x: T) -> T {
        match self {
            Function::Silu => x * x.sigmoid(),
            Function::Relu => {
                if x < T::ZERO {
                    T::ZERO
                } else {
                    x
                }
            }
            Function::Exp => x.exp(),
            Function::Ln => x.ln(),
            Function::Sqrt => x.sqrt(),
            Function::Square => x * x,
            Function::Reciprocal => T::ONE / x,
            Function::Sin => x.sin(),
            Function::Cos => x.cos(),
        }
    }

    #[inline(always)]
    fn slope<T: Scalar>(self, x: T) -> T {
        match self {
            Function::Silu => {
                let s = x.sigmoid();
                s * (T::ONE + x * (T::ONE - s))
            }
            Function::Relu => {
                if x > T::ZERO {
                    T::ONE
                } else {
                    T::ZERO
                }
            }
            Function::Exp => x.exp(),
            Function::Ln => T::ONE / x,
            Function::Sqrt => T::from_f64(0.5) / x.sqrt(),
            Function::Square => x + x,
            Function::Reciprocal => -(T::ONE / (x * x)),
            Function::Sin => x.cos(),
            Function::Cos => -x.sin(),
        }
    }
}

/// `function(x)`.
#[derive(Clone, Debug)]
pub struct Unary {
    pub(crate) function: Function,
}

impl Operation for Unary {
    const NAME: &'static str = "unary";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        expect_inputs::<1>(inputs).map(Vec::from)
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        let dx = g.apply1(UnaryGradient { function: self.function }, &[node.inputs[0], only(dy)?])?;
        Ok(vec![Some(dx)])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let x = call.inputs[0];
        call.outputs[0].par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).for_each(|(out, x)| match self.function {
            // A constant argument lets each function have a loop of its own.
            Function::Silu => map_silu(x, out),
            Function::Relu => map_relu(x, out),
            f => out.iter_mut().zip(x).for_each(|(out, &x)| *out = f.value(x)),
        });
    }
}

vectorized! {
    fn map_silu<T: Scalar>(x: &[T], out: &mut [T]) {
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = Function::Silu.value(x));
    }
}

vectorized! {
    fn map_relu<T: Scalar>(x: &[T], out: &mut [T]) {
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = Function::Relu.value(x));
    }
}

/// `dy * function'(x)`.
#[derive(Clone, Debug)]
pub struct UnaryGradient {
    pub(crate) function: Function,
}

impl Operation for UnaryGradient {
    const NAME: &'static str = "unary_gradient";
    const DIFFERENTIABLE: bool = false;

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [x, dy] = expect_inputs(inputs)?;
        expect_same("input and gradient", &x, &dy)?;
        Ok(vec![x])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let (x, dy) = (call.inputs[0], call.inputs[1]);
        let chunks = call.outputs[0].par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK).zip(dy.par_chunks(CHUNK)));
        chunks.for_each(|(out, (x, dy))| match self.function {
            Function::Silu => slope_silu(x, dy, out),
            f => out.iter_mut().zip(x.iter().zip(dy)).for_each(|(out, (&x, &dy))| *out = dy * f.slope(x)),
        });
    }
}

vectorized! {
    fn slope_silu<T: Scalar>(x: &[T], dy: &[T], out: &mut [T]) {
        out.iter_mut().zip(x.iter().zip(dy)).for_each(|(out, (&x, &dy))| *out = dy * Function::Silu.slope(x));
    }
}
