//! Soft Diffusion in the plane: a mixture of Gaussians, a matrix as corruption, a small network, every sampler.
//!
//! Points are mixed and shrunk by `C_t = (1 - a) I + a M`, noise is added, and a multilayer perceptron is trained with
//! Soft Score Matching for some seconds. Then every sampler goes back from x_1, and its points are compared with the truth
//! by the sliced Wasserstein distance. Samplers for `C = alpha I` do the same on a variance-preserving path. The points are
//! drawn into `playground.png` (docs/images).

use softdiff::corruption::{Custom, LinearMap};
use softdiff::curve::Curve;
use softdiff::engine::rng::RandomStream;
use softdiff::engine::{Graph, Init, Result, Var};
use softdiff::image::{from_unit, png};
use softdiff::linalg::Matrix;
use softdiff::noise::{Alpha, Noise};
use softdiff::path::LevelSchedule;
use softdiff::prior::Prior;
use softdiff::sampler::{
    DormandPrince, GaussianPart, Options, Oracle, PredictorCorrector, ReverseDiffusion, SAMPLERS, Sampler, Tolerance,
    by_name,
};
use softdiff::transport::sliced;
use softdiff::{Dataset, Model, Network, Path, Shape, Training};

/// A point of the plane is an image of one pixel with two channels; [-1.8, 1.8] is their [0, 1].
const PLANE: Shape = Shape { height: 1, width: 1, channels: 2 };
const SIDE: f64 = 3.6;
const POINTS: usize = 5000;
/// Root of the sliced squared distance below which a sampler has found the mixture, whose parts lie 1 from the centre.
const FOUND: f64 = 0.12;
/// The Naive Sampler loses variance however long the network is trained.
const NAIVE: f64 = 0.25;

/// M mixes and shrinks: eigenvalues 0.4 along the diagonal and 0.1 across it.
fn mixing_path() -> Path {
    let matrix = Matrix::from_vec(2, 2, vec![0.25, 0.15, 0.15, 0.25]).unwrap();
    let corruption = Custom::new(PLANE, LinearMap::Dense(matrix)).unwrap();
    let level = LevelSchedule::Curve { curve: Curve::straight(0.0, 1.0).unwrap(), start: 0.1 };
    let noise = Noise::Geometric { smallest: 0.04 / SIDE, largest: 0.6 / SIDE, until: 1.0 };
    Path::new(vec![(Box::new(corruption), level)], noise).unwrap().centred()
}

fn variance_preserving() -> Path {
    Path::variance_preserving(PLANE, Alpha::Linear { beta_min: 0.1, beta_max: 10.0 }).unwrap().centred()
}

/// Five Gaussians on a circle, of deviation 0.1 across and 0.14 to 0.2 along one direction.
fn truth(count: usize, seed: u64) -> Vec<f64> {
    let part = |k: usize| {
        let angle = std::f64::consts::TAU * k as f64 / 5.0;
        let covariance = Matrix::diagonal(&[0.01, 0.02 * (1.0 + k as f64 / 4.0)]);
        GaussianPart { weight: 1.0, mean: vec![angle.cos(), angle.sin()], covariance }
    };
    let path = mixing_path();
    let oracle = Oracle::new(&path, (0..5).map(part).collect()).unwrap();
    let mut stream = RandomStream::new(seed, "playground truth");
    (0..count).flat_map(|_| oracle.draw(&mut stream)).collect()
}

/// Three hidden layers on the point and a sinusoidal embedding of the time.
struct Perceptron;

impl Network for Perceptron {
    fn emit(&self, g: &mut Graph, x: Var, t: Var, _: bool) -> Result<Var> {
        const WIDTH: usize = 96;
        let n = g.shape(t).numel();
        let point = g.reshape(x, [n, 2])?;
        let middle = g.constant([1, 2], vec![-0.5; 2])?;
        let point = g.add(point, middle)?;
        let point = g.scale(point, SIDE)?;
        let frequencies = g.constant([1, 8], (0..8).map(|k| 1.5f64.powi(k)).collect())?;
        let time = g.sinusoids(t, frequencies)?;
        let mut h = g.concat(&[point, time])?;
        for layer in 0..4 {
            let inputs = g.shape(h)[1];
            let outputs = if layer == 3 { 2 } else { WIDTH };
            let bound = if layer == 3 { 1e-3 } else { (6.0 / inputs as f64).sqrt() };
            let weight = g.param(&format!("weight.{layer}"), [outputs, inputs], Init::Uniform { bound })?;
            let bias = g.param(&format!("bias.{layer}"), [outputs], Init::Constant(0.0))?;
            h = g.linear(h, weight, Some(bias))?;
            if layer < 3 {
                h = g.silu(h)?;
            }
        }
        g.reshape(h, [n, 1, 1, 2])
    }
}

