//! How many crops each photograph gives.

/// Shares `count` out in proportion to `weights`, at least 1 and at most `cap` each; `None` if that cannot be.
pub fn allot(count: usize, cap: usize, weights: &[u64]) -> Option<Vec<usize>> {
    let places = weights.len();
    let rest = count.checked_sub(places)?;
    let room = cap.checked_sub(1)?;
    if room.checked_mul(places).is_some_and(|all| all < rest) {
        return None;
    }
    // One each; the rest by weight, where those that would get more than the cap get the cap.
    let mut full = vec![false; places];
    loop {
        let left = (rest - room * full.iter().filter(|&&full| full).count()) as u128;
        let open = || (0..places).filter(|&place| !full[place]);
        // A weight of 0 counts as 1: nobody is left without.
        let weight = |place: usize| u128::from(weights[place].max(1));
        let total: u128 = open().map(weight).sum();
        let over: Vec<usize> = open().filter(|&place| left * weight(place) > room as u128 * total).collect();
        if over.is_empty() {
            let mut shares = vec![cap; places];
            open().for_each(|place| shares[place] = 1 + (left * weight(place) / total) as usize);
            // What rounding down left over goes to the largest remainders, the first among equals.
            let mut by_remainder: Vec<usize> = open().collect();
            by_remainder.sort_by_key(|&place| (std::cmp::Reverse(left * weight(place) % total), place));
            let given: usize = shares.iter().sum();
            by_remainder.into_iter().take(count - given).for_each(|place| shares[place] += 1);
            return Some(shares);
        }
        over.into_iter().for_each(|place| full[place] = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_weights_up_to_the_cap_and_add_up() {
        assert_eq!(allot(103, 100, &[1, 2, 7]), Some(vec![11, 21, 71]));
        assert_eq!(allot(103, 50, &[1, 2, 7]), Some(vec![18, 35, 50]));
        assert_eq!(allot(5, 5, &[0, 0]), Some(vec![3, 2]));
        for count in 7..=70 {
            let shares = allot(count, 10, &[1, 1000, 3, 0, 50, 2, 999]).unwrap();
            assert_eq!(shares.iter().sum::<usize>(), count);
            assert!(shares.iter().all(|&share| (1..=10).contains(&share)), "{shares:?}");
        }
    }

    #[test]
    fn what_cannot_be_shared_out_is_none() {
        assert_eq!(allot(2, 10, &[1, 1, 1]), None);
        assert_eq!(allot(31, 10, &[1, 1, 1]), None);
        assert_eq!(allot(3, 0, &[1]), None);
    }
}
