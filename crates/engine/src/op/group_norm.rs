//! GroupNorm, optionally fused with SiLU.

use super::{Call, Operation, expect_inputs, expect_same};
use crate::cpu::simd::vectorized;
use crate::error::{Error, Result};
use crate::{Graph, Node, Precision, Scalar, Shape, Var};
use rayon::prelude::*;

/// `gamma (x - mean) / sqrt(variance + epsilon) + beta` over groups of channels, then SiLU if asked for.
///
/// Inputs `x [n, ..., c]`, `gamma [c]`, `beta [c]`; outputs `y`, and mean and inverse deviation `[n, groups]`.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    pub(crate) groups: usize,
    pub(crate) epsilon: f64,
    pub(crate) silu: bool,
}

/// `dx, dgamma, dbeta` of [`GroupNorm`] from `x, gamma, beta, mean, inverse deviation, dy`.
#[derive(Clone, Debug)]
pub struct GroupNormGradient {
    pub(crate) groups: usize,
    pub(crate) silu: bool,
}

impl Graph {
    /// GroupNorm over `groups` groups of channels, followed by SiLU if `silu`.
    pub fn group_norm(
        &mut self,
        x: Var,
        gamma: Var,
        beta: Var,
        groups: usize,
        epsilon: f64,
        silu: bool,
    ) -> Result<Var> {
        self.apply1(GroupNorm { groups, epsilon, silu }, &[x, gamma, beta])
    }
}

fn check(x: &Shape, gamma: &Shape, beta: &Shape, groups: usize) -> Result<(), String> {
    let channels = x.last().copied().unwrap_or(0);
    if x.len() < 2 || groups == 0 || channels % groups != 0 {
        return Err(format!("{channels} channels do not make {groups} equal groups"));
    }
    expect_same("scale and channels", gamma, &[channels].into())?;
    expect_same("shift and channels", beta, &[channels].into())
}

/// Pixels per image and channels.
pub(crate) fn cut(x: &Shape) -> (usize, usize) {
    let channels = x.last().copied().unwrap_or(1);
    (x[1..].iter().product::<usize>() / channels, channels)
}

impl Operation for GroupNorm {
    const NAME: &'static str = "group_norm";

    fn shapes(&self, inputs: &[&Shape]) -> Result<Vec<Shape>, String> {
        let [x, gamma, beta] = expect_inputs(inputs)?;
        check(&x, &gamma, &beta, self.groups)?;
        let statistics = Shape::from([x[0], self.groups]);
        Ok(vec![x, statistics.clone(), statistics])
    }

    fn precisions(&self, inputs: &[Precision], _: usize) -> Vec<Precision> {
        vec![inputs[0], Precision::Full, Precision::Full]
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        let (Some(dy), None, None) = (dy[0], dy[1], dy[2]) else {
            return Err(Error::NoGradient("only group_norm's first output may be differentiated".into()));
        };
        let mut inputs = node.inputs.clone();
        inputs.extend([node.outputs[1], node.outputs[2], dy]);
        let gradients = g.apply(GroupNormGradient { groups: self.groups, silu: self.silu }, &inputs)?;
        Ok(gradients.into_iter().map(Some).collect())
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let (pixels, channels) = cut(call.input_shapes[0]);
        let (x, gamma, beta) = (call.inputs[0], call.inputs[1], call.inputs[2]);
        let [y, mean, inverse] = &mut *call.outputs else { return };
        let images = y.par_chunks_mut(pixels * channels).zip(x.par_chunks(pixels * channels));
        let statistics = mean.par_chunks_mut(self.groups).zip(inverse.par_chunks_mut(self.groups));
        images.zip(statistics).for_each(|((y, x), (mean, inverse))| {
            let mut a = vec![T::ZERO; channels];
            let mut b = vec![T::ZERO; channels];
            let per_group = channels / self.groups;
            let count = T::from_f64((pixels * per_group) as f64);
            // Two passes: the square of the mean must not cancel against the mean of the squares.
            channel_sums(x, &mut b);
            for (mean, sums) in mean.iter_mut().zip(b.chunks_exact_mut(per_group)) {
                *mean = sums.iter().copied().sum::<T>() / count;
                sums.fill(*mean);
            }
            channel_squares(x, &b, &mut a);
            for (inverse, squares) in inverse.iter_mut().zip(a.chunks_exact(per_group)) {
                let variance = squares.iter().copied().sum::<T>() / count;
                *inverse = T::ONE / (variance + T::from_f64(self.epsilon)).sqrt();
            }
            for c in 0..channels {
                a[c] = gamma[c] * inverse[c / per_group];
                b[c] = beta[c] - mean[c / per_group] * a[c];
            }
            if self.silu { affine_silu(x, &a, &b, y) } else { affine(x, &a, &b, y) }
        });
    }
}

