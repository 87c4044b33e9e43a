//! The CUDA driver: its library and the device; memory, streams and kernels are in their own files.
#![allow(unsafe_code)]

mod kernel;
mod memory;
mod stream;

use super::library::library;
use crate::error::{Error, Result};
use cudarc::driver::sys;
use cudarc::driver::sys::CUdevice_attribute::*;
use cudarc::driver::sys::CUstream_flags::CU_STREAM_NON_BLOCKING;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

pub(super) use kernel::{CudaFunction, Launch, Module, USUAL_SHARED};
pub use memory::Buffer;
pub(super) use memory::Pinned;
pub(super) use stream::{CudaEvent, CudaGraph};

pub(super) type Handle = *mut c_void;
/// An address on the device.
pub type Address = u64;

library!(
    /// Functions of `libcuda`.
    Driver, sys, "the NVIDIA driver (libcuda)", "SOFTDIFF_LIBCUDA", &["libcuda.so.1", "libcuda.so"],
    "without an NVIDIA driver everything that runs on the CPU still works",
    {
        init: cuInit (c_uint);
        version: cuDriverGetVersion (*mut c_int);
        device_count: cuDeviceGetCount (*mut c_int);
        device_get: cuDeviceGet (*mut c_int, c_int);
        device_name: cuDeviceGetName (*mut c_char, c_int, c_int);
        device_attribute: cuDeviceGetAttribute (*mut c_int, c_int, c_int);
        device_uuid: cuDeviceGetUuid_v2 (*mut [u8; 16], c_int);
        context_retain: cuDevicePrimaryCtxRetain (*mut Handle, c_int);
        context_set: cuCtxSetCurrent (Handle);
        memory_info: cuMemGetInfo_v2 (*mut usize, *mut usize);
        alloc: cuMemAlloc_v2 (*mut Address, usize);
        free: cuMemFree_v2 (Address);
        alloc_host: cuMemAllocHost_v2 (*mut *mut c_void, usize);
        free_host: cuMemFreeHost (*mut c_void);
        to_device: cuMemcpyHtoDAsync_v2 (Address, *const c_void, usize, Handle);
        to_host: cuMemcpyDtoHAsync_v2 (*mut c_void, Address, usize, Handle);
        fill_bytes: cuMemsetD8Async (Address, u8, usize, Handle);
        fill_words: cuMemsetD32Async (Address, c_uint, usize, Handle);
        stream_create: cuStreamCreate (*mut Handle, c_uint);
        stream_wait: cuStreamWaitEvent (Handle, Handle, c_uint);
        stream_synchronize: cuStreamSynchronize (Handle);
        begin_capture: cuStreamBeginCapture_v2 (Handle, c_int);
        end_capture: cuStreamEndCapture (Handle, *mut Handle);
        graph_instantiate: cuGraphInstantiateWithFlags (*mut Handle, Handle, u64);
        graph_launch: cuGraphLaunch (Handle, Handle);
        graph_destroy: cuGraphDestroy (Handle);
        graph_exec_destroy: cuGraphExecDestroy (Handle);
        module_load: cuModuleLoadData (*mut Handle, *const c_void);
        module_function: cuModuleGetFunction (*mut Handle, Handle, *const c_char);
        function_attribute: cuFuncSetAttribute (Handle, c_int, c_int);
        launch: cuLaunchKernelEx (*const sys::CUlaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
        event_create: cuEventCreate (*mut Handle, c_uint);
        event_destroy: cuEventDestroy_v2 (Handle);
        event_record: cuEventRecord (Handle, Handle);
        event_synchronize: cuEventSynchronize (Handle);
        event_elapsed: cuEventElapsedTime (*mut f32, Handle, Handle);
        error_name: cuGetErrorName (c_int, *mut *const c_char);
    }
);

/// The oldest GPUs and drivers that work.
const OLDEST: (i32, i32) = (7, 0);
const OLDEST_DRIVER: i32 = 12_000;
/// From these on a kernel may start before the one it follows has ended, also in graphs.
const EARLY_START: (i32, i32) = (9, 0);
const EARLY_START_DRIVER: i32 = 12_030;

impl Driver {
    /// Turns a status into a result.
    pub fn check(&self, what: &str, status: i32) -> Result<()> {
        const OUT_OF_MEMORY: i32 = sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as i32;
        if status == 0 {
            return Ok(());
        }
        let mut name = null();
        // SAFETY: writes a pointer to a static string, or null.
        unsafe { (self.error_name)(status, &mut name) };
        // SAFETY: a non-null name is NUL-terminated and static.
        let name = if name.is_null() { "unknown".into() } else { unsafe { CStr::from_ptr(name) }.to_string_lossy() };
        let hint = match status {
            OUT_OF_MEMORY => "use a smaller batch, or free the GPU (nvidia-smi shows who uses it)",
            35 | 803 => "the driver is older than the CUDA libraries: update it",
            100 | 101 => "no such GPU: nvidia-smi lists those there are",
            46 | 802 => "another process holds the GPU, or it is not ready: nvidia-smi shows who uses it",
            214 | 220 | 700..=720 | 999 => {
                "the GPU was lost to this process: start the program again; training continues from its checkpoint"
            }
            _ => "run `softdiff doctor`; after a device error, start the program again",
        };
        Err(Error::Device { what: what.into(), problem: format!("{name} ({status})"), hint: hint.into() })
    }
}

/// Properties of a GPU that decide which kernels it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// Compute capability, such as (9, 0).
    pub capability: (i32, i32),
    /// Bytes of shared memory that a block can have.
    pub shared: usize,
}

