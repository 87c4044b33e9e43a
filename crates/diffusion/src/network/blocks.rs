//! The building blocks of NCSN++: embedding, residual block, attention, pyramid.

use super::config::groups;
use super::{Correspondence, Embedding, Normalisation, UNetConfig, WeightLayout};
use softdiff_engine::op::Window;
use softdiff_engine::{Graph, Init, Result, Var};
use std::f64::consts::{FRAC_1_SQRT_2, TAU};

/// How a residual block changes the size of its images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resampling {
    /// Not at all.
    None,
    /// To half the size.
    Down,
    /// To twice the size.
    Up,
}

/// First purpose of the dropout masks; each block takes the next.
const DROPOUT: u32 = 0x4452_0000;
/// GroupNorm's epsilon in score_sde.
const EPSILON: f64 = 1e-6;

/// Builds blocks into a graph and notes each parameter's official name.
pub struct Builder<'a> {
    /// The graph.
    pub graph: &'a mut Graph,
    /// Every parameter so far, under both names.
    pub correspondence: Vec<Correspondence>,
    fir: [f64; 4],
    dropout: f64,
    norm: Normalisation,
    modules: usize,
    official: String,
    dropouts: u32,
}

impl<'a> Builder<'a> {
    /// A builder with the filter and the dropout rate of `config`; without `training` there is no dropout.
    pub fn new(graph: &'a mut Graph, config: &UNetConfig, training: bool) -> Self {
        let dropout = if training { config.dropout } else { 0.0 };
        Builder {
            graph,
            correspondence: Vec::new(),
            fir: config.fir,
            dropout,
            norm: config.norm,
            modules: 0,
            official: String::new(),
            dropouts: 0,
        }
    }

    /// Runs `build` as the official module number so-and-so, under our name `name`.
    pub fn module<R>(&mut self, name: &str, build: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.official = format!("all_modules.{}.", self.modules);
        self.modules += 1;
        self.scoped(name, build)
    }

    /// Runs `build` under our name `name`, without counting an official module.
    pub fn scoped<R>(&mut self, name: &str, build: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let outer = self.graph.enter_scope(name);
        let result = build(self);
        self.graph.leave_scope(outer);
        result
    }

    fn param(&mut self, name: &str, official: &str, layout: WeightLayout, shape: &[usize], init: Init) -> Result<Var> {
        let var = match name {
            "frequencies" => self.graph.frozen_param(name, shape, init)?,
            _ => self.graph.param(name, shape, init)?,
        };
        let official_shape = match (layout, shape) {
            (WeightLayout::Convolution, &[k, r, s, c]) => vec![k, c, r, s],
            (WeightLayout::NetworkInNetwork, &[k, _, _, c]) => vec![c, k],
            _ => shape.to_vec(),
        };
        let name = self.graph.params().last().expect("a parameter was just added").0.name.clone();
        let official = format!("{}{official}", self.official);
        self.correspondence.push(Correspondence { name, official, layout, official_shape });
        Ok(var)
    }

    /// `[sin, cos]` of the condition, by `embedding`, with `width` frequencies (Fourier) or `width` values (positional).
    pub fn embedding(&mut self, condition: Var, embedding: Embedding, width: usize) -> Result<Var> {
        match embedding {
            Embedding::Fourier { scale } => self.module("time.fourier", |b| {
                let init = Init::Normal { deviation: scale };
                let frequencies = b.param("frequencies", "W", WeightLayout::Same, &[width], init)?;
                let turns = b.graph.reshape(frequencies, [1, width])?;
                let angular = b.graph.scale(turns, TAU)?;
                b.graph.sinusoids(condition, angular)
            }),
            Embedding::Positional => {
                let half = width / 2;
                let frequency = |k: usize| (-(10_000f64.ln()) * k as f64 / (half as f64 - 1.0).max(1.0)).exp();
                let frequencies = self.graph.constant([1, half], (0..half).map(frequency).collect())?;
                self.graph.sinusoids(condition, frequencies)
            }
        }
    }

