//! Restoration on images whose posterior is known in closed form.

use softdiff::corruption::{Blur, Boundary, Corruption, CosineFilter, LinearMap, Shape, ShrinkFilter, cosine_basis};
use softdiff::curve::Interpolation;
use softdiff::engine::rng::RandomStream;
use softdiff::linalg::{Cholesky, Matrix};
use softdiff::noise::Alpha;
use softdiff::path::Path;
use softdiff::prior::Prior;
use softdiff::restore::{
    Conditioned, Estimate, ImageCovariance, Observation, PathEntry, PathMatch, PosteriorSampler, blur_deviation,
    blur_estimate, noise_deviation,
};
use softdiff::sampler::{Ending, GaussianPart, Heun, Oracle, Sampler, Sampling, sample};

const SHAPE: Shape = Shape { height: 4, width: 4, channels: 1 };
const VARIANCE: f64 = 0.06;

fn blur_path(shape: Shape) -> Path {
    let blur = Box::new(Blur::new(shape, Boundary::Reflect, 6.0).unwrap());
    Path::two_stage(blur, vec![0.01, 0.4, 0.9, 1.8, 6.0], Interpolation::MonotoneCubic).unwrap()
}

fn restoration<'a>(
    path: &'a Path,
    prior: &'a Prior,
    entry: PathEntry,
    spread: &'a ImageCovariance,
) -> PosteriorSampler<'a> {
    PosteriorSampler {
        path,
        prior,
        sampler: &Heun,
        steps: 60,
        entry,
        spread: Some(spread),
        guess: None,
        calibrated: false,
        batch: 64,
    }
}

/// Mean and covariance of x_0 given y, for Gaussian x_0.
fn posterior(mean: &[f64], covariance: &Matrix, seen: &Observation) -> (Vec<f64>, Matrix) {
    let n = mean.len();
    let a = seen.map().to_dense(seen.shape()).unwrap();
    let gain = covariance.times_transposed(&a);
    let spread = a.times(&gain).combined(1.0, &Matrix::diagonal(&vec![seen.sigma().powi(2); n]), 1.0);
    let factor = Cholesky::new(&spread).unwrap();
    let centre = a.times_vector(mean);
    let difference: Vec<f64> = seen.values().iter().zip(&centre).map(|(y, c)| y - c).collect();
    let shift = gain.times_vector(&factor.solve(&difference));
    let columns: Vec<Vec<f64>> = (0..n).map(|i| factor.solve(gain.row(i))).collect();
    let solved = Matrix::from_fn(n, n, |i, j| columns[j][i]);
    let left = covariance.combined(1.0, &gain.times(&solved), -1.0);
    (mean.iter().zip(&shift).map(|(m, s)| m + s).collect(), left)
}

fn white_mean() -> Vec<f64> {
    (0..SHAPE.len()).map(|i| 0.35 + 0.02 * i as f64).collect()
}

fn white(path: &Path) -> Oracle<'_> {
    Oracle::gaussian(path, white_mean(), &vec![VARIANCE.sqrt(); SHAPE.len()]).unwrap()
}

/// Images whose power falls as 1/k^2, as that of photographs, and their covariance.
fn photographs(shape: Shape) -> (ImageCovariance, Matrix) {
    let power = |f: usize| 0.3 / (0.5 + ((f / shape.width).pow(2) + (f % shape.width).pow(2)) as f64);
    let powers: Vec<f64> = (0..shape.pixels()).map(power).collect();
    let (rows, cols) = (cosine_basis(shape.height), cosine_basis(shape.width));
    let scaled = Matrix::from_fn(shape.len(), shape.len(), |f, i| {
        powers[f].sqrt() * rows[(f / shape.width, i / shape.width)] * cols[(f % shape.width, i % shape.width)]
    });
    (ImageCovariance::of_powers(shape, &powers), scaled.transposed_times(&scaled))
}

fn gaussian<'a>(path: &'a Path, mean: &[f64], covariance: &Matrix) -> Oracle<'a> {
    let part = GaussianPart { weight: 1.0, mean: mean.to_vec(), covariance: covariance.clone() };
    Oracle::new(path, vec![part]).unwrap()
}

