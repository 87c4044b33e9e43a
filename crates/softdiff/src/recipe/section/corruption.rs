//! `[path.corruption]`: what happens to the image besides noise.

use super::UNLIMITED;
use super::composed::{self, CorruptionPart};
use crate::corruption::*;
use crate::recipe::reader::{Range, Reader};
use crate::recipe::writer::Writer;
use std::path::Path;

const BOUNDARIES: [(&str, Boundary); 3] =
    [("zero", Boundary::Zero), ("reflect", Boundary::Reflect), ("periodic", Boundary::Periodic)];
const GREYS: [(&str, Grey); 2] = [("mean", Grey::Mean), ("luma", Grey::Luma)];
const DIRECTIONS: [(&str, Direction); 2] = [("horizontal", Direction::Horizontal), ("vertical", Direction::Vertical)];
/// The seed of a random order stands beside it.
const ORDERS: [(&str, ErasureOrder); 5] = [
    ("window", ErasureOrder::Window),
    ("spiral", ErasureOrder::Spiral),
    ("random", ErasureOrder::Random { seed: 0 }),
    ("rows", ErasureOrder::Rows),
    ("columns", ErasureOrder::Columns),
];

/// `[path.corruption]`, by `kind`.
///
/// | key | of kind | default | meaning |
/// |---|---|---|---|
/// | `kind` | | `"blur"` | `"blur"`, `"heat"`, `"masking"`, `"pixelation"`, `"fading"`, `"decolourisation"`, `"motion"`, `"custom"`, `"composed"` |
/// | `largest` | blur, heat, motion | `"auto"` | strongest level in pixels; `"auto"`: the paper's 18 for 32x32 and 23 for 64x64, in proportion for other sizes; half the side for motion |
/// | `boundary` | blur, motion | `"zero"` | what lies beyond the border: `"zero"`, `"reflect"`, `"periodic"` |
/// | `floor` | heat | `0` | least gain of a frequency, from 0 to below 1 |
/// | `order` | masking | `"window"` | pixel by pixel: `"spiral"` (a window that shrinks), `"random"`; together: `"window"` (square rings), `"rows"`, `"columns"` |
/// | `order_seed` | masking | `0` | seed of the random order |
/// | `softness` | masking | `0` | part of the range over which a pixel fades, from 0 to below 1 |
/// | `grey` | decolourisation | `"mean"` | `"mean"` or `"luma"` |
/// | `direction` | motion | `"horizontal"` | `"horizontal"` or `"vertical"` |
/// | `map` | custom | required | a .json or .safetensors file |
/// | `[[path.corruption.parts]]` | composed | required | corruptions one after the other, see [`CorruptionPart`] |
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum CorruptionSection {
    Blur { largest: Option<f64>, boundary: Boundary },
    Heat { largest: Option<f64>, floor: f64 },
    Masking { order: ErasureOrder, softness: f64 },
    Pixelation,
    Fading,
    Decolourisation { grey: Grey },
    Motion { largest: Option<f64>, direction: Direction, boundary: Boundary },
    Custom { map: String },
    Composed { parts: Vec<CorruptionPart> },
}

impl Default for CorruptionSection {
    /// The paper's blur.
    fn default() -> Self {
        CorruptionSection::Blur { largest: None, boundary: Boundary::Zero }
    }
}

impl CorruptionSection {
    /// The names of all kinds.
    pub const KINDS: [&str; 9] =
        ["blur", "heat", "masking", "pixelation", "fading", "decolourisation", "motion", "custom", "composed"];

