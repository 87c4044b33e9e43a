//! A network as a [`Denoiser`]: the clean prediction of any number of images, on any device.

use crate::corruption::{LinearMap, Shape};
use crate::network::{UNetConfig, unet};
use crate::objective::Head;
use crate::path::{Moment, Path};
use crate::sampler::{Denoiser, Result, SamplerError};
use softdiff_engine::cuda::Numbers;
use softdiff_engine::device::Evaluator;
use softdiff_engine::{Device, Graph, Params, Var};
use std::sync::Arc;

/// What the network is told besides the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// The time, as our training does (choice A14).
    #[default]
    Time,
    /// `ln sigma_t`, as score_sde's VE networks.
    LogSigma,
}

/// A network with weights, and how to read it: what a prediction of x_0 needs.
#[derive(Clone)]
pub struct Predictor<'a> {
    /// The network.
    pub network: &'a UNetConfig,
    /// Its weights.
    pub params: &'a Params<f32>,
    /// How its output is read.
    pub head: Head,
    /// What it is told besides the image.
    pub condition: Condition,
    /// The path it was trained on.
    pub path: Arc<Path>,
}

/// A network on a device that predicts x_0.
pub struct NetworkDenoiser {
    run: Evaluator,
    output: Var,
    batch: usize,
    shape: Shape,
    head: Head,
    condition: Condition,
    path: Arc<Path>,
    sees_mask: bool,
    evaluations: u64,
}

impl NetworkDenoiser {
    /// Puts the network on `device` for `batch` images at a time; more are done in turns.
    pub fn new(device: &Device, predictor: Predictor<'_>, batch: usize, numbers: Numbers) -> Result<NetworkDenoiser> {
        let Predictor { network, params, head, condition, path } = predictor;
        let shape = path.shape();
        let mut graph = Graph::new();
        let x = graph.input("x", [batch, shape.height, shape.width, shape.channels])?;
        let t = graph.input("t", [batch])?;
        let told = match condition {
            Condition::Time => network.condition_on_time(&mut graph, t)?,
            Condition::LogSigma => t,
        };
        let seen = network.seen(&mut graph, x, |g| g.input("mask", [1, shape.height, shape.width, 1]))?;
        let output = unet(&mut graph, network, seen, told, false)?.output;
        let sees_mask = network.mask_channel;
        let run = Evaluator::new(device, &graph, &[output], params, numbers, 0)?;
        Ok(NetworkDenoiser { run, output, batch, shape, head, condition, path, sees_mask, evaluations: 0 })
    }

    /// Other weights for the same network.
    pub fn set_params(&mut self, params: &Params<f32>) -> Result<()> {
        Ok(self.run.set_params(params)?)
    }

    /// Evaluations so far, each of a whole batch of images.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }
}

impl Denoiser for NetworkDenoiser {
    fn x0_hat(&mut self, xt: &[f64], t: f64) -> Result<Vec<f64>> {
        let size = self.shape.len();
        if xt.is_empty() || !xt.len().is_multiple_of(size) {
            return Err(SamplerError::Size { what: "the images", found: xt.len(), expected: size });
        }
        let Moment { map, sigma } = self.path.at(t)?;
        if self.sees_mask {
            self.run.set("mask", &mask_of(&map, self.shape)?)?;
        }
        let told = match self.condition {
            Condition::Time => t,
            Condition::LogSigma => sigma.ln(),
        };
        self.run.set("t", &vec![told as f32; self.batch])?;
        let mut x0_hat = Vec::with_capacity(xt.len());
        let mut input = vec![0.0; self.batch * size];
        for part in xt.chunks(self.batch * size) {
            // What is beyond the last image keeps the values of the part before: it is not looked at.
            input.iter_mut().zip(part).for_each(|(to, &from)| *to = from as f32);
            self.run.set("x", &input)?;
            self.run.run(0)?;
            self.evaluations += 1;
            let output: Vec<f64> = self.run.get(self.output)?.into_iter().take(part.len()).map(f64::from).collect();
            let predicted =
                self.head.x0_hat(&output, part, sigma).map_err(|e| SamplerError::Denoiser(e.to_string()))?;
            x0_hat.extend(predicted);
        }
        Ok(x0_hat)
    }
}

/// What a map leaves of a white image, one value per pixel: the channel that a network with `mask_channel` sees.
pub(super) fn mask_of(map: &LinearMap, shape: Shape) -> Result<Vec<f32>> {
    let left = map.apply(shape, &vec![1.0; shape.len()])?;
    let mean = |pixel: &[f64]| (pixel.iter().sum::<f64>() / shape.channels as f64) as f32;
    Ok(left.chunks_exact(shape.channels).map(mean).collect())
}
