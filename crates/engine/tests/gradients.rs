//! Every operation's gradient against central finite differences in f64.
//!
//! One list of examples drives the proof; `every_operation_is_proven` fails while an operation is missing from it.

use softdiff_engine::cpu::Executor;
use softdiff_engine::op::{Align, Function, Op, Window};
use softdiff_engine::rng::Stream;
use softdiff_engine::{Graph, Params, Plan, Result, Shape, Var};
use std::collections::HashSet;

/// A small graph: shapes of the inputs to differentiate by, the lowest input value, and how the output is built.
struct Example {
    name: &'static str,
    inputs: &'static [&'static [usize]],
    above: f64,
    build: fn(&mut Graph, &[Var]) -> Result<Var>,
}

const TAPS: [f64; 4] = [1.0, 3.0, 3.0, 1.0];

#[rustfmt::skip]
const EXAMPLES: &[Example] = &[
    Example { name: "conv 3x3 same with bias", inputs: &[&[2, 5, 6, 3], &[9, 3, 3, 3], &[9]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], Some(v[2]), Window::same(3)) },
    Example { name: "conv narrow output", inputs: &[&[1, 4, 5, 20], &[2, 3, 3, 20], &[2]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], Some(v[2]), Window::same(3)) },
    Example { name: "conv 1x1 wide", inputs: &[&[2, 3, 3, 40], &[35, 1, 1, 40]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], None, Window::same(1)) },
    Example { name: "conv rectangular, strided, padded", inputs: &[&[2, 9, 8, 2], &[5, 1, 7, 2]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], None, Window { stride: [2, 3], pad: [0, 3] }) },
    Example { name: "conv 3x3 stride 2 without padding", inputs: &[&[1, 9, 7, 4], &[6, 3, 3, 4]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], None, Window::valid(2)) },
    Example { name: "conv padding larger than the kernel reaches", inputs: &[&[1, 3, 3, 2], &[5, 5, 5, 2]], above: -1.0,
        build: |g, v| g.conv2d(v[0], v[1], None, Window { stride: [1, 1], pad: [4, 2] }) },
    Example { name: "gradient of the gradient of a convolution", inputs: &[&[1, 4, 4, 2], &[5, 3, 3, 2]], above: -1.0,
        build: |g, v| {
            let y = g.conv2d(v[0], v[1], None, Window::same(3))?;
            let square = g.mul(y, y)?;
            let loss = g.sum(square)?;
            let d = g.gradients(loss, &[v[0], v[1]])?;
            let (a, b) = (g.mul(d[0], d[0])?, g.mul(d[1], d[1])?);
            let (a, b) = (g.sum(a)?, g.sum(b)?);
            g.add(a, b)
        } },
    Example { name: "group norm", inputs: &[&[2, 3, 3, 8], &[8], &[8]], above: -1.0,
        build: |g, v| g.group_norm(v[0], v[1], v[2], 4, 1e-6, false) },
    Example { name: "group norm with silu", inputs: &[&[2, 3, 2, 12], &[12], &[12]], above: -1.0,
        build: |g, v| g.group_norm(v[0], v[1], v[2], 3, 1e-6, true) },
    Example { name: "attention", inputs: &[&[2, 5, 6], &[2, 5, 6], &[2, 5, 6]], above: -2.0,
        build: |g, v| g.attention(v[0], v[1], v[2], 0.7) },
    Example { name: "linear", inputs: &[&[9, 5], &[7, 5], &[7]], above: -1.0,
        build: |g, v| g.linear(v[0], v[1], Some(v[2])) },
    Example { name: "matmul", inputs: &[&[3, 4, 5], &[3, 5, 2]], above: -1.0,
        build: |g, v| g.matmul(v[0], v[1], [false, false]) },
    Example { name: "matmul, left transposed", inputs: &[&[2, 5, 4], &[2, 5, 3]], above: -1.0,
        build: |g, v| g.matmul(v[0], v[1], [true, false]) },
    Example { name: "matmul, both transposed", inputs: &[&[5, 4], &[3, 5]], above: -1.0,
        build: |g, v| g.matmul(v[0], v[1], [true, true]) },
    Example { name: "matmul with repeated batches", inputs: &[&[2, 1, 3, 4], &[1, 3, 4, 5]], above: -1.0,
        build: |g, v| g.matmul(v[0], v[1], [false, false]) },
    Example { name: "A X B^T per sample", inputs: &[&[2, 4, 5, 3], &[2, 6, 4], &[2, 3, 5]], above: -1.0,
        build: |g, v| g.separable(v[0], v[1], v[2]) },
    Example { name: "A X B^T shared", inputs: &[&[2, 4, 5, 3], &[1, 4, 4], &[1, 5, 5]], above: -1.0,
        build: |g, v| g.separable(v[0], v[1], v[2]) },
    Example { name: "channel mix", inputs: &[&[2, 3, 2, 3], &[2, 4, 3]], above: -1.0,
        build: |g, v| g.channel_mix(v[0], v[1]) },
    Example { name: "diagonal with repeated channels", inputs: &[&[2, 3, 4, 3], &[2, 3, 4, 1]], above: -1.0,
        build: |g, v| g.mul(v[0], v[1]) },
    Example { name: "scale per sample", inputs: &[&[3, 2, 2, 2], &[3, 1, 1, 1]], above: -1.0,
        build: |g, v| g.mul(v[0], v[1]) },
    Example { name: "sum with a repeated vector", inputs: &[&[2, 3, 3, 4], &[2, 1, 1, 4]], above: -1.0,
        build: |g, v| g.add(v[0], v[1]) },
    Example { name: "linear combination", inputs: &[&[3, 4], &[3, 4], &[3, 4]], above: -1.0,
        build: |g, v| g.combine(&[(0.5, v[0]), (-2.0, v[1]), (0.5, v[2])]) },
    Example { name: "a tensor used three times", inputs: &[&[3, 4]], above: -1.0,
        build: |g, v| { let y = g.mul(v[0], v[0])?; g.combine(&[(1.0, y), (2.0, v[0]), (2.0, v[0])]) } },
    Example { name: "concat and slice", inputs: &[&[2, 3, 2], &[2, 3, 4]], above: -1.0,
        build: |g, v| { let y = g.concat(&[v[0], v[1]])?; g.slice_channels(y, 1, 3) } },
    Example { name: "dropout", inputs: &[&[3, 50]], above: -1.0, build: |g, v| g.dropout(v[0], 0.3, 5) },
    Example { name: "noise times a tensor", inputs: &[&[2, 9]], above: -1.0,
        build: |g, v| { let z = g.random_normal([2, 9], 1)?; g.mul(v[0], z) } },
    Example { name: "sums over any dimensions", inputs: &[&[3, 4, 5]], above: -1.0,
        build: |g, v| { let y = g.sum_axes(v[0], 1..2)?; let y = g.mul(y, y)?; g.sum_axes(y, 0..3) } },
    Example { name: "mean", inputs: &[&[7]], above: -1.0, build: |g, v| { let y = g.square(v[0])?; g.mean(y) } },
    Example { name: "expand", inputs: &[&[2, 1, 3, 1]], above: -1.0, build: |g, v| g.expand(v[0], [2, 4, 3, 2]) },
    Example { name: "reshape", inputs: &[&[2, 6]], above: -1.0,
        build: |g, v| { let y = g.square(v[0])?; g.reshape(y, [3, 4]) } },
    Example { name: "FIR down", inputs: &[&[1, 6, 8, 2]], above: -1.0, build: |g, v| g.fir_down(v[0], TAPS) },
    Example { name: "FIR up", inputs: &[&[1, 3, 4, 2]], above: -1.0, build: |g, v| g.fir_up(v[0], TAPS) },
    Example { name: "FIR smooth", inputs: &[&[1, 4, 4, 2]], above: -1.0, build: |g, v| g.fir_smooth(v[0], TAPS) },
    Example { name: "average pooling", inputs: &[&[1, 5, 7, 2]], above: -1.0,
        build: |g, v| g.average_pool(v[0], 3, 2, 1, false) },
    Example { name: "bilinear resize", inputs: &[&[1, 4, 5, 2]], above: -1.0,
        build: |g, v| g.resize_bilinear(v[0], 7, 3, Align::HalfPixel) },
    Example { name: "max pooling", inputs: &[&[2, 5, 6, 3]], above: -1.0, build: |g, v| g.max_pool(v[0], 3, 2, 1) },
    Example { name: "interpolation in a table", inputs: &[&[5, 3], &[6]], above: 0.3,
        build: |g, v| { let at = g.scale(v[1], 1.9)?; g.interpolate(v[0], at) } },
    Example { name: "sinusoids", inputs: &[&[4], &[1, 3]], above: -1.0, build: |g, v| g.sinusoids(v[0], v[1]) },
];

