//! Weights for PyTorch: under the official names, as the official checkpoint has them, and evaluated there.

mod official;

use official::{golden, nhwc, relative, unit, weight};
use safetensors::SafeTensors;
use softdiff::engine::{Hint, Params};
use softdiff::import::score_sde::OfficialTensor;
use softdiff::import::{ConversionOptions, ImportedWeights, ScoreSdeCheckpoint, write_safetensors};
use softdiff::model::Model;
use softdiff::network::{Embedding, UNetConfig};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("score-sde-export").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// What `softdiff import` writes.
fn import(file: &Path, to: &Path) {
    let options = ConversionOptions {
        weights: ImportedWeights::Ema,
        official_names: false,
        image_size: None,
        training_state: false,
    };
    ScoreSdeCheckpoint::read(file).unwrap().convert("tiny.pth", &options).unwrap().write(to).unwrap();
}

fn bits(tensors: &[(String, OfficialTensor)]) -> Vec<(&str, &[usize], Vec<u32>)> {
    let bits = |tensor: &OfficialTensor| tensor.data.iter().map(|value| value.to_bits()).collect();
    tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.shape.as_slice(), bits(tensor))).collect()
}

/// `tiny.pth` is the official code's own file.
#[test]
fn an_imported_checkpoint_is_exported_as_it_was_and_imported_again_bit_for_bit() {
    let folder = folder("round");
    let first = folder.join("first.safetensors");
    import(&golden("tiny.pth"), &first);
    let weights = Model::open(&first, None).unwrap().score_sde_weights().unwrap();
    let tiny = ScoreSdeCheckpoint::read(golden("tiny.pth")).unwrap();
    let names = |tensors: &[(String, OfficialTensor)]| tensors.iter().map(|one| one.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&weights.tensors), names(&tiny.model), "the official order");
    let mut average = tiny.ema.clone();
    average.sort_by_key(|(name, _)| tiny.model.iter().position(|(known, _)| known == name));
    assert_eq!(bits(&weights.tensors), bits(&average));
    for ending in ["pth", "safetensors"] {
        let (out, again) = (folder.join(format!("out.{ending}")), folder.join(format!("again-{ending}.safetensors")));
        weights.write(&out).unwrap();
        let read = ScoreSdeCheckpoint::read(&out).unwrap();
        assert_eq!(read.step, tiny.step);
        let (ours, theirs) = (read.sigmas.unwrap(), tiny.sigmas.clone().unwrap());
        assert!(ours.iter().zip(&theirs).all(|(a, b)| (a / b - 1.0).abs() < 1e-6) && ours.len() == theirs.len());
        import(&out, &again);
        let [one, other] = [&first, &again].map(|file| std::fs::read(file).unwrap());
        let [one, other] = [&one, &other].map(|bytes| SafeTensors::deserialize(bytes).unwrap());
        assert_eq!(one.len(), other.len());
        for (name, view) in one.iter() {
            assert!(view == other.tensor(name).unwrap(), "{ending}: {name}");
        }
        // It samples as before: the noise levels came along.
        Model::open(&again, None).unwrap();
    }
    let refused = weights.write(&folder.join("out.bin")).unwrap_err();
    assert!(refused.hint().unwrap().contains(".pth"));
}

