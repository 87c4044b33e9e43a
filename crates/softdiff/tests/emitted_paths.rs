//! Paths in the engine: what training sees at a time is what samplers see at it.

use softdiff::corruption::*;
use softdiff::curve::{Curve, Interpolation};
use softdiff::engine::Precision;
use softdiff::engine::cpu::CpuExecutor;
use softdiff::engine::rng::RandomStream;
use softdiff::engine::{Device, Scalar};
use softdiff::engine::{Graph, Params, Plan};
use softdiff::hint::Hint;
use softdiff::linalg::Matrix;
use softdiff::model::{Condition, NetworkDenoiser, Predictor};
use softdiff::network::UNetConfig;
use softdiff::noise::Noise;
use softdiff::objective::{Objective, Prediction};
use softdiff::path::{LevelSchedule, Path};
use softdiff::sampler::Denoiser;
use softdiff::train::{PathTable, SoftStep, StepNoise, StepSpec, TABLE_ROWS, TableError};
use std::sync::Arc;

fn staged(stages: Vec<(Box<dyn Corruption>, Curve)>) -> Path {
    let level = |curve| LevelSchedule::Curve { curve, start: 0.18 };
    let stages = stages.into_iter().map(|(corruption, curve)| (corruption, level(curve))).collect();
    Path::new(stages, Noise::PAPER).unwrap()
}

/// `C_t x` for every time in single precision, as training computes it.
fn in_training(path: &Path, times: &[f64], images: &[f64]) -> Vec<f32> {
    let (n, shape) = (times.len(), path.shape());
    let table = PathTable::new(path, TABLE_ROWS).unwrap();
    let mut g = Graph::new();
    let x = g.input("x", [n, shape.height, shape.width, shape.channels]).unwrap();
    let t = g.input("t", [n]).unwrap();
    let moment = table.moment(&mut g, t).unwrap();
    let y = moment.apply(&mut g, x).unwrap();
    let mut run = CpuExecutor::<f32>::new(Plan::new(&g, &[y]).unwrap());
    let single = |values: &[f64]| values.iter().map(|&v| v as f32).collect::<Vec<f32>>();
    run.set("x", &single(images)).unwrap();
    run.set("t", &single(times)).unwrap();
    run.run(&Params::zeros(&g), 0, 0).unwrap();
    run.get(y).unwrap().to_vec()
}

/// Times as they are drawn, exact in single precision.
fn drawn(count: usize) -> Vec<f64> {
    let mut stream = RandomStream::new(4, "times");
    (0..count).map(|_| f64::from(stream.uniform() as f32)).collect()
}

#[test]
fn the_masks_of_training_are_the_samplers_masks_at_every_time() {
    let shape = Shape::new(12, 12, 1);
    let bent = Curve::uniform(vec![0.0, 0.5, 0.6, 1.0], Interpolation::Linear).unwrap();
    let cubic = Curve::uniform(vec![0.0, 0.5, 0.6, 1.0], Interpolation::MonotoneCubic).unwrap();
    for curve in [Curve::straight(0.0, 1.0).unwrap(), bent, cubic] {
        for order in [ErasureOrder::Spiral, ErasureOrder::Window, ErasureOrder::Random { seed: 1 }] {
            let path = staged(vec![(Box::new(Masking::new(shape, order)), curve.clone())]);
            let times = [drawn(600), vec![0.0, 0.1, 0.18, 1.0]].concat();
            let found = in_training(&path, &times, &vec![1.0; times.len() * shape.len()]);
            let mut masks = std::collections::BTreeSet::new();
            for (t, mask) in times.iter().zip(found.chunks_exact(shape.len())) {
                assert!(mask.iter().all(|&weight| weight == 0.0 || weight == 1.0), "a fraction at {t}");
                let LinearMap::PixelDiagonal(expected) = path.at(*t).unwrap().map else { unreachable!() };
                let wrong = mask.iter().zip(&expected).filter(|(a, b)| f64::from(**a) != **b).count();
                // A pixel may be erased one rounding earlier or later.
                let near = Masking::new(shape, order)
                    .erased_at()
                    .unwrap()
                    .iter()
                    .any(|at| (at - path.level(*t).unwrap()).abs() < 1e-6);
                assert!(wrong == 0 || near, "{wrong} pixels are wrong at {t}");
                masks.insert(mask.iter().filter(|&&weight| weight == 1.0).count());
            }
            assert!(masks.len() > if order == ErasureOrder::Window { 6 } else { 100 }, "{}", masks.len());
        }
    }
}

