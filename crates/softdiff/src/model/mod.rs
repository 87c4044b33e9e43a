//! Trained models: a network with weights, the path it was trained on, and where that path starts.

pub mod batch_size;
mod choice;
mod denoise_steps;
mod denoiser;
mod export;
mod exported;
mod generate;
mod generator;
mod guide;
mod imported;
mod likelihood;
mod on_device;
mod open;
mod posthoc;
mod reverse_process;
mod sample;
mod score_sde;
mod stored_size;
mod write;

pub(crate) use choice::find as find_checkpoint;
pub use choice::{CheckpointChoice, Chosen};
pub use denoise_steps::{DenoiseStep, DenoiseSteps};
pub use denoiser::{Condition, NetworkDenoiser, Predictor};
pub use export::ModelManifest;
pub use generate::{Generation, StepProgress, visible};
pub use generator::Generator;
pub use guide::Guide;
pub use likelihood::{LikelihoodError, LikelihoodOptions, dequantised};
pub use on_device::GraphSampler;
pub use open::{Model, ModelError, WEIGHTS};
pub use posthoc::{POSTHOC_WIDEST, post_hoc_average};
pub use reverse_process::ReverseProcess;
pub use sample::SampleRequest;
pub use score_sde::{ScoreSdeError, ScoreSdeWeights};
pub use write::{ImageMaker, write_images};
