//! GroupNorm, optionally fused with SiLU.

use super::{Call, Mask, Operation, expect_same};
use crate::cpu::simd::vectorized;
use crate::error::{Error, Result};
use crate::{Graph, Node, Scalar, Storage, TensorShape, Var};
use rayon::prelude::*;

/// `gamma (x - mean) / sqrt(variance + epsilon) + beta` over groups of channels, then SiLU if asked for.
///
/// Inputs `x [n, ..., c]`, `gamma [c]`, `beta [c]`, and optionally `shift [n, c]`, which is added to `x` first; outputs
/// `y`, and mean and inverse standard deviation `[n, groups]`. With a mask, dropout follows last.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    pub(crate) options: NormOptions,
}

/// `dx, dgamma, dbeta` (and `dshift`) of [`GroupNorm`] from `mean, inverse standard deviation, dy` and its inputs.
///
/// A backend may fuse into it what follows: tensors added to `dx`, and the sums of the result over all pixels.
#[derive(Clone, Debug)]
pub struct GroupNormGradient {
    pub(crate) options: NormOptions,
    /// Factors of the last inputs, which are added to `dx`.
    pub(crate) addends: Vec<f64>,
    /// If there is a factor: it times the sum of `dx` per channel is an output after the others.
    pub(crate) sums: Option<f64>,
    /// If set, only this many channels of `dx` are the first output, and the others are the last.
    pub(crate) split: Option<usize>,
}

/// How a group norm is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormOptions {
    /// Number of groups of channels.
    pub groups: usize,
    /// Added to the variance.
    pub epsilon: f64,
    /// Whether SiLU follows.
    pub silu: bool,
    /// Dropout that follows last.
    pub mask: Option<Mask>,
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
        self.group_norm_with(x, gamma, beta, None, NormOptions { groups, epsilon, silu, mask: None })
    }

    /// GroupNorm of `x + shift [n, c]` with everything that may follow it.
    pub fn group_norm_with(
        &mut self,
        x: Var,
        gamma: Var,
        beta: Var,
        shift: Option<Var>,
        mut options: NormOptions,
    ) -> Result<Var> {
        options.mask = options.mask.filter(|mask| mask.rate != 0.0);
        let mut inputs = vec![x, gamma, beta];
        inputs.extend(shift);
        self.apply1(GroupNorm { options }, &inputs)
    }
}

fn check(inputs: &[&TensorShape], options: &NormOptions) -> Result<(), String> {
    let (&[x, gamma, beta], groups) = (&inputs[..3], options.groups) else {
        return Err("takes at least three inputs".into());
    };
    let channels = x.last().copied().unwrap_or(0);
    if x.len() < 2 || groups == 0 || channels % groups != 0 {
        return Err(format!("{channels} channels do not make {groups} equal groups"));
    }
    expect_same("scale and channels", gamma, &[channels].into())?;
    expect_same("offset and channels", beta, &[channels].into())?;
    if let Some(shift) = inputs.get(3) {
        expect_same("shift", shift, &[x[0], channels].into())?;
    }
    options.mask.map_or(Ok(()), |mask| mask.check())
}

/// Pixels per image and channels.
pub(crate) fn cut(x: &TensorShape) -> (usize, usize) {
    let channels = x.last().copied().unwrap_or(1);
    (x[1..].iter().product::<usize>() / channels, channels)
}

