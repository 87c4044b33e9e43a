//! The debiased Sinkhorn divergence `S(x, y) = W(x, y) - (W(x, x) + W(y, y)) / 2`.

use super::sinkhorn::{check_cost, sinkhorn};
use super::{Estimate, SinkhornOptions, TransportError, check_clouds, squared_distances};
use crate::linalg::{Matrix, dot};
use softdiff_engine::cpu::vector::exponential;

/// Both kinds of divergence; they are different numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Divergence {
    /// Of the linear costs <P, C> (Genevay et al. 2018, POT). Can be negative.
    pub linear: Estimate,
    /// Of the regularised costs (Feydy et al. 2019, OTT): a divergence, zero for equal clouds.
    pub regularised: Estimate,
}

/// The divergence of two clouds. Errors: the largest L1 error of the three plans' marginals.
pub fn sinkhorn_divergence(x: &Matrix, y: &Matrix, options: &SinkhornOptions) -> Result<Divergence, TransportError> {
    check_clouds(x, y)?;
    let between = sinkhorn(&squared_distances(x, y)?, options)?;
    let (linear_x, regularised_x) = self_transport(&squared_distances(x, x)?, options)?;
    let (linear_y, regularised_y) = self_transport(&squared_distances(y, y)?, options)?;
    let debiased = |xy: Estimate, xx: Estimate, yy: Estimate| Estimate {
        value: xy.value - 0.5 * (xx.value + yy.value),
        converged: xy.converged && xx.converged && yy.converged,
        iterations: xy.iterations + xx.iterations + yy.iterations,
        error: xy.error.max(xx.error).max(yy.error),
    };
    Ok(Divergence {
        linear: debiased(between.linear, linear_x, linear_y),
        regularised: debiased(between.regularised, regularised_x, regularised_y),
    })
}

/// Linear and regularised cost of a cloud to itself.
///
/// One potential serves both sides. The averaged update `f <- (f + T f) / 2` contracts at least by half each time near
/// the fixed point, since T's slope there lies in [-1, 0] (Feydy et al. 2019).
pub fn self_transport(cost: &Matrix, options: &SinkhornOptions) -> Result<(Estimate, Estimate), TransportError> {
    options.check()?;
    check_cost(cost)?;
    let n = cost.rows();
    let weight = 1.0 / n as f64;
    // The diagonal of a self cost is zero, so no row of this kernel vanishes and the scalings stay in [1/n, n].
    let kernel = Matrix::from_fn(n, n, |i, j| exponential(-cost[(i, j)] / options.entropy));
    let mut u = vec![1.0; n];
    let (mut error, mut iterations) = (f64::INFINITY, 0);
    while error > options.tolerance && iterations < options.max_iterations {
        let sums: Vec<f64> = (0..n).map(|i| weight * dot(kernel.row(i), &u)).collect();
        error = u.iter().zip(&sums).map(|(u, s)| weight * (u * s - 1.0).abs()).sum();
        u.iter_mut().zip(&sums).for_each(|(u, s)| *u = (*u / s).sqrt());
        iterations += 1;
    }
    let moved = (0..n).map(|i| {
        let row = kernel.row(i).iter().zip(cost.row(i)).zip(&u).map(|((k, c), v)| k * c * v);
        u[i] * row.sum::<f64>()
    });
    let estimate = |value| Estimate { value, converged: error <= options.tolerance, iterations, error };
    let linear = moved.sum::<f64>() * weight * weight;
    let regularised = 2.0 * options.entropy * weight * u.iter().map(|u| u.ln()).sum::<f64>();
    Ok((estimate(linear), estimate(regularised)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::rng::RandomStream;

    #[test]
    fn the_divergence_is_symmetric_positive_and_zero_for_equal_clouds() {
        let mut stream = RandomStream::new(9, "divergence");
        let x = Matrix::from_fn(40, 3, |_, _| stream.normal());
        let y = Matrix::from_fn(30, 3, |_, _| stream.normal() + 0.5);
        let options = SinkhornOptions::new(0.5);
        let there = sinkhorn_divergence(&x, &y, &options).unwrap();
        let back = sinkhorn_divergence(&y, &x, &options).unwrap();
        assert!((there.regularised.value - back.regularised.value).abs() < 1e-8);
        assert!(there.regularised.value > 0.1 && there.regularised.converged);
        let same = sinkhorn_divergence(&x, &x, &options).unwrap();
        assert!(same.regularised.value.abs() < 1e-8 && same.linear.value.abs() < 1e-6);
    }
}
