//! `report.html` of an experiment.

use super::table;
use crate::diagnostics::Failure;
use softdiff::experiment::{Experiment, ExperimentResults, PlannedModel, ScheduleLevels, Show};
use softdiff::image::decode;
use softdiff::recipe::SampleSection;
use softdiff::report::{Chart, Figure, Page, PageBlock, Section, Series};
use softdiff_engine::regular_file;
use std::path::Path;

/// The largest file of a figure.
const LARGEST_FIGURE: u64 = 64 << 20;

/// The file of a figure.
pub fn file_name(model: &PlannedModel, section: &SampleSection, kind: &str) -> String {
    match kind {
        "paths" => format!("{}-paths.png", model.name),
        _ => format!("{}-{}-{}-{kind}.png", model.name, section.sampler, section.steps),
    }
}

/// The whole page, from results and figures on disk.
pub fn make(
    experiment: &Experiment,
    models: &[PlannedModel],
    results: &ExperimentResults,
    folder: &Path,
) -> Result<Page, Failure> {
    let mut sections = vec![conditions(results), summary(experiment, results)];
    sections.extend(quality(results));
    if experiment.shows.contains(&Show::Schedules) {
        sections.push(schedules(results));
    }
    sections.extend(pictures(experiment, models, results, folder)?);
    let again = PageBlock::Text("The same command goes on where it was stopped, and shows this again.".into());
    sections.push(Section { title: "Again".into(), blocks: vec![again, PageBlock::Code(results.command.clone())] });
    let lead = format!("{} {}", experiment.question, experiment.paper);
    Ok(Page { title: format!("softdiff reproduce: {}", experiment.name), lead, sections })
}

fn conditions(results: &ExperimentResults) -> Section {
    let rows = results.facts().into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    let head = vec![String::new(); 2];
    Section { title: "Conditions".into(), blocks: vec![PageBlock::Table { head, rows }] }
}

fn summary(experiment: &Experiment, results: &ExperimentResults) -> Section {
    let tables = table::all(results).into_iter();
    let mut blocks: Vec<PageBlock> =
        tables.map(|table| PageBlock::Table { head: table.head, rows: table.rows }).collect();
    blocks.extend(table::best(results).into_iter().map(|line| PageBlock::Text(format!("{line}."))));
    blocks.push(PageBlock::Text(format!("The paper: {}", experiment.finding)));
    Section { title: "Results".into(), blocks }
}

/// Quality over evaluations, where a model was sampled in several numbers of steps.
fn quality(results: &ExperimentResults) -> Option<Section> {
    let mut series: Vec<Series> = Vec::new();
    for row in &results.rows {
        // A legend has room for one word: what tells the lines apart.
        let alone = results.rows.iter().all(|other| other.variant != row.variant || other.sampler == row.sampler);
        let name = if alone { row.variant.clone() } else { format!("{} {}", row.variant, row.sampler) };
        let point = (row.evaluations as f64, row.value);
        match series.iter_mut().find(|one| one.name == name) {
            Some(one) => one.points.push(point),
            None => series.push(Series::new(name, vec![point])),
        }
    }
    series.retain(|one| one.points.len() > 1);
    let all = || series.iter().flat_map(|one| &one.points).map(|point| point.0);
    let (first, last) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    if series.is_empty() {
        return None;
    }
    if let Some(floor) = results.floor {
        series.push(Series::new("data itself", vec![(first, floor), (last, floor)]).dashed());
    }
    let chart = Chart {
        x: "evaluations of the network per image".into(),
        y: results.metric_words().into(),
        log_x: true,
        series,
        ..Chart::default()
    };
    let caption = match results.samples {
        0 => "Lower is better.".to_owned(),
        samples => format!("Lower is better; {samples} images per point."),
    };
    let figure = PageBlock::Figure(Figure::drawn("quality", caption, chart.svg()));
    Some(Section { title: "Quality over evaluations".into(), blocks: vec![figure] })
}

/// Level and noise over time, all in one drawing.
fn schedules(results: &ExperimentResults) -> Section {
    let drawn = |name: &'static str, y: &str, caption: &str, of: &dyn Fn(&ScheduleLevels) -> Vec<(f64, f64)>| {
        let series = results.schedules.iter().map(|one| Series::new(one.variant.clone(), of(one))).collect();
        let chart = Chart { x: "t".into(), y: y.into(), log_y: name == "noise", series, ..Chart::default() };
        PageBlock::Figure(Figure::drawn(name, caption, chart.svg()))
    };
    let blocks = vec![
        drawn("levels", "level", "The level of corruption over time.", &|one| one.levels.clone()),
        drawn("noise", "sigma", "The noise's standard deviation over time.", &|one| one.noise.clone()),
    ];
    Section { title: "Schedules".into(), blocks }
}

/// What was drawn of each model.
fn pictures(
    experiment: &Experiment,
    models: &[PlannedModel],
    results: &ExperimentResults,
    folder: &Path,
) -> Result<Vec<Section>, Failure> {
    let mut sections = Vec::new();
    for model in models.iter().filter(|_| experiment.trains()) {
        let mut figures = Vec::new();
        for (index, setting) in model.variant.settings.iter().enumerate() {
            let section = model.sampling(setting);
            let found = results.find(&model.name, &section.sampler, section.steps);
            let value = found.map_or(String::new(), |row| format!(", {} {:.4}", results.metric_words(), row.value));
            let how = format!("{} in {} steps{value}", section.sampler, section.steps);
            for (kind, name, caption) in kinds(experiment, index == 0) {
                let path = folder.join("figures").join(file_name(model, &section, kind));
                let bytes = regular_file::read(&path, LARGEST_FIGURE).map_err(|error| {
                    let failure = Failure::new(format!("{}: {error}", path.display()));
                    failure.hint("remove results.json and run it again: the models are kept")
                })?;
                figures.push(Figure::picture(name, caption.replace("{how}", &how), &decode(&bytes)?));
            }
        }
        if !figures.is_empty() {
            sections.push(Section { title: model.name.clone(), blocks: vec![PageBlock::Row(figures)] });
        }
    }
    Ok(sections)
}

/// The files drawn for a setting: kind, name, caption.
fn kinds(experiment: &Experiment, first: bool) -> Vec<(&'static str, &'static str, &'static str)> {
    let mut kinds = Vec::new();
    if first && experiment.shows.contains(&Show::Paths) {
        kinds.push(("paths", "paths", "Images of the data from t = 0 (left) to t = 1 (right)."));
    }
    kinds.push(("samples", "samples", "Uncurated samples, from seed 0 on: {how}."));
    if experiment.shows.contains(&Show::Means) {
        kinds.push(("means", "means", "The network's clean prediction from the start (left) to the end: {how}."));
    }
    if experiment.shows.contains(&Show::Neighbours) {
        kinds.push(("neighbours", "neighbours", "Above: samples. Below: their nearest training images, by pixels."));
    }
    kinds
}
