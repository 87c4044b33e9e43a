//! `softdiff`: one binary for the whole of diffusion with linear corruptions.
#![forbid(unsafe_code)]

mod commands;
mod diagnostics;
mod progress;

use clap::Parser;

/// Train, schedule, sample and evaluate diffusion models over any linear corruption.
#[derive(Parser)]
#[command(name = "softdiff", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
    /// Print one JSON object on standard output instead of text.
    #[arg(long, global = true)]
    json: bool,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    match arguments.command.run(arguments.json) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
