//! The note of this process in a run's `env.json`.

use super::RunStore;
use crate::run::{DeviceMemory, RunError, RunSession};
use softdiff_engine::Device;

/// Keeps the note up to date.
pub(super) struct SessionNote<'a> {
    store: RunStore<'a>,
    device: &'a Device,
    most_used: u64,
}

impl<'a> SessionNote<'a> {
    /// Notes that this process goes on from `from_step`.
    pub(super) fn begin(store: RunStore<'a>, device: &'a Device, from_step: u64) -> Result<SessionNote<'a>, RunError> {
        let session = RunSession::now(&device.to_string(), rayon::current_num_threads(), from_step);
        store.folder.add_session(store.lock, session)?;
        Ok(SessionNote { store, device, most_used: 0 })
    }

    /// Writes down the memory in use on a GPU where it grew.
    pub(super) fn memory(&mut self) {
        let Device::Cuda(session) = self.device else { return };
        let Ok((free, total)) = session.device.memory() else { return };
        let (used, total) = (total.saturating_sub(free) as u64, total as u64);
        if used > self.most_used {
            self.most_used = used;
            let memory = Some(DeviceMemory { used, total });
            // A note that cannot be written is no reason to stop.
            let _ = self.store.folder.amend_session(self.store.lock, |session| session.device_memory = memory);
        }
    }
}
