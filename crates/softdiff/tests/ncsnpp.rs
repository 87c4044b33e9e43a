//! NCSN++ against the official PyTorch code (score_sde_pytorch cb1f359); see golden/ncsnpp/README.md.

mod official;

use official::{Golden, distance, nhwc, relative, signed, unit, weight};
use softdiff::engine::cpu::CpuExecutor;
use softdiff::engine::{Graph, Params, Plan, Result, Scalar, Var};
use softdiff::network::{Builder, Correspondence, Embedding, Resampling, UNetConfig, unet};

/// Largest relative L2 errors of a run in `T`.
struct Limits {
    output: f64,
    gradient: f64,
}

/// One building block of the golden set.
struct Block {
    case: &'static str,
    build: fn(&mut Builder, Var, Option<Var>) -> Result<Var>,
}

const BLOCKS: &[Block] = &[
    Block { case: "res_plain", build: |b, x, t| b.residual(x, t.unwrap(), 16, Resampling::None) },
    Block { case: "res_chan", build: |b, x, t| b.residual(x, t.unwrap(), 24, Resampling::None) },
    Block { case: "res_down", build: |b, x, t| b.residual(x, t.unwrap(), 16, Resampling::Down) },
    Block { case: "res_up", build: |b, x, t| b.residual(x, t.unwrap(), 16, Resampling::Up) },
    Block { case: "res_up_chan", build: |b, x, t| b.residual(x, t.unwrap(), 12, Resampling::Up) },
    Block { case: "res_groups32", build: |b, x, t| b.residual(x, t.unwrap(), 4, Resampling::None) },
    Block { case: "attn", build: |b, x, _| b.attention(x) },
    Block { case: "attn_rect", build: |b, x, _| b.attention(x) },
    Block { case: "nin", build: |b, x, _| b.network_in_network(x, ["", ""], 20, 0.1) },
    Block { case: "conv3x3", build: |b, x, _| b.conv(x, ["", ""], 3, 16, 1.0, softdiff::engine::op::Window::same(3)) },
    Block { case: "conv1x1", build: |b, x, _| b.conv(x, ["", ""], 1, 20, 1.0, softdiff::engine::op::Window::same(1)) },
    Block { case: "fir_down", build: |b, x, _| b.graph.fir_down(x, [1.0, 3.0, 3.0, 1.0]) },
    Block { case: "fir_up", build: |b, x, _| b.graph.fir_up(x, [1.0, 3.0, 3.0, 1.0]) },
    Block { case: "pyramid_down", build: |b, x, _| b.pyramid(x, None, 16) },
    Block { case: "pyramid_down_rect", build: |b, x, _| b.pyramid(x, None, 16) },
    Block { case: "norm_silu_groups32", build: |b, x, _| b.norm(x, "", "GroupNorm_0.", true) },
    Block { case: "norm_silu_groups6", build: |b, x, _| b.norm(x, "", "GroupNorm_0.", true) },
];

fn dims(value: &serde_json::Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as usize).collect()
}

