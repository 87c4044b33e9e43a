//! The kernels' parameters: one `#[repr(C)]` struct for each parameter list of kernels/*.cu, with its size in bytes.
//!
//! A test compiles the kernels and compares the offset and size of every parameter with these structs; see kernels.rs.

use super::driver::Address;
#[cfg(test)]
use std::mem::offset_of;

/// Offset and size of a parameter, in bytes.
#[cfg(test)]
pub(super) type Parameter = (usize, usize);

/// A parameter, or several of one type.
pub(super) trait Argument {
    /// Adds its values, each in eight bytes, as a launch and the tables of batched launches have them.
    fn push(&self, words: &mut Vec<u64>);
    /// Adds its place if it begins at `offset`.
    #[cfg(test)]
    fn place(offset: usize, parameters: &mut Vec<Parameter>);
}

macro_rules! argument {
    ($($type:ty: $word:expr),*) => {
        $(impl Argument for $type {
            fn push(&self, words: &mut Vec<u64>) {
                let word: fn($type) -> u64 = $word;
                words.push(word(*self));
            }

            #[cfg(test)]
            fn place(offset: usize, parameters: &mut Vec<Parameter>) {
                parameters.push((offset, size_of::<$type>()));
            }
        })*
    };
}
argument!(
    u64: |v| v,
    i64: i64::cast_unsigned,
    u32: u64::from,
    i32: |v| v.cast_unsigned().into(),
    f32: |v| v.to_bits().into(),
    f64: f64::to_bits
);

impl<T: Argument, const N: usize> Argument for [T; N] {
    fn push(&self, words: &mut Vec<u64>) {
        self.iter().for_each(|value| value.push(words));
    }

    #[cfg(test)]
    fn place(offset: usize, parameters: &mut Vec<Parameter>) {
        (0..N).for_each(|i| T::place(offset + i * size_of::<T>(), parameters));
    }
}

/// All parameters of a kernel.
pub(super) trait Arguments {
    const NAME: &'static str;
    fn words(&self) -> Vec<u64>;
    #[cfg(test)]
    fn parameters() -> Vec<Parameter>;
}

