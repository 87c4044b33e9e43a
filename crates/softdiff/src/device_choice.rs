//! A device by name, or one that is open already.

use softdiff_engine::{Device, Result};

/// What to compute on: `"auto"` (the first GPU, else the CPU), `"cpu"`, `"cuda"`, `"cuda:1"`, or an open [`Device`].
#[derive(Clone)]
pub enum DeviceChoice {
    /// By name.
    Named(String),
    /// An open one.
    Open(Device),
}

impl DeviceChoice {
    /// The device.
    pub fn open(&self) -> Result<Device> {
        match self {
            DeviceChoice::Named(name) => Device::open(name),
            DeviceChoice::Open(device) => Ok(device.clone()),
        }
    }
}

impl Default for DeviceChoice {
    fn default() -> Self {
        DeviceChoice::Named("auto".into())
    }
}

impl From<&str> for DeviceChoice {
    fn from(name: &str) -> Self {
        DeviceChoice::Named(name.into())
    }
}

impl From<&Device> for DeviceChoice {
    fn from(device: &Device) -> Self {
        DeviceChoice::Open(device.clone())
    }
}
