//! NCCL, loaded at run time: what carries messages between GPUs.
#![allow(unsafe_code)]

mod rank;

use super::driver::Handle;
use super::library::library;
use crate::error::{Error, Result};
use cudarc::nccl::sys;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

pub use rank::NcclRank;

library!(
    /// Functions of `libnccl`.
    Nccl, sys, "NCCL (libnccl, for several GPUs)", "SOFTDIFF_NCCL", &["libnccl.so.2", "libnccl.so"],
    "pip install nvidia-nccl-cu13, in an active virtual environment (CUDA 12: nvidia-nccl-cu12), or name the library: SOFTDIFF_NCCL=/path/libnccl.so.2",
    {
        version: ncclGetVersion (*mut c_int);
        unique_id: ncclGetUniqueId (*mut sys::ncclUniqueId);
        init_rank: ncclCommInitRank (*mut Handle, c_int, sys::ncclUniqueId, c_int);
        destroy: ncclCommDestroy (Handle);
        group_start: ncclGroupStart ();
        group_end: ncclGroupEnd ();
        send: ncclSend (*const c_void, usize, i32, c_int, Handle, Handle);
        receive: ncclRecv (*mut c_void, usize, i32, c_int, Handle, Handle);
        all_gather: ncclAllGather (*const c_void, *mut c_void, usize, i32, Handle, Handle);
        all_reduce: ncclAllReduce (*const c_void, *mut c_void, usize, i32, i32, Handle, Handle);
        broadcast: ncclBroadcast (*const c_void, *mut c_void, usize, i32, c_int, Handle, Handle);
        error_text: ncclGetErrorString (i32) -> *const c_char;
        last_error: ncclGetLastError (Handle) -> *const c_char;
    }
);

/// The oldest version that works: graphs that hold its work beside calls outside of them.
const OLDEST: i32 = 21_400;
/// Results that say that another process, or the way to it, is lost.
const SYSTEM_ERROR: i32 = sys::ncclResult_t::ncclSystemError as i32;
const REMOTE_ERROR: i32 = sys::ncclResult_t::ncclRemoteError as i32;
const INVALID_USAGE: i32 = sys::ncclResult_t::ncclInvalidUsage as i32;

/// A version as people write it.
fn version_text(code: i32) -> String {
    // Since 2.9 the minor version has two digits.
    let (major, minor) = if code < 10_000 { (code / 1000, code / 100 % 10) } else { (code / 10_000, code / 100 % 100) };
    format!("{major}.{minor}.{}", code % 100)
}

impl Nccl {
    /// The functions, if the library is new enough.
    pub fn recent() -> Result<&'static Nccl> {
        let nccl = Nccl::get()?;
        let code = nccl.code()?;
        if code >= OLDEST {
            return Ok(nccl);
        }
        Err(Error::Device {
            what: format!("{} is NCCL {}", nccl.library.name, version_text(code)),
            problem: format!("at least {} is needed", version_text(OLDEST)),
            hint: "pip install nvidia-nccl-cu13, in an active virtual environment (CUDA 12: nvidia-nccl-cu12)".into(),
        })
    }

    fn code(&self) -> Result<i32> {
        let mut code = 0;
        // SAFETY: a valid out-pointer.
        self.check("asking for NCCL's version", null_mut(), unsafe { (self.version)(&mut code) })?;
        Ok(code)
    }

    /// Its version.
    pub fn version_text(&self) -> Result<String> {
        self.code().map(version_text)
    }

    /// A failed call as an error, with what NCCL says about it. `comm` may be null.
    fn check(&self, what: &str, comm: Handle, status: i32) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: both give static strings, or null.
        let texts = unsafe { [(self.error_text)(status), (self.last_error)(comm)] };
        let text = |pointer: *const c_char| {
            // SAFETY: a non-null text ends with NUL.
            let text = (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned());
            text.filter(|text| !text.trim().is_empty()).map(|text| text.trim().to_owned())
        };
        let texts: Vec<String> = texts.into_iter().filter_map(text).collect();
        let problem = format!("{} ({status})", texts.join(": "));
        Err(match status {
            SYSTEM_ERROR | REMOTE_ERROR => {
                Error::Rank { rank: None, problem: format!("does not answer: {what} failed: {problem}") }
            }
            _ => Error::Device {
                what: what.into(),
                problem,
                hint: match status {
                    INVALID_USAGE => "give every rank a GPU of its own, which nvidia-smi lists; under MPI, --device cpu trains without",
                    _ => "NCCL_DEBUG=WARN makes NCCL say more; softdiff doctor --ranks tests it",
                }
                .into(),
            },
        })
    }
}

/// What the ranks of a communicator have in common: 128 bytes that rank 0 makes.
#[derive(Clone, Copy)]
pub struct NcclId(sys::ncclUniqueId);

impl NcclId {
    /// Its size.
    pub const BYTES: usize = size_of::<sys::ncclUniqueId>();

    /// A new one: rank 0 makes it for all, and listens.
    pub fn new() -> Result<NcclId> {
        let nccl = Nccl::recent()?;
        let mut id = sys::ncclUniqueId { internal: [0; NcclId::BYTES] };
        // SAFETY: a valid out-pointer.
        nccl.check("making NCCL's identifier", null_mut(), unsafe { (nccl.unique_id)(&mut id) })?;
        Ok(NcclId(id))
    }

    /// As it is sent to the other ranks.
    pub fn bytes(&self) -> [u8; NcclId::BYTES] {
        self.0.internal.map(|byte| byte as u8)
    }

    /// As it was sent by rank 0.
    pub fn from_bytes(bytes: [u8; NcclId::BYTES]) -> NcclId {
        NcclId(sys::ncclUniqueId { internal: bytes.map(|byte| byte as c_char) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_nccl_codes_them() {
        for (code, text) in [(2804, "2.8.4"), (21_400, "2.14.0"), (21_803, "2.18.3"), (22_809, "2.28.9")] {
            assert_eq!(version_text(code), text);
        }
    }

    #[test]
    fn an_identifier_is_sent_as_bytes() {
        let bytes = std::array::from_fn(|i| (i * 3) as u8);
        assert_eq!(NcclId::from_bytes(bytes).bytes(), bytes);
    }
}
