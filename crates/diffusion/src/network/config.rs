//! What a U-Net is made of.

use serde::{Deserialize, Serialize};
use softdiff_engine::{Hint, HintedMessage};
use std::borrow::Cow;

/// The largest side that the presets' levels are taken for as they are: CelebA-64's.
const LARGEST_AS_IS: usize = 64;
/// Levels that a network has at the least.
const FEWEST_LEVELS: usize = 3;
/// The side at which every published NCSN++ attends.
pub(super) const ATTENTION_SIDE: usize = 16;

/// How the time (or noise level) enters the network.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Embedding {
    /// Sines and cosines of frozen random frequencies.
    Fourier {
        /// Standard deviation of the frequencies.
        scale: f64,
    },
    /// Sines and cosines of fixed, geometrically spaced frequencies.
    Positional,
}

/// What the network is conditioned on, as a function of the time t.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TimeInput {
    /// `t` (Fourier) or `999 t` (positional), as score_sde scales the labels of its VP networks (choice A14).
    #[default]
    Time,
    /// `scale t + shift`: on a VE path, ln sigma or the index of a noise level.
    Line {
        /// What it grows by from t = 0 to t = 1.
        scale: f64,
        /// What it is at t = 0.
        shift: f64,
    },
}

impl TimeInput {
    fn is_time(&self) -> bool {
        *self == TimeInput::Time
    }
}

/// What keeps the size of the features in bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalisation {
    /// GroupNorm, as in NCSN++.
    #[default]
    Group,
    /// Nothing, and residuals are added as they are. The output at a pixel then depends on the pixels around it alone, not on
    /// statistics of the whole image, so that tiles of a photograph agree where they overlap.
    None,
}

impl Normalisation {
    fn is_group(&self) -> bool {
        *self == Normalisation::Group
    }
}

/// A U-Net of NCSN++ blocks.
///
/// | field | NCSN++ for CIFAR-10 | meaning |
/// |---|---|---|
/// | `image_size` | 32 | pixels of a side |
/// | `image_channels` | 3 | 1 for grey, 3 for colour |
/// | `channels` | 128 | features of the first level |
/// | `multipliers` | 1, 2, 2, 2 | features of each level, in units of `channels` |
/// | `blocks` | 4 | residual blocks per level |
/// | `attention` | 16 | sides at which attention follows each block |
/// | `middle_attention` | true | attention in the middle of the network |
/// | `embedding` | Fourier, scale 16 | how the time enters |
/// | `dropout` | 0.1 | rate inside the residual blocks, in training |
/// | `pyramid` | true | feed the downsampled image to every level ("progressive input, residual") |
/// | `fir` | 1, 3, 3, 1 | smoothing filter of up- and downsampling; 0, 1, 1, 0 is averaging and repetition |
/// | `unit_range` | true | images are in [0, 1] and the network maps them to [-1, 1] |
/// | `time_input` | time | what the network is conditioned on |
/// | `mask_channel` | false | one more channel goes in: what the corruption leaves of a white image, the mask of a masking |
/// | `norm` | group | GroupNorm before every SiLU, or none |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct UNetConfig {
    pub image_size: usize,
    pub image_channels: usize,
    pub channels: usize,
    pub multipliers: Vec<usize>,
    pub blocks: usize,
    pub attention: Vec<usize>,
    pub middle_attention: bool,
    pub embedding: Embedding,
    pub dropout: f64,
    pub pyramid: bool,
    pub fir: [f64; 4],
    pub unit_range: bool,
    #[serde(default, skip_serializing_if = "TimeInput::is_time")]
    pub time_input: TimeInput,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mask_channel: bool,
    #[serde(default, skip_serializing_if = "Normalisation::is_group")]
    pub norm: Normalisation,
}

/// A network that cannot be built, and why.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("network.{field}: {problem}")]
pub struct ConfigError {
    /// The field at fault.
    pub field: &'static str,
    /// What is wrong, and what would be right.
    pub problem: HintedMessage,
}

