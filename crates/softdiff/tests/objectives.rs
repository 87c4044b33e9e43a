//! The objectives: engine against plain functions, special cases, bounds, and Theorem 3.1.

use softdiff::corruption::{
    Blur, Boundary, Corruption, Decolourisation, ErasureOrder, Grey, LinearMap, Masking, Shape, cosine_basis,
};
use softdiff::curve::{Curve, Interpolation};
use softdiff::engine::cpu::CpuExecutor;
use softdiff::engine::rng::RandomStream;
use softdiff::engine::{Graph, Init, Params, Plan};
use softdiff::hint::Hint;
use softdiff::linalg::{Cholesky, Matrix};
use softdiff::noise::Alpha;
use softdiff::noise::Noise as PathNoise;
use softdiff::objective::*;
use softdiff::path::{LevelSchedule, Path};
use softdiff::sampler::{Denoiser, GaussianPart, Oracle};
use softdiff::train::{PathTable, StepLoss, StepNoise, StepSpec};

const SHAPE: Shape = Shape { height: 5, width: 5, channels: 3 };

fn paths() -> Vec<Path> {
    let knots = vec![0.01, 0.5, 1.0, 3.0];
    let blur = Box::new(Blur::new(SHAPE, Boundary::Zero, 3.0).unwrap());
    let mask = Box::new(Masking::soft(SHAPE, ErasureOrder::Spiral, 0.3).unwrap());
    let grey = Box::new(Decolourisation::new(SHAPE, Grey::Luma).unwrap());
    let level = |full: f64| LevelSchedule::Curve { curve: Curve::straight(0.0, full).unwrap(), start: 0.1 };
    let both: Vec<(Box<dyn Corruption>, _)> = vec![(grey, level(0.9)), (mask, level(0.8))];
    vec![
        Path::two_stage(blur, knots, Interpolation::Linear).unwrap(),
        Path::new(both, PathNoise::PAPER).unwrap(),
        Path::variance_preserving(SHAPE, Alpha::COSINE).unwrap(),
        Path::blurring_diffusion(SHAPE).unwrap(),
    ]
}

fn every_objective() -> Vec<Objective> {
    let weights = [Weight::One, Weight::InverseVariance, Weight::InverseFourth, Weight::MinSnr { most: 20.0 }];
    let kinds = [Kind::Soft, Kind::LookAhead { farthest: 0.3 }, Kind::Clean, Kind::OneStep { step: 0.05 }, Kind::Noise];
    let mut list = Vec::new();
    for kind in kinds {
        for weight in weights {
            for parametrisation in [Parametrisation::Residual, Parametrisation::Clean] {
                for scale in [OutputScale::Sigma, OutputScale::One, OutputScale::InverseSigma] {
                    let head = Head { parametrisation, scale };
                    list.push(Objective { kind, weight, head, ..Objective::PAPER });
                    if matches!(kind, Kind::Soft | Kind::LookAhead { .. }) {
                        list.push(Objective { kind, weight, head, mixture: 0.3, ..Objective::PAPER });
                    }
                }
            }
        }
    }
    list
}

