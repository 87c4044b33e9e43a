//! A run's state, laid out for a terminal.

use super::loss_chart::LossChart;
use crate::progress::clock;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect, Size};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Bar, BarChart, Widget};
use softdiff::watch::{LossPoint, RunState, Snapshot};
use std::time::Duration;

/// Columns of what stands before each line.
const LABEL: u16 = 13;
/// Columns of one bin of t, at least and at most.
const BIN: (usize, usize) = (6, 9);
/// Rows of the bars over t.
const BARS: u16 = 2;
/// Metrics and warnings that are shown.
const MOST: usize = 3;

/// What is shown, from the top.
pub struct Dashboard<'a> {
    parts: Vec<DashboardPart<'a>>,
    colours: bool,
}

enum DashboardPart<'a> {
    Text(Line<'a>),
    Chart(LossChart, u16),
    ByTime(Box<BarChart<'a>>, String),
}

impl<'a> Dashboard<'a> {
    /// For a terminal of some size; with `image`, room is left for one below.
    pub fn new(snapshot: &'a Snapshot, losses: &[(u64, f64)], size: Size, image: bool, colours: bool) -> Dashboard<'a> {
        let mut parts = vec![DashboardPart::Text(title(snapshot)), labelled("step", progress(snapshot, size.width))];
        parts.push(labelled("speed", speed(snapshot)));
        if let Some(loss) = &snapshot.loss {
            let [last, mean, rate, norm] = [loss.last, loss.mean, loss.rate, loss.norm].map(short);
            parts.push(labelled("loss", format!("{last}   recently {mean}   rate {rate}   norm {norm}")));
            let rows = (size.height / if image { 5 } else { 3 }).clamp(3, 14) + 2;
            parts.extend(LossChart::of(losses).map(|chart| DashboardPart::Chart(chart, rows)));
            parts.extend(by_time(loss, size.width).map(|(bars, ends)| DashboardPart::ByTime(Box::new(bars), ends)));
        }
        for (name, best) in snapshot.evaluations.iter().take(MOST) {
            let lowest = format!("lowest {} at {}", exact(best.lowest), best.at);
            parts.push(labelled("evaluation", format!("{name} {} at step {}, {lowest}", exact(best.value), best.step)));
        }
        let warnings = &snapshot.warnings[snapshot.warnings.len().saturating_sub(MOST)..];
        for (index, warning) in warnings.iter().enumerate() {
            let label = match (index, snapshot.warned) {
                (0, 1) => "1 warning".to_owned(),
                (0, count) => format!("{count} warnings"),
                _ => String::new(),
            };
            let text = format!("{label:<width$}step {}: {}", warning.step, warning.text, width = LABEL.into());
            parts.push(DashboardPart::Text(Line::styled(text, Color::Yellow)));
        }
        if snapshot.unreadable_lines > 0 {
            let text = format!("{} lines of events.jsonl are no events", snapshot.unreadable_lines);
            parts.push(labelled("damage", text));
        }
        parts.extend(snapshot.checkpoint.as_ref().map(|checkpoint| labelled("checkpoint", checkpoint.text.clone())));
        let preview = snapshot.preview.as_ref();
        parts.extend(preview.map(|preview| labelled("preview", format!("{} of step {}", preview.text, preview.step))));
        Dashboard { parts, colours }
    }

    /// Rows of all of it.
    pub fn height(&self) -> u16 {
        self.parts.iter().map(DashboardPart::height).sum()
    }
}

impl Widget for &Dashboard<'_> {
    fn render(self, mut area: Rect, buffer: &mut Buffer) {
        let whole = area;
        for part in &self.parts {
            let [here, rest] = Layout::vertical([Constraint::Length(part.height()), Constraint::Fill(1)]).areas(area);
            part.render(here, buffer);
            area = rest;
        }
        if !self.colours {
            buffer.set_style(whole, Style::reset());
        }
    }
}

impl DashboardPart<'_> {
    fn height(&self) -> u16 {
        match self {
            DashboardPart::Text(_) => 1,
            DashboardPart::Chart(_, rows) => *rows,
            DashboardPart::ByTime(_, ends) if ends.is_empty() => BARS,
            // With the values and the ends of the bins.
            DashboardPart::ByTime(..) => BARS + 2,
        }
    }
}

