//! Why an image could not be restored.

use crate::corruption::{CorruptionError, Shape};
use crate::path::PathError;
use crate::recipe::BuildError;
use crate::sampler::SamplerError;
use softdiff_engine::Hint;
use softdiff_engine::memory::NotEnoughMemory;
use std::borrow::Cow;

/// Why an image could not be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum RestoreError {
    /// An observation of another size than the model's images.
    #[error("the observation has {found} values, images of {} have {}", size(shape), shape.len())]
    Size { found: usize, shape: Shape },
    /// An image of another size than the model's.
    #[error("the image has {}x{} pixels, this model makes {}x{}", found.width, found.height, shape.width, shape.height)]
    ImageSize { found: Shape, shape: Shape },
    /// A number that makes no sense.
    #[error("{what} is {value}")]
    Number { what: &'static str, value: f64, remedy: &'static str },
    /// An image that is no smaller version of the model's images.
    #[error("an image of {} is no whole fraction of {}", size(found), size(shape))]
    Fraction { found: Shape, shape: Shape },
    /// Inpainting without a mask.
    #[error("there is no mask")]
    NoMask,
    /// A mask that is all white or all black.
    #[error("{name} leaves all or nothing to be filled in")]
    Mask { name: String },
    /// Nothing to estimate from.
    #[error("{what} cannot be estimated from this image")]
    NoEstimate { what: &'static str, remedy: &'static str },
    /// An image to be degraded by an unknown amount.
    #[error("how much to degrade?")]
    NoLevel,
    /// A path without a time that looks like the observation, which is to be entered there.
    #[error("this model's path never looks like the image, so it cannot be entered with it")]
    NeverEntered,
    /// Photographs, and no model for them.
    #[error("there is no model for photographs")]
    NoPhotoModel,
    /// The model inside the program cannot be put into the cache folder.
    #[error("cannot put the model for photographs into {}", folder.display())]
    Unpacking {
        /// Where it should be.
        folder: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A bad corruption.
    #[error("{0}")]
    Corruption(#[from] CorruptionError),
    /// A network or path that cannot be made for images of this size.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// A bad path or time.
    #[error("{0}")]
    Path(#[from] PathError),
    /// A sampler that failed.
    #[error("{0}")]
    Sampler(#[from] SamplerError),
    /// It does not fit into memory.
    #[error("{0}")]
    Memory(#[from] NotEnoughMemory),
    /// A device that cannot be opened.
    #[error("{0}")]
    Engine(#[from] softdiff_engine::Error),
}

/// Width and height, as people say them.
pub(super) fn size(shape: &Shape) -> String {
    format!("{}x{}", shape.width, shape.height)
}

impl Hint for RestoreError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            RestoreError::Size { .. } => "give one of that size".into(),
            RestoreError::ImageSize { shape, .. } => {
                let wanted = format!("{}x{}", shape.width, shape.height);
                format!("cut or resize it to {wanted}; smaller ones take --task super-resolve").into()
            }
            RestoreError::Number { remedy, .. } | RestoreError::NoEstimate { remedy, .. } => (*remedy).into(),
            RestoreError::Fraction { .. } => "shrink or cut it so that its sides divide those".into(),
            RestoreError::NoMask => "give --mask, an image that is white where to fill in".into(),
            RestoreError::Mask { .. } => {
                "paint what is missing white; dark pixels, such as black or red, and transparent ones are known".into()
            }
            RestoreError::NoLevel => "give --level, such as --level 2".into(),
            RestoreError::NeverEntered => "leave --free out, or train a model on that corruption".into(),
            RestoreError::Memory(error) => return error.hint(),
            RestoreError::NoPhotoModel => {
                let variable = super::PHOTO_MODEL;
                format!("name a model first (softdiff restore MODEL IMAGE), or set {variable} to one").into()
            }
            RestoreError::Unpacking { .. } => {
                format!("set SOFTDIFF_CACHE to a folder that can be written, or {} to a model", super::PHOTO_MODEL)
                    .into()
            }
            RestoreError::Build(error) => return error.hint().map(|hint| hint.into_owned().into()),
            RestoreError::Corruption(_)
            | RestoreError::Path(_)
            | RestoreError::Sampler(_)
            | RestoreError::Engine(_) => return None,
        })
    }
}