impl Chip {
    /// H100 and H200.
    pub const HOPPER: Chip = Chip { capability: (9, 0), shared: 227 << 10 };
}

/// A GPU with its streams.
pub struct CudaDevice {
    pub(super) driver: &'static Driver,
    context: Handle,
    number: c_int,
    pub(super) stream: Handle,
    /// The second stream; used only between a fork and a join.
    pub(super) side: Handle,
    /// The stream of copies from the host.
    pub(super) copies: Handle,
    /// Its ordinal.
    pub ordinal: usize,
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// Its capability and limits.
    pub chip: Chip,
    /// Number of multiprocessors.
    pub multiprocessors: usize,
    /// The driver's CUDA version, such as 13000.
    pub driver_version: i32,
    /// Whether kernels of ours may start before what they follow has ended.
    pub(super) starts_early: bool,
}

// SAFETY: the handles are process-wide; every call first makes the context current on its thread.
unsafe impl Send for CudaDevice {}
// SAFETY: as above; the driver's functions are thread-safe.
unsafe impl Sync for CudaDevice {}

impl CudaDevice {
    /// Opens GPU number `ordinal`.
    pub fn open(ordinal: usize) -> Result<Arc<CudaDevice>> {
        let driver = Driver::get()?;
        let (mut count, mut device, mut version, mut context) = (0, 0, 0, null_mut());
        let [mut stream, mut side, mut copies] = [null_mut(); 3];
        // SAFETY: plain calls with valid out-pointers, in the order the driver asks for.
        unsafe {
            driver.check("starting CUDA", (driver.init)(0))?;
            driver.check("asking for the driver's version", (driver.version)(&mut version))?;
            if version < OLDEST_DRIVER {
                return Err(Error::Device {
                    what: format!("the NVIDIA driver is for CUDA {}.{}", version / 1000, version % 1000 / 10),
                    problem: "at least CUDA 12.0 is needed".into(),
                    hint: "update the driver to 525 or newer, or use --device cpu".into(),
                });
            }
            driver.check("counting GPUs", (driver.device_count)(&mut count))?;
            if ordinal >= count as usize {
                return Err(Error::Device {
                    what: format!("there is no GPU number {ordinal}"),
                    problem: format!("the driver sees {count}"),
                    hint: "GPUs count from 0; softdiff doctor --device cuda:N looks at one".into(),
                });
            }
            driver.check("opening the GPU", (driver.device_get)(&mut device, ordinal as c_int))?;
            driver.check("making a context", (driver.context_retain)(&mut context, device))?;
            driver.check("entering the context", (driver.context_set)(context))?;
            for stream in [&mut stream, &mut side, &mut copies] {
                driver.check("making a stream", (driver.stream_create)(stream, CU_STREAM_NON_BLOCKING as c_uint))?;
            }
        }
        let attribute = |which: sys::CUdevice_attribute| -> Result<i32> {
            let mut value = 0;
            // SAFETY: a valid out-pointer.
            driver.check("asking for a property", unsafe {
                (driver.device_attribute)(&mut value, which as c_int, device)
            })?;
            Ok(value)
        };
        let mut name = [0 as c_char; 256];
        // SAFETY: the buffer's true length.
        driver.check("asking for the name", unsafe { (driver.device_name)(name.as_mut_ptr(), 256, device) })?;
        // SAFETY: the driver ends the name with NUL.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        let capability = (
            attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        if capability < OLDEST {
            return Err(Error::Device {
                what: format!("{name} has compute capability {}.{}", capability.0, capability.1),
                problem: format!("at least {}.{} is needed", OLDEST.0, OLDEST.1),
                hint: "use --device cpu".into(),
            });
        }
        let multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize;
        let shared = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as usize;
        Ok(Arc::new(CudaDevice {
            driver,
            context,
            number: device,
            stream,
            side,
            copies,
            ordinal,
            name,
            chip: Chip { capability, shared },
            multiprocessors,
            driver_version: version,
            starts_early: capability >= EARLY_START && version >= EARLY_START_DRIVER,
        }))
    }

