//! Eigen-decomposition of a symmetric matrix: Householder tridiagonalisation, then implicit QL.
//!
//! Reflections and rotations are recorded first and then applied to narrow panels of the eigenvectors, each of which
//! fits the second-level cache and belongs to one thread.

use super::matrix::dot;
use super::{LinalgError, Matrix};
use rayon::prelude::*;

/// Components of the eigenvectors that one panel holds.
const PANEL: usize = 32;
/// QL iterations allowed for one eigenvalue; two are usual.
const MAX_ITERATIONS: usize = 60;
/// After so many, what is small beside the whole matrix counts as zero, not only what is small beside its neighbours: in a
/// matrix of low rank the neighbours are rounding noise themselves, which every sweep makes anew.
const PATIENCE: usize = 8;

/// `A = sum_k values[k] v_k v_k^T`, largest eigenvalue first.
#[derive(Debug, Clone)]
pub struct SymmetricEigen {
    /// Eigenvalues, largest first.
    pub values: Vec<f64>,
    /// Row k is the unit eigenvector of `values[k]`.
    pub vectors: Matrix,
}

struct Reflection {
    /// First index the vector acts on.
    start: usize,
    vector: Vec<f64>,
    beta: f64,
}

struct Rotation {
    index: usize,
    cosine: f64,
    sine: f64,
}

impl SymmetricEigen {
    /// Decomposes the symmetric matrix `a` (its upper triangle decides).
    pub fn new(a: &Matrix) -> Result<Self, LinalgError> {
        check(a)?;
        let n = a.rows();
        let (mut diagonal, mut beside, reflections) = tridiagonalise(a);
        let mut rotations = Vec::new();
        iterate_ql(&mut diagonal, &mut beside, &mut |rotation| rotations.push(rotation))?;
        let starts: Vec<usize> = (0..n).step_by(PANEL).collect();
        let panels: Vec<Vec<f64>> =
            starts.par_iter().map(|&start| eigenvector_panel(n, start, &reflections, &rotations)).collect();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&i, &j| diagonal[j].total_cmp(&diagonal[i]));
        let mut vectors = Matrix::zeros(n, n);
        for (k, &source) in order.iter().enumerate() {
            for (panel, &start) in panels.iter().zip(&starts) {
                let width = PANEL.min(n - start);
                vectors.row_mut(k)[start..start + width]
                    .copy_from_slice(&panel[source * PANEL..source * PANEL + width]);
            }
        }
        Ok(SymmetricEigen { values: order.iter().map(|&i| diagonal[i]).collect(), vectors })
    }
}

/// The eigenvalues alone, largest first, in a fraction of the time that the vectors take.
pub fn symmetric_eigenvalues(a: &Matrix) -> Result<Vec<f64>, LinalgError> {
    check(a)?;
    let (mut values, mut beside, _) = tridiagonalise(a);
    iterate_ql(&mut values, &mut beside, &mut |_| {})?;
    values.sort_by(|x, y| y.total_cmp(x));
    Ok(values)
}

fn check(a: &Matrix) -> Result<(), LinalgError> {
    if a.rows() != a.cols() {
        return Err(LinalgError::NotSquare { purpose: "an eigen-decomposition", rows: a.rows(), cols: a.cols() });
    }
    a.check_finite()
}

