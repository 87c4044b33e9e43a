//! Sampling as a graph: prediction and update in one run, x_t stays on the device.

use super::denoiser::{Condition, Predictor, mask_of};
use crate::corruption::{LinearMap, MapProgram};
use crate::network::unet;
use crate::objective::{Prediction, TimeVars};
use crate::path::Path;
use crate::sampler::run::noise;
use crate::sampler::{Blend, Ending, Point, Result, Sampler, SamplerError, Sampling, Stage};
use softdiff_engine::Precision;
use softdiff_engine::device::Executor;
use softdiff_engine::{Device, Graph, Params, Var};
use std::sync::Arc;

/// A network and the update of any sampler whose steps are [`Blend`]s, for a fixed number of images at a time.
pub struct GraphSampler {
    run: Executor,
    program: MapProgram,
    next: Var,
    x0_hat: Var,
    batch: usize,
    path: Arc<Path>,
    condition: Condition,
    prediction: Prediction,
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
        let (sigma, kept) = (number(&mut g, "sigma")?, number(&mut g, "kept")?);
        let (fresh, ahead) = (number(&mut g, "fresh")?, number(&mut g, "ahead")?);
        let (drawn, base) = (number(&mut g, "drawn")?, number(&mut g, "base")?);
        let now_numbers = program.inputs(&mut g, "now", 1)?;
        let next_numbers = program.inputs(&mut g, "next", 1)?;
        let told = match condition {
            Condition::Time => network.condition_on_time(&mut g, t)?,
            Condition::LogSigma | Condition::NoiseIndex { .. } => t,
        };
        // x is taken from the path's centre; the network sees it as it is.
        let shown = shifted(&mut g, x, path.centre())?;
        let seen = network.seen(&mut g, shown, |g| g.input("mask", [1, shape.height, shape.width, 1]))?;
        let output = unet(&mut g, network, seen, told, false)?.output;
        let alpha = match prediction {
            Prediction::Noise => Some(number(&mut g, "alpha")?),
            _ => None,
        };
        let time = (condition == Condition::Time).then_some(t);
        let x0_hat = prediction.emit(&mut g, output, x, TimeVars { t: time, sigma, alpha })?;
        let change = g.sub(x0_hat, previous)?;
        let extrapolated = g.mul(change, ahead)?;
        let itself = g.mul(x0_hat, base)?;
        let h = g.add(itself, extrapolated)?;
        let y_hat = program.emit(&mut g, h, &now_numbers)?;
        let y_next = program.emit(&mut g, h, &next_numbers)?;
        let target = g.mul(y_next, drawn)?;
        let residual = g.sub(x, y_hat)?;
        let remaining = g.mul(residual, kept)?;
        let added = g.mul(eta, fresh)?;
        let next = g.combine(&[(1.0, target), (1.0, remaining), (1.0, added)])?;
        let mut run = Executor::new(device, &g, &[next, x0_hat], params, precision, 0)?;
        run.carry(next, "x")?;
        run.carry(x0_hat, "previous")?;
        let sees_mask = network.mask_channel;
        Ok(GraphSampler { run, program, next, x0_hat, batch, path, condition, prediction, evaluations: 0, sees_mask })
    }

    /// Other weights for the same network.
    pub fn set_params(&mut self, params: &Params<f32>) -> Result<()> {
        Ok(self.run.set_params(params)?)
    }

    /// Images at a time.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Images evaluated so far: one for each image in each evaluation.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Takes `x1`, one image per seed and at most a batch, back along the path.
    pub fn sample(
        &mut self,
        sampler: &dyn Sampler,
        mut x1: Vec<f64>,
        seeds: &[u64],
        sampling: &Sampling,
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
        let steps = sampling.times.len() - 1;
        let path = self.path.clone();
        let mut from = Point::on(&path, sampling.times[0])?;
        let mut before = None;
        for step in 0..steps {
            let to = sampling.target(&path, step)?;
            let stage = Stage { path: &path, from: &from, to: &to, eta: &[] };
            let finishing = step + 1 == steps && sampling.ending == Ending::Denoised;
            let blend = match (finishing, sampler.blend(&stage, before)) {
                (true, _) => Blend::PREDICTED,
                (false, Some(blend)) => blend?,
                (false, None) => {
                    let problem = format!("the steps of '{}' are not a few numbers", sampler.name());
                    return Err(SamplerError::Denoiser(problem));
                }
            };
            self.load(&stage, &from, &blend)?;
            if blend.fresh > 0.0 {
                let mut eta = noise(seeds, step, 1, size);
                eta.resize(self.batch * size, 0.0);
                self.run.set("eta", &narrow(&eta))?;
            }
            self.run.run(0)?;
            self.evaluations += seeds.len() as u64;
            let correction = if finishing { None } else { sampler.correction(&stage) };
            if let Some(correction) = correction {
                self.load(&stage, &to, &correction)?;
                self.run.run(0)?;
                self.evaluations += seeds.len() as u64;
            }
            before = Some(from.t);
            from = to;
        }
        let result = self.run.get(if sampling.ending == Ending::Denoised { self.x0_hat } else { self.next })?;
        let images: Vec<f64> = result.into_iter().take(wanted).map(|x| f64::from(x) + centre).collect();
        match images.iter().position(|v| !v.is_finite()) {
            Some(index) => Err(SamplerError::NotFinite { what: "the sample", t: from.t, index }),
            None => Ok(images),
        }
    }

    /// The numbers of one run: x_0 is predicted at `at`.
    fn load(&mut self, stage: &Stage, at: &Point, blend: &Blend) -> Result<()> {
        let told = self.condition.told(at.t, at.sigma);
        self.run.set("t", &vec![told as f32; self.batch])?;
        if self.sees_mask {
            self.run.set("mask", &mask_of(&at.map, self.path.shape())?)?;
        }
        let Blend { drawn, kept, fresh, base, ahead } = *blend;
        let numbers = [("drawn", drawn), ("kept", kept), ("fresh", fresh), ("base", base), ("ahead", ahead)];
        for (name, value) in numbers.into_iter().chain([("sigma", at.sigma)]) {
            self.run.set(name, &[value as f32])?;
        }
        if let Some(alpha) = self.prediction.alpha(at)? {
            self.run.set("alpha", &[alpha as f32])?;
        }
        for (name, map) in [("now", &stage.from.map), ("next", &stage.to.map)] {
            for (index, values) in self.program.values(map)?.iter().enumerate() {
                self.run.set(&format!("{name}.{index}"), &narrow(values))?;
            }
        }
        Ok(())
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
