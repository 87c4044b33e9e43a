//! The registry: corruptions by the names and parameters that recipes, the command line and the studio use.
//!
//! A new corruption is one file, with its [`CorruptionEntry`], and one line in [`CORRUPTIONS`].

use super::{Boundary, Corruption, CorruptionError, Shape};
use softdiff_engine::suggest::hint;

/// All corruptions, the paper's first.
pub const CORRUPTIONS: &[CorruptionEntry] = &[
    super::blur::ENTRY,
    super::heat::ENTRY,
    super::masking::ENTRY,
    super::pixelation::ENTRY,
    super::fading::FADING,
    super::decolour::ENTRY,
    super::motion::ENTRY,
    super::fading::IDENTITY,
    super::custom::ENTRY,
];

/// Makes a corruption for images of a shape.
pub type BuildCorruption = fn(&CorruptionSpec, Shape) -> Result<Box<dyn Corruption>, CorruptionError>;

/// A corruption as it is known by name.
pub struct CorruptionEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Its parameters.
    pub parameters: &'static [CorruptionParameter],
    /// Whether nothing of the image is left at its strongest.
    pub erases: bool,
    /// Whether it changes the image at all, so that a path can be made of it.
    pub corrupts: bool,
    /// Makes it.
    pub build: BuildCorruption,
}

/// A parameter of a corruption.
pub struct CorruptionParameter {
    /// Its name.
    pub key: &'static str,
    /// What it may be.
    pub kind: ParameterKind,
    /// What it means.
    pub about: &'static str,
}

/// What a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterKind {
    /// A number of pixels above 0, or `"auto"`, which is the default.
    Pixels,
    /// A number from 0 to below 1, by default 0.
    Fraction,
    /// One of some words, the first of them by default.
    Word(&'static [&'static str]),
    /// A seed, by default 0; read only where another parameter is this word.
    Seed {
        /// The other parameter.
        of: &'static str,
        /// Its word.
        word: &'static str,
    },
    /// The name of a file, without a default.
    File,
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterValue {
    /// Of [`ParameterKind::Pixels`]; none for "auto".
    Pixels(Option<f64>),
    /// Of [`ParameterKind::Fraction`].
    Fraction(f64),
    /// Of [`ParameterKind::Word`].
    Word(&'static str),
    /// Of [`ParameterKind::Seed`].
    Seed(u64),
    /// Of [`ParameterKind::File`].
    File(String),
}

impl ParameterKind {
    /// The value of a parameter that is not given.
    fn default_value(self) -> ParameterValue {
        match self {
            ParameterKind::Pixels => ParameterValue::Pixels(None),
            ParameterKind::Fraction => ParameterValue::Fraction(0.0),
            ParameterKind::Word(words) => ParameterValue::Word(words[0]),
            ParameterKind::Seed { .. } => ParameterValue::Seed(0),
            ParameterKind::File => ParameterValue::File(String::new()),
        }
    }
}

/// The parameter of blurs and motions that says what lies beyond the border.
pub(super) const BOUNDARY: CorruptionParameter = CorruptionParameter {
    key: "boundary",
    kind: ParameterKind::Word(&["zero", "reflect", "periodic"]),
    about: "what lies beyond the border",
};

/// A corruption by name with its parameters, not yet made for images of a certain size.
#[derive(Clone)]
pub struct CorruptionSpec {
    entry: &'static CorruptionEntry,
    values: Vec<ParameterValue>,
}

impl PartialEq for CorruptionSpec {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.values == other.values
    }
}

impl std::fmt::Debug for CorruptionSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.name(), self.values)
    }
}

impl Default for CorruptionSpec {
    /// The paper's blur.
    fn default() -> Self {
        CorruptionSpec::of(&CORRUPTIONS[0])
    }
}

impl CorruptionSpec {
    /// A registered corruption with its default parameters.
    pub fn of(entry: &'static CorruptionEntry) -> Self {
        let values = entry.parameters.iter().map(|parameter| parameter.kind.default_value()).collect();
        CorruptionSpec { entry, values }
    }

