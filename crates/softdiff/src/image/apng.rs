//! Animated PNG: a PNG whose further pictures stand in chunks that other readers skip (PNG 3rd edition, sections 4.9 and
//! 11.3.7).

use super::Film;
use super::png::{SIGNATURE, chunk, compress, filter, header};

/// Encodes a film that plays forever; readers without films show its first picture.
pub fn encode(film: &Film) -> Vec<u8> {
    let mut file = SIGNATURE.to_vec();
    chunk(&mut file, b"IHDR", &header(film.width(), film.height(), film.channels()));
    let count = film.frames().len() as u32;
    // Number of pictures, and of repetitions: 0 has no end.
    chunk(&mut file, b"acTL", &[count.to_be_bytes(), 0u32.to_be_bytes()].concat());
    let mut number = 0u32;
    for (index, frame) in film.frames().iter().enumerate() {
        chunk(&mut file, b"fcTL", &control(film, frame.milliseconds, number));
        number += 1;
        let pixels = compress(&filter(film.width() * film.channels(), &frame.pixels));
        if index == 0 {
            chunk(&mut file, b"IDAT", &pixels);
        } else {
            chunk(&mut file, b"fdAT", &[&number.to_be_bytes()[..], &pixels].concat());
            number += 1;
        }
    }
    chunk(&mut file, b"IEND", &[]);
    file
}

/// What is said of a picture: its number in the sequence of such chunks, size, place, time, and how it is laid over the
/// one before.
fn control(film: &Film, milliseconds: u16, number: u32) -> Vec<u8> {
    let (width, height) = (film.width() as u32, film.height() as u32);
    let mut content: Vec<u8> = [number, width, height, 0, 0].into_iter().flat_map(u32::to_be_bytes).collect();
    content.extend([milliseconds, 1000].into_iter().flat_map(u16::to_be_bytes));
    // Leave the picture when its time is over; the next one replaces all of it.
    content.extend([0, 0]);
    content
}

#[cfg(test)]
mod tests {
    use crate::image::film::tests::example;
    use crate::image::{FilmFormat, decode};

    #[test]
    fn another_decoder_sees_every_picture_and_its_time() {
        for (width, height, channels) in [(1, 1, 1), (9, 5, 3), (33, 20, 1)] {
            let film = example(width, height, channels);
            let file = film.encode(FilmFormat::Apng);
            let mut reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
            assert_eq!(reader.info().animation_control().unwrap().num_frames, 3);
            for frame in film.frames() {
                let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
                reader.next_frame(&mut pixels).unwrap();
                assert!(pixels == frame.pixels);
                let control = reader.info().frame_control().unwrap();
                assert_eq!((control.delay_num, control.delay_den), (frame.milliseconds, 1000));
            }
            assert_eq!(decode(&file).unwrap().pixels, film.frames()[0].pixels);
        }
    }
}
