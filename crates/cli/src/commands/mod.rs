//! One module per verb.

mod data;
mod import;

use crate::diagnostics::Outcome;
use clap::Subcommand;

/// What `softdiff` can do.
#[derive(Subcommand)]
pub enum Command {
    Data(data::Data),
    Import(import::Import),
}

impl Command {
    /// Runs the verb; with `json`, prints one object on standard output.
    pub fn run(self, json: bool) -> Outcome {
        match self {
            Command::Data(data) => data.run(json),
            Command::Import(import) => import.run(json),
        }
    }
}
