//! When to step, and the loop that does.

use super::{Denoiser, Result, ReverseSteps, Sampler, SamplerError, StepContext};
use crate::path::{Moment, Path};

/// What the last step does (choice A8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// It returns the clean prediction: score_sde's `noise_removal`.
    #[default]
    Denoised,
    /// It is one of the sampler's own, to C = I and sigma = 0.
    Stepped,
    /// It is one of the sampler's own and ends where the path begins, with the noise that is there.
    AtPathStart,
}

/// The most steps that are taken; more would not change a digit.
pub const MOST_STEPS: usize = 1_000_000;

fn check_steps(steps: usize) -> Result<()> {
    match steps {
        0 => Err(SamplerError::NoSteps),
        1..=MOST_STEPS => Ok(()),
        _ => Err(SamplerError::TooManySteps(steps)),
    }
}

/// When to step, and how to end.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Times from the most corrupted to 0; one more than there are steps.
    pub times: Vec<f64>,
    /// The last step.
    pub ending: Ending,
}

impl Sampling {
    /// `steps` steps of equal size in t, `t_i = 1 - i/N`, the last one returning the clean prediction.
    pub fn uniform(steps: usize) -> Result<Self> {
        check_steps(steps)?;
        let times = (0..=steps).map(|i| (steps - i) as f64 / steps as f64).collect();
        Ok(Sampling { times, ending: Ending::default() })
    }

    /// `steps` steps that end at each of `knots`, ascending to 1, and are of equal size between two of them (choice A21):
    /// no step passes over a corner of the path.
    pub fn through(steps: usize, knots: &[f64]) -> Result<Self> {
        check_steps(steps)?;
        if steps < knots.len() || knots.is_empty() {
            let remedy = "give at least one for each part between two knots of the path, or sample.grid = uniform";
            let value = steps as f64;
            return Err(SamplerError::Option { sampler: "sampling", option: "the number of steps", value, remedy });
        }
        let starts: Vec<f64> = [0.0].into_iter().chain(knots[..knots.len() - 1].iter().copied()).collect();
        let mut parts = vec![1usize; knots.len()];
        // One more step each time where steps are longest.
        for _ in knots.len()..steps {
            let size = |part: usize| (knots[part] - starts[part]) / parts[part] as f64;
            let longest = (0..parts.len()).fold(0, |best, part| if size(part) > size(best) { part } else { best });
            parts[longest] += 1;
        }
        let mut times = vec![0.0];
        for ((start, end), parts) in starts.iter().zip(knots).zip(parts) {
            times.extend(
                (1..=parts).map(|i| if i == parts { *end } else { start + (end - start) * i as f64 / parts as f64 }),
            );
        }
        times.reverse();
        Ok(Sampling { times, ending: Ending::default() })
    }

    /// Every time to the power `power`: above 1, shorter steps towards the clean end and longer ones at the other.
    pub fn warped(self, power: f64) -> Result<Self> {
        if !(power > 0.0 && power.is_finite()) {
            let remedy = "give a number above 0, such as 2";
            return Err(SamplerError::Option { sampler: "sampling", option: "the warp", value: power, remedy });
        }
        Ok(Sampling { times: self.times.iter().map(|t| t.powf(power)).collect(), ..self })
    }

    /// As many steps from time `t` on instead of 1.
    pub fn beginning(self, t: f64) -> Self {
        Sampling { times: self.times.iter().map(|time| time * t).collect(), ..self }
    }

    /// The same steps with another ending.
    pub fn ending(self, ending: Ending) -> Self {
        Sampling { ending, ..self }
    }

    /// Where step number `step` ends.
    pub fn target(&self, path: &Path, step: usize) -> Result<Moment> {
        let last = step + 2 == self.times.len();
        match self.ending {
            Ending::Denoised | Ending::Stepped if last => Ok(Moment::clean()),
            _ => Ok(path.at(self.times[step + 1])?),
        }
    }

