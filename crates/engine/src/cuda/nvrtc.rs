//! Compiling our kernels at run time, and keeping the result on disk.
#![allow(unsafe_code)]

use super::library::library;
use crate::cache;
use crate::error::{Error, Result};
use cudarc::nvrtc::sys;
use rayon::prelude::*;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io::Write;
use std::ptr::{null, null_mut};

type Program = *mut c_void;

library!(
    /// Functions of `libnvrtc`.
    Nvrtc, sys, "NVIDIA's run-time compiler (libnvrtc)", "SOFTDIFF_NVRTC",
    &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"],
    "pip install nvidia-cudnn-cu13 nvidia-cuda-nvrtc nvidia-cublas, in an active virtual environment (CUDA 12: docs/install.md)",
    {
        create: nvrtcCreateProgram (*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
        compile: nvrtcCompileProgram (Program, c_int, *const *const c_char);
        destroy: nvrtcDestroyProgram (*mut Program);
        log_size: nvrtcGetProgramLogSize (Program, *mut usize);
        log: nvrtcGetProgramLog (Program, *mut c_char);
        cubin_size: nvrtcGetCUBINSize (Program, *mut usize);
        cubin: nvrtcGetCUBIN (Program, *mut c_char);
        version: nvrtcVersion (*mut c_int, *mut c_int);
    }
);

/// What every program begins with.
const COMMON: &str = include_str!("kernels/common.cuh");

/// Attention for a number of channels.
macro_rules! attention {
    ($channels:literal) => {
        concat!(
            "#define CHANNELS ",
            $channels,
            "\n",
            include_str!("kernels/tensor.cuh"),
            include_str!("kernels/multiply.cuh"),
            include_str!("kernels/attention.cuh"),
            include_str!("kernels/attention.cu")
        )
    };
}

/// Group norm in one pass for some cuts of images; see lower/group_norm_one_pass.rs.
macro_rules! norm {
    ($cuts:literal) => {
        concat!(include_str!("kernels/group_norm_one_pass.cuh"), include_str!("kernels/group_norm_one_pass.cu"), $cuts)
    };
}

/// Our kernels, as programs of similar size that are compiled in parallel.
const PROGRAMS: [&str; 12] = [
    concat!(include_str!("kernels/elementwise.cu"), include_str!("kernels/image.cu"), include_str!("kernels/fir.cu")),
    concat!(
        include_str!("kernels/reduce.cu"),
        include_str!("kernels/optim.cu"),
        include_str!("kernels/share_sum.cu"),
        include_str!("kernels/record.cu"),
        include_str!("kernels/products.cu")
    ),
    concat!(
        include_str!("kernels/group_norm.cu"),
        include_str!("kernels/group_norm_any.cu"),
        include_str!("kernels/group_norm_chunks.cu")
    ),
    norm!("ANY(1, 4) ANY(2, 4) ANY(4, 2) ANY(8, 2)"),
    norm!("KNOWN(8, 16, 2) KNOWN(8, 32, 2) KNOWN(8, 48, 2)"),
    norm!("KNOWN(4, 32, 3) KNOWN(4, 64, 3) KNOWN(4, 96, 3)"),
    norm!("KNOWN(2, 64, 4) KNOWN(1, 128, 4)"),
    concat!(include_str!("kernels/tensor.cuh"), include_str!("kernels/conv_f16x2.cu")),
    concat!(include_str!("kernels/multiply.cuh"), include_str!("kernels/rgb_conv.cu")),
    attention!(64),
    attention!(128),
    attention!(256),
];

/// Programs that are compiled at a time: all twelve at once take 670 MB, six 430.
const AT_ONCE: usize = 6;

/// Compiles a program for a compute capability.
fn compile(program: &str, (major, minor): (i32, i32)) -> Result<Vec<u8>> {
    let nvrtc = Nvrtc::get()?;
    let failed = |what: &str, problem: String| Error::Device {
        what: what.into(),
        problem,
        hint: "this is a defect of softdiff or a compiler too old for this GPU".into(),
    };
    let source =
        CString::new(format!("{COMMON}{program}")).map_err(|e| failed("reading the kernels", e.to_string()))?;
    let architecture = format!("--gpu-architecture=sm_{major}{minor}");
    let options = [architecture.as_str(), "--std=c++17", "-default-device"].map(CString::new);
    let options: Vec<CString> = options.into_iter().flatten().collect();
    let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
    let mut program = null_mut();
    // SAFETY: NUL-terminated strings and buffers of the sizes the library tells.
    unsafe {
        let name = c"softdiff.cu";
        let status = (nvrtc.create)(&mut program, source.as_ptr(), name.as_ptr(), 0, null(), null());
        if status != 0 {
            return Err(failed("starting the compiler", format!("status {status}")));
        }
        let status = (nvrtc.compile)(program, pointers.len() as c_int, pointers.as_ptr());
        let mut size = 0;
        let result = if status == 0 {
            (nvrtc.cubin_size)(program, &mut size);
            let mut cubin = vec![0u8; size];
            (nvrtc.cubin)(program, cubin.as_mut_ptr().cast());
            Ok(cubin)
        } else {
            (nvrtc.log_size)(program, &mut size);
            let mut log = vec![0u8; size];
            (nvrtc.log)(program, log.as_mut_ptr().cast());
            Err(failed("compiling the kernels", String::from_utf8_lossy(&log).trim_end_matches('\0').into()))
        };
        (nvrtc.destroy)(&mut program);
        result
    }
}

/// Checks quickly that kernels can be compiled for a compute capability.
pub fn check(capability: (i32, i32)) -> Result<()> {
    cached("extern \"C\" __global__ void nothing() { await_previous(); }", capability).map(drop)
}

/// The compiled kernels, from the cache if they are there, else compiled in parallel.
pub fn cubins(capability: (i32, i32)) -> Result<Vec<Vec<u8>>> {
    let failed = |problem: rayon::ThreadPoolBuildError| Error::Device {
        what: "starting the threads of the compiler".into(),
        problem: problem.to_string(),
        hint: "end programs that have many threads".into(),
    };
    let threads = rayon::ThreadPoolBuilder::new().num_threads(AT_ONCE).build().map_err(failed)?;
    threads.install(|| PROGRAMS.par_iter().map(|program| cached(program, capability)).collect())
}

/// A compiled program, from the cache if it is there.
fn cached(program: &str, capability: (i32, i32)) -> Result<Vec<u8>> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: valid out-pointers.
    unsafe { (Nvrtc::get()?.version)(&mut major, &mut minor) };
    let hash = hash(&format!("{COMMON}{program}"));
    let key = format!("kernels-{hash:016x}-sm{}{}-nvrtc{major}.{minor}.cubin", capability.0, capability.1);
    if let Some(bytes) = cache::file(&key).and_then(|path| std::fs::read(path).ok()) {
        // A cubin is an ELF file; anything else is a damaged cache.
        if bytes.starts_with(b"\x7fELF") {
            return Ok(bytes);
        }
    }
    let bytes = compile(program, capability)?;
    cache::store(&key, |file| file.write_all(&bytes));
    Ok(bytes)
}

/// FNV-1a, 64 bits.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_begins_by_waiting_for_what_it_follows() {
        for program in PROGRAMS {
            // Loads through such pointers may be moved before the wait.
            assert!(!program.contains("__restrict__"));
            for kernel in program.split("__global__").skip(1) {
                let (head, body) = kernel.split_once('{').expect("a kernel has a body");
                assert!(body.trim_start_matches([' ', '\\', '\n']).starts_with("await_previous();"), "{head}");
            }
        }
    }

    #[test]
    fn the_kernels_compile_for_old_and_new_gpus() {
        if let Err(error) = Nvrtc::get() {
            println!("skipped: {error}");
            return;
        }
        for capability in [(7, 5), (8, 0), (9, 0), (12, 0)] {
            for program in PROGRAMS {
                match compile(program, capability) {
                    Ok(cubin) => assert!(cubin.starts_with(b"\x7fELF")),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    #[test]
    fn a_gpu_that_the_compiler_does_not_know_is_an_error_at_once() {
        if Nvrtc::get().is_ok() {
            assert!(compile("", (9, 0)).is_ok());
            let error = compile("", (1, 0)).expect_err("no compiler knows it").to_string();
            assert!(error.contains("arch"), "{error}");
        }
    }
}
