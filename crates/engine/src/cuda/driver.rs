//! The CUDA driver: device, memory, streams, kernels and graphs.
#![allow(unsafe_code)]

use super::library::library;
use crate::error::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

pub(super) type Handle = *mut c_void;
/// An address on the device.
pub type Address = u64;

library!(
    /// Functions of `libcuda`.
    Driver, "the NVIDIA driver (libcuda)", "SOFTDIFF_LIBCUDA", &["libcuda.so.1", "libcuda.so"],
    "without an NVIDIA driver everything that runs on the CPU still works",
    {
        init: "cuInit" (c_uint);
        version: "cuDriverGetVersion" (*mut c_int);
        device_count: "cuDeviceGetCount" (*mut c_int);
        device_get: "cuDeviceGet" (*mut c_int, c_int);
        device_name: "cuDeviceGetName" (*mut c_char, c_int, c_int);
        device_attribute: "cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
        context_retain: "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
        context_set: "cuCtxSetCurrent" (Handle);
        memory_info: "cuMemGetInfo_v2" (*mut usize, *mut usize);
        alloc: "cuMemAlloc_v2" (*mut Address, usize);
        free: "cuMemFree_v2" (Address);
        to_device: "cuMemcpyHtoDAsync_v2" (Address, *const c_void, usize, Handle);
        to_host: "cuMemcpyDtoHAsync_v2" (*mut c_void, Address, usize, Handle);
        fill_bytes: "cuMemsetD8Async" (Address, u8, usize, Handle);
        fill_words: "cuMemsetD32Async" (Address, c_uint, usize, Handle);
        stream_create: "cuStreamCreate" (*mut Handle, c_uint);
        stream_wait: "cuStreamWaitEvent" (Handle, Handle, c_uint);
        stream_synchronize: "cuStreamSynchronize" (Handle);
        begin_capture: "cuStreamBeginCapture_v2" (Handle, c_int);
        end_capture: "cuStreamEndCapture" (Handle, *mut Handle);
        graph_instantiate: "cuGraphInstantiateWithFlags" (*mut Handle, Handle, u64);
        graph_launch: "cuGraphLaunch" (Handle, Handle);
        graph_destroy: "cuGraphDestroy" (Handle);
        graph_exec_destroy: "cuGraphExecDestroy" (Handle);
        module_load: "cuModuleLoadData" (*mut Handle, *const c_void);
        module_function: "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
        launch: "cuLaunchKernel" (Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
        launch_ex: "cuLaunchKernelEx" (*const LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
        event_create: "cuEventCreate" (*mut Handle, c_uint);
        event_destroy: "cuEventDestroy_v2" (Handle);
        event_record: "cuEventRecord" (Handle, Handle);
        event_synchronize: "cuEventSynchronize" (Handle);
        event_elapsed: "cuEventElapsedTime" (*mut f32, Handle, Handle);
        error_name: "cuGetErrorName" (c_int, *mut *const c_char);
    }
);

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
#[repr(C)]
#[allow(missing_docs)]
pub struct LaunchAttribute {
    id: c_uint,
    pad: c_uint,
    value: [c_uint; 16],
}

const CLUSTER_DIMENSION: c_uint = 4;
const OUT_OF_MEMORY: i32 = 2;

impl Driver {
    /// Turns a status into a result.
    pub fn check(&self, what: &str, status: i32) -> Result<()> {
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
            _ => "run `softdiff doctor`; after a device error, start the program again",
        };
        Err(Error::Device { what: what.into(), problem: format!("{name} ({status})"), hint: hint.into() })
    }
}

/// A GPU with a stream on which everything runs in order, and a second for what may run beside.
pub struct Device {
    pub(super) driver: &'static Driver,
    context: Handle,
    pub(super) stream: Handle,
    /// For what runs beside the first stream; only ever used between a fork and a join.
    pub(super) side: Handle,
    /// Its number.
    pub ordinal: usize,
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// Compute capability, such as (9, 0).
    pub capability: (i32, i32),
    /// Number of multiprocessors.
    pub multiprocessors: usize,
    /// The driver's CUDA version, such as 13000.
    pub driver_version: i32,
}

// SAFETY: the handles are process-wide; every call first makes the context current on its thread.
unsafe impl Send for Device {}
// SAFETY: as above; the driver's functions are thread-safe.
unsafe impl Sync for Device {}

impl Device {
    /// Opens GPU number `ordinal`.
    pub fn open(ordinal: usize) -> Result<Arc<Device>> {
        let driver = Driver::get()?;
        let (mut count, mut device, mut version, mut context) = (0, 0, 0, null_mut());
        let (mut stream, mut side) = (null_mut(), null_mut());
        // SAFETY: plain calls with valid out-pointers, in the order the driver asks for.
        unsafe {
            driver.check("starting CUDA", (driver.init)(0))?;
            driver.check("asking for the driver's version", (driver.version)(&mut version))?;
            driver.check("counting GPUs", (driver.device_count)(&mut count))?;
            if ordinal >= count as usize {
                return Err(Error::Device {
                    what: format!("there is no GPU number {ordinal}"),
                    problem: format!("the driver sees {count}"),
                    hint: "GPUs count from 0; softdiff doctor --gpu N looks at one".into(),
                });
            }
            driver.check("opening the GPU", (driver.device_get)(&mut device, ordinal as c_int))?;
            driver.check("making a context", (driver.context_retain)(&mut context, device))?;
            driver.check("entering the context", (driver.context_set)(context))?;
            driver.check("making a stream", (driver.stream_create)(&mut stream, 1))?;
            driver.check("making a stream", (driver.stream_create)(&mut side, 1))?;
        }
        let attribute = |which| -> Result<i32> {
            let mut value = 0;
            // SAFETY: a valid out-pointer.
            driver.check("asking for a property", unsafe { (driver.device_attribute)(&mut value, which, device) })?;
            Ok(value)
        };
        let mut name = [0 as c_char; 256];
        // SAFETY: the buffer's true length.
        driver.check("asking for the name", unsafe { (driver.device_name)(name.as_mut_ptr(), 256, device) })?;
        // SAFETY: the driver ends the name with NUL.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        let capability = (attribute(75)?, attribute(76)?);
        let multiprocessors = attribute(16)? as usize;
        Ok(Arc::new(Device {
            driver,
            context,
            stream,
            side,
            ordinal,
            name,
            capability,
            multiprocessors,
            driver_version: version,
        }))
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
        self.enter()?;
        // SAFETY: a live stream.
        self.driver.check("waiting for the GPU", unsafe { (self.driver.stream_synchronize)(self.stream) })
    }

    /// Allocates `bytes` of device memory, all zero.
    pub fn alloc(self: &Arc<Self>, bytes: usize) -> Result<Buffer> {
        self.enter()?;
        let mut address = 0;
        let size = bytes.max(256);
        // SAFETY: a valid out-pointer; the new memory is then filled within its size.
        unsafe {
            let what = format!("allocating {:.2} GiB on the GPU", size as f64 / (1u64 << 30) as f64);
            self.driver.check(&what, (self.driver.alloc)(&mut address, size))?;
            let buffer = Buffer { device: self.clone(), address, bytes };
            self.driver.check("clearing memory", (self.driver.fill_bytes)(address, 0, size, self.stream))?;
            Ok(buffer)
        }
    }

    /// Allocates a buffer with these bytes in it.
    pub fn upload(self: &Arc<Self>, bytes: &[u8]) -> Result<Buffer> {
        let buffer = self.alloc(bytes.len())?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }

    /// Records what `work` enqueues as a graph.
    pub(super) fn capture(self: &Arc<Self>, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        const RELAXED: c_int = 2;
        self.enter()?;
        let (mut graph, mut instance) = (null_mut(), null_mut());
        // SAFETY: a live stream; the graph is destroyed after it was instantiated.
        unsafe {
            self.driver.check("beginning a capture", (self.driver.begin_capture)(self.stream, RELAXED))?;
            let outcome = work();
            let ended = (self.driver.end_capture)(self.stream, &mut graph);
            outcome?;
            self.driver.check("ending a capture", ended)?;
            let made = (self.driver.graph_instantiate)(&mut instance, graph, 0);
            (self.driver.graph_destroy)(graph);
            self.driver.check("instantiating a graph", made)?;
        }
        Ok(Graph { device: self.clone(), instance })
    }

    /// Milliseconds that the work enqueued by `work` takes on the GPU.
    pub fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<f32> {
        self.enter()?;
        let (mut begin, mut end, mut milliseconds) = (null_mut(), null_mut(), 0.0);
        // SAFETY: events are made before use and destroyed after it; after an error they live as long as the process.
        unsafe {
            self.driver.check("making an event", (self.driver.event_create)(&mut begin, 0))?;
            self.driver.check("making an event", (self.driver.event_create)(&mut end, 0))?;
            self.driver.check("recording an event", (self.driver.event_record)(begin, self.stream))?;
            work()?;
            self.driver.check("recording an event", (self.driver.event_record)(end, self.stream))?;
            self.driver.check("waiting for an event", (self.driver.event_synchronize)(end))?;
            self.driver.check("reading events", (self.driver.event_elapsed)(&mut milliseconds, begin, end))?;
            (self.driver.event_destroy)(begin);
            (self.driver.event_destroy)(end);
        }
        Ok(milliseconds)
    }
}

/// A point in a stream that another stream can wait for.
pub(super) struct Event {
    device: Arc<Device>,
    raw: Handle,
}

// SAFETY: used only through the driver's thread-safe functions, after entering the context.
unsafe impl Send for Event {}

impl Event {
    pub fn new(device: &Arc<Device>) -> Result<Event> {
        const WITHOUT_TIMING: c_uint = 2;
        device.enter()?;
        let mut raw = null_mut();
        // SAFETY: a valid out-pointer.
        device.driver.check("making an event", unsafe { (device.driver.event_create)(&mut raw, WITHOUT_TIMING) })?;
        Ok(Event { device: device.clone(), raw })
    }

    /// Marks where `stream` is now.
    pub fn record(&self, stream: Handle) -> Result<()> {
        // SAFETY: a live event and stream.
        self.device.driver.check("marking a stream", unsafe { (self.device.driver.event_record)(self.raw, stream) })
    }

    /// Makes what `stream` does from here on wait for the mark.
    pub fn wait(&self, stream: Handle) -> Result<()> {
        // SAFETY: as above.
        self.device.driver.check("joining streams", unsafe { (self.device.driver.stream_wait)(stream, self.raw, 0) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: made once, destroyed once.
            unsafe { (self.device.driver.event_destroy)(self.raw) };
        }
    }
}

/// Device memory, freed when dropped.
pub struct Buffer {
    device: Arc<Device>,
    /// Where it begins.
    pub address: Address,
    /// Its size.
    pub bytes: usize,
}

impl Buffer {
    /// Copies bytes from the host; returns when they have arrived.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        assert!(offset + bytes.len() <= self.bytes, "write beyond a buffer");
        self.device.enter()?;
        let (driver, stream) = (self.device.driver, self.device.stream);
        // SAFETY: within the buffer (asserted); the host memory outlives the copy, which is waited for.
        let status =
            unsafe { (driver.to_device)(self.address + offset as u64, bytes.as_ptr().cast(), bytes.len(), stream) };
        driver.check("copying to the GPU", status)?;
        self.device.synchronize()
    }

    /// Copies bytes to the host.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        assert!(offset + bytes.len() <= self.bytes, "read beyond a buffer");
        self.device.enter()?;
        let (driver, stream) = (self.device.driver, self.device.stream);
        // SAFETY: as in `write`.
        let status =
            unsafe { (driver.to_host)(bytes.as_mut_ptr().cast(), self.address + offset as u64, bytes.len(), stream) };
        driver.check("copying from the GPU", status)?;
        self.device.synchronize()
    }

    /// Enqueues a fill with one 32-bit word.
    pub(super) fn fill_word(&self, word: u32) -> Result<()> {
        self.device.enter()?;
        let driver = self.device.driver;
        // SAFETY: whole words of the buffer.
        let status = unsafe { (driver.fill_words)(self.address, word, self.bytes / 4, self.device.stream) };
        driver.check("filling memory", status)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: allocated by `alloc`, freed once; the driver waits for work that uses it.
            unsafe { (self.device.driver.free)(self.address) };
        }
    }
}

