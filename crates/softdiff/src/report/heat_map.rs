//! A matrix as a coloured square, with its axes.

use super::chart::label;
use super::html::escape;
use crate::image::Picture;
use base64::prelude::{BASE64_STANDARD, Engine};
use std::fmt::Write;

/// Five colours of the viridis colour map, for small to large values.
const COLOURS: [[f64; 3]; 5] =
    [[68.0, 1.0, 84.0], [59.0, 82.0, 139.0], [33.0, 145.0, 140.0], [94.0, 201.0, 98.0], [253.0, 231.0, 37.0]];

/// `size` times `size` values, row by row, each a square of `zoom` pixels; black where there is none.
fn squares(size: usize, values: &[f64], zoom: usize) -> Picture {
    let largest = values.iter().copied().filter(|v| v.is_finite()).fold(f64::MIN_POSITIVE, f64::max);
    let side = size * zoom;
    let mut pixels = Vec::with_capacity(side * side * 3);
    for y in 0..side {
        for x in 0..side {
            let value = values.get(y / zoom * size + x / zoom).copied().unwrap_or(f64::NAN);
            pixels.extend(colour(value / largest));
        }
    }
    Picture { width: side, height: side, channels: 3, pixels }
}

/// Side of the square, room at its left and below, the bar of colours, and the labels along an axis.
const SIDE: f64 = 320.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 26.0;
const BAR: f64 = 16.0;
const LABELS: usize = 5;

/// A matrix as an SVG heat map: rows and columns are labelled by their `levels`, the colour bar by its `unit`.
pub fn heat_map(levels: &[f64], axis: &str, values: &[f64], unit: &str) -> String {
    let count = levels.len().max(1);
    let largest = values.iter().copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
    let (bottom, bar) = (TOP + SIDE, LEFT + SIDE + 28.0);
    let (axis, unit) = (escape(axis), escape(unit));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" role=\"img\" aria-label=\"{unit} between levels\">",
        bar + 80.0,
        bottom + 42.0,
        bar + 80.0
    );
    let mut picture = |picture: Picture, x: f64, width: f64| {
        let data = BASE64_STANDARD.encode(picture.to_png());
        let _ = write!(
            svg,
            "<image class=\"map\" x=\"{x}\" y=\"{TOP}\" width=\"{width}\" height=\"{SIDE}\" preserveAspectRatio=\"none\" \
             href=\"data:image/png;base64,{data}\"/>"
        );
    };
    picture(squares(count, values, (SIDE as usize / count.max(1)).max(1)), LEFT, SIDE);
    let ramp = (0..128).flat_map(|row| colour(1.0 - f64::from(row) / 127.0)).collect();
    picture(Picture { width: 1, height: 128, channels: 3, pixels: ramp }, bar, BAR);
    let mut text = |x: f64, y: f64, anchor: &str, words: &str| {
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
    };
    for part in 0..LABELS.min(levels.len()) {
        let index = part * (count - 1) / (LABELS.min(count) - 1).max(1);
        let (at, name) = ((index as f64 + 0.5) * SIDE / count as f64, label(rounded(levels[index])));
        text(LEFT - 8.0, TOP + at + 4.0, "end", &name);
        text(LEFT + at, bottom + 18.0, "middle", &name);
    }
    text(8.0, 14.0, "start", &axis);
    text(LEFT + SIDE / 2.0, bottom + 36.0, "middle", &axis);
    text(bar, 14.0, "start", &unit);
    text(bar + BAR + 6.0, TOP + 10.0, "start", &label(rounded(largest)));
    text(bar + BAR + 6.0, bottom, "start", "0");
    svg + "</svg>"
}

/// To two digits: enough for an axis.
fn rounded(value: f64) -> f64 {
    let unit = 10f64.powf(value.abs().log10().floor() - 1.0);
    if value == 0.0 || !unit.is_normal() { value } else { (value / unit).round() * unit }
}

/// The colour of a value from 0 to 1.
fn colour(part: f64) -> [u8; 3] {
    if !part.is_finite() {
        return [0; 3];
    }
    let place = part.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f64;
    let below = (place as usize).min(COLOURS.len() - 2);
    [0, 1, 2].map(|c| {
        let (a, b) = (COLOURS[below][c], COLOURS[below + 1][c]);
        (a + (b - a) * (place - below as f64)).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_is_dark_and_large_is_light() {
        let map = squares(2, &[0.0, 1.0, 2.0, f64::NAN], 1);
        assert_eq!(map.pixels, [68, 1, 84, 33, 145, 140, 253, 231, 37, 0, 0, 0]);
        assert_eq!(squares(2, &[1.0; 4], 3).width, 6);
    }

    #[test]
    fn a_map_names_its_levels_and_its_largest_value() {
        let svg = heat_map(&[0.0, 0.517, 3.04], "level", &[0.0, 1.0, 2.0, 1.0, 0.0, 1.0, 2.52, 1.0, 0.0], "<distance>");
        for words in [">0<", ">0.52<", ">3<", ">2.5<", "&lt;distance&gt;", "data:image/png;base64,"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        assert!(heat_map(&[], "level", &[], "x").ends_with("</svg>"));
    }
}
