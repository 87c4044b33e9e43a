//! Masking: pixels are erased one set after the other until nothing is left.

use super::registry::{CorruptionEntry, CorruptionParameter, ParameterKind};
use super::{Corruption, CorruptionError, Levels, LinearMap, Shape};
use softdiff_engine::rng::RandomStream;

pub(super) const ENTRY: CorruptionEntry = CorruptionEntry {
    name: Masking::NAME,
    about: "pixels erased one after the other",
    parameters: &[
        CorruptionParameter {
            key: "order",
            kind: ParameterKind::Word(&["window", "spiral", "random", "rows", "columns"]),
            about: "pixel by pixel: \"spiral\" (a window that shrinks), \"random\"; together: \"window\" (square rings), \
                    \"rows\", \"columns\"",
        },
        CorruptionParameter {
            key: "order_seed",
            kind: ParameterKind::Seed { of: "order", word: "random" },
            about: "seed of the random order",
        },
        CorruptionParameter {
            key: "softness",
            kind: ParameterKind::Fraction,
            about: "part of the range over which a pixel fades, from 0 to below 1",
        },
    ],
    erases: true,
    corrupts: true,
    build: |spec, shape| {
        let order = match spec.word("order") {
            "spiral" => ErasureOrder::Spiral,
            "random" => ErasureOrder::Random { seed: spec.seed("order_seed") },
            "rows" => ErasureOrder::Rows,
            "columns" => ErasureOrder::Columns,
            _ => ErasureOrder::Window,
        };
        Ok(match spec.fraction("softness") {
            0.0 => Box::new(Masking::new(shape, order)),
            softness => Box::new(Masking::soft(shape, order, softness)?),
        })
    },
};

/// In which order pixels are erased. In reverse, how the observed region grows (Soft Diffusion, section 4, "Masking
/// Diffusion Models").
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErasureOrder {
    /// Whole square rings from the border inwards: a centred window that grows as t falls.
    Window,
    /// The same rings, pixel by pixel: one pixel a step, 4096 steps for 64x64.
    Spiral,
    /// A fixed random order of the pixels.
    Random {
        /// Seed of the order.
        seed: u64,
    },
    /// Rows from the bottom to the top.
    Rows,
    /// Columns from the right to the left.
    Columns,
}

/// A mask that grows with the level, from nothing at 0 to everything at 1; erased pixels are zero.
///
/// `softness` is the part of the level range over which one pixel fades. At 0 masks are hard, as in the paper; they
/// then jump, and the derivative is zero wherever it exists.
#[derive(Debug, Clone)]
pub struct Masking {
    shape: Shape,
    order: ErasureOrder,
    softness: f64,
    /// Per pixel the level, of a hard mask, below which it is still there, in (0, 1].
    erased_at: Vec<f64>,
}

impl Masking {
    const NAME: &'static str = "masking";

    /// A hard mask.
    pub fn new(shape: Shape, order: ErasureOrder) -> Self {
        Masking { shape, order, softness: 0.0, erased_at: erasure_levels(shape, order) }
    }

    /// A mask whose pixels fade over `softness` of the range, in (0, 1).
    pub fn soft(shape: Shape, order: ErasureOrder, softness: f64) -> Result<Self, CorruptionError> {
        if !(softness > 0.0 && softness < 1.0) {
            return Err(CorruptionError::Parameter {
                name: Self::NAME,
                parameter: "softness",
                value: softness,
                remedy: "give a value between 0 and 1, or make a hard mask",
            });
        }
        Ok(Masking { softness, ..Self::new(shape, order) })
    }

    /// Weight of a pixel and its derivative by the level.
    fn weight(&self, erased_at: f64, level: f64) -> (f64, f64) {
        if self.softness == 0.0 {
            return (if level < erased_at { 1.0 } else { 0.0 }, 0.0);
        }
        let end = self.softness + (1.0 - self.softness) * erased_at;
        let weight = (end - level) / self.softness;
        if weight > 1.0 || weight <= 0.0 { (weight.clamp(0.0, 1.0), 0.0) } else { (weight, -1.0 / self.softness) }
    }
}

