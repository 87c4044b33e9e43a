//! Training on the GPU: the same bits every time and across a resume, whole batches and parts of them, losses that are
//! not finite.

use crate::cuda::Session;
use crate::device::{Device, Learner, LearnerSpec, LossOutputs};
use crate::op::{Mask, NormOptions, Window};
use crate::optim::{Adam, AdamConfig};
use crate::ranks::Ranks;
use crate::{Graph, Init, Params, Precision, Result, Storage};
use std::sync::Arc;

/// A small network with everything that training touches: convolutions, joined weights, a norm with dropout, a bias, noise.
pub(super) fn learner(
    session: &Arc<Session>,
    from: Option<(Params<f32>, Adam<f32>)>,
    batch: usize,
    parts: u64,
    recompute: bool,
    ranks: Ranks,
) -> Result<Learner> {
    let mut g = Graph::new();
    g.recompute(recompute);
    let input = g.input("x", [batch, 8, 8, 8])?;
    let t = g.random_uniform([batch], 1)?;
    let x = g.cast(input, Storage::Half)?;
    let (mut weights, mut biases) = (Vec::new(), Vec::new());
    for (name, filters) in [("a", 8), ("b", 24)] {
        let weight = g.param(&format!("w0{name}"), [filters, 3, 3, 8], Init::Uniform { bound: 0.2 })?;
        let weight = g.cast(weight, Storage::Half)?;
        weights.push(g.reshape(weight, [filters * 72])?);
        biases.push(g.param(&format!("b0{name}"), [filters], Init::Constant(0.0))?);
    }
    let (w0, b0) = (g.concat(&weights)?, g.concat(&biases)?);
    let w0 = g.reshape(w0, [32, 3, 3, 8])?;
    let h = g.conv2d(x, w0, Some(b0), Window::same(3))?;
    let (gamma, beta) = (g.param("gamma", [32], Init::Constant(1.0))?, g.param("beta", [32], Init::Constant(0.0))?);
    let mask = Some(Mask { rate: 0.1, purpose: 3 });
    let n = g.group_norm_with(h, gamma, beta, None, NormOptions { groups: 8, epsilon: 1e-6, silu: true, mask })?;
    let joined = g.add_scaled(n, h, 0.7)?;
    let both = g.concat(&[n, joined])?;
    let w1 = g.param("w1", [8, 3, 3, 64], Init::Uniform { bound: 0.1 })?;
    let out = g.conv2d(both, w1, None, Window::same(3))?;
    let out = g.cast(out, Storage::Full)?;
    let away = g.sub(out, input)?;
    let squares = g.square(away)?;
    let losses = g.sum_axes(squares, 1..4)?;
    let losses = g.reshape(losses, [batch])?;
    let loss = g.mean(losses)?;
    let gradients = g.parameter_gradients(loss)?;
    let (params, adam) = from.unwrap_or_else(|| {
        let params = Params::initialise(&g, 5);
        let config = AdamConfig {
            rate: 1e-2,
            warmup: 2,
            cooldown: 4,
            steps: 5,
            epsilon: 1e-3,
            ema: vec![0.9],
            ..AdamConfig::default()
        };
        let adam = Adam::new(config, &params);
        (params, adam)
    });
    let objective = LossOutputs { loss, losses, times: t, gradients: &gradients };
    let (precision, seed, accumulate) = (Precision::Bf16, 7, parts);
    let spec = LearnerSpec { graph: &g, objective, params, adam, precision, seed, accumulate, ranks };
    Learner::new(&Device::Cuda(session.clone()), spec)
}

/// Images of a run; each run has others.
fn images(batch: usize, run: u64) -> Vec<f32> {
    (0..batch * 512).map(|i| ((i as f32 + 513.0 * run as f32) * 0.37).sin()).collect()
}

pub(super) fn train(learner: &mut Learner, batch: usize, runs: std::ops::Range<u64>) -> Result<()> {
    for run in runs {
        learner.set("x", &images(batch, run))?;
        learner.run(run)?;
    }
    Ok(())
}

/// How many of these fail: 0 if all is well.
pub(super) fn same_bits(session: &Arc<Session>) -> Result<f64> {
    let new = || learner(session, None, 16, 1, false, Ranks::default());
    let (mut once, mut again) = (new()?, new()?);
    train(&mut once, 16, 0..8)?;
    train(&mut again, 16, 0..8)?;
    let mut first = new()?;
    train(&mut first, 16, 0..5)?;
    // Goes on in less memory.
    let mut resumed = learner(session, Some(first.state()?), 16, 1, true, Ranks::default())?;
    train(&mut resumed, 16, 5..8)?;
    let wanted = once.state()?;
    let moved = wanted.0 != new()?.state()?.0;
    let failures = [again.state()? != wanted, resumed.state()? != wanted, again.records()? != once.records()?, !moved];
    Ok(failures.iter().filter(|&&failed| failed).count() as f64)
}

/// The relative difference of weights after updates from whole batches and from halves of them.
pub(super) fn parts_make_a_whole(session: &Arc<Session>) -> Result<f64> {
    let (mut halves, mut whole) = (
        learner(session, None, 8, 2, false, Ranks::default())?,
        learner(session, None, 16, 1, false, Ranks::default())?,
    );
    train(&mut whole, 16, 0..3)?;
    for run in 0..3 {
        for (part, half) in images(16, run).chunks(8 * 512).enumerate() {
            halves.set("x", half)?;
            halves.run(2 * run + part as u64)?;
        }
    }
    let (a, b) = (halves.state()?.0, whole.state()?.0);
    let records = (halves.records()?, whole.records()?);
    if records.0.len() != 3 || records.1.len() != 3 || records.0[0].samples.len() != 16 {
        return Ok(f64::INFINITY);
    }
    let values = |p: &Params<f32>| (0..p.specs().len()).flat_map(|i| p.value(i).to_vec()).collect::<Vec<_>>();
    Ok(super::relative(&values(&a), &values(&b)))
}

/// Updates that were made though loss or gradient were not finite, and finite ones that were not.
pub(super) fn nonfinite_is_skipped(session: &Arc<Session>) -> Result<f64> {
    let mut learner = learner(session, None, 16, 1, false, Ranks::default())?;
    train(&mut learner, 16, 0..2)?;
    let before = learner.state()?;
    for (run, bad) in [(2, f32::NAN), (3, f32::INFINITY)] {
        let mut x = images(16, run);
        x[77] = bad;
        learner.set("x", &x)?;
        learner.run(run)?;
    }
    let untouched = learner.state()? == before;
    train(&mut learner, 16, 4..5)?;
    let moved = learner.state()? != before;
    let applied: Vec<bool> = learner.records()?.iter().map(|record| record.applied).collect();
    let failures = [!untouched, !moved, applied != [true, true, false, false, true]];
    Ok(failures.iter().filter(|&&failed| failed).count() as f64)
}