/// A captured sequence of work, launched as one.
pub(super) struct Graph {
    device: Arc<Device>,
    instance: Handle,
}

// SAFETY: launched only through `&self` after entering the context.
unsafe impl Send for Graph {}

impl Graph {
    pub fn launch(&self) -> Result<()> {
        self.device.enter()?;
        // SAFETY: a live graph and stream.
        let status = unsafe { (self.device.driver.graph_launch)(self.instance, self.device.stream) };
        self.device.driver.check("launching the step", status)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: instantiated once, destroyed once.
            unsafe { (self.device.driver.graph_exec_destroy)(self.instance) };
        }
    }
}

/// A compiled program.
pub(super) struct Module {
    device: Arc<Device>,
    handle: Handle,
}

// SAFETY: a module is immutable once loaded.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// A kernel of a module, which lives as long as the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function(Handle);

// SAFETY: an immutable handle.
unsafe impl Send for Function {}

impl Module {
    pub fn load(device: &Arc<Device>, image: &[u8]) -> Result<Module> {
        device.enter()?;
        let mut handle = null_mut();
        // SAFETY: a whole cubin; the driver copies it.
        let status = unsafe { (device.driver.module_load)(&mut handle, image.as_ptr().cast()) };
        device.driver.check("loading the kernels", status)?;
        Ok(Module { device: device.clone(), handle })
    }

