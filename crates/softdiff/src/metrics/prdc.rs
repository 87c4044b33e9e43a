//! Precision and recall (Kynkäänniemi et al. 2019), density and coverage (Naeem et al. 2020), by nearest neighbours in
//! feature space.
//!
//! Every image owns the ball that reaches to its k-th nearest neighbour in its own set, which does not count itself.

use super::MetricError;
use super::error::check_features;
use super::neighbours::{each_band, radii};
use rayon::prelude::*;
use serde::Serialize;

/// The four shares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prdc {
    /// Generated images inside a ball of a real one.
    pub precision: f64,
    /// Real images inside a ball of a generated one.
    pub recall: f64,
    /// Balls of real images around a generated one, over k; may exceed 1.
    pub density: f64,
    /// Balls of real images with a generated one inside.
    pub coverage: f64,
    /// Neighbours that make a ball.
    pub k: usize,
}

/// Compares generated with real features.
pub fn prdc(generated: &[f32], real: &[f32], dimensions: usize, k: usize) -> Result<Prdc, MetricError> {
    let [n, m] = check_features("precision and recall", k.max(1) + 1, dimensions, [generated, real])?;
    let k = k.max(1);
    let (generated_radii, real_radii) = (radii(generated, dimensions, k), radii(real, dimensions, k));
    let (mut precise, mut balls) = (0, 0);
    let (mut recalled, mut covered) = (vec![false; m], vec![false; m]);
    each_band(generated, real, dimensions, |first, band| {
        let counts: Vec<usize> = band
            .par_chunks_exact(m)
            .map(|row| row.iter().zip(&real_radii).filter(|(d, radius)| d <= radius).count())
            .collect();
        precise += counts.iter().filter(|&&count| count > 0).count();
        balls += counts.iter().sum::<usize>();
        for (row, distances) in band.chunks_exact(m).enumerate() {
            let radius = generated_radii[first + row];
            for (j, &distance) in distances.iter().enumerate() {
                recalled[j] |= distance <= radius;
                covered[j] |= distance <= real_radii[j];
            }
        }
    });
    let share = |flags: &[bool]| flags.iter().filter(|&&flag| flag).count() as f64 / m as f64;
    Ok(Prdc {
        precision: precise as f64 / n as f64,
        recall: share(&recalled),
        density: balls as f64 / (k * n) as f64,
        coverage: share(&covered),
        k,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a line with k = 1: real 0, 1, 10 (radii 1, 1, 9); generated 0.5, 20, 21 (radii 19.5, 1, 1).
    #[test]
    fn a_hand_made_case_on_a_line() {
        let found = prdc(&[0.5, 20.0, 21.0], &[0.0, 1.0, 10.0], 1, 1).unwrap();
        // 0.5 lies in the balls of 0 and 1 (10 reaches down to 1); 20 and 21 in none (10 reaches up to 19).
        assert_eq!(found.precision, 1.0 / 3.0);
        assert_eq!(found.density, 2.0 / 3.0);
        assert_eq!(found.coverage, 2.0 / 3.0);
        // The ball of 0.5 reaches from -19 to 20: all real points.
        assert_eq!(found.recall, 1.0);
    }

    #[test]
    fn a_set_covers_itself_and_too_few_pictures_are_refused() {
        let set: Vec<f32> = (0..40).map(|i| (i * i % 23) as f32).collect();
        let found = prdc(&set, &set, 2, 3).unwrap();
        assert_eq!((found.precision, found.recall, found.coverage), (1.0, 1.0, 1.0));
        assert!(matches!(prdc(&set[..6], &set, 2, 3), Err(MetricError::TooFew { found: 3, least: 4, .. })));
    }
}
