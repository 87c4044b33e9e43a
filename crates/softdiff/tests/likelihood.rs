//! Bits per dimension against closed forms: Gaussian images, whose density is known, and priors as dense Gaussians.

use softdiff::corruption::{HeatDissipation, Shape};
use softdiff::curve::Interpolation;
use softdiff::engine::rng::RandomStream;
use softdiff::linalg::{Cholesky, Matrix};
use softdiff::model::{LikelihoodOptions, Model, dequantised};
use softdiff::network::UNetConfig;
use softdiff::noise::Alpha;
use softdiff::objective::Prediction;
use softdiff::path::Path;
use softdiff::prior::{Prior, Signal};
use softdiff::recipe::{Recipe, Weights};
use softdiff::sampler::{GaussianPart, Oracle};
use std::f64::consts::{LN_2, TAU};
use std::sync::Arc;

const SHAPE: Shape = Shape { height: 2, width: 2, channels: 1 };

fn heat() -> Path {
    let heat = HeatDissipation::new(SHAPE, 1.0).unwrap();
    Path::simultaneous(Box::new(heat), vec![0.0, 0.4, 1.0], Interpolation::MonotoneCubic).unwrap()
}

/// Images about grey, of correlated values.
fn part() -> GaussianPart {
    let covariance = Matrix::from_fn(4, 4, |i, j| if i == j { 0.012 } else { 0.006 });
    GaussianPart { weight: 1.0, mean: vec![0.4, 0.5, 0.55, 0.6], covariance }
}

/// ln N(x; mean, covariance).
fn gaussian(x: &[f64], mean: &[f64], covariance: &Matrix) -> f64 {
    let factor = Cholesky::new(covariance).unwrap();
    let difference: Vec<f64> = x.iter().zip(mean).map(|(x, m)| x - m).collect();
    let white = factor.solve_lower(&difference);
    -0.5 * (white.iter().map(|v| v * v).sum::<f64>() + x.len() as f64 * TAU.ln() + factor.log_determinant())
}

fn with_noise(covariance: &Matrix, sigma: f64) -> Matrix {
    covariance.combined(1.0, &Matrix::diagonal(&vec![sigma * sigma; covariance.rows()]), 1.0)
}

#[test]
fn the_density_of_every_prior_is_the_dense_one() {
    let path = heat();
    let oracle = Oracle::new(&path, vec![part()]).unwrap();
    let images: Vec<f64> = (0..200).flat_map(|i| oracle.draw(&mut RandomStream::numbered(1, "images", i))).collect();
    let x = [0.7, 0.2, 0.5, 0.9];
    let sigma = path.sigma(1.0);
    let close = |found: f64, expected: f64, what: &str| {
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{what}: {found} not {expected}");
    };
    let noise = Prior::noise(&path).unwrap();
    let none = Matrix::zeros(4, 4);
    close(noise.density().unwrap().log(&x), gaussian(&x, &[0.0; 4], &with_noise(&none, sigma)), "noise");
    let centred = Path::variance_preserving(SHAPE, Alpha::LINEAR).unwrap().centred();
    let about = with_noise(&none, centred.sigma(1.0));
    close(Prior::noise(&centred).unwrap().density().unwrap().log(&x), gaussian(&x, &[0.5; 4], &about), "centred noise");
    let data = Prior::data(&path, &images[..40], 1.0).unwrap();
    let Signal::Data { images: corrupted } = &data.signal else { panic!() };
    let sum: f64 = corrupted.chunks(4).map(|mean| gaussian(&x, mean, &with_noise(&none, sigma)).exp()).sum();
    close(data.density().unwrap().log(&x), (sum / 10.0).ln(), "data");
    for (modes, components) in [(4, 1), (2, 1), (3, 2)] {
        let prior = Prior::fitted(&path, &images, modes, components, 0).unwrap();
        let Signal::Modes { modes, mixture, offset } = &prior.signal else { panic!() };
        let basis = modes.basis();
        let one = |component: &softdiff::prior::Component| {
            let mean: Vec<f64> = modes.image(&component.mean).iter().zip(offset).map(|(m, o)| m + o).collect();
            let spanned = basis.transposed_times(&component.covariance.times(basis));
            component.weight * gaussian(&x, &mean, &with_noise(&spanned, sigma)).exp()
        };
        let expected = mixture.components.iter().map(one).sum::<f64>().ln();
        close(prior.density().unwrap().log(&x), expected, "fitted");
    }
    let silent = Prior { sigma: 0.0, ..noise };
    assert!(silent.density().err().unwrap().to_string().contains("no density"));
}

/// A model whose network is never asked: its denoiser is the exact one.
fn model(path: Path, prior: Prior) -> Model {
    let network = UNetConfig::small(8, 1, 8, &[1]);
    let params = softdiff::engine::Params::zeros(&network.graph(1).unwrap().0);
    let recipe = Recipe::builtin("quickstart", &[]).unwrap();
    let (path, prediction, condition) = (Arc::new(path), Prediction::PAPER, Default::default());
    let (name, schedule, weights) = ("gaussian".into(), None, Weights::Raw);
    Model {
        name,
        recipe,
        path,
        schedule,
        prior,
        network: Arc::new(network),
        prediction,
        condition,
        params,
        guide: None,
        weights,
        step: 0,
        checkpoint: None,
        is_described: true,
    }
}

#[test]
fn bits_per_dimension_of_gaussian_images_are_those_of_their_density() {
    let vp = Path::variance_preserving(SHAPE, Alpha::LINEAR).unwrap().centred();
    for (path, again) in [(heat(), heat()), (vp, Path::variance_preserving(SHAPE, Alpha::LINEAR).unwrap().centred())] {
        let oracle = Oracle::new(&again, vec![part()]).unwrap();
        let images: Vec<f64> =
            (0..40_000).flat_map(|i| oracle.draw(&mut RandomStream::numbered(2, "images", i))).collect();
        // Noise alone is the whole of p_1 on the one path; on the other, what is left of the images is fitted.
        let prior = if path.centre() > 0.0 { Prior::noise(&path) } else { Prior::fitted(&path, &images, 4, 1, 0) };
        let model = model(path, prior.unwrap());
        let bytes: Vec<u8> = images[..4 * 60].iter().map(|x| (x * 256.0).clamp(0.0, 255.0) as u8).collect();
        let options = LikelihoodOptions { probes: 200, tolerance: 1e-6, seed: 5, batch: 7 };
        let mut denoiser = Oracle::new(&model.path, vec![part()]).unwrap();
        let found = model.bits_per_dimension(&mut denoiser, &bytes, &options, &mut |_, _| {}).unwrap();
        // What is measured is the density of images with the noise of t = 0.
        let covariance = with_noise(&part().covariance, model.path.sigma(0.0));
        let values = dequantised(&bytes, 4, 5);
        let expected: Vec<f64> =
            values.chunks(4).map(|x| 8.0 - gaussian(x, &part().mean, &covariance) / (4.0 * LN_2)).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let (found_mean, expected_mean) = (mean(&found), mean(&expected));
        println!("{found_mean} against {expected_mean}");
        assert!((found_mean - expected_mean).abs() < 0.01, "{found_mean} not {expected_mean}");
        let deviations: f64 = found.iter().zip(&expected).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 60.0;
        let spread: f64 = expected.iter().map(|b| (b - expected_mean).powi(2)).sum::<f64>() / 60.0;
        assert!(deviations < 0.25 * spread, "{deviations} of {spread}");
    }
}