vectorized! {
    fn channel_sums<T: Scalar>(x: &[T], sums: &mut [T]) {
        for row in x.chunks_exact(sums.len()) {
            sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
        }
    }
}

vectorized! {
    fn channel_squares<T: Scalar>(x: &[T], mean: &[T], sums: &mut [T]) {
        for row in x.chunks_exact(sums.len()) {
            for ((sum, &x), &mean) in sums.iter_mut().zip(row).zip(mean) {
                *sum += (x - mean) * (x - mean);
            }
        }
    }
}

vectorized! {
    fn affine<T: Scalar>(x: &[T], a: &[T], b: &[T], y: &mut [T]) {
        for (y, x) in y.chunks_exact_mut(a.len()).zip(x.chunks_exact(a.len())) {
            for (((y, &x), &a), &b) in y.iter_mut().zip(x).zip(a).zip(b) {
                *y = a * x + b;
            }
        }
    }
}

vectorized! {
    fn affine_silu<T: Scalar>(x: &[T], a: &[T], b: &[T], y: &mut [T]) {
        for (y, x) in y.chunks_exact_mut(a.len()).zip(x.chunks_exact(a.len())) {
            for (((y, &x), &a), &b) in y.iter_mut().zip(x).zip(a).zip(b) {
                let z = a * x + b;
                *y = z * z.sigmoid();
            }
        }
    }
}

impl Operation for GroupNormGradient {
    const NAME: &'static str = "group_norm_gradient";
    const DIFFERENTIABLE: bool = false;

    fn shapes(&self, inputs: &[&Shape]) -> Result<Vec<Shape>, String> {
        let [x, gamma, beta, mean, inverse, dy] = expect_inputs(inputs)?;
        check(&x, &gamma, &beta, self.groups)?;
        let statistics = Shape::from([x[0], self.groups]);
        expect_same("mean", &mean, &statistics)?;
        expect_same("inverse deviation", &inverse, &statistics)?;
        expect_same("gradient and input", &dy, &x)?;
        Ok(vec![x, gamma, beta])
    }

    fn precisions(&self, inputs: &[Precision], _: usize) -> Vec<Precision> {
        vec![inputs[0], Precision::Full, Precision::Full]
    }