impl Hint for ConfigError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        self.problem.hint()
    }
}

impl UNetConfig {
    /// NCSN++ as score_sde's `ve/cifar10_ncsnpp_continuous`.
    pub fn ncsnpp_cifar10() -> Self {
        UNetConfig {
            image_size: 32,
            image_channels: 3,
            channels: 128,
            multipliers: vec![1, 2, 2, 2],
            blocks: 4,
            attention: vec![16],
            middle_attention: true,
            embedding: Embedding::Fourier { scale: 16.0 },
            dropout: 0.1,
            pyramid: true,
            fir: [1.0, 3.0, 3.0, 1.0],
            unit_range: true,
            time_input: TimeInput::Time,
            mask_channel: false,
            norm: Normalisation::Group,
        }
    }

    /// NCSN++ as score_sde's `ve/celeba_ncsnpp`.
    pub fn ncsnpp_celeba64() -> Self {
        UNetConfig { image_size: 64, embedding: Embedding::Positional, ..Self::ncsnpp_cifar10() }
    }

    /// A small network for experiments: one block per level, no attention, no pyramid, no dropout.
    pub fn small(image_size: usize, image_channels: usize, channels: usize, multipliers: &[usize]) -> Self {
        UNetConfig {
            image_size,
            image_channels,
            channels,
            multipliers: multipliers.to_vec(),
            blocks: 1,
            attention: vec![],
            middle_attention: false,
            embedding: Embedding::Positional,
            dropout: 0.0,
            pyramid: false,
            ..Self::ncsnpp_cifar10()
        }
    }

    /// The multipliers of a network like this one for images of another side: up to 64 pixels these, beyond with one more level for
    /// each doubling, the first of them narrow, as score_sde and ADM (Dhariwal and Nichol, 2021) have them at 256. A side that cannot be
    /// halved so often has fewer levels, three at the least.
    pub fn multipliers_for(&self, side: usize) -> Vec<usize> {
        let mut multipliers = self.multipliers.clone();
        for doubling in 0..side.div_ceil(LARGEST_AS_IS).next_power_of_two().trailing_zeros() {
            match (doubling, multipliers.first(), multipliers.last()) {
                (0, Some(&first), _) => multipliers.insert(0, first),
                (_, _, Some(&last)) => multipliers.push(last),
                _ => {}
            }
        }
        let possible = side.trailing_zeros() as usize + 1;
        multipliers.truncate(possible.max(FEWEST_LEVELS));
        multipliers
    }

    /// The sides at which a network like this one attends on images of another side: the same where there are levels of these sides, else
    /// the level that comes next below 16 pixels, or the smallest if it has at most 32.
    pub fn attention_for(&self, side: usize, levels: usize) -> Vec<usize> {
        let sides: Vec<usize> = (0..levels.min(usize::BITS as usize)).map(|level| side >> level).collect();
        if self.attention.iter().all(|side| sides.contains(side)) {
            return self.attention.clone();
        }
        let below = sides.iter().copied().find(|&side| side <= ATTENTION_SIDE);
        below.or(sides.last().copied()).filter(|&side| side <= 2 * ATTENTION_SIDE).into_iter().collect()
    }

