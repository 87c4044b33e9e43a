//! Compiled programs, their kernels, and launches of these.

use super::{CudaDevice, Handle};
use crate::cuda::kernels::KernelName;
use crate::error::Result;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::Arc;

const CLUSTER_DIMENSION: c_uint = 4;
const PROGRAMMATIC_STREAM_SERIALIZATION: c_uint = 6;
const MAX_DYNAMIC_SHARED: c_int = 8;
/// Bytes of shared memory that every kernel may have.
pub(in crate::cuda) const USUAL_SHARED: usize = 48 << 10;

/// `CUlaunchConfig` of cuda.h.
#[repr(C)]
#[allow(missing_docs)]
pub struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: Handle,
    attributes: *const LaunchAttribute,
    count: c_uint,
}

/// `CUlaunchAttribute` of cuda.h, with room for any value.
#[repr(C, align(8))]
#[allow(missing_docs)]
pub struct LaunchAttribute {
    id: c_uint,
    pad: c_uint,
    value: [c_uint; 16],
}

impl LaunchAttribute {
    fn new(id: c_uint, [x, y, z]: [c_uint; 3]) -> LaunchAttribute {
        let mut value = [0; 16];
        value[..3].copy_from_slice(&[x, y, z]);
        LaunchAttribute { id, pad: 0, value }
    }
}

// As cuda.h lays them out on 64-bit machines.
const _: () = assert!(size_of::<LaunchConfig>() == 56 && offset_of!(LaunchConfig, attributes) == 40);
const _: () = assert!(size_of::<LaunchAttribute>() == 72 && offset_of!(LaunchAttribute, value) == 8);

/// A compiled program.
pub(in crate::cuda) struct Module {
    device: Arc<CudaDevice>,
    handle: Handle,
}

// SAFETY: a module is immutable once loaded.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// A kernel of a module, which lives as long as the process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cuda) struct CudaFunction(Handle);

// SAFETY: an immutable handle.
unsafe impl Send for CudaFunction {}

impl CudaFunction {
    /// Lets launches have so many bytes of shared memory.
    pub fn allow_shared(self, device: &CudaDevice, bytes: usize) -> Result<()> {
        if bytes <= USUAL_SHARED {
            return Ok(());
        }
        // SAFETY: a live kernel.
        let status = unsafe { (device.driver.function_attribute)(self.0, MAX_DYNAMIC_SHARED, bytes as c_int) };
        device.driver.check("asking for shared memory", status)
    }
}

impl Module {
    pub fn load(device: &Arc<CudaDevice>, image: &[u8]) -> Result<Module> {
        device.enter()?;
        let mut handle = null_mut();
        // SAFETY: a whole cubin; the driver copies it.
        let status = unsafe { (device.driver.module_load)(&mut handle, image.as_ptr().cast()) };
        device.driver.check("loading the kernels", status)?;
        Ok(Module { device: device.clone(), handle })
    }

    pub fn function(&self, name: &str) -> Result<CudaFunction> {
        let mut function = null_mut();
        let c_name = CString::new(name).expect("no kernel's name has a NUL");
        // SAFETY: a live module and a NUL-terminated name.
        let status = unsafe { (self.device.driver.module_function)(&mut function, self.handle, c_name.as_ptr()) };
        self.device.driver.check(&format!("finding kernel {name}"), status)?;
        Ok(CudaFunction(function))
    }
}

/// A kernel's launch: sizes and arguments, each in eight bytes; made by `Kernels::launch`.
#[derive(Clone, Debug)]
pub(in crate::cuda) struct Launch {
    pub kernel: KernelName,
    pub function: CudaFunction,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    /// Blocks along y that share memory; 1 for none.
    pub cluster: u32,
    pub arguments: Vec<u64>,
}

impl Launch {
    /// Enqueues the kernel. If it `follows` a kernel of its stream and nothing else, its blocks may come to the GPU before
    /// that has ended: every kernel of ours begins by waiting for it.
    pub fn enqueue(&self, device: &CudaDevice, stream: Handle, follows: bool) -> Result<()> {
        let mut pointers: Vec<*mut c_void> =
            self.arguments.iter().map(|a| std::ptr::from_ref(a).cast_mut().cast()).collect();
        let cluster = (self.cluster > 1).then(|| LaunchAttribute::new(CLUSTER_DIMENSION, [1, self.cluster, 1]));
        let early = follows && device.starts_early;
        let early = early.then(|| LaunchAttribute::new(PROGRAMMATIC_STREAM_SERIALIZATION, [1, 0, 0]));
        let attributes: Vec<LaunchAttribute> = cluster.into_iter().chain(early).collect();
        let config = LaunchConfig {
            grid: self.grid,
            block: self.block,
            shared: self.shared,
            stream,
            attributes: attributes.as_ptr(),
            count: attributes.len() as c_uint,
        };
        // SAFETY: every argument is as wide as its parameter or wider, in the kernel's order; the configuration outlives
        // the call.
        let status = unsafe { (device.driver.launch)(&config, self.function.0, pointers.as_mut_ptr(), null_mut()) };
        device.driver.check("launching a kernel", status)
    }
}
