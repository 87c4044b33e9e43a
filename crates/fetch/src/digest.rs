//! SHA-256, as publishers give it.

use ring::digest::{Context, SHA256};
use softdiff_engine::regular_file;
use std::io::{self, Read};
use std::path::Path;

/// The digest of bytes that come a few at a time.
#[derive(Clone)]
pub struct Sha256(Context);

impl Sha256 {
    pub fn new() -> Sha256 {
        Sha256(Context::new(&SHA256))
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// All that is left of a file.
    pub fn add_all(&mut self, mut from: impl Read) -> io::Result<()> {
        let mut block = vec![0; 1 << 18];
        loop {
            match from.read(&mut block)? {
                0 => return Ok(()),
                count => self.add(&block[..count]),
            }
        }
    }

    /// In hexadecimal.
    pub fn finish(self) -> String {
        self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Whether a file is there and has this sum.
pub fn has_sum(path: &Path, sum: &str) -> bool {
    let mut digest = Sha256::new();
    regular_file::open(path).and_then(|file| digest.add_all(file)).is_ok() && digest.finish() == sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        let mut digest = Sha256::new();
        digest.add(b"a");
        digest.add_all(&b"bc"[..]).unwrap();
        assert_eq!(digest.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
