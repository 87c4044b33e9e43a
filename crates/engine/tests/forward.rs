//! Operations and Adam against PyTorch; see golden/README.md.

use safetensors::{Dtype, SafeTensors};
use softdiff_engine::cpu::CpuExecutor;
use softdiff_engine::op::{Align, Window};
use softdiff_engine::optim::{Adam, AdamConfig};
use softdiff_engine::{Graph, Init, Params, Plan, Result, Scalar, TensorShape, Var};

fn wave(n: usize, phase: f64) -> Vec<f64> {
    (0..n).map(|i| (i as f64 * 1.7 + phase).sin()).collect()
}

fn golden(name: &str) -> (Vec<usize>, Vec<f64>) {
    let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/ops.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = file.tensor(name).unwrap();
    let values = match tensor.dtype() {
        Dtype::F64 => tensor.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
        _ => tensor.data().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
    };
    (tensor.shape().to_vec(), values)
}

/// `[n, c, h, w]` to `[n, h, w, c]`; other ranks stay.
fn nhwc(values: &[f64], shape: &[usize]) -> (Vec<f64>, TensorShape) {
    let &[n, c, h, w] = shape else { return (values.to_vec(), shape.into()) };
    let at = |i: usize| values[i / (c * h * w) * c * h * w + i % c * h * w + i / c % (h * w)];
    ((0..values.len()).map(at).collect(), [n, h, w, c].into())
}

type Build = fn(&mut Graph, &[Var]) -> Result<Var>;

#[rustfmt::skip]
const CASES: &[(&str, &[&[usize]], Build)] = &[
    ("conv_rectangular", &[&[2, 3, 9, 8], &[5, 3, 1, 7], &[5]],
        |g, v| g.conv2d(v[0], v[1], Some(v[2]), Window { stride: [2, 3], pad: [0, 3] })),
    ("conv_strided", &[&[2, 3, 9, 8], &[40, 3, 3, 3]], |g, v| g.conv2d(v[0], v[1], None, Window::valid(2))),
    ("conv_padded", &[&[2, 3, 9, 8], &[3, 3, 5, 5], &[3]],
        |g, v| g.conv2d(v[0], v[1], Some(v[2]), Window { stride: [1, 1], pad: [4, 2] })),
    ("conv_wide", &[&[2, 32, 7, 6], &[40, 32, 3, 3], &[40]],
        |g, v| g.conv2d(v[0], v[1], Some(v[2]), Window::same(3))),
    ("max_pool", &[&[2, 3, 9, 8]], |g, v| g.max_pool(v[0], 3, 2, 0)),
    ("max_pool_padded", &[&[2, 3, 9, 8]], |g, v| g.max_pool(v[0], 3, 1, 1)),
    ("average_pool_counting", &[&[2, 3, 9, 8]], |g, v| g.average_pool(v[0], 3, 1, 1, true)),
    ("average_pool_inside", &[&[2, 3, 9, 8]], |g, v| g.average_pool(v[0], 3, 2, 1, false)),
    ("resize_up", &[&[2, 3, 9, 8]], |g, v| g.resize_bilinear(v[0], 20, 13, Align::HalfPixel)),
    ("resize_down", &[&[2, 3, 9, 8]], |g, v| g.resize_bilinear(v[0], 4, 5, Align::HalfPixel)),
    ("group_norm_silu", &[&[2, 12, 4, 5], &[12], &[12]], |g, v| g.group_norm(v[0], v[1], v[2], 3, 1e-6, true)),
    ("attention", &[&[2, 7, 6], &[2, 7, 6], &[2, 7, 6]],
        |g, v| { let qkv = g.concat(v)?; g.attention(qkv, 0.3) }),
    ("linear", &[&[5, 7], &[4, 7], &[4]], |g, v| g.linear(v[0], v[1], Some(v[2]))),
];