macro_rules! arguments {
    ($($(#[$meta:meta])* $name:ident: $size:literal { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug)]
            #[repr(C)]
            pub(super) struct $name {
                $(pub $field: $type),*
            }

            const _: () = assert!(size_of::<$name>() == $size);

            impl Arguments for $name {
                const NAME: &'static str = stringify!($name);

                fn words(&self) -> Vec<u64> {
                    let mut words = Vec::new();
                    $(self.$field.push(&mut words);)*
                    words
                }

                #[cfg(test)]
                fn parameters() -> Vec<Parameter> {
                    let mut parameters = Vec::new();
                    $(<$type as Argument>::place(offset_of!($name, $field), &mut parameters);)*
                    parameters
                }
            }
        )*
    };
}

/// A size as an `int`: no tensor has more than 2^30 elements.
pub(super) fn int(size: usize) -> i32 {
    i32::try_from(size).expect("sizes of tensors fit 32 bits")
}

/// A size as an `i64`.
pub(super) fn long(size: usize) -> i64 {
    size as i64
}

arguments! {
    // elementwise.cu
    CombineArgs: 64 { out: Address, terms: [Address; 4], factors: [f32; 4], n: i64 }
    CombineAllArgs: 32 { out: Address, terms: Address, count: i32, n: i64 }
    /// A table of the arguments of several launches, [`ROW`] words each.
    TableArgs: 8 { rows: Address }
    BinaryArgs: 120 {
        out: Address, a: Address, b: Address, multiply: i32, n: i64, sizes: [i32; 3], a_strides: [i64; 4],
        b_strides: [i64; 4],
    }
    UnaryArgs: 32 { out: Address, x: Address, function: i32, n: i64 }
    UnaryGradientArgs: 40 { out: Address, x: Address, dy: Address, function: i32, n: i64 }
    CastArgs: 24 { out: Address, x: Address, n: i64 }
    CopyRowsArgs: 48 { out: Address, x: Address, rows: i64, width: i32, out_pitch: i64, x_pitch: i64 }
    JoinRowsArgs: 72 {
        out: Address, rows: i64, pitch: i64,
        a: Address, a_width: i32, a_pitch: i32,
        b: Address, b_width: i32, b_pitch: i32,
        c: Address, c_width: i32, c_pitch: i32,
    }
    ExpandArgs: 72 { out: Address, x: Address, n: i64, sizes: [i32; 3], strides: [i64; 4] }
    DropoutArgs: 56 {
        out: Address, x: Address, threshold: u32, kept: f32, seed: u64, purpose: u32, step: Address, n: i64,
    }
    RandomArgs: 48 { out: Address, kind: i32, seed: u64, purpose: u32, step: Address, n: i64 }
    ConvEpilogueArgs: 56 {
        y: Address, bias: Address, residual: Address, scale: f32, relu: i32, n: i64, channels: i32, y_pitch: i32,
        residual_pitch: i32,
    }

    // image.cu and fir.cu
    FirArgs: 72 { out: Address, x: Address, patches: i64, sizes: [i32; 5], pitch: i32, first: i32, taps: [f32; 4] }
    ResampleArgs: 96 {
        out: Address, x: Address, n: i64, sizes: [i32; 5], pitch: i32, vertical: [Address; 3], horizontal: [Address; 3],
    }
    MaxPoolArgs: 56 { out: Address, x: Address, n: i64, sizes: [i32; 5], window: [i32; 3] }
    MaxPoolGradientArgs: 64 { dx: Address, x: Address, dy: Address, n: i64, sizes: [i32; 5], window: [i32; 3] }
    SoftmaxArgs: 40 { out: Address, logs: Address, scores: Address, rows: i64, width: i32 }
    SoftmaxGradientArgs: 72 {
        weights: Address, slopes: Address, scores: Address, dp: Address, logs: Address, out: Address, dy: Address,
        rows: i64, width: i32, channels: i32,
    }
    InterpolateArgs: 40 { out: Address, table: Address, position: Address, n: i64, rows: i32, width: i32 }
    InterpolateSlopeArgs: 48 {
        out: Address, table: Address, position: Address, dy: Address, n: i64, rows: i32, width: i32,
    }
    InterpolateTableGradientArgs: 40 { out: Address, position: Address, dy: Address, n: i64, rows: i32, width: i32 }

    // reduce.cu and products.cu
    SumMiddleArgs: 40 { out: Address, x: Address, middle: i64, inner: i32, rows: i32, parts: i32, scale: f32 }
    SumRowsArgs: 40 { out: Address, x: Address, width: i64, per_part: i64, parts: i32, scale: f32 }
    NormImageSumsArgs: 48 {
        dgamma: Address, dbeta: Address, sums: Address, partials: Address, images: i32, parts: i32, channels: i32,
        factor: f32,
    }
    SmallProductsArgs: 64 {
        out: Address, a: Address, b: Address, starts: Address, run: i32, m: i32, n: i32, k: i32, a_strides: [i32; 2],
        b_strides: [i32; 2],
    }

    // group_norm.cu, group_norm_any.cu and group_norm_chunks.cu
    GroupNormArgs: 120 {
        y: Address, mean: Address, inverse: Address, x: Address, gamma: Address, beta: Address, shift: Address,
        pixels: i32, channels: i32, slice: i32, per_group: i32, epsilon: f32, silu: i32,
        threshold: u32, purpose: u32, kept: f32, seed: u64, step: Address, elements: i64,
    }
    GroupNormGradientArgs: 144 {
        dx: Address, dgammas: Address, dbetas: Address, dshift: Address, inputs: [Address; 7],
        pixels: i32, channels: i32, slice: i32, per_group: i32, silu: i32,
        threshold: u32, purpose: u32, kept: f32, seed: u64, step: Address, elements: i64,
    }
    GroupNormAnyArgs: 112 {
        y: Address, mean: Address, inverse: Address, x: Address, gamma: Address, beta: Address, shift: Address,
        pixels: i32, channels: i32, per_group: i32, epsilon: f32, silu: i32,
        threshold: u32, purpose: u32, kept: f32, seed: u64, step: Address, elements: i64,
    }
    GroupNormGradientAnyArgs: 144 {
        dx: Address, dgammas: Address, dbetas: Address, dshift: Address, inputs: [Address; 7],
        pixels: i32, channels: i32, per_group: i32, silu: i32,
        threshold: u32, purpose: u32, kept: f32, seed: u64, step: Address, elements: i64,
    }
    GroupNormSumsArgs: 40 { sums: Address, x: Address, shift: Address, pixels: i32, channels: i32, chunks: i32 }
    GroupNormApplyArgs: 128 {
        y: Address, mean: Address, inverse: Address, sums: Address, x: Address, gamma: Address, beta: Address,
        shift: Address, pixels: i32, channels: i32, chunks: i32, per_group: i32, epsilon: f32, silu: i32,
        threshold: u32, purpose: u32, kept: f32, seed: u64, step: Address, elements: i64,
    }
    GroupNormGradientSumsArgs: 120 {
        sums: Address, inputs: [Address; 7], pixels: i32, channels: i32, chunks: i32, per_group: i32, silu: i32,
        threshold: u32, purpose: u32, kept: f32, seed: u64, step: Address, elements: i64,
    }
    GroupNormGradientApplyArgs: 152 {
        dx: Address, dgammas: Address, dbetas: Address, dshift: Address, sums: Address, inputs: [Address; 7],
        pixels: i32, channels: i32, chunks: i32, per_group: i32, silu: i32,
        threshold: u32, purpose: u32, kept: f32, seed: u64, step: Address, elements: i64,
    }

    // group_norm_one_pass.cu
    GroupNormOnePassArgs: 136 {
        y: Address, mean: Address, inverse: Address, bits: Address, x: Address, gamma: Address, beta: Address,
        shift: Address, pixels: i32, channels: i32, slice: i32, per_group: i32, epsilon: f32, silu: i32,
        threshold: u32, purpose: u32, kept: f32, seed: u64, step: Address, elements: i64, pitch: i32,
    }
    GroupNormOnePassGradientArgs: 176 {
        dx: Address, second: Address, split: i32, dshift: Address, partials: Address, sums: i32, inputs: [Address; 7],
        bits: Address, addends: [Address; 3], factors: [f32; 3],
        pixels: i32, channels: i32, slice: i32, per_group: i32, silu: i32, kept: f32, pitch: i32,
    }

    // attention.cu
    AttentionArgs: 32 { out: Address, logs: Address, qkv: Address, tokens: i32, scale: f32 }
    AttentionGradientArgs: 56 {
        dqkv: Address, slopes: Address, qkv: Address, out: Address, logs: Address, dy: Address, tokens: i32, scale: f32,
    }

    // rgb_conv.cu
    RgbConvToWideArgs: 104 {
        out: Address, narrow: Address, weight: Address, bias: Address, residual: Address, scale: f32, relu: i32,
        pitch: i32, residual_pitch: i32, joint: [i32; 11],
    }
    RgbConvFromWideArgs: 96 {
        out: Address, wide: Address, weight: Address, bias: Address, residual: Address, scale: f32, relu: i32,
        joint: [i32; 11],
    }
    RgbConvWeightSumsArgs: 72 { sums: Address, narrow: Address, wide: Address, strips: i32, joint: [i32; 11] }
    RgbConvWeightsArgs: 72 { out: Address, sums: Address, parts: i32, groups: i32, scale: f32, joint: [i32; 11] }

    // conv_f16x2.cu
    F16x2WeightsArgs: 24 { out: Address, weight: Address, fours: i64 }
    ConvF16x2Args: 88 {
        y: Address, x: Address, weight: Address, bias: Address, pixels: i32, height: i32, width: i32, channels: i32,
        out_height: i32, out_width: i32, filters: i32, taps: [i32; 2], stride: [i32; 2], pad: [i32; 2], relu: i32,
    }

    // optim.cu
    GradientSquaresArgs: 16 { out: Address, pieces: Address }
    GradientNormArgs: 88 {
        state: Address, squares: Address, n: i32, rate: f64, warmup: f64, cooldown: f64, last: f64, beta1: f64,
        beta2: f64, clip: f64, loss: Address,
    }
    AdamArgs: 48 {
        pieces: Address, state: Address, beta1: f32, beta2: f32, epsilon: f32, emas: i32, decays: [f32; 4],
    }

    // share_sum.cu
    ShareAddArgs: 48 {
        pieces: Address, additions: Address, stride: i64, lowest: i32, step: Address, first: i32, share: f32,
    }
    RowsSumArgs: 48 { out: Address, pitch: i64, first: i32, own: i32, rows: Address, count: i32, n: i64 }

    // record.cu
    RecordStepArgs: 64 {
        ring: Address, step: Address, state: Address, loss: Address, losses: Address, times: Address, n: i32, parts: i32,
        updates: i32,
    }
    CarryArgs: 24 { to: Address, from: Address, n: i32 }
    GatherImagesArgs: 64 {
        out: Address, images: Address, step: Address, batch: u32, parts: u32, count: u64, size: u32, seed: u64,
        purpose: u32, half_bits: u32,
    }
    TakeImagesArgs: 40 { out: Address, batches: Address, step: Address, batch: u32, parts: u32, runs: u32, size: u32 }
}

/// Words of a row of a [`TableArgs`]: `Row` of kernels/common.cuh.
pub(super) const ROW: usize = 16;