#[test]
fn a_mask_after_a_blur_keeps_its_edges() {
    let shape = Shape::new(8, 8, 2);
    let blur = Blur::new(shape, Boundary::Zero, 3.0).unwrap();
    let path = staged(vec![
        (Box::new(blur), Curve::straight(0.0, 3.0).unwrap()),
        (Box::new(Masking::new(shape, ErasureOrder::Spiral)), Curve::straight(0.0, 1.0).unwrap()),
    ]);
    let times = drawn(400);
    let images = vec![1.0; times.len() * shape.len()];
    let found = in_training(&path, &times, &images);
    for (index, t) in times.iter().enumerate() {
        let part = index * shape.len()..(index + 1) * shape.len();
        let expected = path.at(*t).unwrap().map.apply(shape, &images[part.clone()]).unwrap();
        for (found, expected) in found[part].iter().zip(&expected) {
            assert!((f64::from(*found) - expected).abs() < 2e-3, "{found} not {expected} at {t}");
            assert!(*expected != 0.0 || *found == 0.0, "{found} is left of an erased pixel at {t}");
        }
    }
}

#[test]
fn matrices_and_kernels_of_ones_own_are_exact_at_every_time_at_32x32x3() {
    let shape = Shape::new(32, 32, 3);
    let mut stream = RandomStream::new(6, "own");
    // Far from separable: every pixel goes somewhere else.
    let order = stream.permutation(shape.len());
    let dense = Matrix::from_fn(shape.len(), shape.len(), |i, j| if order[i] == j { 0.9 } else { 1e-4 });
    let kernel = |taps: &[f64]| convolution_matrix(taps, 32, Boundary::Reflect);
    let plane = LinearMap::Sum(vec![
        LinearMap::Separable { rows: kernel(&[0.1, 0.5, 0.1]), cols: kernel(&[0.0, 1.0, 0.2]) },
        LinearMap::Separable { rows: kernel(&[0.2, 0.0, -0.1]), cols: kernel(&[0.3, 0.1, 0.0]) },
    ]);
    for map in [LinearMap::Dense(dense), plane] {
        let path = staged(vec![(Box::new(Custom::new(shape, map).unwrap()), Curve::straight(0.0, 1.0).unwrap())]);
        let times = [0.0, 0.11, 0.2345, 0.6, 1.0];
        let images = stream.normals(times.len() * shape.len());
        let found = in_training(&path, &times, &images);
        for (index, t) in times.iter().enumerate() {
            let part = index * shape.len()..(index + 1) * shape.len();
            let expected = path.at(*t).unwrap().map.apply(shape, &images[part.clone()]).unwrap();
            for (found, expected) in found[part].iter().zip(&expected) {
                assert!((f64::from(*found) - expected).abs() < 1e-4, "{found} not {expected} at {t}");
            }
        }
    }
}

#[test]
fn a_table_that_is_too_large_or_too_short_is_refused() {
    let shape = Shape::new(320, 320, 1);
    let blur = |shape| Box::new(Blur::new(shape, Boundary::Zero, 3.0).unwrap());
    let line = || Curve::straight(0.0, 3.0).unwrap();
    let error = PathTable::new(&staged(vec![(blur(shape), line())]), TABLE_ROWS).unwrap_err();
    assert!(matches!(error, TableError::TooLarge { .. }) && error.hint().unwrap().contains("data.size"), "{error}");
    let small = staged(vec![(blur(Shape::new(4, 4, 1)), line())]);
    assert!(matches!(PathTable::new(&small, 1), Err(TableError::Rows(1))));
}

