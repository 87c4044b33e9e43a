//! GIF: films that everything can show, with 256 colours (GIF89a).

mod lzw;
mod palette;

use super::Film;
use palette::Palette;

/// Bits of a pixel, always: 256 colours.
const BITS: u8 = 8;
/// What the name of the first extension is, by which films repeat.
const REPEATING: &[u8; 11] = b"NETSCAPE2.0";

/// Encodes a film that plays forever. Grey values are kept; of colours the best 256 for the whole film.
pub fn encode(film: &Film) -> Vec<u8> {
    let palette = Palette::of(film.channels(), film.frames().iter().map(|frame| frame.pixels.as_slice()));
    let (width, height) = ((film.width() as u16).to_le_bytes(), (film.height() as u16).to_le_bytes());
    let mut file = b"GIF89a".to_vec();
    file.extend([width, height].concat());
    // One table of 2^8 colours for all pictures; no background, square pixels.
    file.extend([0xF0 | (BITS - 1), 0, 0]);
    file.extend(palette.colours().as_flattened());
    file.extend([0x21, 0xFF, REPEATING.len() as u8]);
    file.extend(REPEATING);
    // Repeat without end.
    file.extend([3, 1, 0, 0, 0]);
    for frame in film.frames() {
        let hundredths = (frame.milliseconds.saturating_add(5) / 10).to_le_bytes();
        // Leave the picture when its time is over; no colour is transparent.
        file.extend([0x21, 0xF9, 4, 0x04, hundredths[0], hundredths[1], 0, 0]);
        file.extend([0x2C, 0, 0, 0, 0]);
        file.extend([width, height].concat());
        file.extend([0, BITS]);
        for block in lzw::compress(BITS, &palette.indices(film.channels(), &frame.pixels)).chunks(255) {
            file.push(block.len() as u8);
            file.extend(block);
        }
        file.push(0);
    }
    file.push(0x3B);
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::film::tests::example;

    /// The pictures of a GIF as this module writes them, with their hundredths of a second.
    fn decode(file: &[u8]) -> Vec<(u16, Vec<[u8; 3]>)> {
        assert_eq!(&file[..6], b"GIF89a");
        let colours: &[[u8; 3]] = file[13..13 + 768].as_chunks().0;
        let (mut at, mut pictures) = (13 + 768, Vec::new());
        assert_eq!(&file[at..at + 19], b"\x21\xFF\x0BNETSCAPE2.0\x03\x01\0\0\0");
        at += 19;
        while file[at] != 0x3B {
            assert_eq!(file[at..at + 4], [0x21, 0xF9, 4, 4]);
            let time = u16::from_le_bytes([file[at + 4], file[at + 5]]);
            assert_eq!((file[at + 8], &file[at + 13..at + 17]), (0x2C, &file[6..10]));
            assert_eq!(file[at + 18], BITS);
            at += 19;
            let mut packed = Vec::new();
            while file[at] != 0 {
                packed.extend(&file[at + 1..at + 1 + usize::from(file[at])]);
                at += 1 + usize::from(file[at]);
            }
            at += 1;
            let indices = lzw::tests::expand(BITS, &packed);
            pictures.push((time, indices.iter().map(|&index| colours[usize::from(index)]).collect()));
        }
        assert_eq!(at + 1, file.len());
        pictures
    }

    #[test]
    fn grey_films_are_kept_exactly() {
        let film = example(33, 21, 1);
        let pictures = decode(&encode(&film));
        assert_eq!(pictures.len(), 3);
        for ((time, pixels), frame) in pictures.iter().zip(film.frames()) {
            assert_eq!(*time, frame.milliseconds / 10);
            assert!(pixels.iter().zip(&frame.pixels).all(|(rgb, &grey)| *rgb == [grey; 3]));
            assert_eq!(pixels.len(), frame.pixels.len());
        }
    }

    #[test]
    fn films_of_few_colours_are_kept_exactly_and_others_nearly() {
        let few = example(8, 8, 3);
        for ((_, pixels), frame) in decode(&encode(&few)).iter().zip(few.frames()) {
            assert!(pixels.as_flattened() == frame.pixels);
        }
        let many = example(90, 70, 3);
        for ((_, pixels), frame) in decode(&encode(&many)).iter().zip(many.frames()) {
            let pairs = pixels.as_flattened().iter().zip(&frame.pixels);
            let squares: f64 = pairs.map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
            let error = (squares / frame.pixels.len() as f64).sqrt();
            assert!(error < 16.0, "{error}");
        }
    }
}
