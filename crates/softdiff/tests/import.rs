//! `tiny.pth`, written by the official code after three training steps, against what Python read from it.
//! How the golden files were made: `golden/ncsnpp/README.md`.

use safetensors::SafeTensors;
use serde_json::Value;
use softdiff::engine::{Device, Hint, Params, Precision};
use softdiff::import::score_sde::{NoiseLevels, OfficialTensor};
use softdiff::import::{ScoreSdeCheckpoint, write_safetensors};
use softdiff::model::Model;
use softdiff::network::{Correspondence, UNetConfig};
use softdiff::sampler::Denoiser;
use std::collections::BTreeMap;
use std::path::PathBuf;

mod forge;
mod official;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ncsnpp").join(name)
}

fn facts() -> Value {
    serde_json::from_slice(&std::fs::read(golden("tiny.json")).unwrap()).unwrap()
}

fn tiny() -> ScoreSdeCheckpoint {
    ScoreSdeCheckpoint::read(golden("tiny.pth")).unwrap()
}

fn crc(tensor: &OfficialTensor) -> u64 {
    assert_eq!(tensor.data.len(), tensor.shape.iter().product::<usize>());
    forge::crc32(&tensor.data.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>()).into()
}

#[test]
fn every_weight_has_the_official_name_order_and_bytes() {
    let (tiny, facts) = (tiny(), facts());
    let params = facts["params"].as_object().unwrap();
    assert_eq!(tiny.model.len(), params.len());
    for (position, (name, tensor)) in tiny.model.iter().enumerate() {
        assert_eq!(params[name]["opt_index"], position, "{name}");
        assert_eq!(params[name]["model_crc32"], crc(tensor), "{name}");
    }
}

#[test]
fn the_unnamed_average_gets_the_names_of_the_trained_parameters() {
    let (tiny, facts) = (tiny(), facts());
    let params = facts["params"].as_object().unwrap();
    assert_eq!(tiny.ema.len(), params.len());
    let (frozen, trained) = tiny.ema.split_last().unwrap();
    for (position, (name, tensor)) in trained.iter().enumerate() {
        assert_eq!(params[name]["ema_index"], position, "{name}");
        assert_eq!(params[name]["ema_crc32"], crc(tensor), "{name}");
    }
    assert_eq!(frozen.0, "all_modules.0.W");
    assert_eq!(params["all_modules.0.W"]["model_crc32"], crc(&frozen.1));
}

#[test]
fn the_average_equals_what_python_saved_by_name() {
    let bytes = std::fs::read(golden("tiny.ema.safetensors")).unwrap();
    let saved = SafeTensors::deserialize(&bytes).unwrap();
    let tiny = tiny();
    assert_eq!(tiny.ema.len(), saved.len());
    for (name, tensor) in &tiny.ema {
        let view = saved.tensor(name).unwrap();
        assert_eq!(view.shape(), tensor.shape, "{name}");
        let bytes: Vec<u8> = tensor.data.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(view.data() == bytes, "{name}");
    }
}

#[test]
fn both_moments_of_adam_arrive_bit_for_bit() {
    let (adam, facts) = (tiny().adam.unwrap(), facts());
    let params = facts["params"].as_object().unwrap();
    assert_eq!(adam.moments.len(), params.len() - 1);
    for moments in &adam.moments {
        let fact = &params[&moments.name];
        assert_eq!(fact["exp_avg_crc32"], crc(&moments.first), "{}", moments.name);
        assert_eq!(fact["exp_avg_sq_crc32"], crc(&moments.second), "{}", moments.name);
        assert_eq!(moments.step, 3);
    }
}

#[test]
fn the_numbers_beside_the_tensors_are_exact() {
    let (tiny, facts) = (tiny(), facts());
    assert_eq!(facts["step"], tiny.step);
    assert_eq!(facts["ema_decay"], tiny.ema_decay);
    assert_eq!(facts["ema_num_updates"], tiny.ema_updates.unwrap());
    let (adam, group) = (tiny.adam.unwrap(), &facts["optimizer_group"]);
    assert_eq!(group["lr"], adam.lr);
    assert_eq!(group["betas"][0], adam.betas.0);
    assert_eq!(group["betas"][1], adam.betas.1);
    assert_eq!(group["eps"], adam.eps);
    assert_eq!(adam.weight_decay, 0.0);
    let sigmas = tiny.sigmas.unwrap();
    assert_eq!(facts["sigmas"]["n"], sigmas.len());
    assert_eq!(facts["sigmas"]["first"], sigmas[0]);
    assert_eq!(facts["sigmas"]["last"], sigmas[999]);
}

#[test]
fn a_missing_file_is_named() {
    let error = ScoreSdeCheckpoint::read("no/such/file.pth").unwrap_err();
    assert_eq!(error.to_string(), "cannot read no/such/file.pth");
}

#[test]
fn what_is_written_reads_back_the_same_and_is_the_same_every_time() {
    let tiny = tiny();
    let metadata = BTreeMap::from(["step", "source", "format"].map(|key| (key.to_string(), format!("a {key}"))));
    let write = || {
        let mut bytes = Vec::new();
        write_safetensors(&mut bytes, &tiny.ema, &metadata).unwrap();
        bytes
    };
    let bytes = write();
    assert!(bytes == write());
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap().len(), 3);
    let read = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(read.len(), tiny.ema.len());
    for (name, tensor) in &tiny.ema {
        let view = read.tensor(name).unwrap();
        assert_eq!(view.shape(), tensor.shape);
        assert!(view.data() == tensor.data.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
    }
}

