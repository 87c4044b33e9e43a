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
    pub fn open(&self) -> Result<Device, Failure> {
        let (device, reason) = Device::choose(&self.device)?;
        if let Some(reason) = reason {
            eprintln!("note: computing on the CPU, because {reason}");
            eprintln!("hint: softdiff doctor tells what is missing; --device cpu silences this note");
        }
        Ok(device)
    }

    /// What was typed.
    pub fn name(&self) -> &str {
        &self.device
    }

    /// The number of the GPU that is meant, if one is.
    pub fn gpu(&self) -> usize {
        self.device.strip_prefix("cuda:").and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}
