//! One module per verb.

mod import;

use crate::diagnostics::Outcome;
use clap::Subcommand;

/// What `softdiff` can do.
#[derive(Subcommand)]
pub enum Command {
    Import(import::Import),
}

impl Command {
    /// Runs the verb; with `json`, prints one object on standard output.
    pub fn run(self, json: bool) -> Outcome {
        match self {
            Command::Import(import) => import.run(json),
        }
    }
}
