//! One GPU among those of the other ranks. Sums of gradients stay on the devices; what the hosts say to each other goes through
//! a buffer on the device.

use super::{Nccl, NcclId};
use crate::cuda::driver::{Address, Buffer, CudaDevice, Handle};
use crate::cuda::params::{from_bytes, to_bytes};
use crate::cuda::session::Session;
use crate::error::Result;
use crate::ranks::Communicator;
use cudarc::nccl::sys::{ncclDataType_t, ncclRedOp_t};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const BYTE: i32 = ncclDataType_t::ncclUint8 as i32;
const FLOAT: i32 = ncclDataType_t::ncclFloat32 as i32;
const SUM: i32 = ncclRedOp_t::ncclSum as i32;

/// A rank with a GPU of its own.
pub struct NcclRank {
    device: Arc<CudaDevice>,
    functions: &'static Nccl,
    version: String,
    rank: usize,
    size: usize,
    /// The stream of collectives in a step's graph.
    stream: Handle,
    /// One thread at a time calls the library.
    comm: Mutex<RawComm>,
    /// What the hosts send.
    staged: Mutex<Option<Buffer>>,
}

/// NCCL's communicator; null once it is destroyed.
struct RawComm(Handle);

// SAFETY: used by one thread at a time, under the lock, after entering the context.
unsafe impl Send for RawComm {}
// SAFETY: the stream is only passed to thread-safe functions of the driver and to NCCL under the lock.
unsafe impl Send for NcclRank {}
// SAFETY: as above.
unsafe impl Sync for NcclRank {}

/// A device's address as NCCL takes it.
fn pointer(address: Address) -> *mut c_void {
    address as usize as *mut c_void
}

impl NcclRank {
    /// Joins the other ranks, all of which make this call with the same identifier; waits for them.
    pub fn join(session: &Session, id: NcclId, rank: usize, size: usize) -> Result<NcclRank> {
        let functions = Nccl::recent()?;
        let device = session.device.clone();
        let stream = device.new_stream()?;
        let mut comm = null_mut();
        // SAFETY: a valid out-pointer, in the device's context, which `new_stream` has entered.
        let status = unsafe { (functions.init_rank)(&mut comm, size as c_int, id.0, rank as c_int) };
        functions.check("joining the other GPUs by NCCL", null_mut(), status)?;
        let (comm, staged) = (Mutex::new(RawComm(comm)), Mutex::new(None));
        let version = functions.version_text()?;
        Ok(NcclRank { device, functions, version, rank, size, stream, comm, staged })
    }

    /// NCCL's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The stream of collectives in a step's graph.
    pub(in crate::cuda) fn stream(&self) -> Handle {
        self.stream
    }

    /// Seconds in which the GPUs add so many values.
    pub fn time_sum(&self, values: usize) -> Result<f64> {
        let buffer = self.device.alloc(4 * values)?;
        let milliseconds = self.device.time(|| self.sum_in_place(buffer.address, values, self.device.stream))?;
        Ok(f64::from(milliseconds) * 1e-3)
    }

    /// Calls NCCL with the communicator.
    fn call(&self, what: &str, call: impl FnOnce(&Nccl, Handle) -> i32) -> Result<()> {
        self.device.enter()?;
        let comm = self.comm.lock().unwrap_or_else(PoisonError::into_inner);
        self.functions.check(what, comm.0, call(self.functions, comm.0))
    }

    /// Enqueues the sum of all ranks' values, in NCCL's order, in their place.
    pub(in crate::cuda) fn sum_in_place(&self, values: Address, count: usize, stream: Handle) -> Result<()> {
        // SAFETY: `count` values in a live buffer, which may be source and destination.
        self.call("a sum by NCCL", |nccl, comm| unsafe {
            (nccl.all_reduce)(pointer(values), pointer(values), count, FLOAT, SUM, comm, stream)
        })
    }

    /// Enqueues that each rank gets the parts of the other ranks that are meant for it: `rows` rows for each rank from `from` on,
    /// the rows `pitch` values apart and of `part` values for each rank; in `to` they lie by rank and row. The rank's own place
    /// in `to` stays as it is.
    pub(in crate::cuda) fn exchange_parts(
        &self,
        from: Address,
        (rows, pitch, part): (usize, usize, usize),
        to: Address,
        stream: Handle,
    ) -> Result<()> {
        if self.size == 1 {
            return Ok(());
        }
        let at = |base: Address, values: usize| pointer(base + 4 * values as u64);
        self.call("an exchange by NCCL", |nccl, comm| {
            // SAFETY: rows and parts lie in live buffers; messages between two ranks are sent and received in the same order.
            unsafe {
                let mut status = (nccl.group_start)();
                for peer in (0..self.size).filter(|&peer| peer != self.rank) {
                    for row in 0..rows {
                        let out = at(from, row * pitch + peer * part);
                        let into = at(to, (peer * rows + row) * part);
                        for outcome in [
                            (nccl.send)(out, part, FLOAT, peer as c_int, comm, stream),
                            (nccl.receive)(into, part, FLOAT, peer as c_int, comm, stream),
                        ] {
                            status = if status == 0 { outcome } else { status };
                        }
                    }
                }
                let ended = (nccl.group_end)();
                if status == 0 { ended } else { status }
            }
        })
    }

