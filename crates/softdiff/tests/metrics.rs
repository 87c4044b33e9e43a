//! Metrics of features against pytorch-fid and torch-fidelity.

#[path = "../../diffusion/tests/common/mod.rs"]
mod common;

use serde_json::Value;
use softdiff::data::Dataset;
use softdiff::engine::Device;
use softdiff::hint::Hint;
use softdiff::inception::FEATURES;
use softdiff::metrics::{Evaluator, FeatureStatistics, ImageSet, Metric, MetricError, fid, polynomial_mmd2, prdc};

/// Generated and real features, and what other software says of them.
fn golden() -> (Vec<f32>, Vec<f32>, Vec<u8>, Value) {
    let bytes = std::fs::read(common::golden("fid/fid.safetensors")).unwrap();
    let features: Vec<f32> = common::tensor(&bytes, "cifar_pf_f16").1.iter().map(|&v| v as f32).collect();
    let (generated, real) = features.split_at(256 * FEATURES);
    let expected = common::golden_json("fid/fid.json")["pf"]["from_stored_f16"].clone();
    (generated.to_vec(), real.to_vec(), bytes, expected)
}

#[test]
fn fid_equals_pytorch_fid_and_torch_fidelity() {
    let (generated, real, _, expected) = golden();
    let [generated, real] = [generated, real].map(|set| FeatureStatistics::of(&set, FEATURES).unwrap());
    let found = fid(&generated, &real).unwrap();
    let exact = expected["fid_exact"]["total"].as_f64().unwrap();
    assert!((found - exact).abs() < 1e-7, "{found} against the exact {exact}");
    for name in ["fid_pytorch_fid", "fid_torch_fidelity"] {
        let theirs = expected[name].as_f64().unwrap();
        assert!((found - theirs).abs() < 5e-4, "{found} against {theirs} of {name}");
    }
}

#[test]
fn kid_equals_torch_fidelity_on_its_own_subsets() {
    let (generated, real, bytes, expected) = golden();
    let wide = |set: &[f32]| set.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
    let (generated, real) = (wide(&generated), wide(&real));
    let full = expected["kid_full_unbiased"].as_f64().unwrap();
    assert!((polynomial_mmd2(&generated, &real, FEATURES) - full).abs() < 1e-10);
    let subsets = |name: &str| common::tensor(&bytes, name).1;
    let rows = |set: &[f64], subset: &[f64]| -> Vec<f64> {
        subset.iter().flat_map(|&row| set[row as usize * FEATURES..][..FEATURES].to_vec()).collect()
    };
    let (left, right) = (subsets("kid_subset_1"), subsets("kid_subset_2"));
    let values: Vec<f64> = left
        .chunks(100)
        .zip(right.chunks(100))
        .map(|(left, right)| polynomial_mmd2(&rows(&generated, left), &rows(&real, right), FEATURES))
        .collect();
    let mean = values.iter().sum::<f64>() / 50.0;
    assert!((mean - expected["kid_torch_fidelity"]["mean_f64"].as_f64().unwrap()).abs() < 1e-8, "{mean}");
    let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 50.0).sqrt();
    assert!((deviation - expected["kid_torch_fidelity"]["std_f64"].as_f64().unwrap()).abs() < 1e-8, "{deviation}");
}

#[test]
fn precision_and_recall_equal_torch_fidelity_exactly() {
    let (generated, real, _, expected) = golden();
    for k in [3, 5] {
        let found = prdc(&generated, &real, FEATURES, k).unwrap();
        let theirs = &expected[format!("prc_k{k}")];
        assert_eq!(found.precision, theirs["precision"].as_f64().unwrap(), "k = {k}");
        assert_eq!(found.recall, theirs["recall"].as_f64().unwrap(), "k = {k}");
    }
}

#[test]
fn statistics_are_read_as_they_were_written() {
    let features: Vec<f32> = (0..200).map(|i| (i * 7 % 13) as f32).collect();
    let statistics = FeatureStatistics::of(&features, 4).unwrap();
    let note = softdiff::metrics::StatisticsNote { count: 50, preset: "p".into(), ..Default::default() };
    let path = std::env::temp_dir().join(format!("softdiff-statistics-{}.npz", std::process::id()));
    statistics.write(&mut std::fs::File::create(&path).unwrap(), &note).unwrap();
    assert!(FeatureStatistics::recognise(&path) && !FeatureStatistics::recognise(&common::golden("README.md")));
    let (read, found) = FeatureStatistics::read(&path).unwrap();
    assert_eq!((found, read.count()), (Some(note), 50));
    let ((mean, covariance), (other, second)) = (statistics.moments().unwrap(), read.moments().unwrap());
    assert_eq!(mean, other);
    assert!(covariance.largest_difference(&second) < 1e-12);
    std::fs::write(&path, b"PK\x05\x06").unwrap();
    assert!(FeatureStatistics::read(&path).err().unwrap().hint().unwrap().contains("mu and sigma"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn images_in_memory_are_measured_against_a_data_source() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../diffusion/tests/golden/cifar10-test-256.bin");
    let images = ImageSet::open(path).unwrap();
    let inverted: Vec<u8> = images.dataset.pixels().iter().map(|&byte| 255 - byte).collect();
    let inverted = ImageSet::new(Dataset::new(32, 32, 3, inverted, None, vec![]), "inverted");
    let reference = images.clone().into();
    let mut evaluator = Evaluator::new(&Device::open("cpu").unwrap());
    let metrics = [Metric::SlicedWasserstein, Metric::Memorisation];
    let same = evaluator.evaluate(&images, &reference, &metrics).unwrap();
    assert_eq!((same.results["sliced_wasserstein"].value, same.results["memorisation"].value), (0.0, 1.0));
    assert!(same.nearest.iter().enumerate().all(|(index, near)| near.index == index && near.distance == 0.0));
    let other = evaluator.evaluate(&inverted, &reference, &metrics).unwrap();
    assert!(other.results["sliced_wasserstein"].value > 0.05);
    assert_eq!(other.protocol.images.source, "inverted");
    assert!(matches!(evaluator.fid(&inverted, &reference), Err(MetricError::NoNetwork)));
}
