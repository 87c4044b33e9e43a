//! `[data]`: which pictures, and what is done to them.

use super::UNLIMITED;
use crate::data::{BadLimit, Crop, Exif, LoadOptions, OnBad, Split, Transform};
use crate::recipe::keys::{Flag, Number, RecipeKey, Required, SizeOrOff, Word, section};
use crate::recipe::reader::{Range, Reader};
use crate::recipe::writer::TomlWriter;

const SPLITS: [(&str, Split); 3] = [("train", Split::Train), ("test", Split::Test), ("all", Split::All)];
const CHANNELS: [(&str, Option<usize>); 3] = [("auto", None), ("grey", Some(1)), ("rgb", Some(3))];
const ON_BAD: [(&str, OnBad); 2] = [("fail", OnBad::Fail), ("skip", OnBad::Skip)];
const AUTO: &str = "auto";

section! {
    /// `[data]`.
    pub struct DataSection in "data" () {
        source: String = String::new(), Required("name a folder, archive or file of images, \"embedded:fashion-mnist\", or data that softdiff data fetch knows, such as \"cifar10\""), "where the images come from";
        split: Split = Split::default(), Word(&SPLITS), "which part of a data set";
        size: Option<usize> = None, SizeOrOff(1..=8192), "side in pixels to resize to; false keeps the size";
        crop: Option<Crop> = None, CropKey, "the part kept before resizing: \"none\" (all), \"centre\", \"celeba\", or a size like \"140x140\"; \"auto\" is \"centre\" with a size, else \"none\", as for softdiff data prepare";
        channels: Option<usize> = None, Word(&CHANNELS), "\"auto\" keeps what the images have";
        mirror: bool = true, Flag(), "mirror images left to right at random";
        limit: Option<usize> = None, SizeOrOff(1..=UNLIMITED), "only the first so many";
        on_bad: OnBad = OnBad::default(), Word(&ON_BAD), "what to do with images that cannot be read";
        on_bad_limit: f64 = BadLimit::default().0, Number(Range::Unit), "with on_bad \"skip\", the largest share of images that may be left out; more stop the run", unless_default;
        exif: bool = true, Flag(), "turn images upright as their EXIF orientation says; false takes them as stored, as do runs saved before this key existed";
    }
}

/// A crop, or "auto".
struct CropKey;

impl RecipeKey<Option<Crop>> for CropKey {
    fn read(&self, r: &Reader, key: &'static str, usual: Option<Crop>) -> Option<Crop> {
        let text = r.text(key).filter(|text| text != AUTO);
        let Some(text) = text else { return usual };
        text.parse()
            .map_err(|expected: String| {
                r.problem(key, format!("{} is {}", r.full(key), softdiff_data::quote::quote(&text)), expected);
            })
            .ok()
    }
    fn write(&self, w: &mut TomlWriter, key: &str, value: &Option<Crop>) {
        w.value(key, &value.map_or(AUTO.to_owned(), |crop| crop.to_string()));
    }
    fn expected(&self) -> String {
        "auto, none, centre, celeba or a size like 140x140".to_owned()
    }
}

impl DataSection {
    /// How to load the source.
    pub fn load_options(&self) -> LoadOptions {
        let size = self.size.map(|side| (side, side));
        let transform = Transform { crop: Crop::or_usual(self.crop, size), size, channels: self.channels };
        let exif = if self.exif { Exif::Apply } else { Exif::Ignore };
        LoadOptions {
            exif,
            transform,
            on_bad: self.on_bad,
            on_bad_limit: BadLimit(self.on_bad_limit),
            limit: self.limit,
        }
    }

    pub(in crate::recipe) fn read(r: &Reader) -> Self {
        let section = Self::read_keys(r, Self::defaults());
        if section.on_bad == OnBad::Fail && r.has("on_bad_limit") {
            r.problem(
                "on_bad_limit",
                "data.on_bad_limit is for data.on_bad \"skip\"",
                "remove it, or set on_bad = \"skip\"",
            );
        }
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut TomlWriter) {
        self.write_keys(w, &[]);
    }
}