fn check_block<T: Scalar>(golden: &Golden, block: &Block, limits: &Limits) {
    let case = block.case;
    let facts = &golden.json["cases"][case];
    let shape = dims(&facts["x"]);
    let mut g = Graph::new();
    let x = g.input("x", [shape[0], shape[2], shape[3], shape[1]]).unwrap();
    let temb = facts["temb"].is_array().then(|| g.input("temb", &dims(&facts["temb"])[..]).unwrap());
    let time = temb.map(|t| g.silu(t).unwrap());
    let mut builder = Builder::new(&mut g, &UNetConfig::ncsnpp_cifar10(), false);
    let out = builder.module("block", |b| (block.build)(b, x, time)).unwrap();
    let names = builder.correspondence;
    let target = g.input("target", g.shape(out).clone()).unwrap();
    let difference = g.sub(out, target).unwrap();
    let loss = g.sum_squares(difference).unwrap();
    let loss = g.scale(loss, 0.5).unwrap();
    let mut wrt = vec![x];
    wrt.extend(temb);
    wrt.extend(g.trainable());
    let gradients = g.gradients(loss, &wrt).unwrap();
    let mut outputs = gradients.clone();
    outputs.push(out);
    let mut params = Params::<T>::zeros(&g);
    let official = |name: &str| {
        let local = name.strip_prefix("all_modules.0.").unwrap();
        let shape = dims(&facts["params"][local]);
        let values = weight(&format!("block.{case}.{local}"), &shape);
        Some((shape, values.into_iter().map(|v| T::from_f64(v.into())).collect()))
    };
    Correspondence::load_all(&names, &mut params, &official).unwrap();
    let mut run = CpuExecutor::<T>::new(Plan::new(&g, &outputs).unwrap());
    let out_shape = dims(&facts["out"]);
    for (name, shape) in [("x", &shape), ("target", &out_shape)] {
        let values: Vec<f64> =
            signed(&format!("block.{case}.{name}"), shape.iter().product()).map(|v| f64::from(v as f32)).collect();
        run.set_f64(name, &nhwc(&values, shape)).unwrap();
    }
    if temb.is_some() {
        let values: Vec<f64> = signed(&format!("block.{case}.temb"), 40).map(|v| f64::from(v as f32)).collect();
        run.set_f64("temb", &values).unwrap();
    }
    run.run(&params, 0, 0).unwrap();
    let value = |v: Var| run.get(v).unwrap().iter().map(|v| v.to_f64());
    let error = relative(value(out), &nhwc(&golden.values(&format!("{case}.out")), &out_shape));
    assert!(error < limits.output, "{case} ({}): output is off by {error:e}", T::NAME);
    for (index, (&var, &gradient)) in wrt.iter().zip(&gradients).enumerate() {
        let (name, expected) = match (index, temb) {
            (0, _) => ("x".to_string(), nhwc(&golden.values(&format!("{case}.grad.x")), &shape)),
            (1, Some(_)) => ("temb".into(), golden.values(&format!("{case}.grad.temb"))),
            _ => {
                let ours = g.params().iter().find(|(_, v)| *v == var).map(|(s, _)| &s.name).unwrap();
                let one = names.iter().find(|c| c.name == *ours).unwrap();
                let local = one.official.strip_prefix("all_modules.0.").unwrap();
                (local.to_string(), one.from_official(&golden.values(&format!("{case}.grad.{local}"))))
            }
        };
        let found = value(gradient);
        let error = if name == "NIN_1.b" { distance(found, &expected) } else { relative(found, &expected) };
        assert!(error < limits.gradient, "{case} ({}): gradient of {name} is off by {error:e}", T::NAME);
    }
}

#[test]
fn every_block_equals_the_official_one() {
    let golden = Golden::read("blocks");
    for block in BLOCKS {
        check_block::<f32>(&golden, block, &Limits { output: 2e-6, gradient: 5e-6 });
        // The goldens are f64 results rounded to f32: 2^-24 each.
        check_block::<f64>(&golden, block, &Limits { output: 6e-8, gradient: 6e-8 });
    }
    let covered = BLOCKS.iter().map(|b| b.case);
    let cases = golden.json["cases"].as_object().unwrap().keys();
    let left: Vec<_> = cases.filter(|c| !covered.clone().any(|b| b == **c)).collect();
    assert_eq!(left, ["fourier", "positional128", "positional16", "positional24"], "tested below");
}

