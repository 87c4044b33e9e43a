//! One training step as a graph: corrupt, predict, compare, for any path and objective.

use super::PathTable;
use crate::network::Network;
use crate::objective::{Earlier, EmittedBatch, Loss, Prediction};
use softdiff_engine::op::Taps;
use softdiff_engine::{Graph, Result, Var};

/// Where a step's random numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepNoise {
    /// Inputs `t`, `z`, `flip` and, where the objective draws a second time, `ahead`, set by the caller: for tests.
    Inputs,
    /// Drawn in the graph from (seed, step, element).
    Drawn,
    /// The same, with one time in each of n equal parts of [0, 1] for a batch of n (choice A25): the mean loss varies less.
    Stratified,
}

/// What the step reads besides its parameters.
#[derive(Clone, Copy, Debug)]
pub struct StepInputs {
    /// Images in [0, 1], `[n, size, size, channels]`.
    pub x0: Var,
    /// Times, `[n]`.
    pub t: Var,
}

/// What a step learns from, apart from its network.
pub struct StepSpec<'a> {
    /// The path.
    pub path: &'a PathTable,
    /// What is minimised.
    pub objective: &'a dyn Loss,
    /// What the network predicts.
    pub prediction: &'a Prediction,
    /// Images per run of the graph.
    pub batch: usize,
    /// Runs that make up the batch of a step.
    pub parts: usize,
    /// Where randomness comes from.
    pub noise: StepNoise,
    /// Whether images are mirrored at random.
    pub mirror: bool,
    /// The losses to expect at equally spaced times, by which they are divided: [`crate::objective::expected_loss`].
    pub expected: Option<&'a [f64]>,
}

/// The losses of a step, before gradients.
pub struct StepLoss {
    /// What it reads.
    pub inputs: StepInputs,
    /// Mean over the batch.
    pub loss: Var,
    /// The loss of each image, `[n]`.
    pub losses: Var,
}

/// Purposes of the step's random numbers.
mod purpose {
    pub const FLIP: u32 = 0x464C_4950;
    pub const TIME: u32 = 0x5449_4D45;
    pub const NOISE: u32 = 0x4E4F_4953;
    pub const AHEAD: u32 = 0x4148_4544;
}

impl StepLoss {
    /// Flip, draw t and noise, corrupt (Eq. 4), predict by `network(g, x_t, t)`, compare (Eq. 11).
    pub fn emit(
        g: &mut Graph,
        spec: &StepSpec,
        network: impl FnOnce(&mut Graph, Var, Var) -> Result<Var>,
    ) -> Result<StepLoss> {
        let &StepSpec { path, objective, prediction, batch, parts, noise, mirror, expected } = spec;
        let (shape, centre) = (path.shape, path.centre);
        let images = [batch, shape.height, shape.width, shape.channels];
        let x0 = g.input("x0", images)?;
        let (t, z) = match noise {
            StepNoise::Inputs => (g.input("t", [batch])?, g.input("z", images)?),
            StepNoise::Drawn | StepNoise::Stratified => {
                (drawn_times(g, batch, parts, noise)?, g.random_normal(images, purpose::NOISE)?)
            }
        };
        let clean = if mirror { mirrored(g, x0, shape.width, noise)? } else { x0 };
        // From the centre on all is linear; the network sees images as they are.
        let clean = shifted(g, clean, -centre)?;
        let now = path.moment(g, t)?;
        let earlier = match earlier_time(g, objective, t, noise)? {
            Some(time) => Some(path.moment(g, time)?),
            None => None,
        };
        let corrupted = now.apply(g, clean)?;
        let scaled = g.mul(z, now.sigma)?;
        let xt = g.add(corrupted, scaled)?;
        let shown = shifted(g, xt, centre)?;
        let output = network(g, shown, t)?;
        let earlier = earlier.as_ref();
        let compared = EmittedBatch { x0: clean, xt, output, prediction, t, now: &now, earlier };
        let losses = objective.emit(g, &compared)?;
        let losses = match expected {
            Some(expected) => balanced(g, losses, t, expected)?,
            None => losses,
        };
        let loss = g.mean(losses)?;
        Ok(StepLoss { inputs: StepInputs { x0, t }, loss, losses })
    }
}

impl StepLoss {
    /// The same with a network that is told what it asks for; `training` switches dropout on.
    pub fn of_network(g: &mut Graph, network: &dyn Network, spec: &StepSpec, training: bool) -> Result<StepLoss> {
        StepLoss::emit(g, spec, |g, xt, t| {
            let condition = network.condition_on_time(g, t)?;
            let x = network.input(g, xt, |g| mask_of(g, spec, t))?;
            network.emit(g, x, condition, training)
        })
    }
}

/// `x + by`.
fn shifted(g: &mut Graph, x: Var, by: f64) -> Result<Var> {
    if by == 0.0 {
        return Ok(x);
    }
    let by = g.constant([1, 1, 1, 1], vec![by])?;
    g.add(x, by)
}

