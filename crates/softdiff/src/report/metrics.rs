//! Numbers that `softdiff eval --run` kept: quality over evaluations of the network, samplers side by side, and how each
//! number was measured.

use super::{Chart, Figure, PageBlock, Section, Series};
use crate::metrics::{Evaluation, Made, Measured, StoredEvaluations};
use std::collections::{BTreeMap, BTreeSet};

/// Metrics that are drawn, the first one that was measured at least twice.
const DRAWN: [(&str, &str); 3] =
    [("fid", "FID"), ("kid", "KID"), ("sliced_wasserstein", "sliced Wasserstein distance to the data")];

/// Fields that a table of results has in its rows.
const IN_ROWS: [&str; 2] = ["images.source", "images.hash"];

impl StoredEvaluations {
    /// The metric over evaluations of the network, a line for each sampler; none unless two results can be compared.
    pub(super) fn quality(&self) -> Option<Section> {
        let groups = self.groups();
        let (group, (metric, words)) = DRAWN.iter().find_map(|named| {
            let measured = |group: &Vec<&Evaluation>| points(group, named.0).count();
            groups.iter().filter(|group| measured(group) > 1).max_by_key(|group| measured(group)).zip(Some(*named))
        })?;
        let states: BTreeSet<_> = points(group, metric).map(|(made, _)| (made.step, &made.weights)).collect();
        let mut lines: BTreeMap<String, Series> = BTreeMap::new();
        for (made, measured) in points(group, metric) {
            let name = match states.len() {
                1 => made.how(),
                _ => format!("{}, step {}", made.how(), made.step),
            };
            let line = lines.entry(name.clone()).or_insert_with(|| Series::new(name, vec![]));
            line.points.push((made.evaluations as f64, measured.value));
            line.errors.push(measured.error.unwrap_or(f64::NAN));
        }
        let chart = Chart {
            x: "evaluations of the network per image".into(),
            y: words.into(),
            log_x: true,
            from_zero: true,
            series: lines.into_values().collect(),
            ..Chart::default()
        };
        let count = group.first().map_or(0, |one| one.protocol.images.count);
        let caption = format!("{words}, lower is better; {count} images per point, measured by softdiff eval.");
        let figure = PageBlock::Figure(Figure::chart("quality", caption, &chart));
        Some(Section { title: "Quality over evaluations".into(), blocks: vec![figure] })
    }

    /// Every number with its protocol; those in one table were measured in the same way.
    pub(super) fn section(&self) -> Option<Section> {
        let mut blocks = Vec::new();
        let groups = self.groups();
        if groups.len() > 1 {
            blocks.push(PageBlock::Text("Only numbers of one table may be compared with each other.".into()));
        }
        for group in &groups {
            blocks.push(results(group));
            let warnings: BTreeSet<&String> = group.iter().flat_map(|one| &one.warnings).collect();
            blocks.extend(warnings.into_iter().map(|warning| PageBlock::Text(format!("Warning: {warning}."))));
            blocks.push(PageBlock::Text("How they were measured:".into()));
            blocks.push(protocol(group));
        }
        if !self.unreadable.is_empty() {
            let names = self.unreadable.join(", ");
            blocks.push(PageBlock::Text(format!("These files of evaluations/ are no results and left out: {names}.")));
        }
        (!blocks.is_empty()).then(|| Section { title: "Metrics".into(), blocks })
    }

    /// The lowest FID, for the summary.
    pub(super) fn lowest_fid(&self) -> Option<(String, String)> {
        let fid = |one: &Evaluation| one.results.get("fid").map(|fid| fid.value).filter(|fid| fid.is_finite());
        let lowest = self.evaluations.iter().filter(|one| fid(one).is_some());
        let lowest = lowest.min_by(|a, b| fid(a).unwrap_or(f64::MAX).total_cmp(&fid(b).unwrap_or(f64::MAX)))?;
        let how =
            lowest.made.as_ref().map_or(String::new(), |made| format!(", {} in {} steps", made.how(), made.steps));
        Some((format!("FID, {} images{how}", lowest.protocol.images.count), format!("{:.2}", fid(lowest)?)))
    }

