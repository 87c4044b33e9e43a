//! The same tree on a device, where the gradients of a batch's shares come one after the other: which of the sums that wait a new
//! gradient is added to, and where the result goes, as a table that a kernel reads.
//!
//! The sums that wait lie in buffers by level, as in a binary counter. The last whole subtree comes where level 0 waited: it is
//! completed when no sum waits any more.

/// What is done with the gradient of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addition {
    /// The levels whose waiting sums are added to it, as bits, lowest first.
    pub levels: u32,
    /// The buffer that the sum goes to.
    pub to: u32,
}

/// The additions of a rank's shares.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Additions {
    /// One for each share.
    pub each: Vec<Addition>,
    /// Whole subtrees that are left, in the first buffers.
    pub subtrees: usize,
    /// The buffer of level 0.
    pub lowest: usize,
    /// Buffers in all.
    pub buffers: usize,
}

impl Additions {
    /// Of a rank with `shares` shares among others: whole subtrees stay apart, to be added with those of the other ranks.
    pub fn among_others(shares: u64) -> Additions {
        Additions::of(shares as u32, shares.trailing_zeros())
    }

    /// Of `shares` shares whose sum is wanted.
    pub fn alone(shares: u64) -> Additions {
        Additions::of(shares as u32, shares.next_power_of_two().trailing_zeros())
    }

    /// Subtrees have `height` levels.
    fn of(shares: u32, height: u32) -> Additions {
        let subtrees = shares.div_ceil(1 << height);
        let lowest = subtrees - 1;
        let addition = |share: u32| {
            let place = share & ((1 << height) - 1);
            let carried = (!place).trailing_zeros().min(height);
            let (subtree, last) = (share >> height, share + 1 == shares);
            match carried == height || last {
                // What is left when no share follows is added from the lowest level up.
                true => Addition { levels: place, to: subtree },
                false => Addition { levels: place & ((1 << carried) - 1), to: lowest + carried },
            }
        };
        let buffers = (lowest + height.max(1)) as usize;
        let each = (0..shares).map(addition).collect();
        Additions { each, subtrees: subtrees as usize, lowest: lowest as usize, buffers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::tree::{ShareSum, up};
    use crate::rng::Stream;

    fn share(number: u64) -> f32 {
        let stream = Stream { seed: 1, purpose: 2, step: number as u32 };
        stream.normal(0) * (8.0 * stream.normal(1)).exp()
    }

    /// What the kernel does: buffers of one value each, and no more of them than were asked for.
    fn on_device(additions: &Additions, first: u64) -> Vec<f32> {
        let mut buffers = vec![f32::NAN; additions.buffers];
        for (addition, number) in additions.each.iter().zip(first..) {
            let levels = (0..32).filter(|level| addition.levels >> level & 1 == 1);
            let sum = levels.fold(share(number), |sum, level| buffers[additions.lowest + level] + sum);
            buffers[addition.to as usize] = sum;
        }
        buffers.truncate(additions.subtrees);
        buffers
    }

    /// What the CPU does.
    fn on_host(shares: u64) -> u32 {
        let mut sum = ShareSum::new(shares);
        (0..shares).for_each(|number| sum.add(vec![share(number)]));
        sum.finish(None).unwrap()[0].to_bits()
    }

    #[test]
    fn shares_on_a_device_are_added_in_the_order_of_the_tree() {
        for shares in 1..=40 {
            let found = on_device(&Additions::alone(shares), 0);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].to_bits(), on_host(shares), "{shares} shares");
        }
    }

    #[test]
    fn the_subtrees_of_all_ranks_make_the_sum_of_one() {
        for (shares, ranks) in [(8, 1), (8, 2), (8, 4), (8, 8), (12, 2), (12, 4), (6, 3), (20, 5), (24, 2)] {
            let each = shares / ranks;
            let subtrees = (0..ranks).flat_map(|rank| on_device(&Additions::among_others(each), rank * each));
            let sum = up(subtrees.map(|subtree| vec![subtree]).collect())[0];
            assert_eq!(sum.to_bits(), on_host(shares), "{shares} shares on {ranks} ranks");
        }
    }

    #[test]
    fn a_power_of_two_of_shares_takes_one_buffer_for_each_doubling() {
        let buffers = [1, 2, 3, 4, 5, 8, 16].map(|shares| Additions::alone(shares).buffers);
        assert_eq!(buffers, [1, 1, 2, 2, 3, 3, 4]);
        assert_eq!(Additions::among_others(6).buffers, 3);
    }
}