fn observations() -> Vec<(&'static str, Observation)> {
    let values = RandomStream::new(1, "seen").normals(SHAPE.len()).iter().map(|v| 0.5 + 0.2 * v).collect::<Vec<f64>>();
    let known: Vec<bool> = (0..SHAPE.len()).map(|i| i % 3 != 1).collect();
    let blurred = Blur::new(SHAPE, Boundary::Zero, 2.0).unwrap().at(0.7).unwrap();
    let dark = LinearMap::Compose(vec![blurred.clone(), LinearMap::Scale(0.5)]);
    vec![
        ("mask", Observation::masked(SHAPE, &known, 0.05, values.clone()).unwrap()),
        ("blur", Observation::new(SHAPE, blurred, 0.1, values.clone()).unwrap()),
        ("dark blur", Observation::new(SHAPE, dark, 0.02, values.clone()).unwrap()),
        ("shrunk", Observation::shrunk(SHAPE, Shape::new(2, 2, 1), ShrinkFilter::Box, 0.03, &values[..4]).unwrap()),
    ]
}

/// Every step is affine in x_1, so 2n starts with the mean and covariance of q_1(x | y) carry both to the end without any
/// chance: the posterior of any Gaussian images, on any path, for any map.
#[test]
fn the_conditioned_path_ends_in_the_closed_posterior_whatever_was_seen() {
    let (spread, covariance) = photographs(SHAPE);
    let n = SHAPE.len();
    let ve = Path::variance_exploding(SHAPE, 0.01, 30.0).unwrap();
    for (path, sampling) in [(blur_path(SHAPE), Sampling::uniform(100)), (ve, Sampling::uniform(200))] {
        let mut oracle = gaussian(&path, &white_mean(), &covariance);
        for (name, seen) in observations() {
            let (mean, left) = posterior(&white_mean(), &covariance, &seen);
            let last = path.at(1.0).unwrap();
            let c = last.map.to_dense(SHAPE).unwrap();
            let noise = Matrix::diagonal(&vec![last.sigma.powi(2); n]);
            let factor = Cholesky::new(&c.times(&left).times_transposed(&c).combined(1.0, &noise, 1.0)).unwrap();
            let centre = c.times_vector(&mean);
            let starts = (0..2 * n).flat_map(|i| {
                let sign = if i < n { 1.0 } else { -1.0 };
                let point = |j: usize| centre[j] + sign * (n as f64).sqrt() * factor.lower()[(j, i % n)];
                (0..n).map(point).collect::<Vec<f64>>()
            });
            let mut conditioned = Conditioned::new(&mut oracle, &path, &seen, &spread);
            let sampling = sampling.as_ref().unwrap().clone().ending(Ending::Stepped);
            let seeds = vec![0; 2 * n];
            let ends = sample(&path, &Heun, &mut conditioned, starts.collect(), &seeds, &sampling).unwrap();
            let of = |i: usize| ends.chunks(n).map(move |x| x[i]);
            let found: Vec<f64> = (0..n).map(|i| of(i).sum::<f64>() / (2 * n) as f64).collect();
            let shift = found.iter().zip(&mean).map(|(f, m)| (f - m).abs()).fold(0.0, f64::max);
            let products = Matrix::from_fn(n, n, |i, j| {
                of(i).zip(of(j)).map(|(a, b)| (a - found[i]) * (b - found[j])).sum::<f64>() / (2 * n) as f64
            });
            let spread = products.largest_difference(&left) / VARIANCE;
            assert!(shift < 2e-3 && spread < 0.02, "{name}: {shift} {spread}");
        }
    }
}

/// The whole of it, with starts of its own, by chance: samples, their mean and deviation.
#[test]
fn a_path_entered_on_the_way_gives_samples_with_the_posteriors_mean_and_spread() {
    let path = blur_path(SHAPE);
    let (spread, covariance) = photographs(SHAPE);
    let mut oracle = gaussian(&path, &white_mean(), &covariance);
    let (t, sigma) = (0.6, 0.004);
    let x0 = oracle.draw(&mut RandomStream::new(2, "image"));
    let eta = RandomStream::new(3, "noise").normals(SHAPE.len());
    let clean = path.at(t).unwrap().map.apply(SHAPE, &x0).unwrap();
    let values = clean.iter().zip(&eta).map(|(y, e)| y + sigma * e).collect();
    let seen = Observation::on_path(&path, t, sigma, values).unwrap();
    let found = PathMatch::find(&path, &seen).unwrap();
    assert!((found.t - t).abs() < 1e-3, "{found:?}");
    let prior = Prior::noise(&path).unwrap();
    let seeds: Vec<u64> = (0..400).collect();
    let restoration = restoration(&path, &prior, found.entry(), &spread);
    let restored = restoration.run(&mut oracle, &seen, &seeds, &mut |_, _| {}).unwrap();
    let (mean, left) = posterior(&white_mean(), &covariance, &seen);
    for (i, deviation) in left.diagonal_values().iter().map(|v| v.sqrt()).enumerate() {
        // 400 samples: standard errors of 0.05 and 0.035 deviations.
        assert!((restored.mean[i] - mean[i]).abs() < 0.2 * deviation, "mean {i}: {restored:?}");
        assert!((restored.std[i] / deviation - 1.0).abs() < 0.18, "deviation {i}: {restored:?}");
    }
}

