//! Colour conversion of libjpeg's `jdcolor.c`: YCbCr to RGB in 16-bit fixed point; CMYK to RGB as Pillow does.

use crate::frame::Planes;
use crate::upsample::Rows;
use crate::{JpegError, JpegImage, Markers, damaged};

/// Round(x * 2^16).
const FIX_1_40200: i32 = 91_881;
const FIX_1_77200: i32 = 116_130;
const FIX_0_71414: i32 = 46_802;
const FIX_0_34414: i32 = 22_554;
const HALF: i32 = 1 << 15;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    Grey,
    Rgb,
    YCbCr,
    Cmyk,
    Ycck,
}

/// Upsamples and converts all rows.
pub fn convert(planes: Planes, markers: &Markers) -> Result<JpegImage, JpegError> {
    let Planes { width, height, planes } = planes;
    let ids: Vec<u8> = planes.iter().map(|plane| plane.id).collect();
    let space = space(&ids, markers);
    let channels = if space == Space::Grey { 1 } else { 3 };
    let mut rows: Vec<Rows> = planes.iter().map(|plane| Rows::new(plane, width)).collect();
    let mut pixels = Vec::with_capacity(width * height * channels);
    for y in 0..height {
        let lines: Vec<_> = rows.iter_mut().map(|rows| rows.row(y)).collect();
        match (space, lines.as_slice()) {
            (Space::Grey, [grey]) => pixels.extend_from_slice(grey),
            (Space::Rgb, [r, g, b]) => {
                pixels.extend(r.iter().zip(&**g).zip(&**b).flat_map(|((&r, &g), &b)| [r, g, b]));
            }
            (Space::YCbCr, [y, cb, cr]) => {
                pixels.extend(y.iter().zip(&**cb).zip(&**cr).flat_map(|((&y, &cb), &cr)| rgb_from_ycbcr(y, cb, cr)));
            }
            (Space::Cmyk | Space::Ycck, [a, b, c, k]) => {
                let samples = a.iter().zip(&**b).zip(&**c).zip(&**k);
                pixels.extend(samples.flat_map(|(((&a, &b), &c), &k)| {
                    let [c, m, y] =
                        if space == Space::Ycck { rgb_from_ycbcr(a, b, c).map(|s| 255 - s) } else { [a, b, c] };
                    rgb_from_inverted_cmyk([c, m, y], k)
                }));
            }
            _ => return Err(damaged("a number of components that does not fit its colours")),
        }
    }
    if pixels.len() != width * height * channels {
        return Err(damaged("rows of unequal length"));
    }
    Ok(JpegImage { width, height, channels, pixels })
}

/// The rules of libjpeg's `default_decompress_parms`.
fn space(ids: &[u8], markers: &Markers) -> Space {
    match (ids, markers.jfif, markers.adobe) {
        ([_], ..) => Space::Grey,
        ([_, _, _], true, _) => Space::YCbCr,
        ([_, _, _], _, Some(0)) => Space::Rgb,
        ([b'R', b'G', b'B'], _, None) => Space::Rgb,
        ([_, _, _], ..) => Space::YCbCr,
        (_, _, Some(2)) => Space::Ycck,
        _ => Space::Cmyk,
    }
}

#[inline]
fn rgb_from_ycbcr(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let red = y + ((FIX_1_40200 * cr + HALF) >> 16);
    let green = y + ((-FIX_0_34414 * cb - FIX_0_71414 * cr + HALF) >> 16);
    let blue = y + ((FIX_1_77200 * cb + HALF) >> 16);
    [red, green, blue].map(|sample| sample.clamp(0, 255) as u8)
}

/// Files have inverted inks, as Adobe writes them; the product is rounded as Pillow's `cmyk2rgb`.
fn rgb_from_inverted_cmyk(inks: [u8; 3], black: u8) -> [u8; 3] {
    let light = u32::from(black);
    inks.map(|ink| {
        let product = (255 - u32::from(ink)) * light + 128;
        (light.saturating_sub(((product >> 8) + product) >> 8)) as u8
    })
}
