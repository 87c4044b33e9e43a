//! Why a recipe could not be made into a run.

use crate::data::DataError;
use crate::path::PathError;
use crate::prior::PriorError;
use crate::recipe::BuildError;
use crate::run::RunError;
use crate::sampler::SamplerError;
use crate::schedule::ScheduleError;
use crate::spectrum::SpectrumError;
use softdiff_engine::Hint;
use std::borrow::Cow;
use std::path::PathBuf;

/// Why a recipe could not be made into a run.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The folder holds a run of another recipe.
    #[error("{} was begun with another recipe ({difference})", folder.display())]
    OtherRecipe {
        /// The run's folder.
        folder: PathBuf,
        /// The first key that differs.
        difference: String,
    },
    /// The data set has changed since.
    #[error("the images of {source_name} are not those the run was begun with")]
    OtherData {
        /// What the data set is called.
        source_name: String,
    },
    /// The note of which images the run was begun with cannot be read.
    #[error("{} cannot be read: {problem}", file.display())]
    DataNote {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// No images at all.
    #[error("there are no images to train on")]
    NoImages,
    /// A data set that cannot be read.
    #[error("{0}")]
    Data(#[from] DataError),
    /// A recipe that does not fit the images.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// A schedule that cannot be made.
    #[error("{0}")]
    Schedule(#[from] ScheduleError),
    /// A prior that cannot be fitted.
    #[error("{0}")]
    Prior(#[from] PriorError),
    /// A bad path.
    #[error("{0}")]
    Path(#[from] PathError),
    /// A bad sampler.
    #[error("{0}")]
    Sampler(#[from] SamplerError),
    /// A bad spectrum.
    #[error("{0}")]
    Spectrum(#[from] SpectrumError),
    /// The run's folder.
    #[error("{0}")]
    Run(#[from] RunError),
}

impl Hint for PrepareError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            PrepareError::OtherRecipe { folder, .. } => {
                let folder = folder.display();
                format!("give another folder, or go on with `softdiff train --out {folder}` alone").into()
            }
            PrepareError::OtherData { .. } => {
                "put the old ones back, go on with `softdiff train --out` alone (a run of an older version ignores EXIF \
                 orientation), or begin a new run"
                    .into()
            }
            PrepareError::DataNote { .. } => {
                "if the images are those the run was begun with, remove the file and run the same command again: it is \
                 written anew"
                    .into()
            }
            PrepareError::NoImages => "give at least one".into(),
            _ => return None,
        })
    }
}