/// Diagonal, off-diagonal and the reflections that made them.
fn tridiagonalise(a: &Matrix) -> (Vec<f64>, Vec<f64>, Vec<Reflection>) {
    let n = a.rows();
    let mut work = Matrix::from_fn(n, n, |i, j| a[(i.min(j), i.max(j))]);
    let (mut diagonal, mut beside) = (vec![0.0; n], vec![0.0; n]);
    let mut reflections = Vec::with_capacity(n.saturating_sub(2));
    // The rank-two update of the previous step, still to be applied: it rides along with the next product.
    let mut pending: Option<(Vec<f64>, Vec<f64>)> = None;
    for k in 0..n {
        if let Some((v, w)) = &pending {
            update_row(&mut work.row_mut(k)[k..], v, w, 0);
        }
        diagonal[k] = work[(k, k)];
        let Some(tail) = work.row(k).get(k + 1..).filter(|tail| !tail.is_empty()) else { break };
        let mut vector = tail.to_vec();
        let length = super::matrix::norm(&vector);
        let target = if vector[0] > 0.0 { -length } else { length };
        beside[k] = target;
        vector[0] -= target;
        let squared = dot(&vector, &vector);
        let beta = if squared > 0.0 { 2.0 / squared } else { 0.0 };
        let mut product = vec![0.0; n - k - 1];
        work.values_mut()[(k + 1) * n..]
            .par_chunks_mut(n)
            .zip(product.par_iter_mut())
            .enumerate()
            .with_min_len(32)
            .for_each(|(offset, (row, p))| {
                if let Some((v, w)) = &pending {
                    update_row(&mut row[k..], v, w, offset + 1);
                }
                *p = beta * dot(&row[k + 1..], &vector);
            });
        let shift = 0.5 * beta * dot(&product, &vector);
        product.iter_mut().zip(&vector).for_each(|(p, v)| *p -= shift * v);
        pending = Some((vector.clone(), product));
        reflections.push(Reflection { start: k + 1, vector, beta });
    }
    (diagonal, beside, reflections)
}

/// Row i of `A - v w^T - w v^T`, from the first column that v and w cover.
fn update_row(row: &mut [f64], v: &[f64], w: &[f64], i: usize) {
    let (vi, wi) = (v[i], w[i]);
    for ((x, vj), wj) in row.iter_mut().zip(v).zip(w) {
        *x -= vi * wj + wi * vj;
    }
}

/// Implicit QL with Wilkinson's shift; leaves the eigenvalues in `d`, hands out the rotations in order.
fn iterate_ql(d: &mut [f64], e: &mut [f64], rotated: &mut dyn FnMut(Rotation)) -> Result<(), LinalgError> {
    let n = d.len();
    let noise = f64::EPSILON * d.iter().zip(&*e).map(|(d, e)| d.abs() + e.abs()).fold(0.0, f64::max);
    for l in 0..n {
        let mut iterations = 0;
        loop {
            let floor = if iterations < PATIENCE { 0.0 } else { noise };
            let split = (l..n - 1).find(|&m| e[m].abs() <= (f64::EPSILON * (d[m].abs() + d[m + 1].abs())).max(floor));
            let m = split.unwrap_or(n - 1);
            if m == l {
                break;
            }
            if iterations == MAX_ITERATIONS {
                return Err(LinalgError::NoConvergence { index: l, iterations });
            }
            iterations += 1;
            chase(d, e, l, m, rotated);
        }
    }
    Ok(())
}