    /// `x w^T + b`.
    pub fn linear(&mut self, x: Var, name: &str, official: &str, outputs: usize) -> Result<Var> {
        let inputs = self.graph.shape(x).last().copied().unwrap_or(1);
        let init = fan_average_uniform(1.0, inputs, outputs);
        let (weight, bias) = (format!("{name}weight"), format!("{name}bias"));
        let weight = self.param(&weight, &format!("{official}weight"), WeightLayout::Same, &[outputs, inputs], init)?;
        let bias = self.zeros(&bias, &format!("{official}bias"), outputs)?;
        self.graph.linear(x, weight, Some(bias))
    }

    fn zeros(&mut self, name: &str, official: &str, size: usize) -> Result<Var> {
        self.param(name, official, WeightLayout::Same, &[size], Init::Constant(0.0))
    }

    /// A convolution of `kernel` x `kernel` with a bias; `scale` 0 begins it at (almost) zero.
    pub fn conv(
        &mut self,
        x: Var,
        [name, official]: [&str; 2],
        kernel: usize,
        filters: usize,
        scale: f64,
        window: Window,
    ) -> Result<Var> {
        let channels = self.graph.shape(x).last().copied().unwrap_or(1);
        let area = kernel * kernel;
        let init = fan_average_uniform(scale, channels * area, filters * area);
        let shape = [filters, kernel, kernel, channels];
        let (weight, bias) = (format!("{name}weight"), format!("{name}bias"));
        let weight = self.param(&weight, &format!("{official}weight"), WeightLayout::Convolution, &shape, init)?;
        let bias = self.zeros(&bias, &format!("{official}bias"), filters)?;
        self.graph.conv2d(x, weight, Some(bias), window)
    }

    /// GroupNorm, if the network has it, then SiLU if `silu`.
    pub fn norm(&mut self, x: Var, name: &str, official: &str, silu: bool) -> Result<Var> {
        let normal = match self.norm {
            Normalisation::Group => self.group_norm(x, name, official)?,
            Normalisation::None => x,
        };
        if silu { self.graph.silu(normal) } else { Ok(normal) }
    }

    fn group_norm(&mut self, x: Var, name: &str, official: &str) -> Result<Var> {
        let channels = self.graph.shape(x).last().copied().unwrap_or(1);
        let (weight, bias) = (format!("{name}weight"), format!("{name}bias"));
        let gamma =
            self.param(&weight, &format!("{official}weight"), WeightLayout::Same, &[channels], Init::Constant(1.0))?;
        let beta = self.zeros(&bias, &format!("{official}bias"), channels)?;
        self.graph.group_norm(x, gamma, beta, groups(channels), EPSILON, false)
    }

    /// A residual and what it is added to: divided by the root of 2, or as they are where no norm follows.
    fn joined(&mut self, h: Var, x: Var) -> Result<Var> {
        let scale = if self.norm == Normalisation::Group { FRAC_1_SQRT_2 } else { 1.0 };
        self.graph.add_scaled(h, x, scale)
    }

    /// Dropout with a mask of its own.
    fn dropout(&mut self, x: Var) -> Result<Var> {
        self.dropouts += 1;
        self.graph.dropout(x, self.dropout, DROPOUT + self.dropouts)
    }

    fn resampled(&mut self, x: Var, resampling: Resampling) -> Result<Var> {
        match resampling {
            Resampling::None => Ok(x),
            Resampling::Down => self.graph.fir_down(x, self.fir),
            Resampling::Up => self.graph.fir_up(x, self.fir),
        }
    }

