//! What an image file says beside its pixels: the camera's EXIF data, the colour profile, XMP, and the resolution.
//!
//! The bytes are found and copied as they are; nobody here trusts or understands them, but for the orientation.

use super::chunks::{jpeg_segments, png_chunks, webp_chunks};
use super::{Format, exif};
use flate2::read::ZlibDecoder;
use std::io::{Cursor, Read};
use tiff::decoder::Decoder;
use tiff::tags::Tag;

/// The most bytes of each part; a larger one is left out.
const MOST: usize = 4 << 20;
/// What leads XMP in a JPEG.
const XMP_IN_JPEG: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";
/// What XMP is called in a PNG.
pub(super) const XMP_KEYWORD: &str = "XML:com.adobe.xmp";

/// What an image file says beside its pixels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// EXIF data, beginning with the header of a TIFF.
    pub exif: Option<Vec<u8>>,
    /// The ICC profile of the colours.
    pub profile: Option<Vec<u8>>,
    /// XMP, a text.
    pub xmp: Option<Vec<u8>>,
    /// Pixels per metre across and down.
    pub resolution: Option<(u32, u32)>,
}

impl Metadata {
    /// What a file says. Of a TIFF, profile and XMP alone: its EXIF data are spread over the file.
    pub fn of(bytes: &[u8]) -> Metadata {
        let mut found = match Format::recognise(bytes) {
            Some(Format::Jpeg) => of_jpeg(bytes),
            Some(Format::Png) => of_png(bytes),
            Some(Format::WebP) => of_webp(bytes),
            Some(Format::Tiff) => of_tiff(bytes),
            Some(Format::Bmp | Format::Pnm | Format::Gif) | None => Metadata::default(),
        };
        for part in [&mut found.exif, &mut found.profile, &mut found.xmp] {
            part.take_if(|part| part.is_empty() || part.len() > MOST);
        }
        found
    }

    /// The same for pixels that were [turned upright](super::decode): EXIF and XMP say so.
    pub fn upright(mut self) -> Metadata {
        if let Some(exif) = &mut self.exif {
            exif::set_upright(exif);
        }
        if let Some(xmp) = &mut self.xmp {
            const NAME: &[u8] = b"tiff:Orientation";
            let places = (0..xmp.len()).filter(|&at| xmp[at..].starts_with(NAME)).collect::<Vec<_>>();
            for at in places {
                // As an attribute or an element.
                let rest = &xmp[at + NAME.len()..];
                let skipped = if rest.starts_with(b"=\"") || rest.starts_with(b"='") { 2 } else { 1 };
                if let [b'=' | b'>', ..] = rest
                    && rest.get(skipped).is_some_and(u8::is_ascii_digit)
                {
                    xmp[at + NAME.len() + skipped] = b'1';
                }
            }
        }
        self
    }

    /// The profile, where it is one for images of so many channels of colour.
    pub(super) fn profile_for(&self, channels: usize) -> Option<&[u8]> {
        let space: &[u8] = if channels == 1 { b"GRAY" } else { b"RGB " };
        self.profile.as_deref().filter(|profile| profile.get(16..20) == Some(space))
    }
}

fn of_jpeg(bytes: &[u8]) -> Metadata {
    let mut found = Metadata { exif: exif::find(bytes).map(<[u8]>::to_vec), ..Metadata::default() };
    let mut profile: Vec<(u8, u8, &[u8])> = Vec::new();
    for (marker, body) in jpeg_segments(bytes) {
        if marker == 0xE0 && body.starts_with(b"JFIF\0") {
            found.resolution = body.get(7..12).and_then(jfif_resolution);
        } else if let (0xE1, Some(xmp)) = (marker, body.strip_prefix(XMP_IN_JPEG)) {
            found.xmp = Some(xmp.to_vec());
        } else if let (0xE2, Some(&[number, count, ref part @ ..])) = (marker, body.strip_prefix(b"ICC_PROFILE\0")) {
            profile.push((number, count, part));
        }
    }
    profile.sort_by_key(|part| part.0);
    let whole =
        profile.iter().zip(1..=u8::MAX).all(|(part, number)| (part.0, usize::from(part.1)) == (number, profile.len()));
    if whole && !profile.is_empty() {
        found.profile = Some(profile.iter().flat_map(|part| part.2).copied().collect());
    }
    found
}

/// Unit and density across and down.
fn jfif_resolution(bytes: &[u8]) -> Option<(u32, u32)> {
    let &[unit, a, b, c, d] = bytes else { return None };
    let per_metre = |density: u16| match unit {
        1 => Some((f64::from(density) / 0.0254).round() as u32),
        2 => Some(u32::from(density) * 100),
        _ => None,
    };
    let (across, down) = (per_metre(u16::from_be_bytes([a, b]))?, per_metre(u16::from_be_bytes([c, d]))?);
    (across > 0 && down > 0).then_some((across, down))
}

fn of_png(bytes: &[u8]) -> Metadata {
    let mut found = Metadata { exif: exif::find(bytes).map(<[u8]>::to_vec), ..Metadata::default() };
    for (name, body) in png_chunks(bytes) {
        match name {
            b"iCCP" => {
                // Its name, and the only way of packing there is.
                let packed = body.iter().position(|byte| *byte == 0).and_then(|end| body.get(end + 2..));
                found.profile = packed.and_then(unpacked);
            }
            b"iTXt" => found.xmp = found.xmp.or_else(|| xmp_of(body)),
            b"pHYs" => {
                if let &[a, b, c, d, e, f, g, h, 1] = body {
                    found.resolution = Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])));
                }
            }
            _ => {}
        }
    }
    found
}