fn trained(path: fn() -> Path) -> Model {
    let dataset = |count, seed| {
        let units: Vec<f64> = truth(count, seed).iter().map(|x| x / SIDE + 0.5).collect();
        Dataset::new(1, 1, 2, from_unit(&units), None, vec![])
    };
    let starts = Prior::data(&path(), dataset(POINTS, 6).pixels(), 1.0).unwrap();
    let training = Training::new(dataset(40_000, 3), path()).network(Perceptron).prior(starts).steps(2000).batch(512);
    let sets = ["train.rate=2e-3", "train.warmup=50", "train.cooldown=1000", "train.clip=5", "train.ema=[0.995]"];
    sets.into_iter().fold(training, Training::set).device("cpu").run().unwrap().model()
}

/// Every sampler for general paths, or every one for `C = alpha I`.
fn samplers(needs_scale: bool) -> Vec<Box<dyn Sampler>> {
    let fitting = SAMPLERS.iter().filter(|entry| entry.needs_scale == needs_scale && !entry.needs_one_step);
    let named = fitting.map(|entry| by_name(entry.name, &Options::default()).unwrap());
    let corrected: Box<dyn Sampler> = Box::new(PredictorCorrector::new(Box::new(ReverseDiffusion)));
    named.chain(needs_scale.then_some(corrected)).collect()
}

#[test]
fn every_sampler_finds_the_mixture_with_a_small_trained_network() {
    let mut outcomes = vec![("truth, drawn again".to_owned(), truth(POINTS, 2))];
    for (path, samplers, kind) in
        [(mixing_path as fn() -> Path, samplers(false), ""), (variance_preserving, samplers(true), " (VP)")]
    {
        let model = trained(path);
        for sampler in samplers {
            let name = format!("{}{kind}", sampler.name());
            // Alone, a point would cost a whole batch of the network.
            let sampler: Box<dyn Sampler> = match sampler.name() {
                "dormand-prince" => Box::new(DormandPrince { tolerance: Tolerance::of(1e-4), together: true }),
                _ => sampler,
            };
            let request = model.sample(0..POINTS as u64).custom_sampler(sampler).steps(50).batch(POINTS).device("cpu");
            outcomes.push((name, request.values().unwrap().iter().map(|u| SIDE * (u - 0.5)).collect()));
        }
    }
    assert_eq!(outcomes.len(), 1 + 10 + 5);
    let cloud = |points: &[f64]| Matrix::from_vec(POINTS, 2, points.to_vec()).unwrap();
    let real = cloud(&truth(POINTS, 1));
    let distances: Vec<f64> =
        outcomes.iter().map(|(_, points)| sliced(&real, &cloud(points), 128, 5).unwrap().value.sqrt()).collect();
    for ((name, _), distance) in outcomes.iter().zip(&distances) {
        println!("{name:<28} {distance:.4}");
    }
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("playground.png");
    std::fs::write(&file, picture(&outcomes)).unwrap();
    println!("{}: panels in the order above, four in a row", file.display());
    for ((name, _), distance) in outcomes.iter().zip(distances) {
        let bound = if name == "naive" { NAIVE } else { FOUND };
        assert!(distance < bound, "{name}: {distance}");
    }
    assert!(softdiff::image::decode(&picture(&outcomes)).is_ok());
}

/// Panels of dots, four in a row.
fn picture(outcomes: &[(String, Vec<f64>)]) -> Vec<u8> {
    const SIDE: usize = 220;
    const ACROSS: usize = 4;
    let (width, height) = (ACROSS * SIDE, outcomes.len().div_ceil(ACROSS) * SIDE);
    let mut pixels = vec![255u8; width * height * 3];
    for (k, (_, points)) in outcomes.iter().enumerate() {
        let (left, top) = (k % ACROSS * SIDE, k / ACROSS * SIDE);
        for i in 0..SIDE {
            for at in [top * width + left + i, (top + i) * width + left] {
                pixels[3 * at..3 * at + 3].fill(160);
            }
        }
        // Fewer points show more.
        for point in points.chunks(2).take(2000) {
            let place = |v: f64| ((v + 1.8) / 3.6 * SIDE as f64) as isize;
            let (column, row) = (place(point[0]), place(-point[1]));
            for (dc, dr) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                let (column, row) = (column + dc, row + dr);
                if (1..SIDE as isize).contains(&column) && (1..SIDE as isize).contains(&row) {
                    let at = 3 * ((top + row as usize) * width + left + column as usize);
                    // Dots darken one another: blue stays longest.
                    for (channel, kept) in [0.6, 0.75, 0.9].into_iter().enumerate() {
                        pixels[at + channel] = (f64::from(pixels[at + channel]) * kept) as u8;
                    }
                }
            }
        }
    }
    png::encode(width, height, 3, &pixels)
}
