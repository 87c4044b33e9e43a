//! How 8-bit images come to the network's input. The two ways in use give different features and must not be mixed.

use crate::image::PixelValue;
use softdiff_engine::op::Align;
use std::fmt;
use std::str::FromStr;

/// A way to prepare images, named after the software that made it common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// pytorch-fid: bilinear with half-pixel centres, values from -1 to 1.
    #[default]
    PytorchFid,
    /// torch-fidelity and the original TensorFlow code: bilinear from the corner, values `(x - 128) / 128`.
    Tensorflow,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Preset; 2] = [Preset::PytorchFid, Preset::Tensorflow];

    /// Its name in commands and results.
    pub fn name(self) -> &'static str {
        match self {
            Preset::PytorchFid => "pytorch-fid",
            Preset::Tensorflow => "tensorflow",
        }
    }

    /// The value of a sample as the network wants it. Being affine, this may come before the resize.
    pub(super) fn value(self, sample: u8) -> f32 {
        match self {
            Preset::PytorchFid => sample.unit() as f32 * 2.0 - 1.0,
            Preset::Tensorflow => (f32::from(sample) - 128.0) / 128.0,
        }
    }

    pub(super) fn align(self) -> Align {
        match self {
            Preset::PytorchFid => Align::HalfPixel,
            Preset::Tensorflow => Align::Corner,
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Preset, String> {
        match text {
            "pytorch-fid" => Ok(Preset::PytorchFid),
            "tensorflow" | "torch-fidelity" => Ok(Preset::Tensorflow),
            _ => Err("expected pytorch-fid or tensorflow (also called torch-fidelity)".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_ranges_of_the_two_programs() {
        let ends = |preset: Preset| (preset.value(0), preset.value(255));
        assert_eq!(ends(Preset::PytorchFid), (-1.0, 1.0));
        assert_eq!(ends(Preset::Tensorflow), (-1.0, 0.992_187_5));
    }

    #[test]
    fn presets_are_written_as_they_are_read() {
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse(), Ok(preset));
        }
        assert!("clean".parse::<Preset>().is_err());
    }
}