    /// The commands that make the images and the numbers again.
    pub(super) fn commands(&self, run: &str) -> Vec<String> {
        let mut commands = Vec::new();
        for Evaluation { protocol, made, results, .. } in &self.evaluations {
            let Some(made) = made else { continue };
            let Made { weights, sampler, steps, seeds, set, guidance, guide, .. } = made;
            let mut changed: String = set.iter().map(|set| format!(" --set {}", typed(set))).collect();
            changed.extend(guide.iter().map(|guide| format!(" --guide {}", typed(guide))));
            changed.extend(guidance.iter().map(|guidance| format!(" --guidance {guidance}")));
            commands.push(format!(
                "softdiff sample {run} --weights {} --sampler {} --steps {steps} --seeds {}{changed} --out images.npz",
                typed(weights),
                typed(sampler),
                typed(seeds)
            ));
            let reference = &protocol.reference;
            let mut command = format!("softdiff eval images.npz --against {} --run {run}", typed(&reference.source));
            let flag = |name: &str| match name {
                "precision" | "recall" | "density" | "coverage" => "prdc".to_owned(),
                "psnr" | "ssim" => "pairs".to_owned(),
                other => other.replace('_', "-"),
            };
            let names: BTreeSet<String> = results.keys().map(|name| flag(name)).collect();
            command += &format!(" --metrics {}", typed(&names.into_iter().collect::<Vec<_>>().join(",")));
            if !matches!(reference.split.as_str(), "" | "train") {
                command += &format!(" --against-split {}", typed(&reference.split));
            }
            if !matches!(reference.resize.as_str(), "" | "none") {
                let [width, height, _] = reference.size;
                command += &format!(" --size {width}x{height} --crop {}", typed(&reference.crop));
            }
            if !protocol.preset.is_empty() {
                command += &format!(" --preset {}", typed(&protocol.preset));
            }
            commands.push(command);
        }
        commands
    }
}

/// The values of a metric whose images are known to be of a sampler.
fn points<'a>(group: &'a [&'a Evaluation], metric: &'a str) -> impl Iterator<Item = (&'a Made, &'a Measured)> {
    group.iter().filter_map(move |one| Some((one.made.as_ref()?, one.results.get(metric)?)))
}

fn results(group: &[&Evaluation]) -> PageBlock {
    let metrics: BTreeSet<&String> = group.iter().flat_map(|one| one.results.keys()).collect();
    let mut head = ["sampler", "steps", "evaluations"].map(String::from).to_vec();
    head.extend(metrics.iter().map(|name| name.replace('_', " ")));
    head.extend(["seeds", "training step", "weights", "hash of images"].map(String::from));
    let row = |one: &&Evaluation| {
        let made = one.made.as_ref();
        let text = |of: &dyn Fn(&Made) -> String| made.map_or(String::new(), of);
        let mut cells = vec![
            made.map_or_else(|| format!("not stated ({})", one.protocol.images.source), Made::how),
            text(&|made| made.steps.to_string()),
            text(&|made| made.evaluations.to_string()),
        ];
        cells.extend(metrics.iter().map(|name| one.results.get(*name).map_or(String::new(), number)));
        cells.extend([text(&|made| made.seeds.clone()), text(&|made| made.step.to_string())]);
        // The digits alone: the other hashes of the page say of which kind they are.
        let hash = &one.protocol.images.hash;
        let hash = hash.split_once(':').map_or(hash.as_str(), |(_, digits)| digits).to_owned();
        cells.extend([text(&|made| made.weights.clone()), hash]);
        cells
    };
    PageBlock::Table { head, rows: group.iter().map(row).collect() }
}

fn number(measured: &Measured) -> String {
    let digits = if measured.value.abs() >= 1.0 { 2 } else { 4 };
    let error = measured.error.map_or(String::new(), |error| format!(" ± {error:.digits$}"));
    format!("{:.digits$}{error}", measured.value)
}

/// Everything that results in one table have in common.
fn protocol(group: &[&Evaluation]) -> PageBlock {
    let mut fields: BTreeMap<String, String> = group.iter().rev().flat_map(|one| one.protocol.fields()).collect();
    fields.retain(|name, value| !IN_ROWS.contains(&name.as_str()) && !value.is_empty());
    let all = |of: fn(&Evaluation) -> &String| {
        let all: BTreeSet<&str> = group.iter().map(|one| of(one).as_str()).collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    };
    fields.insert("program".into(), format!("softdiff {}", all(|one| &one.version)));
    fields.insert("device".into(), all(|one| &one.device));
    let rows = fields.into_iter().map(|(name, value)| vec![name, value]).collect();
    PageBlock::Table { head: ["field", "value"].map(String::from).to_vec(), rows }
}

/// A word for a shell.
fn typed(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,=".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
