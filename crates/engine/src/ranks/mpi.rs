//! MPI, loaded at run time: nothing is needed to build, and any of the libraries below carries the messages.
//!
//! Handles differ: Open MPI's are addresses of symbols, MPICH's (and those of Intel MPI and Cray MPICH) are numbers, and so are
//! those of the standard ABI of MPI 5. All fit a word, and functions have the same arguments everywhere.
#![allow(unsafe_code)]

use super::Communicator;
use crate::cuda::library::SharedLibrary;
use crate::error::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which library's handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiFamily {
    /// Open MPI 4 and 5.
    OpenMpi,
    /// MPICH and what has its binary interface.
    Mpich,
    /// The binary interface of MPI 5.
    Standard,
}

const OPEN_MPI: &str = "libmpi.so.40";
const OTHERS: [&str; 3] = ["libmpi_abi.so.0", "libmpich.so.12", "libmpi.so.12"];
/// MPI_THREAD_SERIALIZED: several threads, one at a time.
const SERIALIZED: c_int = 2;
/// The longest that any library says about itself, 8192 bytes in MPICH.
const LONGEST_TEXT: usize = 1 << 14;
/// Counts are C's `int`.
const MOST: usize = 1 << 30;

type Handle = usize;
type Collective = unsafe extern "C" fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle) -> c_int;

struct Functions {
    init_thread: unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    comm_rank: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    comm_size: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    set_errhandler: unsafe extern "C" fn(Handle, Handle) -> c_int,
    library_version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int,
    error_string: unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int,
    allgather: Collective,
    alltoall: Collective,
    allreduce: unsafe extern "C" fn(*const c_void, *mut c_void, c_int, Handle, Handle, Handle) -> c_int,
    bcast: unsafe extern "C" fn(*mut c_void, c_int, Handle, c_int, Handle) -> c_int,
}

#[derive(Clone, Copy)]
struct Handles {
    world: Handle,
    byte: Handle,
    float: Handle,
    sum: Handle,
    errors_return: Handle,
}

/// A process among others that `mpirun` or `srun` started.
pub struct MpiRank {
    rank: usize,
    size: usize,
    version: String,
    handles: Handles,
    /// One thread at a time calls the library.
    functions: Mutex<Functions>,
}

impl Functions {
    fn of(library: &SharedLibrary) -> Result<Functions> {
        // SAFETY: the declarations of mpi.h, with handles as words.
        unsafe {
            Ok(Functions {
                init_thread: library.function("MPI_Init_thread")?,
                finalize: library.function("MPI_Finalize")?,
                comm_rank: library.function("MPI_Comm_rank")?,
                comm_size: library.function("MPI_Comm_size")?,
                set_errhandler: library.function("MPI_Comm_set_errhandler")?,
                library_version: library.function("MPI_Get_library_version")?,
                error_string: library.function("MPI_Error_string")?,
                allgather: library.function("MPI_Allgather")?,
                alltoall: library.function("MPI_Alltoall")?,
                allreduce: library.function("MPI_Allreduce")?,
                bcast: library.function("MPI_Bcast")?,
            })
        }
    }

    /// A failed call as an error.
    fn check(&self, call: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the buffer is longer than any library's text.
        let text = text(|to, length| unsafe { (self.error_string)(code, to, length) });
        Err(Error::Rank { rank: None, problem: format!("does not answer: {call} failed: {text}") })
    }
}

