//! What a run wrote down: its recipe, events, schedule and sessions, as sections.

use super::{Body, Chart, Figure, PageBlock, Section, Series};
use crate::metrics::StoredEvaluations;
use crate::recipe::{Recipe, RecipeError};
use crate::run::fs::read_up_to;
use crate::run::{Event, EventKind, RunError, RunFolder, RunSession};
use crate::schedule::{Schedule, ScheduleError};
use crate::watch::Clock;

/// Previews shown, evenly over the training.
const PREVIEWS: usize = 6;
/// Largest preview that is shown.
const LARGEST_PREVIEW: u64 = 8 << 20;
/// Most points of a line.
const POINTS: usize = 600;

/// All that a run wrote about itself, finished or not.
pub struct Records {
    folder: RunFolder,
    /// The recipe as it was trained, from `config.toml`.
    pub recipe: Recipe,
    /// The events of `events.jsonl`, oldest first.
    pub events: Vec<Event>,
    /// The measured schedule, if the run has a `schedule.json`.
    pub schedule: Option<Schedule>,
    /// The processes that trained it, with their devices.
    pub sessions: Vec<RunSession>,
    /// Results that `softdiff eval --run` kept.
    pub kept: StoredEvaluations,
    clock: Clock,
}

/// Why the records could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The recipe.
    #[error("{0}")]
    Recipe(#[from] RecipeError),
    /// The events.
    #[error("{0}")]
    Run(#[from] RunError),
    /// The schedule.
    #[error("{0}")]
    Schedule(#[from] ScheduleError),
}

impl Records {
    /// Reads a run's folder; events after a torn line are left out.
    pub fn read(folder: &RunFolder) -> Result<Records, RecordsError> {
        folder.refuse_links()?;
        let recipe = Recipe::saved(&folder.config(), &[])?;
        let events = match folder.events().is_file() {
            true => folder.read_events()?.map_while(Result::ok).collect(),
            false => vec![],
        };
        let schedule = folder.read_schedule()?;
        let (sessions, kept) = (folder.sessions(), StoredEvaluations::read(folder));
        let clock = Clock::of(folder);
        Ok(Records { folder: folder.clone(), recipe, events, schedule, sessions, kept, clock })
    }

    /// Steps done, as far as the events tell.
    pub fn step(&self) -> u64 {
        self.events.last().map_or(0, |event| event.step)
    }

    /// How long it was trained, previews and evaluations included, by the last checkpoint, and how fast; none before there is one.
    pub fn time(&self) -> Option<String> {
        let (step, seconds) = self.clock.last()?;
        let each = seconds / step.max(1) as f64;
        let words = match seconds {
            ..120.0 => format!("{seconds:.0} s"),
            ..7200.0 => format!("{:.0} minutes", seconds / 60.0),
            _ => format!("{:.1} hours", seconds / 3600.0),
        };
        let each = if each < 0.1 { format!("{:.1} ms", each * 1e3) } else { format!("{each:.2} s") };
        Some(format!("{words} for {step} steps, {each} each"))
    }

    /// Weights of the network, as far as the events tell.
    pub fn parameters(&self) -> Option<u64> {
        self.events.iter().find_map(|event| match event.kind {
            EventKind::Started { parameters, .. } => Some(parameters),
            _ => None,
        })
    }

    /// The losses over training: in all, and by time.
    pub fn training(&self) -> Section {
        let steps = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::Step { loss, loss_by_time, norm, .. } => Some((event.step as f64, *loss, loss_by_time, *norm)),
            _ => None,
        });
        let steps: Vec<_> = steps.collect();
        if steps.is_empty() {
            let text = "There are no records of the training here.".to_owned();
            return Section { title: "Training".into(), blocks: vec![PageBlock::Text(text)] };
        }
        let bins = steps.first().map_or(0, |step| step.2.len());
        let line = |value: &dyn Fn(usize) -> Option<f64>| thinned(&steps, |i| (steps[i].0, value(i)));
        let total = Chart {
            x: "training step".into(),
            y: "loss".into(),
            log_y: true,
            series: vec![Series::new("loss", line(&|i| Some(steps[i].1)))],
            ..Chart::default()
        };
        let by_time = Chart {
            x: "training step".into(),
            y: "loss by time".into(),
            log_y: true,
            family: true,
            series: (0..bins)
                .map(|bin| {
                    let (from, to) = (bin as f64 / bins as f64, (bin + 1) as f64 / bins as f64);
                    let points = line(&|i| steps[i].2.get(bin).copied().flatten());
                    Series::new(format!("t {from:.1} to {to:.1}"), points)
                })
                .collect(),
            ..Chart::default()
        };
        let norm = Chart {
            x: "training step".into(),
            y: "norm of the gradient".into(),
            log_y: true,
            series: vec![Series::new("norm of the gradient", line(&|i| Some(steps[i].3)))],
            ..Chart::default()
        };
        let mut blocks = vec![
            PageBlock::Figure(Figure::chart(
                "loss",
                "The training loss (Soft Score Matching, summed over pixels), averaged over the steps between two records.",
                &total,
            )),
            PageBlock::Figure(Figure::chart(
                "loss-by-time",
                "The same by time: small t is nearly clean, t = 1 fully corrupted.",
                &by_time,
            )),
            PageBlock::Figure(Figure::chart(
                "norm",
                "The gradient's norm before clipping, averaged in the same way.",
                &norm,
            )),
        ];
        blocks.extend(self.scores());
        let warnings: Vec<String> = self
            .events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::Warning { message } => Some(format!("step {}: {message}", event.step)),
                _ => None,
            })
            .collect();
        if !warnings.is_empty() {
            blocks.push(PageBlock::Text(format!("Warnings during training: {}.", warnings.len())));
            blocks.push(PageBlock::Code(warnings.iter().take(20).cloned().collect::<Vec<_>>().join("\n")));
        }
        Section { title: "Training".into(), blocks }
    }

    /// Previews from fixed noise, early to late.
    pub fn previews(&self) -> Option<Section> {
        let all: Vec<(u64, &String)> = self
            .events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::Preview { file } => Some((event.step, file)),
                _ => None,
            })
            .collect();
        let count = all.len().min(PREVIEWS);
        let text = "The same starting points throughout; the moving average of the weights.";
        let mut row = Vec::new();
        for index in 0..count {
            let (step, file) = all[if count > 1 { index * (all.len() - 1) / (count - 1) } else { 0 }];
            // A name from a file must not lead out of the run's folder.
            let name = std::path::Path::new(file).file_name()?;
            let path = self.folder.samples().join(name);
            let Ok(bytes) = read_up_to(self.folder.fs().as_ref(), &path, LARGEST_PREVIEW) else { continue };
            let Ok(picture) = crate::image::decode(&bytes) else { continue };
            let caption = format!("After {step} steps.");
            let body = Body::Png { bytes, width: picture.width };
            row.push(Figure { name: "preview", caption, body });
        }
        (!row.is_empty()).then(|| Section {
            title: "Previews during training".into(),
            blocks: vec![PageBlock::Text(text.into()), PageBlock::Row(row)],
        })
    }

    /// The commands and the recipe that make it again.
    pub fn reproduce(&self) -> Section {
        let run = format!("runs/{}", self.recipe.name);
        let mut commands = vec![format!("softdiff train config.toml --out {run}"), format!("softdiff sample {run}")];
        commands.extend(self.kept.commands(&run));
        commands.push(format!("softdiff report {run}"));
        let head = ["begun", "program", "device", "threads", "from step"].map(String::from).to_vec();
        let rows = self.sessions.iter().map(|session| {
            let begun = utc(session.started_unix);
            let (build, device) = (session.build.clone(), session.device.clone());
            vec![begun, build, device, session.threads.to_string(), session.from_step.to_string()]
        });
        let blocks = vec![
            PageBlock::Text("With the recipe below as config.toml:".into()),
            PageBlock::Code(commands.join("\n")),
            PageBlock::Code(self.recipe.to_toml()),
            PageBlock::Table { head, rows: rows.collect() },
        ];
        Section { title: "Do it again".into(), blocks }
    }
}

/// At most so many points, the last one among them.
fn thinned<T>(all: &[T], point: impl Fn(usize) -> (f64, Option<f64>)) -> Vec<(f64, f64)> {
    let every = all.len().div_ceil(POINTS).max(1);
    let chosen = (0..all.len()).filter(|i| (all.len() - 1 - i).is_multiple_of(every)).map(point);
    chosen.filter_map(|(x, y)| Some((x, y?))).collect()
}

/// A moment in universal time, to the minute.
fn utc(unix: u64) -> String {
    let (days, minutes) = (unix / 86_400, unix % 86_400 / 60);
    // Days since 0000-03-01, in eras of 400 years (the civil calendar's usual arithmetic).
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_in_universal_time() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_709_251_199), "2024-02-29 23:59 UTC");
    }

    #[test]
    fn long_lines_are_thinned_and_keep_their_end() {
        let points = thinned(&[(); 5000], |i| (i as f64, (i % 2 == 1).then_some(1.0)));
        assert!(points.len() <= POINTS && points.last() == Some(&(4999.0, 1.0)));
        assert_eq!(thinned(&[(); 3], |i| (i as f64, Some(0.0))).len(), 3);
    }
}
