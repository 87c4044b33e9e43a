//! What a training needs of memory, known from shapes alone before anything is allocated.

use crate::corruption::Shape;
use crate::network::Network;
use crate::recipe::TrainSection;
use softdiff_engine::memory::{Size, available, require};
use softdiff_engine::{Device, Error, Graph, Plan, Result};

/// Images that the corruption and the loss keep beside the network's activations.
const IMAGES_OF_A_STEP: u64 = 8;

/// The memory of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingMemory {
    /// Weights of the network.
    pub parameters: u64,
    /// Bytes of the weights, their averages and Adam's moments, in memory and in the copy that a checkpoint is written from.
    pub state: u64,
    /// Bytes of activations, gradients and scratch of a part of the batch, on a CPU.
    pub activations: u64,
    shape: Shape,
    batch: usize,
    parts: usize,
}

impl TrainingMemory {
    /// Plans a step of `network` on images of this shape; nothing is allocated.
    pub fn of(network: &dyn Network, shape: Shape, train: &TrainSection) -> Result<TrainingMemory> {
        let (parts, batch) = (train.accumulate.max(1), train.batch / train.accumulate.max(1));
        let mut graph = Graph::new();
        graph.recompute(train.recompute);
        let x = graph.input("x", [batch, shape.height, shape.width, shape.channels])?;
        let t = graph.input("t", [batch])?;
        let condition = network.condition_on_time(&mut graph, t)?;
        let input = network.input(&mut graph, x, |g| g.input("mask", [1, shape.height, shape.width, 1]))?;
        let output = network.emit(&mut graph, input, condition, true)?;
        let squares = graph.square(output)?;
        let loss = graph.mean(squares)?;
        let gradients = graph.parameter_gradients(loss)?;
        let plan = Plan::new(&graph, &[gradients, vec![loss]].concat())?;
        let float = size_of::<f32>() as u64;
        let parameters = graph.param_elements();
        // Weights, two moments and the averages, twice; a file of them as bytes; sums of the gradients of some parts.
        let sums = if parts > 1 { u64::from(parts.ilog2()) + 1 } else { 0 };
        let sets = 2 * (3 + train.ema.len() as u64) + 2 + sums;
        let images = IMAGES_OF_A_STEP * (batch * shape.len()) as u64;
        let activations = plan.arena_bytes() as u64 + images * float;
        Ok(TrainingMemory { parameters, state: sets * parameters * float, activations, shape, batch, parts })
    }

    /// Bytes of this machine that it needs on `device`. What a GPU must hold is compared with its own memory when it is put
    /// there.
    pub fn on(&self, device: &Device) -> u64 {
        self.state + if device.is_gpu() { 0 } else { self.activations }
    }

    /// The same in words.
    pub fn words(&self, device: &Device) -> String {
        let gpu = if device.is_gpu() { ", and the GPU's" } else { "" };
        format!("about {} beside the images{gpu}", Size(self.on(device)))
    }

    /// The fewest equal parts of the batch with which it fits.
    fn parts_that_fit(&self, available: u64) -> Option<usize> {
        let whole = self.activations.saturating_mul(self.parts as u64);
        let fits = |parts: usize| self.state.saturating_add(whole / parts as u64) <= available;
        let batch = self.batch * self.parts;
        (self.parts + 1..=batch).find(|&parts| batch.is_multiple_of(parts) && fits(parts))
    }

    /// Refuses a training that does not fit.
    pub fn require(&self, device: &Device) -> Result<()> {
        let TrainingMemory { parameters, state, activations, shape, batch, .. } = *self;
        let weights = format!("{} for {parameters} weights with their averages and moments", Size(state));
        if device.is_gpu() || state > activations {
            let hint = "use a smaller network: network.channels, network.multipliers";
            return require(self.on(device), format!("training ({weights})"), hint).map_err(Error::HostMemory);
        }
        let activations = format!("{} for activations", Size(activations));
        let what = format!("training on {batch} images of {shape} at a time ({activations}, {weights})");
        let smaller = "train.recompute=true, or a smaller train.batch, data.size or network.channels";
        let hint = match self.parts_that_fit(available().0) {
            Some(parts) => format!("set train.accumulate={parts}, {smaller}"),
            None => format!("set {smaller}"),
        };
        require(self.on(device), what, hint).map_err(Error::HostMemory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::UNetConfig;

    #[test]
    fn the_memory_of_a_training_is_known_without_allocating_it() {
        let (small, large) =
            (UNetConfig::ncsnpp_cifar10(), UNetConfig { channels: 2048, ..UNetConfig::ncsnpp_cifar10() });
        let shape = Shape::new(32, 32, 3);
        let train = TrainSection { batch: 128, ema: vec![0.999], ..TrainSection::default() };
        let memory = |network: &UNetConfig, train: &TrainSection| TrainingMemory::of(network, shape, train).unwrap();
        let whole = memory(&small, &train);
        assert_eq!(whole.state, whole.parameters * 4 * 10);
        let halves = memory(&small, &TrainSection { accumulate: 2, ..train.clone() });
        assert!(halves.activations < whole.activations * 6 / 10, "{halves:?} {whole:?}");
        assert!(whole.require(&Device::Cpu).is_ok() || whole.on(&Device::Cpu) > 8 << 30);
        let available = whole.state + whole.activations / 3;
        assert_eq!(whole.parts_that_fit(available), Some(4), "4 is the first that divides 128");
        assert_eq!(whole.parts_that_fit(whole.state - 1), None);
        let huge = memory(&large, &train);
        assert!(huge.parameters > 10_000_000_000);
        if cfg!(target_os = "linux") {
            let error = huge.require(&Device::Cpu).unwrap_err();
            let softdiff_engine::Error::HostMemory(error) = error else { panic!("{error}") };
            assert!(error.bytes > 1 << 38 && error.what.contains("weights"), "{error}");
        }
    }
}