/// `sum(output * fixed random projection)`, its gradients, and the inputs.
struct Proof {
    executor: Executor<f64>,
    params: Params<f64>,
    loss: Var,
    gradients: Vec<Var>,
    values: Vec<Vec<f64>>,
    forward: HashSet<&'static str>,
    all: HashSet<&'static str>,
}

fn random(shape: &Shape, purpose: u32, low: f64, high: f64) -> Vec<f64> {
    let stream = Stream { seed: 1, purpose, step: 0 };
    (0..shape.numel()).map(|i| low + (high - low) * f64::from(stream.uniform(i as u64))).collect()
}

fn prove(inputs: &[Shape], above: f64, build: impl Fn(&mut Graph, &[Var]) -> Result<Var>) -> Proof {
    let mut g = Graph::new();
    let names: Vec<String> = (0..inputs.len()).map(|i| format!("x{i}")).collect();
    let vars: Vec<Var> = names.iter().zip(inputs).map(|(n, s)| g.input(n, s.clone()).unwrap()).collect();
    let out = build(&mut g, &vars).unwrap();
    let forward = g.nodes().iter().map(|n| n.op.name()).collect();
    let shape = g.shape(out).clone();
    let projection = g.constant(shape.clone(), random(&shape, 99, -1.0, 1.0)).unwrap();
    let product = g.mul(out, projection).unwrap();
    let loss = g.sum(product).unwrap();
    let gradients = g.gradients(loss, &vars).unwrap();
    let all = g.nodes().iter().map(|n| n.op.name()).collect();
    let mut outputs = gradients.clone();
    outputs.push(loss);
    let executor = Executor::new(Plan::new(&g, &outputs).unwrap());
    let values = inputs.iter().enumerate().map(|(i, s)| random(s, i as u32, above, above + 2.0)).collect();
    Proof { executor, params: Params::zeros(&g), loss, gradients, values, forward, all }
}