fn embed<T: Scalar>(embedding: Embedding, width: usize, frequencies: &[f64], conditions: &[f64]) -> Vec<f64> {
    let mut g = Graph::new();
    let condition = g.input("condition", [conditions.len()]).unwrap();
    let out =
        Builder::new(&mut g, &UNetConfig::ncsnpp_cifar10(), false).embedding(condition, embedding, width).unwrap();
    let mut params = Params::<T>::zeros(&g);
    if !frequencies.is_empty() {
        let values: Vec<T> = frequencies.iter().map(|&f| T::from_f64(f)).collect();
        params.set("time.fourier.frequencies", &[width].into(), &values).unwrap();
    }
    let mut run = CpuExecutor::<T>::new(Plan::new(&g, &[out]).unwrap());
    run.set_f64("condition", conditions).unwrap();
    run.run(&params, 0, 0).unwrap();
    run.get(out).unwrap().iter().map(|v| v.to_f64()).collect()
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn both_time_embeddings_equal_the_official_ones() {
    let golden = Golden::read("blocks");
    let logs: Vec<f64> = golden.values("fourier.sigma").iter().map(|s| s.ln()).collect();
    let frequencies = golden.values("fourier.W");
    let fourier = Embedding::Fourier { scale: 16.0 };
    let exact = golden.values("fourier.out64");
    assert!(largest_difference(&embed::<f64>(fourier, 24, &frequencies, &logs), &exact) < 1e-12);
    // Angles reach some 400 radians: one ulp of f32 there is 3e-5.
    assert!(largest_difference(&embed::<f32>(fourier, 24, &frequencies, &logs), &exact) < 1e-4);
    for width in [16, 24, 128] {
        let times = golden.values(&format!("positional{width}.t"));
        let exact = golden.values(&format!("positional{width}.out64"));
        assert!(largest_difference(&embed::<f64>(Embedding::Positional, width, &[], &times), &exact) < 1e-12);
        assert!(largest_difference(&embed::<f32>(Embedding::Positional, width, &[], &times), &exact) < 1e-4);
    }
}

/// A whole network of the golden set, in a graph with its loss and all gradients.
struct Network<T> {
    run: CpuExecutor<T>,
    params: Params<T>,
    out: Var,
    loss: Var,
    /// By official name; the image's gradient first, as `x`.
    gradients: Vec<(String, Correspondence, Var)>,
    image_gradient: Var,
}

fn config(golden: &Golden) -> UNetConfig {
    let c = &golden.json["config"];
    UNetConfig {
        image_size: c["image_size"].as_u64().unwrap() as usize,
        channels: c["nf"].as_u64().unwrap() as usize,
        multipliers: dims(&c["ch_mult"]),
        blocks: c["num_res_blocks"].as_u64().unwrap() as usize,
        attention: dims(&c["attn_resolutions"]),
        embedding: if c["embedding_type"] == "fourier" {
            Embedding::Fourier { scale: 16.0 }
        } else {
            Embedding::Positional
        },
        ..UNetConfig::ncsnpp_cifar10()
    }
}

fn network<T: Scalar>(golden: &Golden, batch: usize, official: impl Fn(&str, &[usize]) -> Vec<f32>) -> Network<T> {
    let config = config(golden);
    config.check().unwrap();
    let size = config.image_size;
    let mut g = Graph::new();
    let x = g.input("x", [batch, size, size, 3]).unwrap();
    let condition = g.input("condition", [batch]).unwrap();
    let inverse_sigma = g.input("inverse_sigma", [batch, 1, 1, 1]).unwrap();
    let target = g.input("target", [batch, size, size, 3]).unwrap();
    let net = unet(&mut g, &config, x, condition, false).unwrap();
    let out = g.mul(net.output, inverse_sigma).unwrap();
    let difference = g.sub(out, target).unwrap();
    let squares = g.sum_squares(difference).unwrap();
    let loss = g.scale(squares, 0.5 / batch as f64).unwrap();
    let mut wrt = vec![x];
    wrt.extend(g.trainable());
    let gradients = g.gradients(loss, &wrt).unwrap();
    let mut params = Params::<T>::zeros(&g);
    let shapes: std::collections::HashMap<String, Vec<usize>> =
        net.correspondence.iter().map(|c| (c.official.clone(), c.official_shape.clone())).collect();
    let source = |name: &str| {
        let shape = shapes[name].clone();
        let values = official(name, &shape).into_iter().map(|v| T::from_f64(v.into())).collect();
        Some((shape, values))
    };
    Correspondence::load_all(&net.correspondence, &mut params, &source).unwrap();
    let mut outputs = gradients.clone();
    outputs.extend([out, loss]);
    let run = CpuExecutor::<T>::new(Plan::new(&g, &outputs).unwrap());
    let trainable = g.params().iter().filter(|(spec, _)| spec.trainable);
    let gradients_by_name = trainable
        .zip(&gradients[1..])
        .map(|((spec, _), &v)| {
            let one = net.correspondence.iter().find(|c| c.name == spec.name).unwrap().clone();
            (one.official.clone(), one, v)
        })
        .collect();
    Network { run, params, out, loss, gradients: gradients_by_name, image_gradient: gradients[0] }
}

fn shape_of(golden: &Golden, batch: usize) -> Vec<usize> {
    let size = golden.json["config"]["image_size"].as_u64().unwrap() as usize;
    vec![batch, 3, size, size]
}

impl<T: Scalar> Network<T> {
    /// Runs on the closed-form image, conditioned on `cond` (sigma or label) at noise level `sigma`.
    fn evaluate(&mut self, golden: &Golden, cond: &[f64], sigma: &[f64]) {
        let shape = shape_of(golden, cond.len());
        let n = shape.iter().product();
        let x: Vec<f64> = unit("input.x", n).map(|v| f64::from(v as f32)).collect();
        let target: Vec<f64> = signed("input.target", n).map(|v| f64::from(v as f32)).collect();
        let fourier = golden.json["config"]["embedding_type"] == "fourier";
        let condition: Vec<f64> = cond.iter().map(|c| if fourier { c.ln() } else { *c }).collect();
        self.run.set_f64("x", &nhwc(&x, &shape)).unwrap();
        self.run.set_f64("target", &nhwc(&target, &shape)).unwrap();
        self.run.set_f64("condition", &condition).unwrap();
        self.run.set_f64("inverse_sigma", &sigma.iter().map(|s| 1.0 / s).collect::<Vec<_>>()).unwrap();
        self.run.run(&self.params, 0, 0).unwrap();
    }

    fn values(&self, var: Var) -> Vec<f64> {
        self.run.get(var).unwrap().iter().map(|v| v.to_f64()).collect()
    }

    fn check(&mut self, name: &str, golden: &Golden, limits: &Limits) {
        let (cond, sigma) = (golden.values("cond"), golden.values("sigma"));
        self.evaluate(golden, &cond, &sigma);
        let shape = shape_of(golden, cond.len());
        let kind = T::NAME;
        let error = relative(self.values(self.out), &nhwc(&golden.values("out64"), &shape));
        assert!(error < limits.output, "{name} ({kind}): output is off by {error:e}");
        let loss = golden.json["loss_f64"].as_f64().unwrap();
        let loss_error = (self.run.scalar(self.loss).unwrap().to_f64() - loss).abs() / loss;
        assert!(loss_error < limits.output, "{name} ({kind}): loss is off by {loss_error:e}");
        let image = relative(self.values(self.image_gradient), &nhwc(&golden.values("grad.x"), &shape));
        assert!(image < limits.gradient, "{name} ({kind}): gradient of x is off by {image:e}");
        let total = golden.json["grad_l2_all_params"].as_f64().unwrap();
        let mut worst = (0.0, String::new());
        for (official, one, var) in &self.gradients {
            let facts = &golden.json["params"][official];
            let found = one.to_official(&self.values(*var));
            let norm = found.iter().map(|v| v * v).sum::<f64>().sqrt();
            if facts["zero"] == true {
                assert!(norm / total < 1e-7, "{name} ({kind}): gradient of {official} should vanish: {norm:e}");
                continue;
            }
            let expected = facts["grad_l2"].as_f64().unwrap();
            // Either the whole gradient, or its norm and its projection on a fixed random vector.
            let error = match golden.tensor(&format!("grad.{official}")) {
                Some((_, stored)) => relative(found, &stored),
                None => {
                    let projection = signed(&format!("proj.{official}"), found.len());
                    let dot: f64 = found.iter().zip(projection).map(|(g, v)| g * v).sum();
                    let dot_error = (dot - facts["grad_dot"].as_f64().unwrap()).abs() / expected;
                    dot_error.max((norm - expected).abs() / expected)
                }
            };
            if error > worst.0 {
                worst = (error, official.clone());
            }
        }
        assert!(worst.0 < limits.gradient, "{name} ({kind}): gradient of {} is off by {:e}", worst.1, worst.0);
        println!("{name} {kind}: output {error:.1e}, worst gradient {:.1e} ({})", worst.0, worst.1);
    }
}

#[test]
fn the_tiny_networks_equal_the_official_ones_with_every_gradient() {
    for name in ["tiny-fourier", "tiny-positional"] {
        let golden = Golden::read(name);
        network::<f32>(&golden, 2, weight).check(name, &golden, &Limits { output: 1e-5, gradient: 1e-4 });
        network::<f64>(&golden, 2, weight).check(name, &golden, &Limits { output: 1e-12, gradient: 1e-7 });
    }
}

#[test]
fn the_tiny_networks_hold_at_extreme_noise_levels() {
    for name in ["tiny-fourier", "tiny-positional"] {
        let golden = Golden::read(name);
        let cond = golden.values("cond_sweep");
        let c = &golden.json["config"];
        let (low, high) = (c["sigma_min"].as_f64().unwrap().ln(), c["sigma_max"].as_f64().unwrap().ln());
        let fourier = c["embedding_type"] == "fourier";
        let at = |label: &f64| if fourier { *label } else { (high + (low - high) * label / 999.0).exp() };
        let sigma: Vec<f64> = cond.iter().map(at).collect();
        let exact = nhwc(&golden.values("out_sweep64"), &shape_of(&golden, 2));
        let mut single = network::<f32>(&golden, 2, weight);
        single.evaluate(&golden, &cond, &sigma);
        let half = exact.len() / 2;
        let found = single.values(single.out);
        for image in [0..half, half..2 * half] {
            let error = relative(found[image.clone()].iter().copied(), &exact[image]);
            assert!(error < 5e-5, "{name}: f32 output is off by {error:e}");
        }
        let mut double = network::<f64>(&golden, 2, weight);
        double.evaluate(&golden, &cond, &sigma);
        let error = relative(double.values(double.out), &exact);
        assert!(error < 1e-11, "{name}: f64 output is off by {error:e}");
    }
}

#[test]
fn an_imported_checkpoint_computes_what_the_official_network_computes() {
    let golden = Golden::read("tiny.out");
    let facts: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(official::golden("tiny.json")).unwrap()).unwrap();
    let golden = Golden { json: facts, ..golden };
    let checkpoint = softdiff::import::ScoreSdeCheckpoint::read(official::golden("tiny.pth")).unwrap();
    let find = |name: &str, _: &[usize]| checkpoint.ema.iter().find(|(n, _)| n == name).unwrap().1.data.clone();
    let sigma = golden.values("sigma");
    let exact = nhwc(&golden.values("out64"), &[2, 3, 32, 32]);
    let mut single = network::<f32>(&golden, 2, find);
    single.evaluate(&golden, &sigma, &sigma);
    assert!(relative(single.values(single.out), &exact) < 1e-5);
    let mut double = network::<f64>(&golden, 2, find);
    double.evaluate(&golden, &sigma, &sigma);
    assert!(relative(double.values(double.out), &exact) < 1e-12);
}

/// 62.7 million parameters each: `cargo test --release --test ncsnpp -- --ignored` (half a minute, 4 GB).
#[test]
#[ignore = "large; see the command in docs/engine.md"]
fn the_full_networks_equal_the_official_ones() {
    for (name, parameters) in [("full-cifar", 62_758_915), ("full-celeba", 62_693_251)] {
        let golden = Golden::read(name);
        let mut net = network::<f32>(&golden, 1, weight);
        assert_eq!(net.params.numel(), parameters);
        net.check(name, &golden, &Limits { output: 1e-5, gradient: 3e-4 });
        drop(net);
        network::<f64>(&golden, 1, weight).check(name, &golden, &Limits { output: 1e-12, gradient: 1e-7 });
    }
}
