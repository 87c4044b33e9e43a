//! Damped Newton steps on the dual of entropic transport, where Sinkhorn iteration crawls.
//!
//! The dual `mean f + mean g - entropy (sum P - 1)` is concave. With row and column sums r, c of the plan, its Newton
//! step in the logarithms of the scalings solves
//!
//! ```text
//! diag(r) da + P db = 1/n - r,      P^T da + diag(c) db = 1/m - c.
//! ```
//!
//! Eliminating da leaves a graph Laplacian. Its diagonal is computed from its off-diagonal entries, not by the difference
//! of nearly equal numbers, and a small multiple of diag(c) is added until the step succeeds (Levenberg-Marquardt).

use super::sinkhorn::Scaling;
use crate::linalg::{Cholesky, Matrix};

/// Longest step of a logarithm; beyond it the quadratic model means nothing.
const LONGEST_STEP: f64 = 8.0;
const SMALLEST_DAMPING: f64 = 1e-14;
const LARGEST_DAMPING: f64 = 1e3;

/// Takes Newton steps, each followed by a plain pass, until `tolerance`; the error reached and the steps used.
pub(super) fn finish_by_newton(
    scaling: &mut Scaling<'_>,
    error: f64,
    tolerance: f64,
    max_steps: usize,
) -> (f64, usize) {
    let mut damping = 1e-6;
    let mut best = (scaling.pass(1.0).min(error), dual(scaling));
    for step in 1..=max_steps {
        if best.0 <= tolerance || damping > LARGEST_DAMPING {
            return (best.0, step - 1);
        }
        let saved = (scaling.f.clone(), scaling.g.clone(), scaling.u.clone(), scaling.v.clone());
        let moved = newton_step(scaling, damping);
        // After a plain pass all mass is placed, so the dual is the mean of the potentials.
        let error = if moved { scaling.pass(1.0) } else { f64::NAN };
        let value = dual(scaling);
        if error < best.0 || value > best.1 + f64::EPSILON * best.1.abs() {
            best = (error, value);
            damping = (damping * 0.1).max(SMALLEST_DAMPING);
        } else {
            (scaling.f, scaling.g, scaling.u, scaling.v) = saved;
            scaling.rebuild();
            damping *= 10.0;
        }
    }
    (best.0, max_steps)
}

/// mean f + mean g, scalings included.
fn dual(scaling: &Scaling<'_>) -> f64 {
    let mean = |potential: &[f64], factors: &[f64]| {
        let total: f64 = potential.iter().zip(factors).map(|(p, s)| p + scaling.entropy * s.ln()).sum();
        total / potential.len() as f64
    };
    mean(&scaling.f, &scaling.u) + mean(&scaling.g, &scaling.v)
}

/// One step, absorbed; false if the system could not be solved.
fn newton_step(scaling: &mut Scaling<'_>, damping: f64) -> bool {
    let (n, m) = (scaling.u.len(), scaling.v.len());
    let weight = 1.0 / (n * m) as f64;
    let plan = Matrix::from_fn(n, m, |i, j| scaling.u[i] * scaling.kernel[i * m + j] * scaling.v[j] * weight);
    let rows: Vec<f64> = (0..n).map(|i| plan.row(i).iter().sum()).collect();
    let columns = plan.transposed_times_vector(&vec![1.0; n]);
    let missing_rows: Vec<f64> = rows.iter().map(|r| 1.0 / n as f64 - r).collect();
    let scaled = Matrix::from_fn(n, m, |i, j| plan[(i, j)] / rows[i]);
    let mut laplacian = plan.transposed_times(&scaled);
    for j in 0..m {
        let row = laplacian.row_mut(j);
        row[j] = 0.0;
        let degree: f64 = row.iter().sum();
        row.iter_mut().for_each(|entry| *entry = -*entry);
        row[j] = degree + damping * columns[j];
    }
    let Ok(factor) = Cholesky::new(&laplacian) else { return false };
    let carried = scaled.transposed_times_vector(&missing_rows);
    let right: Vec<f64> = columns.iter().zip(&carried).map(|(c, x)| 1.0 / m as f64 - c - x).collect();
    let column_step = factor.solve(&right);
    let moved = plan.times_vector(&column_step);
    let row_step: Vec<f64> = (0..n).map(|i| (missing_rows[i] - moved[i]) / rows[i]).collect();
    let longest = row_step.iter().chain(&column_step).fold(0.0, |m: f64, s| m.max(s.abs()));
    if !longest.is_finite() {
        return false;
    }
    let shorten = (LONGEST_STEP / longest).min(1.0);
    scaling.u.iter_mut().zip(&row_step).for_each(|(u, s)| *u *= (shorten * s).exp());
    scaling.v.iter_mut().zip(&column_step).for_each(|(v, s)| *v *= (shorten * s).exp());
    scaling.absorb();
    scaling.rebuild();
    true
}
