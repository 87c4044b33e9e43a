//! `softdiff bench`: one file per bench.

mod transport;

use crate::diagnostics::Outcome;
use clap::Subcommand;

/// What to measure.
#[derive(Subcommand)]
pub enum Bench {
    /// Sinkhorn against POT and OTT, on the same costs, alternating.
    Transport(transport::Arguments),
}

impl Bench {
    /// Runs the bench; with `json`, prints one object on standard output.
    pub fn run(self, json: bool) -> Outcome {
        match self {
            Bench::Transport(arguments) => transport::run(arguments, json),
        }
    }
}
