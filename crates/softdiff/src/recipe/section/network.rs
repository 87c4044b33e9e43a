//! `[network]`: the U-Net.

use super::PathSection;
use crate::corruption::Shape;
use crate::network::{Embedding, TimeInput, UNetConfig};
use crate::recipe::reader::{Range, Reader};
use crate::recipe::writer::Writer;

/// What the network is told of the time.
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
/// score_sde's `model.num_scales`, less one.
const LAST_INDEX: f64 = 999.0;

/// Where the other keys' defaults come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// 32 channels, three levels of 1, 2 and 2, one block each, no attention, no pyramid.
    Small,
    /// NCSN++ for CIFAR-10.
    NcsnppCifar10,
    /// NCSN++ for CelebA-64.
    NcsnppCeleba64,
}

const PRESETS: [(&str, Preset); 3] =
    [("small", Preset::Small), ("ncsnpp-cifar10", Preset::NcsnppCifar10), ("ncsnpp-celeba64", Preset::NcsnppCeleba64)];

/// `[network]`: a preset, and what differs from it. See [`UNetConfig`] for the fields.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `preset` | `"ncsnpp-cifar10"` | `"small"`, `"ncsnpp-cifar10"` or `"ncsnpp-celeba64"` |
/// | `channels` | of the preset | features of the first level, a multiple of 4 |
/// | `multipliers` | | features of each level in units of `channels` |
/// | `blocks` | | residual blocks per level |
/// | `attention` | | sides at which attention follows each block |
/// | `middle_attention` | | attention in the middle |
/// | `embedding` | | `"fourier"` or `"positional"` |
/// | `fourier_scale` | `16` | deviation of the Fourier frequencies |
/// | `dropout` | | from 0 to below 1 |
/// | `pyramid` | | feed the downsampled image to every level |
/// | `fir` | | four taps of the resampling filter |
/// | `unit_range` | `true` | map images from [0, 1] to [-1, 1] first |
/// | `condition` | `"time"` | what the network is told besides the image; with path "ve" also `"log-sigma"` or `"noise-index"` (of 1000 levels), as score_sde's networks with Fourier and positional embedding: for `train.from` an imported one |
/// | `mask_channel` | `false` | show the network, as one more channel, what the corruption leaves of a white image: the mask of a masking |
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct NetworkSection {
    pub preset: Preset,
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
    pub condition: TimeCondition,
    pub mask_channel: bool,
}

impl NetworkSection {
    /// A preset as it is.
    pub fn preset(preset: Preset) -> Self {
        let UNetConfig {
            channels,
            multipliers,
            blocks,
            attention,
            middle_attention,
            embedding,
            dropout,
            pyramid,
            fir,
            unit_range,
            mask_channel,
            ..
        } = match preset {
            Preset::Small => UNetConfig::small(32, 3, 32, &[1, 2, 2]),
            Preset::NcsnppCifar10 => UNetConfig::ncsnpp_cifar10(),
            Preset::NcsnppCeleba64 => UNetConfig::ncsnpp_celeba64(),
        };
        NetworkSection {
            preset,
            channels,
            multipliers,
            blocks,
            attention,
            middle_attention,
            embedding,
            dropout,
            pyramid,
            fir,
            unit_range,
            condition: TimeCondition::Time,
            mask_channel,
        }
    }

    /// The network for square images of `shape` on `path`.
    pub fn config(&self, shape: Shape, path: &PathSection) -> UNetConfig {
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
            multipliers: self.multipliers.clone(),
            blocks: self.blocks,
            attention: self.attention.clone(),
            middle_attention: self.middle_attention,
            embedding: self.embedding,
            dropout: self.dropout,
            pyramid: self.pyramid,
            fir: self.fir,
            unit_range: self.unit_range,
            time_input,
            mask_channel: self.mask_channel,
        }
    }

    pub(in crate::recipe) fn read(r: &Reader, path: &PathSection) -> Self {
        let usual = Self::preset(r.choice("preset", &PRESETS).unwrap_or(Preset::NcsnppCifar10));
        let fourier = matches!(usual.embedding, Embedding::Fourier { .. });
        let embedding = match r.choice("embedding", &[("fourier", true), ("positional", false)]).unwrap_or(fourier) {
            true => Embedding::Fourier { scale: r.number("fourier_scale", Range::Positive).unwrap_or(16.0) },
            false => Embedding::Positional,
        };
        r.refuse("embedding \"positional\"", &[("fourier_scale", "embedding fourier")]);
        let section = NetworkSection {
            preset: usual.preset,
            channels: r.size("channels", 4..=4096).unwrap_or(usual.channels),
            multipliers: r.sizes("multipliers", 1..=64, 16).unwrap_or(usual.multipliers),
            blocks: r.size("blocks", 1..=64).unwrap_or(usual.blocks),
            attention: r.sizes("attention", 1..=8192, 16).unwrap_or(usual.attention),
            middle_attention: r.flag("middle_attention").unwrap_or(usual.middle_attention),
            embedding,
            dropout: r.number("dropout", Range::BelowOne).unwrap_or(usual.dropout),
            pyramid: r.flag("pyramid").unwrap_or(usual.pyramid),
            fir: read_fir(r).unwrap_or(usual.fir),
            unit_range: r.flag("unit_range").unwrap_or(usual.unit_range),
            condition: r.choice("condition", &CONDITIONS).unwrap_or_default(),
            mask_channel: r.flag("mask_channel").unwrap_or(usual.mask_channel),
        };
        if section.condition != TimeCondition::Time && !matches!(path, PathSection::Ve { .. }) {
            let message = "network.condition is for path.kind \"ve\", whose noise is geometric in time";
            r.problem("condition", message, "remove it, or choose path.kind ve");
        }
        if !section.channels.is_multiple_of(4) {
            let message = format!("network.channels is {}", section.channels);
            r.problem("channels", message, "give a multiple of 4 from 4 to 4096");
        }
        if section.multipliers.is_empty() {
            r.problem(
                "multipliers",
                "network.multipliers is empty",
                "give one multiplier per level, such as [1, 2, 2]",
            );
        }
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut Writer) {
        w.section("network");
        w.word("preset", &PRESETS, &self.preset);
        w.value("channels", &self.channels);
        w.value("multipliers", self.multipliers.as_slice());
        w.value("blocks", &self.blocks);
        w.value("attention", self.attention.as_slice());
        w.value("middle_attention", &self.middle_attention);
        match self.embedding {
            Embedding::Fourier { scale } => {
                w.value("embedding", "fourier");
                w.value("fourier_scale", &scale);
            }
            Embedding::Positional => w.value("embedding", "positional"),
        }
        w.value("dropout", &self.dropout);
        w.value("pyramid", &self.pyramid);
        w.value("fir", self.fir.as_slice());
        w.value("unit_range", &self.unit_range);
        // The recipes of earlier runs do not have it.
        if self.condition != TimeCondition::Time {
            w.word("condition", &CONDITIONS, &self.condition);
        }
        // Runs that were begun before there was this key keep their identity.
        if self.mask_channel {
            w.value("mask_channel", &self.mask_channel);
        }
    }
}

fn read_fir(r: &Reader) -> Option<[f64; 4]> {
    let taps = r.numbers("fir", Range::FromZero, 4)?;
    let sum: f64 = taps.iter().sum();
    match <[f64; 4]>::try_from(taps) {
        Ok(taps) if sum > 0.0 && sum.is_finite() => Some(taps),
        _ => {
            r.problem(
                "fir",
                "network.fir is no filter",
                "give four numbers from 0 on, not all 0, such as [1, 3, 3, 1]",
            );
            None
        }
    }
}
