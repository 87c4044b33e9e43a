//! The network as a graph of the engine, with each batch norm folded into its convolution.

use super::architecture::{InceptionBlock, Pool, STEM, Unit, blocks};
use super::{FEATURES, SIDE};
use softdiff_engine::op::{Align, Window};
use softdiff_engine::{Graph, Init, Result, Var};

/// Features `[n, 2048]` of pictures `[n, height, width, 3]`, whose values are already those the network wants.
pub fn features(g: &mut Graph, pictures: Var, align: Align) -> Result<Var> {
    let mut x = match g.shape(pictures)[..] {
        [_, SIDE, SIDE, _] => pictures,
        _ => g.resize_bilinear(pictures, SIDE, SIDE, align)?,
    };
    for (index, unit) in STEM.iter().enumerate() {
        x = rectified(g, x, unit)?;
        if index == 2 || index == 4 {
            x = g.max_pool(x, 3, 2, 0)?;
        }
    }
    for block in &blocks() {
        x = g.scoped(block.name, |g| joined(g, x, block))?;
    }
    let (count, pixels) = (g.shape(x)[0], g.shape(x)[1] * g.shape(x)[2]);
    let sum = g.sum_axes(x, 1..3)?;
    let mean = g.scale(sum, 1.0 / pixels as f64)?;
    g.reshape(mean, [count, FEATURES])
}

fn joined(g: &mut Graph, x: Var, block: &InceptionBlock) -> Result<Var> {
    let mut parts = Vec::new();
    for branch in &block.branches {
        let end = branch.chain.iter().try_fold(x, |x, unit| rectified(g, x, unit))?;
        for unit in &branch.fork {
            parts.push(rectified(g, end, unit)?);
        }
        if branch.fork.is_empty() {
            parts.push(end);
        }
    }
    parts.push(match &block.pool {
        Pool::Halving => g.max_pool(x, 3, 2, 0)?,
        Pool::Maximum(unit) => {
            let pooled = g.max_pool(x, 3, 1, 1)?;
            rectified(g, pooled, unit)?
        }
        // A mean commutes with a 1x1 convolution and its bias, and there are fewer channels after it than before.
        Pool::Average(unit) => {
            let thin = convolved(g, x, unit)?;
            let pooled = g.average_pool(thin, 3, 1, 1, false)?;
            g.relu(pooled)?
        }
    });
    g.concat(&parts)
}

fn rectified(g: &mut Graph, x: Var, unit: &Unit) -> Result<Var> {
    let y = convolved(g, x, unit)?;
    g.relu(y)
}

fn convolved(g: &mut Graph, x: Var, unit: &Unit) -> Result<Var> {
    let channels = g.shape(x)[3];
    g.scoped(unit.name, |g| {
        let [rows, columns] = unit.kernel;
        let weight = g.frozen_param("weight", [unit.filters, rows, columns, channels], Init::Constant(0.0))?;
        let bias = g.frozen_param("bias", [unit.filters], Init::Constant(0.0))?;
        g.conv2d(x, weight, Some(bias), Window { stride: [unit.stride, unit.stride], pad: unit.pad })
    })
}