/// score_sde's CelebA network in small, trained with discrete noise levels: labels 525, 393, 999 and 0 of 1000 levels from 90 to 0.01.
#[test]
fn a_positional_ve_network_is_told_the_index_of_the_noise_level_as_officially() {
    let golden = official::Golden::read("tiny-positional");
    let params = golden.json["params"].as_object().unwrap();
    let dims =
        |shape: &Value| shape.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect::<Vec<_>>();
    let shapes: Vec<(&str, Vec<usize>)> =
        params.iter().map(|(name, fact)| (name.as_str(), dims(&fact["shape"]))).collect();
    let borrowed: Vec<(&str, &[usize])> = shapes.iter().map(|(name, shape)| (*name, shape.as_slice())).collect();
    let config = UNetConfig::from_official(&borrowed, None).unwrap();
    let (graph, net) = config.graph(1).unwrap();
    let mut ours = Params::<f32>::zeros(&graph);
    let find = |name: &str| {
        let shape = shapes.iter().find(|(known, _)| *known == name)?.1.clone();
        let values = official::weight(name, &shape);
        Some((shape, values))
    };
    Correspondence::load_all(&net.correspondence, &mut ours, &find).unwrap();
    let tensors: Vec<(String, OfficialTensor)> = ours
        .specs()
        .iter()
        .enumerate()
        .map(|(i, spec)| {
            (spec.name.clone(), OfficialTensor { shape: spec.shape.to_vec(), data: ours.value(i).to_vec() })
        })
        .collect();
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tiny-positional.safetensors");
    let write = |facts: &[(&str, String)]| {
        let metadata: BTreeMap<String, String> =
            facts.iter().map(|(key, text)| ((*key).into(), text.clone())).collect();
        write_safetensors(&mut std::fs::File::create(&file).unwrap(), &tensors, &metadata).unwrap();
    };
    let network = serde_json::to_string(&config).unwrap();
    // Without its noise levels the index is not known.
    write(&[("network", network.clone())]);
    let Err(refused) = Model::open(&file, None) else { panic!() };
    assert!(refused.in_full().contains("import the checkpoint again"), "{refused}");
    let levels = NoiseLevels { count: 1000, largest: 90.0, smallest: 0.01 };
    write(&[("network", network), ("noise_levels", serde_json::to_string(&levels).unwrap())]);
    let model = Model::open(&file, None).unwrap();
    let device = Device::open("cpu").unwrap();
    let mut denoiser = model.denoiser(&device, 1, Precision::F32).unwrap();
    let x: Vec<f64> = golden_input();
    let size = x.len() / 2;
    for (labels, out) in [("cond", "out64"), ("cond_sweep", "out_sweep64")] {
        let score = official::nhwc(&golden.values(out), &[2, 3, 32, 32]);
        for (image, label) in golden.values(labels).into_iter().enumerate() {
            let t = 1.0 - label / 999.0;
            let sigma = model.path.at(t).unwrap().sigma;
            let (x, score) = (&x[image * size..][..size], &score[image * size..][..size]);
            let expected: Vec<f64> = x.iter().zip(score).map(|(x, s)| x + sigma * sigma * s).collect();
            let found = denoiser.x0_hat(x, t).unwrap();
            let shift: Vec<f64> = found.iter().zip(x).map(|(f, x)| f - x).collect();
            let exact: Vec<f64> = expected.iter().zip(x).map(|(e, x)| e - x).collect();
            let error = official::relative(shift, &exact);
            assert!(error < 1e-4, "label {label}: {error:e}");
        }
    }
}

/// `input.x` of the golden set, in [0, 1]-like range, as our layout has it.
fn golden_input() -> Vec<f64> {
    let values: Vec<f64> = official::unit("input.x", 2 * 3 * 32 * 32).map(|v| f64::from(v as f32)).collect();
    official::nhwc(&values, &[2, 3, 32, 32])
}

#[test]
fn files_of_diffusers_and_edm_are_named() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("foreign");
    std::fs::create_dir_all(&folder).unwrap();
    let tensor = || OfficialTensor { shape: vec![1], data: vec![0.0] };
    let names = ["conv_in.weight", "time_embedding.linear_1.weight", "down_blocks.0.resnets.0.conv1.weight"];
    let tensors: Vec<(String, OfficialTensor)> = names.iter().map(|name| ((*name).to_owned(), tensor())).collect();
    let diffusers = folder.join("diffusion_pytorch_model.safetensors");
    write_safetensors(&mut std::fs::File::create(&diffusers).unwrap(), &tensors, &BTreeMap::new()).unwrap();
    // pickle.dumps({"ema": object of torch_utils.persistence}), protocol 4, its beginning.
    let edm = folder.join("edm-cifar10-32x32-uncond-vp.pkl");
    std::fs::write(&edm, b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x03ema\x94\x8c\x17torch_utils.persistence\x94\x8c\x1b_reconstruct_persistent_obj").unwrap();
    std::fs::write(folder.join("config.json"), br#"{"_class_name": "UNet2DModel", "_diffusers_version": "0.4"}"#)
        .unwrap();
    for (file, software) in
        [(&diffusers, "a model of diffusers"), (&edm, "a network pickle of EDM"), (&folder, "a model of diffusers")]
    {
        let refused = ScoreSdeCheckpoint::read(file).unwrap_err().to_string();
        assert_eq!(refused, format!("this is {software}, which cannot be imported"), "{}", file.display());
    }
    let Err(refused) = Model::open(&diffusers, None) else { panic!() };
    assert!(refused.to_string().contains("this is a model of diffusers"), "{refused}");
}
