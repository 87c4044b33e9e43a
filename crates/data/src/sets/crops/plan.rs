//! The first pass: which photographs there are, how many crops each gives, and which are held out.

use super::super::{DataError, FileError, OnBad, Skipped, Source};
use super::allotment::allot;
use super::photograph::{Photograph, Texture, content};
use super::{CropOptions, group};
use rayon::prelude::*;
use softdiff_engine::hash::ContentHash;
use softdiff_engine::rng::RandomStream;
use std::collections::HashMap;

/// A photograph and what is cut from it.
#[derive(Clone, Debug)]
pub struct PlannedPhotograph {
    /// The file or entry.
    pub file: String,
    /// Its content: size and pixels.
    pub content: ContentHash,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// How many crops it gives.
    pub crops: usize,
    /// Whether they are in the test part.
    pub held_out: bool,
    pub(super) index: usize,
    pub(super) texture: Texture,
}

/// What will be cut from which photographs.
pub struct CropPlan<'a> {
    pub(super) source: &'a Source,
    pub(super) options: CropOptions,
    pub(super) channels: usize,
    pub(super) photographs: Vec<PlannedPhotograph>,
    skipped: Vec<Skipped>,
    passed_over: Vec<Skipped>,
}

/// What the first pass learns about a photograph.
struct Look {
    content: ContentHash,
    size: (usize, usize),
    channels: usize,
    area: u64,
    texture: Option<Texture>,
}

impl Source {
    /// Decodes every photograph once and decides what to cut from it. `progress` hears how many of how many are done.
    pub fn plan_crops(
        &self,
        options: &CropOptions,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<CropPlan<'_>, DataError> {
        let mut plan = CropPlan {
            source: self,
            options: *options,
            channels: options.channels.unwrap_or(1),
            photographs: Vec::new(),
            skipped: Vec::new(),
            passed_over: Vec::new(),
        };
        let (mut first_with, mut weights) = (HashMap::new(), Vec::new());
        let group = group();
        for start in (0..self.len()).step_by(group) {
            let end = (start + group).min(self.len());
            let looks: Vec<_> = (start..end).into_par_iter().map(|index| self.look(index, options)).collect();
            for (index, look) in (start..).zip(looks) {
                match look {
                    Ok(look) => plan.add(index, &look, &mut first_with, &mut weights),
                    Err(error) => plan.skip(index, error)?,
                }
            }
            progress(end, self.len());
        }
        plan.allot(&weights)?;
        plan.hold_out()?;
        Ok(plan)
    }

    fn look(&self, index: usize, options: &CropOptions) -> Result<Look, FileError> {
        let photograph = self.photograph(index, options, options.channels)?;
        let picture = &photograph.picture;
        Ok(Look {
            content: photograph.content,
            size: (picture.width, picture.height),
            channels: picture.channels,
            area: photograph.area(),
            texture: photograph.texture(),
        })
    }

    /// Decodes a photograph that is large enough.
    pub(super) fn photograph(
        &self,
        index: usize,
        options: &CropOptions,
        channels: Option<usize>,
    ) -> Result<Photograph, FileError> {
        let picture = self.read(index, options.exif)?;
        let (width, height, side) = (picture.width, picture.height, options.side);
        if width.min(height) < side {
            return Err(FileError::Crop { width, height, crop: format!("{side}x{side}") });
        }
        let content = content(&picture);
        let channels = channels.unwrap_or(picture.channels);
        Ok(Photograph { picture: picture.with_channels(channels), content, side, seed: options.seed })
    }
}

impl CropPlan<'_> {
    /// The photographs that give crops, in the order of the source.
    pub fn photographs(&self) -> &[PlannedPhotograph] {
        &self.photographs
    }

    /// Photographs that cannot be used.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Photographs that can be read but give no crops: copies of another, and flat ones.
    pub fn passed_over(&self) -> &[Skipped] {
        &self.passed_over
    }

    /// Crops in all.
    pub fn count(&self) -> usize {
        self.photographs.iter().map(|photograph| photograph.crops).sum()
    }

    fn add(&mut self, index: usize, look: &Look, first_with: &mut HashMap<ContentHash, usize>, weights: &mut Vec<u64>) {
        let file = self.source.picture_name(index);
        let first = *first_with.entry(look.content).or_insert(index);
        if first != index {
            let reason = format!("the same picture as {}", self.source.picture_name(first));
            return self.passed_over.push(Skipped { file, reason });
        }
        let Some(texture) = look.texture else {
            return self.passed_over.push(Skipped { file, reason: "nearly all of it is flat".into() });
        };
        if self.options.channels.is_none() {
            self.channels = self.channels.max(look.channels);
        }
        weights.push(look.area.saturating_mul(texture.share as u64));
        let (width, height) = look.size;
        let content = look.content;
        let planned = PlannedPhotograph { file, content, width, height, crops: 0, held_out: false, index, texture };
        self.photographs.push(planned);
    }

    fn skip(&mut self, index: usize, error: FileError) -> Result<(), DataError> {
        let (file, total) = (self.source.picture_name(index), self.source.len());
        if self.options.on_bad == OnBad::Fail {
            return Err(DataError::file(file, error));
        }
        self.skipped.push(Skipped { file, reason: error.to_string() });
        let limit = self.options.on_bad_limit;
        if limit.is_exceeded(self.skipped.len(), total) {
            return Err(DataError::TooManySkipped { total, limit, skipped: std::mem::take(&mut self.skipped) });
        }
        Ok(())
    }

    /// Shares the crops out by the area that is not flat.
    fn allot(&mut self, weights: &[u64]) -> Result<(), DataError> {
        let photographs = self.photographs.len();
        if photographs == 0 {
            return Err(DataError::Empty { path: self.source.path().into(), ignored: self.source.ignored() });
        }
        let count = self.options.count.unwrap_or(CropOptions::USUAL.saturating_mul(photographs));
        let cap = self.options.cap.unwrap_or(count.saturating_mul(2).div_ceil(photographs));
        if count < photographs {
            return Err(DataError::TooFewCrops { count, photographs });
        }
        let shares = allot(count, cap, weights).ok_or(DataError::TooManyCrops { count, photographs, cap })?;
        self.photographs.iter_mut().zip(shares).for_each(|(photograph, share)| photograph.crops = share);
        Ok(())
    }

    /// Holds out those whose content, as a number from 0 to 1, is below the share; at least one, and never all.
    fn hold_out(&mut self) -> Result<(), DataError> {
        let share = self.options.held_out;
        if share <= 0.0 {
            return Ok(());
        }
        if self.photographs.len() < 2 {
            return Err(DataError::OnePhotograph { path: self.source.path().into() });
        }
        let number = |photograph: &PlannedPhotograph| {
            RandomStream::new(0, &format!("held out: {}", photograph.content)).uniform()
        };
        let mut order: Vec<(f64, usize)> = self.photographs.iter().map(number).zip(0..).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let below = order.iter().filter(|&&(number, _)| number < share).count();
        for &(_, place) in &order[..below.clamp(1, order.len() - 1)] {
            self.photographs[place].held_out = true;
        }
        Ok(())
    }
}
