//! What only shows while training runs, for `env.json`: the step it went on from, and the memory of the GPU.

use softdiff::engine::Device;
use softdiff::run::{DeviceMemory, RunFolder, RunLock};

/// Keeps the note of this process up to date.
pub struct Notes<'a> {
    folder: &'a RunFolder,
    lock: &'a RunLock,
    device: &'a Device,
    begun: bool,
    most: u64,
}

impl<'a> Notes<'a> {
    /// Of a run that this process has noted itself on.
    pub fn new(folder: &'a RunFolder, lock: &'a RunLock, device: &'a Device) -> Notes<'a> {
        Notes { folder, lock, device, begun: false, most: 0 }
    }

    /// Told at every step; the first one counts.
    pub fn begun_at(&mut self, step: u64) {
        if !std::mem::replace(&mut self.begun, true) && step > 0 {
            // A note that cannot be written is no reason to stop.
            let _ = self.folder.amend_session(self.lock, |session| session.from_step = step);
        }
    }

    /// Looks at the GPU's memory, and writes it down where it grew.
    pub fn memory(&mut self) {
        let Device::Cuda(session) = self.device else { return };
        let Ok((free, total)) = session.device.memory() else { return };
        let (used, total) = (total.saturating_sub(free) as u64, total as u64);
        if used > self.most {
            self.most = used;
            let memory = Some(DeviceMemory { used, total });
            let _ = self.folder.amend_session(self.lock, |session| session.device_memory = memory);
        }
    }
}