    pub fn function(&self, name: &str) -> Result<Function> {
        let mut function = null_mut();
        let c_name = CString::new(name).unwrap_or_default();
        // SAFETY: a live module and a NUL-terminated name.
        let status = unsafe { (self.device.driver.module_function)(&mut function, self.handle, c_name.as_ptr()) };
        self.device.driver.check(&format!("finding kernel {name}"), status)?;
        Ok(Function(function))
    }
}

/// A kernel's launch: sizes and arguments, each in eight bytes.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub function: Function,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    /// Blocks along y that share memory; 1 for none.
    pub cluster: u32,
    pub arguments: Vec<u64>,
}

impl Launch {
    pub fn enqueue(&self, device: &Device, stream: Handle) -> Result<()> {
        let mut pointers: Vec<*mut c_void> =
            self.arguments.iter().map(|a| std::ptr::from_ref(a).cast_mut().cast()).collect();
        if self.cluster > 1 {
            let mut value = [0; 16];
            value[..3].copy_from_slice(&[1, self.cluster, 1]);
            let attribute = LaunchAttribute { id: CLUSTER_DIMENSION, pad: 0, value };
            let config = LaunchConfig {
                grid: self.grid,
                block: self.block,
                shared: self.shared,
                stream,
                attributes: &attribute,
                count: 1,
            };
            // SAFETY: as below; the configuration outlives the call.
            let status =
                unsafe { (device.driver.launch_ex)(&config, self.function.0, pointers.as_mut_ptr(), null_mut()) };
            return device.driver.check("launching a kernel", status);
        }
        let ([gx, gy, gz], [bx, by, bz]) = (self.grid, self.block);
        // SAFETY: every argument is as wide as its parameter or wider, in the kernel's order.
        let status = unsafe {
            (device.driver.launch)(
                self.function.0,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                self.shared,
                stream,
                pointers.as_mut_ptr(),
                null_mut(),
            )
        };
        device.driver.check("launching a kernel", status)
    }
}
