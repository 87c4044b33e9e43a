//! Training: one step as one graph.

mod step;

pub use step::{BlurPath, Noise, SoftStep, StepInputs};
