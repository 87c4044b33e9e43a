//! Tables as CSV (RFC 4180, lines ended by a newline alone): empty where there is no number.

use super::History;
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