#[test]
fn the_engine_computes_every_objective_and_its_gradient() {
    const N: usize = 4;
    let mut stream = RandomStream::new(1, "objectives");
    for path in paths() {
        // All of them rows of the table, where it is exact.
        let (times, earlier) = ([0.05, 0.3, 0.6, 0.95], [0.0, 0.1, 0.5, 0.9]);
        let table = PathTable::new(&path, 21).unwrap();
        let [x0, eta, output] = [0, 1, 2].map(|_| stream.normals(N * SHAPE.len()));
        let mut xt = Vec::new();
        for ((x0, eta), t) in x0.chunks(SHAPE.len()).zip(eta.chunks(SHAPE.len())).zip(times) {
            xt.extend(path.diffuse(x0, t, eta).unwrap());
        }
        for objective in every_objective() {
            let mut g = Graph::new();
            let images = [N, SHAPE.height, SHAPE.width, SHAPE.channels];
            let [a, b, c] = ["x0", "xt", "output"].map(|name| g.input(name, images).unwrap());
            let [t, second] = ["t", "earlier"].map(|name| g.input(name, [N]).unwrap());
            let now = table.moment(&mut g, t).unwrap();
            let before = table.moment(&mut g, second).unwrap();
            let (prediction, second) = (&objective.prediction(), Some(&before));
            let batch = EmittedBatch { x0: a, xt: b, output: c, prediction, t, now: &now, earlier: second };
            let losses = objective.emit(&mut g, &batch).unwrap();
            let total = g.sum(losses).unwrap();
            let gradient = g.gradients(total, &[c]).unwrap()[0];
            let mut run = CpuExecutor::<f64>::new(Plan::new(&g, &[losses, gradient]).unwrap());
            let inputs = [("x0", &x0[..]), ("xt", &xt), ("output", &output), ("t", &times), ("earlier", &earlier)];
            for (name, values) in inputs {
                // An objective does not read everything.
                let _ = run.set(name, values);
            }
            run.run(&Params::zeros(&g), 0, 0).unwrap();
            for i in 0..N {
                let part = i * SHAPE.len()..(i + 1) * SHAPE.len();
                let (moment, before) = (path.at(times[i]).unwrap(), path.at(earlier[i]).unwrap().map);
                let loss = |output: &[f64]| {
                    let example = Example {
                        shape: SHAPE,
                        x0: &x0[part.clone()],
                        xt: &xt[part.clone()],
                        output,
                        map: &moment.map,
                        sigma: moment.sigma,
                        earlier: Some(&before),
                    };
                    objective.loss(&example).unwrap()
                };
                let expected = loss(&output[part.clone()]);
                let found = run.get(losses).unwrap()[i];
                assert!((found - expected).abs() < 1e-12 * expected, "{objective:?}: {found} not {expected}");
                // The loss is quadratic in the output: a central difference has rounding errors only.
                let direction = RandomStream::new(9, "direction").normals(SHAPE.len());
                let shifted = |size: f64| -> Vec<f64> {
                    output[part.clone()].iter().zip(&direction).map(|(o, d)| o + size * d).collect()
                };
                let slope = (loss(&shifted(1.0)) - loss(&shifted(-1.0))) / 2.0;
                let found: f64 = run.get(gradient).unwrap()[part].iter().zip(&direction).map(|(g, d)| g * d).sum();
                assert!(
                    (found - slope).abs() < 1e-6 * (slope.abs() + 1e-3 * expected),
                    "{objective:?}: {found} not {slope}"
                );
            }
        }
    }
}

#[test]
fn denoising_score_matching_is_the_soft_loss_without_corruption() {
    let mut stream = RandomStream::new(2, "dsm");
    for sigma in [0.01, 0.3, 20.0] {
        let [x0, eta, output] = [0, 1, 2].map(|_| stream.normals(SHAPE.len()));
        let xt: Vec<f64> = x0.iter().zip(&eta).map(|(x, e)| x + sigma * e).collect();
        let objective = Objective { weight: Weight::InverseFourth, ..Objective::PAPER };
        let map = LinearMap::Identity;
        let example = Example { shape: SHAPE, x0: &x0, xt: &xt, output: &output, map: &map, sigma, earlier: None };
        // phi = sigma F and score = phi / sigma^2 (Eq. 8 and 10 with C = I).
        let score: Vec<f64> = output.iter().map(|f| f / sigma).collect();
        let (soft, dsm) =
            (objective.loss(&example).unwrap(), denoising_score_matching(&x0, &xt, &score, sigma).unwrap());
        assert!((soft - dsm).abs() <= 1e-12 * dsm, "{soft} {dsm}");
    }
}

