//! Sampling as a graph: prediction and update in one run, x_t stays on the device.

use super::denoiser::{Condition, Predictor, mask_of};
use crate::corruption::{LinearMap, MapProgram};
use crate::objective::{Prediction, TimeVars};
use crate::path::{Moment, Path};
use crate::sampler::affine::{AffineUpdate, X0_HAT, corrupted_to};
use crate::sampler::{Ending, Result, Sampler, SamplerError, Sampling, SamplingState, StepContext, noise, run};
use softdiff_engine::Precision;
use softdiff_engine::device::Executor;
use softdiff_engine::{Device, Graph, Params, Var};
use std::sync::Arc;

/// A network and one [`AffineUpdate`], for a fixed number of images at a time.
pub struct GraphSampler {
    run: Executor,
    program: MapProgram,
    next: Var,
    x0_hat: Var,
    batch: usize,
    path: Arc<Path>,
    condition: Condition,
    prediction: Prediction,
    networks: u64,
    evaluations: u64,
    sees_mask: bool,
}

impl GraphSampler {
    /// Puts the network and the update on `device`; `sampling` tells the times it must be able to visit.
    pub fn new(
        device: &Device,
        predictor: Predictor<'_>,
        sampling: &Sampling,
        batch: usize,
        precision: Precision,
    ) -> Result<GraphSampler> {
        let Predictor { network, params, prediction, condition, path } = predictor;
        sampling.check()?;
        prediction.check_clean()?;
        let shape = path.shape();
        let mut maps = vec![LinearMap::Identity];
        for &t in &sampling.times {
            maps.push(path.at(t)?.map);
        }
        let program = MapProgram::covering(&maps, shape)?;
        let mut g = Graph::new();
        let images = [batch, shape.height, shape.width, shape.channels];
        let x = g.input("x", images)?;
        let previous = g.input("previous", images)?;
        let eta = g.input("eta", images)?;
        let t = g.input("t", [batch])?;
        let number = |g: &mut Graph, name: &str| g.input(name, [1, 1, 1, 1]);
        let sigma = number(&mut g, "sigma")?;
        let from_numbers = program.inputs(&mut g, "from.map", 1)?;
        let to_numbers = program.inputs(&mut g, "to.map", 1)?;
        let condition_var = condition.emit(&mut g, network, t)?;
        // x is taken from the path's centre; the network sees it as it is.
        let shown = shifted(&mut g, x, path.centre())?;
        let input = network.input(&mut g, shown, |g| g.input("mask", [1, shape.height, shape.width, 1]))?;
        let output = network.emit(&mut g, input, condition_var, false)?;
        let alpha = match prediction {
            Prediction::Noise => Some(number(&mut g, "alpha")?),
            _ => None,
        };
        let time = (condition == Condition::Time).then_some(t);
        let x0_hat = prediction.emit(&mut g, output, x, TimeVars { t: time, sigma, alpha })?;
        // x' = x + C from + C' to + eta, each with its coefficients: an AffineUpdate.
        let mut scaled = |var: Var, coefficient: &str| -> softdiff_engine::Result<Var> {
            let coefficient = number(&mut g, coefficient)?;
            g.mul(var, coefficient)
        };
        let from = [scaled(x0_hat, "from.now")?, scaled(previous, "from.previous")?];
        let to = [scaled(x0_hat, "to.now")?, scaled(previous, "to.previous")?];
        let (kept, fresh) = (scaled(x, "x.coefficient")?, scaled(eta, "noise")?);
        let [from, to] = [g.add(from[0], from[1])?, g.add(to[0], to[1])?];
        let [from, to] = [program.emit(&mut g, from, &from_numbers)?, program.emit(&mut g, to, &to_numbers)?];
        let next = g.combine(&[(1.0, kept), (1.0, from), (1.0, to), (1.0, fresh)])?;
        let mut run = Executor::new(device, &g, &[next, x0_hat], params, precision, 0)?;
        run.carry(next, "x")?;
        run.carry(x0_hat, "previous")?;
        let (sees_mask, networks, evaluations) = (network.has_mask_channel(), network.evaluations(), 0);
        Ok(GraphSampler {
            run,
            program,
            next,
            x0_hat,
            batch,
            path,
            condition,
            prediction,
            networks,
            evaluations,
            sees_mask,
        })
    }

    /// Other weights for the same network.
    pub fn set_params(&mut self, params: &Params<f32>) -> Result<()> {
        Ok(self.run.set_params(params)?)
    }

