//! Order between streams, and sequences of work that are launched as one.

use super::{CudaDevice, Handle};
use crate::error::Result;
use cudarc::driver::sys::{CUevent_flags, CUstreamCaptureMode};
use std::ffi::{c_int, c_uint};
use std::ptr::null_mut;
use std::sync::Arc;

impl CudaDevice {
    /// Records what `work` enqueues as a graph.
    pub(in crate::cuda) fn capture(self: &Arc<Self>, work: impl FnOnce() -> Result<()>) -> Result<CudaGraph> {
        const RELAXED: c_int = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as c_int;
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
        Ok(CudaGraph { device: self.clone(), instance })
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
pub(in crate::cuda) struct CudaEvent {
    device: Arc<CudaDevice>,
    raw: Handle,
}

// SAFETY: used only through the driver's thread-safe functions, after entering the context.
unsafe impl Send for CudaEvent {}

impl CudaEvent {
    pub fn new(device: &Arc<CudaDevice>) -> Result<CudaEvent> {
        const WITHOUT_TIMING: c_uint = CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint;
        device.enter()?;
        let mut raw = null_mut();
        // SAFETY: a valid out-pointer.
        device.driver.check("making an event", unsafe { (device.driver.event_create)(&mut raw, WITHOUT_TIMING) })?;
        Ok(CudaEvent { device: device.clone(), raw })
    }

    /// Marks where `stream` is now.
    pub fn record(&self, stream: Handle) -> Result<()> {
        // SAFETY: a live event and stream.
        self.device.driver.check("marking a stream", unsafe { (self.device.driver.event_record)(self.raw, stream) })
    }

    /// Waits until what came before the mark is done; at once if there is no mark.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: as above.
        self.device.driver.check("waiting for a mark", unsafe { (self.device.driver.event_synchronize)(self.raw) })
    }

    /// Makes what `stream` does from here on wait for the mark.
    pub fn wait(&self, stream: Handle) -> Result<()> {
        // SAFETY: as above.
        self.device.driver.check("joining streams", unsafe { (self.device.driver.stream_wait)(stream, self.raw, 0) })
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: made once, destroyed once.
            unsafe { (self.device.driver.event_destroy)(self.raw) };
        }
    }
}

/// A captured sequence of work, launched as one.
pub(in crate::cuda) struct CudaGraph {
    device: Arc<CudaDevice>,
    instance: Handle,
}

// SAFETY: launched only through `&self` after entering the context.
unsafe impl Send for CudaGraph {}

impl CudaGraph {
    pub fn launch(&self) -> Result<()> {
        self.device.enter()?;
        // SAFETY: a live graph and stream.
        let status = unsafe { (self.device.driver.graph_launch)(self.instance, self.device.stream) };
        self.device.driver.check("launching the step", status)
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: instantiated once, destroyed once.
            unsafe { (self.device.driver.graph_exec_destroy)(self.instance) };
        }
    }
}