#[test]
fn the_soft_loss_with_the_score_of_equation_8_is_denoising_score_matching_for_any_corruption() {
    let mut stream = RandomStream::new(3, "equation 8");
    for path in paths() {
        let moment = path.at(0.7).unwrap();
        let [x0, eta, output] = [0, 1, 2].map(|_| stream.normals(SHAPE.len()));
        let xt = path.diffuse(&x0, 0.7, &eta).unwrap();
        let objective = Objective { weight: Weight::InverseFourth, ..Objective::PAPER };
        let h = objective.head.x0_hat(&output, &xt, moment.sigma).unwrap();
        let (ch, y) = (moment.map.apply(SHAPE, &h).unwrap(), moment.map.apply(SHAPE, &x0).unwrap());
        let score: Vec<f64> = ch.iter().zip(&xt).map(|(y, x)| (y - x) / moment.sigma.powi(2)).collect();
        let dsm = denoising_score_matching(&y, &xt, &score, moment.sigma).unwrap();
        let (map, sigma) = (&moment.map, moment.sigma);
        let example = Example { shape: SHAPE, x0: &x0, xt: &xt, output: &output, map, sigma, earlier: None };
        let soft = objective.loss(&example).unwrap();
        assert!((soft - dsm).abs() <= 1e-11 * dsm, "{soft} {dsm}");
    }
}

#[test]
fn noise_prediction_is_the_soft_loss_of_its_own_image_for_vp() {
    let path = Path::variance_preserving(SHAPE, Alpha::COSINE).unwrap();
    let moment = path.at(0.4).unwrap();
    let alpha = moment.map.apply(SHAPE, &[1.0; 75]).unwrap()[0];
    let mut stream = RandomStream::new(4, "noise");
    let [x0, eta, output] = [0, 1, 2].map(|_| stream.normals(SHAPE.len()));
    let xt = path.diffuse(&x0, 0.4, &eta).unwrap();
    let (map, sigma) = (&moment.map, moment.sigma);
    let clean: Vec<f64> = xt.iter().zip(&output).map(|(x, f)| (x - sigma * f) / alpha).collect();
    let example = Example { shape: SHAPE, x0: &x0, xt: &xt, output: &output, map, sigma, earlier: None };
    let noise = Objective { kind: Kind::Noise, weight: Weight::One, ..Objective::PAPER }.loss(&example).unwrap();
    let head = Head { parametrisation: Parametrisation::Clean, scale: OutputScale::One };
    let soft = Objective { head, ..Objective::PAPER };
    let soft = soft.loss(&Example { output: &clean, ..example }).unwrap();
    assert!((noise - soft).abs() < 1e-11 * noise, "{noise} {soft}");
}

#[test]
fn the_soft_loss_is_bounded_by_the_clean_loss_on_1000_random_batches() {
    let mut stream = RandomStream::new(5, "bound");
    let paths = paths();
    for _ in 0..1000 {
        let path = &paths[stream.below(paths.len())];
        let t = 0.02 + 0.96 * stream.uniform();
        let moment = path.at(t).unwrap();
        let norm = moment.map.norm(SHAPE).unwrap().value;
        let [x0, eta, output] = [0, 1, 2].map(|_| stream.normals(SHAPE.len()));
        let xt = path.diffuse(&x0, t, &eta).unwrap();
        let (map, sigma) = (&moment.map, moment.sigma);
        let example = Example { shape: SHAPE, x0: &x0, xt: &xt, output: &output, map, sigma, earlier: None };
        let soft = Objective::PAPER.loss(&example).unwrap();
        let clean = Objective { kind: Kind::Clean, ..Objective::PAPER }.loss(&example).unwrap();
        assert!(soft <= norm * norm * clean * (1.0 + 1e-6), "{soft} above {norm}^2 {clean}");
    }
}

type Score = fn(&[f64; 2]) -> [f64; 2];

/// Three wrong scores of two variables.
fn guesses() -> [Score; 3] {
    [|x| [-x[0], -x[1]], |x| [(2.0 * x[0]).sin(), x[0] * x[1] / 3.0], |_| [0.4, -0.7]]
}

