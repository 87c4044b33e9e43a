//! The optimiser on the device: clipping, Adam, EMAs and the bf16 copies, appended to a step's graph.

use super::arguments::*;
use super::driver::{Address, Buffer, Launch};
use super::executor::CudaExecutor;
use super::kernels::KernelName;
use super::params::DeviceParams;
use super::session::Session;
use crate::error::{Error, Result};
use crate::optim::{self, AdamConfig, Update};
use crate::{Params, Var};
use std::mem::offset_of;
use std::sync::Arc;

/// Elements per block.
pub(super) const PIECE: usize = 16_384;
/// The largest number of EMAs.
const MOST_EMAS: usize = 4;

/// `Piece` of kernels/optim.cu: a block's part of a parameter.
#[derive(Clone, Copy)]
#[repr(C)]
struct Piece {
    value: Address,
    first: Address,
    second: Address,
    gradient: Address,
    copy: Address,
    ema: [Address; MOST_EMAS],
    count: i32,
    half: i32,
}

const _: () = assert!(size_of::<Piece>() == 80);

impl Piece {
    /// As it lies in memory.
    fn bytes(&self) -> Vec<u8> {
        let addresses = [self.value, self.first, self.second, self.gradient, self.copy].into_iter().chain(self.ema);
        let sizes = [self.count, self.half].into_iter().flat_map(i32::to_le_bytes);
        addresses.flat_map(u64::to_le_bytes).chain(sizes).collect()
    }
}

/// `State` of kernels/optim.cu: what the kernels of an update share.
#[allow(dead_code)] // The host reads some of it.
#[repr(C)]
struct State {
    updates: f64,
    norm: f32,
    scale: f32,
    step: f32,
    root: f32,
    skipped: u32,
    applied: u32,
}

const _: () = assert!(size_of::<State>() == 32);

/// Adam's state on the device.
pub struct DeviceAdam {
    config: AdamConfig,
    state: Buffer,
    first: DeviceParams,
    second: DeviceParams,
    /// Averaged parameters, one set per decay.
    pub ema: Vec<DeviceParams>,
    _buffers: [Buffer; 2],
}

/// A gradient on the device.
#[derive(Clone, Copy)]
pub(super) struct GradientAt {
    pub address: Address,
    /// Whether it is bf16.
    pub half: bool,
}

impl DeviceAdam {
    /// Appends an update of `params` by `gradients` (of the trainable parameters, in order) to `executor`'s step.
    pub fn attach(
        session: &Arc<Session>,
        executor: &mut CudaExecutor,
        config: AdamConfig,
        host: &Params<f32>,
        params: &DeviceParams,
        gradients: &[Var],
    ) -> Result<DeviceAdam> {
        let gradients = executor.gradients(gradients)?;
        let (adam, update) = DeviceAdam::new(session, executor, config, host, params, &gradients, None)?;
        executor.append(update);
        Ok(adam)
    }

    /// The launches of an update by gradients on the device. A loss that is not finite blocks it.
    pub(super) fn new(
        session: &Arc<Session>,
        executor: &CudaExecutor,
        config: AdamConfig,
        host: &Params<f32>,
        params: &DeviceParams,
        gradients: &[GradientAt],
        loss: Option<Address>,
    ) -> Result<(DeviceAdam, Vec<Launch>)> {
        if config.ema.len() > MOST_EMAS {
            return Err(Error::Device {
                what: format!("{} EMA decays were given", config.ema.len()),
                problem: format!("the optimiser keeps at most {MOST_EMAS} on a GPU"),
                hint: "remove some of the EMA decays".into(),
            });
        }
        let device = &session.device;
        let mut zeros = host.clone();
        zeros.fill(0.0);
        let (first, second) = (DeviceParams::wide(session, &zeros)?, DeviceParams::wide(session, &zeros)?);
        let ema: Vec<DeviceParams> =
            config.ema.iter().map(|_| DeviceParams::wide(session, host)).collect::<Result<_>>()?;
        let (values, copies) = (params.addresses(), params.copy_addresses());
        let (firsts, seconds) = (first.addresses(), second.addresses());
        let averages: Vec<_> = ema.iter().map(|e| e.addresses()).collect();
        let trainable = params.specs().iter().enumerate().filter(|(_, spec)| spec.trainable);
        let mut pieces = Vec::new();
        for ((index, spec), &GradientAt { address: gradient, half }) in trainable.zip(gradients) {
            let n = spec.shape.numel();
            for begin in (0..n).step_by(PIECE) {
                let (wide, narrow) = (4 * begin as u64, 2 * begin as u64);
                pieces.push(Piece {
                    value: values[index] + wide,
                    first: firsts[index] + wide,
                    second: seconds[index] + wide,
                    gradient: gradient + if half { narrow } else { wide },
                    copy: copies[index] + narrow,
                    ema: std::array::from_fn(|e| averages.get(e).map_or(0, |a| a[index] + wide)),
                    count: int(PIECE.min(n - begin)),
                    half: half.into(),
                });
            }
        }
        let count = pieces.len();
        let pieces = device.upload(&pieces.iter().flat_map(Piece::bytes).collect::<Vec<_>>())?;
        let squares = device.alloc(4 * count)?;
        let state = device.alloc(size_of::<State>())?;
        let (state_at, pieces_at, squares_at) = (state.address, pieces.address, squares.address);
        let mut update = Vec::new();
        let arguments = GradientSquaresArgs { out: squares_at, pieces: pieces_at };
        update.push(executor.kernel(KernelName::GradientSquares, count, &arguments)?);
        let arguments = GradientNormArgs {
            state: state_at,
            squares: squares_at,
            n: int(count),
            rate: config.rate,
            warmup: config.warmup as f64,
            cooldown: config.cooldown as f64,
            last: config.steps as f64,
            beta1: config.beta1,
            beta2: config.beta2,
            clip: config.clip.unwrap_or(0.0),
            loss: loss.unwrap_or(0),
        };
        update.push(executor.kernel(KernelName::GradientNorm, 1, &arguments)?);
        let arguments = AdamArgs {
            pieces: pieces_at,
            state: state_at,
            beta1: config.beta1 as f32,
            beta2: config.beta2 as f32,
            epsilon: config.epsilon as f32,
            emas: int(config.ema.len()),
            decays: std::array::from_fn(|i| config.ema.get(i).copied().unwrap_or(0.0) as f32),
        };
        update.push(executor.kernel(KernelName::Adam, count, &arguments)?);
        let adam = DeviceAdam { config, state, first, second, ema, _buffers: [pieces, squares] };
        Ok((adam, update))
    }

