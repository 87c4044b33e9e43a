//! Line charts as SVG, drawn with the page's colours.

use super::html::escape;
use crate::image::Quantise;
use std::fmt::Write;

/// One data series of a chart, drawn as a line.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend; left out where it equals the chart's `y`.
    pub name: String,
    /// Its points, by rising x; those that are not finite leave a gap.
    pub points: Vec<(f64, f64)>,
    /// The standard error of each point, drawn as a bar; none where there are fewer of them, or not finite ones.
    pub errors: Vec<f64>,
    /// Whether the line is dashed.
    pub dashed: bool,
}

impl Series {
    /// A solid line.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, errors: vec![], dashed: false }
    }

    /// The same series with the standard errors of its points.
    pub fn with_errors(self, errors: Vec<f64>) -> Series {
        Series { errors, ..self }
    }

    /// The same series as a dashed line.
    pub fn dashed(self) -> Series {
        Series { dashed: true, ..self }
    }
}

impl Series {
    /// The ends of its error bars: x, and the two values.
    fn bars(&self) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
        let known = self.points.iter().zip(&self.errors).filter(|(_, error)| error.is_finite() && **error > 0.0);
        known.map(|(&(x, y), error)| (x, y - error, y + error)).filter(|(x, low, _)| x.is_finite() && low.is_finite())
    }
}

/// A line chart.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// Label of the horizontal axis.
    pub x: String,
    /// Label of the vertical axis.
    pub y: String,
    /// Whether the vertical axis is logarithmic; values up to 0 are left out then.
    pub log_y: bool,
    /// Whether the horizontal axis is logarithmic; points up to 0 are left out then.
    pub log_x: bool,
    /// Whether the vertical axis begins at 0, so that heights may be compared; of no meaning for a logarithmic one.
    pub from_zero: bool,
    /// Whether the series are ordered, such as by time: then their hues follow the order.
    pub family: bool,
    /// The data; the legend keeps this order.
    pub series: Vec<Series>,
}

/// Where the parts of a chart are.
struct ChartLayout {
    width: f64,
    /// Without a legend below.
    height: f64,
    left: f64,
    /// Whether the legend is below the chart, in two columns; else at its right.
    legend_below: bool,
}

/// For a page that is wide enough.
const WIDE: ChartLayout = ChartLayout { width: 720.0, height: 320.0, left: 62.0, legend_below: false };
/// For a telephone.
const NARROW: ChartLayout = ChartLayout { width: 360.0, height: 270.0, left: 48.0, legend_below: true };
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 18.0;
/// Width of the legend: at least, at most, and for each character.
const RIGHT: (f64, f64, f64) = (150.0, 260.0, 6.8);
/// Margin at the right without a legend.
const BARE: f64 = 24.0;
/// A series of at most so many points shows each.
const FEW: usize = 40;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 42.0;

/// The range of one axis, and where its ticks are.
struct ChartAxis {
    low: f64,
    high: f64,
    log: bool,
    marks: Vec<f64>,
}

impl ChartAxis {
    /// `tight` ends at the last value, else at the mark beyond it.
    fn over(values: impl Iterator<Item = f64>, log: bool, tight: bool) -> ChartAxis {
        let ok = |v: &f64| v.is_finite() && (!log || *v > 0.0);
        let (mut low, mut high) =
            values.filter(ok).fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            (low, high) = if log { (0.1, 1.0) } else { (0.0, 1.0) };
        }
        if log {
            let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
            let (low, high) = if low == high { (low / 2.0, high * 2.0) } else { (low / 1.05, high * 1.05) };
            let within = |steps: &[f64]| -> Vec<f64> {
                let all = (first..=last).flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
                all.filter(|m| (low..=high).contains(m)).collect()
            };
            // As few as tell the scale: decades, else parts of them, else as on a plain axis.
            let steps: [&[f64]; 3] = [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]];
            let marks = steps.into_iter().map(within).find(|marks| marks.len() >= 3);
            let marks = marks.unwrap_or_else(|| ChartAxis::over([low, high].into_iter(), false, true).marks);
            return ChartAxis { low, high, log, marks };
        }
        if low == high {
            (low, high) = (low - 0.5, high + 0.5);
        }
        let rough = (high - low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(|s| *s >= rough).unwrap_or(power * 10.0);
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let marks: Vec<f64> = (first..=last).map(|k| k as f64 * step).collect();
        if tight {
            let within = |mark: &f64| (low - 1e-9 * step..=high + 1e-9 * step).contains(mark);
            return ChartAxis { low, high, log, marks: marks.into_iter().filter(within).collect() };
        }
        let (low, high) = (first as f64 * step, last as f64 * step);
        ChartAxis { low, high, log, marks }
    }

    /// Where a value lies, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let scale = |v: f64| if self.log { v.ln() } else { v };
        (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
    }
}

