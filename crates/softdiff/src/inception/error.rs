//! Why the network or its input was refused.

use crate::import::ImportError;
use std::path::PathBuf;

/// What can go wrong around the network. A message ends with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum InceptionError {
    /// The weights are not there.
    #[error(
        "there is no network file {}; docs/evaluation.md says where to get it (some 90 MB)", path.display()
    )]
    Missing { path: PathBuf },
    /// The file cannot be read as what it seems to be.
    #[error("{}: {reason}; give inception-2015-12-05.safetensors or pytorch-fid's pt_inception-2015-12-05-*.pth", path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// A torch file was refused.
    #[error("{} cannot be read as a torch file; fetch it again, or give the .safetensors form", path.display())]
    Torch { path: PathBuf, source: ImportError },
    /// Weights of something else.
    #[error("{} is not the FID network: {reason}; give the weights of 2015-12-05, not torchvision's", path.display())]
    WrongNetwork { path: PathBuf, reason: String },
    /// Pictures that do not fill the size they are said to have.
    #[error(
        "{bytes} bytes are not whole pictures of {height} x {width} x {channels}; give 8-bit pictures, grey or RGB"
    )]
    Pictures { bytes: usize, height: usize, width: usize, channels: usize },
    /// The engine or the device failed.
    #[error("{0}")]
    Engine(#[from] softdiff_engine::Error),
}
