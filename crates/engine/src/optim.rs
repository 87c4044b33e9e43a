//! The optimiser: global-norm clipping, Adam with warm-up, and several EMAs, in one fused pass over the parameters.

use crate::cpu::simd::vectorized;
use crate::error::{Error, Result};
use crate::{Params, Scalar, TensorShape};
use rayon::prelude::*;

/// Adam as PyTorch computes it (Kingma & Ba, 2015), with clipping and warm-up as score_sde does.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamConfig {
    /// Learning rate after warm-up.
    pub rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Steps over which the rate grows linearly from 0; 0 for none.
    pub warmup: u64,
    /// Steps over which the rate falls linearly to 0 at the end; 0 for none.
    pub cooldown: u64,
    /// Where a cool-down ends.
    pub steps: u64,
    /// Largest global norm of the gradient; larger ones are scaled down to it.
    pub clip: Option<f64>,
    /// Decays of the exponential moving averages to keep.
    pub ema: Vec<f64>,
}

impl Default for AdamConfig {
    /// The paper's training: rate 2e-4, betas 0.9 and 0.999, 5000 steps of warm-up, clipping at 1, one EMA of 0.999.
    fn default() -> Self {
        AdamConfig {
            rate: 2e-4,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            warmup: 5000,
            cooldown: 0,
            steps: u64::MAX,
            clip: Some(1.0),
            ema: vec![0.999],
        }
    }
}

impl AdamConfig {
    /// The learning rate of update number `step`, counted from 0:
    /// `rate * min(step / warmup, 1) * min((steps - step) / cooldown, 1)`.
    pub fn rate_at(&self, step: u64) -> f64 {
        let share = |of: u64, whole: u64| if of >= whole { 1.0 } else { of as f64 / whole as f64 };
        self.rate * share(step, self.warmup) * share(self.steps.saturating_sub(step), self.cooldown)
    }
}

/// The optimiser's state: moments and averages, in the order of the trainable parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Adam<T> {
    /// What it was made with.
    pub config: AdamConfig,
    /// Updates done.
    pub step: u64,
    /// First moments.
    pub first: Vec<Vec<T>>,
    /// Second moments.
    pub second: Vec<Vec<T>>,
    /// Averaged parameters (all of them, also the frozen ones), one set per decay.
    pub ema: Vec<Params<T>>,
}

/// What an update did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// Global norm of the gradient before clipping.
    pub norm: f64,
    /// Learning rate used.
    pub rate: f64,
    /// False when the gradient was not finite: then nothing was changed.
    pub applied: bool,
}

/// Elements of one task of the fused pass.
const CHUNK: usize = 65_536;

impl<T: Scalar> Adam<T> {
    /// Zero moments; averages that begin at the parameters.
    pub fn new(config: AdamConfig, params: &Params<T>) -> Self {
        let zeros = || -> Vec<Vec<T>> {
            let trainable = params.specs().iter().filter(|s| s.trainable);
            trainable.map(|s| vec![T::ZERO; s.shape.numel()]).collect()
        };
        let ema = vec![params.clone(); config.ema.len()];
        Adam { config, step: 0, first: zeros(), second: zeros(), ema }
    }

    /// One update from `gradients`, in the order of the trainable parameters.
    ///
    /// A gradient with a non-finite norm changes nothing.
    pub fn update(&mut self, params: &mut Params<T>, gradients: &[&[T]]) -> Result<Update> {
        self.check(params, gradients)?;
        let norm = global_norm(gradients);
        let rate = self.config.rate_at(self.step);
        if !norm.is_finite() {
            return Ok(Update { norm, rate, applied: false });
        }
        self.step += 1;
        let pass = Pass::new(&self.config, self.step, rate, norm);
        let mut averages: Vec<_> = self.ema.iter_mut().map(|ema| ema.trainable_mut()).collect();
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((value, gradient), (first, second)) in params.trainable_mut().zip(gradients).zip(moments) {
            let mut tasks: Vec<UpdateTask<T>> = value
                .chunks_mut(CHUNK)
                .zip(gradient.chunks(CHUNK))
                .zip(first.chunks_mut(CHUNK).zip(second.chunks_mut(CHUNK)))
                .map(|((value, gradient), (first, second))| UpdateTask { value, gradient, first, second, ema: vec![] })
                .collect();
            for average in averages.iter_mut().filter_map(|a| a.next()) {
                for (task, part) in tasks.iter_mut().zip(average.chunks_mut(CHUNK)) {
                    task.ema.push(part);
                }
            }
            tasks.into_par_iter().for_each(|task| pass.run(task));
        }
        Ok(Update { norm, rate, applied: true })
    }