fn worst_difference<T: Scalar>(name: &str, inputs: &[&[usize]], build: Build) -> f64 {
    let mut g = Graph::new();
    let mut vars = Vec::new();
    let mut values = Vec::new();
    for (i, shape) in inputs.iter().enumerate() {
        let (value, shape) = nhwc(&wave(shape.iter().product(), i as f64), shape);
        vars.push(g.input(&i.to_string(), shape).unwrap());
        values.push(value);
    }
    let out = build(&mut g, &vars).unwrap();
    let mut run = CpuExecutor::<T>::new(Plan::new(&g, &[out]).unwrap());
    for (i, value) in values.iter().enumerate() {
        run.set_f64(&i.to_string(), value).unwrap();
    }
    run.run(&Params::zeros(&g), 0, 0).unwrap();
    let (shape, expected) = golden(name);
    let (expected, shape) = nhwc(&expected, &shape);
    assert_eq!(*g.shape(out), shape, "{name}");
    run.get(out).unwrap().iter().zip(expected).map(|(a, b)| (a.to_f64() - b).abs()).fold(0.0, f64::max)
}

#[test]
fn operations_compute_what_pytorch_computes() {
    for (name, inputs, build) in CASES {
        let double = worst_difference::<f64>(name, inputs, *build);
        assert!(double < 1e-13, "{name} in f64 is off by {double:e}");
        let single = worst_difference::<f32>(name, inputs, *build);
        assert!(single < 5e-6, "{name} in f32 is off by {single:e}");
    }
}

#[test]
fn corner_aligned_resize_takes_whole_steps() {
    // TensorFlow 1: output i reads input i * 2 / 4 = 0, 0.5, 1, 1.5 (the last beyond the final pixel stays there).
    let mut g = Graph::new();
    let x = g.constant([1, 1, 2, 1], vec![10.0, 20.0]).unwrap();
    let y = g.resize_bilinear(x, 1, 4, Align::Corner).unwrap();
    let mut run = CpuExecutor::<f64>::new(Plan::new(&g, &[y]).unwrap());
    run.run(&Params::zeros(&g), 0, 0).unwrap();
    assert_eq!(run.get(y).unwrap(), [10.0, 15.0, 20.0, 20.0]);
}

/// The largest differences to PyTorch of both parameters after 12 steps.
fn adam_differences<T: Scalar>(suffix: &str) -> [f64; 2] {
    let mut g = Graph::new();
    g.param("a", [6, 5], Init::Constant(0.0)).unwrap();
    g.param("b", [7], Init::Constant(0.0)).unwrap();
    let mut params = Params::<T>::zeros(&g);
    let cast = |v: Vec<f64>| v.into_iter().map(T::from_f64).collect::<Vec<_>>();
    params.set("a", &[6, 5].into(), &cast(wave(30, 0.0))).unwrap();
    params.set("b", &[7].into(), &cast(wave(7, 1.0))).unwrap();
    let config = AdamConfig { rate: 0.02, warmup: 5, clip: Some(1.0), ema: vec![], ..AdamConfig::default() };
    let mut adam = Adam::new(config, &params);
    for step in 0..12 {
        let scale = if step % 3 == 0 { 0.05 } else { 3.0 };
        let gradient = |n, phase| cast(wave(n, phase).into_iter().map(|v| v * scale).collect());
        adam.update(&mut params, &[&gradient(30, f64::from(step)), &gradient(7, f64::from(-step))]).unwrap();
    }
    ["a", "b"].map(|name| {
        let expected = golden(&format!("adam_{name}{suffix}")).1;
        params.get(name).unwrap().iter().zip(expected).map(|(a, b)| (a.to_f64() - b).abs()).fold(0.0, f64::max)
    })
}

#[test]
fn adam_with_clipping_and_warm_up_ends_where_pytorch_ends() {
    let double = adam_differences::<f64>("");
    assert!(double.iter().all(|&d| d < 1e-14), "f64 is off by {double:?}");
    let single = adam_differences::<f32>("_f32");
    assert!(single.iter().all(|&d| d < 1e-6), "f32 is off by {single:?}");
}