/// Theorem 3.1 in the plane with a mixing matrix: x0 is one of 48 draws of a mixture of two Gaussians, so that q_t is a
/// mixture of 48 Gaussians, and both expectations are integrals over the plane.
#[test]
fn theorem_3_1_the_two_objectives_differ_by_a_constant() {
    let c = Matrix::from_vec(2, 2, vec![0.8, 0.3, -0.1, 0.5]).unwrap();
    let sigma = 0.3;
    let mut stream = RandomStream::new(6, "theorem");
    // 24 draws of each part of the mixture, with equal weights.
    let mut centres = Vec::new();
    for mean in [[-1.0, 0.5], [0.8, -0.4]] {
        for _ in 0..24 {
            let x0 = [mean[0] + 0.3 * stream.normal(), mean[1] + 0.2 * stream.normal()];
            centres.push(c.times_vector(&x0));
        }
    }
    let weight = 1.0 / centres.len() as f64;
    // The trapezoid rule is exact to rounding for what decays like a Gaussian: 241^2 points, 0.03 apart.
    let spacing = 0.03;
    let conditional = |x: &[f64; 2], y: &[f64]| {
        let squares = (x[0] - y[0]).powi(2) + (x[1] - y[1]).powi(2);
        (-squares / (2.0 * sigma * sigma)).exp() / (std::f64::consts::TAU * sigma * sigma)
    };
    let mut constants = Vec::new();
    for score in guesses() {
        let (mut j1, mut j2) = (0.0, 0.0);
        for k in 0..241 * 241 {
            let x = [(k / 241) as f64 * spacing - 3.6, (k % 241) as f64 * spacing - 3.6];
            let s = score(&x);
            let (mut q, mut slope) = (0.0, [0.0; 2]);
            for y in &centres {
                let density = weight * conditional(&x, y);
                let target = [(y[0] - x[0]) / (sigma * sigma), (y[1] - x[1]) / (sigma * sigma)];
                q += density;
                slope = [slope[0] + density * target[0], slope[1] + density * target[1]];
                j2 += density * denoising_score_matching(y, &x, &s, sigma).unwrap();
            }
            if q > 0.0 {
                j1 += q * 0.5 * ((s[0] - slope[0] / q).powi(2) + (s[1] - slope[1] / q).powi(2));
            }
        }
        constants.push((j1 - j2) * spacing * spacing);
    }
    println!("J1 - J2 = {constants:?}");
    assert!(constants[0] < -1.0);
    for constant in &constants {
        assert!((constant - constants[0]).abs() < 1e-9 * constants[0].abs(), "{constants:?}");
    }
}

#[test]
fn a_table_is_exact_at_its_rows_and_close_between_them() {
    for path in paths() {
        let table = PathTable::new(&path, 257).unwrap();
        let mut g = Graph::new();
        let x = g.input("x", [3, SHAPE.height, SHAPE.width, SHAPE.channels]).unwrap();
        let t = g.input("t", [3]).unwrap();
        let moment = table.moment(&mut g, t).unwrap();
        let y = moment.apply(&mut g, x).unwrap();
        let mut run = CpuExecutor::<f64>::new(Plan::new(&g, &[y, moment.sigma]).unwrap());
        let images = RandomStream::new(7, "table").normals(3 * SHAPE.len());
        run.set("x", &images).unwrap();
        for (times, margin) in [([0.0, 0.25, 1.0], 1e-12), ([0.111, 0.5013, 0.83], 2e-3)] {
            run.set("t", &times).unwrap();
            run.run(&Params::zeros(&g), 0, 0).unwrap();
            for (i, t) in times.into_iter().enumerate() {
                let exact = path.at(t).unwrap();
                let part = i * SHAPE.len()..(i + 1) * SHAPE.len();
                let expected = exact.map.apply(SHAPE, &images[part.clone()]).unwrap();
                for (found, expected) in run.get(y).unwrap()[part].iter().zip(&expected) {
                    assert!((found - expected).abs() < margin, "{found} not {expected} at {t}");
                }
                assert!((run.get(moment.sigma).unwrap()[i] - exact.sigma).abs() < margin);
            }
        }
    }
}