    /// Images at a time.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Evaluations so far: one for each image and network.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Takes `x1`, one image per seed and at most a batch, back along the path.
    pub fn sample(
        &mut self,
        sampler: &dyn Sampler,
        x1: Vec<f64>,
        seeds: &[u64],
        sampling: &Sampling,
    ) -> Result<Vec<f64>> {
        self.sample_watched(sampler, x1, seeds, sampling, &mut || Ok(()))
    }

    /// The same, calling `after` after every step; its error ends the sampling.
    pub fn sample_watched(
        &mut self,
        sampler: &dyn Sampler,
        mut x1: Vec<f64>,
        seeds: &[u64],
        sampling: &Sampling,
        after: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<f64>> {
        sampling.check()?;
        let size = self.path.shape().len();
        if seeds.len() > self.batch || x1.len() != seeds.len() * size {
            return Err(SamplerError::Size { what: "the start", found: x1.len(), expected: self.batch * size });
        }
        let wanted = x1.len();
        x1.resize(self.batch * size, 0.0);
        let centre = self.path.centre();
        x1.iter_mut().for_each(|x| *x -= centre);
        self.run.set("x", &narrow(&x1))?;
        // What was predicted last has no part in the first step, which holds only if it is a number.
        self.run.set("previous", &vec![0.0; x1.len()])?;
        let path = self.path.clone();
        let mut state = OnDevice { sampler: self, seeds };
        run(&path, sampler, sampling, &mut state, |_, _| after())?;
        let result = self.run.get(if sampling.ending == Ending::Denoised { self.x0_hat } else { self.next })?;
        let images: Vec<f64> = result.into_iter().take(wanted).map(|x| f64::from(x) + centre).collect();
        match images.iter().position(|v| !v.is_finite()) {
            Some(index) => Err(SamplerError::NotFinite { what: "the sample", t: 0.0, index }),
            None => Ok(images),
        }
    }

    /// One evaluation and its update, with x0_hat predicted at `at`; `eta` is read where the update has noise.
    fn update(&mut self, step: &StepContext, at: &Moment, update: &AffineUpdate, seeds: &[u64]) -> Result<()> {
        self.load(step, at, update)?;
        self.run.run(0)?;
        self.evaluations += self.networks * seeds.len() as u64;
        Ok(())
    }

    /// The inputs of one evaluation but x and noise.
    fn load(&mut self, step: &StepContext, at: &Moment, update: &AffineUpdate) -> Result<()> {
        let condition = self.condition.value(at.t, at.sigma);
        self.run.set("t", &vec![condition as f32; self.batch])?;
        if self.sees_mask {
            self.run.set("mask", &mask_of(&at.map, self.path.shape())?)?;
        }
        let AffineUpdate { x, from, to, noise } = *update;
        let numbers = [
            ("sigma", at.sigma),
            ("x.coefficient", x),
            ("from.now", from.now),
            ("from.previous", from.previous),
            ("to.now", to.now),
            ("to.previous", to.previous),
            ("noise", noise),
        ];
        for (name, value) in numbers {
            self.run.set(name, &[value as f32])?;
        }
        if let Some(alpha) = self.prediction.alpha(at)? {
            self.run.set("alpha", &[alpha as f32])?;
        }
        for (name, map) in [("from.map", &step.from.map), ("to.map", &step.to.map)] {
            for (index, values) in self.program.values(map)?.iter().enumerate() {
                self.run.set(&format!("{name}.{index}"), &narrow(values))?;
            }
        }
        Ok(())
    }
}

/// x_t in the memory of a device.
struct OnDevice<'a> {
    sampler: &'a mut GraphSampler,
    seeds: &'a [u64],
}

impl SamplingState for OnDevice<'_> {
    fn step(&mut self, sampler: &dyn Sampler, step: &StepContext, index: usize) -> Result<()> {
        let updates = sampler.updates(step)?;
        if updates.iter().any(|update| update.noise != 0.0) {
            let size = step.path.shape().len();
            let mut eta = noise(self.seeds, index, 1, size);
            eta.resize(self.sampler.batch * size, 0.0);
            self.sampler.run.set("eta", &narrow(&eta))?;
        }
        for (evaluation, update) in updates.iter().enumerate() {
            let at = if evaluation == 0 { step.from } else { step.to };
            self.sampler.update(step, at, update, self.seeds)?;
        }
        Ok(())
    }

    fn finish(&mut self, _: &dyn Sampler, step: &StepContext) -> Result<()> {
        self.sampler.update(step, step.from, &corrupted_to(X0_HAT), self.seeds)
    }
}

/// `x + by`.
fn shifted(g: &mut Graph, x: Var, by: f64) -> softdiff_engine::Result<Var> {
    if by == 0.0 {
        return Ok(x);
    }
    let by = g.constant([1, 1, 1, 1], vec![by])?;
    g.add(x, by)
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}