/// Ranks in order of erasure; pixels of equal rank go together.
fn erasure_levels(shape: Shape, order: ErasureOrder) -> Vec<f64> {
    let (height, width) = (shape.height, shape.width);
    let ring = |row: usize, col: usize| row.min(col).min(height - 1 - row).min(width - 1 - col);
    let pixels = (0..height).flat_map(|row| (0..width).map(move |col| (row, col)));
    let ranks: Vec<usize> = match order {
        ErasureOrder::Window => pixels.map(|(row, col)| ring(row, col)).collect(),
        ErasureOrder::Rows => pixels.map(|(row, _)| height - 1 - row).collect(),
        ErasureOrder::Columns => pixels.map(|(_, col)| width - 1 - col).collect(),
        ErasureOrder::Random { seed } => RandomStream::new(seed, "order of masked pixels").permutation(shape.pixels()),
        ErasureOrder::Spiral => {
            let (middle_row, middle_col) = ((height as f64 - 1.0) / 2.0, (width as f64 - 1.0) / 2.0);
            let angle = |(row, col): (usize, usize)| (row as f64 - middle_row).atan2(col as f64 - middle_col);
            let mut walk: Vec<(usize, usize)> = pixels.collect();
            walk.sort_by(|&a, &b| ring(a.0, a.1).cmp(&ring(b.0, b.1)).then(angle(a).total_cmp(&angle(b))));
            let mut ranks = vec![0; walk.len()];
            for (rank, (row, col)) in walk.into_iter().enumerate() {
                ranks[row * width + col] = rank;
            }
            ranks
        }
    };
    let steps = ranks.iter().max().map_or(1, |last| last + 1) as f64;
    ranks.into_iter().map(|rank| (rank + 1) as f64 / steps).collect()
}

impl Corruption for Masking {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn describe(&self) -> String {
        format!("masking(order={:?}, softness={})", self.order, self.softness)
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn levels(&self) -> Levels {
        Levels::UNIT
    }

    fn erased_at(&self) -> Option<&[f64]> {
        (self.softness == 0.0).then_some(&self.erased_at)
    }

    fn at(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let level = self.levels().check(self.name(), level)?;
        Ok(LinearMap::PixelDiagonal(self.erased_at.iter().map(|&e| self.weight(e, level).0).collect()))
    }

    fn derivative(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let level = self.levels().check(self.name(), level)?;
        Ok(LinearMap::PixelDiagonal(self.erased_at.iter().map(|&e| self.weight(e, level).1).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(masking: &Masking, level: f64) -> usize {
        let LinearMap::PixelDiagonal(weights) = masking.at(level).unwrap() else { unreachable!() };
        weights.iter().filter(|&&w| w == 1.0).count()
    }

    #[test]
    fn the_window_shrinks_ring_by_ring_to_nothing() {
        let window = Masking::new(Shape::new(8, 8, 3), ErasureOrder::Window);
        let counts: Vec<usize> = [0.0, 0.25, 0.5, 0.75, 1.0].map(|level| kept(&window, level)).to_vec();
        assert_eq!(counts, [64, 36, 16, 4, 0]);
    }

    #[test]
    fn pixel_orders_erase_one_pixel_a_step_and_are_nested() {
        for order in [ErasureOrder::Spiral, ErasureOrder::Random { seed: 3 }] {
            let masking = Masking::new(Shape::new(6, 5, 1), order);
            for step in 0..=30 {
                assert_eq!(kept(&masking, step as f64 / 30.0), 30 - step);
            }
        }
    }

    #[test]
    fn softness_outside_its_range_is_refused() {
        assert!(Masking::soft(Shape::new(4, 4, 1), ErasureOrder::Rows, 0.0).is_err());
        assert!(Masking::soft(Shape::new(4, 4, 1), ErasureOrder::Rows, f64::NAN).is_err());
    }
}