    fn check(&self, params: &Params<T>, gradients: &[&[T]]) -> Result<()> {
        let trainable: Vec<_> = params.specs().iter().filter(|s| s.trainable).collect();
        for (index, spec) in trainable.iter().enumerate() {
            let found = gradients.get(index).map_or(0, |g| g.len());
            let moment = self.first.get(index).map_or(0, |m| m.len());
            if found != spec.shape.numel() || moment != found || gradients.len() != trainable.len() {
                return Err(Error::ShapeMismatch {
                    kind: "gradient of parameter",
                    name: spec.name.clone(),
                    expected: spec.shape.clone(),
                    found: TensorShape::from([found]),
                });
            }
        }
        Ok(())
    }
}

/// The Euclidean norm over all tensors together, summed in f64 and in a fixed order.
pub fn global_norm<T: Scalar>(gradients: &[&[T]]) -> f64 {
    let squares = |chunk: &[T]| chunk.iter().map(|g| g.to_f64() * g.to_f64()).sum::<f64>();
    let partial: Vec<f64> = gradients.par_iter().flat_map_iter(|g| g.chunks(CHUNK).map(squares)).collect();
    partial.iter().sum::<f64>().sqrt()
}

struct UpdateTask<'a, T> {
    value: &'a mut [T],
    gradient: &'a [T],
    first: &'a mut [T],
    second: &'a mut [T],
    ema: Vec<&'a mut [T]>,
}

/// The constants of one update.
struct Pass<T> {
    scale: T,
    betas: [T; 2],
    step_size: T,
    root_correction: T,
    epsilon: T,
    decays: Vec<T>,
}

impl<T: Scalar> Pass<T> {
    fn new(config: &AdamConfig, step: u64, rate: f64, norm: f64) -> Self {
        let power = step.min(i32::MAX as u64) as i32;
        let scale = config.clip.map_or(1.0, |clip| clip / norm.max(clip));
        Pass {
            scale: T::from_f64(scale),
            betas: [T::from_f64(config.beta1), T::from_f64(config.beta2)],
            step_size: T::from_f64(rate / (1.0 - config.beta1.powi(power))),
            root_correction: T::from_f64(1.0 / (1.0 - config.beta2.powi(power)).sqrt()),
            epsilon: T::from_f64(config.epsilon),
            decays: config.ema.iter().map(|&decay| T::from_f64(decay)).collect(),
        }
    }

    fn run(&self, task: UpdateTask<T>) {
        adam(self, task.value, task.gradient, task.first, task.second);
        for (average, &decay) in task.ema.into_iter().zip(&self.decays) {
            follow(average, task.value, decay);
        }
    }
}

vectorized! {
    /// `m += (1 - b1)(g - m)`, `v = b2 v + (1 - b2) g^2`, `p -= step m / (sqrt(v) correction + epsilon)`.
    fn adam<T: Scalar>(pass: &Pass<T>, value: &mut [T], gradient: &[T], first: &mut [T], second: &mut [T]) {
        let [beta1, beta2] = pass.betas;
        let n = value.len();
        let (gradient, first, second) = (&gradient[..n], &mut first[..n], &mut second[..n]);
        for i in 0..n {
            let g = gradient[i] * pass.scale;
            first[i] = first[i] + (T::ONE - beta1) * (g - first[i]);
            second[i] = beta2 * second[i] + (T::ONE - beta2) * g * g;
            value[i] -= pass.step_size * first[i] / (second[i].sqrt() * pass.root_correction + pass.epsilon);
        }
    }
}

