//! This GPU's roofline: the speed of a large matrix product and of a large copy.

use super::arguments::{CastArgs, CopyRowsArgs, RandomArgs, int, long};
use super::cublas::Gemm;
use super::kernels::{CopyUnit, ElementType, KernelName};
use super::session::Session;
use crate::error::Result;

/// Rows and columns of the product: 1.1 TFLOP.
const SIDE: usize = 8192;
/// Bytes of the copy: far beyond any cache.
const COPY: usize = 1 << 30;
const REPEATS: usize = 8;

impl Session {
    /// Floating-point operations per second of a bf16 product of random numbers, and bytes read and written per second
    /// of a copy.
    pub fn roofline(&self) -> Result<(f64, f64)> {
        let device = &self.device;
        let (from, to) = (device.alloc(COPY)?, device.alloc(COPY)?);
        let mut libraries = self.lock();
        let (grid, block) = ([device.multiprocessors * 16, 1, 1], [256, 1, 1]);
        let (kernels, n) = (&mut libraries.kernels, long(2 * SIDE * SIDE));
        let arguments = RandomArgs { out: to.address, kind: 0, seed: 0, purpose: 0, step: to.address, n };
        let random = kernels.launch(KernelName::Random, grid, block, &arguments)?;
        let kernel = KernelName::Cast { from: ElementType::F32, to: ElementType::Bf16, pack: 8 };
        let narrow = kernels.launch(kernel, grid, block, &CastArgs { out: from.address, x: to.address, n })?;
        let (width, pitch) = (int(COPY / 16), long(COPY / 16));
        let arguments =
            CopyRowsArgs { out: to.address, x: from.address, rows: 1, width, out_pitch: pitch, x_pitch: pitch };
        let copy = kernels.launch(KernelName::CopyRows { unit: CopyUnit::Sixteen }, grid, block, &arguments)?;
        let gemm = Gemm {
            m: SIDE,
            n: SIDE,
            k: SIDE,
            alpha: 1.0,
            a: from.address,
            b: from.address + 2 * (SIDE * SIDE) as u64,
            out: to.address,
            transpose: [false, true],
            pitches: [SIDE; 3],
            strides: [0; 3],
            batch: 1,
            addresses: None,
            half: true,
            half_out: true,
            tf32: true,
        };
        random.enqueue(device, device.stream, false)?;
        narrow.enqueue(device, device.stream, false)?;
        libraries.cublas[0].enqueue(&gemm)?;
        let product = device.time(|| (0..REPEATS).try_for_each(|_| libraries.cublas[0].enqueue(&gemm)))?;
        copy.enqueue(device, device.stream, false)?;
        let copied = device.time(|| (0..REPEATS).try_for_each(|_| copy.enqueue(device, device.stream, false)))?;
        let per_second = |each: f64, milliseconds: f32| each * REPEATS as f64 / f64::from(milliseconds) * 1e3;
        Ok((per_second(2.0 * (SIDE as f64).powi(3), product), per_second(2.0 * COPY as f64, copied)))
    }
}
