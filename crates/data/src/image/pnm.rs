//! Portable anymaps in binary: PGM (`P5`) and PPM (`P6`), 8 or 16 bits.

use super::{ImageError, Picture, check_size};

const FORMAT: &str = "PNM";

/// Decodes to grey or RGB; samples are scaled from their own maximum to 255.
pub fn decode(bytes: &[u8]) -> Result<Picture, ImageError> {
    let channels = match bytes.get(1) {
        Some(b'5') => 1,
        Some(b'6') => 3,
        _ => {
            return Err(ImageError::Unsupported {
                format: FORMAT,
                what: "a kind other than binary grey (P5) and colour (P6)".into(),
            });
        }
    };
    let mut at = 2;
    let (width, height) = (number(bytes, &mut at)?, number(bytes, &mut at)?);
    let most = number(bytes, &mut at)?;
    if !(1..=65_535).contains(&most) {
        return Err(damaged("a largest sample outside 1 to 65535"));
    }
    at += 1; // One white space after the last number.
    let depth = if most > 255 { 2 } else { 1 };
    let samples = check_size(width, height, channels * depth, 8 * channels * depth, bytes)?;
    let data = bytes.get(at..).and_then(|data| data.get(..samples)).ok_or(ImageError::Truncated { format: FORMAT })?;
    let scale = |sample: u64| ((sample.min(most) * 255 + most / 2) / most) as u8;
    let pixels = match depth {
        1 if most == 255 => data.to_vec(),
        1 => data.iter().map(|&sample| scale(sample.into())).collect(),
        _ => data.as_chunks().0.iter().map(|&sample| scale(u16::from_be_bytes(sample).into())).collect(),
    };
    Ok(Picture { width: width as usize, height: height as usize, channels: channels as usize, pixels })
}

/// The next decimal number, after white space and comments.
fn number(bytes: &[u8], at: &mut usize) -> Result<u64, ImageError> {
    let mut comment = false;
    while let Some(&byte) = bytes.get(*at) {
        match byte {
            b'\n' | b'\r' => comment = false,
            b'#' => comment = true,
            b' ' | b'\t' => {}
            _ if comment => {}
            _ => break,
        }
        *at += 1;
    }
    let digits = bytes.get(*at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).take(10);
    let digits: Vec<u8> = digits.copied().collect();
    *at += digits.len();
    let value = std::str::from_utf8(&digits).ok().and_then(|digits| digits.parse().ok());
    value.ok_or_else(|| damaged("a number is missing in the header"))
}

fn damaged(reason: &str) -> ImageError {
    ImageError::Damaged { format: FORMAT, reason: reason.into() }
}
