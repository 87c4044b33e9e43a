//! How many images are computed at a time where nothing else is asked for.

use softdiff_engine::Device;
use softdiff_engine::ranks::Ranks;

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

/// The same for `images` of which every rank makes its part. A place in a batch that is not filled costs a CPU as much as
/// another; on a GPU the batch is that of one process, so that the same kernels run.
pub fn of_part(batch: usize, images: usize, device: &Device, ranks: &Ranks) -> usize {
    let most = if device.is_gpu() { images } else { images.div_ceil(ranks.size()) };
    batch.clamp(1, most.max(1))
}
