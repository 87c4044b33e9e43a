//! The FID network against the features of pytorch-fid and torch-fidelity.

#[path = "../../diffusion/tests/common/mod.rs"]
mod common;

use softdiff::data::Source;
use softdiff::engine::Device;
use softdiff::hint::Hint;
use softdiff::inception::{Extractor, Inception, Preset};
use std::path::{Path, PathBuf};

/// The network's file, or a word on standard error that the test was skipped.
fn network() -> Option<PathBuf> {
    let path = std::env::var_os("SOFTDIFF_INCEPTION").map(PathBuf::from);
    if path.is_none() {
        eprintln!("skipped: set SOFTDIFF_INCEPTION to the FID network; docs/evaluation.md says where to get it");
    }
    path
}

#[test]
fn features_equal_those_of_pytorch_fid_and_torch_fidelity() {
    let Some(path) = network() else { return };
    let network = Inception::read(&path).unwrap();
    assert!(network.is_published(), "{}", network.hash());
    let device = Device::open(&std::env::var("SOFTDIFF_DEVICE").unwrap_or("cpu".into())).unwrap();
    let pictures = Source::open(&common::golden("../../../diffusion/tests/golden/cifar10-test-256.bin")).unwrap();
    let pictures = pictures.load(&Default::default(), &|_, _| {}).unwrap();
    let golden = std::fs::read(common::golden("fid/fid.safetensors")).unwrap();
    for (preset, name) in [(Preset::PytorchFid, "cifar_pf_f32"), (Preset::Tensorflow, "cifar_tf_f32")] {
        let ([count, _], expected) = (common::shape2(&golden, name), common::tensor(&golden, name).1);
        let start = std::time::Instant::now();
        let mut extractor = Extractor::new(&device, &network, preset);
        let found = extractor.features(&pictures.pixels()[..count * 3072], 32, 32, 3).unwrap();
        let differences = found.iter().zip(&expected).map(|(&f, e)| (f64::from(f) - e).abs());
        let largest = differences.fold(0.0, f64::max);
        eprintln!("{preset}: largest difference {largest:.1e}, {:.2} s", start.elapsed().as_secs_f64());
        assert!(largest < 5e-5, "{preset}: {largest}");
    }
}

#[test]
fn files_that_are_not_the_network_are_refused_with_a_remedy() {
    let refused = |path: &Path| Inception::read(path).err().unwrap().to_string();
    let missing = Inception::read(Path::new("no/such.pth")).err().unwrap();
    assert!(missing.hint().unwrap().contains("softdiff data fetch fid-inception"));
    assert!(refused(&common::golden("README.md")).contains("not a safetensors file"));
    let other = refused(&common::golden("../../../diffusion/tests/golden/ot.safetensors"));
    assert!(other.contains("expected F32") || other.contains("is not the FID network"), "{other}");
}
