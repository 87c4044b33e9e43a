//! A line drawn with dots of Braille, two by four in each character.

use std::cmp::Ordering;

/// Values from which on the axis is logarithmic: the largest is so many times the smallest.
const LOG_FROM: f64 = 10.0;

/// The line through points (step, value), `columns` by `rows` characters, with the ends of its axis.
pub struct TerminalChart {
    /// Rows from the top.
    pub rows: Vec<String>,
    /// The lowest and the highest value.
    pub range: (f64, f64),
    /// The first and the last step.
    pub steps: (u64, u64),
}

/// The dots of one column, from the bottom.
#[derive(Clone, Copy)]
struct ChartSpan {
    low: usize,
    high: usize,
    first: usize,
    last: usize,
}

/// Draws a chart; none without two finite values.
pub fn chart(points: &[(u64, f64)], columns: usize, rows: usize) -> Option<TerminalChart> {
    let finite = || points.iter().copied().filter(|(_, value)| value.is_finite());
    let (first, last) = (finite().next()?.0, finite().next_back()?.0);
    if last <= first || columns == 0 || rows == 0 {
        return None;
    }
    let (width, height) = (columns * 2, rows * 4);
    let lowest = finite().map(|(_, value)| value).fold(f64::INFINITY, f64::min);
    let highest = finite().map(|(_, value)| value).fold(f64::NEG_INFINITY, f64::max);
    let log = lowest > 0.0 && highest / lowest > LOG_FROM;
    let scaled = |value: f64| if log { value.ln() } else { value };
    let (bottom, span) = (scaled(lowest), scaled(highest) - scaled(lowest));
    let level = |value: f64| match span > 0.0 {
        true => ((scaled(value) - bottom) / span * (height - 1) as f64).round() as usize,
        false => height / 2,
    };
    // Each column of dots spans what its points span, and is joined to the one before.
    let mut spans: Vec<Option<ChartSpan>> = vec![None; width];
    for (step, value) in finite() {
        let column = ((step - first) as u128 * (width - 1) as u128 / (last - first) as u128) as usize;
        let y = level(value).min(height - 1);
        if let Some(span) = spans.get_mut(column) {
            let ChartSpan { low, high, first, .. } = span.unwrap_or(ChartSpan { low: y, high: y, first: y, last: y });
            *span = Some(ChartSpan { low: low.min(y), high: high.max(y), first, last: y });
        }
    }
    let mut cells = vec![vec![0u8; columns]; rows];
    let mut before: Option<(usize, usize)> = None;
    for (column, span) in spans.iter().enumerate() {
        let Some(ChartSpan { low, high, first, last }) = *span else { continue };
        let (from, left) = before.unwrap_or((column, first));
        let mut at = left;
        for x in from + 1..=column {
            let y = left as f64 + (first as f64 - left as f64) * (x - from) as f64 / (column - from) as f64;
            let y = y.round() as usize;
            let next = match y.cmp(&at) {
                Ordering::Greater => at + 1,
                Ordering::Equal => at,
                Ordering::Less => at - 1,
            };
            (next.min(y)..=next.max(y)).for_each(|y| dot(&mut cells, x, y, height));
            at = y;
        }
        (low..=high).for_each(|y| dot(&mut cells, column, y, height));
        before = Some((column, last));
    }
    let letter = |&dots: &u8| char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' ');
    let rows = cells.iter().map(|row| row.iter().map(letter).collect()).collect();
    Some(TerminalChart { rows, range: (lowest, highest), steps: (first, last) })
}

/// Sets a dot; `y` counts from the bottom.
fn dot(cells: &mut [Vec<u8>], x: usize, y: usize, height: usize) {
    /// Bits of a cell's dots, by row and column (Unicode, Braille Patterns).
    const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
    let Some(from_top) = (height - 1).checked_sub(y) else { return };
    if let Some(cell) = cells.get_mut(from_top / 4).and_then(|row| row.get_mut(x / 2)) {
        *cell |= BITS[from_top % 4][x % 2];
    }
}

/// A bar of eight heights for a value, from 0 to the highest.
pub fn bar(value: f64, highest: f64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let share = if highest > 0.0 { value / highest } else { 0.0 };
    BARS[((share * 8.0) as usize).min(7)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_is_a_diagonal_of_dots() {
        let points: Vec<(u64, f64)> = (0..4).map(|i| (i, i as f64)).collect();
        let chart = chart(&points, 2, 1).unwrap();
        assert_eq!(chart.rows, ["⡠⠊"]);
        assert_eq!((chart.range, chart.steps), ((0.0, 3.0), (0, 3)));
    }

    #[test]
    fn what_is_not_finite_is_left_out_and_too_little_is_no_chart() {
        assert!(chart(&[], 5, 5).is_none() && chart(&[(1, 2.0)], 5, 5).is_none());
        assert!(chart(&[(1, f64::NAN), (2, f64::INFINITY)], 5, 5).is_none());
        assert!(chart(&[(0, 1.0), (9, 2.0)], 0, 5).is_none());
        let flat = chart(&[(0, 1.0), (3, f64::NAN), (9, 1.0)], 3, 1).unwrap();
        assert_eq!(flat.rows.concat().chars().filter(|&letter| letter == '⠒').count(), 3);
        assert!(chart(&[(0, 1e-300), (u64::MAX, 1e300)], 7, 3).is_some());
        assert!(chart(&[(0, -f64::MAX), (5, f64::MAX)], 7, 3).is_some());
    }

    #[test]
    fn bars_grow_with_the_value() {
        assert_eq!([bar(0.0, 1.0), bar(0.5, 1.0), bar(1.0, 1.0), bar(1.0, 0.0)], ['▁', '▅', '█', '▁']);
        assert_eq!(bar(f64::NAN, 1.0), '▁');
    }
}
