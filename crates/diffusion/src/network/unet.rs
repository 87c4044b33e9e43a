//! NCSN++'s topology, for any [`UNetConfig`].

use super::{Builder, Correspondence, Embedding, Resampling, TimeInput, UNetConfig};
use softdiff_engine::op::Window;
use softdiff_engine::{Graph, Result, Storage, Var};

/// A network in a graph.
pub struct UNet {
    /// Its output F, of the images' shape; parametrisations scale it (choices A15).
    pub output: Var,
    /// Its parameters under our and score_sde's names, in the official order.
    pub correspondence: Vec<Correspondence>,
}

/// Adds the network to `graph`: images `x [n, size, size, channels]`, with the mask as their last channel where the network
/// takes one, one number per image in `condition [n]`
/// (the time, a label or ln sigma). `training` switches dropout on.
pub fn unet(graph: &mut Graph, config: &UNetConfig, x: Var, condition: Var, training: bool) -> Result<UNet> {
    let first = graph.nodes().len();
    let mut b = Builder::new(graph, config, training);
    let output = assemble(&mut b, config, x, condition)?;
    // From here on biases, SiLU, dropout, residuals and projections are parts of other operations.
    b.graph.fold(first, &[output])?;
    Ok(UNet { output, correspondence: b.correspondence })
}

fn assemble(b: &mut Builder, config: &UNetConfig, x: Var, condition: Var) -> Result<Var> {
    let width = config.channels;
    let mut time = b.embedding(condition, config.embedding, width)?;
    for name in ["time.linear0", "time.linear1"] {
        if name == "time.linear1" {
            time = b.graph.silu(time)?;
        }
        time = b.module(name, |b| b.linear(time, "", "", 4 * width))?;
    }
    // Every block applies SiLU to the embedding before its own linear layer.
    let time = b.graph.silu(time)?;

    let x = if config.unit_range { center(b, x)? } else { x };
    // Activations may be stored in 16 bits from here to the output; the embedding stays in full precision.
    let x = b.graph.cast(x, Storage::Half)?;
    let mut pyramid = x;
    let mut h = b.module("conv_in", |b| b.conv(x, ["", ""], 3, width, 1.0, Window::same(3)))?;
    let mut skips = vec![h];
    let widths: Vec<usize> = config.level_widths().collect();
    for (level, &width) in widths.iter().enumerate() {
        for block in 0..config.blocks {
            h = b.module(&format!("down.{level}.res.{block}"), |b| b.residual(h, time, width, Resampling::None))?;
            if config.attends(level) {
                h = b.module(&format!("down.{level}.attention.{block}"), |b| b.attention(h))?;
            }
            skips.push(h);
        }
        if level + 1 < widths.len() {
            h = b.module(&format!("down.{level}.halve"), |b| b.residual(h, time, width, Resampling::Down))?;
            if config.pyramid {
                pyramid = b.module(&format!("down.{level}.pyramid"), |b| b.pyramid(pyramid, Some(h), width))?;
                h = pyramid;
            }
            skips.push(h);
        }
    }

    let width = widths[widths.len() - 1];
    h = b.module("middle.res.0", |b| b.residual(h, time, width, Resampling::None))?;
    if config.middle_attention {
        h = b.module("middle.attention", |b| b.attention(h))?;
    }
    h = b.module("middle.res.1", |b| b.residual(h, time, width, Resampling::None))?;

    for (level, &width) in widths.iter().enumerate().rev() {
        // One block more than on the way down, each on the features of the way down, last first.
        for (block, skip) in skips.split_off(skips.len() - config.blocks - 1).into_iter().rev().enumerate() {
            let joined = b.graph.concat(&[h, skip])?;
            h = b.module(&format!("up.{level}.res.{block}"), |b| b.residual(joined, time, width, Resampling::None))?;
        }
        if config.attends(level) {
            h = b.module(&format!("up.{level}.attention"), |b| b.attention(h))?;
        }
        if level > 0 {
            h = b.module(&format!("up.{level}.double"), |b| b.residual(h, time, width, Resampling::Up))?;
        }
    }
    h = b.module("norm_out", |b| b.norm(h, "", "", true))?;
    let output = b.module("conv_out", |b| b.conv(h, ["", ""], 3, config.image_channels, 0.0, Window::same(3)))?;
    b.graph.cast(output, Storage::Full)
}

/// `2 x - 1`: from [0, 1] to [-1, 1].
fn center(b: &mut Builder, x: Var) -> Result<Var> {
    let one = b.graph.constant([1, 1, 1, 1], vec![-1.0])?;
    let double = b.graph.scale(x, 2.0)?;
    b.graph.add(double, one)
}

impl UNetConfig {
    /// What the network is conditioned on.
    pub fn condition_on_time(&self, graph: &mut Graph, t: Var) -> Result<Var> {
        match (self.time_input, self.embedding) {
            (TimeInput::Time, Embedding::Fourier { .. }) => Ok(t),
            (TimeInput::Time, Embedding::Positional) => graph.scale(t, 999.0),
            (TimeInput::Line { scale, shift }, _) => {
                let scaled = graph.scale(t, scale)?;
                let shift = graph.constant([1], vec![shift])?;
                graph.add(scaled, shift)
            }
        }
    }

    /// The network alone in a graph, for `batch` images: inputs `x` and `condition`.
    pub fn graph(&self, batch: usize) -> Result<(Graph, UNet)> {
        let mut graph = Graph::new();
        let x = graph.input("x", [batch, self.image_size, self.image_size, self.input_channels()])?;
        let condition = graph.input("condition", [batch])?;
        let net = unet(&mut graph, self, x, condition, false)?;
        Ok((graph, net))
    }
}
