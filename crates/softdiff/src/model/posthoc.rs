//! Averages of any width after training (Karras et al. 2024, "Analyzing and Improving the Training Dynamics of Diffusion
//! Models", section 3), from the averages that the checkpoints of a run keep.
//!
//! An average is a profile p(s): the share of the weights of each step s in it. Wanted is the power profile
//! `p(s) = (s/t)^(g+1) - ((s-1)/t)^(g+1)`, which is tracked by `a += (1 - (1 - 1/s)^(g+1)) (theta_s - a)`. What is kept are
//! exponential averages and raw weights of several steps, whose profiles are known too. Their combination with weights x that sum to 1
//! has the profile `sum x_i p_i`, and x is chosen by least squares: `A x = b + l 1` with `A_ij = <p_i, p_j>`, `b_i = <p_i, p>`, and
//! l such that x sums to 1.

use super::ModelError;
use crate::checkpoint::{Checkpoints, Identity, Retention};
use crate::linalg::{Cholesky, LinalgError, Matrix, dot};
use crate::run::RunFolder;
use softdiff_engine::{Hint, Params};

/// Widths are standard deviations relative to the length of the training; the widest is that of all steps alike.
pub const POSTHOC_WIDEST: f64 = 0.28;
/// Profiles that differ by more, relative to the one wanted, are refused.
const FARTHEST: f64 = 0.25;
/// Added to the unit diagonal of A: combinations whose terms cancel are of no use.
const RIDGE: f64 = 1e-9;

/// An exponential average of the weights up to a step; raw weights have decay 0.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kept {
    step: u64,
    decay: f64,
}

impl Kept {
    /// `<p, q>` of two such profiles, a geometric series; the weights before the first step count as step 0.
    fn product(&self, other: &Kept) -> f64 {
        let (first, last) = if self.step <= other.step { (self, other) } else { (other, self) };
        let power = |decay: f64, steps: u64| decay.powf(steps as f64);
        let both = first.decay * last.decay;
        let series = (1.0 - power(both, first.step)) / (1.0 - both);
        let beginning = power(first.decay, first.step) * power(last.decay, last.step);
        (1.0 - first.decay) * (1.0 - last.decay) * power(last.decay, last.step - first.step) * series + beginning
    }

    /// `<p, q>` with a profile q over steps 1, 2, ...
    fn product_with(&self, profile: &[f64]) -> f64 {
        let mut weight = 1.0 - self.decay;
        let mut sum = 0.0;
        for share in profile[..(self.step as usize).min(profile.len())].iter().rev() {
            sum += weight * share;
            weight *= self.decay;
            if weight < 1e-20 {
                break;
            }
        }
        sum
    }
}

