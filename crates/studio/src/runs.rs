//! The runs in a folder: what there is, their losses, and how far the live ones are.

use super::problem::HttpProblem;
use super::query::QueryValues;
use super::schedule::drawn;
use serde_json::{Value, json};
use softdiff::report::{Chart, Series};
use softdiff::run::fs::{Disk, read_up_to};
use softdiff::run::{EventKind, RunFolder};
use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Most runs that are listed.
const MOST: usize = 200;
/// Most runs in one chart.
const COMPARED: usize = 6;
/// Most points of a line.
const POINTS: usize = 600;
/// Most events that are read of one run.
const EVENTS: usize = 2_000_000;
/// A run that wrote nothing for so long is not training.
const ALIVE: Duration = Duration::from_secs(120);
/// Characters of a name for which a chart has room.
const LONGEST_NAME: usize = 30;
/// Largest preview that is shown.
const LARGEST_PREVIEW: u64 = 8 << 20;

/// The runs of one folder, with what was read of them.
#[derive(Clone)]
pub struct Runs {
    root: Arc<PathBuf>,
    known: Arc<Mutex<Known>>,
}

/// What was read of each run, and when it had been changed.
type Known = HashMap<String, (Stamp, Arc<Summary>)>;

/// Length and time of change of `events.jsonl`, which tell whether to read it again.
type Stamp = (u64, Option<SystemTime>);

/// What is shown of a run, read from its events.
#[derive(Default)]
struct Summary {
    step: u64,
    steps: u64,
    parameters: u64,
    losses: Vec<(f64, f64)>,
    previews: Vec<(u64, String)>,
    stopped: bool,
}

impl Runs {
    /// The runs below `root`, which need not be there yet.
    pub fn new(root: PathBuf) -> Runs {
        Runs { root: Arc::new(root), known: Arc::default() }
    }

    /// Names and folders, by name. Links are left out: they may lead anywhere.
    pub fn list(&self) -> Vec<(String, PathBuf)> {
        let entries = std::fs::read_dir(&*self.root).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let runs = folders.filter(|entry| entry.path().join("config.toml").is_file());
        let mut all: Vec<_> =
            runs.take(MOST).map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect();
        all.sort();
        all
    }

    fn find(&self, name: &str) -> Result<PathBuf, HttpProblem> {
        let found = self.list().into_iter().find(|(known, _)| known == name);
        found.map(|(_, folder)| folder).ok_or_else(|| HttpProblem::missing("there is no such run", "reload the page"))
    }

    /// `/api/runs`: state, step and loss of each.
    pub fn answer(&self) -> Value {
        let one = |(name, folder): (String, PathBuf)| {
            let (stamp, summary) = self.summary(&name, &folder);
            let quiet = stamp.1.and_then(|time| time.elapsed().ok()).is_none_or(|since| since > ALIVE);
            let state = match (summary.step >= summary.steps && summary.steps > 0, summary.stopped || quiet) {
                (true, _) => "finished",
                (_, true) => "stopped",
                _ => "training",
            };
            let last = summary.losses.last().map(|(_, loss)| *loss).filter(|loss| loss.is_finite());
            json!({
                "name": name, "state": state, "step": summary.step, "steps": summary.steps,
                "parameters": summary.parameters, "loss": last, "previews": summary.previews.len(),
            })
        };
        json!({ "folder": self.root.display().to_string(), "runs": self.list().into_iter().map(one).collect::<Value>() })
    }

    /// `/api/losses?runs=a&runs=b` by way of `run0`, `run1`, ...: one chart, and the newest preview of each.
    pub fn losses(&self, query: &QueryValues) -> Result<Value, HttpProblem> {
        let (mut series, mut previews) = (Vec::new(), Vec::new());
        for name in (0..COMPARED).filter_map(|index| query.value(&format!("run{index}"))) {
            let folder = self.find(name)?;
            let (_, summary) = self.summary(name, &folder);
            if let Some((step, file)) = summary.previews.last() {
                previews.push(json!({ "run": name, "step": step, "file": file }));
            }
            series.push(Series::new(name.chars().take(LONGEST_NAME).collect::<String>(), summary.losses.clone()));
        }
        let chart = Chart { x: "training step".into(), y: "loss".into(), log_y: true, series, ..Chart::default() };
        Ok(json!({ "svg": drawn(&chart), "previews": previews }))
    }

    /// `/api/preview?run=&file=`: an image that the run's own events name.
    pub fn preview(&self, query: &QueryValues) -> Result<Vec<u8>, HttpProblem> {
        let name = query.value("run").unwrap_or_default();
        let folder = self.find(name)?;
        let (_, summary) = self.summary(name, &folder);
        let missing = || HttpProblem::missing("there is no such preview", "reload the page");
        let named = |(_, file): &&(u64, String)| Some(file.as_str()) == query.value("file");
        let (_, file) = summary.previews.iter().find(named).ok_or_else(missing)?;
        let samples = RunFolder::new(&folder).samples();
        let path = samples.join(file);
        // Neither may be a link, which can lead anywhere.
        let is_ours =
            |path: &Path, kind: fn(&Metadata) -> bool| path.symlink_metadata().is_ok_and(|found| kind(&found));
        if !is_ours(&samples, Metadata::is_dir) || !is_ours(&path, Metadata::is_file) {
            return Err(missing());
        }
        let bytes = read_up_to(&Disk, &path, LARGEST_PREVIEW).map_err(|_| missing())?;
        if !bytes.starts_with(b"\x89PNG") {
            return Err(missing());
        }
        Ok(bytes)
    }

    /// What the events tell, read anew where there are new ones.
    fn summary(&self, name: &str, folder: &Path) -> (Stamp, Arc<Summary>) {
        let run = RunFolder::new(folder);
        let meta = std::fs::metadata(run.events());
        let stamp = meta.map_or((0, None), |meta| (meta.len(), meta.modified().ok()));
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, summary)) = lock().get(name).filter(|(known, _)| *known == stamp) {
            return (stamp, summary.clone());
        }
        let summary = Arc::new(Summary::read(&run));
        let mut known = lock();
        if known.len() > 2 * MOST {
            known.clear();
        }
        known.insert(name.to_owned(), (stamp, summary.clone()));
        (stamp, summary)
    }
}

impl Summary {
    fn read(run: &RunFolder) -> Summary {
        let mut summary = Summary::default();
        let Ok(events) = run.read_events() else { return summary };
        for event in events.map_while(Result::ok).take(EVENTS) {
            summary.step = event.step;
            summary.stopped = matches!(event.kind, EventKind::Stopped { .. });
            match event.kind {
                EventKind::Started { steps, parameters, .. } => {
                    (summary.steps, summary.parameters) = (steps, parameters)
                }
                EventKind::Step { loss, .. } => summary.losses.push((event.step as f64, loss)),
                // A name from a file must not lead out of the run's folder.
                EventKind::Preview { file } => {
                    if let Some(file) = Path::new(&file).file_name().and_then(|file| file.to_str()) {
                        summary.previews.push((event.step, file.to_owned()));
                    }
                }
                _ => {}
            }
        }
        let (count, every) = (summary.losses.len(), summary.losses.len().div_ceil(POINTS).max(1));
        let mut index = 0;
        summary.losses.retain(|_| {
            index += 1;
            (count - index).is_multiple_of(every)
        });
        summary
    }
}