    /// How many GPUs there are.
    pub fn count() -> Result<usize> {
        let driver = Driver::get()?;
        let mut count = 0;
        // SAFETY: plain calls, one with a valid out-pointer.
        unsafe {
            driver.check("starting CUDA", (driver.init)(0))?;
            driver.check("counting GPUs", (driver.device_count)(&mut count))?;
        }
        Ok(count as usize)
    }

    /// What distinguishes it from all other GPUs, as `nvidia-smi -L` shows it.
    pub fn uuid(&self) -> Result<String> {
        let mut bytes = [0; 16];
        // SAFETY: a valid out-pointer to 16 bytes.
        let status = unsafe { (self.driver.device_uuid)(&mut bytes, self.number) };
        self.driver.check("asking for the GPU's UUID", status)?;
        Ok(uuid_text(bytes))
    }

    /// Another stream, which lives as long as the process.
    pub(super) fn new_stream(&self) -> Result<Handle> {
        self.enter()?;
        let mut stream = null_mut();
        // SAFETY: a valid out-pointer.
        let status = unsafe { (self.driver.stream_create)(&mut stream, CU_STREAM_NON_BLOCKING as c_uint) };
        self.driver.check("making a stream", status)?;
        Ok(stream)
    }

    /// Makes the context current on this thread.
    pub(super) fn enter(&self) -> Result<()> {
        // SAFETY: a live context.
        self.driver.check("entering the context", unsafe { (self.driver.context_set)(self.context) })
    }

    /// Free and total bytes.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: valid out-pointers.
        self.driver.check("asking for memory", unsafe { (self.driver.memory_info)(&mut free, &mut total) })?;
        Ok((free, total))
    }

    /// Waits until everything has run.
    pub fn synchronize(&self) -> Result<()> {
        self.wait_for(self.stream)
    }

    /// Waits until all copies on their stream are done.
    pub(super) fn synchronize_copies(&self) -> Result<()> {
        self.wait_for(self.copies)
    }

    fn wait_for(&self, stream: Handle) -> Result<()> {
        self.enter()?;
        // SAFETY: a live stream.
        self.driver.check("waiting for the GPU", unsafe { (self.driver.stream_synchronize)(stream) })
    }
}

/// `GPU-8-4-4-4-12` hexadecimal digits.
fn uuid_text(bytes: [u8; 16]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    format!("GPU-{}", parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_nvidia_smi_does() {
        let bytes = std::array::from_fn(|i| 0x10 * (i % 10) as u8 + i as u8);
        assert_eq!(uuid_text(bytes), "GPU-00112233-4455-6677-8899-0a1b2c3d4e5f");
    }
}