    pub(super) fn config(&self) -> &AdamConfig {
        &self.config
    }

    /// The address of what the kernels share.
    pub(super) fn state_address(&self) -> Address {
        self.state.address
    }

    /// Continues from a state: moments, averages and the number of updates.
    pub fn restore(&self, from: &optim::Adam<f32>, host: &Params<f32>) -> Result<()> {
        for (device, moments) in [(&self.first, &from.first), (&self.second, &from.second)] {
            let mut values = host.clone();
            values.fill(0.0);
            values.trainable_mut().zip(moments).for_each(|(to, from)| to.copy_from_slice(from));
            device.upload(&values)?;
        }
        for (device, average) in self.ema.iter().zip(&from.ema) {
            device.upload(average)?;
        }
        self.state.write(offset_of!(State, updates), &(from.step as f64).to_le_bytes())
    }

    /// What the kernels share, as it is now.
    fn read_state(&self) -> Result<State> {
        let mut bytes = [0; size_of::<State>()];
        self.state.read(0, &mut bytes)?;
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let float = |at: usize| f32::from_le_bytes(word(at));
        let updates = bytes[offset_of!(State, updates)..].first_chunk().expect("the struct is larger");
        Ok(State {
            updates: f64::from_le_bytes(*updates),
            norm: float(offset_of!(State, norm)),
            scale: float(offset_of!(State, scale)),
            step: float(offset_of!(State, step)),
            root: float(offset_of!(State, root)),
            skipped: u32::from_le_bytes(word(offset_of!(State, skipped))),
            applied: u32::from_le_bytes(word(offset_of!(State, applied))),
        })
    }

    /// The state as it is now; `host` has the parameters' names and shapes.
    pub fn snapshot(&self, host: &Params<f32>) -> Result<optim::Adam<f32>> {
        let mut values = host.clone();
        let mut moments = |device: &DeviceParams| -> Result<Vec<Vec<f32>>> {
            device.download(&mut values)?;
            Ok(values.trainable_mut().map(|v| v.to_vec()).collect())
        };
        let (first, second) = (moments(&self.first)?, moments(&self.second)?);
        let average = |device: &DeviceParams| {
            let mut average = host.clone();
            device.download(&mut average).map(|()| average)
        };
        let ema = self.ema.iter().map(average).collect::<Result<_>>()?;
        let step = self.read_state()?.updates as u64;
        Ok(optim::Adam { config: self.config.clone(), step, first, second, ema })
    }

    /// What the last update did.
    pub fn last(&self) -> Result<Update> {
        let State { updates, norm, applied, .. } = self.read_state()?;
        let applied = applied != 0;
        let rate = self.config.rate_at((updates as u64).saturating_sub(u64::from(applied)));
        Ok(Update { norm: norm.into(), rate, applied })
    }

    /// Copies both moments back.
    pub fn moments(&self, first: &mut Params<f32>, second: &mut Params<f32>) -> Result<()> {
        self.first.download(first)?;
        self.second.download(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_structs_are_as_large_as_the_hosts() {
        let source = include_str!("kernels/optim.cu");
        for (name, size) in [("Piece", size_of::<Piece>()), ("State", size_of::<State>())] {
            assert!(source.contains(&format!("static_assert(sizeof({name}) == {size},")), "{name}");
        }
    }
}
