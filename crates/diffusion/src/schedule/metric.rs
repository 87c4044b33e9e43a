//! Which distance joins the nodes of the scheduler's graph.

use crate::linalg::Matrix;
use crate::transport::{self, Bandwidth, Estimate, SinkhornOptions, TransportError};

/// The metric M of Soft Diffusion, section 3.3. Estimates are of the *squared* distance.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum TransportMetric {
    /// Root mean squared difference of the same images at two levels: W2 for commuting corruptions.
    Paired,
    /// Exact W2 by optimal assignment.
    Exact,
    /// Root of the linear cost <P, C> of entropic transport. Not zero between equal clouds.
    Sinkhorn {
        /// Weight of the entropy.
        entropy: f64,
    },
    /// Root of the debiased Sinkhorn divergence (regularised costs).
    SinkhornDivergence {
        /// Weight of the entropy.
        entropy: f64,
    },
    /// Sliced W2.
    Sliced {
        /// Directions drawn.
        directions: usize,
        /// Seed of the directions.
        seed: u64,
    },
    /// W2 of the fitted Gaussians.
    Bures,
    /// Root of the maximum mean discrepancy, Gaussian kernel.
    Mmd {
        /// Width of the kernel, the same for all pairs.
        bandwidth: f64,
    },
}

impl TransportMetric {
    /// The squared distance of two clouds of corrupted images.
    pub fn measure(&self, x: &Matrix, y: &Matrix) -> Result<Estimate, TransportError> {
        match *self {
            TransportMetric::Paired => transport::paired(x, y),
            TransportMetric::Exact => transport::exact(x, y),
            TransportMetric::Sinkhorn { entropy } => {
                let cost = transport::squared_distances(x, y)?;
                Ok(transport::sinkhorn(&cost, &SinkhornOptions::new(entropy))?.linear)
            }
            TransportMetric::SinkhornDivergence { entropy } => {
                Ok(transport::sinkhorn_divergence(x, y, &SinkhornOptions::new(entropy))?.regularised)
            }
            TransportMetric::Sliced { directions, seed } => transport::sliced(x, y, directions, seed),
            TransportMetric::Bures => transport::bures(x, y),
            TransportMetric::Mmd { bandwidth } => transport::mmd(x, y, Bandwidth::Fixed(bandwidth)),
        }
    }

    /// Whether the triangle inequality holds, so that far pairs are known without measuring them.
    pub fn obeys_triangle_inequality(&self) -> bool {
        !matches!(self, TransportMetric::Sinkhorn { .. } | TransportMetric::SinkhornDivergence { .. })
    }
}