    /// Checks that the parts fit together.
    pub fn check(&self) -> Result<(), ConfigError> {
        let fail = |field, problem: HintedMessage| Err(ConfigError { field, problem });
        let levels = self.multipliers.len();
        if levels == 0 || levels > 16 {
            let hint = "give one multiplier per level, 1 to 16 of them";
            return fail("multipliers", HintedMessage::new(format!("{levels} levels"), hint));
        }
        if let Some(bad) = self.multipliers.iter().find(|m| !(1..=64).contains(*m)) {
            return fail("multipliers", format!("{bad} is not between 1 and 64").into());
        }
        let halvings = 1usize << (levels - 1);
        if self.image_size == 0 || !self.image_size.is_multiple_of(halvings) || self.image_size > 8192 {
            let message = format!("{} cannot be halved {} times", self.image_size, levels - 1);
            let hint = format!("use a multiple of {halvings} up to 8192 (data.size)");
            return fail("image_size", HintedMessage::new(message, hint));
        }
        if self.channels == 0 || !self.channels.is_multiple_of(4) || self.channels > 4096 {
            return fail("channels", format!("{} is not a multiple of 4 from 4 to 4096", self.channels).into());
        }
        if let Some(bad) = self.level_widths().find(|c| c % groups(*c) != 0) {
            let groups = groups(bad);
            return fail("channels", format!("a level of {bad} channels does not divide into {groups} groups").into());
        }
        if !(1..=64).contains(&self.image_channels) {
            return fail("image_channels", format!("{} is not between 1 and 64", self.image_channels).into());
        }
        if !(1..=64).contains(&self.blocks) {
            return fail("blocks", format!("{} is not between 1 and 64", self.blocks).into());
        }
        let sides: Vec<usize> = (0..levels).map(|level| self.image_size >> level).collect();
        if let Some(bad) = self.attention.iter().find(|side| !sides.contains(side)) {
            let hint = format!("the levels' sides are {sides:?}");
            return fail("attention", HintedMessage::new(format!("no level has side {bad}"), hint));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return fail("dropout", format!("{} is not in [0, 1)", self.dropout).into());
        }
        let sum: f64 = self.fir.iter().sum();
        if !sum.is_finite() || sum <= 0.0 {
            return fail("fir", HintedMessage::new(format!("the taps sum to {sum}"), "they must sum to more than 0"));
        }
        if let Embedding::Fourier { scale } = self.embedding
            && !(scale.is_finite() && scale > 0.0)
        {
            return fail("embedding", format!("a Fourier scale of {scale} is not a positive number").into());
        }
        Ok(())
    }

    /// Channels that go in.
    pub fn input_channels(&self) -> usize {
        self.image_channels + usize::from(self.mask_channel)
    }

    /// Features of each level.
    pub(super) fn level_widths(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.multipliers.iter().map(|m| m * self.channels)
    }

    /// Whether attention follows the blocks of `level`.
    pub(super) fn attends(&self, level: usize) -> bool {
        self.attention.contains(&(self.image_size >> level))
    }
}

/// NCSN++'s number of groups for `channels` features.
pub(super) fn groups(channels: usize) -> usize {
    (channels / 4).clamp(1, 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_attention_suit_the_side_and_stay_as_published_where_they_fit() {
        let usual = UNetConfig::ncsnpp_cifar10();
        for (side, multipliers, attention) in [
            (32, &[1, 2, 2, 2][..], &[16][..]),
            (64, &[1, 2, 2, 2], &[16]),
            (128, &[1, 1, 2, 2, 2], &[16]),
            (256, &[1, 1, 2, 2, 2, 2], &[16]),
            (512, &[1, 1, 2, 2, 2, 2, 2], &[16]),
            (96, &[1, 1, 2, 2, 2], &[12]),
            (28, &[1, 2, 2], &[14]),
            (100, &[1, 1, 2], &[25]),
            (24, &[1, 2, 2, 2], &[12]),
        ] {
            let found = usual.multipliers_for(side);
            let attended = usual.attention_for(side, found.len());
            assert_eq!((&found[..], &attended[..]), (multipliers, attention), "{side}");
            UNetConfig { image_size: side, multipliers: found, attention: attended, ..usual.clone() }.check().unwrap();
        }
        let small = UNetConfig::small(32, 1, 16, &[1, 2, 2]);
        assert_eq!((small.multipliers_for(28), small.attention_for(28, 3)), (vec![1, 2, 2], vec![]));
        // A side that cannot be halved is refused.
        let odd = UNetConfig { image_size: 75, multipliers: usual.multipliers_for(75), attention: vec![], ..usual };
        assert_eq!(odd.check().unwrap_err().field, "image_size");
    }
}
