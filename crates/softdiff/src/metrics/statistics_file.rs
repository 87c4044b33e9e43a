//! Statistics on disk: an `.npz` with `mu` and `sigma`, as pytorch-fid writes and reads them, and a note of how they were
//! made.

use super::{FeatureStatistics, MetricError};
use crate::archive::zip::{Index, Rules, StoredZip};
use crate::data::npy::Array;
use crate::data::npz::{npy_header, read_json, write_json};
use crate::import::read_file;
use crate::linalg::Matrix;
use serde::{Deserialize, Serialize};
use softdiff_engine::hash::ContentHash;
use std::io::{self, Write};
use std::path::Path;

/// The most that one array may have: features of 8192.
const MAX_ARRAY: u64 = 8 * 8192 * 8192 + 4096;
const RULES: Rules = Rules { max_entries: 64, deflated: true };
/// The note stored with the arrays, as JSON in the array `statistics_json`.
const NOTE: &str = "statistics";

/// How statistics were made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatisticsNote {
    /// How many images.
    pub count: usize,
    /// What they were and how they were treated.
    pub pictures: super::ImageSetInfo,
    /// The network's hash.
    pub network: String,
    /// How images come to the network's input.
    pub preset: String,
}

impl FeatureStatistics {
    /// Reads an `.npz` of statistics; the note is absent where other software wrote it.
    pub fn read(path: &Path) -> Result<(FeatureStatistics, Option<StatisticsNote>), MetricError> {
        let refused = |reason: String| MetricError::StatisticsFile { path: path.into(), reason };
        let bytes = read_file(path).map_err(|error| refused(error.to_string()))?;
        let index = Index::open(&bytes, RULES).map_err(|error| refused(error.to_string()))?;
        let array = |name: &str| -> Result<(Vec<u64>, Vec<f64>), MetricError> {
            let entry = index.read(&bytes, &format!("{name}.npy"), MAX_ARRAY).map_err(|e| refused(e.to_string()))?;
            let array = Array::read(&entry).map_err(|error| refused(error.to_string()))?;
            let values = array.floats().map_err(|error| refused(format!("{name}: {error}")))?;
            Ok((array.shape.clone(), values))
        };
        let ((shape, mean), (square, covariance)) = (array("mu")?, array("sigma")?);
        let n = mean.len() as u64;
        if shape != [n] || square != [n, n] || n == 0 {
            return Err(refused(format!("mu of shape {shape:?} and sigma of shape {square:?} do not belong together")));
        }
        if mean.iter().chain(&covariance).any(|value| !value.is_finite()) {
            return Err(refused("it has values that are no numbers".into()));
        }
        let note: Option<StatisticsNote> = read_json(&bytes, &index, NOTE);
        // Other software does not say how many images there were; any number with full rank does.
        let count = note.as_ref().map_or(usize::MAX >> 16, |note| note.count);
        let covariance = Matrix::from_vec(mean.len(), mean.len(), covariance)?;
        Ok((FeatureStatistics::from_moments(count, mean, covariance), note))
    }

    /// Whether `path` holds statistics rather than pictures.
    pub fn recognise(path: &Path) -> bool {
        let is_npz = path.extension().is_some_and(|extension| extension == "npz") && path.is_file();
        is_npz
            && read_file(path).is_ok_and(|bytes| {
                Index::open(&bytes, RULES).is_ok_and(|index| {
                    let has = |wanted: &str| index.names().any(|name| name == wanted);
                    has("mu.npy") && has("sigma.npy")
                })
            })
    }

    /// Writes `mu`, `sigma` and the note.
    pub fn write(&self, out: &mut impl Write, note: &StatisticsNote) -> io::Result<()> {
        let (mean, covariance) = self.moments().map_err(io::Error::other)?;
        let bytes = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let mut zip = StoredZip::new(out);
        zip.entry("mu.npy", &[&npy_header("<f8", &[mean.len()]), &bytes(&mean)])?;
        zip.entry("sigma.npy", &[&npy_header("<f8", &[mean.len(); 2]), &bytes(covariance.values())])?;
        write_json(&mut zip, NOTE, note)?;
        zip.finish()
    }

    /// A hash of mean and covariance.
    pub fn hash(&self) -> Result<ContentHash, MetricError> {
        let (mean, covariance) = self.moments()?;
        Ok(ContentHash::of_parts([&mean, covariance.values()].map(|part| ContentHash::of_values(part.iter().copied()))))
    }
}
