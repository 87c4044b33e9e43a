//! The second pass: the crops, cut on all cores and written in order.

use super::super::npz::{FACTS, npy_header, write_json};
use super::super::{DataError, FileError};
use super::photograph::{Photograph, is_flat};
use super::{CropPlan, PlannedPhotograph, group};
use crate::archive::zip::StoredZip;
use rayon::prelude::*;
use serde_json::{Value, json};
use softdiff_engine::hash::ContentHash;
use std::io::{self, Write};

/// Bytes of crops that are cut before they are written.
const BLOCK: usize = 16 << 20;

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct WrittenCrops {
    /// Crops of the training part.
    pub train: usize,
    /// Crops of the test part.
    pub test: usize,
    /// Side of a crop.
    pub side: usize,
    /// 1 (grey) or 3 (RGB).
    pub channels: usize,
    /// Crops of both parts that are flat.
    pub flat: usize,
    /// The hash of the training part: that of the [`crate::sets::Dataset`] which it loads as.
    pub hash: Option<ContentHash>,
}

impl CropPlan<'_> {
    /// Writes an npz of `train_images.npy`, `test_images.npy` (uint8, `[n, h, w, c]`) if photographs are held out, and
    /// `dataset_json`. The same plan gives the same bytes on any number of threads. `progress` hears how many of how many
    /// crops are written.
    pub fn write(
        &self,
        out: &mut impl Write,
        origin: &Value,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> io::Result<WrittenCrops> {
        let (side, channels) = (self.options.side, self.channels);
        let mut written = WrittenCrops { side, channels, ..WrittenCrops::default() };
        let mut zip = StoredZip::new(out);
        let train = self.write_part("train_images.npy", false, &mut zip, &mut written, progress)?;
        let test = self.write_part("test_images.npy", true, &mut zip, &mut written, progress)?;
        let text = |hash: Option<ContentHash>| hash.map(|hash| hash.to_string());
        let facts = json!({
            "format": "softdiff dataset 1", "classes": [], "hash": text(train), "test_hash": text(test), "origin": origin,
        });
        write_json(&mut zip, FACTS, &facts)?;
        zip.finish()?;
        Ok(WrittenCrops { hash: train, ..written })
    }

    /// Writes the crops of one part; gives their hash, if there are any.
    fn write_part<W: Write>(
        &self,
        name: &str,
        held_out: bool,
        zip: &mut StoredZip<W>,
        written: &mut WrittenCrops,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> io::Result<Option<ContentHash>> {
        let part: Vec<&PlannedPhotograph> = self.photographs.iter().filter(|one| one.held_out == held_out).collect();
        let count: usize = part.iter().map(|photograph| photograph.crops).sum();
        if count == 0 {
            return Ok(None);
        }
        let shape = [count, written.side, written.side, written.channels];
        let header = npy_header("|u1", &shape);
        let bytes: usize = shape.iter().product();
        zip.begin(name, (header.len() + bytes) as u64)?;
        zip.append(&header)?;
        let sizes: Vec<u8> = shape.iter().flat_map(|&size| (size as u64).to_le_bytes()).collect();
        let mut hashes = vec![ContentHash::of(&sizes)];
        let block = (BLOCK / (bytes / count)).max(1);
        for group in part.chunks(group()) {
            let decoded: Vec<_> = group.par_iter().map(|planned| self.decode(planned)).collect();
            for (planned, photograph) in group.iter().zip(decoded) {
                let photograph = photograph.map_err(io::Error::other)?;
                for start in (0..planned.crops).step_by(block) {
                    let numbers = start..(start + block).min(planned.crops);
                    let crops: Vec<_> =
                        numbers.into_par_iter().map(|number| photograph.crop(number, planned.texture)).collect();
                    for crop in &crops {
                        zip.append(&crop.pixels)?;
                        hashes.push(ContentHash::of(&crop.pixels));
                        written.flat += usize::from(is_flat(crop));
                    }
                    *(if held_out { &mut written.test } else { &mut written.train }) += crops.len();
                    progress(written.train + written.test, self.count());
                }
            }
        }
        Ok(Some(ContentHash::of_parts(hashes)))
    }

    /// Decodes a photograph of the plan again.
    fn decode(&self, planned: &PlannedPhotograph) -> Result<Photograph, DataError> {
        let photograph = self.source.photograph(planned.index, &self.options, Some(self.channels));
        let photograph = photograph.map_err(|error| DataError::file(&planned.file, error))?;
        if photograph.content != planned.content {
            let changed = FileError::damaged("image", "it changed while the crops were cut");
            return Err(DataError::file(&planned.file, changed));
        }
        Ok(photograph)
    }
}
