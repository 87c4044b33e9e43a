//! How good generated pictures are: numbers with a stated protocol.
//!
//! All compare a generated set with a reference set. [`fid`](fid()), [`fid_infinity`], [`kid`] and [`prdc`] compare features of
//! [`crate::inception`]; [`sliced_wasserstein`], [`nearest`](nearest()), [`psnr`] and [`ssim`] compare pixels. A number is
//! worth nothing without its [`Protocol`], so an [`Evaluation`] carries both, and [`compare`](compare()) refuses unlike ones.

mod cache;
mod error;
mod evaluation;
mod fid;
mod fid_infinity;
mod kept;
mod kid;
mod nearest;
mod neighbours;
mod pixels;
mod prdc;
mod protocol;
mod statistics;
mod statistics_file;

pub use cache::StatisticsCache;
pub use error::MetricError;
pub use evaluation::{Comparison, Evaluation, Made, Measured, compare};
pub use fid::{Fid, FidReference, fid};
pub use fid_infinity::{FidInfinity, fid_infinity};
pub use kept::Kept;
pub use kid::{Kid, KidOptions, kid, polynomial_mmd2};
pub use nearest::{Memorisation, Nearest, memorisation, nearest};
pub use pixels::{psnr, sliced_wasserstein, ssim};
pub use prdc::{Prdc, prdc};
pub use protocol::{Pictures, Protocol};
pub use statistics::Statistics;
pub use statistics_file::Note;
