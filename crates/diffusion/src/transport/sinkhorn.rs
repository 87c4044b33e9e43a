//! Entropic optimal transport by Sinkhorn iteration.
//!
//! The plan is `P_ij = exp((f_i + g_j - C_ij) / entropy) / (n m)`. The potentials live in the log domain, as they must
//! for small entropies, but an iteration works on scalings u, v of the fixed kernel `exp((f + g - C) / entropy)`: two
//! products a pass, no exponentials. Scalings that grow large are absorbed into f and g and the kernel is made anew
//! (Schmitzer 2019), so the fixed point is that of the log-domain iteration.
//!
//! Three accelerations leave that fixed point as it is. The entropy is lowered to its target in a few coarse stages. The
//! scalings are over-relaxed (Thibault et al. 2017) by the factor that the observed rate of convergence asks for (Young's
//! theory of successive over-relaxation). And where even that would take thousands of passes, as for entropies so small
//! that the plan is nearly a matching, Newton steps finish ([`super::newton`]).

use super::newton::finish_by_newton;
use super::relaxation::Relaxation;
use super::{Estimate, TransportError};
use crate::linalg::{Matrix, dot};
use softdiff_engine::cpu::vector::gibbs_row;
use softdiff_engine::cpu::vector::{ROWS, add_four, four_products, least_difference, spread};

/// How to run Sinkhorn iteration.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SinkhornOptions {
    /// Weight of the entropy, in units of the cost; above zero.
    pub entropy: f64,
    /// Largest L1 error of the plan's marginals; above zero.
    pub tolerance: f64,
    /// Passes over the kernel allowed.
    pub max_iterations: usize,
}

impl SinkhornOptions {
    /// The given entropy, marginals to 1e-9, at most 20,000 passes.
    pub fn new(entropy: f64) -> Self {
        SinkhornOptions { entropy, tolerance: 1e-9, max_iterations: 20_000 }
    }

    pub(super) fn check(&self) -> Result<(), TransportError> {
        let fail = |option, value, remedy| Err(TransportError::Option { option, value, remedy });
        if !(self.entropy > 0.0 && self.entropy.is_finite()) {
            return fail("the entropy", self.entropy, "give a positive number, such as 5 % of the mean cost");
        }
        if self.tolerance.is_nan() || self.tolerance <= 0.0 {
            return fail("the tolerance", self.tolerance, "give a positive L1 error, such as 1e-9");
        }
        Ok(())
    }
}

/// The outcome of Sinkhorn iteration. Error of both estimates: the L1 error of the marginals.
#[derive(Debug, Clone, PartialEq)]
pub struct Sinkhorn {
    /// <P, C>: what POT returns.
    pub linear: Estimate,
    /// <P, C> + entropy KL(P | uniform x uniform): what OTT returns.
    pub regularised: Estimate,
    /// The potential f.
    pub row_potential: Vec<f64>,
    /// The potential g.
    pub column_potential: Vec<f64>,
}

/// Transports equal weights on the rows of `cost` to equal weights on its columns.
pub fn sinkhorn(cost: &Matrix, options: &SinkhornOptions) -> Result<Sinkhorn, TransportError> {
    options.check()?;
    check_cost(cost)?;
    let mut scaling = Scaling::new(cost);
    let mut spent = 0;
    let mut entropy = spread(cost.values()) / FIRST_STAGE;
    while entropy > options.entropy * STAGE_FACTOR {
        scaling.set_entropy(entropy);
        spent += scaling.iterate(STAGE_TOLERANCE, STAGE_ITERATIONS.min(options.max_iterations - spent)).1;
        entropy /= STAGE_FACTOR;
    }
    scaling.set_entropy(options.entropy);
    let (error, passes) = scaling.iterate(options.tolerance, options.max_iterations - spent);
    let estimate = |value| Estimate { value, converged: error <= options.tolerance, iterations: spent + passes, error };
    let linear = scaling.transport_cost();
    scaling.absorb();
    let mean = |potential: &[f64]| potential.iter().sum::<f64>() / potential.len() as f64;
    Ok(Sinkhorn {
        linear: estimate(linear),
        regularised: estimate(mean(&scaling.f) + mean(&scaling.g)),
        row_potential: scaling.f,
        column_potential: scaling.g,
    })
}

