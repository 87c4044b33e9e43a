//! Device memory, and page-locked host memory.

use super::{Address, CudaDevice};
use crate::error::Result;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;

impl CudaDevice {
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
}

/// Device memory, freed when dropped.
pub struct Buffer {
    device: Arc<CudaDevice>,
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

    /// Begins an asynchronous copy of a part of host memory to the same offset here, on the stream of copies. The host must not
    /// write that part until an event recorded there afterwards has completed.
    pub(in crate::cuda) fn begin_write(&self, from: &Pinned, part: Range<usize>) -> Result<()> {
        assert!(part.end <= self.bytes && part.end <= from.bytes, "write beyond a buffer");
        self.device.enter()?;
        let driver = self.device.driver;
        // SAFETY: within both (asserted); freeing either waits for the copies.
        let status = unsafe {
            let host = from.begin.add(part.start);
            (driver.to_device)(self.address + part.start as u64, host.cast(), part.len(), self.device.copies)
        };
        driver.check("copying to the GPU", status)
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
    pub(in crate::cuda) fn fill_word(&self, word: u32) -> Result<()> {
        self.device.enter()?;
        let driver = self.device.driver;
        // SAFETY: whole words of the buffer.
        let status = unsafe { (driver.fill_words)(self.address, word, self.bytes / 4, self.device.stream) };
        driver.check("filling memory", status)
    }

    /// Enqueues a change of the 32-bit word number `index`.
    pub(in crate::cuda) fn set_word(&self, index: usize, word: u32) -> Result<()> {
        assert!(4 * index + 4 <= self.bytes, "word {index} of {} bytes", self.bytes);
        self.device.enter()?;
        let driver = self.device.driver;
        // SAFETY: a word of the buffer.
        let status = unsafe { (driver.fill_words)(self.address + 4 * index as u64, word, 1, self.device.stream) };
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

/// Page-locked host memory for asynchronous copies; zeroed, freed when dropped.
pub(in crate::cuda) struct Pinned {
    device: Arc<CudaDevice>,
    begin: *mut u8,
    bytes: usize,
}

// SAFETY: memory of its own, reached only through `&mut self` and copies that are waited for.
unsafe impl Send for Pinned {}

impl Pinned {
    pub fn new(device: &Arc<CudaDevice>, bytes: usize) -> Result<Pinned> {
        device.enter()?;
        let mut begin = null_mut();
        let what = format!("locking {:.2} GiB of the host's memory", bytes as f64 / (1u64 << 30) as f64);
        // SAFETY: a valid out-pointer; the new memory is then filled within its size.
        unsafe {
            device.driver.check(&what, (device.driver.alloc_host)(&mut begin, bytes.max(1)))?;
            begin.cast::<u8>().write_bytes(0, bytes);
        }
        Ok(Pinned { device: device.clone(), begin: begin.cast(), bytes })
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: allocated and filled in `new`; the device only reads it.
        unsafe { std::slice::from_raw_parts_mut(self.begin, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.device.synchronize_copies().is_ok() {
            // SAFETY: allocated in `new`, freed once, and no copy reads it any more.
            unsafe { (self.device.driver.free_host)(self.begin.cast()) };
        }
    }
}
