//! What can be said about a source without keeping its images in memory: sizes, colours, duplicates, broken files.

use super::dataset::Sums;
use super::{Exif, FileError, Skipped, Source, Statistics};
use crate::image::Picture;
use rayon::prelude::*;
use softdiff_engine::hash::ContentHash;
use std::collections::{BTreeMap, HashMap};

const CHUNK: usize = 256;

/// The facts about a source.
#[derive(Debug, Default)]
pub struct Survey {
    /// Images listed, good or not.
    pub listed: usize,
    /// How many images have each width and height.
    pub sizes: BTreeMap<(usize, usize), usize>,
    /// How many are grey.
    pub grey: usize,
    /// How many are coloured.
    pub coloured: usize,
    /// Of each channel, over the grey images if all are grey and over the coloured ones otherwise.
    pub statistics: Vec<Statistics>,
    /// How many images each class has, by label.
    pub class_counts: BTreeMap<u32, usize>,
    /// Images without a class.
    pub unlabelled: usize,
    /// Images with the same pixels as an earlier one: the copy and the original, by number.
    pub duplicates: Vec<(usize, usize)>,
    /// Images that cannot be decoded.
    pub broken: Vec<Skipped>,
}

/// What one image contributes.
struct Facts {
    size: (usize, usize),
    channels: usize,
    sums: Sums,
    hash: ContentHash,
}

impl Facts {
    fn of(picture: &Picture) -> Facts {
        let Picture { width, height, channels, pixels } = picture;
        Facts {
            size: (*width, *height),
            channels: *channels,
            sums: Sums::of(pixels, *channels),
            hash: ContentHash::of(pixels),
        }
    }
}

impl Survey {
    /// Decodes every picture on all cores; `progress` hears how many of how many are done.
    pub fn of(source: &Source, exif: Exif, progress: &(dyn Fn(usize, usize) + Sync)) -> Survey {
        let mut survey = Survey { listed: source.len(), ..Survey::default() };
        let mut first_with = HashMap::new();
        let mut sums = [Sums::default(); 2];
        for start in (0..source.len()).step_by(CHUNK) {
            let end = (start + CHUNK).min(source.len());
            let facts = |index| source.read(index, exif).map(|picture| Facts::of(&picture));
            let facts: Vec<Result<Facts, FileError>> = (start..end).into_par_iter().map(facts).collect();
            for (index, facts) in (start..).zip(facts) {
                match facts {
                    Ok(facts) => survey.add(source, index, &facts, &mut sums, &mut first_with),
                    Err(error) => {
                        survey.broken.push(Skipped { file: source.picture_name(index), reason: error.to_string() });
                    }
                }
            }
            source.release();
            progress(end, source.len());
        }
        let [grey, coloured] = sums;
        survey.statistics = if survey.coloured > 0 { coloured.statistics(3) } else { grey.statistics(1) };
        survey
    }

    fn add(
        &mut self,
        source: &Source,
        index: usize,
        facts: &Facts,
        sums: &mut [Sums; 2],
        first_with: &mut HashMap<(ContentHash, (usize, usize), usize), usize>,
    ) {
        *self.sizes.entry(facts.size).or_default() += 1;
        let [grey, coloured] = sums;
        let (count, sums) = if facts.channels == 1 { (&mut self.grey, grey) } else { (&mut self.coloured, coloured) };
        *count += 1;
        *sums = sums.plus(facts.sums);
        match source.label(index) {
            Some(label) => *self.class_counts.entry(label).or_default() += 1,
            None => self.unlabelled += 1,
        }
        let original = *first_with.entry((facts.hash, facts.size, facts.channels)).or_insert(index);
        if original != index {
            self.duplicates.push((index, original));
        }
    }

    /// The size most images have.
    pub fn usual_size(&self) -> Option<(usize, usize)> {
        self.sizes.iter().max_by_key(|&(size, count)| (count, size)).map(|(&size, _)| size)
    }
}