/// What a function writes into a buffer.
fn text(write: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> String {
    let mut buffer = vec![0u8; LONGEST_TEXT + 1];
    let mut length: c_int = 0;
    write(buffer.as_mut_ptr().cast(), &raw mut length);
    let text = CStr::from_bytes_until_nul(&buffer).map_or(String::new(), |text| text.to_string_lossy().into_owned());
    text.lines().next().unwrap_or_default().trim().to_owned()
}

impl Handles {
    fn of(library: &SharedLibrary, family: MpiFamily) -> Result<Handles> {
        // SAFETY: the address of a symbol is only passed on, as `mpi.h` does.
        let symbol = |name: &'static str| unsafe { library.function::<Handle>(name) };
        Ok(match family {
            MpiFamily::OpenMpi => Handles {
                world: symbol("ompi_mpi_comm_world")?,
                byte: symbol("ompi_mpi_byte")?,
                float: symbol("ompi_mpi_float")?,
                sum: symbol("ompi_mpi_op_sum")?,
                errors_return: symbol("ompi_mpi_errors_return")?,
            },
            // `mpi.h` of MPICH 3 and 4.
            MpiFamily::Mpich => Handles {
                world: 0x4400_0000,
                byte: 0x4c00_010d,
                float: 0x4c00_040a,
                sum: 0x5800_0003,
                errors_return: 0x5400_0001,
            },
            // MPI 5.0, section 20.3.
            MpiFamily::Standard => Handles { world: 0x101, byte: 0x247, float: 0x210, sum: 0x21, errors_return: 0x143 },
        })
    }
}

/// Whose handles a library has.
fn family(library: &SharedLibrary) -> MpiFamily {
    // SAFETY: only whether the symbol is there is used.
    let has = |name: &'static str| unsafe { library.function::<Handle>(name) }.is_ok();
    if has("ompi_mpi_comm_world") {
        MpiFamily::OpenMpi
    } else if library.name.contains("mpi_abi") {
        MpiFamily::Standard
    } else {
        MpiFamily::Mpich
    }
}

impl MpiRank {
    /// Loads the library, Open MPI's first where `expected` says so, and joins the other ranks. Once in a process.
    pub fn join(expected: Option<MpiFamily>) -> Result<MpiRank> {
        let mut candidates = OTHERS.to_vec();
        let place = if expected == Some(MpiFamily::Mpich) { candidates.len() } else { 0 };
        candidates.insert(place, OPEN_MPI);
        let hint = "install Open MPI or MPICH (Debian: openmpi-bin or mpich), or name the library: SOFTDIFF_MPI=/path/libmpi.so";
        let library = SharedLibrary::open("MPI", "SOFTDIFF_MPI", &candidates, hint)?;
        let unusable = |problem: String| Error::Device {
            what: format!("{} cannot be used as MPI", library.name),
            problem,
            hint: hint.into(),
        };
        let functions = Functions::of(&library).map_err(|error| unusable(error.to_string()))?;
        let handles = Handles::of(&library, family(&library)).map_err(|error| unusable(error.to_string()))?;
        // SAFETY: the buffer is longer than any library's text.
        let version = text(|to, length| unsafe { (functions.library_version)(to, length) });
        let (mut provided, mut rank, mut size) = (0, 0, 0);
        // SAFETY: null for the arguments of `main` is allowed since MPI 2; results go to live integers.
        unsafe {
            functions.check(
                "MPI_Init_thread",
                (functions.init_thread)(std::ptr::null_mut(), std::ptr::null_mut(), SERIALIZED, &raw mut provided),
            )?;
            functions
                .check("MPI_Comm_set_errhandler", (functions.set_errhandler)(handles.world, handles.errors_return))?;
            functions.check("MPI_Comm_rank", (functions.comm_rank)(handles.world, &raw mut rank))?;
            functions.check("MPI_Comm_size", (functions.comm_size)(handles.world, &raw mut size))?;
        }
        // Without what it was built with.
        let short = version.split(',').next().unwrap_or_default();
        let version = format!("{} ({})", short.split_whitespace().collect::<Vec<_>>().join(" "), library.name);
        Ok(MpiRank { rank: rank as usize, size: size as usize, version, handles, functions: Mutex::new(functions) })
    }

    fn functions(&self) -> MutexGuard<'_, Functions> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, count: usize) -> Result<c_int> {
        c_int::try_from(count).ok().filter(|_| count <= MOST).ok_or_else(|| Error::Device {
            what: format!("{count} values for one message"),
            problem: format!("MPI counts to {MOST} here"),
            hint: "use a smaller network".into(),
        })
    }
}

impl Communicator for MpiRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn gather(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0; bytes.len() * self.size];
        let (count, Handles { world, byte, .. }) = (self.count(bytes.len())?, self.handles);
        let (from, to) = (bytes.as_ptr().cast(), all.as_mut_ptr().cast());
        let functions = self.functions();
        // SAFETY: `from` has `count` bytes and `to` as many for each rank.
        let code = unsafe { (functions.allgather)(from, count, byte, to, count, byte, world) };
        functions.check("MPI_Allgather", code)?;
        Ok(all)
    }

    fn exchange(&self, values: &[f32]) -> Result<Vec<f32>> {
        assert!(values.len().is_multiple_of(self.size), "{} values for {} ranks", values.len(), self.size);
        let mut had = vec![0.0f32; values.len()];
        let (count, Handles { world, float, .. }) = (self.count(values.len() / self.size)?, self.handles);
        let (from, to) = (values.as_ptr().cast(), had.as_mut_ptr().cast());
        let functions = self.functions();
        // SAFETY: both have `count` values for each rank.
        let code = unsafe { (functions.alltoall)(from, count, float, to, count, float, world) };
        functions.check("MPI_Alltoall", code)?;
        Ok(had)
    }

    fn sum(&self, values: &mut [f32]) -> Result<()> {
        let own = values.to_vec();
        let (count, Handles { world, float, sum, .. }) = (self.count(values.len())?, self.handles);
        let (from, to) = (own.as_ptr().cast(), values.as_mut_ptr().cast());
        let functions = self.functions();
        // SAFETY: both have `count` values and do not overlap.
        let code = unsafe { (functions.allreduce)(from, to, count, float, sum, world) };
        functions.check("MPI_Allreduce", code)
    }

    fn broadcast(&self, bytes: &mut [u8]) -> Result<()> {
        let Handles { world, byte, .. } = self.handles;
        for part in bytes.chunks_mut(MOST) {
            let count = self.count(part.len())?;
            let functions = self.functions();
            // SAFETY: `part` has `count` bytes.
            let code = unsafe { (functions.bcast)(part.as_mut_ptr().cast(), count, byte, 0, world) };
            functions.check("MPI_Bcast", code)?;
        }
        Ok(())
    }

    fn library(&self) -> String {
        self.version.clone()
    }

    fn finish(&self) {
        // SAFETY: no call follows.
        unsafe { (self.functions().finalize)() };
    }
}
