//! One module per verb.

mod bench;
mod corrupt;
mod corruption;
mod schedule;

use crate::diagnostics::Outcome;
use clap::Subcommand;

/// What `softdiff` can do.
#[derive(Subcommand)]
pub enum Command {
    /// Choose the corruption levels of a diffusion from images.
    Schedule(Box<schedule::Arguments>),
    /// Show an image along its way to full corruption.
    Corrupt(corrupt::Arguments),
    /// Measure softdiff against other software.
    #[command(subcommand)]
    Bench(bench::Bench),
}

impl Command {
    /// Runs the verb; with `json`, prints one object on standard output.
    pub fn run(self, json: bool) -> Outcome {
        match self {
            Command::Schedule(arguments) => schedule::run(*arguments, json),
            Command::Corrupt(arguments) => corrupt::run(arguments, json),
            Command::Bench(bench) => bench.run(json),
        }
    }
}
