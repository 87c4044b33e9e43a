//! The samplers against closed forms: Gaussian data, whose E[x0 | x_t] is known.

use softdiff_diffusion::corruption::{Blur, Boundary, Fading, Shape};
use softdiff_diffusion::curve::{Curve, Interpolation};
use softdiff_diffusion::linalg::Matrix;
use softdiff_diffusion::noise::{Alpha, Noise};
use softdiff_diffusion::path::{LevelSchedule, Moment, Path};
use softdiff_diffusion::prior::Prior;
use softdiff_diffusion::sampler::*;
use softdiff_engine::Hint;
use softdiff_engine::rng::RandomStream;

/// Every sampler that works on any linear path, with its usual options.
fn general() -> Vec<Box<dyn Sampler>> {
    let general = SAMPLERS.iter().filter(|entry| !entry.needs_scale && !entry.needs_one_step);
    general.map(|entry| by_name(entry.name, &Options::default()).unwrap()).collect()
}

/// The further samplers for `C = alpha I`.
fn special() -> Vec<Box<dyn Sampler>> {
    let special = SAMPLERS.iter().filter(|entry| entry.needs_scale);
    let corrected: Box<dyn Sampler> = Box::new(PredictorCorrector::new(Box::new(ReverseDiffusion)));
    special.map(|entry| by_name(entry.name, &Options::default()).unwrap()).chain([corrected]).collect()
}

const ONE: Shape = Shape { height: 1, width: 1, channels: 1 };

/// Standard deviation at the end, for one value of deviation `start` at t = 1 and a denoiser linear in x.
///
/// x' = a x + b eta in every step, so the variance is followed exactly: a from (1, 0), b from (0, 1).
fn final_deviation(path: &Path, sampler: &dyn Sampler, s: f64, steps: usize, ending: Ending) -> f64 {
    let mut oracle = Oracle::gaussian(path, vec![0.0], &[s]).unwrap();
    let Sampling { times, .. } = Sampling::uniform(steps).unwrap();
    let start = path.at(1.0).unwrap();
    let c = start.map.apply(ONE, &[1.0]).unwrap()[0];
    let mut variance = c * c * s * s + start.sigma * start.sigma;
    // A multistep sampler has a memory and no noise: follow one start instead.
    let (mut x, mut past) = (vec![variance.sqrt()], Past::default());
    for i in 0..steps {
        let before = (i > 0).then(|| times[i - 1]);
        let from = path.at(times[i]).unwrap();
        let last = i + 1 == steps;
        let to = if last && ending != Ending::AtPathStart { Moment::clean() } else { path.at(times[i + 1]).unwrap() };
        if sampler.draws() == 0 {
            let step = StepContext { path, from: &from, to: &to, before, eta: &[] };
            x = sampler.step(&step, &x, &mut oracle, &mut past).unwrap();
            variance = x[0] * x[0];
            continue;
        }
        let mut step = |x: f64, eta: f64| {
            let stage = StepContext { path, from: &from, to: &to, before: None, eta: &[eta] };
            sampler.step(&stage, &[x], &mut oracle, &mut Past::default()).unwrap()[0]
        };
        let (a, b) = (step(1.0, 0.0), step(0.0, 1.0));
        let b = if last && ending == Ending::Denoised { 0.0 } else { b };
        variance = a * a * variance + b * b;
    }
    variance.sqrt()
}

/// The golden path for one frequency, with a knot at every time of an N-step grid.
fn golden_path(frequency: f64, steps: usize) -> Path {
    let (n, tn, b0, bmax) = (64.0, 0.2, 0.3f64, 23.0f64);
    let faded = |i: usize| {
        let t = i as f64 / steps as f64;
        let u = (t - tn) / (1.0 - tn);
        let blur = if t <= tn { 0.0 } else { b0 * ((bmax / b0).powf(u) - 1.0) / (1.0 - b0 / bmax) };
        1.0 - (-(blur * std::f64::consts::PI * frequency / n).powi(2) / 2.0).exp()
    };
    let curve = Curve::uniform((0..=steps).map(faded).collect(), Interpolation::Linear).unwrap();
    let noise = Noise::Geometric { smallest: 0.01, largest: 0.1, until: tn };
    Path::new(vec![(Box::new(Fading::new(ONE)), LevelSchedule::Curve { curve, start: 0.0 })], noise).unwrap()
}

