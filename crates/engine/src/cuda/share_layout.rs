//! Where the sums of gradients lie, so that those that are ready together can be exchanged together while the backward pass goes on.

/// Sums begin at multiples of so many elements, and so do the parts of the ranks.
const GRAIN: usize = 64;

/// Gradients that are exchanged at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Their numbers.
    pub gradients: Vec<usize>,
    /// Their first element among the sums.
    pub begin: usize,
    /// Their elements, which the number of ranks divides.
    pub elements: usize,
    /// Commands of the step after which they are ready.
    pub ready: usize,
}

/// Where each gradient's sum begins, and the buckets in the order in which they are ready.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShareLayout {
    pub offsets: Vec<usize>,
    pub buckets: Vec<Bucket>,
    /// Elements in all.
    pub total: usize,
}

impl ShareLayout {
    /// Of gradients with so many elements that are ready after so many commands, in at most `buckets` buckets of about one size.
    pub fn new(gradients: &[(usize, usize)], buckets: usize, ranks: usize) -> ShareLayout {
        let mut order: Vec<usize> = (0..gradients.len()).collect();
        order.sort_by_key(|&number| gradients[number].1);
        let all: usize = gradients.iter().map(|(elements, _)| elements.next_multiple_of(GRAIN)).sum();
        let mut layout = ShareLayout { offsets: vec![0; gradients.len()], buckets: vec![], total: 0 };
        let (mut open, mut at, mut placed) = (Vec::new(), 0, 0);
        for number in order {
            layout.offsets[number] = at;
            let elements = gradients[number].0.next_multiple_of(GRAIN);
            (at, placed) = (at + elements, placed + elements);
            open.push(number);
            // True of the last one too.
            if placed * buckets >= all * (layout.buckets.len() + 1) {
                at = layout.close(std::mem::take(&mut open), gradients, ranks);
            }
        }
        layout
    }

    /// Ends a bucket; gives where the next one begins.
    fn close(&mut self, members: Vec<usize>, gradients: &[(usize, usize)], ranks: usize) -> usize {
        let (begin, last) = (self.total, members[members.len() - 1]);
        let end = self.offsets[last] + gradients[last].0;
        let elements = (end - begin).next_multiple_of(GRAIN * ranks);
        let ready = members.iter().map(|&number| gradients[number].1).max().unwrap_or(0);
        self.buckets.push(Bucket { gradients: members, begin, elements, ready });
        self.total = begin + elements;
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements and commands as a backward pass has them: the last parameters are ready first.
    fn gradients() -> Vec<(usize, usize)> {
        (0..40).map(|i| (1 + i * 37 % 5000, 1000 - i * 20)).collect()
    }

    #[test]
    fn every_gradient_has_a_place_of_its_own_in_its_bucket() {
        for (buckets, ranks) in [(1, 1), (1, 8), (8, 1), (8, 3), (100, 2)] {
            let (gradients, mut taken) = (gradients(), vec![]);
            let layout = ShareLayout::new(&gradients, buckets, ranks);
            for bucket in &layout.buckets {
                assert!(bucket.elements.is_multiple_of(GRAIN * ranks));
                for &number in &bucket.gradients {
                    let (begin, end) = (layout.offsets[number], layout.offsets[number] + gradients[number].0);
                    assert!(begin >= bucket.begin && end <= bucket.begin + bucket.elements);
                    assert!(begin.is_multiple_of(GRAIN) && gradients[number].1 <= bucket.ready);
                    taken.push((begin, end));
                }
            }
            taken.sort_unstable();
            assert!(taken.len() == gradients.len() && taken.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            assert!(taken[taken.len() - 1].1 <= layout.total);
            assert!(layout.buckets.len() <= buckets, "{} of {buckets}", layout.buckets.len());
            assert!(layout.buckets.windows(2).all(|pair| pair[0].begin + pair[0].elements == pair[1].begin));
        }
    }

    #[test]
    fn buckets_are_ready_one_after_the_other_and_of_about_one_size() {
        let layout = ShareLayout::new(&gradients(), 8, 2);
        assert!((6..=8).contains(&layout.buckets.len()));
        assert!(layout.buckets.windows(2).all(|pair| pair[0].ready < pair[1].ready));
        let usual = layout.total / layout.buckets.len();
        assert!(layout.buckets.iter().all(|bucket| bucket.elements < 2 * usual + 5000));
        assert_eq!(layout.buckets.last().unwrap().ready, 1000);
    }

    #[test]
    fn one_large_gradient_is_a_bucket() {
        let layout = ShareLayout::new(&[(10, 5), (1_000_000, 7), (10, 9)], 8, 4);
        let members: Vec<_> = layout.buckets.iter().map(|bucket| bucket.gradients.clone()).collect();
        assert_eq!(members, [vec![0, 1], vec![2]]);
    }
}
