//! Soft Diffusion as a library: score matching for general linear corruptions.
//!
//! A diffusion here is any linear path `x_t = C_t x_0 + sigma_t eta` (Soft Diffusion, Eq. 4), with t = 0 clean and
//! t = 1 corrupted. Each noun of the paper is one module.
#![forbid(unsafe_code)]

pub mod checkpoint;
mod device_choice;
pub mod experiment;
pub mod history;
pub mod import;
pub mod inception;
pub mod metrics;
pub mod model;
pub mod recipe;
pub mod report;
pub mod restore;
pub mod run;
pub mod train;
pub mod watch;

pub use corruption::Shape;
pub use data::Dataset;
pub use device_choice::DeviceChoice;
pub use model::Model;
pub use path::Path;
pub use softdiff_data::bytes::BytesError;
pub use softdiff_data::{archive, image, sets as data};
pub use softdiff_diffusion::{
    corruption, curve, linalg, network, noise, objective, path, prior, random, sampler, schedule, spectrum, transport,
};
pub use softdiff_engine as engine;
pub use softdiff_engine::hash;
pub use train::{Trained, Training, train_recipe as train};