/// Every weight far from zero, so that every input matters.
fn any_weights(graph: &Graph) -> Params<f32> {
    let mut params = Params::zeros(graph);
    for (index, spec) in params.specs().to_vec().iter().enumerate() {
        let count: usize = spec.shape.iter().product();
        let values = RandomStream::numbered(3, "weights", index).normals(count);
        let values: Vec<f32> = values.iter().map(|v| (0.3 * v) as f32).collect();
        params.set(&spec.name, &spec.shape, &values).unwrap();
    }
    params
}

#[test]
fn a_network_with_a_mask_channel_sees_the_mask_of_the_time_in_training_and_in_sampling() {
    let shape = Shape::new(8, 8, 1);
    let line = || Curve::straight(0.0, 1.0).unwrap();
    let path = Arc::new(staged(vec![(Box::new(Masking::new(shape, ErasureOrder::Spiral)), line())]));
    let config = UNetConfig { mask_channel: true, ..UNetConfig::small(8, 1, 8, &[1, 2]) };
    let (graph, net) = config.graph(1).unwrap();
    let params = any_weights(&graph);
    let mut stream = RandomStream::new(9, "mask channel");
    let (t, x0, z) = (0.6, stream.normals(shape.len()), stream.normals(shape.len()));
    let softdiff::path::Moment { map, sigma, .. } = path.at(t).unwrap();
    let xt = path.diffuse(&x0, t, &z).unwrap();

    // The network by hand, the mask beside every pixel.
    let mask = map.apply(shape, &vec![1.0; shape.len()]).unwrap();
    let beside: Vec<f32> = xt.iter().zip(&mask).flat_map(|(x, m)| [*x as f32, *m as f32]).collect();
    let mut run = CpuExecutor::<f32>::new(Plan::new(&graph, &[net.output]).unwrap());
    run.set("x", &beside).unwrap();
    run.set("condition", &[(999.0 * t) as f32]).unwrap();
    run.run(&params, 0, 0).unwrap();
    let output: Vec<f64> = run.get(net.output).unwrap().iter().map(|v| v.to_f64()).collect();
    let by_hand: Vec<f64> = xt.iter().zip(&output).map(|(x, f)| x + sigma * f).collect();

    let (prediction, condition) = (Prediction::PAPER, Condition::Time);
    let predictor =
        Predictor { network: &config, params: &params, prediction: prediction.clone(), condition, path: path.clone() };
    let mut denoiser = NetworkDenoiser::new(&Device::Cpu, predictor, 1, Precision::F32).unwrap();
    let x0_hat = denoiser.x0_hat(&xt, t).unwrap();
    assert!(x0_hat.iter().zip(&by_hand).all(|(a, b)| (a - b).abs() < 1e-4), "{x0_hat:?} {by_hand:?}");
    // The mask matters: a white one gives another prediction.
    run.set("x", &xt.iter().flat_map(|x| [*x as f32, 1.0]).collect::<Vec<f32>>()).unwrap();
    run.run(&params, 0, 0).unwrap();
    assert!(run.get(net.output).unwrap().iter().zip(&output).any(|(a, b)| (a.to_f64() - b).abs() > 1e-2));

    let table = PathTable::new(&path, TABLE_ROWS).unwrap();
    let (objective, noise) = (&Objective::PAPER, StepNoise::Inputs);
    let setting = StepSpec {
        path: &table,
        objective,
        prediction: &prediction,
        batch: 1,
        parts: 1,
        noise,
        mirror: false,
        expected: None,
    };
    let step = SoftStep::new(&config, &setting, false, false).unwrap();
    let mut run = CpuExecutor::<f32>::new(Plan::new(&step.graph, &[step.loss]).unwrap());
    let single = |values: &[f64]| values.iter().map(|&v| v as f32).collect::<Vec<f32>>();
    for (name, values) in [("x0", &x0[..]), ("z", &z), ("t", &[t])] {
        run.set(name, &single(values)).unwrap();
    }
    run.run(&params, 0, 0).unwrap();
    let loss = run.get(step.loss).unwrap()[0].to_f64();
    let squares = x0.iter().zip(&by_hand).zip(&mask).map(|((x, h), m)| (m * (h - x)).powi(2));
    let expected = 0.5 * squares.sum::<f64>() / (sigma * sigma);
    assert!((loss / expected - 1.0).abs() < 1e-3, "{loss} not {expected}");
}
