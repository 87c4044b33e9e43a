//! Several corruptions one after the other, each at its own pace.

use super::{Corruption, CorruptionError, Levels, LinearMap, Shape};
use crate::curve::{Curve, CurveError, Interpolation};
use softdiff_engine::hash::ContentHash;

/// `C(s) = C_n(c_n(s)) ... C_2(c_2(s)) C_1(c_1(s))` for progress s in [0, 1] and level curves c_i.
pub struct Composed {
    name: String,
    parts: Vec<(Box<dyn Corruption>, Curve)>,
}

impl Composed {
    /// The parts in the order they are applied, each with its level as a curve over [0, 1] that starts clean.
    pub fn new(parts: Vec<(Box<dyn Corruption>, Curve)>) -> Result<Self, CorruptionError> {
        let shape = parts.first().ok_or(CorruptionError::NothingToCompose)?.0.shape();
        for (part, curve) in &parts {
            let name = || part.name().to_owned();
            if part.shape() != shape {
                return Err(CorruptionError::ComposedShape { name: name(), found: part.shape(), shape });
            }
            let (Levels { clean, full }, (from, to)) = (part.levels(), (curve.value(0.0), curve.value(1.0)));
            if from != clean || to > full {
                return Err(CorruptionError::ComposedCurve { name: name(), from, to, clean, full });
            }
        }
        let names: Vec<&str> = parts.iter().map(|(part, _)| part.name()).collect();
        Ok(Composed { name: names.join("+"), parts })
    }

    /// The level of a part that runs through knots at equal distances in `[from, until]` of the progress. The scheduler's
    /// first level is next to clean; here it is clean, because a composition starts at the image itself.
    pub fn curve(
        part: &dyn Corruption,
        mut knots: Vec<f64>,
        interpolation: Interpolation,
        [from, until]: [f64; 2],
    ) -> Result<Curve, CurveError> {
        if let Some(first) = knots.first_mut() {
            *first = part.levels().clean;
        }
        let last = knots.len().saturating_sub(1).max(1) as f64;
        let place = |k: usize| from + (until - from) * k as f64 / last;
        Curve::new((0..knots.len()).map(place).collect(), knots, interpolation)
    }
}

impl Corruption for Composed {
    fn name(&self) -> &str {
        &self.name
    }

    fn describe(&self) -> String {
        let levels = |curve: &Curve| ContentHash::of(format!("{curve:?}").as_bytes());
        let parts = self.parts.iter().map(|(part, curve)| format!("{} at {}", part.describe(), levels(curve)));
        let parts: Vec<String> = parts.collect();
        format!("composed[{}]", parts.join(", "))
    }

    fn shape(&self) -> Shape {
        self.parts[0].0.shape()
    }

    fn levels(&self) -> Levels {
        Levels::UNIT
    }

    fn at(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let progress = self.levels().check(&self.name, level)?;
        let maps = self.parts.iter().map(|(part, curve)| part.at(curve.value(progress)));
        Ok(LinearMap::Compose(maps.collect::<Result<_, _>>()?))
    }

    /// The product rule, and the chain rule for the level curves.
    fn derivative(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let progress = self.levels().check(&self.name, level)?;
        let mut terms = Vec::with_capacity(self.parts.len());
        for moving in 0..self.parts.len() {
            let mut factors = Vec::with_capacity(self.parts.len() + 1);
            for (index, (part, curve)) in self.parts.iter().enumerate() {
                let level = curve.value(progress);
                factors.push(if index == moving { part.derivative(level)? } else { part.at(level)? });
            }
            factors.push(LinearMap::Scale(self.parts[moving].1.derivative(progress)));
            terms.push(LinearMap::Compose(factors));
        }
        Ok(LinearMap::Sum(terms))
    }

    fn parts(&self) -> &[(Box<dyn Corruption>, Curve)] {
        &self.parts
    }

    fn norm_bound(&self) -> f64 {
        self.parts.iter().map(|(part, _)| part.norm_bound()).product()
    }
}