/// The exponent g of the power profile of a relative width, `sqrt(g + 1) / ((g + 2) sqrt(g + 3))`.
fn exponent(width: f64) -> f64 {
    let width_of = |g: f64| (g + 1.0).sqrt() / ((g + 2.0) * (g + 3.0).sqrt());
    let (mut low, mut high) = (0.0, 1.0);
    while width_of(high) > width {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if width_of(middle) > width { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The power profile over steps 1 to `steps`.
fn power_profile(width: f64, steps: u64) -> Vec<f64> {
    let power = exponent(width) + 1.0;
    let up_to = |step: u64| (step as f64 / steps as f64).powf(power);
    (1..=steps).map(|step| up_to(step) - up_to(step - 1)).collect()
}

/// The weights of a combination that comes nearest to `profile`, and how far off it is, relative to the profile.
fn combination(kept: &[Kept], profile: &[f64]) -> Result<(Vec<f64>, f64), LinalgError> {
    let norms: Vec<f64> = kept.iter().map(|one| one.product(one).sqrt()).collect();
    let gram = Matrix::from_fn(kept.len(), kept.len(), |i, j| {
        kept[i].product(&kept[j]) / (norms[i] * norms[j]) + if i == j { RIDGE } else { 0.0 }
    });
    let factor = Cholesky::new(&gram)?;
    let wanted: Vec<f64> = kept.iter().zip(&norms).map(|(one, norm)| one.product_with(profile) / norm).collect();
    let ones: Vec<f64> = norms.iter().map(|norm| 1.0 / norm).collect();
    let (nearest, towards) = (factor.solve(&wanted), factor.solve(&ones));
    let shift = (1.0 - dot(&nearest, &ones)) / dot(&towards, &ones);
    let x: Vec<f64> = nearest.iter().zip(&towards).map(|(x, d)| x + shift * d).collect();
    let square = dot(profile, profile);
    let off = dot(&x, &gram.times_vector(&x)) - 2.0 * dot(&x, &wanted) + square;
    Ok((x.iter().zip(&norms).map(|(x, norm)| x / norm).collect(), (off.max(0.0) / square).sqrt()))
}

/// The average of relative width `width` up to `step`, from the checkpoints of `folder` up to there. `decays` are those of the
/// averages in each of them.
pub fn post_hoc_average(
    folder: &RunFolder,
    decays: &[f64],
    step: u64,
    template: &Params<f32>,
    width: f64,
) -> Result<Params<f32>, ModelError> {
    let all = Checkpoints::open(folder.fs(), &folder.checkpoints(), Identity::default(), Retention::default())?;
    let steps: Vec<u64> = all.steps()?.into_iter().filter(|one| *one > 0 && *one <= step).collect();
    let kinds = || decays.iter().copied().chain([0.0]);
    let kept: Vec<Kept> = steps.iter().flat_map(|&step| kinds().map(move |decay| Kept { step, decay })).collect();
    let fail = |problem: String| ModelError::PostHoc { run: folder.root().into(), width, problem };
    let (shares, off) = match kept.is_empty() {
        true => (vec![], 1.0),
        false => combination(&kept, &power_profile(width, step)).map_err(|error| fail(error.in_full()))?,
    };
    if off > FARTHEST {
        let problem = format!("{} checkpoints up to step {step} come within {:.0} % of it", steps.len(), 100.0 * off);
        return Err(fail(problem));
    }
    let mut result = all.get(step)?.weights(template, None)?;
    let mut sums: Vec<Vec<f64>> = result.trainable_mut().map(|values| vec![0.0; values.len()]).collect();
    for (one, share) in kept.iter().zip(&shares) {
        let average = (one.decay > 0.0).then_some(one.decay);
        let mut weights = all.get(one.step)?.weights(template, average)?;
        for (sum, values) in sums.iter_mut().zip(weights.trainable_mut()) {
            sum.iter_mut().zip(values.iter()).for_each(|(sum, &value)| *sum += share * f64::from(value));
        }
    }
    for (values, sum) in result.trainable_mut().zip(&sums) {
        values.iter_mut().zip(sum).for_each(|(value, &sum)| *value = sum as f32);
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::rng::RandomStream;

    #[test]
    fn products_of_profiles_are_their_sums_over_steps() {
        let profile = |kept: Kept| -> Vec<f64> {
            let share = |s: u64| match s {
                0 => kept.decay.powf(kept.step as f64),
                s if s > kept.step => 0.0,
                s => (1.0 - kept.decay) * kept.decay.powf((kept.step - s) as f64),
            };
            (0..=40).map(share).collect()
        };
        let all = [(40, 0.9), (25, 0.9), (40, 0.0), (25, 0.0), (33, 0.5)].map(|(step, decay)| Kept { step, decay });
        for a in all {
            let total: f64 = profile(a).iter().sum();
            assert!((total - 1.0).abs() < 1e-12);
            let power = power_profile(0.1, 40);
            assert!((a.product_with(&power) - dot(&profile(a)[1..], &power)).abs() < 1e-12);
            for b in all {
                assert!((a.product(&b) - dot(&profile(a), &profile(b))).abs() < 1e-12, "{a:?} {b:?}");
            }
        }
    }

    /// The widths of the paper's table: g = 6.94 and 16.97 for 0.10 and 0.05.
    #[test]
    fn exponents_are_those_of_the_paper() {
        assert!((exponent(0.10) - 6.94).abs() < 0.005 && (exponent(0.05) - 16.97).abs() < 0.005);
        let profile = power_profile(0.1, 1000);
        let moment = |k: i32| profile.iter().enumerate().map(|(s, p)| p * ((s + 1) as f64).powi(k)).sum::<f64>();
        assert!((moment(0) - 1.0).abs() < 1e-12);
        assert!(((moment(2) - moment(1).powi(2)).sqrt() / 1000.0 - 0.1).abs() < 1e-3);
    }

    /// A weight that drifts and trembles, as weights do: every average is tracked, the kept ones are combined.
    #[test]
    fn a_combination_of_kept_averages_is_the_average_that_would_have_been_tracked() {
        const STEPS: u64 = 6000;
        let decays = [0.995, 0.999];
        for width in [0.05, 0.1, 0.2] {
            let mut stream = RandomStream::new(3, "trembling weight");
            let power = exponent(width) + 1.0;
            let (mut drift, mut tracked, mut averages) = (1.0, 0.0, [1.0; 2]);
            let (mut kept, mut values) = (vec![], vec![]);
            let mut moved: f64 = 0.0;
            for step in 1..=STEPS {
                drift += 0.01 * stream.normal() - 0.0005 * drift;
                let theta = drift + 0.3 * stream.normal();
                tracked += (1.0 - (1.0 - 1.0 / step as f64).powf(power)) * (theta - tracked);
                moved = moved.max((theta - tracked).abs());
                averages
                    .iter_mut()
                    .zip(decays)
                    .for_each(|(average, decay)| *average += (1.0 - decay) * (theta - *average));
                if step % 300 == 0 {
                    kept.extend(decays.map(|decay| Kept { step, decay }));
                    values.extend(averages);
                }
            }
            let (x, off) = combination(&kept, &power_profile(width, STEPS)).unwrap();
            let found = dot(&x, &values);
            let total: f64 = x.iter().sum();
            assert!((total - 1.0).abs() < 1e-9 && off < 0.12, "{width}: {total} {off}");
            // The nearest single average for comparison.
            assert!((found - tracked).abs() < 0.03 * moved, "{width}: {found} not {tracked}, off {off}, {moved}");
        }
    }

    #[test]
    fn two_late_checkpoints_cannot_give_a_wide_average() {
        let kept = [Kept { step: 990, decay: 0.9 }, Kept { step: 1000, decay: 0.9 }];
        assert!(combination(&kept, &power_profile(0.2, 1000)).unwrap().1 > 0.5);
    }
}
