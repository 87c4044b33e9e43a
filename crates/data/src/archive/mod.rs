//! Archives read without trusting them: zip, tar and gzip, over bytes in memory or mapped into it.
//!
//! Nothing is ever unpacked to disk, so a name in an archive can overwrite nothing; [`safe_name`] still refuses the names
//! that try. Every allocation is bounded before it is made, by the limits of the caller and by [`MAX_RATIO`].

mod error;
pub mod inflate;
pub mod tar;
pub mod zip;

pub use error::ArchiveError;

/// Bytes out per byte in: above this no honest file of images compresses.
pub const MAX_RATIO: u64 = 200;
/// Up to here the ratio does not matter: a black thumbnail compresses better than any bomb.
pub const RATIO_FREE_BYTES: u64 = 1 << 20;

/// Whether a name stays below the folder of its archive: relative, and without `..`.
pub fn safe_name(name: &str) -> bool {
    let windows_drive = name.as_bytes().get(1) == Some(&b':');
    !name.is_empty()
        && !name.starts_with(['/', '\\'])
        && !windows_drive
        && !name.contains('\0')
        && !name.split(['/', '\\']).any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use super::safe_name;

    #[test]
    fn only_names_below_the_folder_are_safe() {
        for name in ["a.png", "a/b/c.png", "..a/b..png", "...", "./a.png"] {
            assert!(safe_name(name), "{name}");
        }
        for name in ["", "/a", "\\a", "../a", "a/../../b", "a\\..\\b", "C:\\a", "a/..", "a\0.png"] {
            assert!(!safe_name(name), "{name}");
        }
    }
}
