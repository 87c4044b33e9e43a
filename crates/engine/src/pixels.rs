//! Samples of 8 bits as values in [0, 1] and back: the one place that converts between them.

/// A sample of an image as it is stored: a byte, or already a value in [0, 1].
///
/// What computes with images takes slices of either, and converts only what it works on.
pub trait PixelValue: Copy + Send + Sync {
    /// Its value.
    fn unit(self) -> f64;
}

impl PixelValue for u8 {
    fn unit(self) -> f64 {
        f64::from(self) / 255.0
    }
}

impl PixelValue for f64 {
    fn unit(self) -> f64 {
        self
    }
}

/// The values of some samples.
pub fn to_unit<V: PixelValue>(samples: &[V]) -> Vec<f64> {
    samples.iter().map(|sample| sample.unit()).collect()
}

/// Values as bytes, rounded; what lies outside of [0, 1] is cut off.
pub fn from_unit(values: &[f64]) -> Vec<u8> {
    Quantise::Round.bytes(values)
}

/// How values become bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantise {
    /// To the nearest.
    #[default]
    Round,
    /// To the next below, as score_sde does before it measures FID (choice A22).
    Truncate,
}

impl Quantise {
    /// A value in [0, 1] as a byte; what lies outside is cut off.
    pub fn byte(self, value: f64) -> u8 {
        match self {
            Quantise::Round => (value.clamp(0.0, 1.0) * 255.0).round() as u8,
            // A cast drops the fraction.
            Quantise::Truncate => (value * 255.0).clamp(0.0, 255.0) as u8,
        }
    }

    /// Values in [0, 1] as bytes; what lies outside is cut off.
    pub fn bytes(self, values: &[f64]) -> Vec<u8> {
        values.iter().map(|&value| self.byte(value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// numpy: `np.clip(x * 255., 0, 255).astype(np.uint8)` of score_sde, and `np.round` before the cast.
    #[test]
    fn values_are_rounded_or_truncated() {
        let values = [-0.3, 0.0, 0.001, 0.0021, 0.5, 0.998, 0.9999, 1.0, 1.7];
        assert_eq!(Quantise::Truncate.bytes(&values), [0, 0, 0, 0, 127, 254, 254, 255, 255]);
        assert_eq!(Quantise::Round.bytes(&values), [0, 0, 0, 1, 128, 254, 255, 255, 255]);
    }

    #[test]
    fn every_byte_comes_back_and_has_the_f32_value_that_dividing_in_f32_gives() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_unit(&to_unit(&bytes)), bytes);
        assert!(bytes.iter().all(|&byte| byte.unit() as f32 == f32::from(byte) / 255.0));
    }
}