impl Proof {
    fn run(&mut self) -> f64 {
        for (i, values) in self.values.iter().enumerate() {
            self.executor.set(&format!("x{i}"), values).unwrap();
        }
        self.executor.run(&self.params, 3, 4).unwrap();
        self.executor.scalar(self.loss).unwrap()
    }

    /// The worst relative error over the inputs, each in the Euclidean norm.
    fn worst_error(&mut self) -> f64 {
        self.run();
        let analytic: Vec<Vec<f64>> = self.gradients.iter().map(|&v| self.executor.get(v).unwrap().to_vec()).collect();
        let mut worst: f64 = 0.0;
        for (input, analytic) in analytic.iter().enumerate() {
            let (mut error, mut norm) = (0.0, 0.0);
            for i in 0..analytic.len() {
                let x = self.values[input][i];
                let mut at = |x| {
                    self.values[input][i] = x;
                    self.run()
                };
                // Fourth order: its truncation error is far below 1e-6.
                let h = 1e-3;
                let numeric = (8.0 * (at(x + h) - at(x - h)) - (at(x + 2.0 * h) - at(x - 2.0 * h))) / (12.0 * h);
                at(x);
                error += (numeric - analytic[i]).powi(2);
                norm += numeric.powi(2);
            }
            worst = worst.max((error / norm.max(1e-300)).sqrt());
        }
        worst
    }
}

fn shapes(inputs: &[&[usize]]) -> Vec<Shape> {
    inputs.iter().map(|&s| s.into()).collect()
}

#[test]
fn every_gradient_agrees_with_finite_differences() {
    for example in EXAMPLES {
        let error = prove(&shapes(example.inputs), example.above, example.build).worst_error();
        assert!(error <= 1e-6, "{}: relative error {error:e}", example.name);
    }
}

#[test]
fn every_function_of_one_variable_has_the_right_slope() {
    for function in Function::ALL {
        let error = prove(&[[4, 5].into()], 0.2, |g, v| g.map(function, v[0])).worst_error();
        assert!(error <= 1e-6, "{function:?}: relative error {error:e}");
    }
}

#[test]
fn every_operation_is_proven() {
    let proofs: Vec<Proof> = EXAMPLES.iter().map(|e| prove(&shapes(e.inputs), e.above, e.build)).collect();
    for (kind, differentiable) in Op::KINDS {
        let found =
            proofs.iter().any(|p| if *differentiable { p.forward.contains(kind) } else { p.all.contains(kind) });
        assert!(found, "{kind} has no example: add one to EXAMPLES");
    }
}
