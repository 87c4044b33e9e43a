//! `softdiff`: one binary for the whole of diffusion with linear corruptions.
#![forbid(unsafe_code)]

#[macro_use]
mod output;

mod atomic_file;
mod commands;
mod diagnostics;
#[cfg(test)]
mod page_commands;
mod progress;

use clap::{Arg, CommandFactory, FromArgMatches, Parser};
use diagnostics::Failure;
use output::Verbosity;
use softdiff::run::StopRequest;
use softdiff_engine::allocator::keep_freed_memory;
use softdiff_engine::atomic_file::remove_temporaries;
use std::process::ExitCode;
use std::time::Instant;

const CODES: &str = "\
Exit codes:
  0    done
  1    failed; the message and its hint say how to fix it
  2    bad usage, or a bad recipe
  75   stopped by SIGTERM or SIGHUP, while training with a checkpoint saved; run the same command again to continue
  130  interrupted by Ctrl-C, while training with a checkpoint saved

Begin with: softdiff quickstart";

/// Train, schedule, sample and evaluate diffusion models over any linear corruption.
#[derive(Parser)]
#[command(name = "softdiff", version, arg_required_else_help = true, after_help = CODES)]
struct CommandLine {
    #[command(subcommand)]
    command: commands::CliCommand,
    /// Print one JSON object on standard output instead of text, also about a failure.
    #[arg(long, global = true)]
    json: bool,
    /// Say nothing but errors and warnings.
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Say also how long it took, with how much memory, and errors in full.
    #[arg(long, short, global = true)]
    verbose: bool,
}

fn main() -> ExitCode {
    let begun = Instant::now();
    keep_freed_memory();
    let CommandLine { command, json, quiet, verbose } = CommandLine::parsed();
    output::set_verbosity(match (quiet, verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Usual,
    });
    let continues = command.continues();
    let stop = StopRequest::install(move |reason| diagnostics::report_stop(reason, continues, json));
    let code = match stop.map_err(Failure::from).and_then(|stop| command.run(json, &stop)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure.report(json)),
    };
    if output::is_verbose() {
        let memory = peak_memory().map_or(String::new(), |mib| format!(", {mib} MiB of memory at most"));
        eprintln!("took {:.3} s{memory}", begun.elapsed().as_secs_f64());
    }
    // A thread that is not waited for may be writing.
    remove_temporaries();
    code
}

impl CommandLine {
    fn parsed() -> CommandLine {
        CommandLine::from_arg_matches(&arguments().get_matches()).unwrap_or_else(|error| error.exit())
    }
}

/// The whole command line, for those who complete it.
fn arguments() -> clap::Command {
    with_negative_numbers(CommandLine::command())
}

/// A number below 0 after an option is its value, which the option may refuse by name, and no unknown argument.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let takes_value = |arg: &Arg| !arg.is_positional() && arg.get_action().takes_values();
    let command = command.mut_args(|arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg });
    command.mut_subcommands(with_negative_numbers)
}

/// The most memory that this process had, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib.div_ceil(1024))
}
