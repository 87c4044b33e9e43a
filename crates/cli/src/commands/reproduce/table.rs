//! The tables of an experiment: for a terminal, as markdown, as CSV.

use softdiff::experiment::{Experiment, ExperimentResults, MeasurementRow};
use softdiff::history::csv_table;
use softdiff::quote;

/// Names of the columns, and the cells.
pub struct TextTable {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// The measurements, with the paper's numbers.
pub fn measurements(results: &ExperimentResults) -> TextTable {
    let memorised = results.rows.iter().any(|row| row.memorised.is_some());
    let mut head = ["model", "sampler", "steps", "NFE"].map(String::from).to_vec();
    head.push(results.metric_words().into());
    head.extend(memorised.then(|| "memorised".to_owned()));
    head.push("paper's FID (CelebA-64)".into());
    let cells = |row: &MeasurementRow| {
        let error = row.error.map_or(String::new(), |error| format!(" ± {error:.4}"));
        let mut cells = vec![row.variant.clone(), row.sampler.clone()];
        cells.extend([row.sampler_steps, row.evaluations].map(|number| number.to_string()));
        let least = row.least().map_or(String::new(), |least| format!(", least {least:.4}"));
        cells.push(format!("{:.4}{error}{least}", row.value));
        if memorised {
            cells.push(row.memorised.map_or(String::new(), |share| format!("{:.1} %", 100.0 * share)));
        }
        cells.push(if row.paper.is_empty() { "-".into() } else { row.paper.clone() });
        cells
    };
    TextTable { head, rows: results.rows.iter().map(cells).collect() }
}
pub fn schedules(results: &ExperimentResults) -> TextTable {
    let head = ["schedule", "levels", "length of the path", "longest hop", "level at t = 0.25", "0.5", "0.75", "1"];
    let rows = results.schedules.iter().map(|one| {
        let at =
            |quarter: usize| one.levels.get(quarter * (one.levels.len() - 1) / 4).map_or(f64::NAN, |point| point.1);
        let mut cells = vec![one.variant.clone(), one.knots.to_string()];
        cells.extend([one.cost, one.longest_hop, at(1), at(2), at(3), at(4)].map(|value| format!("{value:.4}")));
        cells
    });
    TextTable { head: head.map(String::from).to_vec(), rows: rows.collect() }
}

/// Differences up to this mean nothing: two errors of both together.
fn doubt(a: &MeasurementRow, b: &MeasurementRow) -> f64 {
    2.0 * a.error.unwrap_or(0.0).hypot(b.error.unwrap_or(0.0))
}

/// For each model measured at several settings, where it was best.
pub fn best(results: &ExperimentResults) -> Vec<String> {
    let mut names: Vec<&str> = results.rows.iter().map(|row| row.variant.as_str()).collect();
    names.dedup();
    let said = names.into_iter().filter_map(|name| {
        let rows: Vec<&MeasurementRow> = results.rows.iter().filter(|row| row.variant == name).collect();
        let best = rows.iter().min_by(|a, b| a.value.total_cmp(&b.value)).filter(|_| rows.len() > 1)?;
        let MeasurementRow { sampler, evaluations, value, .. } = best;
        let close = rows.iter().filter(|row| row.value > *value && row.value - value <= doubt(row, best)).count();
        let doubt = match close {
            0 => String::new(),
            _ => format!("; {close} of the others lie within the error"),
        };
        Some(format!("{name} is best with {sampler} at {evaluations} evaluations per image: {value:.4}{doubt}"))
    });
    said.collect()
}

/// The tables that there are.
pub fn all(results: &ExperimentResults) -> Vec<TextTable> {
    [measurements(results), schedules(results)].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// Aligned columns under what they mean.
pub fn for_terminal(experiment: &Experiment, results: &ExperimentResults) -> String {
    let mut text = format!("{}: {}\n", experiment.name, experiment.paper);
    results.facts().iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\n")));
    for table in all(results) {
        let width = |column: usize| {
            let cells = table.rows.iter().chain([&table.head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        text.push('\n');
        for row in [&table.head].into_iter().chain(&table.rows) {
            let cells: Vec<String> =
                row.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column))).collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
    }
    best(results).iter().for_each(|line| text.push_str(&format!("\n{line}")));
    text.push_str(&format!("\nthe paper: {}", experiment.finding));
    text
}

/// The same for a document.
pub fn markdown(experiment: &Experiment, results: &ExperimentResults) -> String {
    let mut text = format!("# {}\n\n{}. {}\n\n", experiment.name, experiment.paper, experiment.question);
    results.facts().iter().for_each(|(name, value)| text.push_str(&format!("- {name}: {}\n", quote::markdown(value))));
    for table in all(results) {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|text| quote::markdown(text)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        text.push('\n');
        text.push_str(&line(&table.head));
        text.push_str(&format!("|{}\n", "---|".repeat(table.head.len())));
        table.rows.iter().for_each(|row| text.push_str(&line(row)));
    }
    text.push('\n');
    best(results).iter().for_each(|line| text.push_str(&format!("- {line}.\n")));
    text.push_str(&format!("- The paper: {}\n", experiment.finding));
    text
}

/// Every number with its whole budget.
pub fn csv(results: &ExperimentResults) -> String {
    if results.rows.is_empty() {
        let table = schedules(results);
        return csv_table(table.head, table.rows);
    }
    let head = "experiment,model,sampler,sampler_steps,nfe,metric,value,error,samples,train_steps,images_seen,memorised,\
                paper,seeds,least";
    let optional = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let rows = results.rows.iter().map(|row| {
        vec![
            results.experiment.clone(),
            row.variant.clone(),
            row.sampler.clone(),
            row.sampler_steps.to_string(),
            row.evaluations.to_string(),
            row.metric.clone(),
            row.value.to_string(),
            optional(row.error),
            row.samples.to_string(),
            row.train_steps.to_string(),
            row.images_seen.to_string(),
            optional(row.memorised),
            row.paper.clone(),
            row.by_seed.len().max(1).to_string(),
            optional(row.least()),
        ]
    });
    csv_table(head.split(','), rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> ExperimentResults {
        let row = |steps: usize, value: f64, paper: &str| MeasurementRow {
            variant: "blur".into(),
            sampler: "momentum".into(),
            sampler_steps: steps,
            evaluations: steps,
            train_steps: 10,
            images_seen: 320,
            samples: 64,
            metric: "sliced-wasserstein".into(),
            value,
            error: Some(0.001),
            by_seed: if steps == 90 { vec![0.2, 0.204] } else { vec![] },
            memorised: None,
            seconds: 1.0,
            paper: paper.into(),
        };
        let rows = vec![row(10, 0.3, ""), row(30, 0.2, "1.85, \"best\""), row(90, 0.202, "")];
        let metric = "sliced-wasserstein".into();
        ExperimentResults {
            experiment: "x".into(),
            steps: 10,
            batch: 32,
            samples: 64,
            metric,
            rows,
            ..ExperimentResults::default()
        }
    }

    #[test]
    fn every_form_names_the_budget_the_metric_and_the_papers_number() {
        let (results, experiment) = (results(), Experiment::find("schedule-ablation").unwrap());
        for text in [for_terminal(experiment, &results), markdown(experiment, &results)] {
            for part in ["10 steps of 32", "320 images seen", "64 images, which is not FID", "0.2000 ± 0.0010", "1.85"]
            {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
        assert!(markdown(experiment, &results).contains("0.2020 ± 0.0010, least 0.2000"));
        let csv = csv(&results);
        assert!(csv.ends_with(",2,0.2\n"), "{csv}");
        assert!(
            csv.contains("x,blur,momentum,30,30,sliced-wasserstein,0.2,0.001,64,10,320,,\"1.85, \"\"best\"\"\",1,\n"),
            "{csv}"
        );
        assert_eq!(
            best(&results),
            ["blur is best with momentum at 30 evaluations per image: 0.2000; 1 of the others lie within the error"]
        );
    }
}
