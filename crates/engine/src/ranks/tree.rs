//! The sum of the shares of a batch, in the order of a fixed tree.
//!
//! Neighbours are added, then neighbouring sums, until one is left; where their number is odd, the last goes up as it is. A
//! rank has q 2^j neighbouring shares (q odd), which make q whole subtrees. What is above them is added in parts: every rank
//! has a part of the weights, gets all subtrees' gradients of these, adds them, and gives the sum to all. So each rank sends
//! and receives about twice q times the size of the gradient, whatever the number of ranks.

use super::Communicator;
use crate::error::Result;
use rayon::prelude::*;

/// Elements of one task.
const CHUNK: usize = 65_536;

/// Adds the gradients of one rank's shares as they come.
pub(crate) struct ShareSum {
    /// Levels of a whole subtree.
    height: u32,
    /// Left sums that wait for their right neighbours, by level.
    waiting: Vec<Option<Vec<f32>>>,
    subtrees: Vec<Vec<f32>>,
}

impl ShareSum {
    /// For a rank that has `shares` shares.
    pub fn new(shares: u64) -> ShareSum {
        let height = shares.trailing_zeros();
        ShareSum { height, waiting: vec![None; height as usize], subtrees: vec![] }
    }

    /// Adds the next share's gradient.
    pub fn add(&mut self, gradient: Vec<f32>) {
        let mut sum = gradient;
        for level in 0..self.height as usize {
            match self.waiting[level].take() {
                Some(mut left) => {
                    add(&mut left, &sum);
                    sum = left;
                }
                None => {
                    self.waiting[level] = Some(sum);
                    return;
                }
            }
        }
        self.subtrees.push(sum);
    }

    /// The sum over the shares of all ranks; afterwards the next batch's may be added.
    pub fn finish(&mut self, others: Option<&dyn Communicator>) -> Result<Vec<f32>> {
        let subtrees = std::mem::take(&mut self.subtrees);
        let Some(others) = others else { return Ok(up(subtrees)) };
        let length = subtrees[0].len();
        let part = length.div_ceil(others.size());
        let mut given = Vec::with_capacity(subtrees.len() * part * others.size());
        for to in 0..others.size() {
            for subtree in &subtrees {
                let values = &subtree[(to * part).min(length)..((to + 1) * part).min(length)];
                given.extend_from_slice(values);
                given.resize(given.len() + part - values.len(), 0.0);
            }
        }
        drop(subtrees);
        let had = others.exchange(&given)?;
        let sum = if part == 0 { vec![] } else { up(had.chunks_exact(part).map(<[f32]>::to_vec).collect()) };
        let mut whole = super::from_bytes(&others.gather(&super::to_bytes(&sum))?);
        whole.truncate(length);
        Ok(whole)
    }
}

/// Adds neighbours until one is left.
pub(super) fn up(mut sums: Vec<Vec<f32>>) -> Vec<f32> {
    while sums.len() > 1 {
        let mut next = Vec::with_capacity(sums.len().div_ceil(2));
        let mut pairs = sums.into_iter();
        while let Some(mut left) = pairs.next() {
            if let Some(right) = pairs.next() {
                add(&mut left, &right);
            }
            next.push(left);
        }
        sums = next;
    }
    sums.pop().unwrap_or_default()
}

fn add(left: &mut [f32], right: &[f32]) {
    left.par_chunks_mut(CHUNK).zip(right.par_chunks(CHUNK)).for_each(|(left, right)| {
        left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::ThreadRank;
    use crate::rng::Stream;
    use std::thread;

    const LENGTH: usize = 1003;

    /// Numbers of very different sizes, whose sum depends on the order.
    fn share(number: u64) -> Vec<f32> {
        let stream = Stream { seed: 1, purpose: 2, step: number as u32 };
        (0..LENGTH as u64).map(|i| stream.normal(2 * i) * (8.0 * stream.normal(2 * i + 1)).exp()).collect()
    }

    fn sum(shares: u64, size: usize) -> Vec<Vec<u32>> {
        thread::scope(|scope| {
            let ranks: Vec<_> = ThreadRank::all(size)
                .into_iter()
                .map(|rank| {
                    scope.spawn(move || {
                        let each = shares / size as u64;
                        let mut sum = ShareSum::new(each);
                        let own = rank.rank() as u64 * each..(rank.rank() as u64 + 1) * each;
                        own.for_each(|number| sum.add(share(number)));
                        let others: Option<&dyn Communicator> = if size > 1 { Some(&rank) } else { None };
                        let bits = sum.finish(others).unwrap().into_iter().map(f32::to_bits).collect();
                        // Not before all are done.
                        rank.gather(&[0]).unwrap();
                        bits
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn the_number_of_ranks_changes_no_bit() {
        for (shares, sizes) in [(8, &[2, 4, 8][..]), (12, &[2, 3, 4, 6, 12]), (5, &[5]), (6, &[2, 3, 6])] {
            let alone = sum(shares, 1).remove(0);
            for &size in sizes {
                for found in sum(shares, size) {
                    assert!(found == alone, "{shares} shares on {size} ranks");
                }
            }
        }
        // The order matters for these numbers, else this would show nothing.
        let mut in_turn = share(0);
        (1..8).for_each(|number| in_turn.iter_mut().zip(share(number)).for_each(|(sum, value)| *sum += value));
        assert_ne!(in_turn.into_iter().map(f32::to_bits).collect::<Vec<_>>(), sum(8, 1)[0]);
    }
}