/// A network with the golden set's closed-form weights, as a file of imported weights.
fn network(file: &Path, config: &UNetConfig) -> Params<f32> {
    let (graph, net) = config.graph(1).unwrap();
    let mut params = Params::<f32>::zeros(&graph);
    for one in &net.correspondence {
        let shape = params.specs().iter().find(|spec| spec.name == one.name).unwrap().shape.clone();
        params.set(&one.name, &shape, &one.from_official(&weight(&one.official, &one.official_shape))).unwrap();
    }
    let named = params.specs().iter().enumerate().map(|(index, spec)| {
        (spec.name.clone(), OfficialTensor { shape: spec.shape.to_vec(), data: params.value(index).to_vec() })
    });
    let facts = [
        ("network", serde_json::to_string(config).unwrap()),
        ("noise_levels", r#"{"count":1000,"largest":90.0,"smallest":0.01}"#.into()),
    ];
    let facts: BTreeMap<String, String> = facts.map(|(key, value)| (key.to_owned(), value)).into();
    write_safetensors(&mut std::fs::File::create(file).unwrap(), &named.collect::<Vec<_>>(), &facts).unwrap();
    params
}

/// With torch and safetensors in the Python of `SOFTDIFF_PYTHON` (else python3); skipped where they are missing.
#[test]
fn pytorch_evaluates_exported_weights_as_we_do() {
    let python = std::env::var("SOFTDIFF_PYTHON").unwrap_or("python3".into());
    let has_torch = Command::new(&python).args(["-c", "import torch, safetensors.torch"]).output();
    if !has_torch.is_ok_and(|run| run.status.success()) {
        eprintln!("skipped: {python} has no torch and safetensors; set SOFTDIFF_PYTHON to one that has");
        return;
    }
    let folder = folder("torch");
    let fourier = UNetConfig { channels: 16, multipliers: vec![1, 2, 2], blocks: 2, ..UNetConfig::ncsnpp_cifar10() };
    let positional = UNetConfig { embedding: Embedding::Positional, attention: vec![8, 16], ..fourier.clone() };
    for (config, cond, attending) in [(fourier, [0.3, -1.2], &["1"][..]), (positional, [17.0, 803.0], &["1", "2"])] {
        let imported = folder.join("imported.safetensors");
        let params = network(&imported, &config);
        let weights = Model::open(&imported, None).unwrap().score_sde_weights().unwrap();
        let shape = [2, 3, 32, 32];
        let x: Vec<f32> = unit("input.x", shape.iter().product()).map(|value| value as f32).collect();
        let (graph, net) = config.graph(2).unwrap();
        let plan = softdiff::engine::Plan::new(&graph, &[net.output]).unwrap();
        let mut run = softdiff::engine::cpu::CpuExecutor::<f64>::new(plan);
        run.set_f64("x", &nhwc(&x.iter().map(|&value| value.into()).collect::<Vec<f64>>(), &shape)).unwrap();
        run.set_f64("condition", &cond).unwrap();
        let mut wide = Params::<f64>::zeros(&graph);
        for (index, spec) in params.specs().iter().enumerate() {
            let values: Vec<f64> = params.value(index).iter().map(|&value| value.into()).collect();
            wide.set(&spec.name, &spec.shape, &values).unwrap();
        }
        run.run(&wide, 0, 0).unwrap();
        let ours: Vec<f64> = run.get(net.output).unwrap().to_vec();
        assert!(ours.iter().any(|value| value.abs() > 0.1), "an output to compare");
        let (input, output) = (folder.join("input.safetensors"), folder.join("output.safetensors"));
        let given = [
            ("x".to_owned(), OfficialTensor { shape: shape.to_vec(), data: x }),
            ("cond".to_owned(), OfficialTensor { shape: vec![2], data: cond.map(|value| value as f32).to_vec() }),
        ];
        write_safetensors(&mut std::fs::File::create(&input).unwrap(), &given, &BTreeMap::new()).unwrap();
        for ending in ["pth", "safetensors"] {
            let exported = folder.join(format!("exported.{ending}"));
            let _ = std::fs::remove_file(&exported);
            weights.write(&exported).unwrap();
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/score_sde/evaluate.py");
            let mut command = Command::new(&python);
            command.arg(script).args([&exported, &input, &output]).args(["3", "2"]).args(attending);
            let run = command.output().unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
            let bytes = std::fs::read(&output).unwrap();
            let file = SafeTensors::deserialize(&bytes).unwrap();
            let theirs = file.tensor("out").unwrap();
            let theirs: Vec<f64> =
                theirs.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes).into()).collect();
            let error = relative(nhwc(&theirs, &shape), &ours);
            assert!(error < 2e-5, "{ending}: {error:e}");
        }
    }
}

#[test]
fn networks_that_score_sde_does_not_have_are_refused_with_the_reason() {
    let folder = folder("refused");
    let file = folder.join("network.safetensors");
    let usual = UNetConfig { channels: 8, multipliers: vec![1, 2], blocks: 1, ..UNetConfig::ncsnpp_cifar10() };
    network(&file, &usual);
    assert!(Model::open(&file, None).unwrap().score_sde_weights().is_ok());
    let flat = UNetConfig { pyramid: false, ..usual.clone() };
    let deep = UNetConfig { middle_attention: false, ..usual };
    for (config, reason) in [(flat, "network.pyramid"), (deep, "network.middle_attention")] {
        network(&file, &config);
        let Err(refused) = Model::open(&file, None).unwrap().score_sde_weights() else { panic!("{reason}") };
        assert!(refused.to_string().contains(reason) && refused.hint().is_some(), "{refused}");
    }
}
