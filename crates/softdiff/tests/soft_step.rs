//! The whole training step against two independent programs (PyTorch and JAX, which agree to 1e-15 in f64).

mod official;

use official::{nhwc, signed, unit, weight};
use softdiff::corruption::{Blur, Boundary, Shape};
use softdiff::curve::Interpolation;
use softdiff::engine::cpu::CpuExecutor;
use softdiff::engine::cuda::{Chip, outline};
use softdiff::engine::{Graph, Params, Plan, Precision, Scalar, Var};
use softdiff::network::{Correspondence, Embedding, UNetConfig};
use softdiff::objective::{Objective, Prediction};
use softdiff::path::Path;
use softdiff::train::{PathTable, SoftStep, StepNoise, StepSpec, TABLE_ROWS};

/// The paper's path with levels spaced geometrically up to `largest`, in a table of so many rows.
fn blur(config: &UNetConfig, largest: f64, rows: usize) -> PathTable {
    let shape = Shape::new(config.image_size, config.image_size, config.image_channels);
    let blur = Blur::new(shape, Boundary::Zero, largest).unwrap();
    let mut knots: Vec<f64> = (0..32).map(|i| 0.05 * (largest / 0.05f64).powf(f64::from(i) / 31.0)).collect();
    knots[31] = largest;
    PathTable::new(&Path::two_stage(Box::new(blur), knots, Interpolation::Linear).unwrap(), rows).unwrap()
}

/// The paper's step.
fn soft_step(config: &UNetConfig, path: &PathTable, batch: usize, noise: StepNoise, recompute: bool) -> SoftStep {
    let (objective, prediction) = (&Objective::PAPER, &Prediction::PAPER);
    let spec = StepSpec { path, objective, prediction, batch, parts: 1, noise, mirror: true, expected: None };
    SoftStep::new(config, &spec, noise != StepNoise::Inputs, recompute).unwrap()
}

/// Loss, norm of all gradients, and the sum of their projections on fixed vectors.
fn evaluate<T: Scalar>(config: &UNetConfig, path: &PathTable) -> [f64; 3] {
    const BATCH: usize = 4;
    let step = soft_step(config, path, BATCH, StepNoise::Inputs, false);
    let correspondence = config.graph(1).unwrap().1.correspondence;
    let mut params = Params::<T>::zeros(&step.graph);
    let official = |name: &str| {
        let one = correspondence.iter().find(|c| c.official == name).unwrap();
        let values = weight(name, &one.official_shape).into_iter().map(|v| T::from_f64(v.into())).collect();
        Some((one.official_shape.clone(), values))
    };
    Correspondence::load_all(&correspondence, &mut params, &official).unwrap();
    let mut outputs = step.gradients.clone();
    outputs.push(step.loss);
    let mut run = CpuExecutor::<T>::new(Plan::new(&step.graph, &outputs).unwrap());
    let shape = [BATCH, 3, config.image_size, config.image_size];
    let n = shape.iter().product();
    let images: Vec<f64> = unit("soft.u8", n).map(|u| (256.0 * u).floor() / 255.0).collect();
    run.set_f64("x0", &nhwc(&images, &shape)).unwrap();
    let noise: Vec<f64> = signed("soft.z", n).map(|v| f64::from((3f64.sqrt() * v) as f32)).collect();
    run.set_f64("z", &nhwc(&noise, &shape)).unwrap();
    run.set_f64("flip", &unit("soft.flip", BATCH).map(|u| f64::from(u8::from(u < 0.5))).collect::<Vec<_>>()).unwrap();
    let times = unit("soft.t", BATCH).enumerate().map(|(b, u)| f64::from(((b as f64 + u) / BATCH as f64) as f32));
    run.set_f64("t", &times.collect::<Vec<_>>()).unwrap();
    run.run(&params, 0, 0).unwrap();
    let (mut squares, mut projection) = (0.0, 0.0);
    let trainable: Vec<_> = params.specs().iter().filter(|s| s.trainable).cloned().collect();
    for (spec, &gradient) in trainable.iter().zip(&step.gradients) {
        let one = correspondence.iter().find(|c| c.name == spec.name).unwrap();
        let values: Vec<f64> = run.get(gradient).unwrap().iter().map(|v| v.to_f64()).collect();
        let values = one.to_official(&values);
        squares += values.iter().map(|v| v * v).sum::<f64>();
        let vector = signed(&format!("proj.{}", one.official), values.len());
        projection += values.iter().zip(vector).map(|(g, v)| g * v).sum::<f64>();
    }
    [run.scalar(step.loss).unwrap().to_f64(), squares.sqrt(), projection]
}