pub(super) fn check_cost(cost: &Matrix) -> Result<(), TransportError> {
    if cost.rows() == 0 || cost.cols() == 0 {
        return Err(TransportError::Empty { points: cost.rows().min(cost.cols()), dimensions: cost.cols() });
    }
    match cost.values().iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let (point, coordinate) = (at / cost.cols(), at % cost.cols());
            Err(TransportError::NotFinite { point, coordinate, value: cost.values()[at] })
        }
    }
}

/// The first coarse stage has the spread of the costs divided by this as its entropy.
const FIRST_STAGE: f64 = 16.0;
/// Each coarse stage lowers the entropy by this factor and is left at this error or after so many passes.
const STAGE_FACTOR: f64 = 4.0;
const STAGE_TOLERANCE: f64 = 0.02;
const STAGE_ITERATIONS: usize = 12;
/// Newton takes over when more passes than this are still to come: some ten steps of about n/2 passes each.
const NEWTON_BASE: usize = 200;
const NEWTON_PER_POINT: usize = 5;
/// But not before so many passes, nor from further away than this error.
const NEWTON_AFTER: usize = 60;
const NEWTON_ERROR: f64 = 0.1;
/// Scalings beyond this range are absorbed.
const LARGEST_SCALING: f64 = 1e60;
/// Relative steps beyond this are taken as they are: over-relaxing them could make a scaling negative.
const RELAXED_STEP: f64 = 0.3;
/// Potentials, the kernel they make, and scalings of it not yet absorbed.
pub(super) struct Scaling<'a> {
    cost: &'a Matrix,
    pub entropy: f64,
    pub f: Vec<f64>,
    pub g: Vec<f64>,
    pub kernel: Vec<f64>,
    pub u: Vec<f64>,
    pub v: Vec<f64>,
}

impl<'a> Scaling<'a> {
    fn new(cost: &'a Matrix) -> Self {
        let (n, m) = (cost.rows(), cost.cols());
        let (f, g) = (vec![0.0; n], vec![0.0; m]);
        Scaling { cost, entropy: 1.0, f, g, kernel: vec![0.0; n * m], u: vec![1.0; n], v: vec![1.0; m] }
    }

    /// Keeps the potentials, raised or lowered so that every row and column of the new kernel has largest entry one.
    ///
    /// Without this a row that an early stage left off its marginal could overflow or vanish at a smaller entropy.
    fn set_entropy(&mut self, entropy: f64) {
        self.absorb();
        for (i, f) in self.f.iter_mut().enumerate() {
            *f = least_difference(self.cost.row(i), &self.g);
        }
        self.g.fill(f64::INFINITY);
        for (i, f) in self.f.iter().enumerate() {
            for (g, c) in self.g.iter_mut().zip(self.cost.row(i)) {
                let slack = c - f;
                *g = if slack < *g { slack } else { *g };
            }
        }
        self.entropy = entropy;
        self.rebuild();
    }

    /// Moves the scalings into the potentials. The kernel is out of date until rebuilt.
    pub fn absorb(&mut self) {
        for (potential, scaling) in [(&mut self.f, &mut self.u), (&mut self.g, &mut self.v)] {
            for (p, s) in potential.iter_mut().zip(scaling.iter_mut()) {
                *p += self.entropy * s.ln();
                *s = 1.0;
            }
        }
    }

    pub fn rebuild(&mut self) {
        let scale = 1.0 / self.entropy;
        for (i, row) in self.kernel.chunks_exact_mut(self.g.len()).enumerate() {
            gibbs_row(row, self.cost.row(i), &self.g, self.f[i], scale);
        }
    }

