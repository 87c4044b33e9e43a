//! `softdiff bench`: how fast this machine is, side by side with others' software.

mod engine;
mod evaluate;
mod features;
mod gpu;
mod peer;
mod restore;
mod rival;
mod step;
mod transport;

use crate::diagnostics::Outcome;
use clap::{Args, Subcommand};

/// Measure speed, side by side with other software in the same run.
#[derive(Args)]
#[command(after_help = "\
Example: the training step of NCSN++ alone, and beside PyTorch on the same GPU
  softdiff bench step
  softdiff bench step --against torch")]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Engine(engine::Engine),
    Evaluate(evaluate::Evaluate),
    Features(features::FeaturesBenchmark),
    Restore(restore::BenchRestore),
    Step(step::BenchStep),
    Transport(transport::TransportArguments),
}

impl Bench {
    pub fn run(self, json: bool) -> Outcome {
        match self.what {
            What::Engine(engine) => engine.run(json),
            What::Evaluate(evaluate) => evaluate.run(json),
            What::Features(features) => features.run(json),
            What::Restore(restore) => restore.run(json),
            What::Step(step) => step.run(json),
            What::Transport(arguments) => transport::run(arguments, json),
        }
    }
}
