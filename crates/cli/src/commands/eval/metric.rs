//! The metrics by name.

use clap::ValueEnum;

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
    /// Sliced Wasserstein distance of the pixels.
    SlicedWasserstein,
    /// Nearest reference pictures in pixels, and in features where a network is given.
    Memorisation,
    /// PSNR and SSIM of pairs of pictures, for restoration.
    Pairs,
    /// Everything but pairs.
    All,
}

impl Metric {
    /// What was asked for, `all` taken apart, each once.
    pub fn expand(asked: &[Metric]) -> Vec<Metric> {
        use Metric::*;
        let every = [Fid, FidInfinity, Kid, Prdc, SlicedWasserstein, Memorisation, Pairs];
        let wanted = |metric: &Metric| asked.contains(metric) || (asked.contains(&All) && *metric != Pairs);
        every.into_iter().filter(wanted).collect()
    }

    /// Whether it needs the network.
    pub fn needs_network(self) -> bool {
        matches!(self, Metric::Fid | Metric::FidInfinity | Metric::Kid | Metric::Prdc)
    }

    /// Whether it needs the features of single reference pictures, not only their mean and covariance.
    pub fn needs_reference_features(self) -> bool {
        matches!(self, Metric::Kid | Metric::Prdc)
    }

    /// Whether it needs the reference's pictures themselves.
    pub fn needs_reference_pictures(self) -> bool {
        !matches!(self, Metric::Fid | Metric::FidInfinity)
    }
}