#[test]
fn a_whole_step_has_the_loss_of_the_plain_functions() {
    const N: usize = 3;
    let objective = Objective { kind: Kind::LookAhead { farthest: 0.2 }, ..Objective::PAPER };
    let mut stream = RandomStream::new(8, "step");
    for path in paths() {
        let (times, ahead) = ([0.1, 0.5, 0.9], [0.9, 0.3, 0.5]);
        let earlier: Vec<f64> = times.iter().zip(ahead).map(|(t, u)| f64::max(t - 0.2 * u, 0.0)).collect();
        // All of them rows of the table, where it is exact.
        let table = PathTable::new(&path, 51).unwrap();
        let mut g = Graph::new();
        let setting = StepSpec {
            path: &table,
            objective: &objective,
            prediction: &objective.prediction(),
            batch: N,
            parts: 1,
            noise: StepNoise::Inputs,
            mirror: false,
            expected: None,
        };
        let step = StepLoss::emit(&mut g, &setting, |g, xt, _| {
            let gain = g.param("gain", [1, 1, 1, 1], Init::Constant(0.3))?;
            g.mul(xt, gain)
        })
        .unwrap();
        let mut run = CpuExecutor::<f64>::new(Plan::new(&g, &[step.loss]).unwrap());
        let [x0, z] = [0, 1].map(|_| stream.normals(N * SHAPE.len()));
        for (name, values) in [("x0", &x0[..]), ("z", &z), ("t", &times), ("ahead", &ahead)] {
            run.set(name, values).unwrap();
        }
        run.run(&Params::initialise(&g, 1), 0, 0).unwrap();
        let mut expected = 0.0;
        for i in 0..N {
            let part = i * SHAPE.len()..(i + 1) * SHAPE.len();
            let (moment, before) = (path.at(times[i]).unwrap(), path.at(earlier[i]).unwrap().map);
            let xt = path.diffuse(&x0[part.clone()], times[i], &z[part.clone()]).unwrap();
            let output: Vec<f64> = xt.iter().map(|x| 0.3 * x).collect();
            let (x0, map, sigma) = (&x0[part], &moment.map, moment.sigma);
            let earlier = Some(&before);
            let example = Example { shape: SHAPE, x0, xt: &xt, output: &output, map, sigma, earlier };
            expected += objective.loss(&example).unwrap() / N as f64;
        }
        let found = run.scalar(step.loss).unwrap();
        assert!((found - expected).abs() < 1e-12 * expected, "{found} not {expected}");
    }
}

#[test]
fn bad_numbers_are_typed_errors() {
    let (x, map) = ([0.5; 4], LinearMap::Identity);
    let shape = Shape::new(2, 2, 1);
    let good = Example { shape, x0: &x, xt: &x, output: &x, map: &map, sigma: 0.1, earlier: None };
    let say = |objective: Objective, example: &Example| objective.loss(example).unwrap_err().in_full();
    assert!(say(Objective::PAPER, &Example { sigma: 0.0, ..good }).contains("divides by the noise"));
    assert!(say(Objective::PAPER, &Example { xt: &x[1..], ..good }).contains("x_t has 3 values, expected 4"));
    let look = Objective { kind: Kind::LookAhead { farthest: 0.1 }, ..Objective::PAPER };
    assert!(say(look, &good).contains("give the map of that time"));
    let far = Objective { kind: Kind::LookAhead { farthest: 2.0 }, ..Objective::PAPER };
    assert!(say(far, &good).contains("from 0 to 1"));
    let weight = Objective { weight: Weight::MinSnr { most: 0.0 }, ..Objective::PAPER };
    assert!(say(weight, &good).contains("above 0"));
}

