//! The kernels of share_sum.cu, compiled for the host by the system's C++ compiler: one thread does what all would do.
#![allow(unsafe_code)]

use super::*;
use crate::cuda::library::SharedLibrary;
use crate::ranks::ShareSum;
use crate::rng::Stream;
use std::process::Command;

/// What the kernels need of CUDA.
const PRELUDE: &str = r#"
#include <math.h>
typedef unsigned u32; typedef long long i64; typedef unsigned short u16;
struct bf16 { u16 bits; };
struct { unsigned x; } blockIdx = {0}, threadIdx = {0}, blockDim = {1}, gridDim = {1};
static float widen(float x) { return x; }
static float widen(bf16 x) { u32 bits = (u32)x.bits << 16; float out; __builtin_memcpy(&out, &bits, 4); return out; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fadd_rn(float a, float b) { return a + b; }
static int __ffs(int x) { return __builtin_ffs(x); }
#define __global__
#define await_previous()
"#;
const LENGTH: usize = 101;

type ShareAdd = unsafe extern "C" fn(*const SharePiece, *const u32, i64, i32, *const u32, i32, f32);
type RowsSum = unsafe extern "C" fn(*mut f32, i64, i32, i32, *const f32, i32, i64);

/// The kernels as functions; none without a compiler.
fn kernels() -> Option<(ShareAdd, RowsSum)> {
    let folder = std::env::temp_dir().join(format!("softdiff-share-sum-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, library) = (folder.join("share_sum.cpp"), folder.join("share_sum.so"));
    std::fs::write(&source, format!("{PRELUDE}{}", include_str!("../kernels/share_sum.cu"))).unwrap();
    let flags = ["-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o"];
    let Ok(made) = Command::new("c++").args(flags).arg(&library).arg(&source).output() else {
        println!("skipped: there is no C++ compiler");
        return None;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let loaded = SharedLibrary::open("the kernels", "SOFTDIFF_NONE", &[library.to_str().unwrap()], "").unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    // SAFETY: the parameters of kernels/share_sum.cu.
    unsafe { Some((loaded.function("share_add").unwrap(), loaded.function("rows_sum").unwrap())) }
}

/// Numbers of very different sizes, whose sum depends on the order.
fn share(number: u64) -> Vec<f32> {
    let stream = Stream { seed: 1, purpose: 2, step: number as u32 };
    (0..LENGTH as u64).map(|i| stream.normal(2 * i) * (6.0 * stream.normal(2 * i + 1)).exp()).collect()
}

/// The buffers of sums after these shares.
fn summed(add: ShareAdd, additions: &Additions, first: u64, factor: f32) -> Vec<f32> {
    let table: Vec<u32> = additions.each.iter().flat_map(|&Addition { levels, to }| [levels, to]).collect();
    let mut sums = vec![f32::NAN; LENGTH * additions.buffers];
    for number in first..first + additions.each.len() as u64 {
        let (gradient, step) = (share(number), [0, number as u32]);
        let piece = SharePiece {
            gradient: gradient.as_ptr().addr() as u64,
            sum: sums.as_mut_ptr().addr() as u64,
            count: LENGTH as i32,
            half: 0,
        };
        let (lowest, stride) = (additions.lowest as i32, LENGTH as i64);
        // SAFETY: one piece within live memory, and a table with a row for this share.
        unsafe { add(&piece, table.as_ptr(), stride, lowest, step.as_ptr(), first as i32, factor) };
    }
    sums.truncate(LENGTH * additions.subtrees);
    sums
}

/// The bits of the CPU's sum.
fn on_host(shares: u64, factor: f32) -> Vec<u32> {
    let mut sum = ShareSum::new(shares);
    (0..shares).for_each(|number| sum.add(share(number).into_iter().map(|value| value * factor).collect()));
    bits(&sum.finish(None).unwrap())
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn the_kernels_structs_are_as_large_as_the_hosts() {
    let source = include_str!("../kernels/share_sum.cu");
    for (name, size) in [("SharePiece", size_of::<SharePiece>()), ("Addition", size_of::<Addition>())] {
        assert!(source.contains(&format!("static_assert(sizeof({name}) == {size},")), "{name}");
    }
}

#[test]
fn the_kernels_add_in_the_order_of_the_cpu_on_any_number_of_ranks() {
    let Some((add, rows_sum)) = kernels() else { return };
    for shares in [2, 3, 5, 8, 12, 13] {
        let factor = 1.0 / shares as f32;
        let wanted = on_host(shares, factor);
        assert_eq!(bits(&summed(add, &Additions::alone(shares), 0, factor)), wanted, "{shares} shares");
        for ranks in (1..=shares).filter(|ranks| shares.is_multiple_of(*ranks)) {
            let each = shares / ranks;
            let of_rank = |rank: u64| summed(add, &Additions::among_others(each), rank * each, factor);
            let rows: Vec<f32> = (0..ranks).flat_map(of_rank).collect();
            let (own, count) = (rows.len() / LENGTH / ranks as usize, (rows.len() / LENGTH) as i32);
            for rank in 0..ranks as usize {
                let place = own * LENGTH * rank..own * LENGTH * (rank + 1);
                // What a rank has itself is not received.
                let (mut sum, mut received) = (rows[place.clone()].to_vec(), rows.clone());
                received[place].fill(f32::NAN);
                let (out, first, pitch) = (sum.as_mut_ptr(), own * rank, LENGTH as i64);
                // SAFETY: rows of the sum's length, of which `out` has as many as this rank has.
                unsafe { rows_sum(out, pitch, first as i32, own as i32, received.as_ptr(), count, pitch) };
                assert_eq!(bits(&sum[..LENGTH]), wanted, "{shares} shares, rank {rank} of {ranks}");
            }
        }
    }
}
