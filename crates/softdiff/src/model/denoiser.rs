//! A network as a [`Denoiser`]: the clean prediction of any number of images, on any device.

use crate::corruption::{LinearMap, Shape};
use crate::network::Network;
use crate::objective::{ObjectiveError, Prediction};
use crate::path::{Moment, Path};
use crate::sampler::{Denoiser, Result, SamplerError};
use rayon::prelude::*;
use softdiff_engine::Precision;
use softdiff_engine::device::Executor;
use softdiff_engine::{Device, Graph, Params, Var};
use std::sync::Arc;

/// What the network is conditioned on besides the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// The time, as our training does (choice A14).
    #[default]
    Time,
    /// `ln sigma_t`, as score_sde's VE networks with Fourier embedding.
    LogSigma,
    /// The index of sigma_t among so many geometric noise levels, the largest first: score_sde's VE networks with positional
    /// embedding, which it trains with `continuous = False`.
    NoiseIndex {
        /// How many levels.
        levels: usize,
    },
}

impl Condition {
    /// The value the network is conditioned on at time t, where the noise is sigma.
    pub(super) fn value(self, t: f64, sigma: f64) -> f64 {
        match self {
            Condition::Time => t,
            Condition::LogSigma => sigma.ln(),
            // Sigma is geometric in t, so its index is linear; rounded as score_sde does.
            Condition::NoiseIndex { levels } => ((1.0 - t) * levels.saturating_sub(1) as f64).round_ties_even(),
        }
    }

    /// What the network reads in a graph, from the [`value`](Self::value) of each image.
    pub(super) fn emit(self, g: &mut Graph, network: &dyn Network, value: Var) -> softdiff_engine::Result<Var> {
        match self {
            Condition::Time => network.condition_on_time(g, value),
            Condition::LogSigma | Condition::NoiseIndex { .. } => Ok(value),
        }
    }
}

/// A network with weights, and how to read it: what a prediction of x_0 needs.
#[derive(Clone)]
pub struct Predictor<'a> {
    /// The network.
    pub network: &'a dyn Network,
    /// Its weights.
    pub params: &'a Params<f32>,
    /// How its output is read.
    pub prediction: Prediction,
    /// What it is conditioned on besides the image.
    pub condition: Condition,
    /// The path it was trained on.
    pub path: Arc<Path>,
}

/// A network on a device that predicts x_0.
pub struct NetworkDenoiser {
    run: Executor,
    output: Var,
    batch: usize,
    shape: Shape,
    prediction: Prediction,
    condition: Condition,
    path: Arc<Path>,
    sees_mask: bool,
    networks: u64,
    evaluations: u64,
}

impl NetworkDenoiser {
    /// Puts the network on `device` for `batch` images at a time; more are done in turns.
    pub fn new(
        device: &Device,
        predictor: Predictor<'_>,
        batch: usize,
        precision: Precision,
    ) -> Result<NetworkDenoiser> {
        let Predictor { network, params, prediction, condition, path } = predictor;
        let shape = path.shape();
        let mut graph = Graph::new();
        let x = graph.input("x", [batch, shape.height, shape.width, shape.channels])?;
        let t = graph.input("t", [batch])?;
        let condition_var = condition.emit(&mut graph, network, t)?;
        let input = network.input(&mut graph, x, |g| g.input("mask", [1, shape.height, shape.width, 1]))?;
        let output = network.emit(&mut graph, input, condition_var, false)?;
        let (sees_mask, networks) = (network.has_mask_channel(), network.evaluations());
        let run = Executor::new(device, &graph, &[output], params, precision, 0)?;
        let evaluations = 0;
        Ok(NetworkDenoiser { run, output, batch, shape, prediction, condition, path, sees_mask, networks, evaluations })
    }

    /// Other weights for the same network.
    pub fn set_params(&mut self, params: &Params<f32>) -> Result<()> {
        Ok(self.run.set_params(params)?)
    }

    /// Evaluations so far: one for each image and network.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }
}

impl NetworkDenoiser {
    /// What `read` makes of the network's output at (x_t, t).
    fn predict(
        &mut self,
        xt: &[f64],
        t: f64,
        read: impl Fn(&Prediction, &[f64], &[f64], &Moment) -> std::result::Result<Vec<f64>, ObjectiveError> + Sync,
    ) -> Result<Vec<f64>> {
        let size = self.shape.len();
        if xt.is_empty() || !xt.len().is_multiple_of(size) {
            return Err(SamplerError::Size { what: "the images", found: xt.len(), expected: size });
        }
        let at = self.path.at(t)?;
        if self.sees_mask {
            self.run.set("mask", &mask_of(&at.map, self.shape)?)?;
        }
        let condition = self.condition.value(t, at.sigma);
        self.run.set("t", &vec![condition as f32; self.batch])?;
        let mut predicted = Vec::with_capacity(xt.len());
        let mut input = vec![0.0; self.batch * size];
        for part in xt.chunks(self.batch * size) {
            // What is beyond the last image keeps the values of the part before: it is not looked at.
            input.par_iter_mut().zip(part).for_each(|(to, &from)| *to = from as f32);
            self.run.set("x", &input)?;
            self.run.run(0)?;
            self.evaluations += self.networks * (part.len() / size) as u64;
            let outputs = self.run.get(self.output)?;
            let output: Vec<f64> = outputs[..part.len()].par_iter().map(|&value| value.into()).collect();
            let centre = self.path.centre();
            let from_centre: Vec<f64> = part.par_iter().map(|x| x - centre).collect();
            let (prediction, images) = (&self.prediction, output.par_chunks(size).zip(from_centre.par_chunks(size)));
            let answers = images.map(|(output, xt)| read(prediction, output, xt, &at));
            for answer in answers.collect::<std::result::Result<Vec<_>, _>>()? {
                predicted.par_extend(answer.into_par_iter().map(|x| x + centre));
            }
        }
        Ok(predicted)
    }
}

impl Denoiser for NetworkDenoiser {
    fn x0_hat(&mut self, xt: &[f64], t: f64) -> Result<Vec<f64>> {
        self.prediction.check_clean()?;
        self.predict(xt, t, |prediction, output, xt, at| prediction.x0_hat(output, xt, at))
    }

    fn one_step(&mut self, xt: &[f64], t: f64, t_next: f64) -> Result<Vec<f64>> {
        self.predict(xt, t, |prediction, output, xt, at| prediction.one_step(output, xt, at, t_next))
    }
}

/// What a map leaves of a white image, one value per pixel: the channel that a network with `mask_channel` sees.
pub(super) fn mask_of(map: &LinearMap, shape: Shape) -> Result<Vec<f32>> {
    let left = map.apply(shape, &vec![1.0; shape.len()])?;
    let mean = |pixel: &[f64]| (pixel.iter().sum::<f64>() / shape.channels as f64) as f32;
    Ok(left.chunks_exact(shape.channels).map(mean).collect())
}
