//! One list of small graphs, with at least one for every operation: it drives the gradient proof and the self-test of
//! every backend, so that an operation cannot be forgotten.

use crate::op::{Align, Mask, NormOptions, Window};
use crate::{Graph, Result, Storage, Var};

/// A small graph that shows an operation.
pub struct OpCase {
    /// What it shows.
    pub name: &'static str,
    /// Shapes of the inputs.
    pub inputs: &'static [&'static [usize]],
    /// Lowest input value; they lie in `above .. above + 2`.
    pub above: f64,
    /// How the output is built.
    pub build: fn(&mut Graph, &[Var]) -> Result<Var>,
}

const TAPS: [f64; 4] = [1.0, 3.0, 3.0, 1.0];

/// At least one example of every operation.
#[rustfmt::skip]
pub const OP_CASES: &[OpCase] = &[
    OpCase { name: "conv 3x3 same with bias", inputs: &[&[2, 5, 6, 3], &[9, 3, 3, 3], &[9]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], Some(v[2]), Window::same(3)) },
    OpCase { name: "conv narrow output", inputs: &[&[1, 4, 5, 20], &[2, 3, 3, 20], &[2]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], Some(v[2]), Window::same(3)) },
    OpCase { name: "conv 1x1 wide", inputs: &[&[2, 3, 3, 40], &[35, 1, 1, 40]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], None, Window::same(1)) },
    OpCase { name: "conv rectangular, strided, padded", inputs: &[&[2, 9, 8, 2], &[5, 1, 7, 2]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], None, Window { stride: [2, 3], pad: [0, 3] }) },
    OpCase { name: "conv 3x3 stride 2 without padding", inputs: &[&[1, 9, 7, 4], &[6, 3, 3, 4]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], None, Window::valid(2)) },
    OpCase { name: "conv padding larger than the kernel reaches", inputs: &[&[1, 3, 3, 2], &[5, 5, 5, 2]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], None, Window { stride: [1, 1], pad: [4, 2] }) },
    OpCase { name: "gradient of the gradient of a convolution", inputs: &[&[1, 4, 4, 2], &[5, 3, 3, 2]], above: -1.0,
        build: |g, v| {
            let y = g.conv2d(v[0], v[1], None, Window::same(3))?;
            let square = g.mul(y, y)?;
            let loss = g.sum(square)?;
            let d = g.gradients(loss, &[v[0], v[1]])?;
            let (a, b) = (g.mul(d[0], d[0])?, g.mul(d[1], d[1])?);
            let (a, b) = (g.sum(a)?, g.sum(b)?);
            g.add(a, b)
        } },
    OpCase { name: "conv with channels in eights", inputs: &[&[2, 8, 8, 16], &[24, 3, 3, 16], &[24]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], Some(v[2]), Window::same(3)) },
    OpCase { name: "group norm and silu, channels in eights", inputs: &[&[2, 4, 4, 32], &[32], &[32]], above: -1.0,
        build: |g, v| g.group_norm(v[0], v[1], v[2], 8, 1e-6, true) },
    OpCase { name: "group norm, groups of twelve", inputs: &[&[2, 3, 4, 48], &[48], &[48]], above: -1.0,
        build: |g, v| g.group_norm(v[0], v[1], v[2], 4, 1e-6, false) },
    OpCase { name: "conv by Winograd's tiles, odd sizes", inputs: &[&[2, 5, 7, 24], &[33, 3, 3, 24], &[33]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], Some(v[2]), Window::same(3)) },
    OpCase { name: "conv by Winograd's tiles, padding 0 and 2", inputs: &[&[1, 6, 5, 25], &[24, 3, 3, 25]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], None, Window { stride: [1, 1], pad: [0, 2] }) },
    OpCase { name: "residual convolution", inputs: &[&[2, 4, 4, 8], &[16, 3, 3, 8], &[16], &[2, 4, 4, 16]], above: -1.0,
        build: |g, v| g.residual_conv2d(v[0], v[1], Some(v[2]), v[3], Window::same(3), 0.7) },
    OpCase { name: "group norm of a shifted image, silu, dropout", inputs: &[&[2, 4, 4, 16], &[16], &[16], &[2, 16]],
        above: -1.0,
        build: |g, v| {
            let mask = Some(Mask { rate: 0.2, purpose: 8 });
            g.group_norm_with(v[0], v[1], v[2], Some(v[3]), NormOptions { groups: 4, epsilon: 1e-6, silu: true, mask })
        } },
    OpCase { name: "group norm of a large shifted image", inputs: &[&[2, 16, 17, 72], &[72], &[72], &[2, 72]],
        above: -1.0,
        build: |g, v| {
            let mask = Some(Mask { rate: 0.2, purpose: 8 });
            g.group_norm_with(v[0], v[1], v[2], Some(v[3]), NormOptions { groups: 6, epsilon: 1e-6, silu: true, mask })
        } },
    OpCase { name: "group norm of a shifted image, odd sizes", inputs: &[&[2, 3, 1, 6], &[6], &[6], &[2, 6]],
        above: -1.0,
        build: |g, v| {
            let mask = Some(Mask { rate: 0.2, purpose: 8 });
            g.group_norm_with(v[0], v[1], v[2], Some(v[3]), NormOptions { groups: 2, epsilon: 1e-6, silu: true, mask })
        } },
    OpCase { name: "group norm beside a shortcut, after a convolution",
        inputs: &[&[3, 4, 4, 8], &[16, 3, 3, 8], &[16], &[16], &[16], &[3, 4, 4, 16]], above: -1.0,
        build: |g, v| {
            let x = g.conv2d(v[0], v[1], Some(v[2]), Window::same(3))?;
            let y = g.group_norm(x, v[3], v[4], 4, 1e-6, true)?;
            let y = g.combine(&[(1.0, y), (0.7, x)])?;
            let beside = g.mul(x, v[5])?;
            g.add(y, beside)
        } },
    OpCase { name: "group norm of joined channels, groups of twelve",
        inputs: &[&[3, 8, 8, 16], &[3, 8, 8, 32], &[48], &[48], &[3, 48]], above: -1.0,
        build: |g, v| {
            let x = g.concat(&[v[0], v[1]])?;
            let mask = Some(Mask { rate: 0.2, purpose: 9 });
            let options = NormOptions { groups: 4, epsilon: 1e-6, silu: true, mask };
            let y = g.group_norm_with(x, v[2], v[3], Some(v[4]), options)?;
            g.add_scaled(x, y, 0.7)
        } },
    OpCase { name: "channels joined by convolutions, beside other readers",
        inputs: &[&[3, 8, 8, 8], &[32, 3, 3, 8], &[32], &[32, 1, 1, 32], &[16, 1, 1, 32], &[48], &[8, 1, 1, 48]],
        above: -1.0,
        build: |g, v| {
            let skip = g.conv2d(v[0], v[1], Some(v[2]), Window::same(3))?;
            let y = g.group_norm(skip, v[2], v[2], 8, 1e-6, true)?;
            let y = g.residual_conv2d(y, v[3], Some(v[2]), skip, Window::same(1), 0.7)?;
            let low = g.fir_down(skip, TAPS)?;
            let low = g.fir_up(low, TAPS)?;
            let y = g.add(y, low)?;
            let beside = g.conv2d(skip, v[4], None, Window::same(1))?;
            let h = g.residual_conv2d(y, v[4], None, beside, Window::same(1), 0.7)?;
            let x = g.concat(&[h, skip])?;
            let y = g.group_norm(x, v[5], v[5], 4, 1e-6, true)?;
            let x = g.conv2d(x, v[6], None, Window::same(1))?;
            g.residual_conv2d(y, v[6], None, x, Window::same(1), 0.7)
        } },
    OpCase { name: "group norm of an image in several parts", inputs: &[&[2, 32, 64, 32], &[32], &[32], &[2, 32]],
        above: -1.0,
        build: |g, v| {
            let mask = Some(Mask { rate: 0.2, purpose: 9 });
            let options = NormOptions { groups: 8, epsilon: 1e-6, silu: true, mask };
            g.group_norm_with(v[0], v[1], v[2], Some(v[3]), options)
        } },
    OpCase { name: "group norm", inputs: &[&[2, 3, 3, 8], &[8], &[8]], above: -1.0,
        build: |g, v| g.group_norm(v[0], v[1], v[2], 4, 1e-6, false) },
    OpCase { name: "group norm with silu", inputs: &[&[2, 3, 2, 12], &[12], &[12]], above: -1.0,
        build: |g, v| g.group_norm(v[0], v[1], v[2], 3, 1e-6, true) },
    OpCase { name: "conv with joined filters",
        inputs: &[&[2, 3, 4, 8], &[8, 1, 1, 8], &[12, 1, 1, 8], &[12, 1, 1, 8], &[8], &[12], &[12]], above: -1.0,
        build: |g, v| {
            let rows = [g.reshape(v[1], [64])?, g.reshape(v[2], [96])?, g.reshape(v[3], [96])?];
            let weight = g.concat(&rows)?;
            let weight = g.reshape(weight, [32, 1, 1, 8])?;
            let bias = g.concat(&v[4..])?;
            g.conv2d(v[0], weight, Some(bias), Window::same(1))
        } },
    OpCase { name: "attention", inputs: &[&[2, 5, 18]], above: -2.0, build: |g, v| g.attention(v[0], 0.7) },
    OpCase { name: "linear", inputs: &[&[9, 5], &[7, 5], &[7]], above: -1.0,
        build: |g, v| g.linear(v[0], v[1], Some(v[2])) },
    OpCase { name: "matmul", inputs: &[&[3, 4, 5], &[3, 5, 2]], above: -1.0,
        build: |g, v| g.matmul(v[0], v[1], [false, false]) },
    OpCase { name: "matmul, left transposed", inputs: &[&[2, 5, 4], &[2, 5, 3]], above: -1.0,
        build: |g, v| g.matmul(v[0], v[1], [true, false]) },
    OpCase { name: "matmul, both transposed", inputs: &[&[5, 4], &[3, 5]], above: -1.0,
        build: |g, v| g.matmul(v[0], v[1], [true, true]) },
    OpCase { name: "matmul with repeated batches", inputs: &[&[2, 1, 3, 4], &[1, 3, 4, 5]], above: -1.0,
        build: |g, v| g.matmul(v[0], v[1], [false, false]) },
    OpCase { name: "A X B^T per sample", inputs: &[&[2, 4, 5, 3], &[2, 6, 4], &[2, 3, 5]], above: -1.0,
        build: |g, v| g.separable(v[0], v[1], v[2]) },
    OpCase { name: "A X B^T shared", inputs: &[&[2, 4, 5, 3], &[1, 4, 4], &[1, 5, 5]], above: -1.0,
        build: |g, v| g.separable(v[0], v[1], v[2]) },
    OpCase { name: "A X B^T of many samples", inputs: &[&[33, 3, 5, 2], &[33, 6, 3], &[33, 2, 5]], above: -1.0,
        build: |g, v| g.separable(v[0], v[1], v[2]) },
    OpCase { name: "many products, both transposed", inputs: &[&[40, 3, 5], &[40, 2, 3]], above: -1.0,
        build: |g, v| g.matmul(v[0], v[1], [true, true]) },
    OpCase { name: "channel mix", inputs: &[&[2, 3, 2, 3], &[2, 4, 3]], above: -1.0,
        build: |g, v| g.channel_mix(v[0], v[1]) },
    OpCase { name: "diagonal with repeated channels", inputs: &[&[2, 3, 4, 3], &[2, 3, 4, 1]], above: -1.0,
        build: |g, v| g.mul(v[0], v[1]) },
    OpCase { name: "scale per sample", inputs: &[&[3, 2, 2, 2], &[3, 1, 1, 1]], above: -1.0,
        build: |g, v| g.mul(v[0], v[1]) },
    OpCase { name: "sum with a repeated vector", inputs: &[&[2, 3, 3, 4], &[2, 1, 1, 4]], above: -1.0,
        build: |g, v| g.add(v[0], v[1]) },
    OpCase { name: "linear combination", inputs: &[&[3, 4], &[3, 4], &[3, 4]], above: -1.0,
        build: |g, v| g.combine(&[(0.5, v[0]), (-2.0, v[1]), (0.5, v[2])]) },
    OpCase { name: "a tensor used three times", inputs: &[&[3, 4]], above: -1.0,
        build: |g, v| { let y = g.mul(v[0], v[0])?; g.combine(&[(1.0, y), (2.0, v[0]), (2.0, v[0])]) } },
    OpCase { name: "concat and slice", inputs: &[&[2, 3, 2], &[2, 3, 4]], above: -1.0,
        build: |g, v| { let y = g.concat(&[v[0], v[1]])?; g.slice_channels(y, 1, 3) } },
    OpCase { name: "dropout", inputs: &[&[3, 50]], above: -1.0, build: |g, v| g.dropout(v[0], 0.3, 5) },
    OpCase { name: "noise times a tensor", inputs: &[&[2, 9]], above: -1.0,
        build: |g, v| { let z = g.random_normal([2, 9], 1)?; g.mul(v[0], z) } },
    OpCase { name: "sums over any dimensions", inputs: &[&[3, 4, 5]], above: -1.0,
        build: |g, v| { let y = g.sum_axes(v[0], 1..2)?; let y = g.mul(y, y)?; g.sum_axes(y, 0..3) } },
    OpCase { name: "mean", inputs: &[&[7]], above: -1.0, build: |g, v| { let y = g.square(v[0])?; g.mean(y) } },
    OpCase { name: "expand", inputs: &[&[2, 1, 3, 1]], above: -1.0, build: |g, v| g.expand(v[0], [2, 4, 3, 2]) },
    OpCase { name: "half precision and back", inputs: &[&[2, 6]], above: -1.0,
        build: |g, v| {
            let y = g.cast(v[0], Storage::Half)?;
            let y = g.silu(y)?;
            g.cast(y, Storage::Full)
        } },
    OpCase { name: "reshape", inputs: &[&[2, 6]], above: -1.0,
        build: |g, v| { let y = g.square(v[0])?; g.reshape(y, [3, 4]) } },
    OpCase { name: "FIR down", inputs: &[&[1, 6, 8, 2]], above: -1.0, build: |g, v| g.fir_down(v[0], TAPS) },
    OpCase { name: "FIR up", inputs: &[&[1, 3, 4, 2]], above: -1.0, build: |g, v| g.fir_up(v[0], TAPS) },
    OpCase { name: "FIR smooth", inputs: &[&[1, 4, 4, 2]], above: -1.0, build: |g, v| g.fir_smooth(v[0], TAPS) },
    OpCase { name: "FIR down, channels in eights", inputs: &[&[2, 10, 6, 16]], above: -1.0,
        build: |g, v| g.fir_down(v[0], [1.0, 4.0, 3.0, 2.0]) },
    OpCase { name: "FIR up, channels in eights", inputs: &[&[2, 5, 3, 16]], above: -1.0,
        build: |g, v| g.fir_up(v[0], [1.0, 4.0, 3.0, 2.0]) },
    OpCase { name: "FIR smooth, channels in eights", inputs: &[&[2, 5, 4, 16]], above: -1.0,
        build: |g, v| g.fir_smooth(v[0], [1.0, 4.0, 3.0, 2.0]) },
    OpCase { name: "average pooling", inputs: &[&[1, 5, 7, 2]], above: -1.0,
        build: |g, v| g.average_pool(v[0], 3, 2, 1, false) },
    OpCase { name: "bilinear resize", inputs: &[&[1, 4, 5, 2]], above: -1.0,
        build: |g, v| g.resize_bilinear(v[0], 7, 3, Align::HalfPixel) },
    OpCase { name: "max pooling", inputs: &[&[2, 5, 6, 3]], above: -1.0, build: |g, v| g.max_pool(v[0], 3, 2, 1) },
    OpCase { name: "interpolation in a table", inputs: &[&[5, 3], &[6]], above: 0.3,
        build: |g, v| { let at = g.scale(v[1], 1.9)?; g.interpolate(v[0], at) } },
    OpCase { name: "sinusoids", inputs: &[&[4], &[1, 3]], above: -1.0, build: |g, v| g.sinusoids(v[0], v[1]) },
];
