//! Recipes: everything a run is made of, in one TOML file.
//!
//! [`Recipe::parse`] reads a text with `--set`s laid over it and reports all that is wrong at once, each with its line and
//! a caret. Only sound recipes come out. [`Recipe::to_toml`] writes one with every key explicit, which is a run's
//! `config.toml`; it reads back as the same recipe. The rest turns sections into the library's own types.
//!
//! The keys are declared in the sections, each once: [`DataSection`], [`PathSection`], [`CorruptionSection`],
//! [`ScheduleSection`], [`PriorSection`], [`NetworkSection`], [`TrainSection`], [`CheckpointSection`], [`PreviewSection`],
//! [`SampleSection`]; `[objective]` is [`Objective`]. [`keys()`] lists them, as does `softdiff recipe keys`.

mod build;
mod builtin;
mod document;
mod keys;
mod open;
mod problem;
mod reader;
mod section;
mod writer;

pub use build::BuildError;
pub use builtin::BUILTIN;
pub use document::MAX_BYTES;
pub use keys::{KeyInfo, all as keys};
pub use problem::{RecipeError, RecipeExcerpt, RecipeProblem};
pub use section::{
    CheckpointSection, CorruptionPart, CorruptionSection, DataSection, Grid, KnotMethod, MATCHED_KNOTS, NetworkPreset,
    NetworkSection, PartSchedule, PathSection, PreviewSection, PriorSection, SampleSection, ScheduleSection,
    TimeCondition, TrainSection, Weights, score_sde_largest,
};

use crate::objective::Objective;
use document::Document;
use reader::{Problems, Reader};
use writer::TomlWriter;

/// A sound recipe.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `name` | the file's | what the run is called |
/// | `seed` | `0` | seed of everything random |
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Recipe {
    pub name: String,
    pub seed: u64,
    pub data: DataSection,
    pub path: PathSection,
    /// Of no meaning for paths without corruption, and then the default.
    pub schedule: ScheduleSection,
    pub prior: PriorSection,
    pub network: NetworkSection,
    pub objective: Objective,
    pub train: TrainSection,
    pub checkpoint: CheckpointSection,
    pub preview: PreviewSection,
    pub sample: SampleSection,
}

impl Recipe {
    /// Reads a recipe; `origin` names it in messages, `sets` are `a.b=c` (`a.b=` removes a key or section).
    pub fn parse(text: &str, origin: &str, sets: &[String]) -> Result<Recipe, RecipeError> {
        let document = Document::parse(text, origin, sets)?;
        let problems = Problems::new(&document);
        let r = Reader::new(&document, &problems);
        let name = r.text("name").filter(|name| {
            let short = name.chars().count() <= 80;
            if !short {
                r.problem("name", "name is too long", "give a name of at most 80 characters");
            }
            short
        });
        let seed = r.whole("seed", 0..=i64::MAX as u64).unwrap_or(0);
        let data = DataSection::read(&r.table("data"));
        let path = PathSection::read(&r.table("path"), data.size);
        let schedule = if path.corruption().is_some() {
            ScheduleSection::read(&r.table("schedule"), seed, data.size)
        } else {
            r.refuse(
                &format!("path.kind \"{}\"", path.kind()),
                &[("schedule", "path.kind two-stage or simultaneous, whose corruption has levels to choose")],
            );
            ScheduleSection::default()
        };
        let prior = PriorSection::read(&r.table("prior"), &path);
        let network = NetworkSection::read(&r.table("network"), &path);
        let objective = section::read_objective(&r.table("objective"), &path);
        let train = TrainSection::read(&r.table("train"));
        let checkpoint = CheckpointSection::read(&r.table("checkpoint"));
        let sample = SampleSection::read(&r.table("sample"), &train, &path, &objective);
        let preview = PreviewSection::read(&r.table("preview"), &sample, &path, &objective);
        r.finish();
        drop(r);
        problems.into_result(origin)?;
        let name = name.unwrap_or_else(|| open::stem(origin));
        Ok(Recipe { name, seed, data, path, schedule, prior, network, objective, train, checkpoint, preview, sample })
    }

    /// The recipe with every key explicit; reads back as an equal one.
    pub fn to_toml(&self) -> String {
        let mut w = TomlWriter::default();
        w.value("name", &self.name);
        w.value("seed", &self.seed);
        self.data.write(&mut w);
        self.path.write(&mut w);
        if self.path.corruption().is_some() {
            self.schedule.write(&mut w);
        }
        self.prior.write(&mut w);
        self.network.write(&mut w);
        section::write_objective(&self.objective, &mut w);
        self.train.write(&mut w);
        self.checkpoint.write(&mut w);
        self.preview.write(&mut w);
        self.sample.write(&mut w);
        w.finish()
    }
}
