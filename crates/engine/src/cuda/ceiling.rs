//! What this GPU reaches at best: a large matrix product and a large copy.

use super::cublas::Gemm;
use super::driver::Launch;
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
    pub fn ceilings(&self) -> Result<(f64, f64)> {
        let device = &self.device;
        let (from, to) = (device.alloc(COPY)?, device.alloc(COPY)?);
        let mut libraries = self.lock();
        let mut launch = |name: &str, arguments: Vec<u64>| -> Result<Launch> {
            let function = libraries.kernels.get(name)?;
            let grid = [device.multiprocessors as u32 * 16, 1, 1];
            Ok(Launch { function, grid, block: [256, 1, 1], shared: 0, cluster: 1, arguments })
        };
        let elements = 2 * SIDE * SIDE;
        let random = launch("random_float", vec![to.address, 1, 0, 0, to.address, elements as u64])?;
        let narrow = launch("cast_float_bf16_8", vec![from.address, to.address, elements as u64])?;
        let units = (COPY / 16) as u64;
        let copy = launch("copy_rows_uint4", vec![to.address, from.address, 1, units, units, units])?;
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
