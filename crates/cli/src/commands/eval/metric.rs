//! The metrics by name, and their options.

use super::Measure;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Sizes through which the line of FID infinity is drawn.
pub const POINTS: usize = 8;

/// A number, or a few that are computed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Metric {
    /// Fréchet Inception distance.
    Fid,
    /// FID extrapolated to infinitely many pictures.
    FidInfinity,
    /// Kernel Inception distance.
    Kid,
    /// Precision, recall, density and coverage.
    Prdc,
    /// Share of pictures much nearer to one reference picture than to any other, in features.
    FeatureMemorisation,
    /// The same in pixels.
    Memorisation,
    /// Sliced Wasserstein distance of the pixels.
    SlicedWasserstein,
    /// PSNR and SSIM of pairs of pictures, for restoration.
    Pairs,
    /// Bits per dimension of the reference's pictures under a model, which is given in place of the pictures.
    Likelihood,
    /// Everything but pairs and likelihood.
    All,
}

impl Metric {
    /// What was asked for, `all` taken apart, each once.
    pub fn expand(asked: &[Metric]) -> Vec<Metric> {
        let wanted = |metric: &Metric| match metric {
            Metric::All => false,
            Metric::Pairs | Metric::Likelihood => asked.contains(metric),
            _ => asked.contains(metric) || asked.contains(&Metric::All),
        };
        Metric::value_variants().iter().copied().filter(wanted).collect()
    }

    /// Whether it needs the network.
    pub fn needs_network(self) -> bool {
        use Metric::*;
        matches!(self, Fid | FidInfinity | Kid | Prdc | FeatureMemorisation)
    }

    /// Whether it needs the reference's pictures themselves, not only their mean and covariance.
    pub fn needs_reference_pictures(self) -> bool {
        !matches!(self, Metric::Fid | Metric::FidInfinity)
    }
}

/// The options of every number, by its name in the results.
pub fn options(flags: &Measure, metrics: &[Metric]) -> BTreeMap<String, Value> {
    let (seed, samples) = (flags.seed, flags.samples);
    let mut options = BTreeMap::new();
    for metric in metrics {
        let (names, value): (&[&str], Value) = match metric {
            Metric::Fid => (&["fid"], json!({})),
            Metric::FidInfinity => (&["fid_infinity"], json!({ "points": POINTS, "seed": seed })),
            Metric::Kid => {
                let (subsets, size) = (flags.kid_subsets, flags.kid_subset_size);
                (&["kid"], json!({ "subsets": subsets, "subset_size": size, "seed": seed, "samples": samples }))
            }
            Metric::Prdc => (
                &["precision", "recall", "density", "coverage"],
                json!({ "neighbours": flags.neighbours, "samples": samples }),
            ),
            Metric::SlicedWasserstein => {
                (&["sliced_wasserstein"], json!({ "directions": flags.directions, "seed": seed, "samples": samples }))
            }
            Metric::FeatureMemorisation => (&["feature_memorisation"], json!({ "samples": samples })),
            Metric::Memorisation => (&["memorisation"], json!({ "samples": samples })),
            Metric::Likelihood => {
                let (probes, tolerance) = (flags.probes, flags.tolerance);
                (&["bits_per_dimension"], json!({ "probes": probes, "tolerance": tolerance, "seed": seed }))
            }
            Metric::Pairs | Metric::All => (&["psnr", "ssim"], json!({})),
        };
        options.extend(names.iter().map(|name| (name.to_string(), value.clone())));
    }
    options
}