pub(super) fn label(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".into()
    } else if !(1e-3..1e5).contains(&size) {
        format!("{value:.0e}")
    } else {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

impl Chart {
    /// The chart as an SVG element without a style sheet.
    pub fn svg(&self) -> String {
        self.draw(&WIDE)
    }

    /// The same for a narrow screen, with the legend below.
    pub fn narrow_svg(&self) -> String {
        self.draw(&NARROW)
    }

    fn draw(&self, layout: &ChartLayout) -> String {
        let ChartLayout { width, height, left, legend_below } = *layout;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let ends = self.series.iter().flat_map(Series::bars).flat_map(|(_, low, high)| [low, high]);
        let zero = (self.from_zero && !self.log_y).then_some(0.0);
        let (x, y) = (
            ChartAxis::over(points().map(|p| p.0), self.log_x, true),
            ChartAxis::over(points().map(|p| p.1).chain(ends).chain(zero), self.log_y, false),
        );
        let named = |series: &&Series| series.name != self.y;
        let longest = self.series.iter().filter(named).map(|series| series.name.chars().count()).max();
        let beside = longest.filter(|_| !legend_below);
        let margin = beside.map_or(BARE, |longest| (44.0 + RIGHT.2 * longest as f64).clamp(RIGHT.0, RIGHT.1));
        let at_x = |v: f64| left + x.place(v) * (width - left - margin);
        let at_y = |v: f64| height - BOTTOM - y.place(v) * (height - TOP - BOTTOM);
        let (right, bottom) = (width - margin, height - BOTTOM);
        // Two columns of the legend where the names are short enough.
        let columns = if longest.is_some_and(|longest| RIGHT.2 * longest as f64 + 44.0 < width / 2.0) { 2 } else { 1 };
        let lines = if legend_below { self.series.iter().filter(named).count().div_ceil(columns) } else { 0 };
        let whole = height + LEGEND_LINE * lines as f64 + if lines > 0 { 6.0 } else { 0.0 };
        let title = escape(&format!("{} over {}", self.y, self.x));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {whole}\" width=\"{width}\" role=\"img\" aria-label=\"{title}\">"
        );
        for &mark in &y.marks {
            let (h, text) = (at_y(mark), label(mark));
            let _ = write!(svg, "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{h:.1}\" y2=\"{h:.1}\"/>");
            let _ = write!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", left - 8.0, h + 4.0);
        }
        for &mark in &x.marks {
            let (w, text) = (at_x(mark), label(mark));
            let _ = write!(
                svg,
                "<line class=\"axis\" x1=\"{w:.1}\" x2=\"{w:.1}\" y1=\"{bottom}\" y2=\"{}\"/>",
                bottom + 4.0
            );
            let _ = write!(svg, "<text x=\"{w:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>", bottom + 18.0);
        }
        let _ = write!(svg, "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>");
        let middle = (left + right) / 2.0;
        let _ = write!(
            svg,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            height - 6.0,
            escape(&self.x)
        );
        let _ = write!(svg, "<text x=\"8\" y=\"14\">{}</text>", escape(&self.y));
        for (index, series) in self.series.iter().enumerate() {
            let colour = self.colour(index);
            let class = if series.dashed { "series dashed" } else { "series" };
            let (mut line, mut marks) = (String::new(), String::new());
            let mut drawing = false;
            for &(px, py) in &series.points {
                let fits = px.is_finite() && py.is_finite() && (!self.log_y || py > 0.0) && (!self.log_x || px > 0.0);
                if fits {
                    let _ = write!(line, "{}{:.1} {:.1}", if drawing { 'L' } else { 'M' }, at_x(px), at_y(py));
                    let _ = write!(marks, "M{:.1} {:.1}h0", at_x(px), at_y(py));
                }
                drawing = fits;
            }
            let _ = write!(svg, "<path class=\"{class}\" style=\"stroke:{colour}\" d=\"{line}\"/>");
            for (px, low, high) in series.bars() {
                let (at, low, high) = (at_x(px), at_y(low), at_y(high));
                let bar = format!("M{at:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h6M{:.1} {high:.1}h6", at - 3.0, at - 3.0);
                let _ = write!(svg, "<path class=\"bar\" style=\"stroke:{colour}\" d=\"{bar}\"/>");
            }
            if series.points.len() <= FEW && !series.dashed {
                let _ = write!(svg, "<path class=\"series point\" style=\"stroke:{colour}\" d=\"{marks}\"/>");
            }
            if series.name == self.y {
                continue;
            }
            let entry = self.series.iter().take(index).filter(named).count();
            let (from, h) = match legend_below {
                true => {
                    let (line, column) = (entry / columns, entry % columns);
                    (12.0 + column as f64 * width / 2.0, height + 12.0 + LEGEND_LINE * line as f64)
                }
                false => (right + 12.0, TOP + 8.0 + LEGEND_LINE * index as f64),
            };
            let to = from + 20.0;
            let _ = write!(svg, "<path class=\"{class}\" style=\"stroke:{colour}\" d=\"M{from} {h}L{to} {h}\"/>");
            let _ = write!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", to + 6.0, h + 4.0, escape(&series.name));
        }
        svg.push_str("</svg>");
        svg
    }

    fn colour(&self, index: usize) -> String {
        if !self.family {
            const USUAL: [&str; 6] = ["#0b6bcb", "#d9480f", "#2b8a3e", "#862e9c", "#c2255c", "#5f6b7a"];
            return format!("var(--s{}, {})", index % USUAL.len(), USUAL[index % USUAL.len()]);
        }
        let part = index as f64 / (self.series.len().max(2) - 1) as f64;
        let [r, g, b] = even_colour(270.0 - 250.0 * part);
        format!("rgb({r} {g} {b})")
    }
}

