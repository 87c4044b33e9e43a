//! A training state as the files of a checkpoint, and back.

use super::error::{CheckpointError, Result};
use super::state::{TrainingProgress, TrainingState};
use safetensors::{Dtype, SafeTensors, View};
use serde::{Deserialize, Serialize};
use softdiff_engine::optim::{Adam, AdamConfig};
use softdiff_engine::{HintedMessage, ParamSpec, Params};
use std::borrow::Cow;
use std::path::Path;

pub(crate) const PARAMS: &str = "params.safetensors";
pub(super) const ADAM: &str = "adam.safetensors";
pub(super) const STATE: &str = "state.json";

/// Names in `adam.safetensors`: one of these, then the parameter's name.
const MOMENTS: [&str; 2] = ["first.", "second."];

/// The content of `state.json`.
#[derive(Serialize, Deserialize)]
struct StateFile {
    schema: u32,
    /// Adam's own count: steps less the skipped updates.
    updates: u64,
    #[serde(flatten)]
    progress: TrainingProgress,
}

/// The file of the moving average with this decay.
pub(super) fn ema_file(decay: f64) -> String {
    format!("ema-{decay}.safetensors")
}

/// Bytes that [`encode`] will give, but for headers, which a thousandth and 64 KiB more than cover.
pub(super) fn expected_bytes(state: &TrainingState) -> u64 {
    let values = state.params.numel() * (3 + state.adam.ema.len());
    let bytes = size_of::<f32>() as u64 * values as u64;
    bytes + bytes / 1000 + (1 << 16)
}

/// One file after the other goes to `write`, so that only one is in memory as bytes.
pub(super) fn encode(state: &TrainingState, mut write: impl FnMut(&str, &[u8]) -> Result<()>) -> Result<()> {
    let TrainingState { params, adam, progress } = state;
    write(PARAMS, &encode_params(params)?)?;
    for (index, (decay, ema)) in adam.config.ema.iter().zip(&adam.ema).enumerate() {
        if adam.config.ema[..index].contains(decay) {
            return Err(CheckpointError::SameDecay { decay: *decay });
        }
        write(&ema_file(*decay), &encode_params(ema)?)?;
    }
    let trainable = || params.specs().iter().filter(|spec| spec.trainable);
    let mut moments = Vec::new();
    for (prefix, values) in MOMENTS.iter().zip([&adam.first, &adam.second]) {
        for (index, spec) in trainable().enumerate() {
            let tensor = StoredTensor { spec, values: values.get(index).map_or(&[], Vec::as_slice) };
            moments.push((format!("{prefix}{}", spec.name), tensor));
        }
    }
    write(ADAM, &serialize(moments)?)?;
    let file = StateFile { schema: super::SCHEMA, updates: adam.step, progress: progress.clone() };
    let Ok(mut text) = serde_json::to_string_pretty(&file) else {
        unreachable!("numbers and lists of numbers are always JSON")
    };
    text.push('\n');
    write(STATE, text.as_bytes())
}

/// Builds the state from files that `read` has verified, for parameters like `template`.
pub(super) fn decode(
    checkpoint: &Path,
    template: &Params<f32>,
    config: &AdamConfig,
    mut read: impl FnMut(&str) -> Result<Vec<u8>>,
) -> Result<TrainingState> {
    let format = |file: &str, problem: HintedMessage| CheckpointError::Format {
        checkpoint: checkpoint.into(),
        file: file.into(),
        problem,
    };
    let mut decode_params = |file: &str| {
        let mut params = template.clone();
        params.read_safetensors(&read(file)?).map_err(|e| format(file, HintedMessage::of(e)))?;
        Ok(params)
    };
    let params = decode_params(PARAMS)?;
    let ema = config.ema.iter().map(|decay| decode_params(&ema_file(*decay))).collect::<Result<_>>()?;
    let bytes = read(ADAM)?;
    let moments = SafeTensors::deserialize(&bytes).map_err(|e| format(ADAM, e.to_string().into()))?;
    let moment = |prefix: &str, spec: &ParamSpec| {
        let name = format!("{prefix}{}", spec.name);
        let tensor = moments.tensor(&name).map_err(|e| format(ADAM, e.to_string().into()))?;
        if tensor.dtype() != Dtype::F32 || *tensor.shape() != spec.shape[..] {
            let problem =
                format!("{name} is {:?} {:?}, expected F32 {:?}", tensor.dtype(), tensor.shape(), &spec.shape[..]);
            return Err(format(ADAM, problem.into()));
        }
        Ok(tensor.data().as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect())
    };
    let all = |prefix: &str| -> Result<Vec<Vec<f32>>> {
        template.specs().iter().filter(|spec| spec.trainable).map(|spec| moment(prefix, spec)).collect()
    };
    let (first, second) = (all(MOMENTS[0])?, all(MOMENTS[1])?);
    let file: StateFile = serde_json::from_slice(&read(STATE)?).map_err(|e| format(STATE, e.to_string().into()))?;
    let adam = Adam { config: config.clone(), step: file.updates, first, second, ema };
    Ok(TrainingState { params, adam, progress: file.progress })
}

fn encode_params(params: &Params<f32>) -> Result<Vec<u8>> {
    let tensor = |(index, spec)| StoredTensor { spec, values: params.value(index) };
    serialize(params.specs().iter().enumerate().map(|item| (item.1.name.clone(), tensor(item))).collect())
}

/// No metadata, whose order would differ from process to process: equal states give equal bytes.
fn serialize(tensors: Vec<(String, StoredTensor)>) -> Result<Vec<u8>> {
    for (name, StoredTensor { spec, values }) in &tensors {
        if values.len() != spec.shape.numel() {
            let (expected, found) = (spec.shape.numel(), values.len());
            return Err(CheckpointError::Moments { tensor: name.clone(), expected, found });
        }
        if let Some(index) = values.iter().position(|v| !v.is_finite()) {
            return Err(CheckpointError::NonFinite { tensor: name.clone(), index, value: values[index] });
        }
    }
    match safetensors::serialize(tensors, None) {
        Ok(bytes) => Ok(bytes),
        Err(error) => unreachable!("lengths were checked and names are unique: {error}"),
    }
}

struct StoredTensor<'a> {
    spec: &'a ParamSpec,
    values: &'a [f32],
}

impl View for StoredTensor<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }
    fn shape(&self) -> &[usize] {
        &self.spec.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        self.values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }
    fn data_len(&self) -> usize {
        size_of_val(self.values)
    }
}
