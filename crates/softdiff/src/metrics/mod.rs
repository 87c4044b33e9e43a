//! How good generated images are: numbers with a stated protocol.
//!
//! [`Evaluator`] measures an [`ImageSet`] against a [`Reference`]; a [`Distance`] measures one set after another against the
//! same reference. All metrics compare a generated set with a reference set. [`fid`](fid()), [`fid_infinity`], [`kid`] and [`prdc`] compare features of
//! [`crate::inception`]; [`sliced_wasserstein`], [`nearest`](nearest()), [`psnr`] and [`ssim`] compare pixels. A number is
//! worth nothing without its [`Protocol`], so an [`Evaluation`] carries both, and [`compare`](compare()) refuses unlike ones.

mod cache;
mod distance;
mod error;
mod evaluation;
mod evaluator;
mod features;
mod fid;
mod fid_infinity;
mod image_set;
mod kid;
mod metric;
mod nearest;
mod neighbours;
mod pixels;
mod prdc;
mod protocol;
mod statistics;
mod statistics_file;
mod store;

pub use cache::StatisticsCache;
pub use distance::Distance;
pub use error::MetricError;
pub use evaluation::{Comparison, Evaluation, Made, Measured, compare};
pub use evaluator::{EvaluationOptions, Evaluator, TaskProgress};
pub use features::Features;
pub use fid::{FidReference, fid};
pub use fid_infinity::{FidInfinity, fid_infinity};
pub use image_set::{ImageSet, ImageSetOptions, Reference, evenly_spaced};
pub use kid::{Kid, KidOptions, kid, polynomial_mmd2};
pub use metric::Metric;
pub use nearest::{Memorisation, Nearest, memorisation, nearest};
pub use pixels::{psnr, sliced_wasserstein, ssim};
pub use prdc::{Prdc, prdc};
pub use protocol::{ImageSetInfo, Protocol};
pub use statistics::FeatureStatistics;
pub use statistics_file::StatisticsNote;
pub use store::{StoreError, StoredEvaluations};
