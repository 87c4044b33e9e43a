//! Two-dimensional convolution and its two adjoints, which are also each other's gradients.

use super::{Call, Operation, expect_dims, expect_inputs, expect_same, only};
use crate::cpu::conv::{Axis, Epilogue, Geometry, forward, input_gradient, weight_gradient};
use crate::error::Result;
use crate::{Graph, Node, Scalar, TensorShape, Var};

/// Stride and zero padding, vertical then horizontal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Pixels between outputs.
    pub stride: [usize; 2],
    /// Zeros added on either side.
    pub pad: [usize; 2],
}

impl Window {
    /// Stride 1 and the padding that keeps the size, for an odd kernel.
    pub fn same(kernel: usize) -> Window {
        Window { stride: [1, 1], pad: [kernel / 2, kernel / 2] }
    }

    /// No padding.
    pub fn valid(stride: usize) -> Window {
        Window { stride: [stride, stride], pad: [0, 0] }
    }

    /// The geometry of a convolution, or what does not fit.
    fn geometry(&self, x: &TensorShape, w: &TensorShape) -> Result<Geometry, String> {
        let [batch, height, width, channels] = expect_dims("the image", x)?;
        let [filters, row_taps, col_taps, depth] = expect_dims("the weight", w)?;
        if channels != depth {
            return Err(format!("the image has {channels} channels but the weight takes {depth}"));
        }
        let axis = |input: usize, taps: usize, stride: usize, pad: usize| -> Result<Axis, String> {
            if stride == 0 || taps == 0 || pad >= taps.max(1) * 64 {
                return Err(format!("a kernel of {taps}, stride {stride} and padding {pad} make no convolution"));
            }
            let room = (input + 2 * pad).checked_sub(taps);
            let output = room.ok_or_else(|| format!("a kernel of {taps} does not fit {input} + 2 x {pad} pixels"))?;
            Ok(Axis { input, output: output / stride + 1, taps, stride, pad })
        };
        Ok(Geometry {
            batch,
            rows: axis(height, row_taps, self.stride[0], self.pad[0])?,
            cols: axis(width, col_taps, self.stride[1], self.pad[1])?,
            channels,
            filters,
        })
    }

    /// The geometry of shapes that [`Operation::shapes`] accepted.
    pub(crate) fn known(&self, x: &TensorShape, w: &TensorShape) -> Geometry {
        self.geometry(x, w).expect("shapes were checked when the node was added")
    }
}

fn output_shape(g: &Geometry) -> TensorShape {
    [g.batch, g.rows.output, g.cols.output, g.filters].into()
}

fn flops(g: &Geometry) -> u64 {
    2 * (g.batch * g.rows.output * g.cols.output) as u64 * (g.rows.taps * g.cols.taps * g.channels * g.filters) as u64
}

/// `y = scale (x * w + b + r)`: image `[n, h, w, c]`, weight `[k, r, s, c]`, optional bias `[k]`, optional residual of
/// the output's shape. Inputs come in this order.
#[derive(Clone, Debug)]
pub struct Conv2d {
    pub(crate) window: Window,
    pub(crate) scale: f64,
    pub(crate) bias: bool,
    pub(crate) residual: bool,
    /// A rectifier comes last: made by fusing, for inference only.
    pub(crate) rectified: bool,
}

/// The adjoint of [`Conv2d`] in the image: `dx` from `dy` and `w` (a transposed convolution).
#[derive(Clone, Debug)]
pub struct Conv2dInputGradient {
    pub(crate) window: Window,
    pub(crate) scale: f64,
    pub(crate) image: TensorShape,
}

/// The adjoint of [`Conv2d`] in the weight: `dw` from `x` and `dy`.
#[derive(Clone, Debug)]
pub struct Conv2dWeightGradient {
    pub(crate) window: Window,
    pub(crate) scale: f64,
    pub(crate) weight: TensorShape,
}

impl Graph {
    /// Convolution (cross-correlation) of `[n, h, w, c]` with a weight `[k, r, s, c]` and an optional bias `[k]`.
    pub fn conv2d(&mut self, x: Var, weight: Var, bias: Option<Var>, window: Window) -> Result<Var> {
        self.scaled_conv2d(x, weight, bias, None, window, 1.0)
    }

    /// `scale (convolution + residual)`: the end of a residual block in one operation.
    pub fn residual_conv2d(
        &mut self,
        x: Var,
        weight: Var,
        bias: Option<Var>,
        residual: Var,
        window: Window,
        scale: f64,
    ) -> Result<Var> {
        self.scaled_conv2d(x, weight, bias, Some(residual), window, scale)
    }

    fn scaled_conv2d(
        &mut self,
        x: Var,
        weight: Var,
        bias: Option<Var>,
        residual: Option<Var>,
        window: Window,
        scale: f64,
    ) -> Result<Var> {
        let mut inputs = vec![x, weight];
        inputs.extend(bias);
        inputs.extend(residual);
        let (bias, residual) = (bias.is_some(), residual.is_some());
        self.apply1(Conv2d { window, scale, bias, residual, rectified: false }, &inputs)
    }
}

impl Conv2d {
    /// Bias and residual among the inputs.
    pub(crate) fn extras<'a, V: ?Sized>(&self, inputs: &[&'a V]) -> (Option<&'a V>, Option<&'a V>) {
        let bias = if self.bias { inputs.get(2).copied() } else { None };
        let residual = if self.residual { inputs.last().copied() } else { None };
        (bias, residual)
    }
}

