//! Terminal distributions of real pictures.

mod common;

use common::{CIFAR, pictures_of_the_transport_goldens};
use softdiff_diffusion::corruption::{
    Blur, Boundary, Corruption, Decolourisation, ErasureOrder, Grey, HeatDissipation, Masking, Shape,
};
use softdiff_diffusion::curve::Interpolation;
use softdiff_diffusion::linalg::{Matrix, SymmetricEigen};
use softdiff_diffusion::path::Path;
use softdiff_diffusion::prior::{Mixture, Prior, PriorError, Signal};
use softdiff_engine::pixels::to_unit;
use softdiff_engine::rng::RandomStream;

fn path_of(corruption: Box<dyn Corruption>) -> Path {
    let full = corruption.levels().full;
    Path::two_stage(corruption, vec![0.0, full], Interpolation::Linear).unwrap()
}

fn blur_path() -> Path {
    path_of(Box::new(Blur::new(CIFAR, Boundary::Zero, 18.0).unwrap()))
}

/// 128 pictures to fit, 128 others to judge by.
fn pictures() -> [Vec<f64>; 2] {
    pictures_of_the_transport_goldens(128).map(|matrix| matrix.into_values())
}

#[test]
fn the_prior_of_masking_is_noise_and_its_gap_is_that_of_a_perfect_prior() {
    let path = path_of(Box::new(Masking::new(CIFAR, ErasureOrder::Window)));
    let prior = Prior::noise(&path).unwrap();
    assert_eq!((prior.sigma, &prior.signal), (0.1, &Signal::None));
    let [_, held_out] = pictures();
    let gap = prior.gap(&path, &held_out, 2, 1).unwrap();
    assert!(gap.sliced.value < 1.2 * gap.sliced_floor.value, "{:?} against {:?}", gap.sliced, gap.sliced_floor);
    assert!((gap.outside[0] - 0.01).abs() < 2e-4 && (gap.outside[1] - 0.01).abs() < 2e-4);
}

#[test]
fn the_last_blur_is_no_single_colour_and_the_fitted_gaussian_knows_it() {
    let path = blur_path();
    let [fit_to, held_out] = pictures();
    let fitted = Prior::fitted(&path, &fit_to, 8, 1, 0).unwrap();
    let gap = fitted.gap(&path, &held_out, 8, 1).unwrap();
    // The first three modes carry at least as much signal as noise (0.1), in the data and under the prior alike.
    for mode in gap.modes.iter().take(9) {
        let [truth, drawn] = mode.deviation;
        assert!(truth > 0.13, "{mode:?}");
        assert!((drawn / truth - 1.0).abs() < 0.35, "{mode:?}");
    }
    let noise = Prior::noise(&path).unwrap().gap(&path, &held_out, 8, 1).unwrap();
    assert!(noise.sliced.value > 20.0 * gap.sliced.value, "{:?} against {:?}", noise.sliced, gap.sliced);
    assert!(gap.sliced.value < 4.0 * gap.sliced_floor.value, "{:?} against {:?}", gap.sliced, gap.sliced_floor);
    assert!(!gap.leaks_training_images);
}

#[test]
fn blurred_data_is_flagged_as_a_leak() {
    let path = blur_path();
    let [fit_to, held_out] = pictures();
    let prior = Prior::data(&path, &fit_to, 1.0).unwrap();
    assert!(prior.leaks_training_images());
    assert!(prior.gap(&path, &held_out, 4, 1).unwrap().leaks_training_images);
}

