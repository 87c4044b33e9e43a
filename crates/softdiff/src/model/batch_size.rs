//! How many images are computed at a time where nothing else is asked for.

use softdiff_engine::Device;

/// A batch size for each kind of device: enough to fill a GPU, few enough to stay near a CPU's caches.
#[derive(Clone, Copy, Debug)]
pub struct BatchSize {
    gpu: usize,
    cpu: usize,
}

/// Sampling.
pub const SAMPLING: BatchSize = BatchSize { gpu: 256, cpu: 32 };
/// Restoring, whose images are corrected by the observation at every step.
pub const RESTORATION: BatchSize = BatchSize { gpu: 64, cpu: 8 };
/// Likelihood, which differentiates the network.
pub const LIKELIHOOD: BatchSize = BatchSize { gpu: 64, cpu: 8 };
/// Features of the FID network.
pub const FEATURES: BatchSize = BatchSize { gpu: 128, cpu: 4 };

impl BatchSize {
    /// The size on this device.
    pub fn on(self, device: &Device) -> usize {
        if device.is_gpu() { self.gpu } else { self.cpu }
    }
}
