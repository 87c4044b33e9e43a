//! A run's state as lines of text.

use super::chart::{bar, chart};
use crate::progress::clock;
use softdiff::watch::{LossPoint, RunState, Snapshot};
use std::time::Duration;

/// Columns of what stands before each line.
const LABEL: usize = 13;
/// Columns of one bin of t, at least and at most.
const BIN: (usize, usize) = (6, 9);
/// Metrics and warnings that are shown.
const MOST: usize = 3;

/// The room there is and how to use it.
pub struct DashboardLayout {
    /// Characters in a line.
    pub columns: usize,
    /// Lines.
    pub rows: usize,
    /// Whether there are colours.
    pub colours: bool,
    /// Whether a picture is to have room below.
    pub picture: bool,
}

impl DashboardLayout {
    fn painted(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
    }

    /// A line with its label, cut to the width.
    fn line(&self, label: &str, text: &str) -> String {
        let text = fitted(text, self.columns.saturating_sub(LABEL));
        self.painted("2", &format!("{label:<LABEL$}")) + &text
    }
}

/// The dashboard.
pub fn lines(snapshot: &Snapshot, losses: &[(u64, f64)], look: &DashboardLayout) -> Vec<String> {
    let mut lines = vec![title(snapshot, look), progress(snapshot, look), look.line("speed", &speed(snapshot))];
    if let Some(loss) = &snapshot.loss {
        let text = format!(
            "{}   recently {}   rate {}   norm {}",
            short(loss.last),
            short(loss.mean),
            short(loss.rate),
            short(loss.norm)
        );
        lines.push(look.line("loss", &text));
        let rows = look.rows / if look.picture { 5 } else { 3 };
        lines.extend(curve(losses, rows.clamp(3, 14), look));
        lines.extend(by_time(loss, look));
    }
    for (name, best) in snapshot.evaluations.iter().take(MOST) {
        let lowest = format!("lowest {} at {}", exact(best.lowest), best.at);
        lines.push(look.line("evaluation", &format!("{name} {} at step {}, {lowest}", exact(best.value), best.step)));
    }
    let warnings = &snapshot.warnings[snapshot.warnings.len().saturating_sub(MOST)..];
    for (index, warning) in warnings.iter().enumerate() {
        let label = if index == 0 { format!("{} warnings", snapshot.warned) } else { String::new() };
        lines.push(
            look.painted(
                "33",
                &fitted(&format!("{label:<LABEL$}step {}: {}", warning.step, warning.text), look.columns),
            ),
        );
    }
    if snapshot.unreadable_lines > 0 {
        lines.push(look.line("damage", &format!("{} lines of events.jsonl are no events", snapshot.unreadable_lines)));
    }
    if let Some(checkpoint) = &snapshot.checkpoint {
        lines.push(look.line("checkpoint", &checkpoint.text));
    }
    if let Some(preview) = &snapshot.preview {
        lines.push(look.line("preview", &format!("{} of step {}", preview.text, preview.step)));
    }
    lines
}

/// The same in one line.
pub fn line(snapshot: &Snapshot) -> String {
    let of = snapshot.steps.map_or(String::new(), |steps| format!(" of {steps}"));
    let loss = snapshot.loss.as_ref().map_or(String::new(), |loss| format!(", loss {}", short(loss.last)));
    let left = snapshot.seconds_left.map_or(String::new(), |left| format!(", {} left", seconds(left)));
    fitted(&format!("{}: step {}{of}{loss}, {}{left}", snapshot.state, snapshot.step, speed(snapshot)), usize::MAX)
}

fn title(snapshot: &Snapshot, look: &DashboardLayout) -> String {
    let code = match snapshot.state {
        RunState::Training | RunState::Finished => "1;32",
        RunState::Preparing | RunState::Elsewhere => "1;36",
        RunState::Stopped(_) | RunState::Interrupted => "1;33",
    };
    let writer = snapshot.writer.as_ref().map_or(String::new(), |writer| format!("   {writer}"));
    let device = snapshot.device.as_ref().map_or(String::new(), |device| format!("   {device}"));
    let (name, state) = (fitted(&snapshot.name, look.columns), snapshot.state.to_string());
    let room = look.columns.saturating_sub(name.chars().count() + 3);
    let state = fitted(&state, room);
    let rest = fitted(&(writer + &device), room.saturating_sub(state.chars().count()));
    format!("{}   {}{}", look.painted("1", &name), look.painted(code, &state), look.painted("2", &rest))
}

fn progress(snapshot: &Snapshot, look: &DashboardLayout) -> String {
    let Some(steps) = snapshot.steps.filter(|&steps| steps > 0) else {
        return look.line("step", &snapshot.step.to_string());
    };
    let share = (snapshot.step as f64 / steps as f64).min(1.0);
    let left = snapshot.seconds_left.map_or(String::new(), |left| format!("   {} left", seconds(left)));
    let text = format!("{} of {steps}   {:.1} %{left}   ", snapshot.step, 100.0 * share);
    let room = look.columns.saturating_sub(LABEL + text.chars().count()).min(40);
    let full = (share * room as f64) as usize;
    look.line("step", &(text + &"━".repeat(full) + &"─".repeat(room - full)))
}

