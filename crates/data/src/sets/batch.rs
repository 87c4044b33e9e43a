//! Which images a training step sees, as a pure function of (seed, step, slot): nothing to save, nothing to restore.

use super::{Dataset, Shuffled};
use crate::image::PixelValue;
use rayon::prelude::*;

/// Random numbers of the order of images share nothing with any others.
const PURPOSE_ORDER: u32 = 0x6461_7461;

/// The batches of a training run.
#[derive(Clone, Copy, Debug)]
pub struct Batches<'a> {
    dataset: &'a Dataset,
    /// Images in a batch.
    pub size: usize,
    /// The run's seed.
    pub seed: u64,
}

/// One batch: images as floats from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// NHWC, `u8 / 255`.
    pub x0: Vec<f32>,
    /// Which images they are.
    pub indices: Vec<usize>,
    /// Their classes, where known.
    pub labels: Option<Vec<u32>>,
}

impl<'a> Batches<'a> {
    /// The batches of `size` pictures for a seed.
    ///
    /// # Panics
    /// If the data set is empty.
    pub fn new(dataset: &'a Dataset, size: usize, seed: u64) -> Self {
        assert!(!dataset.is_empty(), "batches of an empty data set");
        Batches { dataset, size, seed }
    }

    /// The picture in place `slot` of step `step`. Every epoch sees every picture once, in an order of its own; a batch may
    /// reach from one epoch into the next.
    pub fn index(&self, step: u64, slot: usize) -> usize {
        let seen = step * self.size as u64 + slot as u64;
        self.order().at(seen, self.dataset.len() as u64) as usize
    }

    /// The order of the images, for a device that gathers them by itself.
    pub fn order(&self) -> Shuffled {
        Shuffled { image_size: self.dataset.picture_size(), seed: self.seed, purpose: PURPOSE_ORDER }
    }

    /// Gathers the batch of a step, on all cores; the result does not depend on their number.
    pub fn gather(&self, step: u64) -> Batch {
        let indices: Vec<usize> = (0..self.size).map(|slot| self.index(step, slot)).collect();
        let mut x0 = vec![0.0; self.size * self.dataset.picture_size()];
        x0.par_chunks_exact_mut(self.dataset.picture_size()).zip(&indices).for_each(|(out, &index)| {
            let picture = self.dataset.picture(index);
            out.iter_mut().zip(picture).for_each(|(out, sample)| *out = sample.unit() as f32);
        });
        let labels = self.dataset.labels().map(|labels| indices.iter().map(|&index| labels[index]).collect());
        Batch { x0, indices, labels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset(count: usize) -> Dataset {
        let pixels = (0..count * 2 * 3 * 3).map(|i| (i * 7) as u8).collect();
        Dataset::new(2, 3, 3, pixels, Some((0..count as u32).collect()), vec![])
    }

    #[test]
    fn every_epoch_sees_every_picture_once_in_its_own_order() {
        let dataset = dataset(101);
        let batches = Batches::new(&dataset, 8, 5);
        let seen: Vec<usize> = (0..303).map(|i| batches.index(i / 8, (i % 8) as usize)).collect();
        for epoch in seen.chunks(101) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..101));
        }
        assert_ne!(seen[..101], seen[101..202]);
    }

    #[test]
    fn a_batch_holds_the_pictures_that_it_says() {
        let dataset = dataset(50);
        let batches = Batches::new(&dataset, 64, 1);
        let batch = batches.gather(3);
        for (slot, (x0, &index)) in batch.x0.chunks_exact(18).zip(&batch.indices).enumerate() {
            let picture = dataset.picture(index);
            assert!(x0.iter().zip(picture).all(|(x, &sample)| *x == f32::from(sample) / 255.0));
            assert_eq!(batch.labels.as_ref().unwrap()[slot], index as u32);
        }
    }

    #[test]
    fn the_batch_does_not_depend_on_the_number_of_threads() {
        let dataset = dataset(50);
        let batches = Batches::new(&dataset, 96, 9);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| batches.gather(17))
        };
        assert_eq!(with(1), with(2));
        assert_eq!(with(1), with(7));
    }
}
