//! Why the network or its input was refused.

use crate::import::ImportError;
use softdiff_engine::Hint;
use std::borrow::Cow;
use std::path::PathBuf;

/// What can go wrong around the network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum InceptionError {
    /// The weights are not there.
    #[error("there is no network file {}", path.display())]
    Missing { path: PathBuf },
    /// The file cannot be read as what it seems to be.
    #[error("{}: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// A torch file was refused.
    #[error("{} cannot be read as a torch file", path.display())]
    Torch { path: PathBuf, source: ImportError },
    /// Weights of something else.
    #[error("{} is not the FID network: {reason}", path.display())]
    WrongNetwork { path: PathBuf, reason: String },
    /// Images that do not fill the size they are said to have.
    #[error("{bytes} bytes are not whole images of {height} x {width} x {channels}")]
    Pictures { bytes: usize, height: usize, width: usize, channels: usize },
    /// The engine or the device failed.
    #[error("{0}")]
    Engine(#[from] softdiff_engine::Error),
}

impl Hint for InceptionError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            InceptionError::Missing { .. } => super::HOW_TO_GET.into(),
            InceptionError::Unreadable { .. } => {
                "give inception-2015-12-05.safetensors or pytorch-fid's pt_inception-2015-12-05-*.pth".into()
            }
            InceptionError::Torch { .. } => "softdiff data fetch fid-inception fetches it again".into(),
            InceptionError::WrongNetwork { .. } => "give the weights of 2015-12-05, not torchvision's".into(),
            InceptionError::Pictures { .. } => "give 8-bit images, grey or RGB".into(),
            _ => return None,
        })
    }
}