/// The same as on images and noise twice as large about 0, on the path that is not centred.
#[test]
fn a_centred_path_is_entered_at_the_brightness_of_its_images() {
    let path = || Path::variance_preserving(SHAPE, Alpha::LINEAR).unwrap();
    let covariance = photographs(SHAPE).1;
    let power = |f: usize| 0.3 / (0.5 + ((f / 4).pow(2) + (f % 4).pow(2)) as f64);
    let seen: Vec<f64> =
        white_mean().iter().zip(RandomStream::new(3, "noise").normals(16)).map(|(x, e)| x + 0.3 * e).collect();
    let restored = |path: Path, unit: f64, values: Vec<f64>, mean: Vec<f64>| {
        let covariance = covariance.combined(unit * unit, &covariance, 0.0);
        let powers: Vec<f64> = (0..SHAPE.len()).map(|f| unit * unit * power(f)).collect();
        let spread = ImageCovariance::of_powers(SHAPE, &powers);
        let seen = Observation::new(SHAPE, LinearMap::Identity, unit * 0.3, values).unwrap();
        let entry = PathMatch::find(&path, &seen).unwrap().entry();
        assert!(matches!(entry, PathEntry::At { scale, .. } if scale < 0.9), "{entry:?}");
        let (prior, mut oracle) = (Prior::noise(&path).unwrap(), gaussian(&path, &mean, &covariance));
        restoration(&path, &prior, entry, &spread).run(&mut oracle, &seen, &[1, 2], &mut |_, _| {}).unwrap().samples
    };
    let doubled = |x: &[f64]| -> Vec<f64> { x.iter().map(|x| 2.0 * x - 1.0).collect() };
    let expected = restored(path(), 2.0, doubled(&seen), doubled(&white_mean()));
    let found = doubled(&restored(path().centred(), 1.0, seen, white_mean()));
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} {expected:?}");
}

fn error(a: &[f64], b: &[f64]) -> f64 {
    (a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / a.len() as f64).sqrt()
}

/// With a spread guessed from what was seen, which is not theirs, and entries found by the program.
#[test]
fn restoring_images_like_photographs_comes_near_the_best_possible() {
    let shape = Shape::new(12, 12, 1);
    let (path, covariance, mean) = (blur_path(shape), photographs(shape).1, vec![0.5; shape.len()]);
    let mut oracle = gaussian(&path, &mean, &covariance);
    let images: Vec<f64> = (0..400).flat_map(|i| oracle.draw(&mut RandomStream::numbered(9, "prior", i))).collect();
    let prior = Prior::fitted(&path, &images, 16, 1, 0).unwrap();
    let seeds: Vec<u64> = (0..16).collect();
    let x0 = oracle.draw(&mut RandomStream::new(10, "image"));
    let noise = RandomStream::new(11, "noise").normals(shape.len());
    let noisy = |clean: Vec<f64>| clean.iter().zip(&noise).map(|(y, e)| y + 0.01 * e).collect::<Vec<f64>>();
    let blurred = path.at(0.55).unwrap().map.apply(shape, &x0).unwrap();
    let hole = |i: usize| (4..8).contains(&(i / 12)) && (3..8).contains(&(i % 12));
    let known: Vec<bool> = (0..shape.pixels()).map(|i| !hole(i)).collect();
    for (name, seen) in [
        ("deblur", Observation::on_path(&path, 0.55, 0.01, noisy(blurred)).unwrap()),
        ("inpaint", Observation::masked(shape, &known, 0.01, noisy(x0.clone())).unwrap()),
    ] {
        let entry = PathMatch::find(&path, &seen).unwrap().entry();
        assert_eq!(entry == PathEntry::Beginning, name == "inpaint");
        let spread = ImageCovariance::fitting(&seen).unwrap();
        let restoration = PosteriorSampler { steps: 40, ..restoration(&path, &prior, entry, &spread) };
        let restored = restoration.run(&mut oracle, &seen, &seeds, &mut |_, _| {}).unwrap();
        let best = posterior(&mean, &covariance, &seen).0;
        let (before, after, least) = (error(seen.values(), &x0), error(&restored.mean, &x0), error(&best, &x0));
        assert!(after < before && after < 1.15 * least, "{name}: {before} to {after}, at best {least}");
        // What was seen is kept: the images explain it.
        for sample in restored.samples.chunks(shape.len()) {
            let misfit = seen.misfit(sample).unwrap();
            assert!(misfit < 1.5, "{name}: {misfit}");
        }
    }
}