    /// The corruption of that name with its default parameters.
    pub fn named(name: &str) -> Result<Self, CorruptionError> {
        let names = CORRUPTIONS.iter().map(|entry| entry.name);
        let unknown = || CorruptionError::Unknown { name: name.to_owned(), hint: hint(name, names) };
        CORRUPTIONS.iter().find(|entry| entry.name == name).map(Self::of).ok_or_else(unknown)
    }

    /// What the registry says of it.
    pub fn entry(&self) -> &'static CorruptionEntry {
        self.entry
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// The parameters with their values.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static CorruptionParameter, &ParameterValue)> {
        self.entry.parameters.iter().zip(&self.values)
    }

    /// The value of a parameter; none where the corruption has no such parameter.
    pub fn value(&self, key: &str) -> Option<&ParameterValue> {
        self.parameters().find(|(parameter, _)| parameter.key == key).map(|(_, value)| value)
    }

    /// The same with another value of a parameter, where it has one of this name.
    pub fn with(mut self, key: &str, value: ParameterValue) -> Self {
        if let Some(index) = self.entry.parameters.iter().position(|parameter| parameter.key == key) {
            self.values[index] = value;
        }
        self
    }

    /// The same with another strongest level, in pixels.
    pub fn with_largest(self, largest: f64) -> Self {
        self.with("largest", ParameterValue::Pixels(Some(largest)))
    }

    /// The same with another boundary, where it has one.
    pub fn with_boundary(self, boundary: Boundary) -> Self {
        self.with("boundary", ParameterValue::Word(boundary.name()))
    }

    /// What lies beyond the border, where that matters.
    pub fn boundary(&self) -> Option<Boundary> {
        match self.value("boundary") {
            Some(ParameterValue::Word(word)) => Boundary::ALL.into_iter().find(|boundary| boundary.name() == *word),
            _ => None,
        }
    }

    /// The corruption for images of `shape`.
    pub fn build(&self, shape: Shape) -> Result<Box<dyn Corruption>, CorruptionError> {
        (self.entry.build)(self, shape)
    }

    /// A number of pixels; none for "auto".
    pub(super) fn pixels(&self, key: &str) -> Option<f64> {
        match self.value(key) {
            Some(ParameterValue::Pixels(pixels)) => *pixels,
            _ => None,
        }
    }

    pub(super) fn fraction(&self, key: &str) -> f64 {
        match self.value(key) {
            Some(ParameterValue::Fraction(fraction)) => *fraction,
            _ => 0.0,
        }
    }

    pub(super) fn word(&self, key: &str) -> &'static str {
        match self.value(key) {
            Some(ParameterValue::Word(word)) => word,
            _ => "",
        }
    }

    pub(super) fn seed(&self, key: &str) -> u64 {
        match self.value(key) {
            Some(ParameterValue::Seed(seed)) => *seed,
            _ => 0,
        }
    }

    pub(super) fn file(&self, key: &str) -> &str {
        match self.value(key) {
            Some(ParameterValue::File(file)) => file,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::Hint;

    #[test]
    fn every_entry_makes_the_corruption_of_its_name() {
        let shape = Shape::new(8, 8, 3);
        for entry in CORRUPTIONS.iter().filter(|entry| entry.name != "custom") {
            let corruption = CorruptionSpec::named(entry.name).unwrap().build(shape).unwrap();
            assert_eq!(corruption.name(), entry.name);
            assert!(corruption.at(corruption.levels().full).is_ok(), "{}", entry.name);
        }
        let error = CorruptionSpec::named("blurr").unwrap_err();
        assert!(error.hint().unwrap().contains("did you mean blur?"), "{error}");
    }

    #[test]
    fn parameters_change_what_is_made() {
        let shape = Shape::new(8, 8, 3);
        let spec = CorruptionSpec::named("blur").unwrap().with_largest(3.0).with_boundary(Boundary::Reflect);
        assert_eq!(spec.boundary(), Some(Boundary::Reflect));
        let made = spec.build(shape).unwrap().describe();
        assert!(made.contains("boundary=reflect") && made.contains("largest=3"), "{made}");
        let unchanged = CorruptionSpec::named("fading").unwrap();
        assert_eq!(unchanged.clone().with_largest(3.0), unchanged);
    }
}
