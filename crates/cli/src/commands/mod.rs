//! One module per verb.

mod bench;
mod checkpoint;
mod completions;
mod corrupt;
mod corruption;
mod data;
mod device;
mod doctor;
mod eval;
mod export;
mod images;
mod import;
mod part;
mod quickstart;
mod recipe;
mod report;
mod reproduce;
pub(crate) mod restore;
mod sample;
mod schedule;
mod seeds;
mod steps;
mod studio;
mod together;
mod train;
mod watch;

use crate::diagnostics::Outcome;
use clap::Subcommand;
use softdiff::run::StopRequest;

/// What `softdiff` can do.
#[derive(Subcommand)]
pub enum CliCommand {
    Bench(bench::Bench),
    Completions(completions::Completions),
    Corrupt(corrupt::CorruptArguments),
    Data(data::DataCommand),
    Doctor(doctor::Doctor),
    Eval(Box<eval::Eval>),
    Export(export::Export),
    Import(import::Import),
    Man(completions::Man),
    Quickstart(quickstart::Quickstart),
    Recipe(recipe::RecipeVerb),
    Report(report::Report),
    Reproduce(Box<reproduce::Reproduce>),
    Restore(Box<restore::Restore>),
    Sample(Box<sample::Sample>),
    Schedule(Box<schedule::ScheduleArguments>),
    Studio(studio::StudioCommand),
    Train(train::Train),
    Watch(watch::WatchRun),
}

impl CliCommand {
    /// Runs the verb; with `json`, prints one object on standard output. Those that save something stop by `stop`; a signal ends
    /// the others at once.
    pub fn run(self, json: bool, stop: &StopRequest) -> Outcome {
        match self {
            CliCommand::Bench(bench) => bench.run(json),
            CliCommand::Completions(completions) => completions.run(json),
            CliCommand::Corrupt(arguments) => corrupt::run(arguments, json),
            CliCommand::Data(data) => data.run(json),
            CliCommand::Doctor(doctor) => doctor.run(json, stop),
            CliCommand::Eval(eval) => eval.run(json, stop),
            CliCommand::Export(export) => export.run(json),
            CliCommand::Import(import) => import.run(json),
            CliCommand::Man(man) => man.run(json),
            CliCommand::Quickstart(quickstart) => quickstart.run(json, stop),
            CliCommand::Recipe(recipe) => recipe.run(json),
            CliCommand::Report(report) => report.run(json),
            CliCommand::Reproduce(reproduce) => reproduce.run(json, stop),
            CliCommand::Restore(restore) => restore.run(json),
            CliCommand::Sample(sample) => sample.run(json, stop),
            CliCommand::Schedule(arguments) => schedule::run(*arguments, json),
            CliCommand::Studio(studio) => studio.run(json, stop),
            CliCommand::Train(train) => train.run(json, stop),
            CliCommand::Watch(watch) => watch.run(json, stop),
        }
    }

    /// Whether the same command goes on where it was stopped.
    pub fn continues(&self) -> bool {
        match self {
            CliCommand::Train(_) | CliCommand::Quickstart(_) | CliCommand::Reproduce(_) => true,
            CliCommand::Data(data) => data.continues(),
            _ => false,
        }
    }
}
