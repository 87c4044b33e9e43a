//! GIF: films that everything can show, with 256 colours (GIF89a), and images read.

mod decode;
mod palette;

pub use decode::decode;

use super::Film;
use gif::{DisposalMethod, Encoder, EncodingError, Frame, Repeat};
use palette::Palette;

/// Encodes a film that plays forever. Grey values are kept; of colours the best 256 for the whole film.
pub fn encode(film: &Film) -> Vec<u8> {
    let mut file = Vec::new();
    write(&mut file, film).expect("a film has sides of 16 bits, and memory can be written to");
    file
}

fn write(file: &mut Vec<u8>, film: &Film) -> Result<(), EncodingError> {
    let palette = Palette::of(film.channels(), film.frames().iter().map(|frame| frame.pixels.as_slice()));
    let (width, height) = (film.width() as u16, film.height() as u16);
    let mut encoder = Encoder::new(file, width, height, palette.colours().as_flattened())?;
    encoder.set_repeat(Repeat::Infinite)?;
    for frame in film.frames() {
        encoder.write_frame(&Frame {
            delay: frame.milliseconds.saturating_add(5) / 10,
            dispose: DisposalMethod::Keep,
            width,
            height,
            buffer: palette.indices(film.channels(), &frame.pixels).into(),
            ..Frame::default()
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::film::tests::example;

    /// The images of a GIF, with their hundredths of a second.
    fn frames(file: &[u8]) -> Vec<(u16, Vec<[u8; 3]>)> {
        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut decoder = options.read_info(file).unwrap();
        assert_eq!(decoder.repeat(), Repeat::Infinite);
        let mut pictures = Vec::new();
        while let Some(frame) = decoder.read_next_frame().unwrap() {
            let pixels = frame.buffer.as_chunks().0.iter().map(|&[red, green, blue, _]| [red, green, blue]);
            pictures.push((frame.delay, pixels.collect()));
        }
        pictures
    }

    #[test]
    fn grey_films_are_kept_exactly() {
        let film = example(33, 21, 1);
        let pictures = frames(&encode(&film));
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
        for ((_, pixels), frame) in frames(&encode(&few)).iter().zip(few.frames()) {
            assert!(pixels.as_flattened() == frame.pixels);
        }
        let many = example(90, 70, 3);
        for ((_, pixels), frame) in frames(&encode(&many)).iter().zip(many.frames()) {
            let pairs = pixels.as_flattened().iter().zip(&frame.pixels);
            let squares: f64 = pairs.map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
            let error = (squares / frame.pixels.len() as f64).sqrt();
            assert!(error < 16.0, "{error}");
        }
    }
}
