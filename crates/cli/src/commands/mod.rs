//! One module per verb.

mod bench;
mod checkpoint;
mod corrupt;
mod corruption;
mod data;
mod describe;
mod device;
mod doctor;
mod eval;
mod export;
mod import;
mod pictures;
mod quickstart;
mod recipe;
mod report;
mod reproduce;
pub(crate) mod restore;
mod sample;
mod schedule;
mod seeds;
mod studio;
mod train;
mod watch;

use crate::diagnostics::Outcome;
use clap::Subcommand;

/// What `softdiff` can do.
#[derive(Subcommand)]
pub enum Command {
    Bench(bench::Bench),
    Completions(describe::Completions),
    Corrupt(corrupt::Arguments),
    Data(data::Data),
    Doctor(doctor::Doctor),
    Eval(Box<eval::Eval>),
    Export(export::Export),
    Import(import::Import),
    Man(describe::Man),
    Quickstart(quickstart::Quickstart),
    Recipe(recipe::RecipeVerb),
    Report(report::Report),
    Reproduce(Box<reproduce::Reproduce>),
    Restore(Box<restore::Restore>),
    Sample(Box<sample::Sample>),
    Schedule(Box<schedule::Arguments>),
    Studio(studio::Studio),
    Train(train::Train),
    Watch(watch::WatchRun),
}

impl Command {
    /// Runs the verb; with `json`, prints one object on standard output.
    pub fn run(self, json: bool) -> Outcome {
        match self {
            Command::Bench(bench) => bench.run(json),
            Command::Completions(completions) => completions.run(json),
            Command::Corrupt(arguments) => corrupt::run(arguments, json),
            Command::Data(data) => data.run(json),
            Command::Doctor(doctor) => doctor.run(json),
            Command::Eval(eval) => eval.run(json),
            Command::Export(export) => export.run(json),
            Command::Import(import) => import.run(json),
            Command::Man(man) => man.run(json),
            Command::Quickstart(quickstart) => quickstart.run(json),
            Command::Recipe(recipe) => recipe.run(json),
            Command::Report(report) => report.run(json),
            Command::Reproduce(reproduce) => reproduce.run(json),
            Command::Restore(restore) => restore.run(json),
            Command::Sample(sample) => sample.run(json),
            Command::Schedule(arguments) => schedule::run(*arguments, json),
            Command::Studio(studio) => studio.run(json),
            Command::Train(train) => train.run(json),
            Command::Watch(watch) => watch.run(json),
        }
    }
}