    /// Whether the times are a grid that can be sampled on.
    pub fn check(&self) -> Result<()> {
        if self.times.len() < 2 {
            return Err(SamplerError::NoSteps);
        }
        for (index, pair) in self.times.windows(2).enumerate() {
            // Written so that NaN fails.
            let falls = pair[0] > pair[1];
            if !falls {
                return Err(SamplerError::Times { index, from: pair[0], to: pair[1] });
            }
        }
        Ok(())
    }
}

/// x_t while it is sampled: in memory with any denoiser, or on a device.
pub trait SamplingState {
    /// One step of the sampler; `index` counts the steps, for the noise.
    fn step(&mut self, sampler: &dyn Sampler, step: &StepContext, index: usize) -> Result<()>;

    /// The last step of [`Ending::Denoised`]: x becomes the clean prediction.
    fn finish(&mut self, sampler: &dyn Sampler, step: &StepContext) -> Result<()>;
}

/// How far a sampling run is: where its next step starts.
#[derive(Debug, Clone, PartialEq)]
pub struct StepPosition {
    index: usize,
    from: Moment,
    before: Option<f64>,
}

impl StepPosition {
    /// Before the first step.
    pub fn start(path: &Path, sampling: &Sampling) -> Result<Self> {
        sampling.check()?;
        Ok(StepPosition { index: 0, from: path.at(sampling.times[0])?, before: None })
    }

    /// The time at which the next step starts; after the last one, the time it ended at.
    pub fn time(&self) -> f64 {
        self.from.t
    }

    /// Takes the next step; false where there is none left. All but `state` must be what it was at the start.
    pub fn advance<S: SamplingState>(
        &mut self,
        path: &Path,
        sampler: &dyn Sampler,
        sampling: &Sampling,
        state: &mut S,
    ) -> Result<bool> {
        let steps = sampling.times.len() - 1;
        if self.index >= steps {
            return Ok(false);
        }
        let to = sampling.target(path, self.index)?;
        let step = StepContext { path, from: &self.from, to: &to, before: self.before, eta: &[] };
        if self.index + 1 == steps && sampling.ending == Ending::Denoised {
            state.finish(sampler, &step)?;
        } else {
            state.step(sampler, &step, self.index)?;
        }
        self.before = Some(self.from.t);
        self.from = to;
        self.index += 1;
        Ok(true)
    }
}

/// The sampling loop: takes `state` back along the path, calling `after(t, state)` after every step.
pub fn run<S: SamplingState>(
    path: &Path,
    sampler: &dyn Sampler,
    sampling: &Sampling,
    state: &mut S,
    mut after: impl FnMut(f64, &S) -> Result<()>,
) -> Result<()> {
    let mut position = StepPosition::start(path, sampling)?;
    while position.advance(path, sampler, sampling, state)? {
        after(position.time(), state)?;
    }
    Ok(())
}

/// Takes `x1`, one image per seed, back along the path.
///
/// Image i depends on its own start and `seeds[i]` only: its noise in step k is the engine's stream (seed, k).
pub fn sample(
    path: &Path,
    sampler: &dyn Sampler,
    denoiser: &mut dyn Denoiser,
    x1: Vec<f64>,
    seeds: &[u64],
    sampling: &Sampling,
) -> Result<Vec<f64>> {
    sample_watched(path, sampler, denoiser, x1, seeds, sampling, &mut |_, _| {})
}

/// [`sample`], showing every x_t on the way, the start and the end included, with its time.
pub fn sample_watched(
    path: &Path,
    sampler: &dyn Sampler,
    denoiser: &mut dyn Denoiser,
    x1: Vec<f64>,
    seeds: &[u64],
    sampling: &Sampling,
    watch: &mut dyn FnMut(f64, &[f64]),
) -> Result<Vec<f64>> {
    let mut steps = ReverseSteps::new(path, sampling, x1, seeds)?;
    watch(steps.time(), &steps.images());
    while steps.advance(path, sampler, sampling, denoiser)? {
        watch(steps.time(), &steps.images());
    }
    Ok(steps.images())
}
