//! The metrics as they are typed.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use softdiff::metrics::Metric;

/// A metric, or all of them.
#[derive(Clone, Copy)]
pub struct MetricFlag(Option<Metric>);

impl MetricFlag {
    /// What was asked for, `all` expanded, each once.
    pub fn expand(asked: &[MetricFlag]) -> Vec<Metric> {
        let wanted = |metric: &Metric| {
            let named = |flag: &MetricFlag| flag.0.map_or(metric.compares_sets(), |one| one == *metric);
            asked.iter().any(named)
        };
        Metric::EVERY.into_iter().filter(wanted).collect()
    }
}

impl ValueEnum for MetricFlag {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [MetricFlag; 10] = {
            let mut all = [MetricFlag(None); 10];
            let mut i = 0;
            while i < Metric::EVERY.len() {
                all[i] = MetricFlag(Some(Metric::EVERY[i]));
                i += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self.0 {
            None => ("all", "Everything but pairs and likelihood"),
            Some(metric) => {
                let help = match metric {
                    Metric::Fid => "Fréchet Inception distance",
                    Metric::FidInfinity => "FID extrapolated to infinitely many images",
                    Metric::Kid => "Kernel Inception distance",
                    Metric::Prdc => "Precision, recall, density and coverage",
                    Metric::FeatureMemorisation => {
                        "Share of images much nearer to one reference image than to any other, in features"
                    }
                    Metric::Memorisation => "The same in pixels",
                    Metric::SlicedWasserstein => "Sliced Wasserstein distance of the pixels",
                    Metric::Pairs => "PSNR and SSIM of pairs of images, for restoration",
                    Metric::Likelihood => {
                        "Bits per dimension of the reference's images under a model, which is given in place of the images"
                    }
                };
                (metric.name(), help)
            }
        };
        Some(PossibleValue::new(name).help(help))
    }
}
