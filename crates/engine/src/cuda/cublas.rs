//! Matrix products by cuBLAS.
#![allow(unsafe_code)]

use super::driver::{Address, Buffer, CudaDevice, Handle};
use super::library::library;
use crate::error::{Error, Result};
use cudarc::cublas::sys;
use cudarc::cublas::sys::cublasComputeType_t::*;
use cudarc::cublas::sys::{cublasGemmAlgo_t, cudaDataType};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

library!(
    /// Functions of `libcublas`.
    CublasFunctions, sys, "cuBLAS (libcublas)", "SOFTDIFF_CUBLAS",
    &["libcublas.so.13", "libcublas.so.12", "libcublas.so", "/usr/local/cuda/lib64/libcublas.so"],
    "pip install nvidia-cudnn-cu13 nvidia-cuda-nvrtc nvidia-cublas, in an active virtual environment (CUDA 12: docs/install.md)",
    {
        create: cublasCreate_v2 (*mut Handle);
        set_stream: cublasSetStream_v2 (Handle, *mut c_void);
        set_workspace: cublasSetWorkspace_v2 (Handle, Address, usize);
        gemm: cublasGemmStridedBatchedEx (
            Handle, c_int, c_int, c_int, c_int, c_int, *const f32, Address, c_int, c_int, i64, Address, c_int, c_int, i64,
            *const f32, Address, c_int, c_int, i64, c_int, c_int, c_int);
        gemm_many: cublasGemmBatchedEx (
            Handle, c_int, c_int, c_int, c_int, c_int, *const f32, Address, c_int, c_int, Address, c_int, c_int,
            *const f32, Address, c_int, c_int, c_int, c_int, c_int);
        version: cublasGetVersion_v2 (Handle, *mut c_int);
    }
);

/// A batch of row-major products `out = alpha op(a) op(b)`.
#[derive(Clone, Debug)]
pub(super) struct Gemm {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: f32,
    pub a: Address,
    pub b: Address,
    pub out: Address,
    pub transpose: [bool; 2],
    /// Elements from one row of a stored matrix to the next: of `a`, `b`, `out`.
    pub pitches: [usize; 3],
    /// Elements between the matrices of a batch; 0 repeats one.
    pub strides: [usize; 3],
    pub batch: usize,
    /// Where on the device the addresses of the batch's matrices are, if these are not evenly apart: of all `a`, `b`, `out`.
    pub addresses: Option<Address>,
    /// Whether `a` and `b` are bf16.
    pub half: bool,
    /// Whether `out` is bf16.
    pub half_out: bool,
    /// Whether f32 inputs may be rounded to TF32.
    pub tf32: bool,
}

impl Gemm {
    /// Whether both are one product that differ only in where the matrices are.
    pub fn shaped_as(&self, other: &Gemm) -> bool {
        let kind = |g: &Gemm| (g.alpha, g.transpose, g.half, g.half_out, g.tf32, g.addresses, g.batch);
        let sizes = |g: &Gemm| ([g.m, g.n, g.k], g.pitches);
        kind(self) == kind(other) && sizes(self) == sizes(other) && self.batch == 1 && self.addresses.is_none()
    }
}

/// A cuBLAS handle on a stream.
pub(super) struct Cublas {
    library: &'static CublasFunctions,
    handle: Handle,
    _workspace: Buffer,
}

// SAFETY: the handle is used by one executor at a time, after entering the context.
unsafe impl Send for Cublas {}

/// NVIDIA recommends 32 MiB on Hopper.
const WORKSPACE: usize = 32 << 20;

impl Cublas {
    /// A handle for one of a device's streams; each needs a workspace of its own.
    pub fn new(device: &Arc<CudaDevice>, stream: Handle) -> Result<Cublas> {
        let library = CublasFunctions::get()?;
        let workspace = device.alloc(WORKSPACE)?;
        let mut handle = null_mut();
        // SAFETY: a valid out-pointer, then a live handle, stream and workspace.
        unsafe {
            check("starting cuBLAS", (library.create)(&mut handle))?;
            check("setting cuBLAS's stream", (library.set_stream)(handle, stream))?;
            check("setting cuBLAS's workspace", (library.set_workspace)(handle, workspace.address, WORKSPACE))?;
        }
        Ok(Cublas { library, handle, _workspace: workspace })
    }

    pub fn enqueue(&self, g: &Gemm) -> Result<()> {
        static ZERO: f32 = 0.0;
        const F32: c_int = cudaDataType::CUDA_R_32F as c_int;
        const BF16: c_int = cudaDataType::CUDA_R_16BF as c_int;
        let kind = if g.half { BF16 } else { F32 };
        let out_kind = if g.half_out { BF16 } else { F32 };
        let compute = match (g.half, g.tf32) {
            (true, _) => CUBLAS_COMPUTE_32F,
            (false, true) => CUBLAS_COMPUTE_32F_FAST_TF32,
            (false, false) => CUBLAS_COMPUTE_32F_PEDANTIC,
        } as c_int;
        const USUAL: c_int = cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT as c_int;
        let (alpha, beta) = (&raw const g.alpha, &raw const ZERO);
        let [ta, tb] = g.transpose.map(c_int::from);
        let [m, n, k, batch] = [g.m, g.n, g.k, g.batch].map(|size| size as c_int);
        let [pa, pb, po] = g.pitches.map(|pitch| pitch as c_int);
        let [sa, sb, so] = g.strides.map(|stride| stride as i64);
        let (blas, at) = (self.library, self.handle);
        // cuBLAS is column-major: it computes out^T = op(b)^T op(a)^T.
        // SAFETY: the caller's matrices, and the table of their addresses, are within live buffers; alpha and beta are read
        // before the call returns.
        let status = unsafe {
            match g.addresses {
                None => (blas.gemm)(
                    at, tb, ta, n, m, k, alpha, g.b, kind, pb, sb, g.a, kind, pa, sa, beta, g.out, out_kind, po, so,
                    batch, compute, USUAL,
                ),
                Some(table) => {
                    let [a, b, out] = [0, 1, 2].map(|i| table + 8 * (i * g.batch) as u64);
                    (blas.gemm_many)(
                        at, tb, ta, n, m, k, alpha, b, kind, pb, a, kind, pa, beta, out, out_kind, po, batch, compute,
                        USUAL,
                    )
                }
            }
        };
        check("a matrix product", status)
    }

    /// The library's version, such as 130000.
    pub fn version(&self) -> i32 {
        let mut version = 0;
        // SAFETY: a live handle and a valid out-pointer.
        unsafe { (self.library.version)(self.handle, &mut version) };
        version
    }
}

fn check(what: &str, status: i32) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    let hint = "run `softdiff doctor`; after a device error, start the program again".into();
    Err(Error::Device { what: what.into(), problem: format!("cuBLAS status {status}"), hint })
}