/// The colour of a hue that is as bright as the others: three times the contrast of both a white and a dark page (WCAG 2.1).
fn even_colour(hue: f64) -> [u8; 3] {
    const BRIGHTNESS: f64 = 0.21;
    let mut colour = [0; 3];
    for percent in 0..100 {
        let (saturation, lightness) = (0.8, f64::from(percent) / 100.0);
        // From hue, saturation and lightness (CSS Color 4, 7.1).
        let channel = |n: f64| {
            let k = (n + hue / 30.0).rem_euclid(12.0);
            let amplitude = saturation * lightness.min(1.0 - lightness);
            lightness - amplitude * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0)
        };
        let rgb = [channel(0.0), channel(8.0), channel(4.0)];
        colour = rgb.map(|value| Quantise::Round.byte(value));
        let [r, g, b] =
            rgb.map(|value| if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) });
        if 0.2126 * r + 0.7152 * g + 0.0722 * b >= BRIGHTNESS {
            break;
        }
    }
    colour
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_one_brightness_and_many_hues() {
        let family = Chart { family: true, series: vec![Series::new("a", vec![]); 10], ..Chart::default() };
        let colours: std::collections::BTreeSet<String> = (0..10).map(|index| family.colour(index)).collect();
        assert_eq!(colours.len(), 10);
        let [r, g, b] = even_colour(120.0);
        assert!(g > 2 * r && g > 2 * b && (100..180).contains(&g), "{r} {g} {b}");
    }

    #[test]
    fn marks_are_round_numbers_that_span_the_values() {
        let axis = ChartAxis::over([0.03, 0.97].into_iter(), false, false);
        assert_eq!(axis.marks.iter().map(|m| label(*m)).collect::<Vec<_>>(), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        let axis = ChartAxis::over([3.0, 4000.0].into_iter(), true, false);
        assert_eq!(axis.marks, [10.0, 100.0, 1000.0]);
        assert_eq!(ChartAxis::over([11.0, 60.0].into_iter(), true, false).marks, [15.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(ChartAxis::over([101.0, 119.0].into_iter(), true, false).marks, [100.0, 110.0, 120.0]);
        assert_eq!(axis.place(axis.low), 0.0);
        assert!((ChartAxis::over([7.0].into_iter(), false, false).place(7.0) - 0.5).abs() < 1e-12);
        assert_eq!(ChartAxis::over([1.0, 1200.0].into_iter(), false, true).marks, [500.0, 1000.0]);
        assert_eq!([0.0, 1e-5, 0.25, 12.0, 2e6].map(label), ["0", "1e-5", "0.25", "12", "2e6"]);
    }

    #[test]
    fn errors_are_bars_that_the_axis_holds_and_an_axis_from_zero_begins_there() {
        let series = Series::new("a", vec![(1.0, 0.80), (2.0, 0.82), (3.0, 0.81)]).with_errors(vec![0.1, f64::NAN]);
        let svg = Chart { from_zero: true, series: vec![series.clone()], ..Chart::default() }.svg();
        assert_eq!(svg.matches("class=\"bar\"").count(), 1);
        assert!(svg.contains(">0</text>") && svg.contains(">1</text>"), "{svg}");
        let cut = Chart { series: vec![series], ..Chart::default() }.svg();
        assert!(!cut.contains(">0</text>") && cut.contains(">0.7</text>") && cut.contains(">0.9</text>"), "{cut}");
    }

    #[test]
    fn a_narrow_chart_has_its_legend_below_and_all_of_it_within_its_width() {
        let names = ["t 0.0 to 0.1", "t 0.1 to 0.2", "t 0.2 to 0.3"];
        let series = names.map(|name| Series::new(name, vec![(0.0, 1.0), (9.0, 2.0)])).to_vec();
        let chart = Chart { x: "step".into(), y: "loss".into(), series, ..Chart::default() };
        let (wide, narrow) = (chart.svg(), chart.narrow_svg());
        assert!(wide.contains("viewBox=\"0 0 720 320\"") && narrow.contains("viewBox=\"0 0 360 312\""), "{narrow}");
        let places = narrow.split(" x=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap());
        assert!(places.fold(0.0, f64::max) < 345.0 && names.iter().all(|name| narrow.contains(name)));
    }

    #[test]
    fn what_is_not_a_number_leaves_a_gap() {
        let points = vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0), (3.0, 4.0)];
        let svg = Chart { series: vec![Series::new("<a>", points)], ..Chart::default() }.svg();
        let line = svg.split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((line.matches('M').count(), line.matches('L').count()), (2, 1));
        assert!(svg.contains("class=\"series point\"") && svg.matches("h0").count() == 3);
        assert!(svg.contains("&lt;a&gt;") && !svg.contains("NaN"));
        assert!(Chart::default().svg().ends_with("</svg>"));
    }
}
