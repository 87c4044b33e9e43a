//! The two register tiles that all matrix work is made of: 8 rows by one panel of 128 bytes.
//!
//! A panel holds `NR` columns (32 of `f32`, 16 of `f64`): two 512-bit vectors, so that the 16 accumulators of a tile
//! stay in registers and every step does 16 fused multiply-adds for 2 vector loads and 8 broadcasts.
#![allow(unsafe_code)]

use super::simd::{Isa, isa};

/// Rows of a tile.
pub const ROWS: usize = 8;

/// A run of outer products: `count` steps through `a` and `b`.
#[derive(Clone, Copy)]
pub struct Segment<T> {
    /// First broadcast operand: `ROWS` (or fewer) consecutive values per step.
    pub a: *const T,
    /// Elements between steps of `a`.
    pub a_stride: usize,
    /// First vector operand: `NR` consecutive values per step.
    pub b: *const T,
    /// Elements between steps of `b`.
    pub b_stride: usize,
    /// Number of steps.
    pub count: usize,
}

/// The tile kernels of an element type.
pub trait Tiles: Sized + Copy {
    /// Columns of a panel.
    const NR: usize;

    /// `out[i][j] = sum over taps t and k < depth of rows[t * 8 + i][k] * panel[(t * depth + k) * NR + j]`.
    ///
    /// # Safety
    /// `rows` has `taps * 8` pointers to `depth` readable values each, `panel` has `taps * depth * NR` values, and
    /// `out` has room for `8 * NR`.
    unsafe fn rows_times_panel(taps: usize, depth: usize, rows: *const *const Self, panel: *const Self, out: *mut Self);

    /// `out[i][j] += sum over segments and steps p of a[p * a_stride + i] * b[p * b_stride + j]` for `i < m <= 8`.
    ///
    /// # Safety
    /// Every step of every segment reads `m` values of `a` and `NR` of `b`; `out` has `m * NR` values.
    unsafe fn outer_products(m: usize, segments: &[Segment<Self>], out: *mut Self);
}

