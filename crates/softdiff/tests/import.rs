//! `tiny.pth`, written by the official code after three training steps, against what Python read from it.
//! How the golden files were made: `golden/ncsnpp/README.md`.

use safetensors::SafeTensors;
use serde_json::Value;
use softdiff::import::score_sde::Tensor;
use softdiff::import::{ScoreSdeCheckpoint, write_safetensors};
use std::collections::BTreeMap;
use std::path::PathBuf;

mod forge;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ncsnpp").join(name)
}

fn facts() -> Value {
    serde_json::from_slice(&std::fs::read(golden("tiny.json")).unwrap()).unwrap()
}

fn tiny() -> ScoreSdeCheckpoint {
    ScoreSdeCheckpoint::read(golden("tiny.pth")).unwrap()
}

fn crc(tensor: &Tensor) -> u64 {
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