    /// Runs until the marginals are within `tolerance`; the error reached and the passes used.
    fn iterate(&mut self, tolerance: f64, max_iterations: usize) -> (f64, usize) {
        let mut relaxation = Relaxation::default();
        let mut error = f64::INFINITY;
        for pass in 1..=max_iterations {
            error = self.pass(relaxation.factor);
            if error <= tolerance || !error.is_finite() {
                return (error, pass);
            }
            if let Some(rate) = relaxation.observe(error) {
                let passes_left = (error / tolerance).ln() / -rate.min(1.0 - 1e-9).ln();
                let newton_pays = passes_left > (NEWTON_BASE + NEWTON_PER_POINT * self.v.len()) as f64;
                if newton_pays && pass >= NEWTON_AFTER && error < NEWTON_ERROR {
                    let (error, steps) = finish_by_newton(self, error, tolerance, max_iterations - pass);
                    return (error, pass + steps);
                }
                let outside = |s: &f64| !(1.0 / LARGEST_SCALING..LARGEST_SCALING).contains(s);
                if self.u.iter().chain(&self.v).any(outside) {
                    self.absorb();
                    self.rebuild();
                }
            }
        }
        (error, max_iterations)
    }

    /// One update of u and of v in a single walk over the kernel; the L1 error of the marginals met on the way.
    pub fn pass(&mut self, relaxation: f64) -> f64 {
        let (n, m) = (self.u.len(), self.v.len());
        let (row_weight, column_weight) = (1.0 / n as f64, 1.0 / m as f64);
        let weighted: Vec<f64> = self.v.iter().map(|v| v * column_weight).collect();
        let mut columns = vec![0.0; m];
        let mut error = 0.0;
        let mut update = |scaling: &mut f64, sum: f64, weight: f64| {
            let step = 1.0 / (*scaling * sum) - 1.0;
            error += weight * (*scaling * sum - 1.0).abs();
            *scaling *= 1.0 + if step.abs() < RELAXED_STEP { relaxation * step } else { step };
        };
        let groups = self.kernel.chunks(ROWS * m).zip(self.u.chunks_mut(ROWS));
        for (rows, u) in groups {
            let Ok(u) = <&mut [f64; ROWS]>::try_from(&mut *u) else {
                for (row, u) in rows.chunks_exact(m).zip(u) {
                    update(u, dot(row, &weighted), row_weight);
                    let factor = *u * row_weight;
                    columns.iter_mut().zip(row).for_each(|(c, k)| *c += factor * k);
                }
                continue;
            };
            let rows: [&[f64]; ROWS] = std::array::from_fn(|r| &rows[r * m..(r + 1) * m]);
            let sums = four_products(rows, &weighted);
            for r in 0..ROWS {
                update(&mut u[r], sums[r], row_weight);
            }
            add_four(&mut columns, rows, u.map(|u| u * row_weight));
        }
        for (v, sum) in self.v.iter_mut().zip(&columns) {
            update(v, *sum, column_weight);
        }
        error
    }