#[test]
fn every_prior_survives_its_file_and_draws_the_same_samples() {
    let [fit_to, _] = pictures();
    let heat = path_of(Box::new(HeatDissipation::new(CIFAR, 20.0).unwrap().with_floor(0.001).unwrap()));
    let soft_mask = path_of(Box::new(Masking::soft(CIFAR, ErasureOrder::Rows, 0.5).unwrap()));
    let few = &fit_to[..8 * CIFAR.len()];
    let priors = [
        Prior::noise(&soft_mask).unwrap(),
        Prior::fitted(&blur_path(), &fit_to, 4, 1, 0).unwrap(),
        Prior::fitted(&blur_path(), &fit_to, 2, 3, 0).unwrap(),
        Prior::fitted(&heat, &fit_to, 4, 2, 0).unwrap(),
        Prior::data(&blur_path(), few, 1.0).unwrap(),
    ];
    let file = std::env::temp_dir().join(format!("softdiff-prior-{}.safetensors", std::process::id()));
    for prior in priors {
        prior.write(&file).unwrap();
        let read = Prior::read(&file).unwrap();
        assert_eq!(read, prior);
        let samples = read.sample(5, 3);
        assert_eq!(samples[..2 * CIFAR.len()], prior.sample(2, 3));
        assert_ne!(samples[..CIFAR.len()], samples[CIFAR.len()..2 * CIFAR.len()]);
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn broken_files_and_impossible_fits_are_typed_errors() {
    let [fit_to, _] = pictures();
    let prior = Prior::fitted(&blur_path(), &fit_to, 3, 1, 0).unwrap();
    let file = std::env::temp_dir().join(format!("softdiff-broken-prior-{}.safetensors", std::process::id()));
    prior.write(&file).unwrap();
    let whole = std::fs::read(&file).unwrap();
    for length in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&file, &whole[..length]).unwrap();
        assert!(matches!(Prior::read(&file), Err(PriorError::File { .. })), "{length} bytes");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(Prior::fitted(&blur_path(), &fit_to, 0, 1, 0), Err(PriorError::Zero { .. })));
    assert!(matches!(Prior::fitted(&blur_path(), &fit_to, 2000, 1, 0), Err(PriorError::Modes { .. })));
    assert!(matches!(Prior::fitted(&blur_path(), &fit_to, 2, 100, 0), Err(PriorError::TooFewImages { .. })));
    assert!(Prior::data(&blur_path(), &[0u8; 0], 1.0).is_err());
}

#[test]
fn a_prior_fitted_in_passes_over_bytes_is_that_of_all_values_at_once_to_the_last_bit() {
    let (shape, plane) = (Shape::new(4, 5, 3), Shape::new(4, 5, 1));
    // More than a group of a mean (1,024), and no whole number of chunks (256).
    let count = 1100;
    let mut stream = RandomStream::new(5, "bytes");
    let bytes: Vec<u8> = (0..count * shape.len()).map(|_| stream.below(256) as u8).collect();
    let images = to_unit(&bytes);
    let mean_of = |images: &[f64]| {
        let add = |mut sum: Vec<f64>, image: &[f64]| {
            sum.iter_mut().zip(image).for_each(|(s, v)| *s += v);
            sum
        };
        let sum_of = |images: &[f64]| images.chunks(shape.len()).fold(vec![0.0; shape.len()], add);
        let groups: Vec<f64> = images.chunks(1024 * shape.len()).flat_map(sum_of).collect();
        sum_of(&groups).iter().map(|sum| sum / count as f64).collect::<Vec<f64>>()
    };
    let blur = Blur::new(shape, Boundary::Zero, 2.0).unwrap();
    let grey = Decolourisation::new(shape, Grey::Mean).unwrap();
    for corruption in [Box::new(blur) as Box<dyn Corruption>, Box::new(grey)] {
        let (path, name) = (path_of(corruption), "blur has modes of its own, grey principal components");
        let prior = Prior::fitted(&path, &bytes, 3, 2, 1).unwrap();
        let Signal::Modes { modes, mixture, offset } = &prior.signal else { panic!() };
        let map = path.at(1.0).unwrap().map;
        let corrupted = map.apply_batch(shape, &images).unwrap();
        let (coefficients, mean) = if map.treats_channels_alike() {
            let before: Vec<Vec<f64>> = (0..3).map(|k| map.adjoint(plane, modes.basis().row(k)).unwrap()).collect();
            let coefficients = Matrix::from_fn(count, 9, |i, k| {
                let values = images[i * shape.len()..][..shape.len()].iter().skip(k % 3).step_by(3);
                values.zip(&before[k / 3]).fold(0.0, |sum, (value, weight)| sum + weight * value)
            });
            (coefficients, map.apply(shape, &mean_of(&images)).unwrap())
        } else {
            let cloud = Matrix::from_fn(count * 3, plane.len(), |p, pixel| corrupted[(p / 3 * 20 + pixel) * 3 + p % 3]);
            let centred = cloud.centred(&cloud.row_mean());
            let eigen = SymmetricEigen::new(&centred.transposed_times(&centred)).unwrap();
            assert!((0..3).all(|k| eigen.vectors.row(k) == modes.basis().row(k)), "{name}");
            (modes.coefficients(&corrupted), mean_of(&corrupted))
        };
        assert_eq!(*mixture, Mixture::fit(&coefficients, 2, 1).unwrap(), "{name}");
        let spanned = modes.image(&modes.coefficients(&mean).into_values());
        assert!(offset.iter().zip(mean.iter().zip(&spanned)).all(|(o, (m, s))| *o == m - s), "{name}");
        assert_eq!(prior, Prior::fitted(&path, &images, 3, 2, 1).unwrap(), "{name}");
        let Signal::Data { images } = Prior::data(&path, &bytes, 1.0).unwrap().signal else { panic!() };
        assert_eq!(images, corrupted, "{name}");
    }
}
