//! What a file may make the decoder allocate.

use crate::JpegError;

/// A block of 64 samples takes at least half a bit of a scan; a file that claims more is a lie.
const MAX_EXPANSION: u64 = 1100;
/// Headers and tables, which need no pixels.
const FREE_BYTES: u64 = 64 << 10;

/// Checked against the frame header, before anything is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JpegLimits {
    /// The longest side of an image, in pixels.
    pub max_side: u64,
    /// The most bytes that decoding may ask for at once.
    pub max_bytes: u64,
}

impl Default for JpegLimits {
    /// 8192 pixels a side, 256 MiB.
    fn default() -> Self {
        JpegLimits { max_side: 8192, max_bytes: 256 << 20 }
    }
}

impl JpegLimits {
    pub(crate) fn check(&self, width: u64, height: u64, components: u64, file: u64) -> Result<(), JpegError> {
        if width == 0 || height == 0 {
            return Err(JpegError::Empty { width, height });
        }
        if width.max(height) > self.max_side {
            return Err(JpegError::Side { width, height, limit: self.max_side });
        }
        let bytes = width * height * components;
        if bytes > self.max_bytes {
            return Err(JpegError::Allocation { bytes, limit: self.max_bytes });
        }
        if bytes > file * MAX_EXPANSION + FREE_BYTES {
            return Err(JpegError::Claims { width, height, file });
        }
        Ok(())
    }
}
