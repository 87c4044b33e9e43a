//! Compiled programs, their kernels, and launches of these.

use super::{CudaDevice, Handle};
use crate::cuda::kernels::KernelName;
use crate::error::Result;
use cudarc::driver::sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
use cudarc::driver::sys::CUlaunchAttributeID::{
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
};
use cudarc::driver::sys::CUlaunchAttributeValue_union__bindgen_ty_1 as ClusterDimension;
use cudarc::driver::sys::{CUlaunchAttribute, CUlaunchAttributeValue as LaunchValue, CUlaunchConfig};
use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// Larger than any value, so that no byte is left undefined.
const ZERO: LaunchValue = LaunchValue { pad: [0; 64] };
/// Bytes of shared memory that every kernel may have.
pub(in crate::cuda) const USUAL_SHARED: usize = 48 << 10;

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
        let status = unsafe {
            (device.driver.function_attribute)(
                self.0,
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as c_int,
                bytes as c_int,
            )
        };
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
    #[allow(non_snake_case)]
    pub fn enqueue(&self, device: &CudaDevice, stream: Handle, follows: bool) -> Result<()> {
        let mut pointers: Vec<*mut c_void> =
            self.arguments.iter().map(|a| std::ptr::from_ref(a).cast_mut().cast()).collect();
        let mut attributes = Vec::with_capacity(2);
        if self.cluster > 1 {
            let mut value = ZERO;
            value.clusterDim = ClusterDimension { x: 1, y: self.cluster, z: 1 };
            attributes.push(CUlaunchAttribute { id: CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, pad: [0; 4], value });
        }
        if follows && device.starts_early {
            let (id, mut value) = (CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, ZERO);
            value.programmaticStreamSerializationAllowed = 1;
            attributes.push(CUlaunchAttribute { id, pad: [0; 4], value });
        }
        let ([gridDimX, gridDimY, gridDimZ], [blockDimX, blockDimY, blockDimZ]) = (self.grid, self.block);
        let config = CUlaunchConfig {
            gridDimX,
            gridDimY,
            gridDimZ,
            blockDimX,
            blockDimY,
            blockDimZ,
            sharedMemBytes: self.shared,
            hStream: stream.cast(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as c_uint,
        };
        // SAFETY: every argument is as wide as its parameter or wider, in the kernel's order; the configuration outlives
        // the call.
        let status = unsafe { (device.driver.launch)(&config, self.function.0, pointers.as_mut_ptr(), null_mut()) };
        device.driver.check("launching a kernel", status)
    }
}
