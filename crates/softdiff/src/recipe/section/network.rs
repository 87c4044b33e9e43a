//! `[network]`: the U-Net.

use super::PathSection;
use crate::corruption::Shape;
use crate::network::{Embedding, Normalisation, TimeInput, UNetConfig};
use crate::recipe::keys::{Flag, Number, RecipeKey, Size, SizesOrAuto, Word, section};
use crate::recipe::reader::{Range, Reader};
use crate::recipe::writer::TomlWriter;

/// What the network is conditioned on besides the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeCondition {
    /// The time itself.
    #[default]
    Time,
    /// `ln sigma_t`, as score_sde's VE networks with Fourier embedding.
    LogSigma,
    /// The index of sigma_t among 1000 levels, the largest first, as score_sde's VE networks with positional embedding.
    NoiseIndex,
}

const CONDITIONS: [(&str, TimeCondition); 3] =
    [("time", TimeCondition::Time), ("log-sigma", TimeCondition::LogSigma), ("noise-index", TimeCondition::NoiseIndex)];
const NORMS: [(&str, Normalisation); 2] = [("group", Normalisation::Group), ("none", Normalisation::None)];
/// score_sde's `model.num_scales`, less one.
const LAST_INDEX: f64 = 999.0;

/// Where the other keys' defaults come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkPreset {
    /// 32 channels, three levels of 1, 2 and 2, one block each, no attention, no pyramid.
    Small,
    /// NCSN++ for CIFAR-10.
    NcsnppCifar10,
    /// NCSN++ for CelebA-64.
    NcsnppCeleba64,
}

impl NetworkPreset {
    fn config(self) -> UNetConfig {
        match self {
            NetworkPreset::Small => UNetConfig::small(32, 3, 32, &[1, 2, 2]),
            NetworkPreset::NcsnppCifar10 => UNetConfig::ncsnpp_cifar10(),
            NetworkPreset::NcsnppCeleba64 => UNetConfig::ncsnpp_celeba64(),
        }
    }
}

const PRESETS: [(&str, NetworkPreset); 3] = [
    ("small", NetworkPreset::Small),
    ("ncsnpp-cifar10", NetworkPreset::NcsnppCifar10),
    ("ncsnpp-celeba64", NetworkPreset::NcsnppCeleba64),
];

section! {
    /// `[network]`: a preset, and what differs from it. See [`UNetConfig`] for the fields.
    pub struct NetworkSection in "network" (preset: NetworkPreset, usual: UNetConfig) {
        preset: NetworkPreset = preset, Word(&PRESETS), "where the other defaults come from";
        channels: usize = usual.channels, Size(4..=4096), "features of the first level, a multiple of 4";
        multipliers: Option<Vec<usize>> = None, SizesOrAuto(1..=64, 16), "features of each level in units of channels; \"auto\" is the preset's up to 64 pixels and one level more for each doubling";
        blocks: usize = usual.blocks, Size(1..=64), "residual blocks per level";
        attention: Option<Vec<usize>> = None, SizesOrAuto(1..=8192, 16), "sides at which attention follows each block; \"auto\" is the preset's, or the level nearest to it";
        middle_attention: bool = usual.middle_attention, Flag(), "attention in the middle";
        embedding: Embedding = usual.embedding, EmbeddingKey, "of the time; fourier_scale is the standard deviation of the Fourier frequencies";
        dropout: f64 = usual.dropout, Number(Range::BelowOne), "share of features dropped in training";
        pyramid: bool = usual.pyramid, Flag(), "feed the downsampled image to every level";
        fir: [f64; 4] = usual.fir, FirKey, "taps of the resampling filter";
        unit_range: bool = usual.unit_range, Flag(), "map images from [0, 1] to [-1, 1] first";
        condition: TimeCondition = TimeCondition::Time, Word(&CONDITIONS), "what the network is conditioned on besides the image; with path \"ve\" also \"log-sigma\" or \"noise-index\" (of 1000 levels), as score_sde's networks with Fourier and positional embedding: for train.from an imported one", unless_default;
        mask_channel: bool = false, Flag(), "show the network, as one more channel, what the corruption leaves of a white image: the mask of a masking", unless_default;
        norm: Normalisation = Normalisation::Group, Word(&NORMS), "GroupNorm before every SiLU, or none: the output at a pixel then depends on the pixels around it alone, and tiles of photographs agree", unless_default;
    }
}

/// `embedding` and `fourier_scale`.
struct EmbeddingKey;

