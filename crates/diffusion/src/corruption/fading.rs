//! The two simplest corruptions: none at all, and fading to black.

use super::registry::CorruptionEntry;
use super::{Corruption, CorruptionError, Levels, LinearMap, Shape};

pub(super) const IDENTITY: CorruptionEntry = CorruptionEntry {
    name: "identity",
    about: "nothing but noise",
    parameters: &[],
    erases: false,
    corrupts: false,
    build: |_, shape| Ok(Box::new(Unchanged::new(shape))),
};

pub(super) const FADING: CorruptionEntry = CorruptionEntry {
    name: "fading",
    about: "fading to black",
    parameters: &[],
    erases: true,
    corrupts: true,
    build: |_, shape| Ok(Box::new(Fading::new(shape))),
};

/// C = I at every level: with growing noise, the variance-exploding diffusion (Soft Diffusion, section 2).
#[derive(Debug, Clone)]
pub struct Unchanged {
    shape: Shape,
}

impl Unchanged {
    /// Leaves images of `shape` as they are.
    pub fn new(shape: Shape) -> Self {
        Unchanged { shape }
    }
}

impl Corruption for Unchanged {
    fn name(&self) -> &str {
        "identity"
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn levels(&self) -> Levels {
        Levels::UNIT
    }

    fn at(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        self.levels().check(self.name(), level).map(|_| LinearMap::Identity)
    }

    fn derivative(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        self.levels().check(self.name(), level).map(|_| LinearMap::zero())
    }
}

/// C = (1 - level) I: with noise added, the variance-preserving diffusions (level = 1 - alpha_t).
#[derive(Debug, Clone)]
pub struct Fading {
    shape: Shape,
}

impl Fading {
    /// Fades images of `shape` to zero.
    pub fn new(shape: Shape) -> Self {
        Fading { shape }
    }
}

impl Corruption for Fading {
    fn name(&self) -> &str {
        "fading"
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn levels(&self) -> Levels {
        Levels::UNIT
    }

    fn at(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        self.levels().check(self.name(), level).map(|level| LinearMap::Scale(1.0 - level))
    }

    fn derivative(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        self.levels().check(self.name(), level).map(|_| LinearMap::Scale(-1.0))
    }
}
