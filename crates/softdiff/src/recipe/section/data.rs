//! `[data]`: which pictures, and what is done to them.

use super::UNLIMITED;
use crate::data::{Crop, Exif, LoadOptions, OnBad, Split, Transform};
use crate::recipe::reader::Reader;
use crate::recipe::writer::Writer;

const SPLITS: [(&str, Split); 3] = [("train", Split::Train), ("test", Split::Test), ("all", Split::All)];
const CHANNELS: [(&str, Option<usize>); 3] = [("auto", None), ("grey", Some(1)), ("rgb", Some(3))];
const ON_BAD: [(&str, OnBad); 2] = [("fail", OnBad::Fail), ("skip", OnBad::Skip)];
const AUTO: &str = "auto";

/// `[data]`.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `source` | required | a folder, archive or file of pictures, or `embedded:fashion-mnist` |
/// | `split` | `"train"` | `"train"`, `"test"` or `"all"` |
/// | `size` | `false` | side in pixels to resize to, 1 to 8192; false keeps the size |
/// | `crop` | `"auto"` | the part kept before resizing: `"none"` (all), `"centre"`, `"celeba"`, or a size like `"140x140"`; `"auto"` is `"centre"` with a `size`, else `"none"`, as for `softdiff data prepare` |
/// | `channels` | `"auto"` | `"grey"`, `"rgb"`, or what the pictures have |
/// | `mirror` | `true` | mirror pictures left to right at random |
/// | `limit` | `false` | only the first so many |
/// | `on_bad` | `"fail"` | `"fail"` or `"skip"` pictures that cannot be read |
/// | `exif` | `true` | turn pictures upright as their EXIF orientation says; `false` takes them as stored, as do runs saved before this key existed |
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct DataSection {
    pub source: String,
    pub split: Split,
    pub size: Option<usize>,
    pub crop: Option<Crop>,
    pub channels: Option<usize>,
    pub mirror: bool,
    pub limit: Option<usize>,
    pub on_bad: OnBad,
    pub exif: bool,
}

impl DataSection {
    /// How to load the source.
    pub fn load_options(&self) -> LoadOptions {
        let size = self.size.map(|side| (side, side));
        let transform = Transform { crop: Crop::or_usual(self.crop, size), size, channels: self.channels };
        let exif = if self.exif { Exif::Apply } else { Exif::Ignore };
        LoadOptions { exif, transform, on_bad: self.on_bad, limit: self.limit }
    }

    pub(in crate::recipe) fn read(r: &Reader) -> Self {
        let crop = r.text("crop").filter(|text| text != AUTO).and_then(|text| match text.parse::<Crop>() {
            Ok(crop) => Some(crop),
            Err(expected) => {
                r.problem("crop", format!("{} is {}", r.full("crop"), softdiff_data::quote::quote(&text)), expected);
                None
            }
        });
        let off = |value: Option<Option<u64>>| value.flatten().and_then(|value| usize::try_from(value).ok());
        let section = DataSection {
            source: r.required("source", "name a folder, archive or file of pictures, or \"embedded:fashion-mnist\""),
            split: r.choice("split", &SPLITS).unwrap_or_default(),
            size: off(r.whole_or_off("size", 1..=8192)),
            crop,
            channels: r.choice("channels", &CHANNELS).flatten(),
            mirror: r.flag("mirror").unwrap_or(true),
            limit: off(r.whole_or_off("limit", 1..=UNLIMITED)),
            on_bad: r.choice("on_bad", &ON_BAD).unwrap_or_default(),
            exif: r.flag("exif").unwrap_or(true),
        };
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut Writer) {
        w.section("data");
        w.value("source", &self.source);
        w.word("split", &SPLITS, &self.split);
        w.value("size", &self.size);
        w.value("crop", &self.crop.map_or(AUTO.to_owned(), |crop| crop.to_string()));
        w.word("channels", &CHANNELS, &self.channels);
        w.value("mirror", &self.mirror);
        w.value("limit", &self.limit);
        w.word("on_bad", &ON_BAD, &self.on_bad);
        w.value("exif", &self.exif);
    }
}