#[test]
fn a_whole_step_equals_pytorch_and_jax() {
    let soft32 = UNetConfig { channels: 16, blocks: 1, ..UNetConfig::ncsnpp_cifar10() };
    let soft64 = UNetConfig { channels: 8, blocks: 1, ..UNetConfig::ncsnpp_celeba64() };
    assert_eq!(soft64.embedding, Embedding::Positional);
    let cases = [
        (soft32, 18.0, [1842.1726098049796, 3686.7085538996, 1296.08692247683]),
        (soft64, 23.0, [6109.429939774963, 11937.6613892104, 4713.68344351655]),
    ];
    for (config, largest, expected) in cases {
        let check = |found: [f64; 3], margin: f64, what: &str| {
            for (found, expected) in found.iter().zip(expected) {
                let error = (found - expected).abs() / expected;
                assert!(error < margin, "{what}: {found} against {expected}: {error:e}");
            }
        };
        // The table that training uses is linear between its rows; with more of them the step converges to the others'.
        let path = blur(&config, largest, TABLE_ROWS);
        check(evaluate::<f64>(&config, &path), 1e-5, "f64");
        check(evaluate::<f32>(&config, &path), 2e-4, "f32");
        check(evaluate::<f64>(&config, &blur(&config, largest, 8 * TABLE_ROWS)), 2e-7, "f64 with more rows");
    }
}

/// A step with dropout, and what it computes.
fn drawn(config: &UNetConfig, batch: usize, recompute: bool) -> (SoftStep, Vec<Var>) {
    let step = soft_step(config, &blur(config, 18.0, TABLE_ROWS), batch, StepNoise::Drawn, recompute);
    let outputs = step.gradients.iter().copied().chain([step.loss]).collect();
    (step, outputs)
}

#[test]
fn what_is_computed_again_gives_the_same_bits_in_less_memory() {
    let config = UNetConfig { channels: 8, blocks: 1, ..UNetConfig::ncsnpp_cifar10() };
    assert!(config.dropout > 0.0);
    let evaluate = |recompute| {
        let (step, outputs) = drawn(&config, 2, recompute);
        let plan = Plan::new(&step.graph, &outputs).unwrap();
        let bytes = plan.arena_bytes();
        let mut run = CpuExecutor::<f32>::new(plan);
        run.set("x0", &unit("again", 2 * 32 * 32 * 3).map(|v| v as f32).collect::<Vec<_>>()).unwrap();
        run.run(&Params::initialise(&step.graph, 1), 5, 6).unwrap();
        let bits = |&v: &Var| run.get(v).unwrap().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        (outputs.iter().map(bits).collect::<Vec<_>>(), bytes)
    };
    let (kept, again) = (evaluate(false), evaluate(true));
    assert!(kept.0 == again.0, "other bits");
    assert!(3 * again.1 < 2 * kept.1, "{} bytes of {}", again.1, kept.1);
}

#[test]
fn the_papers_step_needs_less_than_six_tenths_of_the_memory_if_it_computes_again() {
    let planned = |recompute| {
        let (step, outputs) = drawn(&UNetConfig::ncsnpp_cifar10(), 128, recompute);
        outline(&step.graph, &outputs, Precision::Bf16, Chip::HOPPER).unwrap().arena_bytes() as f64 * 1e-9
    };
    let (kept, again) = (planned(false), planned(true));
    assert!((3.7..3.75).contains(&kept) && (2.06..2.11).contains(&again), "{kept} GB and {again} GB");
}

#[test]
fn in_16_bits_no_channels_are_copied_to_join_them_unless_memory_matters_more() {
    let config = UNetConfig::ncsnpp_cifar10();
    let joins = |graph: &Graph, outputs: &[Var], numbers| -> usize {
        let plan = outline(graph, outputs, numbers, Chip::HOPPER).unwrap().to_string();
        let line = plan.lines().find(|line| line.starts_with("concat ")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    // One joins sine and cosine; six attentions join their weights and biases.
    let few = 1 + 2 * 6;
    let all = few + config.multipliers.len() * (config.blocks + 1);
    let (graph, net) = config.graph(128).unwrap();
    assert_eq!(joins(&graph, &[net.output], Precision::F32), all);
    assert_eq!(joins(&graph, &[net.output], Precision::Bf16), few);
    let (step, outputs) = drawn(&config, 128, false);
    assert_eq!(joins(&step.graph, &outputs, Precision::F32), all);
    assert_eq!(joins(&step.graph, &outputs, Precision::Bf16), few);
    let (step, outputs) = drawn(&config, 128, true);
    assert!(joins(&step.graph, &outputs, Precision::Bf16) >= 2 * all - few);
}
