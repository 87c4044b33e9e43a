//! The loss over the steps.

use super::dashboard::short;
use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Widget};

/// Values from which on the axis is logarithmic: the largest is so many times the smallest.
const LOG_FROM: f64 = 10.0;
/// Columns of the marks at the axis of the loss.
const MARKS: usize = 12;

/// A curve, and the ends of its axes.
pub struct LossChart {
    /// Step and loss, or the logarithm of the loss.
    points: Vec<(f64, f64)>,
    steps: [u64; 2],
    range: [f64; 2],
    log: bool,
}

impl LossChart {
    /// Of the finite values; none where there are not two.
    pub fn of(losses: &[(u64, f64)]) -> Option<LossChart> {
        let finite = || losses.iter().copied().filter(|(_, loss)| loss.is_finite());
        let steps = [finite().next()?.0, finite().next_back()?.0];
        if steps[0] >= steps[1] {
            return None;
        }
        let lowest = finite().map(|(_, loss)| loss).fold(f64::INFINITY, f64::min);
        let highest = finite().map(|(_, loss)| loss).fold(f64::NEG_INFINITY, f64::max);
        let log = lowest > 0.0 && highest / lowest > LOG_FROM;
        let points = finite().map(|(step, loss)| (step as f64, if log { loss.ln() } else { loss })).collect();
        Some(LossChart { points, steps, range: [lowest, highest], log })
    }
}

impl Widget for &LossChart {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let [low, high] = self.range;
        let (title, middle, mut bounds) = match self.log {
            true => ("loss (log)", (low.ln() / 2.0 + high.ln() / 2.0).exp(), [low.ln(), high.ln()]),
            false => ("loss", low / 2.0 + high / 2.0, [low, high]),
        };
        if low == high {
            bounds = [low - 1.0, high + 1.0];
        }
        // Titles are among the marks: ratatui's would cover both ends of the curve.
        let [low, middle, high] = [low, middle, high].map(short);
        let marks = [low, middle, format!("{title} {high}")].map(|mark| format!("{mark:>MARKS$}"));
        let [first, last] = self.steps.map(|step| step.to_string());
        let dim = Style::new().dim();
        let curve = Dataset::default().data(&self.points).marker(Marker::Braille).graph_type(GraphType::Line);
        let steps =
            Axis::default().style(dim).bounds(self.steps.map(|step| step as f64)).labels([&first, "step", &last]);
        let losses = Axis::default().style(dim).bounds(bounds).labels(marks);
        Chart::new(vec![curve.style(Style::new().cyan())])
            .x_axis(steps.labels_alignment(Alignment::Right))
            .y_axis(losses.labels_alignment(Alignment::Right))
            .render(area, buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(losses: &[(u64, f64)], columns: u16, rows: u16) -> Option<String> {
        let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
        LossChart::of(losses)?.render(buffer.area, &mut buffer);
        buffer.set_style(buffer.area, Style::reset());
        Some(super::super::text::lines(&buffer))
    }

    #[test]
    fn a_straight_line_is_a_diagonal_and_both_axes_say_what_they_show() {
        let losses: Vec<(u64, f64)> = (0..9).map(|i| (100 * i, 1.0 + i as f64 / 2.0)).collect();
        let chart = [
            "    loss 5│                ⢀⡠⠤⠒⠉",
            "          │           ⢀⡠⠤⠒⠉⠁",
            "         3│    ⢀⣀⠤⠒⠒⠊⠉⠁",
            "         1│⣀⠤⠒⠊⠁",
            "          └─────────────────────",
            "          0         step     800",
        ];
        assert_eq!(shown(&losses, 32, 6).unwrap().lines().collect::<Vec<_>>(), chart);
    }

    #[test]
    fn the_axis_is_logarithmic_where_the_loss_falls_far() {
        let chart = shown(&[(0, 100.0), (5, 10.0), (9, 1.0)], 50, 7).unwrap();
        let marks: Vec<&str> = chart.lines().filter_map(|line| Some(line.split_once('│')?.0.trim())).collect();
        assert_eq!(marks, ["loss (log) 100", "", "10", "", "1"], "{chart}");
    }

    #[test]
    fn what_is_not_finite_is_left_out_and_too_little_is_no_chart() {
        assert!(shown(&[], 20, 5).is_none() && shown(&[(1, 2.0)], 20, 5).is_none());
        assert!(shown(&[(1, f64::NAN), (2, f64::INFINITY)], 20, 5).is_none());
        let flat = shown(&[(0, 1.0), (3, f64::NAN), (9, 1.0)], 30, 5).unwrap();
        assert!(flat.chars().filter(|letter| ('\u{2801}'..='\u{28ff}').contains(letter)).count() >= 17, "{flat}");
        for extreme in
            [[(0, 1e-300), (u64::MAX, 1e300)], [(0, -f64::MAX), (5, f64::MAX)], [(0, f64::MAX), (1, f64::MAX)]]
        {
            for (columns, rows) in [(0, 0), (1, 1), (3, 2), (60, 12)] {
                assert!(shown(&extreme, columns, rows).is_some());
            }
        }
    }
}
