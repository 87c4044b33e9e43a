//! Parameters on a device.

use super::driver::{Address, Buffer};
use super::session::Session;
use crate::Params;
use crate::error::Result;
use crate::params::to_bf16;
use std::sync::Arc;

/// Parameters on the device in f32, and for weights also a bf16 copy for convolutions.
pub struct DeviceParams {
    specs: Vec<crate::ParamSpec>,
    values: Buffer,
    copies: Option<Buffer>,
    /// First element of each parameter.
    offsets: Vec<usize>,
}

/// Parameters begin at multiples of this many elements.
const GRAIN: usize = 64;

impl DeviceParams {
    /// Copies parameters to the device.
    pub fn new(session: &Arc<Session>, params: &Params<f32>) -> Result<DeviceParams> {
        DeviceParams::stored(session, params, true)
    }

    /// Values of the parameters' shapes that no convolution reads: moments and averages.
    pub(super) fn wide(session: &Arc<Session>, params: &Params<f32>) -> Result<DeviceParams> {
        DeviceParams::stored(session, params, false)
    }

    fn stored(session: &Arc<Session>, params: &Params<f32>, copies: bool) -> Result<DeviceParams> {
        let mut offsets = Vec::new();
        let mut total = 0;
        for spec in params.specs() {
            offsets.push(total);
            total += spec.shape.numel().next_multiple_of(GRAIN);
        }
        let device = &session.device;
        let specs = params.specs().to_vec();
        let copies = if copies { Some(device.alloc(total * 2)?) } else { None };
        let made = DeviceParams { specs, values: device.alloc(total * 4)?, copies, offsets };
        made.upload(params)?;
        Ok(made)
    }

    /// Replaces the values.
    pub fn upload(&self, params: &Params<f32>) -> Result<()> {
        params.check_fits(&self.specs)?;
        let total = self.values.bytes / 4;
        let mut all = vec![0.0f32; total];
        for (index, &offset) in self.offsets.iter().enumerate() {
            all[offset..offset + params.value(index).len()].copy_from_slice(params.value(index));
        }
        self.values.write(0, &to_bytes(&all))?;
        match &self.copies {
            Some(copies) => copies.write(0, &all.iter().flat_map(|&v| to_bf16(v).to_le_bytes()).collect::<Vec<_>>()),
            None => Ok(()),
        }
    }

    /// Copies the values back.
    pub fn download(&self, params: &mut Params<f32>) -> Result<()> {
        params.check_fits(&self.specs)?;
        let mut bytes = vec![0; self.values.bytes];
        self.values.read(0, &mut bytes)?;
        let all = from_bytes(&bytes);
        for (spec, &offset) in self.specs.iter().zip(&self.offsets) {
            params.overwrite(&spec.name, &all[offset..offset + spec.shape.numel()])?;
        }
        Ok(())
    }

    /// The address of every parameter.
    pub(super) fn addresses(&self) -> Vec<Address> {
        self.offsets.iter().map(|&offset| self.values.address + 4 * offset as u64).collect()
    }

    /// The address of every parameter's bf16 copy.
    pub(super) fn copy_addresses(&self) -> Vec<Address> {
        let copies = self.copies.as_ref().expect("parameters that are computed with have copies");
        self.offsets.iter().map(|&offset| copies.address + 2 * offset as u64).collect()
    }

    pub(super) fn specs(&self) -> &[crate::ParamSpec] {
        &self.specs
    }
}

pub(super) fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub(super) fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}