vectorized! {
    /// `average -= (1 - decay)(average - value)`.
    fn follow<T: Scalar>(average: &mut [T], value: &[T], decay: T) {
        for (average, &value) in average.iter_mut().zip(value) {
            *average -= (T::ONE - decay) * (*average - value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, Init};

    fn params(values: &[f64]) -> Params<f64> {
        let mut graph = Graph::new();
        graph.param("w", [values.len()], Init::Constant(0.0)).unwrap();
        graph.frozen_param("frozen", [1], Init::Constant(7.0)).unwrap();
        let mut params = Params::initialise(&graph, 0);
        params.set("w", &[values.len()].into(), values).unwrap();
        params
    }

    fn plain() -> AdamConfig {
        AdamConfig { rate: 0.1, warmup: 0, clip: None, ema: vec![], ..AdamConfig::default() }
    }

    #[test]
    fn with_a_constant_gradient_every_adam_step_is_the_rate() {
        // m / (1 - b1^t) = g and v / (1 - b2^t) = g^2, so each step is rate * g / (|g| + epsilon).
        let mut p = params(&[1.0, -2.0]);
        let mut adam = Adam::new(plain(), &p);
        for step in 1..=50 {
            adam.update(&mut p, &[&[3.0, -0.25]]).unwrap();
            let expected =
                [1.0 - 0.1 * step as f64 * 3.0 / (3.0 + 1e-8), -2.0 + 0.1 * step as f64 * 0.25 / (0.25 + 1e-8)];
            for (found, expected) in p.get("w").unwrap().iter().zip(expected) {
                assert!((found - expected).abs() < 1e-12, "step {step}: {found} against {expected}");
            }
        }
        assert_eq!(p.get("frozen").unwrap(), [7.0]);
    }

    #[test]
    fn adam_follows_the_closed_form_for_changing_gradients() {
        // m_t = (1 - b1) sum b1^(t-s) g_s and v_t = (1 - b2) sum b2^(t-s) g_s^2.
        let gradients = [0.5, -1.5, 2.0, 0.1, -0.3];
        let mut p = params(&[0.25]);
        let mut adam = Adam::new(plain(), &p);
        let mut expected = 0.25;
        for t in 1..=gradients.len() {
            adam.update(&mut p, &[&[gradients[t - 1]]]).unwrap();
            let moment = |beta: f64, power: i32| {
                (0..t).map(|s| (1.0 - beta) * beta.powi((t - 1 - s) as i32) * gradients[s].powi(power)).sum::<f64>()
                    / (1.0 - beta.powi(t as i32))
            };
            expected -= 0.1 * moment(0.9, 1) / (moment(0.999, 2).sqrt() + 1e-8);
            assert!((p.get("w").unwrap()[0] - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn clipping_scales_the_whole_gradient_to_the_norm() {
        let config = AdamConfig { clip: Some(1.0), beta1: 0.0, ..plain() };
        let mut p = params(&[0.0, 0.0]);
        let mut adam = Adam::new(config, &p);
        let update = adam.update(&mut p, &[&[3.0, 4.0]]).unwrap();
        assert_eq!(update.norm, 5.0);
        // With beta1 = 0 the first moment is the clipped gradient itself.
        assert!((adam.first[0][0] - 0.6).abs() < 1e-15 && (adam.first[0][1] - 0.8).abs() < 1e-15);
        adam.update(&mut p, &[&[0.3, 0.4]]).unwrap();
        assert!((adam.first[0][0] - 0.3).abs() < 1e-15, "a small gradient is left alone");
    }

    #[test]
    fn a_cool_down_is_linear_to_zero() {
        let config = AdamConfig { warmup: 10, cooldown: 40, steps: 100, rate: 2e-4, ..plain() };
        assert_eq!([config.rate_at(10), config.rate_at(60)], [2e-4, 2e-4]);
        assert!((config.rate_at(90) - 5e-5).abs() < 1e-18);
        assert_eq!([config.rate_at(100), config.rate_at(1000)], [0.0, 0.0]);
        // One that is longer than the training begins within the warm-up.
        let config = AdamConfig { cooldown: 200, ..config };
        assert!((config.rate_at(5) - 2e-4 * 0.5 * 95.0 / 200.0).abs() < 1e-18);
    }

    #[test]
    fn warm_up_is_linear_from_zero() {
        let config = AdamConfig { warmup: 5000, rate: 2e-4, ..plain() };
        assert_eq!(config.rate_at(0), 0.0);
        assert!((config.rate_at(1250) - 5e-5).abs() < 1e-18);
        assert_eq!((config.rate_at(5000), config.rate_at(9_000_000)), (2e-4, 2e-4));
        let mut p = params(&[1.0]);
        let mut adam = Adam::new(config, &p);
        adam.update(&mut p, &[&[1.0]]).unwrap();
        assert_eq!(p.get("w").unwrap(), [1.0], "the first update has rate 0");
    }

    #[test]
    fn several_averages_follow_their_own_decays() {
        let config = AdamConfig { ema: vec![0.5, 0.9, 0.999], ..plain() };
        let mut p = params(&[1.0]);
        let mut adam = Adam::new(config.clone(), &p);
        let mut expected = [1.0; 3];
        for _ in 0..20 {
            adam.update(&mut p, &[&[1.0]]).unwrap();
            let value = p.get("w").unwrap()[0];
            for ((expected, decay), ema) in expected.iter_mut().zip(&config.ema).zip(&adam.ema) {
                *expected = decay * *expected + (1.0 - decay) * value;
                assert!((ema.get("w").unwrap()[0] - *expected).abs() < 1e-14);
                assert_eq!(ema.get("frozen").unwrap(), [7.0]);
            }
        }
    }

    #[test]
    fn a_non_finite_gradient_changes_nothing() {
        let mut p = params(&[1.0, 2.0]);
        let mut adam = Adam::new(AdamConfig { ema: vec![0.9], ..plain() }, &p);
        adam.update(&mut p, &[&[1.0, 1.0]]).unwrap();
        let (before, state) = (p.clone(), adam.clone());
        for bad in [f64::NAN, f64::INFINITY] {
            let update = adam.update(&mut p, &[&[0.5, bad]]).unwrap();
            assert!(!update.applied && p == before && adam == state);
        }
    }

    #[test]
    fn gradients_of_the_wrong_size_are_refused_by_name() {
        let mut p = params(&[1.0, 2.0]);
        let mut adam = Adam::new(plain(), &p);
        let error = adam.update(&mut p, &[&[1.0]]).unwrap_err();
        assert_eq!(error.to_string(), "gradient of parameter `w` has shape [1] but the graph declares [2]");
    }
}