/// One QL sweep over the block l..=m.
fn chase(d: &mut [f64], e: &mut [f64], l: usize, m: usize, rotated: &mut dyn FnMut(Rotation)) {
    let half = (d[l + 1] - d[l]) / (2.0 * e[l]);
    let mut g = d[m] - d[l] + e[l] / (half + half.hypot(1.0).copysign(half));
    let (mut sine, mut cosine, mut p) = (1.0, 1.0, 0.0);
    for i in (l..m).rev() {
        let f = sine * e[i];
        let b = cosine * e[i];
        let r = f.hypot(g);
        e[i + 1] = r;
        if r == 0.0 {
            d[i + 1] -= p;
            e[m] = 0.0;
            return;
        }
        sine = f / r;
        cosine = g / r;
        g = d[i + 1] - p;
        let r = (d[i] - g) * sine + 2.0 * cosine * b;
        p = sine * r;
        d[i + 1] = g + p;
        g = cosine * r - b;
        rotated(Rotation { index: i, cosine, sine });
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0.0;
}

/// Components start..start+PANEL of all eigenvectors: row i of the panel belongs to eigenvector i.
fn eigenvector_panel(n: usize, start: usize, reflections: &[Reflection], rotations: &[Rotation]) -> Vec<f64> {
    let mut panel = vec![0.0; n * PANEL];
    let (rows, _) = panel.as_chunks_mut::<PANEL>();
    for component in 0..PANEL.min(n - start) {
        rows[start + component][component] = 1.0;
    }
    for Reflection { start, vector, beta } in reflections {
        let mut sums = [0.0; PANEL];
        for (row, &v) in rows[*start..].iter().zip(vector) {
            for (s, x) in sums.iter_mut().zip(row) {
                *s += v * x;
            }
        }
        for (row, &v) in rows[*start..].iter_mut().zip(vector) {
            let factor = beta * v;
            for (s, x) in sums.iter().zip(row) {
                *x -= factor * s;
            }
        }
    }
    for &Rotation { index, cosine, sine } in rotations {
        let (head, tail) = rows.split_at_mut(index + 1);
        for (low, high) in head[index].iter_mut().zip(tail[0].iter_mut()) {
            (*low, *high) = (cosine * *low - sine * *high, sine * *low + cosine * *high);
        }
    }
    panel
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    fn second_difference(n: usize) -> Matrix {
        Matrix::from_fn(n, n, |i, j| match i.abs_diff(j) {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        })
    }

    #[test]
    fn the_second_difference_matrix_has_eigenvalues_of_a_sine() {
        for n in [1, 2, 3, 33, 100] {
            let eigen = SymmetricEigen::new(&second_difference(n)).unwrap();
            for (k, value) in eigen.values.iter().rev().enumerate() {
                let expected = 4.0 * ((k + 1) as f64 * PI / (2 * (n + 1)) as f64).sin().powi(2);
                assert!((value - expected).abs() < 1e-13, "n {n}, k {k}: {value} against {expected}");
            }
        }
    }

    #[test]
    fn eigenvectors_are_orthonormal_and_rebuild_the_matrix() {
        let n = 150;
        let a = Matrix::from_fn(n, n, |i, j| ((i * j) as f64 * 0.01).cos() + if i == j { i as f64 } else { 0.0 });
        let SymmetricEigen { values, vectors } = SymmetricEigen::new(&a).unwrap();
        assert!(vectors.times_transposed(&vectors).largest_difference(&Matrix::identity(n)) < 1e-12);
        let scaled = Matrix::from_fn(n, n, |k, j| values[k] * vectors[(k, j)]);
        assert!(vectors.transposed_times(&scaled).largest_difference(&a) < 1e-11);
        assert!(values.windows(2).all(|w| w[0] >= w[1]));
        assert_eq!(symmetric_eigenvalues(&a).unwrap(), values);
    }

    #[test]
    fn equal_eigenvalues_and_zero_matrices_are_no_trouble() {
        assert_eq!(SymmetricEigen::new(&Matrix::zeros(5, 5)).unwrap().values, vec![0.0; 5]);
        let ones = SymmetricEigen::new(&Matrix::from_fn(6, 6, |_, _| 1.0)).unwrap();
        assert!((ones.values[0] - 6.0).abs() < 1e-14 && ones.values[1..].iter().all(|v| v.abs() < 1e-14));
    }

    #[test]
    fn a_matrix_of_low_rank_converges_although_most_of_it_is_rounding_noise() {
        let mut stream = softdiff_engine::rng::RandomStream::new(8, "low rank");
        for (n, rank) in [(64, 3), (255, 24), (255, 100)] {
            // Columns of very different length, as covariances have them.
            let thin = Matrix::from_fn(n, rank, |_, j| stream.normal() * 10f64.powf(-6.0 * j as f64 / rank as f64));
            let mix = Matrix::from_fn(n, n, |_, _| stream.normal());
            let thin = mix.times(&thin);
            let values = symmetric_eigenvalues(&thin.times_transposed(&thin)).unwrap();
            assert!(values[rank - 1] > 0.0 && values[rank..].iter().all(|v| v.abs() < 1e-12 * values[0]), "{n} {rank}");
        }
    }

    #[test]
    fn nan_is_named_by_its_place() {
        let mut a = Matrix::identity(3);
        a[(1, 2)] = f64::NAN;
        assert!(matches!(SymmetricEigen::new(&a), Err(LinalgError::NotFinite { row: 1, col: 2, .. })));
    }

    #[test]
    #[ignore = "the size of an Inception covariance, some seconds: run with --ignored"]
    fn two_thousand_and_forty_eight_dimensions_are_within_reach() {
        let n = 2048;
        let SymmetricEigen { values, vectors } = SymmetricEigen::new(&second_difference(n)).unwrap();
        assert!((values[0] - 4.0 * (n as f64 * PI / (2 * (n + 1)) as f64).sin().powi(2)).abs() < 1e-12);
        assert!(vectors.times_transposed(&vectors).largest_difference(&Matrix::identity(n)) < 1e-11);
    }
}
