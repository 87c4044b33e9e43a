//! The corpus, built in code: pictures, archives, arrays and tables that lie.

mod archives;
mod arrays;
mod pictures;
mod tables;

pub use archives::archives;
pub use arrays::arrays;
pub use pictures::pictures;
pub use tables::{good, tables};

/// A file, the variant of the error it must give, and a part of the message.
pub struct Case {
    pub what: &'static str,
    pub file: &'static str,
    pub bytes: Vec<u8>,
    pub variant: &'static str,
    pub message: &'static str,
}

/// Shorthand for the tables.
pub fn case(
    what: &'static str,
    file: &'static str,
    bytes: Vec<u8>,
    variant: &'static str,
    message: &'static str,
) -> Case {
    Case { what, file, bytes, variant, message }
}

/// A golden file.
pub fn golden(name: &str) -> Vec<u8> {
    std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap()
}