impl Operation for GroupNorm {
    const NAME: &'static str = "group_norm";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        if !matches!(inputs.len(), 3 | 4) {
            return Err(format!("takes 3 or 4 inputs, not {}", inputs.len()));
        }
        check(inputs, &self.options)?;
        let statistics = TensorShape::from([inputs[0][0], self.options.groups]);
        Ok(vec![inputs[0].clone(), statistics.clone(), statistics])
    }

    fn storages(&self, inputs: &[Storage], _: usize) -> Vec<Storage> {
        vec![inputs[0], Storage::Full, Storage::Full]
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        let (Some(dy), None, None) = (dy[0], dy[1], dy[2]) else {
            return Err(Error::NoGradient("only group_norm's first output may be differentiated".into()));
        };
        let mut inputs = vec![node.outputs[1], node.outputs[2], dy];
        inputs.extend(&node.inputs);
        let gradients =
            g.apply(GroupNormGradient { options: self.options, addends: vec![], sums: None, split: None }, &inputs)?;
        Ok(gradients.into_iter().map(Some).collect())
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let (pixels, channels) = cut(call.input_shapes[0]);
        let (x, gamma, beta, shift) = (call.inputs[0], call.inputs[1], call.inputs[2], call.inputs.get(3));
        let NormOptions { groups, epsilon, silu, mask } = self.options;
        let mask = mask.map(|mask| (mask, call.stream(mask.purpose)));
        let place = call.first_element(x.len());
        let [y, mean, inverse] = &mut *call.outputs else { return };
        let images = y.par_chunks_mut(pixels * channels).zip(x.par_chunks(pixels * channels));
        let statistics = mean.par_chunks_mut(groups).zip(inverse.par_chunks_mut(groups));
        images.zip(statistics).enumerate().for_each(|(n, ((y, x), (mean, inverse)))| {
            let mut a = vec![T::ZERO; channels];
            // What is subtracted from each channel of x: the mean of its group, less its shift.
            let mut center = vec![T::ZERO; channels];
            let shift = |c: usize| shift.map_or(T::ZERO, |shift| shift[n * channels + c]);
            let per_group = channels / groups;
            let size = T::from_f64(pixels as f64);
            let count = T::from_f64((pixels * per_group) as f64);
            // Two passes: the square of the mean must not cancel against the mean of the squares.
            channel_sums(x, &mut center);
            for group in 0..groups {
                let members = group * per_group..(group + 1) * per_group;
                mean[group] = members.clone().map(|c| center[c] + size * shift(c)).sum::<T>() / count;
                members.for_each(|c| center[c] = mean[group] - shift(c));
            }
            channel_squares(x, &center, &mut a);
            for (inverse, squares) in inverse.iter_mut().zip(a.chunks_exact(per_group)) {
                let variance = squares.iter().copied().sum::<T>() / count;
                *inverse = T::ONE / (variance + T::from_f64(epsilon)).sqrt();
            }
            let mut b = center;
            for c in 0..channels {
                a[c] = gamma[c] * inverse[c / per_group];
                b[c] = beta[c] - b[c] * a[c];
            }
            if silu {
                affine_silu(x, &a, &b, y)
            } else {
                affine(x, &a, &b, y)
            }
            if let Some((mask, stream)) = mask {
                mask.apply_from(stream, place + n * pixels * channels, y);
            }
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

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let (inputs, addends) = inputs.split_at(inputs.len().saturating_sub(self.addends.len()));
        if !matches!(inputs.len(), 6 | 7) {
            return Err(format!("takes 6 or 7 inputs, not {}", inputs.len()));
        }
        check(&inputs[3..], &self.options)?;
        addends.iter().try_for_each(|addend| expect_same("addend and input", addend, inputs[3]))?;
        let statistics = TensorShape::from([inputs[3][0], self.options.groups]);
        expect_same("mean", inputs[0], &statistics)?;
        expect_same("inverse standard deviation", inputs[1], &statistics)?;
        expect_same("gradient and input", inputs[2], inputs[3])?;
        let channels = cut(inputs[3]).1;
        let sums = self.sums.map(|_| TensorShape::from([channels]));
        let mut outputs: Vec<TensorShape> = inputs[3..].iter().map(|&s| s.clone()).chain(sums).collect();
        if let Some(first) = self.split {
            let rest = channels.checked_sub(first).ok_or("is split behind its last channel")?;
            let part = |count: usize| TensorShape::from([&inputs[3][..inputs[3].len() - 1], &[count]].concat());
            outputs[0] = part(first);
            outputs.push(part(rest));
        }
        Ok(outputs)
    }

    fn storages(&self, inputs: &[Storage], outputs: usize) -> Vec<Storage> {
        let mut storages = vec![Storage::Full; outputs];
        storages[0] = inputs[3];
        if self.split.is_some() {
            storages[outputs - 1] = inputs[3];
        }
        storages
    }

    fn scratch(&self, inputs: &[&TensorShape], _: &[&TensorShape]) -> usize {
        2 * inputs[3][0] * cut(inputs[3]).1 + inputs[3].numel() * usize::from(self.options.mask.is_some())
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let (pixels, channels) = cut(call.input_shapes[3]);
        let batch = call.input_shapes[3][0];
        let NormOptions { groups, silu, mask, .. } = self.options;
        let mask = mask.map(|mask| (mask, call.stream(mask.purpose)));
        let place = call.first_element(batch * pixels * channels);
        let (inputs, addends) = call.inputs.split_at(call.inputs.len() - self.addends.len());
        let [mean, inverse, dy, x, gamma, beta, shift @ ..] = inputs else { return };
        let shift = shift.first();
        let (first, rest) = call.outputs.split_at_mut(1);
        let (rest, second) = rest.split_at_mut(rest.len() - usize::from(self.split.is_some()));
        let (affine, rest) = rest.split_at_mut(2);
        let mut joined = vec![T::ZERO; if self.split.is_some() { x.len() } else { 0 }];
        let dx: &mut [T] = if self.split.is_some() { &mut joined } else { &mut *first[0] };
        let (dshift, sums) = rest.split_at_mut(usize::from(shift.is_some()));
        let (gammas, scratch) = call.scratch.split_at_mut(batch * channels);
        let (betas, masked) = scratch.split_at_mut(batch * channels);
        let size = pixels * channels;
        let dy: &[T] = match mask {
            Some((mask, stream)) => {
                let masked = &mut masked[..batch * size];
                masked.par_chunks_mut(size).zip(dy.par_chunks(size)).enumerate().for_each(|(n, (masked, dy))| {
                    masked.copy_from_slice(dy);
                    mask.apply_from(stream, place + n * size, masked);
                });
                masked
            }
            None => dy,
        };
        let images = dx.par_chunks_mut(size).zip(x.par_chunks(size)).zip(dy.par_chunks(size));
        let partials = gammas.par_chunks_mut(channels).zip(betas.par_chunks_mut(channels));
        images.zip(partials).enumerate().for_each(|(n, (((dx, x), dy), (dgamma, dbeta)))| {
            let per_group = channels / groups;
            let group = |c: usize| n * groups + c / per_group;
            let shift = |c: usize| shift.map_or(T::ZERO, |shift| shift[n * channels + c]);
            let center: Vec<T> = (0..channels).map(|c| mean[group(c)] - shift(c)).collect();
            let scale: Vec<T> = (0..channels).map(|c| inverse[group(c)]).collect();
            dgamma.fill(T::ZERO);
            dbeta.fill(T::ZERO);
            // First pass: dx holds the gradient before SiLU.
            if silu {
                before_silu(x, dy, gamma, beta, &center, &scale, dx);
            } else {
                dx.copy_from_slice(dy);
            }
            channel_gradients(x, dx, &center, &scale, dgamma, dbeta);
            // Second pass: dx = scale (gamma dz - mean(gamma dz) - u mean(gamma dz u)), u = scale (x - center).
            let count = T::from_f64((pixels * per_group) as f64);
            let (mut a, mut b, mut constant) = (scale.clone(), scale.clone(), scale.clone());
            for first in (0..channels).step_by(per_group) {
                let members = first..first + per_group;
                let sum = members.clone().map(|c| gamma[c] * dbeta[c]).sum::<T>() / count;
                let product = members.clone().map(|c| gamma[c] * dgamma[c]).sum::<T>() / count;
                for c in members {
                    a[c] = scale[c] * gamma[c];
                    b[c] = -(scale[c] * scale[c] * product);
                    constant[c] = -(scale[c] * sum) - b[c] * center[c];
                }
            }
            input_gradients(x, &a, &b, &constant, dx);
        });
        for (total, partial) in affine.iter_mut().zip([gammas, betas]) {
            total.fill(T::ZERO);
            channel_sums(partial, total);
        }
        if let [dshift] = dshift {
            dshift.par_chunks_mut(channels).zip(dx.par_chunks(size)).for_each(|(dshift, dx)| {
                dshift.fill(T::ZERO);
                channel_sums(dx, dshift);
            });
        }
        for (&factor, addend) in self.addends.iter().zip(addends) {
            let factor = T::from_f64(factor);
            dx.iter_mut().zip(*addend).for_each(|(dx, &addend)| *dx += factor * addend);
        }
        if let (Some(factor), [sums]) = (self.sums, sums) {
            sums.fill(T::ZERO);
            channel_sums(dx, sums);
            sums.iter_mut().for_each(|sum| *sum *= T::from_f64(factor));
        }
        if let (Some(count), [second]) = (self.split, second) {
            let rows = first[0].chunks_exact_mut(count).zip(second.chunks_exact_mut(channels - count));
            for ((first, second), row) in rows.zip(joined.chunks_exact(channels)) {
                first.copy_from_slice(&row[..count]);
                second.copy_from_slice(&row[count..]);
            }
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