/// Each image's loss as a share of what is expected at its time.
fn balanced(g: &mut Graph, losses: Var, t: Var, expected: &[f64]) -> Result<Var> {
    let inverse: Vec<f64> = expected.iter().map(|loss| 1.0 / loss).collect();
    let table = g.constant([inverse.len(), 1], inverse)?;
    let position = g.scale(t, (expected.len() - 1) as f64)?;
    let share = g.interpolate(table, position)?;
    let share = g.reshape(share, [g.shape(t).numel()])?;
    g.mul(losses, share)
}

/// Times of a batch. Which image has which part of the time is left to the order of the images, which is random.
fn drawn_times(g: &mut Graph, batch: usize, parts: usize, noise: StepNoise) -> Result<Var> {
    let uniform = g.random_uniform([batch], purpose::TIME)?;
    if noise != StepNoise::Stratified {
        return Ok(uniform);
    }
    let whole = batch * parts;
    let begins = |count: usize| (0..count).map(|place| place as f64 / whole as f64).collect();
    let begin = if parts == 1 {
        g.constant([batch], begins(whole))?
    } else {
        // A row more than there are places, so that none is interpolated.
        let table = g.constant([whole + 1, 1], begins(whole + 1))?;
        let place = g.place_in_batch([batch])?;
        let begin = g.interpolate(table, place)?;
        g.reshape(begin, [batch])?
    };
    g.combine(&[(1.0 / whole as f64, uniform), (1.0, begin)])
}

/// Each image or its mirror image, with even odds.
fn mirrored(g: &mut Graph, x0: Var, width: usize, noise: StepNoise) -> Result<Var> {
    let batch = g.shape(x0)[0];
    let height = g.shape(x0)[1];
    let flip = match noise {
        StepNoise::Inputs => g.input("flip", [batch, 1, 1, 1])?,
        StepNoise::Drawn | StepNoise::Stratified => {
            let coin = g.random_uniform([batch, 1, 1, 1], purpose::FLIP)?;
            g.above(coin, 0.5)?
        }
    };
    let mirrored = g.resample(x0, Taps::identity(height), Taps::reversed(width))?;
    g.select(flip, mirrored, x0)
}

/// What C_t leaves of a white image: `[n, height, width, 1]`.
fn mask_of(g: &mut Graph, spec: &StepSpec, t: Var) -> Result<Var> {
    let StepSpec { path, batch, .. } = *spec;
    let shape = path.shape;
    let now = path.moment(g, t)?;
    let white = g.constant([batch, shape.height, shape.width, shape.channels], vec![1.0; batch * shape.len()])?;
    let left = now.apply(g, white)?;
    let sum = g.sum_axes(left, 3..4)?;
    g.scale(sum, 1.0 / shape.channels as f64)
}

/// The second time of an objective; paths take a time below 0 for 0.
fn earlier_time(g: &mut Graph, objective: &dyn Loss, t: Var, noise: StepNoise) -> Result<Option<Var>> {
    let batch = g.shape(t).numel();
    Ok(match objective.earlier() {
        None => None,
        Some(Earlier::Fixed(step)) => {
            let shift = g.constant([1], vec![-step])?;
            Some(g.add(t, shift)?)
        }
        Some(Earlier::Drawn(farthest)) => {
            let share = match noise {
                StepNoise::Inputs => g.input("ahead", [batch])?,
                StepNoise::Drawn | StepNoise::Stratified => g.random_uniform([batch], purpose::AHEAD)?,
            };
            Some(g.combine(&[(1.0, t), (-farthest, share)])?)
        }
    })
}

/// A training step in a graph of its own.
pub struct SoftStep {
    /// The graph.
    pub graph: Graph,
    /// What it reads.
    pub inputs: StepInputs,
    /// Mean over the batch of the objective; for the paper's, `1/2 ||C_t (phi - r_t)||^2 / sigma_t^2` (Eq. 11).
    pub loss: Var,
    /// The loss of each image, `[n]`.
    pub losses: Var,
    /// Gradients of the trainable parameters, in order.
    pub gradients: Vec<Var>,
}

impl SoftStep {
    /// Corrupt, predict, compare, differentiate. `training` switches dropout on, `recompute` saves memory; see
    /// [`Graph::recompute`].
    pub fn new(network: &dyn Network, spec: &StepSpec, training: bool, recompute: bool) -> Result<SoftStep> {
        let mut graph = Graph::new();
        graph.recompute(recompute);
        let step = StepLoss::of_network(&mut graph, network, spec, training)?;
        let gradients = graph.parameter_gradients(step.loss)?;
        let StepLoss { inputs, loss, losses } = step;
        Ok(SoftStep { graph, inputs, loss, losses, gradients })
    }
}
