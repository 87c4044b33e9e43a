//! An allocator that counts, for tests of how much memory something takes. Such a test is alone in its file: what another one
//! allocates would be counted too.
#![allow(unsafe_code)] // An allocator cannot be written without.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The system's allocator, which counts what is in use and the most that was.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed to the system's allocator unchanged; growing goes through `alloc` by default.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(USED.fetch_add(layout.size(), SeqCst) + layout.size(), SeqCst);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(USED.fetch_add(layout.size(), SeqCst) + layout.size(), SeqCst);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), SeqCst);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most bytes that `work` had in use beyond what was before.
pub fn taken<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let before = USED.load(SeqCst);
    PEAK.store(before, SeqCst);
    let result = work();
    (result, PEAK.load(SeqCst) - before)
}
