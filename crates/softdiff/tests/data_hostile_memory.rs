//! Hostile data costs little memory: refusing a file takes at most 64 MiB beyond the file itself.

#![allow(unsafe_code)] // An allocator that counts cannot be written without.

use hostile_data::Case;
use softdiff::data::{LoadOptions, Source, Split};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

mod forge;
#[allow(dead_code, unused_imports)] // The sound files are another test's.
mod hostile_data;

const MOST: usize = 64 << 20;

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

/// Alone in its file: another test's allocations would be counted too.
#[test]
fn refusing_a_hostile_file_takes_at_most_64_mib() {
    let sets = [hostile_data::pictures(), hostile_data::archives(), hostile_data::arrays(), hostile_data::tables()];
    let (mut greedy, mut cases) = (Vec::new(), 0);
    for Case { what, file, bytes, .. } in sets.into_iter().flatten() {
        let before = USED.load(SeqCst);
        PEAK.store(before, SeqCst);
        let refused = Source::from_bytes(Path::new(file), bytes, Split::All)
            .and_then(|source| source.load(&LoadOptions::default(), &|_, _| {}));
        assert!(refused.is_err(), "{what} was accepted");
        let taken = PEAK.load(SeqCst) - before;
        if taken > MOST {
            greedy.push(format!("{what}: {} MiB", taken >> 20));
        }
        cases += 1;
    }
    assert!(cases >= 85 && greedy.is_empty(), "{cases} cases\n{}", greedy.join("\n"));
}
