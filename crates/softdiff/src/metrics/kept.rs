//! Results that are kept with the run whose images they measure: `evaluations/*.json`.

use super::evaluation::FORMAT;
use super::{Evaluation, compare};
use crate::run::RunFolder;
use crate::run::fs::read_up_to;
use softdiff_engine::hash;

/// Results that are read of one run, and the longest of them.
const MOST: usize = 500;
const LONGEST: u64 = 1 << 20;

/// The results of a run, by sampler and then by evaluations of the network.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The results.
    pub evaluations: Vec<Evaluation>,
    /// Files that are no results.
    pub unreadable: Vec<String>,
}

impl Kept {
    /// Reads what is kept in a run's folder; nothing where it keeps none.
    pub fn read(run: &RunFolder) -> Kept {
        let (fs, folder) = (run.fs(), run.evaluations());
        let mut kept = Kept::default();
        let names = fs.list(&folder).unwrap_or_default();
        for name in names.into_iter().filter(|name| name.ends_with(".json")).take(MOST) {
            let bytes = read_up_to(fs.as_ref(), &folder.join(&name), LONGEST).unwrap_or_default();
            match serde_json::from_slice::<Evaluation>(&bytes).ok().filter(|found| found.format == FORMAT) {
                Some(evaluation) => kept.evaluations.push(evaluation),
                None => kept.unreadable.push(name),
            }
        }
        let order = |one: &Evaluation| one.made.as_ref().map(|made| (made.sampler.clone(), made.evaluations));
        kept.evaluations.sort_by_key(order);
        kept
    }

    /// Those that may be compared with each other, together.
    pub fn groups(&self) -> Vec<Vec<&Evaluation>> {
        let mut groups: Vec<Vec<&Evaluation>> = Vec::new();
        for evaluation in &self.evaluations {
            match groups.iter_mut().find(|group| group.iter().all(|other| compare(other, evaluation).is_ok())) {
                Some(group) => group.push(evaluation),
                None => groups.push(vec![evaluation]),
            }
        }
        groups
    }
}

impl Evaluation {
    /// Its file's name among those of a run: the same images measured again in the same way replace it.
    pub fn file_name(&self) -> String {
        let text = serde_json::to_string(&self.protocol).unwrap_or_default();
        format!("{:016x}.json", hash::of_bytes(text.as_bytes()))
    }
}