    /// Enqueues that every rank's part of `values` comes to all.
    pub(in crate::cuda) fn gather_parts(&self, values: Address, part: usize, stream: Handle) -> Result<()> {
        self.gather_in_place(values, part, (FLOAT, 4), stream)
    }

    fn gather_in_place(&self, to: Address, count: usize, kind: (i32, usize), stream: Handle) -> Result<()> {
        let own = to + (self.rank * count * kind.1) as u64;
        // SAFETY: `count` elements for each rank in a live buffer, of which the own ones lie in their place.
        self.call("gathering by NCCL", |nccl, comm| unsafe {
            (nccl.all_gather)(pointer(own), pointer(to), count, kind.0, comm, stream)
        })
    }

    /// A buffer of at least so many bytes.
    fn stage(&self, bytes: usize) -> Result<MutexGuard<'_, Option<Buffer>>> {
        let mut staged = self.staged.lock().unwrap_or_else(PoisonError::into_inner);
        if staged.as_ref().is_none_or(|buffer| buffer.bytes < bytes) {
            *staged = None;
            *staged = Some(self.device.alloc(bytes)?);
        }
        Ok(staged)
    }

    /// Lets `work` use a buffer of so many bytes.
    fn staged<T>(&self, bytes: usize, work: impl FnOnce(&Buffer) -> Result<T>) -> Result<T> {
        let staged = self.stage(bytes)?;
        work(staged.as_ref().expect("it was just allocated"))
    }
}

impl Communicator for NcclRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn gather(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0; bytes.len() * self.size];
        self.staged(all.len(), |buffer| {
            buffer.write(self.rank * bytes.len(), bytes)?;
            self.gather_in_place(buffer.address, bytes.len(), (BYTE, 1), self.device.stream)?;
            buffer.read(0, &mut all)
        })?;
        Ok(all)
    }

    fn exchange(&self, values: &[f32]) -> Result<Vec<f32>> {
        assert!(values.len().is_multiple_of(self.size), "{} values for {} ranks", values.len(), self.size);
        let (bytes, part) = (4 * values.len(), values.len() / self.size);
        let mut had = vec![0; bytes];
        self.staged(2 * bytes, |buffer| {
            buffer.write(0, &to_bytes(values))?;
            let to = buffer.address + bytes as u64;
            self.exchange_parts(buffer.address, (1, values.len(), part), to, self.device.stream)?;
            buffer.read(bytes, &mut had)
        })?;
        let mut had = from_bytes(&had);
        let own = self.rank * part..(self.rank + 1) * part;
        had[own.clone()].copy_from_slice(&values[own]);
        Ok(had)
    }

    fn sum(&self, values: &mut [f32]) -> Result<()> {
        let mut bytes = to_bytes(values);
        self.staged(bytes.len(), |buffer| {
            buffer.write(0, &bytes)?;
            self.sum_in_place(buffer.address, values.len(), self.device.stream)?;
            buffer.read(0, &mut bytes)
        })?;
        values.copy_from_slice(&from_bytes(&bytes));
        Ok(())
    }

    fn broadcast(&self, bytes: &mut [u8]) -> Result<()> {
        self.staged(bytes.len(), |buffer| {
            buffer.write(0, bytes)?;
            let (at, count) = (pointer(buffer.address), bytes.len());
            // SAFETY: `count` bytes in a live buffer, which may be source and destination.
            self.call("a broadcast by NCCL", |nccl, comm| unsafe {
                (nccl.broadcast)(at, at, count, BYTE, 0, comm, self.device.stream)
            })?;
            buffer.read(0, bytes)
        })
    }

    fn library(&self) -> String {
        format!("NCCL {} ({})", self.version, self.functions.library.name)
    }

    fn finish(&self) {
        let mut comm = self.comm.lock().unwrap_or_else(PoisonError::into_inner);
        if !comm.0.is_null() && self.device.synchronize().is_ok() {
            // SAFETY: made once, destroyed once; the graphs that hold its work are gone, and no call follows.
            unsafe { (self.functions.destroy)(comm.0) };
            comm.0 = null_mut();
        }
    }
}
