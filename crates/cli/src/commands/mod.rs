//! One module per verb.

use crate::diagnostics::Outcome;
use clap::Subcommand;

/// What `softdiff` can do.
#[derive(Subcommand)]
pub enum Command {}

impl Command {
    /// Runs the verb; with `json`, prints one object on standard output.
    pub fn run(self, _json: bool) -> Outcome {
        match self {}
    }
}
