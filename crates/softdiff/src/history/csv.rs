//! Tables as CSV (RFC 4180, lines ended by a newline alone): empty where there is no number.

use super::History;
use crate::metrics::{Made, StoredEvaluations};
use crate::run::{Event, EventKind};

/// One row per `step` event: step, seconds trained, images seen, loss, rate, norm, and the loss by bin of t.
pub fn steps_csv(history: &History) -> String {
    let bins = history.bin_names();
    let mut text = String::from("step,seconds,images_seen,loss,rate,norm");
    bins.iter().for_each(|bin| text += &format!(",loss_by_time_{bin}"));
    text.push('\n');
    for Event { step, kind } in &history.events {
        let EventKind::Step { images_seen, loss, loss_by_time, rate, norm } = kind else { continue };
        let seconds = history.clock.seconds(*step).map_or(String::new(), |seconds| format!("{seconds:.3}"));
        text += &format!("{step},{seconds},{images_seen},{loss},{rate},{norm}");
        for bin in 0..bins.len() {
            let value = loss_by_time.get(bin).copied().flatten();
            text += &value.map_or(",".into(), |value| format!(",{value}"));
        }
        text.push('\n');
    }
    text
}

/// One row per `evaluation` event: step, metric, value, number of images.
pub fn evaluations_csv(history: &History) -> String {
    let mut text = String::from("step,metric,value,images\n");
    for Event { step, kind } in &history.events {
        if let EventKind::Evaluation { metric, value, images } = kind {
            text += &format!("{step},{},{value},{images}\n", quoted(metric));
        }
    }
    text
}

/// One row per number that `softdiff eval --run` kept, with what decides it; the whole protocol is in its JSON file.
pub fn metrics_csv(kept: &StoredEvaluations) -> String {
    let mut text = String::from(
        "metric,value,error,sampler,sampler_steps,nfe,images,seeds,step,weights,images_hash,reference,reference_hash,network,preset\n",
    );
    for one in &kept.evaluations {
        let (images, reference) = (&one.protocol.images, &one.protocol.reference);
        let made = |of: &dyn Fn(&Made) -> String| one.made.as_ref().map_or(String::new(), of);
        for (name, measured) in &one.results {
            let cells = [
                name.clone(),
                measured.value.to_string(),
                measured.error.map_or(String::new(), |error| error.to_string()),
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
            ];
            text += &(cells.map(|cell| quoted(&cell)).join(",") + "\n");
        }
    }
    text
}

/// A field, in quotes where it needs them.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.into() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_field_with_commas_or_quotes_is_quoted() {
        assert_eq!(super::quoted("fid"), "fid");
        assert_eq!(super::quoted("a \"b\", c"), "\"a \"\"b\"\", c\"");
    }
}