/// A vector register of one instruction set.
trait Lanes {
    type Element: Copy;
    type Vector: Copy;
    const WIDTH: usize;
    /// # Safety
    /// As for all functions here, the processor has the instruction set.
    unsafe fn zero() -> Self::Vector;
    /// # Safety
    /// `from` is readable for `WIDTH` values.
    unsafe fn load(from: *const Self::Element) -> Self::Vector;
    /// # Safety
    /// `from` is readable.
    unsafe fn splat(from: *const Self::Element) -> Self::Vector;
    /// # Safety
    /// `to` is writable for `WIDTH` values.
    unsafe fn store(to: *mut Self::Element, vector: Self::Vector);
    /// `a b + c`.
    ///
    /// # Safety
    /// As for [`Lanes::zero`].
    unsafe fn multiply_add(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
}

/// `M` rows by `P` vectors at a time, `ROWS / M` passes.
///
/// # Safety
/// As [`Tiles::rows_times_panel`], where `NR` is `P * L::WIDTH`; the processor has the instruction set of `L`.
#[inline(always)]
unsafe fn rows_times_panel<L: Lanes, const M: usize, const P: usize>(
    taps: usize,
    depth: usize,
    rows: *const *const L::Element,
    panel: *const L::Element,
    out: *mut L::Element,
) {
    // SAFETY: the offsets are those that `Tiles::rows_times_panel` promises to be valid.
    unsafe {
        for first in (0..ROWS).step_by(M) {
            let mut sums = [[L::zero(); P]; M];
            let mut b = panel;
            for tap in 0..taps {
                let mut a = [std::ptr::null(); M];
                for i in 0..M {
                    a[i] = *rows.add(tap * ROWS + first + i);
                }
                for k in 0..depth {
                    let mut right = [L::zero(); P];
                    for (p, vector) in right.iter_mut().enumerate() {
                        *vector = L::load(b.add(p * L::WIDTH));
                    }
                    for i in 0..M {
                        let left = L::splat(a[i].add(k));
                        for p in 0..P {
                            sums[i][p] = L::multiply_add(left, right[p], sums[i][p]);
                        }
                    }
                    b = b.add(P * L::WIDTH);
                }
            }
            for i in 0..M {
                for p in 0..P {
                    L::store(out.add(((first + i) * P + p) * L::WIDTH), sums[i][p]);
                }
            }
        }
    }
}

/// `M` rows by `P` vectors, from row `first` on.
///
/// # Safety
/// As [`Tiles::outer_products`] for `first + M` rows, where `NR` is `P * L::WIDTH`; the processor has the instruction set of
/// `L`.
#[inline(always)]
unsafe fn outer_products<L: Lanes, const M: usize, const P: usize>(
    first: usize,
    segments: &[Segment<L::Element>],
    out: *mut L::Element,
) {
    // SAFETY: the offsets are those that `Tiles::outer_products` promises to be valid.
    unsafe {
        let out = out.add(first * P * L::WIDTH);
        let mut sums = [[L::zero(); P]; M];
        for i in 0..M {
            for p in 0..P {
                sums[i][p] = L::load(out.add((i * P + p) * L::WIDTH));
            }
        }
        for segment in segments {
            let (mut a, mut b) = (segment.a.add(first), segment.b);
            for _ in 0..segment.count {
                let mut right = [L::zero(); P];
                for (p, vector) in right.iter_mut().enumerate() {
                    *vector = L::load(b.add(p * L::WIDTH));
                }
                for i in 0..M {
                    let left = L::splat(a.add(i));
                    for p in 0..P {
                        sums[i][p] = L::multiply_add(left, right[p], sums[i][p]);
                    }
                }
                a = a.wrapping_add(segment.a_stride);
                b = b.wrapping_add(segment.b_stride);
            }
        }
        for i in 0..M {
            for p in 0..P {
                L::store(out.add((i * P + p) * L::WIDTH), sums[i][p]);
            }
        }
    }
}

/// `m` rows in passes of 8 (when `WIDE`), 4, 2 and 1.
///
/// # Safety
/// As [`Tiles::outer_products`], where `NR` is `P * L::WIDTH`; the processor has the instruction set of `L`.
#[inline(always)]
unsafe fn outer_products_of<L: Lanes, const WIDE: bool, const P: usize>(
    m: usize,
    segments: &[Segment<L::Element>],
    out: *mut L::Element,
) {
    let mut first = 0;
    // SAFETY: `first + M <= m` in every call.
    unsafe {
        while first < m {
            match m - first {
                8.. if WIDE => {
                    outer_products::<L, 8, P>(first, segments, out);
                    first += 8;
                }
                4.. if WIDE => {
                    outer_products::<L, 4, P>(first, segments, out);
                    first += 4;
                }
                2.. => {
                    outer_products::<L, 2, P>(first, segments, out);
                    first += 2;
                }
                _ => {
                    outer_products::<L, 1, P>(first, segments, out);
                    first += 1;
                }
            }
        }
    }
}

/// One vector type: name, element, intrinsics' prefix.
#[cfg(target_arch = "x86_64")]
macro_rules! lanes {
    ($name:ident, $element:ty, $vector:ident, $width:literal, $zero:ident, $load:ident, $splat:ident, $store:ident, $fma:ident) => {
        struct $name;
        impl Lanes for $name {
            type Element = $element;
            type Vector = std::arch::x86_64::$vector;
            const WIDTH: usize = $width;
            #[inline(always)]
            unsafe fn zero() -> Self::Vector {
                // SAFETY: only called inside functions compiled for this instruction set, as are all below.
                unsafe { std::arch::x86_64::$zero() }
            }
            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self::Vector {
                // SAFETY: the caller's pointer is readable for the whole vector.
                unsafe { std::arch::x86_64::$load(from) }
            }
            #[inline(always)]
            unsafe fn splat(from: *const $element) -> Self::Vector {
                // SAFETY: the caller's pointer is readable.
                unsafe { std::arch::x86_64::$splat(*from) }
            }
            #[inline(always)]
            unsafe fn store(to: *mut $element, vector: Self::Vector) {
                // SAFETY: the caller's pointer is writable for the whole vector.
                unsafe { std::arch::x86_64::$store(to, vector) }
            }
            #[inline(always)]
            unsafe fn multiply_add(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
                // SAFETY: arithmetic only.
                unsafe { std::arch::x86_64::$fma(a, b, c) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
lanes!(
    Avx512F32,
    f32,
    __m512,
    16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_set1_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps
);
#[cfg(target_arch = "x86_64")]
lanes!(
    Avx512F64,
    f64,
    __m512d,
    8,
    _mm512_setzero_pd,
    _mm512_loadu_pd,
    _mm512_set1_pd,
    _mm512_storeu_pd,
    _mm512_fmadd_pd
);
#[cfg(target_arch = "x86_64")]
lanes!(Avx2F32, f32, __m256, 8, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm256_fmadd_ps);
#[cfg(target_arch = "x86_64")]
lanes!(Avx2F64, f64, __m256d, 4, _mm256_setzero_pd, _mm256_loadu_pd, _mm256_set1_pd, _mm256_storeu_pd, _mm256_fmadd_pd);

/// Four values that the compiler may or may not put into a vector register.
struct Portable<T>(std::marker::PhantomData<T>);

macro_rules! portable {
    ($element:ty) => {
        impl Lanes for Portable<$element> {
            type Element = $element;
            type Vector = [$element; 4];
            const WIDTH: usize = 4;
            #[inline(always)]
            unsafe fn zero() -> Self::Vector {
                [0.0; 4]
            }
            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self::Vector {
                // SAFETY: the caller's pointer is readable for four values.
                unsafe { from.cast::<Self::Vector>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn splat(from: *const $element) -> Self::Vector {
                // SAFETY: the caller's pointer is readable.
                unsafe { [*from; 4] }
            }
            #[inline(always)]
            unsafe fn store(to: *mut $element, vector: Self::Vector) {
                // SAFETY: the caller's pointer is writable for four values.
                unsafe { to.cast::<Self::Vector>().write_unaligned(vector) }
            }
            #[inline(always)]
            unsafe fn multiply_add(a: Self::Vector, b: Self::Vector, mut c: Self::Vector) -> Self::Vector {
                for i in 0..4 {
                    c[i] += a[i] * b[i];
                }
                c
            }
        }
    };
}
portable!(f32);
portable!(f64);

macro_rules! tiles {
    ($element:ty, $nr:literal, $avx512:ident, $avx2:ident) => {
        impl Tiles for $element {
            const NR: usize = $nr;

            unsafe fn rows_times_panel(
                taps: usize,
                depth: usize,
                rows: *const *const $element,
                panel: *const $element,
                out: *mut $element,
            ) {
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
                    unsafe fn avx512(
                        t: usize,
                        d: usize,
                        r: *const *const $element,
                        p: *const $element,
                        o: *mut $element,
                    ) {
                        // SAFETY: the caller upholds the requirements.
                        unsafe { rows_times_panel::<$avx512, 8, 2>(t, d, r, p, o) }
                    }
                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn avx2(
                        t: usize,
                        d: usize,
                        r: *const *const $element,
                        p: *const $element,
                        o: *mut $element,
                    ) {
                        // SAFETY: the caller upholds the requirements.
                        unsafe { rows_times_panel::<$avx2, 2, 4>(t, d, r, p, o) }
                    }
                    match isa() {
                        // SAFETY: `isa` found the features; the caller upholds the requirements.
                        Isa::Avx512 => return unsafe { avx512(taps, depth, rows, panel, out) },
                        // SAFETY: as above.
                        Isa::Avx2 => return unsafe { avx2(taps, depth, rows, panel, out) },
                        Isa::Portable => {}
                    }
                }
                // SAFETY: the caller upholds the requirements.
                unsafe { rows_times_panel::<Portable<$element>, 1, { $nr / 4 }>(taps, depth, rows, panel, out) }
            }

            unsafe fn outer_products(m: usize, segments: &[Segment<$element>], out: *mut $element) {
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
                    unsafe fn avx512(m: usize, s: &[Segment<$element>], o: *mut $element) {
                        // SAFETY: the caller upholds the requirements.
                        unsafe { outer_products_of::<$avx512, true, 2>(m, s, o) }
                    }
                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn avx2(m: usize, s: &[Segment<$element>], o: *mut $element) {
                        // SAFETY: the caller upholds the requirements.
                        unsafe { outer_products_of::<$avx2, false, 4>(m, s, o) }
                    }
                    match isa() {
                        // SAFETY: `isa` found the features; the caller upholds the requirements.
                        Isa::Avx512 => return unsafe { avx512(m, segments, out) },
                        // SAFETY: as above.
                        Isa::Avx2 => return unsafe { avx2(m, segments, out) },
                        Isa::Portable => {}
                    }
                }
                // SAFETY: the caller upholds the requirements.
                unsafe { outer_products_of::<Portable<$element>, false, { $nr / 4 }>(m, segments, out) }
            }
        }
    };
}
tiles!(f32, 32, Avx512F32, Avx2F32);
tiles!(f64, 16, Avx512F64, Avx2F64);