fn speed(snapshot: &Snapshot) -> String {
    let mut parts = Vec::new();
    if let Some(throughput) = snapshot.throughput {
        let (steps, images) = (throughput.steps_per_second, throughput.images_per_second);
        parts.push(format!("{} steps/s, {} images/s", short(steps), short(images)));
    }
    parts.extend(snapshot.trained_seconds.map(|trained| format!("trained {}", seconds(trained))));
    let mib = |bytes: u64| bytes >> 20;
    let memory = snapshot.memory;
    parts.extend(memory.map(|memory| format!("memory {} MiB (peak {})", mib(memory.resident), mib(memory.peak))));
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    let on_device = snapshot.device_memory;
    parts.extend(on_device.map(|memory| format!("GPU {:.1} of {:.1} GiB", gib(memory.used), gib(memory.total))));
    if parts.is_empty() { "not known yet".into() } else { parts.join("   ") }
}

/// The loss over the steps.
fn curve(losses: &[(u64, f64)], rows: usize, look: &DashboardLayout) -> Vec<String> {
    let columns = look.columns.saturating_sub(LABEL);
    let Some(chart) = chart(losses, columns, rows) else { return vec![] };
    let last = chart.rows.len() - 1;
    let mut lines: Vec<String> = Vec::new();
    for (row, dots) in chart.rows.iter().enumerate() {
        let (low, high) = chart.range;
        let mark = if row == 0 {
            short(high)
        } else if row == last {
            short(low)
        } else {
            String::new()
        };
        let label = format!("{mark:>width$} ", width = LABEL - 1);
        lines.push(look.painted("2", &label) + &look.painted("36", dots));
    }
    let (first, last) = (chart.steps.0.to_string(), chart.steps.1.to_string());
    let gap = columns.saturating_sub(first.len() + last.len());
    lines.push(look.painted("2", &fitted(&format!("{:LABEL$}{first}{:gap$}{last}", "", ""), look.columns)));
    lines
}

/// The loss by bin of t: where each bin ends, its value, and a bar; only bars where there is no room.
fn by_time(loss: &LossPoint, look: &DashboardLayout) -> Vec<String> {
    let highest = loss.by_time.iter().flatten().copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
    let bars = loss.by_time.iter().map(|value| value.map_or(' ', |value| bar(value, highest)));
    if loss.by_time.is_empty() {
        return vec![];
    }
    let width = (look.columns.saturating_sub(LABEL) / loss.by_time.len()).min(BIN.1);
    if width < BIN.0 || loss.bins.len() != loss.by_time.len() {
        return vec![look.line("loss by t", &bars.collect::<String>())];
    }
    let ends: String = loss.bins.iter().map(|end| format!("{:<width$}", short(*end))).collect();
    let value = |value: &Option<f64>| format!("{:<width$}", value.map_or("-".into(), short));
    let values: String = loss.by_time.iter().map(value).collect();
    let bars: String = bars.map(|bar| bar.to_string().repeat(width - 2) + "  ").collect();
    let lines = [("t up to", ends), ("loss by t", values), ("", bars)];
    lines.iter().map(|(label, text)| look.line(label, text.trim_end())).collect()
}

/// A number of about three digits, in at most five characters unless it is negative.
fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if value == 0.0 || !value.is_finite() => value.to_string(),
        _ if !(1e-3..1e5).contains(&size) => format!("{value:.0e}"),
        _ => {
            let digits = if size >= 100.0 {
                0
            } else if size >= 10.0 {
                1
            } else if size >= 1.0 {
                2
            } else {
                3
            };
            let text = format!("{value:.digits$}");
            if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').into() }
        }
    }
}

/// A metric, to more digits than differ by chance.
fn exact(value: f64) -> String {
    if value == 0.0 || (1e-2..1e6).contains(&value.abs()) { format!("{value:.3}") } else { format!("{value:.3e}") }
}

fn seconds(seconds: f64) -> String {
    clock(Duration::from_secs_f64(seconds.clamp(0.0, 1e9)))
}

/// Text on one line, without what a terminal would obey, cut to a width.
fn fitted(text: &str, columns: usize) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(columns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [54.363, 0.0002, 0.002, 0.1, 1.0, 113.6, 123456.0, 0.0, f64::NAN].map(short);
        assert_eq!(texts, ["54.4", "2e-4", "0.002", "0.1", "1", "114", "1e5", "0", "NaN"]);
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_passed_on() {
        assert_eq!(fitted("a\x1b[2Jb\nc", 80), "a [2Jb c");
        assert_eq!(fitted("abc", 2), "ab");
    }
}