impl Widget for &DashboardPart<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        match self {
            DashboardPart::Text(line) => line.render(area, buffer),
            DashboardPart::Chart(chart, _) => chart.render(area, buffer),
            DashboardPart::ByTime(bars, ends) => {
                let [labels, bins] = Layout::horizontal([Constraint::Length(LABEL), Constraint::Fill(1)]).areas(area);
                Text::from("loss by t\n\n\nt up to").dim().render(labels, buffer);
                let below = u16::from(!ends.is_empty());
                let [above, below] = Layout::vertical([Constraint::Fill(1), Constraint::Length(below)]).areas(bins);
                bars.as_ref().render(above, buffer);
                ends.as_str().dim().render(below, buffer);
            }
        }
    }
}

fn labelled<'a>(label: &str, text: String) -> DashboardPart<'a> {
    let label = Span::from(format!("{label:<width$}", width = LABEL.into())).dim();
    DashboardPart::Text(Line::from_iter([label, Span::from(text)]))
}

/// The same in one line.
pub fn line(snapshot: &Snapshot) -> String {
    let of = snapshot.steps.map_or(String::new(), |steps| format!(" of {steps}"));
    let loss = snapshot.loss.as_ref().map_or(String::new(), |loss| format!(", loss {}", short(loss.last)));
    let left = snapshot.seconds_left.map_or(String::new(), |left| format!(", {} left", seconds(left)));
    let line = format!("{}: step {}{of}{loss}, {}{left}", snapshot.state, snapshot.step, speed(snapshot));
    line.replace(char::is_control, " ")
}

fn title(snapshot: &Snapshot) -> Line<'_> {
    let colour = match snapshot.state {
        RunState::Training | RunState::Finished => Color::Green,
        RunState::Preparing | RunState::Elsewhere => Color::Cyan,
        RunState::Stopped(_) | RunState::Interrupted => Color::Yellow,
    };
    let mut spans = vec![Span::from(&snapshot.name).bold(), Span::from("   ")];
    spans.push(Span::from(snapshot.state.to_string()).fg(colour).bold());
    spans.extend(snapshot.writer.as_ref().map(|writer| Span::from(format!("   {writer}")).dim()));
    spans.extend(snapshot.device.as_ref().map(|device| Span::from(format!("   {device}")).dim()));
    Line::from(spans)
}

fn progress(snapshot: &Snapshot, columns: u16) -> String {
    let Some(steps) = snapshot.steps.filter(|&steps| steps > 0) else { return snapshot.step.to_string() };
    let share = (snapshot.step as f64 / steps as f64).min(1.0);
    let left = snapshot.seconds_left.map_or(String::new(), |left| format!("   {} left", seconds(left)));
    let text = format!("{} of {steps}   {:.1} %{left}   ", snapshot.step, 100.0 * share);
    let room = usize::from(columns.saturating_sub(LABEL)).saturating_sub(text.chars().count()).min(40);
    let full = (share * room as f64) as usize;
    text + &"━".repeat(full) + &"─".repeat(room - full)
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

/// The loss by bin of t, and a line of where the bins end; only bars where there is no room for numbers.
fn by_time<'a>(loss: &LossPoint, columns: u16) -> Option<(BarChart<'a>, String)> {
    let highest = loss.by_time.iter().flatten().copied().filter(|loss| loss.is_finite()).fold(0.0, f64::max);
    let room = usize::from(columns.saturating_sub(LABEL)).checked_div(loss.by_time.len())?.min(BIN.1);
    let numbers = room >= BIN.0 && loss.bins.len() == loss.by_time.len();
    let bar = |loss: &Option<f64>| {
        let bar = Bar::new((loss.unwrap_or(0.0) / highest * 1000.0) as u64).text_value("");
        if numbers { bar.label(loss.map_or("-".into(), short)) } else { bar }
    };
    let bars: Vec<Bar> = loss.by_time.iter().map(bar).collect();
    let (width, gap) = if numbers { (room - 1, 1) } else { (1, 0) };
    let end = |end: &f64| format!("{:^width$} ", short(*end));
    let ends = if numbers { loss.bins.iter().map(end).collect() } else { String::new() };
    let bars = BarChart::vertical(bars).max(1000).bar_width(width as u16).bar_gap(gap).bar_style(Color::Cyan);
    Some((bars, ends))
}

