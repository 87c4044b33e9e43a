//! The C library's allocator.
#![allow(unsafe_code)]

/// Lets this process keep freed memory for what it allocates next, up to 256 MB, instead of giving it back to the system at once:
/// arrays of megabytes that come and go with every step are otherwise mapped and filled with zeros anew each time. For programs to call
/// when they begin; where the C library is not glibc, nothing happens.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets two numbers of the allocator.
    unsafe {
        // As large as glibc allows.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 256 << 20);
    }
}