/// The text of an iTXt chunk that is XMP: the keyword, whether and how it is packed, language and translated keyword.
fn xmp_of(body: &[u8]) -> Option<Vec<u8>> {
    let (&packed, rest) = body.strip_prefix(XMP_KEYWORD.as_bytes())?.strip_prefix(b"\0")?.split_first()?;
    let mut fields = rest.get(1..)?.splitn(3, |byte| *byte == 0);
    let text = fields.nth(2)?;
    if packed == 1 { unpacked(text) } else { Some(text.to_vec()) }
}

fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    // One byte more than is wanted tells that it is too much.
    ZlibDecoder::new(packed).take(MOST as u64 + 1).read_to_end(&mut out).ok()?;
    Some(out)
}

fn of_webp(bytes: &[u8]) -> Metadata {
    let part = |wanted: &[u8]| webp_chunks(bytes).find(|(name, _)| *name == wanted).map(|(_, body)| body.to_vec());
    Metadata {
        exif: exif::find(bytes).map(<[u8]>::to_vec),
        profile: part(b"ICCP"),
        xmp: part(b"XMP "),
        resolution: None,
    }
}

fn of_tiff(bytes: &[u8]) -> Metadata {
    let Ok(mut decoder) = Decoder::new(Cursor::new(bytes)) else { return Metadata::default() };
    let mut part = |tag| decoder.get_tag_u8_vec(tag).ok();
    Metadata { profile: part(Tag::IccProfile), xmp: part(Tag::Unknown(700)), ..Metadata::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Picture, decode, decode_as_stored, png};

    const XMP: &[u8] =
        b"<rdf:Description tiff:Orientation=\"6\"><tiff:Orientation>8</tiff:Orientation></rdf:Description>";

    fn profile() -> Vec<u8> {
        (0..70_000u32)
            .map(|i| if (16..20).contains(&i) { b"RGB "[i as usize - 16] } else { (i * i / 7) as u8 })
            .collect()
    }

    fn exif(orientation: u8) -> Vec<u8> {
        let entry = [0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0];
        [&b"MM\0\x2a\0\0\0\x08\0\x01"[..], &entry, &[0; 4]].concat()
    }

    fn all() -> Metadata {
        let resolution = Some((2835, 2835));
        Metadata { exif: Some(exif(6)), profile: Some(profile()), xmp: Some(XMP.to_vec()), resolution }
    }

    #[test]
    fn what_is_written_into_a_png_is_found_in_it() {
        let picture = Picture { width: 2, height: 3, channels: 3, pixels: (0..18).collect() };
        let file = png::encode_with(&picture, None, &all());
        assert_eq!(Metadata::of(&file), all());
        assert_eq!(decode_as_stored(&file).unwrap(), picture);
        assert_ne!(decode(&file).unwrap(), picture);
        // A grey image has no profile for colours.
        let grey = Picture { width: 2, height: 3, channels: 1, pixels: (0..6).collect() };
        assert_eq!(Metadata::of(&png::encode_with(&grey, None, &all())), Metadata { profile: None, ..all() });
    }

    #[test]
    fn a_jpeg_and_a_webp_have_theirs_in_segments_and_chunks() {
        let segment =
            |marker: u8, body: &[u8]| [&[0xFF, marker][..], &(body.len() as u16 + 2).to_be_bytes(), body].concat();
        let profile = profile();
        let part = |number: u8, part: &[u8]| segment(0xE2, &[b"ICC_PROFILE\0", &[number, 2][..], part].concat());
        let jpeg = [
            vec![0xFF, 0xD8],
            segment(0xE0, b"JFIF\0\x01\x02\x01\0\x48\0\x48\0\0"),
            segment(0xE1, &[b"Exif\0\0", &exif(6)[..]].concat()),
            segment(0xE1, &[XMP_IN_JPEG, XMP].concat()),
            part(2, &profile[40_000..]),
            part(1, &profile[..40_000]),
            vec![0xFF, 0xDA],
        ]
        .concat();
        assert_eq!(Metadata::of(&jpeg), all());
        let chunk = |name: &[u8], body: &[u8]| {
            [name, &(body.len() as u32).to_le_bytes(), body, &vec![0; body.len() % 2]].concat()
        };
        let webp = [
            b"RIFF\0\0\0\0WEBP".to_vec(),
            chunk(b"ICCP", &profile),
            chunk(b"VP8L", b"pixel"),
            chunk(b"EXIF", &exif(6)),
            chunk(b"XMP ", XMP),
        ]
        .concat();
        assert_eq!(Metadata::of(&webp), Metadata { resolution: None, ..all() });
        // Cut off anywhere, there is less of it and no panic.
        (0..jpeg.len().min(300)).for_each(|end| drop(Metadata::of(&jpeg[..end])));
        let beyond = part(3, b"more");
        assert_eq!(Metadata::of(&[&jpeg[..jpeg.len() - 2], &beyond].concat()).profile, None);
    }

    #[test]
    fn upright_pixels_are_said_to_be_upright_and_nothing_else_changes() {
        let upright = all().upright();
        assert_eq!(upright.exif, Some(exif(1)));
        let xmp = String::from_utf8(XMP.to_vec()).unwrap().replace(['6', '8'], "1");
        assert_eq!(upright.xmp, Some(xmp.into_bytes()));
        assert_eq!((upright.profile, upright.resolution), (all().profile, all().resolution));
    }

    #[test]
    fn more_than_a_few_megabytes_are_left_out() {
        let bomb = Metadata { profile: Some([profile(), vec![0; MOST]].concat()), ..Metadata::default() };
        let picture = Picture { width: 1, height: 1, channels: 3, pixels: vec![0; 3] };
        assert_eq!(Metadata::of(&png::encode_with(&picture, None, &bomb)), Metadata::default());
    }
}
