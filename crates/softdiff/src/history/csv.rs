//! Tables as CSV, lines ended by a newline alone: empty where there is no number.

use super::History;
use crate::metrics::{Made, StoredEvaluations};
use crate::run::{Event, EventKind};
use csv::Writer;
use softdiff_data::quote;

/// A table as CSV, its head first. Names in it may come from elsewhere, and are never formulas.
pub fn csv_table<R: IntoIterator<Item: AsRef<[u8]>>>(head: R, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Writer::from_writer(Vec::new());
    table.write_record(head).expect("memory can be written to");
    for row in rows {
        table.write_record(row.iter().map(|text| quote::cell(text))).expect("a row has a cell for each column");
    }
    String::from_utf8(table.into_inner().expect("memory can be written to")).expect("all cells are text")
}

/// One row per `step` event: step, seconds trained, images seen, loss, rate, norm, and the loss by bin of t.
pub fn steps_csv(history: &History) -> String {
    let bins = history.bin_names();
    let fixed = ["step", "seconds", "images_seen", "loss", "rate", "norm"].map(String::from);
    let head: Vec<String> = fixed.into_iter().chain(bins.iter().map(|bin| format!("loss_by_time_{bin}"))).collect();
    let row = |Event { step, kind }: &Event| {
        let EventKind::Step { images_seen, loss, loss_by_time, rate, norm } = kind else { return None };
        let seconds = history.clock.seconds(*step).map_or(String::new(), |seconds| format!("{seconds:.3}"));
        let fixed = [step.to_string(), seconds, images_seen.to_string(), loss.to_string(), rate.to_string()];
        let by_time = (0..bins.len()).map(|bin| optional(loss_by_time.get(bin).copied().flatten()));
        Some(fixed.into_iter().chain([norm.to_string()]).chain(by_time).collect())
    };
    csv_table(head, history.events.iter().filter_map(row))
}

/// One row per `evaluation` event: step, metric, value, number of images.
pub fn evaluations_csv(history: &History) -> String {
    let row = |Event { step, kind }: &Event| match kind {
        EventKind::Evaluation { metric, value, images } => {
            Some(vec![step.to_string(), metric.clone(), value.to_string(), images.to_string()])
        }
        _ => None,
    };
    csv_table(["step", "metric", "value", "images"], history.events.iter().filter_map(row))
}

/// One row per number that `softdiff eval --run` kept, with what decides it; the whole protocol is in its JSON file.
pub fn metrics_csv(kept: &StoredEvaluations) -> String {
    let head = "metric,value,error,sampler,sampler_steps,nfe,images,seeds,step,weights,images_hash,reference,\
                reference_hash,network,preset,guidance,guide";
    let mut rows = Vec::new();
    for one in &kept.evaluations {
        let (images, reference) = (&one.protocol.images, &one.protocol.reference);
        let made = |of: &dyn Fn(&Made) -> String| one.made.as_ref().map_or(String::new(), of);
        for (name, measured) in &one.results {
            rows.push(vec![
                name.clone(),
                measured.value.to_string(),
                optional(measured.error),
                made(&|made| made.sampler.clone()),
                made(&|made| made.steps.to_string()),
                made(&|made| made.evaluations.to_string()),
                images.count.to_string(),
                made(&|made| made.seeds.clone()),
                made(&|made| made.step.to_string()),
                made(&|made| made.weights.clone()),
                images.hash.clone(),
                reference.source.clone(),
                reference.hash.clone(),
                one.protocol.network.clone(),
                one.protocol.preset.clone(),
                made(&|made| optional(made.guidance)),
                made(&|made| made.guide.clone().unwrap_or_default()),
            ]);
        }
    }
    csv_table(head.split(','), rows)
}

fn optional(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::csv_table;

    #[test]
    fn a_field_with_commas_or_quotes_is_quoted() {
        let row = ["fid", "a \"b\", c", "two\nlines", ""].map(String::from).to_vec();
        assert_eq!(csv_table(["a", "b", "c", "d"], [row]), "a,b,c,d\nfid,\"a \"\"b\"\", c\",\"two\nlines\",\n");
    }
}