/// A number of about three digits, in at most five characters unless it is negative.
pub fn short(value: f64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;
    use ratatui::{Frame, Terminal};
    use softdiff::run::RunFolder;
    use softdiff::watch::Watch;

    #[test]
    fn numbers_are_short() {
        let texts = [54.363, 0.0002, 0.002, 0.1, 1.0, 113.6, 123456.0, 0.0, f64::NAN].map(short);
        assert_eq!(texts, ["54.4", "2e-4", "0.002", "0.1", "1", "114", "1e5", "0", "NaN"]);
    }

    #[test]
    fn everything_has_its_place_and_what_has_no_room_is_cut() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path().join("run");
        std::fs::create_dir_all(&folder).expect("a folder");
        let events = r#"{"step":0,"event":"started","config_hash":"","schedule_hash":"","parameters":1,"batch":1,"steps":40,"time_bins":[0.5,1.0]}
{"step":10,"event":"step","images_seen":10,"loss":4.0,"loss_by_time":[1.0,7.0],"rate":0.1,"norm":1.0}
{"step":20,"event":"step","images_seen":20,"loss":2.0,"loss_by_time":[1.0,3.0],"rate":0.1,"norm":1.0}
{"step":20,"event":"warning","message":"the loss \u001b[2J is odd"}
"#;
        std::fs::write(folder.join("events.jsonl"), events).expect("events");
        let mut watch = Watch::new(&RunFolder::new(&folder));
        let snapshot = watch.look(Duration::ZERO).expect("a look");
        let mut terminal = Terminal::new(TestBackend::new(60, 17)).expect("a terminal");
        let draw = |terminal: &mut Terminal<TestBackend>| {
            let draw = |frame: &mut Frame| {
                let dashboard = Dashboard::new(&snapshot, watch.losses(), frame.area().as_size(), false, false);
                dashboard.render(frame.area(), frame.buffer_mut());
            };
            terminal.draw(draw).expect("a frame");
        };
        draw(&mut terminal);
        terminal.backend().assert_buffer_lines([
            "run   not running; the same command again continues it      ",
            "step         20 of 40   50.0 %   ━━━━━━━━━━━━━──────────────",
            "speed        not known yet                                  ",
            "loss         2   recently 3   rate 0.1   norm 1             ",
            "      loss 4│⠉⠑⠒⠒⠤⠤⢄⣀⣀                                      ",
            "            │         ⠉⠉⠑⠒⠢⠤⠤⣀⣀⡀                            ",
            "           3│                  ⠈⠉⠉⠒⠒⠢⠤⠤⣀⣀⡀                  ",
            "            │                            ⠈⠉⠉⠒⠒⠢⠤⢄⣀⣀         ",
            "           2│                                      ⠉⠉⠑⠒⠒⠤⠤⢄⣀",
            "            └───────────────────────────────────────────────",
            "            10                    step                    20",
            "loss by t             ████████                              ",
            "             ▅▅▅▅▅▅▅▅ ████████                              ",
            "                1        3                                  ",
            "t up to        0.5       1                                  ",
            "1 warning    step 20: the loss [2J is odd                   ",
            "                                                            ",
        ]);
        for (columns, rows) in [(0, 0), (1, 1), (9, 3), (20, 40), (300, 5)] {
            terminal.backend_mut().resize(columns, rows);
            draw(&mut terminal);
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_passed_on() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 1));
        let part = labelled("checkpoint", "a\x1b[2Jb\nc\u{9b}31m".into());
        part.render(buffer.area, &mut buffer);
        buffer.set_style(buffer.area, Style::reset());
        assert_eq!(super::super::text::lines(&buffer), "checkpoint   a[2Jbc31m\n");
    }
}