#[test]
fn an_image_depends_on_its_own_seed_alone() {
    let path = blur_path(SHAPE);
    let prior = Prior::noise(&path).unwrap();
    let seen = Observation::on_path(&path, 0.5, 0.01, white_mean()).unwrap();
    let spread = ImageCovariance::white(VARIANCE).unwrap();
    let run = |seeds: &[u64], batch: usize| {
        let at = PathEntry::At { t: 0.5, scale: 1.0 };
        let restoration = PosteriorSampler { batch, ..restoration(&path, &prior, at, &spread) };
        restoration.run(&mut white(&path), &seen, seeds, &mut |_, _| {}).unwrap().samples
    };
    let all = run(&[5, 6, 7, 8], 4);
    assert_eq!(run(&[7], 1), all[2 * SHAPE.len()..3 * SHAPE.len()]);
    assert_eq!(run(&[5, 6, 7, 8], 3), all);
}

#[test]
fn without_a_correction_the_path_is_walked_back_from_the_observation() {
    let path = blur_path(SHAPE);
    let prior = Prior::noise(&path).unwrap();
    let seen = Observation::on_path(&path, 0.5, 0.1, white_mean()).unwrap();
    let (at, spread) = (PathEntry::At { t: 0.5, scale: 1.0 }, ImageCovariance::white(VARIANCE).unwrap());
    let plain = PosteriorSampler { spread: None, ..restoration(&path, &prior, at, &spread) };
    let restored = plain.run(&mut white(&path), &seen, &[1, 2], &mut |_, _| {}).unwrap();
    // The observation has the path's noise already, so that a deterministic sampler gives one image.
    assert_eq!(Heun.draws(), 0);
    assert!(restored.std.iter().all(|deviation| *deviation < 1e-12));
}

#[test]
fn noise_and_blur_are_told_from_real_pictures() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../diffusion/tests/golden/cifar10-test-256.bin");
    let set = softdiff::data::Source::open(&file).unwrap().load(&Default::default(), &|_, _| {}).unwrap();
    let shape = Shape::new(32, 32, 3);
    let images: Vec<Vec<f64>> =
        set.pixels().chunks(shape.len()).take(64).map(|p| p.iter().map(|&b| f64::from(b) / 255.0).collect()).collect();
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    for sigma in [0.05, 0.1, 0.2] {
        let found = images.iter().enumerate().map(|(i, image)| {
            let eta = RandomStream::numbered(1, "noise", i).normals(shape.len());
            let noisy: Vec<f64> = image.iter().zip(&eta).map(|(x, e)| x + sigma * e).collect();
            noise_deviation(shape, &noisy).unwrap()
        });
        let found = median(found.collect());
        assert!((0.9..1.35).contains(&(found / sigma)), "noise {sigma}: {found}");
    }
    for deviation in [1.0, 1.5, 2.0, 3.0] {
        let map = Blur::new(shape, Boundary::Reflect, 8.0).unwrap().at(deviation).unwrap();
        let found =
            images.iter().map(|image| blur_deviation(shape, &map.apply(shape, image).unwrap(), 0.0015).unwrap());
        let found = median(found.collect());
        assert!((0.75..1.3).contains(&(found / deviation)), "blur {deviation}: {found}");
    }
}

#[test]
fn the_standard_error_of_a_blur_covers_photographs_with_other_spectra() {
    // Spectra of k^-p around the mean of photographs, p = 2.4, with random phases: what is estimated is off by more than its
    // parts differ.
    let shape = Shape::new(192, 192, 1);
    for (index, exponent) in [2.2, 2.4, 2.6].into_iter().enumerate() {
        let noise = RandomStream::numbered(7, "phases", index).normals(shape.len());
        let gain = |place: usize| ((place / shape.width).pow(2) + (place % shape.width).pow(2)).max(1) as f64;
        let gains: Vec<f64> = (0..shape.len()).map(|place| gain(place).powf(-0.25 * exponent)).collect();
        let mut image = CosineFilter::new(shape, gains).map().apply(shape, &noise).unwrap();
        let largest = image.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        image.iter_mut().for_each(|v| *v = 0.5 + 0.5 * *v / largest);
        let map = Blur::new(shape, Boundary::Reflect, 8.0).unwrap().at(2.0).unwrap();
        let blurred = map.apply(shape, &image).unwrap();
        let Estimate { value, error } = blur_estimate(shape, &blurred, 1e-3).unwrap();
        let error = error.unwrap();
        assert!((value - 2.0).abs() < 2.0 * error && error < 0.4, "k^-{exponent}: {value} ± {error}");
    }
}