impl RecipeKey<Embedding> for EmbeddingKey {
    fn read(&self, r: &Reader, key: &'static str, usual: Embedding) -> Embedding {
        let fourier = matches!(usual, Embedding::Fourier { .. });
        let fourier = r.choice(key, &[("fourier", true), ("positional", false)]).unwrap_or(fourier);
        if fourier {
            return Embedding::Fourier { scale: r.number("fourier_scale", Range::Positive).unwrap_or(16.0) };
        }
        r.refuse("embedding \"positional\"", &[("fourier_scale", "embedding fourier")]);
        Embedding::Positional
    }

    fn write(&self, w: &mut TomlWriter, key: &str, embedding: &Embedding) {
        match embedding {
            Embedding::Fourier { scale } => {
                w.value(key, "fourier");
                w.value("fourier_scale", scale);
            }
            Embedding::Positional => w.value(key, "positional"),
        }
    }

    fn expected(&self) -> String {
        "fourier or positional".to_owned()
    }
}

/// Four taps.
struct FirKey;

impl RecipeKey<[f64; 4]> for FirKey {
    fn read(&self, r: &Reader, key: &'static str, usual: [f64; 4]) -> [f64; 4] {
        let Some(taps) = r.numbers(key, Range::FromZero, 4) else { return usual };
        let sum: f64 = taps.iter().sum();
        match <[f64; 4]>::try_from(taps) {
            Ok(taps) if sum > 0.0 && sum.is_finite() => taps,
            _ => {
                let hint = "give four numbers from 0 on, not all 0, such as [1, 3, 3, 1]";
                r.problem(key, "network.fir is no filter", hint);
                usual
            }
        }
    }

    fn write(&self, w: &mut TomlWriter, key: &str, taps: &[f64; 4]) {
        w.value(key, taps.as_slice());
    }

    fn expected(&self) -> String {
        "four numbers from 0 on, not all 0".to_owned()
    }
}

impl NetworkSection {
    /// A preset as it is.
    pub fn preset(preset: NetworkPreset) -> Self {
        Self::defaults(preset, preset.config())
    }

    /// States the levels and the attention that are chosen automatically, for images of this side; without one, those of the preset.
    pub fn settle(&mut self, side: Option<usize>) {
        let usual = self.preset.config();
        let side = side.unwrap_or(usual.image_size);
        let multipliers = self.multipliers.get_or_insert_with(|| usual.multipliers_for(side));
        self.attention.get_or_insert_with(|| usual.attention_for(side, multipliers.len()));
    }

    /// The network for square images of `shape` on `path`.
    pub fn config(&self, shape: Shape, path: &PathSection) -> UNetConfig {
        let mut settled = self.clone();
        settled.settle(Some(shape.height));
        let time_input = match (self.condition, path) {
            (TimeCondition::LogSigma, PathSection::Ve { smallest, largest }) => {
                TimeInput::Line { scale: (largest / smallest).ln(), shift: smallest.ln() }
            }
            (TimeCondition::NoiseIndex, PathSection::Ve { .. }) => {
                TimeInput::Line { scale: -LAST_INDEX, shift: LAST_INDEX }
            }
            _ => TimeInput::Time,
        };
        UNetConfig {
            image_size: shape.height,
            image_channels: shape.channels,
            channels: self.channels,
            multipliers: settled.multipliers.unwrap_or_default(),
            blocks: self.blocks,
            attention: settled.attention.unwrap_or_default(),
            middle_attention: self.middle_attention,
            embedding: self.embedding,
            dropout: self.dropout,
            pyramid: self.pyramid,
            fir: self.fir,
            unit_range: self.unit_range,
            time_input,
            mask_channel: self.mask_channel,
            norm: self.norm,
        }
    }

    pub(in crate::recipe) fn read(r: &Reader, path: &PathSection) -> Self {
        let named = r.peek("preset").and_then(|name| PRESETS.iter().find(|(known, _)| *known == name));
        let usual = Self::preset(named.map_or(NetworkPreset::NcsnppCifar10, |(_, preset)| *preset));
        let section = Self::read_keys(r, usual);
        if section.condition != TimeCondition::Time && !matches!(path, PathSection::Ve { .. }) {
            let message = "network.condition is for path.kind \"ve\", whose noise is geometric in time";
            r.problem("condition", message, "remove it, or choose path.kind ve");
        }
        if !section.channels.is_multiple_of(4) {
            let message = format!("network.channels is {}", section.channels);
            r.problem("channels", message, "give a multiple of 4 from 4 to 4096");
        }
        if section.multipliers.as_ref().is_some_and(Vec::is_empty) {
            r.problem(
                "multipliers",
                "network.multipliers is empty",
                "give one multiplier per level, such as [1, 2, 2]",
            );
        }
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut TomlWriter) {
        self.write_keys(w, &[]);
    }
}