    /// Its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            CorruptionSection::Blur { .. } => "blur",
            CorruptionSection::Heat { .. } => "heat",
            CorruptionSection::Masking { .. } => "masking",
            CorruptionSection::Pixelation => "pixelation",
            CorruptionSection::Fading => "fading",
            CorruptionSection::Decolourisation { .. } => "decolourisation",
            CorruptionSection::Motion { .. } => "motion",
            CorruptionSection::Custom { .. } => "custom",
            CorruptionSection::Composed { .. } => "composed",
        }
    }

    /// Whether nothing of the image is left at its end.
    pub fn erases(&self) -> bool {
        match self {
            CorruptionSection::Masking { .. } | CorruptionSection::Fading => true,
            CorruptionSection::Composed { parts } => parts.iter().any(|part| part.corruption.erases()),
            _ => false,
        }
    }

    /// The paper's strongest blur (appendix, "Blur parameters"): 18 pixels for 32x32 and 23 for 64x64, in proportion for
    /// other sizes.
    pub fn paper_blur(shape: Shape) -> f64 {
        let side = shape.height.max(shape.width);
        if side <= 32 { 18.0 * side as f64 / 32.0 } else { 23.0 * side as f64 / 64.0 }
    }

    /// The corruption for images of `shape`.
    pub fn build(&self, shape: Shape) -> Result<Box<dyn Corruption>, CorruptionError> {
        let blur = |largest: &Option<f64>| largest.unwrap_or(Self::paper_blur(shape));
        Ok(match self {
            CorruptionSection::Blur { largest, boundary } => Box::new(Blur::new(shape, *boundary, blur(largest))?),
            CorruptionSection::Heat { largest, floor } => {
                Box::new(HeatDissipation::new(shape, blur(largest))?.with_floor(*floor)?)
            }
            CorruptionSection::Masking { order, softness: 0.0 } => Box::new(Masking::new(shape, *order)),
            CorruptionSection::Masking { order, softness } => Box::new(Masking::soft(shape, *order, *softness)?),
            CorruptionSection::Pixelation => Box::new(Pixelation::new(shape)),
            CorruptionSection::Fading => Box::new(Fading::new(shape)),
            CorruptionSection::Decolourisation { grey } => Box::new(Decolourisation::new(shape, *grey)?),
            CorruptionSection::Motion { largest, direction, boundary } => {
                let longest = largest.unwrap_or(shape.height.max(shape.width) as f64 / 2.0);
                Box::new(MotionBlur::new(shape, *direction, *boundary, longest)?)
            }
            CorruptionSection::Custom { map } => Box::new(Custom::from_file(shape, Path::new(map))?),
            CorruptionSection::Composed { parts } => composed::build(parts, shape)?,
        })
    }

    pub(in crate::recipe) fn read(r: &Reader) -> Self {
        let kinds = Self::KINDS.map(|kind| (kind, kind));
        let kind = r.choice("kind", &kinds).unwrap_or("blur");
        let largest = || r.number_or_word("largest", Range::Positive, "auto").flatten();
        let boundary = || r.choice("boundary", &BOUNDARIES).unwrap_or_default();
        let section = match kind {
            "heat" => {
                CorruptionSection::Heat { largest: largest(), floor: r.number("floor", Range::BelowOne).unwrap_or(0.0) }
            }
            "masking" => {
                let order = match r.choice("order", &ORDERS).unwrap_or(ErasureOrder::Window) {
                    ErasureOrder::Random { .. } => {
                        ErasureOrder::Random { seed: r.whole("order_seed", 0..=UNLIMITED).unwrap_or(0) }
                    }
                    order => order,
                };
                CorruptionSection::Masking { order, softness: r.number("softness", Range::BelowOne).unwrap_or(0.0) }
            }
            "pixelation" => CorruptionSection::Pixelation,
            "fading" => CorruptionSection::Fading,
            "decolourisation" => {
                CorruptionSection::Decolourisation { grey: r.choice("grey", &GREYS).unwrap_or_default() }
            }
            "motion" => CorruptionSection::Motion {
                largest: largest(),
                direction: r.choice("direction", &DIRECTIONS).unwrap_or(Direction::Horizontal),
                boundary: boundary(),
            },
            "custom" => {
                CorruptionSection::Custom { map: r.required("map", "name a .json or .safetensors file with the map") }
            }
            "composed" => CorruptionSection::Composed { parts: composed::read(r) },
            _ => CorruptionSection::Blur { largest: largest(), boundary: boundary() },
        };
        r.refuse(
            &format!("kind \"{kind}\""),
            &[
                ("largest", "kind blur, heat or motion"),
                ("boundary", "kind blur or motion"),
                ("floor", "kind heat"),
                ("order", "kind masking"),
                ("order_seed", "kind masking with order random"),
                ("softness", "kind masking"),
                ("grey", "kind decolourisation"),
                ("direction", "kind motion"),
                ("map", "kind custom"),
                ("parts", "kind composed"),
            ],
        );
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut Writer) {
        w.section("path.corruption");
        self.write_keys(w);
    }

    /// The keys, under whatever section was begun.
    pub(super) fn write_keys(&self, w: &mut Writer) {
        w.value("kind", self.kind());
        let largest = |w: &mut Writer, largest: &Option<f64>| match largest {
            Some(largest) => w.value("largest", largest),
            None => w.value("largest", "auto"),
        };
        match self {
            CorruptionSection::Blur { largest: level, boundary } => {
                largest(w, level);
                w.word("boundary", &BOUNDARIES, boundary);
            }
            CorruptionSection::Heat { largest: level, floor } => {
                largest(w, level);
                w.value("floor", floor);
            }
            CorruptionSection::Masking { order, softness } => {
                match order {
                    ErasureOrder::Random { seed } => {
                        w.value("order", "random");
                        w.value("order_seed", seed);
                    }
                    order => w.word("order", &ORDERS, order),
                }
                w.value("softness", softness);
            }
            CorruptionSection::Pixelation | CorruptionSection::Fading => {}
            CorruptionSection::Decolourisation { grey } => w.word("grey", &GREYS, grey),
            CorruptionSection::Motion { largest: level, direction, boundary } => {
                largest(w, level);
                w.word("direction", &DIRECTIONS, direction);
                w.word("boundary", &BOUNDARIES, boundary);
            }
            CorruptionSection::Custom { map } => w.value("map", map),
            CorruptionSection::Composed { parts } => composed::write(parts, w),
        }
    }
}
