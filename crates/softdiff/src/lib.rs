//! Soft Diffusion: score matching for general linear corruptions (Daras et al., 2022).
//!
//! A diffusion here is any linear path `x_t = C_t x_0 + sigma_t eta` (Eq. 4), with t = 0 clean and t = 1 corrupted: blur,
//! masking, fading, noise alone, or a corruption of your own.
//!
//! # Getting started
//!
//! Train a built-in recipe in a folder, continue it by the same call, and sample:
//!
//! ```no_run
//! let trained = softdiff::train("quickstart", "runs/first")?;
//! trained.model().sample(0..64).grid("samples.png")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Later, or with a model that somebody else trained:
//!
//! ```no_run
//! let model = softdiff::Model::open("runs/first".as_ref(), None)?;
//! model.sample(0..64).sampler("heun").steps(40).grid("samples.png")?;
//! # Ok::<(), softdiff::model::ModelError>(())
//! ```
//!
//! Train on images in memory, with any path; no file is written:
//!
//! ```
//! use softdiff::corruption::{Blur, Boundary};
//! use softdiff::curve::Interpolation;
//! use softdiff::{Dataset, Path, Shape, Training};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shape = Shape::new(8, 8, 1);
//! let pixels = (0..64 * shape.len()).map(|i| (i * i % 251) as u8).collect();
//! let images = Dataset::new(8, 8, 1, pixels, None, vec![]);
//! // First noise up to 0.1, then blur up to 4 pixels: the paper's two stages.
//! let blur = Blur::new(shape, Boundary::Reflect, 4.0)?;
//! let path = Path::two_stage(Box::new(blur), vec![0.0, 0.5, 1.5, 4.0], Interpolation::Linear)?;
//!
//! let trained = Training::new(images, path).set("network.channels=8").steps(2).batch(8).run()?;
//! let samples = trained.model().sample(0..4).steps(3).images()?;
//! assert_eq!((samples.len(), samples.height()), (4, 8));
//! # Ok(())
//! # }
//! ```
//!
//! # Your own parts
//!
//! | part | trait | example |
//! |---|---|---|
//! | corruption | [`Corruption`] | `examples/own_images.rs` |
//! | network | [`Network`] | `examples/own_network.rs` |
//! | objective | [`Loss`] | `examples/own_objective.rs` |
//! | sampler | [`Sampler`] | `examples/own_sampler.rs` |
//! | what happens while training goes on | [`train::Watcher`] | `examples/own_objective.rs` |
//!
//! # Modules
//!
//! | what for | modules |
//! |---|---|
//! | the paper | [`corruption`], [`noise`], [`curve`], [`path`], [`schedule`], [`transport`], [`objective`], [`network`], [`prior`], [`sampler`] |
//! | training and models | [`recipe`], [`train`], [`model`], [`checkpoint`], [`run`], [`mod@import`] |
//! | what models are good for | [`restore`], [`metrics`], [`inception`], [`experiment`] |
//! | looking at runs | [`watch`], [`history`], [`report`] |
//! | images and data sets | [`data`], [`image`] |
//! | what it is computed with | [`engine`] |
#![forbid(unsafe_code)]

pub mod checkpoint;
mod device_choice;
pub mod experiment;
pub mod hint;
pub mod history;
pub mod import;
pub mod inception;
pub mod metrics;
pub mod model;
pub mod ranks;
pub mod recipe;
pub mod report;
pub mod restore;
pub mod run;
pub mod train;
pub mod watch;

pub use softdiff_data::{image, sets as data};
pub use softdiff_diffusion::{corruption, curve, network, noise, objective, path, prior, sampler, schedule, transport};
pub use softdiff_engine as engine;

// What the program and the tests need besides.
#[doc(hidden)]
pub use softdiff_data::{archive, quote};
#[doc(hidden)]
pub use softdiff_diffusion::{linalg, spectrum};
#[doc(hidden)]
pub use softdiff_engine::hash;

pub use corruption::{Corruption, LinearMap, Shape};
pub use data::Dataset;
pub use device_choice::DeviceChoice;
pub use engine::Device;
pub use metrics::Evaluator;
pub use model::Model;
pub use network::{Network, UNetConfig};
pub use objective::{Loss, Objective};
pub use path::Path;
pub use recipe::Recipe;
pub use restore::Restoration;
pub use sampler::{Sampler, Sampling};
pub use schedule::Schedule;
pub use train::{Trained, Training, train_recipe as train};
