//! Corrupted images, made when they are needed: what is fitted to them takes passes over the data set, and no copy of it.

use crate::corruption::{CorruptionError, LinearMap, Shape};
use rayon::prelude::*;
use softdiff_engine::pixels::{PixelValue, to_unit};

/// Images of a chunk. A multiple of the depth at which products of matrices are added up (256), so that adding up chunk by
/// chunk gives every bit of the product of all images.
const CHUNK: usize = 256;
/// Images whose sum is taken at once in a mean.
const GROUP: usize = 1024;

/// The images `C x_0`.
#[derive(Clone, Copy)]
pub(super) struct Corrupted<'a, V> {
    pub shape: Shape,
    map: &'a LinearMap,
    clean: &'a [V],
}

impl<'a, V: PixelValue> Corrupted<'a, V> {
    pub fn new(shape: Shape, map: &'a LinearMap, clean: &'a [V]) -> Result<Self, CorruptionError> {
        shape.count(clean)?;
        Ok(Corrupted { shape, map, clean })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.clean.len() / self.shape.len()
    }

    /// Each of them, to be used by `each` with its part of `out`, which is as long for every image.
    pub fn for_each(&self, out: &mut [f64], each: impl Fn(&[f64], &mut [f64]) + Sync) -> Result<(), CorruptionError> {
        let parts = out.par_chunks_exact_mut((out.len() / self.count().max(1)).max(1));
        parts.zip(self.clean.par_chunks_exact(self.shape.len())).try_for_each(|(out, clean)| {
            each(&self.corrupt(clean)?, out);
            Ok(())
        })
    }

    /// All of them at once.
    pub fn all(&self) -> Result<Vec<f64>, CorruptionError> {
        let mut all = vec![0.0; self.clean.len()];
        self.for_each(&mut all, |image, out| out.copy_from_slice(image))?;
        Ok(all)
    }

    /// All of them in order, a few hundred at a time.
    pub fn chunks(&self) -> impl Iterator<Item = Result<Vec<f64>, CorruptionError>> {
        self.clean.chunks(CHUNK * self.shape.len()).map(|clean| Corrupted { clean, ..*self }.all())
    }

    /// Their mean, summed in groups whose order is fixed.
    pub fn mean(&self) -> Result<Vec<f64>, CorruptionError> {
        let zero = || vec![0.0; self.shape.len()];
        let add = |sum: &mut Vec<f64>, image: &[f64]| sum.iter_mut().zip(image).for_each(|(s, v)| *s += v);
        let sum_of = |group: &[V]| {
            group.chunks_exact(self.shape.len()).try_fold(zero(), |mut sum, clean| {
                add(&mut sum, &self.corrupt(clean)?);
                Ok(sum)
            })
        };
        let groups = self.clean.par_chunks(GROUP * self.shape.len());
        let groups = groups.map(sum_of).collect::<Result<Vec<_>, CorruptionError>>()?;
        let mut total = zero();
        groups.iter().for_each(|sum| add(&mut total, sum));
        let count = self.count().max(1) as f64;
        Ok(total.into_iter().map(|sum| sum / count).collect())
    }

    fn corrupt(&self, clean: &[V]) -> Result<Vec<f64>, CorruptionError> {
        self.map.apply(self.shape, &to_unit(clean))
    }
}