    /// <P, C>.
    fn transport_cost(&self) -> f64 {
        let (n, m) = (self.u.len(), self.v.len());
        let mut total = 0.0;
        for (i, row) in self.kernel.chunks_exact(m).enumerate() {
            let priced: Vec<f64> = row.iter().zip(self.cost.row(i)).map(|(k, c)| k * c).collect();
            total += self.u[i] * dot(&priced, &self.v);
        }
        total / (n * m) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{assignment, squared_distances};
    use softdiff_engine::rng::RandomStream;

    fn clouds(n: usize, m: usize, dimensions: usize) -> (Matrix, Matrix) {
        let mut stream = RandomStream::new(8, "sinkhorn");
        let x = Matrix::from_fn(n, dimensions, |_, _| stream.normal());
        (x, Matrix::from_fn(m, dimensions, |_, _| 1.5 * stream.normal() + 0.3))
    }

    /// The textbook iteration in the log domain, slowly.
    fn log_domain(cost: &Matrix, entropy: f64, passes: usize) -> (Vec<f64>, Vec<f64>) {
        let (n, m) = (cost.rows(), cost.cols());
        let (mut f, mut g) = (vec![0.0; n], vec![0.0; m]);
        let soft_minimum = |terms: Vec<f64>| {
            let top = terms.iter().copied().fold(f64::MIN, f64::max);
            let mean = terms.iter().map(|t| (t - top).exp()).sum::<f64>() / terms.len() as f64;
            -entropy * (top + mean.ln())
        };
        for _ in 0..passes {
            for i in 0..n {
                f[i] = soft_minimum((0..m).map(|j| (g[j] - cost[(i, j)]) / entropy).collect());
            }
            for j in 0..m {
                g[j] = soft_minimum((0..n).map(|i| (f[i] - cost[(i, j)]) / entropy).collect());
            }
        }
        (f, g)
    }

    #[test]
    fn the_fixed_point_is_that_of_the_plain_log_domain_iteration() {
        for (n, m) in [(16, 16), (13, 22)] {
            let (x, y) = clouds(n, m, 3);
            let cost = squared_distances(&x, &y).unwrap();
            for entropy in [0.3, 3.0] {
                let options = SinkhornOptions { tolerance: 1e-13, ..SinkhornOptions::new(entropy) };
                let found = sinkhorn(&cost, &options).unwrap();
                let (f, g) = log_domain(&cost, entropy, 6000);
                let shift = f[0] - found.row_potential[0];
                for (a, b) in f.iter().zip(&found.row_potential) {
                    assert!((a - b - shift).abs() < 1e-9, "{found:?}");
                }
                let dual = f.iter().sum::<f64>() / n as f64 + g.iter().sum::<f64>() / m as f64;
                assert!((found.regularised.value - dual).abs() < 1e-10);
            }
        }
    }

    #[test]
    fn marginals_are_met_and_the_cost_is_within_one_percent_of_the_exact_one() {
        let (x, y) = clouds(64, 64, 4);
        let cost = squared_distances(&x, &y).unwrap();
        let best = assignment(&cost).unwrap().cost.value;
        let entropy = 0.01;
        let options = SinkhornOptions { tolerance: 1e-9, ..SinkhornOptions::new(entropy) };
        let found = sinkhorn(&cost, &options).unwrap();
        assert!(found.linear.converged && found.linear.error <= 1e-9, "{:?}", found.linear);
        assert!(found.linear.value >= best - 1e-9 && found.linear.value <= 1.01 * best);
        let plan = |i: usize, j: usize| {
            ((found.row_potential[i] + found.column_potential[j] - cost[(i, j)]) / entropy).exp() / 64.0
        };
        for i in 0..64 {
            assert!(((0..64).map(|j| plan(i, j)).sum::<f64>() - 1.0).abs() < 1e-6);
            assert!(((0..64).map(|j| plan(j, i)).sum::<f64>() - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn a_single_point_and_tiny_entropies_are_no_trouble() {
        let (x, y) = clouds(1, 5, 2);
        let cost = squared_distances(&x, &y).unwrap();
        let found = sinkhorn(&cost, &SinkhornOptions::new(1e-6)).unwrap();
        let mean = cost.values().iter().sum::<f64>() / 5.0;
        assert!((found.linear.value - mean).abs() < 1e-12 && (found.regularised.value - mean).abs() < 1e-9);
    }

    #[test]
    fn too_few_passes_are_reported_as_not_converged() {
        let (x, y) = clouds(32, 32, 2);
        let cost = squared_distances(&x, &y).unwrap();
        let options = SinkhornOptions { max_iterations: 30, ..SinkhornOptions::new(0.001) };
        let found = sinkhorn(&cost, &options).unwrap();
        assert!(!found.linear.converged && found.linear.error > 1e-9 && found.linear.iterations == 30);
    }

    #[test]
    fn options_and_costs_out_of_range_are_typed_errors() {
        let cost = Matrix::zeros(2, 2);
        for entropy in [0.0, -1.0, f64::NAN] {
            assert!(matches!(sinkhorn(&cost, &SinkhornOptions::new(entropy)), Err(TransportError::Option { .. })));
        }
        let endless = Matrix::from_fn(2, 2, |_, _| f64::INFINITY);
        assert!(matches!(sinkhorn(&endless, &SinkhornOptions::new(1.0)), Err(TransportError::NotFinite { .. })));
    }
}