impl Operation for Conv2d {
    const NAME: &'static str = "conv2d";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let count = 2 + usize::from(self.bias) + usize::from(self.residual);
        if inputs.len() != count {
            return Err(format!("takes {count} inputs, not {}", inputs.len()));
        }
        let geometry = self.window.geometry(inputs[0], inputs[1])?;
        let out = output_shape(&geometry);
        let (bias, residual) = self.extras(inputs);
        if let Some(bias) = bias {
            expect_same("bias and filters", bias, &TensorShape::from([geometry.filters]))?;
        }
        if let Some(residual) = residual {
            expect_same("residual and output", residual, &out)?;
        }
        Ok(vec![out])
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], wanted: &[bool]) -> Result<Vec<Option<Var>>> {
        // A gradient that is nothing but a scaled tensor is taken apart, so that the scaled tensor need not exist.
        let (factor, dy) = g.scaled(only(dy)?).unwrap_or((1.0, only(dy)?));
        let (x, w) = (node.inputs[0], node.inputs[1]);
        let (image, weight) = (g.shape(x).clone(), g.shape(w).clone());
        let (window, scale) = (self.window, factor * self.scale);
        let filters = weight[0];
        let mut gradients = vec![None; node.inputs.len()];
        if wanted[0] {
            gradients[0] = Some(g.apply1(Conv2dInputGradient { window, scale, image }, &[dy, w])?);
        }
        if wanted[1] {
            gradients[1] = Some(g.apply1(Conv2dWeightGradient { window, scale, weight }, &[x, dy])?);
        }
        if self.bias && wanted[2] {
            let sum = g.scaled_sum(dy, 0..3, scale)?;
            gradients[2] = Some(g.reshape(sum, [filters])?);
        }
        if self.residual && wanted[wanted.len() - 1] {
            let last = gradients.len() - 1;
            gradients[last] = Some(if scale == 1.0 { dy } else { g.scale(dy, scale)? });
        }
        Ok(gradients)
    }

    fn scratch(&self, inputs: &[&TensorShape], _: &[&TensorShape]) -> usize {
        self.window.known(inputs[0], inputs[1]).forward_scratch()
    }

    fn flops(&self, inputs: &[&TensorShape], _: &[&TensorShape]) -> u64 {
        flops(&self.window.known(inputs[0], inputs[1]))
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let g = self.window.known(call.input_shapes[0], call.input_shapes[1]);
        let (bias, residual) = self.extras(call.inputs);
        let end = Epilogue { bias, residual, scale: T::from_f64(self.scale) };
        forward(&g, call.inputs[0], call.inputs[1], &end, call.outputs[0], call.scratch);
    }
}

impl Operation for Conv2dInputGradient {
    const NAME: &'static str = "conv2d_input_gradient";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [dy, w] = expect_inputs(inputs)?;
        let g = self.window.geometry(&self.image, &w)?;
        expect_same("gradient and output", &dy, &output_shape(&g))?;
        Ok(vec![self.image.clone()])
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dz: &[Option<Var>], wanted: &[bool]) -> Result<Vec<Option<Var>>> {
        let dz = only(dz)?;
        let (window, scale) = (self.window, self.scale);
        let (dy, w) = (node.inputs[0], node.inputs[1]);
        let weight = g.shape(w).clone();
        Ok(vec![
            if wanted[0] { Some(g.scaled_conv2d(dz, w, None, None, window, scale)?) } else { None },
            if wanted[1] { Some(g.apply1(Conv2dWeightGradient { window, scale, weight }, &[dz, dy])?) } else { None },
        ])
    }

    fn scratch(&self, inputs: &[&TensorShape], _: &[&TensorShape]) -> usize {
        self.window.known(&self.image, inputs[1]).input_gradient_scratch()
    }

    fn flops(&self, inputs: &[&TensorShape], _: &[&TensorShape]) -> u64 {
        flops(&self.window.known(&self.image, inputs[1]))
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let g = self.window.known(&self.image, call.input_shapes[1]);
        let scale = T::from_f64(self.scale);
        input_gradient(&g, call.inputs[0], call.inputs[1], scale, call.outputs[0], call.scratch);
    }
}

impl Operation for Conv2dWeightGradient {
    const NAME: &'static str = "conv2d_weight_gradient";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [x, dy] = expect_inputs(inputs)?;
        let g = self.window.geometry(&x, &self.weight)?;
        expect_same("gradient and output", &dy, &output_shape(&g))?;
        Ok(vec![self.weight.clone()])
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dz: &[Option<Var>], wanted: &[bool]) -> Result<Vec<Option<Var>>> {
        let dz = only(dz)?;
        let (window, scale) = (self.window, self.scale);
        let (x, dy) = (node.inputs[0], node.inputs[1]);
        let image = g.shape(x).clone();
        Ok(vec![
            if wanted[0] { Some(g.apply1(Conv2dInputGradient { window, scale, image }, &[dy, dz])?) } else { None },
            if wanted[1] { Some(g.scaled_conv2d(x, dz, None, None, window, scale)?) } else { None },
        ])
    }

    fn scratch(&self, inputs: &[&TensorShape], _: &[&TensorShape]) -> usize {
        self.window.known(inputs[0], &self.weight).weight_gradient_scratch()
    }

    fn flops(&self, inputs: &[&TensorShape], _: &[&TensorShape]) -> u64 {
        flops(&self.window.known(inputs[0], &self.weight))
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let g = self.window.known(call.input_shapes[0], &self.weight);
        let scale = T::from_f64(self.scale);
        weight_gradient(&g, call.inputs[0], call.inputs[1], scale, call.outputs[0], call.scratch);
    }
}
