//! The optimiser on the device: clipping, Adam, EMAs and the bf16 copies, appended to a step's graph.

use super::driver::{Buffer, Launch};
use super::executor::Executor;
use super::lower::{Command, float};
use super::session::Session;
use super::weights::DeviceParams;
use crate::error::{Error, Result};
use crate::optim::{self, AdamConfig, Update};
use crate::{Params, Var};
use std::sync::Arc;

/// Elements of one block.
const PIECE: usize = 16_384;
/// Bytes of what the kernels share: `State` of kernels/optim.cu.
const STATE_BYTES: usize = 40;
/// Averages the kernel keeps at most.
const MOST_EMAS: usize = 4;

/// Adam's state on the device.
pub struct Adam {
    config: AdamConfig,
    state: Buffer,
    first: DeviceParams,
    second: DeviceParams,
    /// Averaged parameters, one set per decay.
    pub ema: Vec<DeviceParams>,
    _buffers: Vec<Buffer>,
}

/// What an update waits for.
#[derive(Clone, Copy)]
pub(super) struct Accumulation {
    /// The mean loss; one that is not finite blocks the update.
    pub loss: Option<Var>,
    /// Runs whose gradients make one update.
    pub parts: u64,
}

impl Adam {
    /// Appends an update of `params` by `gradients` (of the trainable parameters, in order) to `executor`'s step.
    pub fn attach(
        session: &Arc<Session>,
        executor: &mut Executor,
        config: AdamConfig,
        host: &Params<f32>,
        params: &DeviceParams,
        gradients: &[Var],
    ) -> Result<Adam> {
        Adam::accumulate(session, executor, config, host, params, gradients, Accumulation { loss: None, parts: 1 })
    }

    /// As [`Adam::attach`], where several runs make an update, or a loss must be finite.
    pub(super) fn accumulate(
        session: &Arc<Session>,
        executor: &mut Executor,
        config: AdamConfig,
        host: &Params<f32>,
        params: &DeviceParams,
        gradients: &[Var],
        Accumulation { loss, parts }: Accumulation,
    ) -> Result<Adam> {
        if config.ema.len() > MOST_EMAS {
            return Err(Error::Device {
                what: format!("{} averages were asked for", config.ema.len()),
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
        let sums = if parts > 1 { Some(DeviceParams::wide(session, &zeros)?) } else { None };
        let summed = sums.as_ref().map(|s| s.addresses());
        let values = params.addresses();
        let (firsts, seconds) = (first.addresses(), second.addresses());
        let averages: Vec<_> = ema.iter().map(|e| e.addresses()).collect();
        let trainable = params.specs().iter().enumerate().filter(|(_, spec)| spec.trainable);
        let (mut pieces, mut fresh) = (Vec::new(), Vec::new());
        for ((index, spec), &gradient) in trainable.zip(gradients) {
            let (gradient, half) = executor.output(gradient)?;
            let n = spec.shape.numel();
            for begin in (0..n).step_by(PIECE) {
                let (wide, narrow) = (4 * begin as u64, 2 * begin as u64);
                let mut words = vec![
                    values[index].0 + wide,
                    firsts[index].0 + wide,
                    seconds[index].0 + wide,
                    gradient + if half { narrow } else { wide },
                    values[index].1 + narrow,
                ];
                words.extend((0..MOST_EMAS).map(|e| averages.get(e).map_or(0, |a| a[index].0 + wide)));
                words.push(PIECE.min(n - begin) as u64 | u64::from(half) << 32);
                if let Some(summed) = &summed {
                    fresh.extend(&words);
                    words[3] = summed[index].0 + wide;
                    words[9] = PIECE.min(n - begin) as u64;
                }
                pieces.extend(words);
            }
        }
        let count = pieces.len() / (6 + MOST_EMAS);
        let upload = |words: &[u64]| device.upload(&words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>());
        let (pieces, fresh) = (upload(&pieces)?, upload(&fresh)?);
        let squares = device.alloc(4 * count)?;
        let state = device.alloc(STATE_BYTES)?;
        let loss = loss.map_or(Ok(0), |loss| executor.output(loss).map(|(address, _)| address))?;
        let (at, parts) = (executor.step_address(), parts.max(1));
        let mut libraries = session.lock();
        let mut launch = |name: &str, blocks: usize, arguments: Vec<u64>| -> Result<Command> {
            let function = libraries.kernels.get(name)?;
            let (grid, block) = ([blocks as u32, 1, 1], [256, 1, 1]);
            Ok(Command::Kernel(Launch { function, grid, block, shared: 0, cluster: 1, arguments }))
        };
        let double = |v: f64| v.to_bits();
        let decay = |i: usize| float(config.ema.get(i).copied().unwrap_or(0.0));
        let mut commands = Vec::new();
        if parts > 1 {
            commands.push(launch("gradient_add", count, vec![fresh.address, pieces.address, at, parts])?);
        }
        commands.extend([
            launch("gradient_squares", count, vec![squares.address, pieces.address, at, parts])?,
            launch(
                "gradient_norm",
                1,
                vec![
                    state.address,
                    squares.address,
                    count as u64,
                    double(config.rate),
                    double(config.warmup as f64),
                    double(config.cooldown as f64),
                    double(config.steps as f64),
                    double(config.beta1),
                    double(config.beta2),
                    double(config.clip.unwrap_or(0.0)),
                    loss,
                    at,
                    parts,
                ],
            )?,
            launch(
                "adam",
                count,
                vec![
                    pieces.address,
                    state.address,
                    float(config.beta1),
                    float(config.beta2),
                    float(config.epsilon),
                    config.ema.len() as u64,
                    decay(0),
                    decay(1),
                    decay(2),
                    decay(3),
                    at,
                    parts,
                ],
            )?,
        ]);
        drop(libraries);
        executor.append(commands);
        let mut buffers = vec![pieces, fresh, squares];
        buffers.extend(sums.map(DeviceParams::into_values));
        Ok(Adam { config, state, first, second, ema, _buffers: buffers })
    }

    pub(super) fn config(&self) -> &AdamConfig {
        &self.config
    }

    /// Where the kernels keep what they share.
    pub(super) fn state_address(&self) -> super::driver::Address {
        self.state.address
    }

    /// Takes over a state: moments, averages and the number of updates.
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
        self.state.write(0, &(from.step as f64).to_le_bytes())
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
        let mut bytes = [0; 8];
        self.state.read(0, &mut bytes)?;
        let step = f64::from_le_bytes(bytes) as u64;
        Ok(optim::Adam { config: self.config.clone(), step, first, second, ema })
    }

    /// What the last update did.
    pub fn last(&self) -> Result<Update> {
        let mut bytes = [0; 32];
        self.state.read(0, &mut bytes)?;
        let word = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        let updates = f64::from_bits(u64::from(word(0)) | u64::from(word(4)) << 32);
        let applied = word(28) != 0;
        let rate = self.config.rate_at((updates as u64).saturating_sub(u64::from(applied)));
        Ok(Update { norm: f64::from(f32::from_bits(word(8))), rate, applied })
    }

    /// Copies both moments back.
    pub fn moments(&self, first: &mut Params<f32>, second: &mut Params<f32>) -> Result<()> {
        self.first.download(first)?;
        self.second.download(second)
    }
}