    fn scratch(&self, inputs: &[&Shape], _: &[&Shape]) -> usize {
        2 * inputs[0][0] * cut(inputs[0]).1
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let (pixels, channels) = cut(call.input_shapes[0]);
        let batch = call.input_shapes[0][0];
        let [x, gamma, beta, mean, inverse, dy] = call.inputs[..] else { return };
        let [dx, dgamma, dbeta] = &mut *call.outputs else { return };
        let (gammas, betas) = call.scratch[..2 * batch * channels].split_at_mut(batch * channels);
        let size = pixels * channels;
        let images = dx.par_chunks_mut(size).zip(x.par_chunks(size)).zip(dy.par_chunks(size));
        let partials = gammas.par_chunks_mut(channels).zip(betas.par_chunks_mut(channels));
        images.zip(partials).enumerate().for_each(|(n, (((dx, x), dy), (dgamma, dbeta)))| {
            let per_group = channels / self.groups;
            let group = |c: usize| n * self.groups + c / per_group;
            let center: Vec<T> = (0..channels).map(|c| mean[group(c)]).collect();
            let scale: Vec<T> = (0..channels).map(|c| inverse[group(c)]).collect();
            dgamma.fill(T::ZERO);
            dbeta.fill(T::ZERO);
            // First pass: dx holds the gradient before SiLU.
            if self.silu {
                before_silu(x, dy, gamma, beta, &center, &scale, dx);
            } else {
                dx.copy_from_slice(dy);
            }
            channel_gradients(x, dx, &center, &scale, dgamma, dbeta);
            // Second pass: dx = scale (gamma dz - mean(gamma dz) - u mean(gamma dz u)), u = scale (x - center).
            let count = T::from_f64((pixels * per_group) as f64);
            let (mut a, mut b, mut shift) = (scale.clone(), scale.clone(), scale.clone());
            for first in (0..channels).step_by(per_group) {
                let members = first..first + per_group;
                let sum = members.clone().map(|c| gamma[c] * dbeta[c]).sum::<T>() / count;
                let product = members.clone().map(|c| gamma[c] * dgamma[c]).sum::<T>() / count;
                for c in members {
                    a[c] = scale[c] * gamma[c];
                    b[c] = -(scale[c] * scale[c] * product);
                    shift[c] = -(scale[c] * sum) - b[c] * center[c];
                }
            }
            input_gradients(x, &a, &b, &shift, dx);
        });
        for (total, partial) in [(dgamma, gammas), (dbeta, betas)] {
            total.fill(T::ZERO);
            channel_sums(partial, total);
        }
    }
}

vectorized! {
    /// `dy` times the slope of SiLU at the normalised, scaled and shifted `x`.
    fn before_silu<T: Scalar>(x: &[T], dy: &[T], gamma: &[T], beta: &[T], center: &[T], scale: &[T], dz: &mut [T]) {
        let n = gamma.len();
        let rows = dz.chunks_exact_mut(n).zip(x.chunks_exact(n)).zip(dy.chunks_exact(n));
        for ((dz, x), dy) in rows {
            let (dz, x, dy) = (&mut dz[..n], &x[..n], &dy[..n]);
            let (gamma, beta, center, scale) = (&gamma[..n], &beta[..n], &center[..n], &scale[..n]);
            for c in 0..n {
                let z = gamma[c] * ((x[c] - center[c]) * scale[c]) + beta[c];
                let s = z.sigmoid();
                dz[c] = dy[c] * (s * (T::ONE + z * (T::ONE - s)));
            }
        }
    }
}

vectorized! {
    fn channel_gradients<T: Scalar>(x: &[T], dz: &[T], center: &[T], scale: &[T], dgamma: &mut [T], dbeta: &mut [T]) {
        let n = center.len();
        for (x, dz) in x.chunks_exact(n).zip(dz.chunks_exact(n)) {
            let (x, dz, center, scale) = (&x[..n], &dz[..n], &center[..n], &scale[..n]);
            let (dgamma, dbeta) = (&mut dgamma[..n], &mut dbeta[..n]);
            for c in 0..n {
                dbeta[c] += dz[c];
                dgamma[c] += dz[c] * ((x[c] - center[c]) * scale[c]);
            }
        }
    }
}

vectorized! {
    /// `dx = a dx + b x + shift`.
    fn input_gradients<T: Scalar>(x: &[T], a: &[T], b: &[T], shift: &[T], dx: &mut [T]) {
        let n = a.len();
        for (dx, x) in dx.chunks_exact_mut(n).zip(x.chunks_exact(n)) {
            let (dx, x, a, b, shift) = (&mut dx[..n], &x[..n], &a[..n], &b[..n], &shift[..n]);
            for c in 0..n {
                dx[c] = a[c] * dx[c] + b[c] * x[c] + shift[c];
            }
        }
    }
}
