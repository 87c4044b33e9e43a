//! The metrics by name.

use std::str::FromStr;

/// A number, or a few that are computed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Fréchet Inception distance.
    Fid,
    /// FID extrapolated to infinitely many images.
    FidInfinity,
    /// Kernel Inception distance.
    Kid,
    /// Precision, recall, density and coverage.
    Prdc,
    /// Share of images much nearer to one reference image than to any other, in features.
    FeatureMemorisation,
    /// The same in pixels.
    Memorisation,
    /// Sliced Wasserstein distance of the pixels.
    SlicedWasserstein,
    /// PSNR and SSIM of pairs of images, for restoration.
    Pairs,
    /// Bits per dimension of the reference's images under a model, by [`Evaluator::likelihood`](super::Evaluator::likelihood).
    Likelihood,
}

impl Metric {
    /// Every metric.
    pub const EVERY: [Metric; 9] = {
        use Metric::*;
        [Fid, FidInfinity, Kid, Prdc, FeatureMemorisation, Memorisation, SlicedWasserstein, Pairs, Likelihood]
    };

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Fid => "fid",
            Metric::FidInfinity => "fid-infinity",
            Metric::Kid => "kid",
            Metric::Prdc => "prdc",
            Metric::FeatureMemorisation => "feature-memorisation",
            Metric::Memorisation => "memorisation",
            Metric::SlicedWasserstein => "sliced-wasserstein",
            Metric::Pairs => "pairs",
            Metric::Likelihood => "likelihood",
        }
    }

    /// The names of its numbers in a result.
    pub fn results(self) -> &'static [&'static str] {
        match self {
            Metric::Fid => &["fid"],
            Metric::FidInfinity => &["fid_infinity"],
            Metric::Kid => &["kid"],
            Metric::Prdc => &["precision", "recall", "density", "coverage"],
            Metric::FeatureMemorisation => &["feature_memorisation"],
            Metric::Memorisation => &["memorisation"],
            Metric::SlicedWasserstein => &["sliced_wasserstein"],
            Metric::Pairs => &["psnr", "ssim"],
            Metric::Likelihood => &["bits_per_dimension"],
        }
    }

    /// Whether it needs the FID network.
    pub fn needs_network(self) -> bool {
        use Metric::*;
        matches!(self, Fid | FidInfinity | Kid | Prdc | FeatureMemorisation)
    }

    /// Whether it needs the reference's images themselves, not only their mean and covariance.
    pub fn needs_reference_images(self) -> bool {
        !matches!(self, Metric::Fid | Metric::FidInfinity)
    }

    /// Whether it compares a generated set with a reference set of any length: neither pairs nor likelihood.
    pub fn compares_sets(self) -> bool {
        !matches!(self, Metric::Pairs | Metric::Likelihood)
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Metric, String> {
        let found = Metric::EVERY.into_iter().find(|metric| metric.name() == text);
        found.ok_or_else(|| format!("expected one of {}", Metric::EVERY.map(Metric::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_as_they_are_written() {
        for metric in Metric::EVERY {
            assert_eq!(metric.name().parse(), Ok(metric));
        }
        assert!("all".parse::<Metric>().is_err());
    }
}
