//! `[prior]`: where samples start.

use super::{PathSection, UNLIMITED};
use crate::recipe::reader::Reader;
use crate::recipe::writer::Writer;

/// `[prior]`, by `kind`.
///
/// | key | of kind | default | meaning |
/// |---|---|---|---|
/// | `kind` | | by the path | `"fitted"`, `"noise"` or `"data"`; noise for masking, fading and paths without corruption, else fitted |
/// | `modes` | fitted | `16` | leading modes of the last corruption |
/// | `components` | fitted | `1` | Gaussians |
/// | `images` | fitted, data | `false` | the first so many training images; false takes all |
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum PriorSection {
    Fitted { modes: usize, components: usize, images: Option<usize> },
    Noise,
    Data { images: Option<usize> },
}

impl PriorSection {
    /// Its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            PriorSection::Fitted { .. } => "fitted",
            PriorSection::Noise => "noise",
            PriorSection::Data { .. } => "data",
        }
    }

    pub(in crate::recipe) fn read(r: &Reader, path: &PathSection) -> Self {
        let usual = match path.corruption() {
            Some(corruption) if !corruption.erases() => "fitted",
            _ => "noise",
        };
        let kinds = ["fitted", "noise", "data"].map(|kind| (kind, kind));
        let kind = r.choice("kind", &kinds).unwrap_or(usual);
        let images = || {
            let images = r.whole_or_off("images", 1..=UNLIMITED).flatten();
            images.and_then(|images| usize::try_from(images).ok())
        };
        let section = match kind {
            "noise" => PriorSection::Noise,
            "data" => PriorSection::Data { images: images() },
            _ => PriorSection::Fitted {
                modes: r.size("modes", 1..=4096).unwrap_or(16),
                components: r.size("components", 1..=1024).unwrap_or(1),
                images: images(),
            },
        };
        r.refuse(
            &format!("kind \"{kind}\""),
            &[("modes", "kind fitted"), ("components", "kind fitted"), ("images", "kind fitted or data")],
        );
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut Writer) {
        w.section("prior");
        w.value("kind", self.kind());
        match self {
            PriorSection::Fitted { modes, components, images } => {
                w.value("modes", modes);
                w.value("components", components);
                w.value("images", images);
            }
            PriorSection::Noise => {}
            PriorSection::Data { images } => w.value("images", images),
        }
    }
}