#[test]
fn samplers_on_the_gaussian_oracle_equal_the_golden_ones() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("golden/gaussian_oracle.json")).unwrap();
    let mut compared = 0;
    for (table, from_path) in [("samplers", false), ("samplers_stop_at_smin", true)] {
        for (kind, by_steps) in golden[table].as_object().unwrap() {
            let (sampler, ending): (&dyn Sampler, _) = match kind.as_str() {
                "naive" => (&Naive, Ending::Stepped),
                "momentum" => (&Momentum, Ending::Stepped),
                "pf_momentum" => (&FlowMomentum, Ending::Stepped),
                "momentum_denoise" => (&Momentum, Ending::Denoised),
                other => panic!("unknown sampler {other}"),
            };
            let ending = if from_path && ending == Ending::Stepped { Ending::AtPathStart } else { ending };
            if from_path && ending == Ending::Denoised {
                continue;
            }
            for (steps, by_frequency) in by_steps.as_object().unwrap() {
                for (frequency, expected) in by_frequency.as_object().unwrap() {
                    let (steps, f): (usize, f64) = (steps.parse().unwrap(), frequency.parse().unwrap());
                    let s = 7.68 / f;
                    let truth = if from_path { (s * s + 1e-4).sqrt() } else { s };
                    let found = final_deviation(&golden_path(f, steps), sampler, s, steps, ending) / truth;
                    let expected = expected.as_f64().unwrap();
                    let error = (found - expected).abs() / expected;
                    assert!(error < 1e-10, "{table} {kind} N = {steps} f = {f}: {found} not {expected}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared >= 7 * 4 * 4, "{compared}");
}

/// C = (1 - 0.9 sin^2) I and growing noise: everything smooth.
fn smooth_path() -> Path {
    let stage = (Box::new(Fading::new(ONE)) as Box<_>, LevelSchedule::SineSquared { largest: 0.9 });
    Path::new(vec![stage], Noise::Geometric { smallest: 0.05, largest: 0.5, until: 1.0 }).unwrap()
}

/// Slope of ln(error) over ln(step).
fn observed_order(path: &Path, sampler: &dyn Sampler) -> f64 {
    let truth = (0.8f64 * 0.8 + 0.05 * 0.05).sqrt();
    let points: Vec<(f64, f64)> = [256, 512, 1024, 2048, 4096]
        .map(|n| {
            let found = final_deviation(path, sampler, 0.8, n, Ending::AtPathStart);
            (-(n as f64).ln(), (found - truth).abs().ln())
        })
        .to_vec();
    let mean = |f: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
    mean(&|p| (p.0 - x) * (p.1 - y)) / mean(&|p| (p.0 - x).powi(2))
}

#[test]
fn every_sampler_converges_at_the_order_it_declares() {
    let path = smooth_path();
    let samplers: Vec<(Box<dyn Sampler>, f64)> = vec![
        (Box::new(Momentum), 0.1),
        (Box::new(FlowMomentum), 0.1),
        (Box::new(Churn::deterministic()), 0.1),
        (Box::new(Churn::rate(3.0)), 0.1),
        (Box::new(ReverseDiffusion), 0.1),
        (Box::new(EulerMaruyama), 0.1),
        (Box::new(Ancestral), 0.1),
        (Box::new(Ddim { eta: 0.0 }), 0.1),
        (Box::new(Ddim { eta: 0.5 }), 0.1),
        (Box::new(Heun), 0.2),
        (Box::new(Multistep), 0.2),
    ];
    for (sampler, margin) in samplers {
        let found = observed_order(&path, &*sampler);
        println!("{}: order {found:.3}", sampler.name());
        assert!((found - f64::from(sampler.order())).abs() < margin, "{}: {found}", sampler.name());
    }
}

#[test]
fn the_naive_sampler_never_converges_because_its_variance_halves() {
    for steps in [256, 1024, 4096] {
        let found = final_deviation(&golden_path(32.0, steps), &Naive, 7.68 / 32.0, steps, Ending::Denoised);
        let ratio = found / (7.68 / 32.0);
        assert!((ratio - 0.5f64.sqrt()).abs() < 0.02, "{steps} steps: {ratio}");
    }
}

/// The algorithms written out line by line, against the expressions that run on every device.
#[test]
fn the_samplers_are_their_algorithms_line_by_line() {
    let shape = Shape::new(6, 6, 1);
    let blur = Box::new(Blur::new(shape, Boundary::Zero, 4.0).unwrap());
    let path = Path::simultaneous(blur, vec![0.01, 1.0, 4.0], Interpolation::Linear).unwrap();
    let mut stream = RandomStream::new(9, "line by line");
    let (x, eta) = (stream.normals(36), stream.normals(36));
    let denoiser = |x: &[f64], t: f64| Ok(x.iter().map(|x| (0.7 * x + t).sin()).collect::<Vec<f64>>());
    let [before, from, to] = [0.95, 0.8, 0.6].map(|t| path.at(t).unwrap());
    let corrupt = |at: &Moment, x0: &[f64]| at.map.apply_batch(shape, x0).unwrap();
    let step = |sampler: &dyn Sampler, x: &[f64], from: &Moment, to: &Moment, before, past: &mut Past| {
        let step = StepContext { path: &path, from, to, before, eta: &eta };
        sampler.step(&step, x, &mut { denoiser }, past).unwrap()
    };
    let once = |sampler: &dyn Sampler| step(sampler, &x, &from, &to, None, &mut Past::default());
    let close = |name: &str, found: &[f64], expected: &dyn Fn(usize) -> f64| {
        let worst = (0..36).map(|i| (found[i] - expected(i)).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-12, "{name}: {worst:e}");
    };
    let x0_hat = denoiser(&x, from.t).unwrap();
    let (y_hat, y_next) = (corrupt(&from, &x0_hat), corrupt(&to, &x0_hat));
    // Soft Diffusion, Algorithm 1.
    close("naive", &once(&Naive), &|i| y_next[i] + to.sigma * eta[i]);
    // Algorithm 2.
    let lost = from.sigma.powi(2) - to.sigma.powi(2);
    close("momentum", &once(&Momentum), &|i| {
        let eps_hat = y_hat[i] - x[i];
        let z = x[i] + lost / from.sigma.powi(2) * eps_hat + lost.sqrt() * eta[i];
        z + (y_next[i] - y_hat[i])
    });
    // The appendix, "Probability Flow ODE".
    close("flow-momentum", &once(&FlowMomentum), &|i| {
        x[i] + (y_next[i] - y_hat[i]) + 0.5 * lost / from.sigma.powi(2) * (y_hat[i] - x[i])
    });
    let share = (1.0 - (-5.0 * (from.t - to.t)).exp()).sqrt();
    close("churn-rate", &once(&Churn::rate(5.0)), &|i| {
        let kept = to.sigma * (1.0 - share * share).sqrt() / from.sigma;
        y_next[i] + kept * (x[i] - y_hat[i]) + share * to.sigma * eta[i]
    });
    // Heun: the predictor, a second prediction at its end, and the step again with their mean.
    let ratio = to.sigma / from.sigma;
    let predicted: Vec<f64> = (0..36).map(|i| ratio * x[i] + y_next[i] - ratio * y_hat[i]).collect();
    let second = denoiser(&predicted, to.t).unwrap();
    let mean: Vec<f64> = x0_hat.iter().zip(&second).map(|(a, b)| 0.5 * (a + b)).collect();
    let (mean_from, mean_to) = (corrupt(&from, &mean), corrupt(&to, &mean));
    close("heun", &once(&Heun), &|i| ratio * x[i] + mean_to[i] - ratio * mean_from[i]);
    // Adams-Bashforth: x0_hat extrapolated to the middle of the second step.
    let mut past = Past::default();
    let first = step(&Multistep, &x, &before, &from, None, &mut past);
    let (then, now) = (denoiser(&x, before.t).unwrap(), denoiser(&first, from.t).unwrap());
    let ahead = 0.5 * (from.t - to.t) / (before.t - from.t);
    let middle: Vec<f64> = now.iter().zip(&then).map(|(now, then)| now + ahead * (now - then)).collect();
    let (middle_from, middle_to) = (corrupt(&from, &middle), corrupt(&to, &middle));
    close("multistep", &step(&Multistep, &first, &from, &to, Some(before.t), &mut past), &|i| {
        ratio * first[i] + middle_to[i] - ratio * middle_from[i]
    });
}

fn random_points(path: &Path, times: [f64; 2]) -> [Moment; 2] {
    times.map(|t| path.at(t).unwrap())
}

#[test]
fn langevin_corrections_keep_the_marginals_up_to_their_step() {
    let path = smooth_path();
    let mut oracle = Oracle::gaussian(&path, vec![0.0], &[0.8]).unwrap();
    let [from, to] = random_points(&path, [0.5005, 0.5]);
    let c = to.map.apply(ONE, &[1.0]).unwrap()[0];
    let truth = c * c * 0.64 + to.sigma * to.sigma;
    // A correction is x <- a x + b eta, so many of them settle at the variance b^2 / (1 - a^2).
    for (snr, margin) in [(0.16, 0.04), (0.04, 0.004)] {
        let corrected = PredictorCorrector { predictor: Box::new(FlowMomentum), snr, corrections: 1 };
        let mut step = |sampler: &dyn Sampler, x: f64, eta: f64| {
            let stage = StepContext { path: &path, from: &from, to: &to, before: None, eta: &[eta] };
            sampler.step(&stage, &[x], &mut oracle, &mut Past::default()).unwrap()[0]
        };
        let a = step(&corrected, 1.0, 0.0) / step(&FlowMomentum, 1.0, 0.0);
        let b = step(&corrected, 0.0, 1.0);
        let ratio = b * b / (1.0 - a * a) / truth;
        assert!((ratio - 1.0).abs() < margin, "snr {snr}: {ratio}");
    }
}

#[test]
fn momentum_with_identity_corruption_is_reverse_diffusion() {
    let shape = Shape::new(4, 4, 3);
    let path = Path::variance_exploding(shape, 0.01, 50.0).unwrap();
    let mut stream = RandomStream::new(1, "reverse");
    let mut prediction = |_: &[f64], t: f64| Ok(RandomStream::new((t * 1e6) as u64, "x0").normals(48));
    for times in [[1.0, 0.99], [0.5, 0.4], [0.01, 0.0]] {
        let [from, to] = random_points(&path, times);
        let (x, eta) = (stream.normals(48), stream.normals(48));
        let stage = StepContext { path: &path, from: &from, to: &to, before: None, eta: &eta };
        let momentum = Momentum.step(&stage, &x, &mut prediction, &mut Past::default()).unwrap();
        let reverse = ReverseDiffusion.step(&stage, &x, &mut prediction, &mut Past::default()).unwrap();
        // score_sde's own words: x + (sigma^2 - sigma'^2) score + sqrt(sigma^2 - sigma'^2) z.
        let x0_hat = prediction(&x, from.t).unwrap();
        let g2 = from.sigma.powi(2) - to.sigma.powi(2);
        for i in 0..48 {
            let published = x[i] + g2 * (x0_hat[i] - x[i]) / from.sigma.powi(2) + g2.sqrt() * eta[i];
            assert!((momentum[i] - published).abs() < 1e-12 * (1.0 + published.abs()), "{times:?}");
            assert!((reverse[i] - published).abs() < 1e-12 * (1.0 + published.abs()), "{times:?}");
        }
    }
}

#[test]
fn churn_one_is_naive_and_churn_zero_is_the_flow_where_noise_is_constant() {
    let shape = Shape::new(6, 6, 1);
    let blur = Box::new(Blur::new(shape, Boundary::Zero, 4.0).unwrap());
    let path = Path::two_stage(blur, vec![0.01, 1.0, 4.0], Interpolation::Linear).unwrap();
    let mut stream = RandomStream::new(2, "churn");
    let (x, eta, x0) = (stream.normals(36), stream.normals(36), stream.normals(36));
    let mut prediction = |_: &[f64], _: f64| Ok(x0.clone());
    let [from, to] = random_points(&path, [0.9, 0.7]);
    let stage = StepContext { path: &path, from: &from, to: &to, before: None, eta: &eta };
    let mut step = |sampler: &dyn Sampler| sampler.step(&stage, &x, &mut prediction, &mut Past::default()).unwrap();
    let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(close(&step(&Churn::part(1.0)), &step(&Naive)));
    let flow = step(&FlowMomentum);
    assert!(close(&step(&Churn::deterministic()), &flow));
    // Choice A6: at constant noise the Momentum Sampler adds none and is the same.
    assert!(close(&step(&Momentum), &flow));
}

#[test]
fn ddpm_and_ddim_are_their_published_updates() {
    let path = Path::variance_preserving(ONE, Alpha::COSINE).unwrap();
    let [from, to] = random_points(&path, [0.6, 0.55]);
    let (x, x0, eta) = (0.7, -0.3, 1.1);
    let bar = |point: &Moment| 1.0 - point.sigma * point.sigma;
    let (a, a_next) = (bar(&from), bar(&to));
    let stage = StepContext { path: &path, from: &from, to: &to, before: None, eta: &[eta] };
    let step = |sampler: &dyn Sampler| {
        sampler.step(&stage, &[x], &mut |_: &[f64], _: f64| Ok(vec![x0]), &mut Past::default()).unwrap()[0]
    };
    // Ho et al. 2020, Eq. 7: beta = 1 - a / a'.
    let beta = 1.0 - a / a_next;
    let mean = a_next.sqrt() * beta / (1.0 - a) * x0 + (1.0 - beta).sqrt() * (1.0 - a_next) / (1.0 - a) * x;
    let ddpm = mean + (beta * (1.0 - a_next) / (1.0 - a)).sqrt() * eta;
    assert!((step(&Ancestral) - ddpm).abs() < 1e-12);
    assert!((step(&Ddim { eta: 1.0 }) - ddpm).abs() < 1e-12);
    // Song, Meng, Ermon 2021, Eq. 12 and 16 with eta = 0 and 0.4.
    let eps = (x - a.sqrt() * x0) / (1.0 - a).sqrt();
    for share in [0.0, 0.4] {
        let s = share * ((1.0 - a_next) / (1.0 - a)).sqrt() * (1.0 - a / a_next).sqrt();
        let ddim = a_next.sqrt() * x0 + (1.0 - a_next - s * s).sqrt() * eps + s * eta;
        assert!((step(&Ddim { eta: share }) - ddim).abs() < 1e-12);
    }
    // score_sde's VP reverse diffusion: x - f + G^2 score + G z with f = (sqrt(1 - beta) - 1) x, G^2 = beta.
    let score = (a.sqrt() * x0 - x) / (1.0 - a);
    let reverse = x - ((1.0 - beta).sqrt() - 1.0) * x + beta * score + beta.sqrt() * eta;
    assert!((step(&ReverseDiffusion) - reverse).abs() < 1e-12);
}

#[test]
fn dormand_prince_meets_its_tolerance() {
    let path = smooth_path();
    let (s, sigma0) = (0.8f64, 0.05f64);
    for tolerance in [1e-4, 1e-6, 1e-8, 1e-10] {
        let sampler = DormandPrince { tolerance: Tolerance::of(tolerance), together: false };
        let found = final_deviation(&path, &sampler, s, 1, Ending::AtPathStart);
        let error = (found - (s * s + sigma0 * sigma0).sqrt()).abs();
        println!("tolerance {tolerance:e}: error {error:e}");
        assert!(error < tolerance, "{tolerance}: {error}");
    }
    let strict = Tolerance { relative: 1e-14, absolute: 1e-14, evaluations: 60 };
    let sampler = DormandPrince { tolerance: strict, together: false };
    let mut oracle = Oracle::gaussian(&path, vec![0.0], &[s]).unwrap();
    let run = sample(&path, &sampler, &mut oracle, vec![0.3], &[1], &Sampling::uniform(1).unwrap());
    assert!(matches!(run, Err(SamplerError::Unreachable { .. })));
}

#[test]
fn flow_likelihoods_of_gaussians_are_exact_and_hutchinsons_are_close() {
    let shape = Shape::new(2, 2, 1);
    let blur = Box::new(Blur::new(shape, Boundary::Reflect, 1.5).unwrap());
    let path = Path::simultaneous(blur, vec![0.01, 0.7, 1.5], Interpolation::MonotoneCubic).unwrap();
    let mut stream = RandomStream::new(4, "likelihood");
    let a = Matrix::from_fn(4, 4, |_, _| stream.normal());
    let covariance = a.times_transposed(&a).combined(0.1, &Matrix::identity(4), 0.2);
    let part = GaussianPart { weight: 1.0, mean: vec![0.3, -0.2, 0.1, 0.4], covariance };
    let mut oracle = Oracle::new(&path, vec![part.clone()]).unwrap();
    let last = std::cell::RefCell::new(Oracle::new(&path, vec![part]).unwrap());
    let log_p1 = |x: &[f64]| last.borrow_mut().log_density(x, 1.0).unwrap();
    let x = stream.normals(4);
    let truth = oracle.log_density(&x, 0.0).unwrap();
    let mut find = |trace| log_likelihood(&path, &mut oracle, &x, &log_p1, trace, Tolerance::of(1e-8)).unwrap().nats;
    let exact = find(Trace::Exact);
    println!("exact trace: {exact} against {truth}");
    assert!((exact - truth).abs() < 1e-5, "{exact} not {truth}");
    let estimates: Vec<f64> = (0..64).map(|seed| find(Trace::Hutchinson { probes: 4, seed })).collect();
    let mean = estimates.iter().sum::<f64>() / 64.0;
    let variance = estimates.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / 63.0;
    println!("Hutchinson: {mean} +- {}", (variance / 64.0).sqrt());
    assert!((mean - truth).abs() < 4.0 * (variance / 64.0).sqrt(), "{mean} not {truth}");
}

#[test]
fn an_image_does_not_depend_on_its_company() {
    let shape = Shape::new(2, 2, 1);
    let path = Path::variance_preserving(shape, Alpha::COSINE).unwrap();
    let mut oracle = Oracle::gaussian(&path, vec![0.1; 4], &[0.5, 0.4, 0.3, 0.2]).unwrap();
    let sampling = Sampling { times: vec![0.99, 0.7, 0.4, 0.2, 0.0], ending: Ending::Denoised };
    let x1 = RandomStream::new(5, "start").normals(12);
    for sampler in general().into_iter().chain(special()) {
        let mut run =
            |x: &[f64], seeds: &[u64]| sample(&path, &*sampler, &mut oracle, x.to_vec(), seeds, &sampling).unwrap();
        let together = run(&x1, &[7, 8, 9]);
        assert_eq!(run(&x1[4..8], &[8]), together[4..8], "{}", sampler.name());
        if sampler.draws() > 0 {
            assert_ne!(run(&x1[4..8], &[18]), together[4..8], "{}", sampler.name());
        }
    }
}

#[test]
fn on_a_centred_path_samples_and_likelihoods_are_those_of_images_in_minus_one_to_one() {
    let shape = Shape::new(1, 2, 1);
    let (mean, deviations) = ([0.3, 0.8], [0.2, 0.1]);
    let plain = Path::variance_preserving(shape, Alpha::LINEAR).unwrap();
    let centred = Path::variance_preserving(shape, Alpha::LINEAR).unwrap().centred();
    let mut on_unit = Oracle::gaussian(&centred, mean.to_vec(), &deviations).unwrap();
    let doubled = |x: &[f64]| -> Vec<f64> { x.iter().map(|x| 2.0 * x - 1.0).collect() };
    let mut on_double = Oracle::gaussian(&plain, doubled(&mean), &deviations.map(|deviation| 2.0 * deviation)).unwrap();
    let start = [0.9, -0.4, 0.1, 0.7];
    for sampler in general().into_iter().chain(special()) {
        let sampling = Sampling::uniform(20).unwrap();
        let unit = sample(&centred, &*sampler, &mut on_unit, start.to_vec(), &[1, 2], &sampling).unwrap();
        let double = sample(&plain, &*sampler, &mut on_double, doubled(&start), &[1, 2], &sampling).unwrap();
        let close = doubled(&unit).iter().zip(&double).all(|(a, b)| (a - b).abs() < 1e-3);
        assert!(close, "{}: {unit:?} {double:?}", sampler.name());
    }
    let (x, truth) =
        ([0.35, 0.75], std::cell::RefCell::new(Oracle::gaussian(&centred, mean.to_vec(), &deviations).unwrap()));
    let log_p1 = |x: &[f64]| truth.borrow_mut().log_density(x, 1.0).unwrap();
    let tolerance = Tolerance::of(1e-8);
    let found = log_likelihood(&centred, &mut on_unit, &x, &log_p1, Trace::Exact, tolerance).unwrap().nats;
    let expected: f64 = (0..2)
        .map(|i| {
            -0.5 * ((x[i] - mean[i]) / deviations[i]).powi(2) - (deviations[i] * std::f64::consts::TAU.sqrt()).ln()
        })
        .sum();
    assert!((found - expected).abs() < 1e-3, "{found} not {expected}");
    let prior = Prior::noise(&centred).unwrap();
    let draws = prior.sample(4000, 3);
    let average = draws.iter().sum::<f64>() / draws.len() as f64;
    assert!((average - 0.5).abs() < 0.02, "{average}");
}

/// Predicts a tenth of x one step further, and knows no clean image.
struct OneStep;

impl Denoiser for OneStep {
    fn x0_hat(&mut self, _: &[f64], _: f64) -> Result<Vec<f64>> {
        panic!("a one-step sampler asks for no clean image");
    }
    fn one_step(&mut self, xt: &[f64], t: f64, t_next: f64) -> Result<Vec<f64>> {
        Ok(xt.iter().map(|x| 0.1 * x + t - t_next).collect())
    }
}

/// Rissanen et al. 2023, Algorithm 2: `u' = mu(u) + delta eta`, and the mean in the end.
#[test]
fn ihdm_is_its_published_update() {
    let path = Path::new(
        vec![(
            Box::new(Fading::new(ONE)),
            LevelSchedule::Curve { curve: Curve::straight(0.0, 0.5).unwrap(), start: 0.0 },
        )],
        Noise::Constant { sigma: 0.01 },
    )
    .unwrap();
    let [from, to] = random_points(&path, [0.6, 0.55]);
    let stage = StepContext { path: &path, from: &from, to: &to, before: None, eta: &[2.0] };
    let ihdm = Ihdm { s_noise: 1.25 };
    let next = ihdm.step(&stage, &[0.7], &mut OneStep, &mut Past::default()).unwrap()[0];
    assert!((next - (0.07 + 0.05 + 0.0125 * 2.0)).abs() < 1e-12, "{next}");
    let last = ihdm.finish(&stage, &[0.7], &mut OneStep).unwrap()[0];
    assert!((last - 0.12).abs() < 1e-12, "{last}");
    let mut clean = |x: &[f64], _: f64| Ok(x.to_vec());
    let error = ihdm.step(&stage, &[0.7], &mut clean, &mut Past::default()).unwrap_err().to_string();
    assert!(error.contains("one-step"), "{error}");
}

#[test]
fn steps_through_the_knots_end_at_every_corner_of_the_path() {
    let blur = Box::new(Blur::new(Shape::new(4, 4, 1), Boundary::Zero, 2.0).unwrap());
    let path = Path::two_stage(blur, vec![0.01, 0.3, 0.9, 1.4, 2.0], Interpolation::Linear).unwrap();
    let knots = path.knot_times();
    assert_eq!(knots.len(), 5);
    assert!((knots[0] - 0.18).abs() < 1e-12 && (knots[1] - (0.18 + 0.82 / 4.0)).abs() < 1e-12 && knots[4] == 1.0);
    for steps in [5, 6, 13, 100] {
        let Sampling { times, .. } = Sampling::through(steps, &knots).unwrap();
        assert_eq!((times.len(), times[0], times[steps]), (steps + 1, 1.0, 0.0));
        assert!(times.windows(2).all(|pair| pair[0] > pair[1]));
        assert!(knots.iter().all(|knot| times.contains(knot)), "{times:?}");
        // No step is twice as long as another one that could have been cut instead.
        let sizes: Vec<f64> = times.windows(2).map(|pair| pair[0] - pair[1]).collect();
        let longest = sizes.iter().copied().fold(0.0, f64::max);
        assert!(longest < 2.1 / steps as f64 + 1e-12 || steps == 5, "{sizes:?}");
    }
    let error = Sampling::through(4, &knots).unwrap_err();
    assert!(error.hint().unwrap().contains("sample.grid = uniform"), "{error}");
    // On a path without corners it is the uniform one.
    let ve = Path::variance_exploding(ONE, 0.01, 5.0).unwrap();
    let (through, uniform) = (Sampling::through(10, &ve.knot_times()).unwrap(), Sampling::uniform(10).unwrap());
    assert!(through.times.iter().zip(&uniform.times).all(|(a, b)| (a - b).abs() < 1e-15));
}

#[test]
fn the_evaluations_of_a_step_are_those_declared() {
    let path = Path::variance_preserving(ONE, Alpha::COSINE).unwrap();
    let [from, to] = random_points(&path, [0.6, 0.55]);
    for sampler in general().into_iter().chain(special()) {
        let mut count = 0;
        let mut denoiser = |x: &[f64], _: f64| {
            count += 1;
            Ok(x.iter().map(|x| 0.5 * x).collect())
        };
        let stage = StepContext { path: &path, from: &from, to: &to, before: None, eta: &[0.3, 0.4] };
        sampler.step(&stage, &[0.2], &mut denoiser, &mut Past::default()).unwrap();
        let fits = if sampler.name() == "dormand-prince" { count >= 6 } else { count == sampler.evaluations() };
        assert!(fits, "{}: {count}", sampler.name());
    }
}

#[test]
fn bad_input_is_a_typed_error_that_says_how_to_fix_it() {
    let path = smooth_path();
    let blur = Box::new(Blur::new(Shape::new(4, 4, 1), Boundary::Zero, 2.0).unwrap());
    let blurred = Path::two_stage(blur, vec![0.01, 2.0], Interpolation::Linear).unwrap();
    let mut half = |x: &[f64], _: f64| Ok(x.iter().map(|x| 0.5 * x).collect());
    let five = Sampling::uniform(5).unwrap();
    assert!(matches!(Sampling::uniform(0), Err(SamplerError::NoSteps)));
    for sampling in [Sampling::uniform(usize::MAX), Sampling::through(usize::MAX, &[1.0])] {
        assert!(matches!(sampling, Err(SamplerError::TooManySteps(usize::MAX))));
    }
    assert_eq!(Sampling::uniform(4).unwrap().warped(2.0).unwrap().times, [1.0, 0.5625, 0.25, 0.0625, 0.0]);
    assert!(Sampling::uniform(4).unwrap().warped(0.0).unwrap_err().hint().unwrap().contains("above 0"));
    let run = |sampler: &dyn Sampler, denoiser: &mut dyn Denoiser, x: Vec<f64>| {
        sample(&path, sampler, denoiser, x, &[1], &five).unwrap_err().in_full()
    };
    assert!(run(&Momentum, &mut half, vec![0.0; 2]).contains("2 values, expected 1"));
    assert!(run(&Momentum, &mut half, vec![f64::NAN]).contains("the start is not finite"));
    let mut nan = |x: &[f64], _: f64| Ok(vec![f64::NAN; x.len()]);
    assert!(run(&Heun, &mut nan, vec![0.1]).contains("the denoiser's answer is not finite at time 1"));
    let mut short = |_: &[f64], _: f64| Ok(vec![]);
    assert!(run(&Naive, &mut short, vec![0.1]).contains("0 values, expected 1"));
    assert!(run(&Churn::part(1.5), &mut half, vec![0.1]).contains("from 0"));
    assert!(run(&Ddim { eta: -1.0 }, &mut half, vec![0.1]).contains("eta of 'ddim'"));
    let tolerance = Tolerance::of(0.0);
    assert!(run(&DormandPrince { tolerance, together: true }, &mut half, vec![0.1]).contains("above 0"));
    let rising = Sampling { times: vec![0.5, 0.7, 0.0], ..five.clone() };
    let error = sample(&path, &Momentum, &mut half, vec![0.0], &[1], &rising);
    assert!(matches!(error, Err(SamplerError::Times { index: 0, .. })));
    for sampler in special().iter().filter(|s| s.name() != "predictor-corrector") {
        let error = sample(&blurred, &**sampler, &mut half, vec![0.0; 16], &[1], &five);
        assert!(matches!(error, Err(SamplerError::NotAScale { .. })), "{}", sampler.name());
    }
    let silent = Noise::Constant { sigma: 0.0 };
    let fade = LevelSchedule::SineSquared { largest: 0.9 };
    let silent = Path::new(vec![(Box::new(Fading::new(ONE)), fade)], silent).unwrap();
    let error = sample(&silent, &Momentum, &mut half, vec![0.1], &[1], &five);
    assert!(matches!(error, Err(SamplerError::NoNoise { .. })));
}
