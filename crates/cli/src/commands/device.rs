//! The flag that chooses where to compute, shared by several verbs.

use crate::diagnostics::Failure;
use clap::Args;
use softdiff::engine::Device;

/// Where to compute.
#[derive(Args, Clone)]
pub struct DeviceFlag {
    /// Where to compute: auto (a GPU if there is one that works), cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    device: String,
}

impl DeviceFlag {
    /// Opens it.
    pub fn open(&self) -> Result<Device, Failure> {
        Ok(Device::open(&self.device)?)
    }
}