/// Gaussian images with independent cosines, of variance 1 / (1 + frequency^2), the channels of different strength.
fn cosine_covariance() -> Matrix {
    let (rows, cols) = (cosine_basis(SHAPE.height), cosine_basis(SHAPE.width));
    let place = |index: usize| (index / 3 / SHAPE.width, index / 3 % SHAPE.width, index % 3);
    Matrix::from_fn(SHAPE.len(), SHAPE.len(), |a, b| {
        let ((ya, xa, ca), (yb, xb, cb)) = (place(a), place(b));
        if ca != cb {
            return 0.0;
        }
        let modes = (0..SHAPE.height).flat_map(|k| (0..SHAPE.width).map(move |l| (k, l)));
        let of = |(k, l): (usize, usize)| rows[(k, ya)] * cols[(l, xa)] * rows[(k, yb)] * cols[(l, xb)];
        modes.map(|(k, l)| of((k, l)) / (1 + k * k + l * l) as f64).sum::<f64>() / (1 + ca) as f64
    })
}

#[test]
fn the_expected_loss_is_that_of_the_exact_denoiser_of_gaussian_images() {
    const N: usize = 4000;
    let covariance = cosine_covariance();
    let factor = Cholesky::new(&covariance).unwrap();
    let mut stream = RandomStream::new(4, "gaussian images");
    let x0: Vec<f64> = (0..N).flat_map(|_| factor.lower().times_vector(&stream.normals(SHAPE.len()))).collect();
    let head = Head { parametrisation: Parametrisation::Clean, scale: OutputScale::One };
    let objective = Objective { head, ..Objective::PAPER };
    for path in [Path::blurring_diffusion(SHAPE).unwrap(), Path::variance_preserving(SHAPE, Alpha::COSINE).unwrap()] {
        let expected = expected_loss(&path, &x0).unwrap();
        let part = GaussianPart { weight: 1.0, mean: vec![0.0; SHAPE.len()], covariance: covariance.clone() };
        let mut oracle = Oracle::new(&path, vec![part]).unwrap();
        for t in [0.25, 0.5, 0.75] {
            let moment = path.at(t).unwrap();
            let mut total = 0.0;
            for x0 in x0.chunks(SHAPE.len()) {
                let xt = path.diffuse(x0, t, &stream.normals(SHAPE.len())).unwrap();
                let output = oracle.x0_hat(&xt, t).unwrap();
                let (map, sigma) = (&moment.map, moment.sigma);
                let example = Example { shape: SHAPE, x0, xt: &xt, output: &output, map, sigma, earlier: None };
                total += objective.loss(&example).unwrap() / N as f64;
            }
            let found = expected[(t * (expected.len() - 1) as f64) as usize];
            assert!((found / total - 1.0).abs() < 0.02, "{found} expected, {total} measured at {t}");
        }
    }
}

#[test]
fn equal_images_leave_a_loss_that_can_be_divided_by() {
    let path = &paths()[0];
    assert!(expected_loss(path, &vec![0.5; 4 * SHAPE.len()]).unwrap().iter().all(|&loss| loss == 1.0));
}

#[test]
fn a_balanced_step_divides_by_the_expected_loss() {
    let path = &paths()[2];
    let table = PathTable::new(path, 64).unwrap();
    let loss = |expected: Option<&[f64]>| {
        let objective = Objective { weight: Weight::Balanced, ..Objective::PAPER };
        let setting = StepSpec {
            path: &table,
            objective: &objective,
            prediction: &objective.prediction(),
            batch: 2,
            parts: 1,
            noise: StepNoise::Inputs,
            mirror: false,
            expected,
        };
        let mut g = Graph::new();
        let step = StepLoss::emit(&mut g, &setting, |g, xt, _| g.scale(xt, 0.5)).unwrap();
        let mut run = CpuExecutor::<f64>::new(Plan::new(&g, &[step.losses]).unwrap());
        let mut stream = RandomStream::new(5, "balanced");
        for name in ["x0", "z"] {
            run.set(name, &stream.normals(2 * SHAPE.len())).unwrap();
        }
        run.set("t", &[0.25, 0.75]).unwrap();
        run.run(&Params::initialise(&g, 1), 0, 0).unwrap();
        run.get(step.losses).unwrap().to_vec()
    };
    let (plain, balanced) = (loss(None), loss(Some(&[4.0, 2.0, 0.5])));
    // Inverses are interpolated: 3/8 half way between 1/4 and 1/2, 5/4 between 1/2 and 2.
    assert!((balanced[0] / plain[0] - 0.375).abs() < 1e-12 && (balanced[1] / plain[1] - 1.25).abs() < 1e-12);
}

