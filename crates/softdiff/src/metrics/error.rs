//! Why a metric could not be computed.

use crate::data::DataError;
use crate::inception::InceptionError;
use crate::linalg::LinalgError;
use crate::transport::TransportError;
use softdiff_engine::Hint;
use std::borrow::Cow;
use std::path::PathBuf;

/// What can be wrong with images, features or statistics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum MetricError {
    /// A covariance of one image, neighbours among too few.
    #[error("{metric} of {found} images cannot be computed")]
    TooFew { metric: &'static str, found: usize, least: usize },
    /// Features of different length.
    #[error("one set has {left} values per image, the other {right}")]
    Dimensions { left: usize, right: usize },
    /// Values that fill no whole number of rows.
    #[error("{values} values do not make rows of {dimensions}")]
    Rows { values: usize, dimensions: usize },
    /// NaN or infinity.
    #[error("feature {feature} of image {picture} is {value}")]
    NotFinite { picture: usize, feature: usize, value: f64 },
    /// Images of different sizes.
    #[error("images of {left} cannot be compared with images of {right}")]
    Sizes { left: String, right: String },
    /// Sets of different length where images are compared one to one.
    #[error("{metric} compares image by image, but one set has {left} and the other {right}")]
    Counts { metric: &'static str, left: usize, right: usize },
    /// A statistics file.
    #[error("{}: {reason}", path.display())]
    StatisticsFile { path: PathBuf, reason: String },
    /// Statistics of other features.
    #[error("the statistics in {} were made with {field} {found}, not {expected}", path.display())]
    StatisticsProtocol { path: PathBuf, field: &'static str, found: String, expected: String },
    /// Results that cannot be compared.
    #[error("these results were not measured in the same way: {field} is {left} in one and {right} in the other")]
    Protocols { field: String, left: String, right: String },
    /// Results without a number in common.
    #[error("these results have no metric in common")]
    NothingInCommon,
    /// Statistics where images are needed.
    #[error("{} holds statistics, which are enough for fid alone",
        path.display())]
    StatisticsOnly { path: PathBuf },
    /// Likelihood together with metrics of images.
    #[error("likelihood is measured of a model, the other metrics of images")]
    LikelihoodOfImages,
    /// Metrics of features without the FID network.
    #[error("these metrics need the FID network, and none was given")]
    NoNetwork,
    /// Images that cannot be read.
    #[error("{0}")]
    Data(#[from] DataError),
    /// The network or its device.
    #[error("{0}")]
    Inception(#[from] InceptionError),
    /// Linear algebra.
    #[error("the covariance cannot be decomposed")]
    Linalg(#[from] LinalgError),
    /// Transport between pixels.
    #[error("{0}")]
    Transport(#[from] TransportError),
}

impl Hint for MetricError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            MetricError::TooFew { least, .. } => format!("give at least {least} in each set").into(),
            MetricError::Dimensions { .. } => "compare features of one network".into(),
            MetricError::Rows { .. } => "give whole feature vectors".into(),
            MetricError::NotFinite { .. } => "check the network's weights and the device".into(),
            MetricError::Sizes { .. } => "give --size (and --crop) to make them alike".into(),
            MetricError::Counts { .. } => "give equally many, in the same order".into(),
            MetricError::StatisticsFile { .. } => {
                "give an .npz with mu and sigma, as pytorch-fid and softdiff write it".into()
            }
            MetricError::StatisticsProtocol { .. } => "make them again with --save-statistics".into(),
            MetricError::Protocols { .. } => "measure both with the same options".into(),
            MetricError::NothingInCommon => "measure both with the same --metrics".into(),
            MetricError::StatisticsOnly { .. } => "give the data set itself, or --metrics fid,fid-infinity".into(),
            MetricError::LikelihoodOfImages => "measure it alone: --metrics likelihood".into(),
            MetricError::NoNetwork => {
                "softdiff data fetch fid-inception (96 MB), or give --network FILE or set SOFTDIFF_INCEPTION".into()
            }
            _ => return None,
        })
    }
}

/// Refuses features that cannot be compared; gives how many rows each side has.
pub(super) fn check_features(
    metric: &'static str,
    least: usize,
    dimensions: usize,
    sets: [&[f32]; 2],
) -> Result<[usize; 2], MetricError> {
    let mut rows = [0; 2];
    for (rows, set) in rows.iter_mut().zip(sets) {
        if dimensions == 0 || !set.len().is_multiple_of(dimensions) {
            return Err(MetricError::Rows { values: set.len(), dimensions });
        }
        *rows = set.len() / dimensions;
        if *rows < least {
            return Err(MetricError::TooFew { metric, found: *rows, least });
        }
        check_finite(set, dimensions)?;
    }
    Ok(rows)
}

/// Refuses features that are no numbers.
pub(super) fn check_finite(features: &[f32], dimensions: usize) -> Result<(), MetricError> {
    match features.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(MetricError::NotFinite {
            picture: at / dimensions,
            feature: at % dimensions,
            value: features[at].into(),
        }),
    }
}
