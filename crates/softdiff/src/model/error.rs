//! What can be wrong with a model.

use crate::checkpoint::CheckpointError;
use crate::prior::PriorError;
use crate::recipe::{BuildError, RecipeError, Weights};
use crate::run::RunError;
use crate::sampler::SamplerError;
use crate::schedule::ScheduleError;
use crate::spectrum::SpectrumError;
use softdiff_engine::Hint;
use std::borrow::Cow;
use std::path::PathBuf;

/// Why a model could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Neither a run nor an exported model.
    #[error("{} is not a model: it has no config.toml", .0.display())]
    NoModel(PathBuf),
    /// A file of another kind, such as an image.
    #[error("{} is not a model: it is no file of weights (.safetensors)", .0.display())]
    NotWeights(PathBuf),
    /// A file that is no imported model.
    #[error("{}: {problem}", file.display())]
    Imported {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Imported weights of a network that is conditioned on the index of a noise level, without the noise levels.
    #[error("{}: its network is conditioned on the index of a noise level, and the file has no noise levels", .0.display())]
    NoNoiseLevels(PathBuf),
    /// Imported weights of a model on another path than score_sde's.
    #[error("{}: its network is conditioned on the time of a path that the file does not describe", .0.display())]
    ConditionedOnTime(PathBuf),
    /// The newest checkpoint of a run is damaged.
    #[error("{problem}")]
    NewestDamaged {
        /// What is wrong with it.
        #[source]
        problem: CheckpointError,
        /// The newest that is whole.
        whole: u64,
    },
    /// A run without checkpoints.
    #[error("{} has no checkpoint yet", .0.display())]
    NoCheckpoint(PathBuf),
    /// A run none of whose checkpoints was scored.
    #[error("{} has no best checkpoint, for none that is kept was scored", .0.display())]
    NoBest(PathBuf),
    /// A run without the checkpoint asked for.
    #[error("{} has no checkpoint at step {step}", run.display())]
    NoSuchCheckpoint {
        /// The run.
        run: PathBuf,
        /// What was asked for.
        step: u64,
        /// Those that there are.
        there: String,
    },
    /// A choice of checkpoints where there is one only.
    #[error("{} is one model, without checkpoints to choose from", .0.display())]
    NoChoice(PathBuf),
    /// An exported model without one of its files.
    #[error("{}: this exported model lacks {file}", folder.display())]
    Lacks {
        /// The model.
        folder: PathBuf,
        /// What is not there.
        file: String,
    },
    /// Other weights of a model that has one kind only.
    #[error("{} has the weights {has} only, and {wanted} are asked for", place.display())]
    OtherWeights {
        /// The model.
        place: PathBuf,
        /// What it has.
        has: Weights,
        /// What was asked for.
        wanted: Weights,
    },
    /// Events that cannot be read.
    #[error("{0}")]
    Run(#[from] RunError),
    /// A checkpoint without the average asked for.
    #[error("{} keeps no {wanted}", run.display())]
    NoAverage {
        /// The run.
        run: PathBuf,
        /// What was asked for.
        wanted: String,
        /// What there is.
        kept: Vec<String>,
    },
    /// An average that the checkpoints cannot give.
    #[error("{} cannot give an average of width {width}: {problem}", run.display())]
    PostHoc {
        /// The run.
        run: PathBuf,
        /// What was asked for.
        width: f64,
        /// What is wrong.
        problem: String,
    },
    /// Weights that cannot be read.
    #[error("{}: {problem}", file.display())]
    Weights {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A guide that is no weaker version of the model.
    #[error("{guide} cannot guide {model}: it has {what}")]
    OtherGuide {
        /// The guide's name.
        guide: String,
        /// The model's.
        model: String,
        /// What differs.
        what: &'static str,
    },
    /// A model whose path or network no recipe describes.
    #[error("a model with a custom path, network or prediction cannot be exported")]
    NotDescribed,
    /// Sampling.
    #[error("{0}")]
    Sampler(#[from] SamplerError),
    /// An ending that no format of images has.
    #[error("{}: no format is called .{ending}", file.display())]
    ImageFormat {
        /// The file.
        file: PathBuf,
        /// Its ending.
        ending: String,
    },
    /// More images than a format takes.
    #[error("{what} has at most {most} images, and {images} are asked for")]
    TooManyImages {
        /// The format.
        what: &'static str,
        /// Seeds given.
        images: u64,
        /// The most it takes.
        most: u64,
    },
    /// A folder that cannot be written.
    #[error("cannot write {}: {problem}", file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A bad recipe.
    #[error("{0}")]
    Recipe(#[from] RecipeError),
    /// A recipe that does not fit.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// A bad schedule.
    #[error("{0}")]
    Schedule(#[from] ScheduleError),
    /// A bad prior.
    #[error("{0}")]
    Prior(#[from] PriorError),
    /// A bad spectrum.
    #[error("{0}")]
    Spectrum(#[from] SpectrumError),
    /// A bad checkpoint.
    #[error("{0}")]
    Checkpoint(#[from] CheckpointError),
    /// A bad network.
    #[error("{0}")]
    Engine(#[from] softdiff_engine::Error),
}

impl Hint for ModelError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            ModelError::NoModel(..) => "give a run's folder, one of its checkpoints, or an exported model".into(),
            ModelError::Imported { .. } | ModelError::NotWeights(..) => "give a run's folder, an exported model, or what softdiff import wrote".into(),
            ModelError::NoNoiseLevels(..) => "import the checkpoint again (softdiff import)".into(),
            ModelError::ConditionedOnTime(..) => "use the run or the model folder that the weights were exported from".into(),
            ModelError::NewestDamaged { whole, .. } => {
                format!("restore it from a copy, or give --checkpoint {whole}, the newest that is whole").into()
            }
            ModelError::NoCheckpoint(..) => "let it train up to one (checkpoint.every)".into(),
            ModelError::NoBest(..) => "give --checkpoint last, or train with checkpoint.keep_best = 1 (the metric fid needs softdiff data fetch fid-inception)".into(),
            ModelError::NoSuchCheckpoint { there, .. } => format!("give best, last, or one of {there}").into(),
            ModelError::NoChoice(..) => "leave --checkpoint out, or give a run's folder".into(),
            ModelError::Lacks { .. } => "copy the whole folder again, or export the model again".into(),
            ModelError::OtherWeights { .. } => "leave --weights out, or give the run's folder".into(),
            ModelError::NoAverage { kept, .. } => format!("it has {}", kept.join(", ")).into(),
            ModelError::PostHoc { .. } => "keep more checkpoints (checkpoint.keep_every), or give another width".into(),
            ModelError::Weights { .. } => "export the model again".into(),
            ModelError::OtherGuide { .. } => "train it by the same recipe and on the same images, with a smaller network and fewer steps".into(),
            ModelError::NotDescribed => "keep the program that trains it and its run folder".into(),
            ModelError::ImageFormat { .. } => "give a .png, .npz or .zip, or a folder".into(),
            ModelError::TooManyImages { .. } => "give --out an .npz or a folder, or fewer --seeds".into(),
            ModelError::Unwritable { .. } => "check the folder, the free space and the limit on file sizes (ulimit -f)".into(),
            _ => return None,
        })
    }
}