    /// BigGAN's residual block as NCSN++ has it; `time` is the embedding after SiLU.
    pub fn residual(&mut self, x: Var, time: Var, filters: usize, resampling: Resampling) -> Result<Var> {
        let (batch, channels) = (self.graph.shape(x)[0], self.graph.shape(x).last().copied().unwrap_or(1));
        let h = self.norm(x, "norm0.", "GroupNorm_0.", true)?;
        let h = self.resampled(h, resampling)?;
        let mut x = self.resampled(x, resampling)?;
        let h = self.conv(h, ["conv0.", "Conv_0."], 3, filters, 1.0, Window::same(3))?;
        let shift = self.linear(time, "time.", "Dense_0.", filters)?;
        let shift = self.graph.reshape(shift, [batch, 1, 1, filters])?;
        let h = self.graph.add(h, shift)?;
        let h = self.norm(h, "norm1.", "GroupNorm_1.", true)?;
        let h = self.dropout(h)?;
        let h = self.conv(h, ["conv1.", "Conv_1."], 3, filters, 0.0, Window::same(3))?;
        if channels != filters || resampling != Resampling::None {
            x = self.conv(x, ["skip.", "Conv_2."], 1, filters, 1.0, Window::same(1))?;
        }
        self.joined(h, x)
    }

    /// Single-head self-attention over all pixels.
    pub fn attention(&mut self, x: Var) -> Result<Var> {
        let Some([batch, height, width, channels]) = self.graph.shape(x).dims() else {
            return self.graph.attention(x, 1.0);
        };
        let normal = self.norm(x, "norm.", "GroupNorm_0.", false)?;
        let query = self.network_in_network(normal, ["query.", "NIN_0."], channels, 0.1)?;
        let key = self.network_in_network(normal, ["key.", "NIN_1."], channels, 0.1)?;
        let value = self.network_in_network(normal, ["value.", "NIN_2."], channels, 0.1)?;
        let joined = self.graph.concat(&[query, key, value])?;
        let tokens = self.graph.reshape(joined, [batch, height * width, 3 * channels])?;
        let mixed = self.graph.attention(tokens, 1.0 / (channels as f64).sqrt())?;
        let mixed = self.graph.reshape(mixed, [batch, height, width, channels])?;
        let h = self.network_in_network(mixed, ["out.", "NIN_3."], channels, 0.0)?;
        self.joined(h, x)
    }

    /// A matrix over the channels of every pixel, with a bias.
    pub fn network_in_network(
        &mut self,
        x: Var,
        [name, official]: [&str; 2],
        filters: usize,
        scale: f64,
    ) -> Result<Var> {
        let channels = self.graph.shape(x).last().copied().unwrap_or(1);
        let (weight, bias) = (format!("{name}weight"), format!("{name}bias"));
        let init = fan_average_uniform(scale, channels, filters);
        let shape = [filters, 1, 1, channels];
        let weight = self.param(&weight, &format!("{official}W"), WeightLayout::NetworkInNetwork, &shape, init)?;
        let bias = self.zeros(&bias, &format!("{official}b"), filters)?;
        self.graph.conv2d(x, weight, Some(bias), Window::same(1))
    }

    /// One level down the image pyramid (smooth, then a 3x3 convolution of stride 2), added to `h`.
    pub fn pyramid(&mut self, x: Var, h: Option<Var>, filters: usize) -> Result<Var> {
        let smooth = self.graph.fir_smooth(x, self.fir)?;
        let x = self.conv(smooth, ["conv.", "Conv2d_0."], 3, filters, 1.0, Window::valid(2))?;
        match h {
            Some(h) => self.joined(x, h),
            None => Ok(x),
        }
    }
}

/// score_sde's `default_init`: uniform with variance `scale` over the mean of the fans.
fn fan_average_uniform(scale: f64, fan_in: usize, fan_out: usize) -> Init {
    // The official code replaces 0 by this, so that the layer begins at almost zero.
    let scale = if scale == 0.0 { 1e-10 } else { scale };
    Init::Uniform { bound: (3.0 * scale / ((fan_in + fan_out) as f64 / 2.0)).sqrt() }
}