#[test]
fn a_mixture_runs_from_the_soft_to_the_clean_loss() {
    let path = &paths()[0];
    let moment = path.at(0.6).unwrap();
    let mut stream = RandomStream::new(6, "mixture");
    let [x0, eta, output] = [0, 1, 2].map(|_| stream.normals(SHAPE.len()));
    let xt = path.diffuse(&x0, 0.6, &eta).unwrap();
    let (map, sigma) = (&moment.map, moment.sigma);
    let example = Example { shape: SHAPE, x0: &x0, xt: &xt, output: &output, map, sigma, earlier: None };
    let of = |mixture: f64| Objective { mixture, ..Objective::PAPER }.loss(&example).unwrap();
    let clean = Objective { kind: Kind::Clean, ..Objective::PAPER }.loss(&example).unwrap();
    assert_eq!(of(1.0), clean);
    assert!((of(0.25) - 0.75 * of(0.0) - 0.25 * clean).abs() < 1e-9 * clean);
    for wrong in [
        Objective { mixture: -0.1, ..Objective::PAPER },
        Objective { mixture: 0.5, kind: Kind::Noise, ..Objective::PAPER },
    ] {
        assert!(wrong.check().unwrap_err().hint().unwrap().contains("from 0 to 1"));
    }
}

#[test]
fn stratified_times_lie_one_in_each_part_and_the_mean_loss_varies_less() {
    const N: usize = 16;
    let path = &paths()[0];
    let table = PathTable::new(path, 64).unwrap();
    let objective = Objective::PAPER;
    // Times of 400 steps, and the standard deviation of the mean loss over them.
    let drawn = |noise: StepNoise| {
        let setting = StepSpec {
            path: &table,
            objective: &objective,
            prediction: &objective.prediction(),
            batch: N,
            parts: 1,
            noise,
            mirror: false,
            expected: None,
        };
        let mut g = Graph::new();
        let step = StepLoss::emit(&mut g, &setting, |g, xt, _| g.scale(xt, 0.5)).unwrap();
        let mut run = CpuExecutor::<f64>::new(Plan::new(&g, &[step.inputs.t, step.loss]).unwrap());
        run.set("x0", &vec![0.5; N * SHAPE.len()]).unwrap();
        let (mut times, mut losses) = (vec![], vec![]);
        for step_number in 0..400 {
            run.run(&Params::zeros(&g), 7, step_number).unwrap();
            times.extend_from_slice(run.get(step.inputs.t).unwrap());
            losses.push(run.get(step.loss).unwrap()[0]);
        }
        let mean = losses.iter().sum::<f64>() / 400.0;
        (times, (losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>() / 400.0).sqrt(), mean)
    };
    let ((_, plain, mean), (times, stratified, same)) = (drawn(StepNoise::Drawn), drawn(StepNoise::Stratified));
    for (i, t) in times.iter().enumerate() {
        let part = (i % N) as f64 / N as f64;
        assert!((part..part + 1.0 / N as f64).contains(t), "{t} of image {}", i % N);
    }
    let average = times.iter().sum::<f64>() / times.len() as f64;
    assert!((average - 0.5).abs() < 0.002, "{average}");
    assert!(stratified < 0.5 * plain, "{stratified} not much below {plain}");
    assert!((same - mean).abs() < 4.0 * plain / 20.0, "{same} {mean}");
}
