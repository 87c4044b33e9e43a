//! Rows of a table at integer or fractional positions: embeddings of labels, and schedules as functions of time.

use super::{Call, Operation, expect_dims, expect_inputs, expect_same, only};
use crate::error::Result;
use crate::{Graph, Node, Scalar, TensorShape, Var};

/// `out[n] = (1 - f) table[i] + f table[i + 1]` with `i + f` = position, kept within the table.
#[derive(Clone, Debug)]
pub struct Interpolate;

/// The gradient of [`Interpolate`] in the position: `table[i + 1] - table[i]`, 0 beyond the ends, times `dy`.
#[derive(Clone, Debug)]
pub struct InterpolateSlope;

/// The gradient of [`Interpolate`] in the table.
#[derive(Clone, Debug)]
pub struct InterpolateTableGradient {
    table: TensorShape,
}

impl Graph {
    /// Rows of `table [k, d]` at `position [n]`, linear between rows and constant beyond the ends: `[n, d]`.
    ///
    /// With whole numbers it is an embedding; with a time scaled to `0..k - 1` it is a piecewise linear schedule.
    pub fn interpolate(&mut self, table: Var, position: Var) -> Result<Var> {
        self.apply1(Interpolate, &[table, position])
    }

    /// `[sin(x f), cos(x f)]` for `x [n]` and fixed frequencies `f [1, k]`: `[n, 2k]`.
    pub fn sinusoids(&mut self, x: Var, frequencies: Var) -> Result<Var> {
        let n = self.shape(x).numel();
        let column = self.reshape(x, [n, 1])?;
        let angles = self.mul(column, frequencies)?;
        let sin = self.map(super::Function::Sin, angles)?;
        let cos = self.map(super::Function::Cos, angles)?;
        self.concat(&[sin, cos])
    }
}

fn sizes(table: &TensorShape, position: &TensorShape) -> Result<[usize; 3], String> {
    let [k, d] = expect_dims("the table", table)?;
    let [n] = expect_dims("the position", position)?;
    Ok([n, k, d])
}

/// The lower row and the fraction towards the next; NaN goes to row 0 with a NaN fraction.
fn locate<T: Scalar>(position: T, rows: usize) -> (usize, T) {
    let last = (rows - 1) as f64;
    // `clamp` keeps a NaN, and a NaN becomes row 0 below.
    let at = position.to_f64().clamp(0.0, last);
    let low = at.floor().clamp(0.0, (last - 1.0).max(0.0));
    let low = if low.is_nan() { 0.0 } else { low };
    (low as usize, T::from_f64(at - low))
}

impl Operation for Interpolate {
    const NAME: &'static str = "interpolate";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [table, position] = expect_inputs(inputs)?;
        let [n, _, d] = sizes(&table, &position)?;
        Ok(vec![[n, d].into()])
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], wanted: &[bool]) -> Result<Vec<Option<Var>>> {
        let dy = only(dy)?;
        let (table, position) = (node.inputs[0], node.inputs[1]);
        let shape = g.shape(table).clone();
        Ok(vec![
            if wanted[0] { Some(g.apply1(InterpolateTableGradient { table: shape }, &[position, dy])?) } else { None },
            if wanted[1] { Some(g.apply1(InterpolateSlope, &[table, position, dy])?) } else { None },
        ])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let [_, k, d] = sizes(call.input_shapes[0], call.input_shapes[1]).unwrap_or([0, 1, 1]);
        let (table, positions) = (call.inputs[0], call.inputs[1]);
        for (out, &position) in call.outputs[0].chunks_exact_mut(d).zip(positions) {
            let (row, fraction) = locate(position, k);
            let low = &table[row * d..][..d];
            let high = &table[(row + 1).min(k - 1) * d..][..d];
            for ((out, &low), &high) in out.iter_mut().zip(low).zip(high) {
                *out = low + fraction * (high - low);
            }
        }
    }
}

impl Operation for InterpolateSlope {
    const NAME: &'static str = "interpolate_slope";
    const DIFFERENTIABLE: bool = false;

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [table, position, dy] = expect_inputs(inputs)?;
        let [n, _, d] = sizes(&table, &position)?;
        expect_same("gradient and output", &dy, &[n, d].into())?;
        Ok(vec![position])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let [_, k, d] = sizes(call.input_shapes[0], call.input_shapes[1]).unwrap_or([0, 1, 1]);
        let (table, positions, dy) = (call.inputs[0], call.inputs[1], call.inputs[2]);
        for ((out, &position), dy) in call.outputs[0].iter_mut().zip(positions).zip(dy.chunks_exact(d)) {
            let (row, _) = locate(position, k);
            let inside = position.to_f64() >= 0.0 && position.to_f64() <= (k - 1) as f64 && k > 1;
            let next = (row + 1).min(k - 1);
            let slope = (0..d).map(|j| dy[j] * (table[next * d + j] - table[row * d + j])).sum::<T>();
            *out = if inside { slope } else { T::ZERO };
        }
    }
}

impl Operation for InterpolateTableGradient {
    const NAME: &'static str = "interpolate_table_gradient";
    const DIFFERENTIABLE: bool = false;

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [position, dy] = expect_inputs(inputs)?;
        let [n, _, d] = sizes(&self.table, &position)?;
        expect_same("gradient and output", &dy, &[n, d].into())?;
        Ok(vec![self.table.clone()])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let [_, k, d] = sizes(&self.table, call.input_shapes[0]).unwrap_or([0, 1, 1]);
        let (positions, dy) = (call.inputs[0], call.inputs[1]);
        let out = &mut *call.outputs[0];
        out.fill(T::ZERO);
        for (&position, dy) in positions.iter().zip(dy.chunks_exact(d)) {
            let (row, fraction) = locate(position, k);
            for (at, weight) in [(row, T::ONE - fraction), ((row + 1).min(k - 1), fraction)] {
                out[at * d..][..d].iter_mut().zip(dy).for_each(|(out, &dy)| *out += weight * dy);
            }
        }
    }
}
