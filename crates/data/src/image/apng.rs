//! Animated PNG: a PNG whose further images stand in chunks that other readers skip (PNG 3rd edition, sections 4.9 and
//! 11.3.7).

use super::Film;
use super::png::{USUAL, encoder};
use png::EncodingError;

/// Encodes a film that plays forever; readers without films show its first image.
pub fn encode(film: &Film) -> Vec<u8> {
    let mut file = Vec::new();
    write(&mut file, film).expect("a film has images of one size, and memory can be written to");
    file
}

fn write(file: &mut Vec<u8>, film: &Film) -> Result<(), EncodingError> {
    let mut encoder = encoder(file, USUAL, film.width(), film.height(), film.channels());
    // 0 repetitions have no end.
    encoder.set_animated(film.frames().len() as u32, 0)?;
    let mut writer = encoder.write_header()?;
    for frame in film.frames() {
        writer.set_frame_delay(frame.milliseconds, 1000)?;
        writer.write_image_data(&frame.pixels)?;
    }
    writer.finish()
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
