//! The smallest score_sde checkpoint: Fourier frequencies, one weight matrix, one bias.

use super::pickle::{Code, call, dict, float, int, list, named, numpy_scalar, pickle, storage, tensor, text};
use super::zip::{Entry, write};

/// A checkpoint whose parts can be replaced before it is written.
#[derive(Clone)]
pub struct Checkpoint {
    pub model: Vec<(String, Code)>,
    pub shadow: Vec<Code>,
    pub decay: Code,
    pub updates: Code,
    pub state: Vec<(Code, Code)>,
    pub params: Vec<Code>,
    pub lr: Code,
    pub step: Code,
    pub byteorder: Option<&'static str>,
    /// The storages' entries, named by their position.
    pub storages: Vec<Vec<u8>>,
}

pub const W: &str = "module.all_modules.0.W";
pub const WEIGHT: &str = "module.all_modules.1.weight";
pub const BIAS: &str = "module.all_modules.1.bias";

impl Default for Checkpoint {
    fn default() -> Self {
        let mut checkpoint = Checkpoint {
            model: vec![],
            shadow: vec![],
            decay: float(0.999),
            updates: int(7),
            state: vec![],
            params: vec![int(0), int(1), int(2)],
            lr: numpy_scalar("numpy.core.multiarray", "f8", "<", &2e-4f64.to_le_bytes()),
            step: int(7),
            byteorder: Some("little"),
            storages: vec![],
        };
        let sigmas =
            checkpoint.store("DoubleStorage", [50.0f64, 0.01].iter().flat_map(|v| v.to_le_bytes()).collect(), 2);
        let sigmas = tensor(sigmas, 0, &[2], &[1]);
        let w = checkpoint.floats(&[1.0, 2.0], &[2]);
        let weight = checkpoint.floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
        let bias = checkpoint.floats(&[0.5, -0.5], &[2]);
        checkpoint.model = [("module.sigmas", sigmas), (W, w), (WEIGHT, weight), (BIAS, bias)]
            .map(|(name, code)| (name.to_string(), code))
            .to_vec();
        checkpoint.shadow = vec![checkpoint.floats(&[0.1; 6], &[2, 3]), checkpoint.floats(&[0.2; 2], &[2])];
        checkpoint.state = vec![
            (int(1), checkpoint.moments(&[0.3; 6], &[2, 3], int(7))),
            (int(2), checkpoint.moments(&[0.4; 2], &[2], int(7))),
        ];
        checkpoint
    }
}

impl Checkpoint {
    /// Adds a storage and gives the code of its description.
    pub fn store(&mut self, class: &str, bytes: Vec<u8>, elements: i64) -> Code {
        self.storages.push(bytes);
        storage(class, &(self.storages.len() - 1).to_string(), elements)
    }

    /// Adds a contiguous tensor of one or two axes.
    pub fn floats(&mut self, values: &[f32], shape: &[i64]) -> Code {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let stride = if let [_, columns] = *shape { vec![columns, 1] } else { vec![1; shape.len()] };
        let storage = self.store("FloatStorage", bytes, values.len() as i64);
        tensor(storage, 0, shape, &stride)
    }

    pub fn moments(&mut self, values: &[f32], shape: &[i64], step: Code) -> Code {
        let (first, second) = (self.floats(values, shape), self.floats(values, shape));
        named(&[("step", step), ("exp_avg", first), ("exp_avg_sq", second)])
    }

    /// Replaces one entry of the model.
    pub fn with(mut self, name: &str, code: Code) -> Self {
        self.model.iter_mut().find(|(n, _)| n == name).unwrap().1 = code;
        self
    }

    pub fn optimizer(&self) -> Code {
        let group = named(&[
            ("lr", self.lr.clone()),
            ("betas", super::pickle::tuple(&[float(0.9), float(0.999)])),
            ("eps", float(1e-8)),
            ("weight_decay", int(0)),
            ("params", list(&self.params)),
        ]);
        named(&[("state", dict(&self.state)), ("param_groups", list(&[group]))])
    }

    pub fn ema(&self) -> Code {
        named(&[
            ("decay", self.decay.clone()),
            ("num_updates", self.updates.clone()),
            ("shadow_params", list(&self.shadow)),
        ])
    }

    /// The model as an OrderedDict with attributes, as torch writes it.
    pub fn model(&self) -> Code {
        let entries: Vec<u8> = self.model.iter().flat_map(|(name, code)| [text(name), code.clone()].concat()).collect();
        let ordered = call("collections", "OrderedDict", &[]);
        let attributes = named(&[("_metadata", call("collections", "OrderedDict", &[]))]);
        [&ordered[..], b"(", &entries, b"u", &attributes, b"b"].concat()
    }

    pub fn root(&self) -> Vec<(&'static str, Code)> {
        vec![("optimizer", self.optimizer()), ("model", self.model()), ("ema", self.ema()), ("step", self.step.clone())]
    }

    pub fn entries_with(&self, pickle: Vec<u8>) -> Vec<Entry> {
        let mut entries = vec![Entry::new("tiny/data.pkl", pickle)];
        entries.extend(self.byteorder.map(|order| Entry::new("tiny/byteorder", order.into())));
        let storages = self.storages.iter().enumerate();
        entries.extend(storages.map(|(key, bytes)| Entry::new(&format!("tiny/data/{key}"), bytes.clone())));
        entries
    }

    pub fn pickle(&self) -> Vec<u8> {
        pickle(&named(&self.root()))
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.entries_with(self.pickle())
    }

    pub fn write(&self) -> Vec<u8> {
        write(&self.entries())
    }
}
