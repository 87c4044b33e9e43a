//! Sixels, the pictures of DEC's terminals (VT330/VT340 Programmer Reference, chapter 14): bands of six rows, in each band one
//! line per colour, in which a letter is a column of six pixels that are set or not.

use softdiff::image::Picture;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Colours that every terminal with sixels has room for.
const COLOURS: usize = 256;
/// Levels of red, green and blue where there are more: the eye is best at green.
const LEVELS: [i32; 3] = [6, 7, 6];

/// What draws the picture at the cursor.
pub fn encode(picture: &Picture) -> String {
    let (width, height) = (picture.width, picture.height);
    let pixels = reduced(&picture.clone().with_channels(3));
    let names: BTreeMap<[u8; 3], usize> =
        pixels.iter().collect::<BTreeSet<_>>().into_iter().enumerate().map(|(name, colour)| (*colour, name)).collect();
    // Pixels that no colour sets stay as they are, and pixels are square.
    let mut text = format!("\x1bP0;1q\"1;1;{width};{height}");
    for ([r, g, b], name) in &names {
        let _ = write!(text, "#{name};2;{r};{g};{b}");
    }
    for band in pixels.chunks(width.max(1) * 6) {
        let mut columns: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for (place, colour) in band.iter().enumerate() {
            let (row, column) = (place / width, place % width);
            columns.entry(names[colour]).or_insert_with(|| vec![0; width])[column] |= 1 << row;
        }
        for (name, columns) in &columns {
            let _ = write!(text, "#{name}");
            for run in columns.chunk_by(|a, b| a == b) {
                let letter = char::from(b'?' + run[0]);
                match run.len() {
                    1..4 => text.extend(std::iter::repeat_n(letter, run.len())),
                    count => drop(write!(text, "!{count}{letter}")),
                }
            }
            text.push('$');
        }
        text.push('-');
    }
    text + "\x1b\\"
}

/// Pixels in hundredths, which is how sixels name colours, and no more colours than there is room for: beyond that, evenly
/// spread ones, with the error passed on to the neighbours (Floyd and Steinberg 1976).
fn reduced(picture: &Picture) -> Vec<[u8; 3]> {
    let exact: Vec<[u8; 3]> = picture.pixels.chunks_exact(3).map(|p| [p[0], p[1], p[2]].map(hundredths)).collect();
    if exact.iter().collect::<BTreeSet<_>>().len() <= COLOURS {
        return exact;
    }
    let width = picture.width;
    let mut wanted: Vec<[i32; 3]> = picture.pixels.chunks_exact(3).map(|p| [p[0], p[1], p[2]].map(i32::from)).collect();
    let mut found = Vec::with_capacity(wanted.len());
    for place in 0..wanted.len() {
        let mut colour = [0; 3];
        for channel in 0..3 {
            let (value, steps) = (wanted[place][channel].clamp(0, 255), LEVELS[channel] - 1);
            let level = (value * steps + 127) / 255;
            let error = value - level * 255 / steps;
            colour[channel] = hundredths((level * 255 / steps) as u8);
            let inside =
                |shift: i64| (place % width) as i64 + shift >= 0 && ((place % width) as i64 + shift) < width as i64;
            for (shift, rows, share) in [(1, 0, 7), (-1, 1, 3), (0, 1, 5), (1, 1, 1)] {
                let at = place as i64 + shift + rows * width as i64;
                if let Some(pixel) = wanted.get_mut(at as usize).filter(|_| inside(shift)) {
                    pixel[channel] += error * share / 16;
                }
            }
        }
        found.push(colour);
    }
    found
}

fn hundredths(byte: u8) -> u8 {
    ((u32::from(byte) * 100 + 127) / 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal of its own: the picture that the letters draw, in hundredths.
    fn decoded(text: &str) -> (usize, usize, Vec<Option<[u8; 3]>>) {
        let body = text.strip_prefix("\x1bP0;1q\"1;1;").unwrap().strip_suffix("\x1b\\").unwrap();
        let mut letters = body.chars().peekable();
        let number = |letters: &mut std::iter::Peekable<std::str::Chars>| {
            let mut value = 0usize;
            while let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(10)) {
                value = value * 10 + digit as usize;
                letters.next();
            }
            value
        };
        let width = number(&mut letters);
        assert_eq!(letters.next(), Some(';'));
        let height = number(&mut letters);
        let (mut pixels, mut names) = (vec![None; width * height], BTreeMap::new());
        let (mut colour, mut column, mut band) = (0, 0, 0);
        while let Some(letter) = letters.next() {
            let mut count = 1;
            let mut sixel = letter;
            match letter {
                '#' => {
                    colour = number(&mut letters);
                    let mut parts = vec![];
                    while letters.next_if_eq(&';').is_some() {
                        parts.push(number(&mut letters) as u8);
                    }
                    if let [2, r, g, b] = parts[..] {
                        names.insert(colour, [r, g, b]);
                    }
                    continue;
                }
                '$' => {
                    column = 0;
                    continue;
                }
                '-' => {
                    (column, band) = (0, band + 1);
                    continue;
                }
                '!' => {
                    count = number(&mut letters);
                    sixel = letters.next().unwrap();
                }
                _ => {}
            }
            assert!(('?'..='~').contains(&sixel), "{sixel:?}");
            let bits = sixel as u8 - b'?';
            for column in column..column + count {
                for row in (0..6).filter(|row| bits & 1 << row != 0) {
                    pixels[(band * 6 + row) * width + column] = Some(names[&colour]);
                }
            }
            column += count;
        }
        (width, height, pixels)
    }

    #[test]
    fn few_colours_come_back_as_they_were() {
        let pixels: Vec<u8> = (0..13 * 7).flat_map(|i| [(i % 5 * 60) as u8, 255, (i / 13 * 30) as u8]).collect();
        let picture = Picture { width: 13, height: 7, channels: 3, pixels };
        let (width, height, seen) = decoded(&encode(&picture));
        assert_eq!((width, height), (13, 7));
        for (pixel, seen) in picture.pixels.chunks_exact(3).zip(seen) {
            assert_eq!([pixel[0], pixel[1], pixel[2]].map(hundredths), seen.unwrap());
        }
        let grey = Picture { width: 300, height: 1, channels: 1, pixels: (0..300).map(|i| (i % 256) as u8).collect() };
        let (.., seen) = decoded(&encode(&grey));
        assert!(grey.pixels.iter().zip(seen).all(|(byte, seen)| seen == Some([hundredths(*byte); 3])));
    }

    #[test]
    fn many_colours_become_few_and_are_right_on_average() {
        let (width, height) = (64, 48);
        let colour = |x: usize, y: usize| [(x * 4) as u8, (y * 5) as u8, ((x + y) * 2) as u8];
        let pixels: Vec<u8> = (0..width * height).flat_map(|i| colour(i % width, i / width)).collect();
        let picture = Picture { width, height, channels: 3, pixels };
        let text = encode(&picture);
        let (.., seen) = decoded(&text);
        let seen: Vec<[u8; 3]> = seen.into_iter().map(Option::unwrap).collect();
        assert!(seen.iter().collect::<BTreeSet<_>>().len() <= COLOURS);
        for channel in 0..3 {
            let mean = |all: &mut dyn Iterator<Item = f64>| all.sum::<f64>() / (width * height) as f64;
            let was = mean(&mut picture.pixels.chunks_exact(3).map(|pixel| f64::from(pixel[channel]) / 2.55));
            let is = mean(&mut seen.iter().map(|pixel| f64::from(pixel[channel])));
            assert!((was - is).abs() < 1.0, "channel {channel}: {was} became {is}");
        }
    }
}
