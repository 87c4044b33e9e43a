//! Seeds as people write them: `7`, `0..64`, `10..=19`, `1,5,100..200`.

use std::fmt;
use std::str::FromStr;

/// The most seeds of one command.
const MOST: u64 = 10_000_000;

/// Seeds in the order they were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let number = |text: &str| {
                let problem = || format!("{part:?} is no seed from 0 to {}; write 7, 0..64 or 1,5,100..200", u64::MAX);
                text.trim().parse::<u64>().map_err(|_| problem())
            };
            let (first, last) = match part.split_once("..") {
                None => (number(part)?, Some(number(part)?)),
                Some((first, last)) => match last.strip_prefix('=') {
                    Some(last) => (number(first)?, Some(number(last)?)),
                    None => (number(first)?, number(last)?.checked_sub(1)),
                },
            };
            let Some(last) = last.filter(|&last| first <= last) else {
                return Err(format!("{part:?} is an empty range; the first seed comes first"));
            };
            if last - first >= MOST || seeds.len() as u64 + (last - first) >= MOST {
                return Err(format!("{text:?} are more than {MOST} seeds; make the images in several commands"));
            }
            seeds.extend(first..=last);
        }
        Ok(Seeds(seeds))
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|seed, next| seed.checked_add(1) == Some(*next));
        for (index, run) in runs.enumerate() {
            let (first, last) = (run[0], run[run.len() - 1]);
            f.write_str(if index > 0 { "," } else { "" })?;
            if first == last { write!(f, "{first}")? } else { write!(f, "{first}..={last}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_numbers_ranges_and_lists() {
        let read = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.0);
        assert_eq!(read("7"), Ok(vec![7]));
        assert_eq!(read("0..3"), Ok(vec![0, 1, 2]));
        assert_eq!(read("5..=6, 1"), Ok(vec![5, 6, 1]));
        assert_eq!(read("18446744073709551615"), Ok(vec![u64::MAX]));
        assert_eq!(read("18446744073709551614..=18446744073709551615"), Ok(vec![u64::MAX - 1, u64::MAX]));
        assert_eq!(read("0..10000000").map(|seeds| seeds.len()), Ok(10_000_000));
        for written in ["7", "0..=63", "5..=6,1", "3,1,100..=199"] {
            assert_eq!(written.parse::<Seeds>().unwrap().to_string(), written);
        }
        for bad in [
            "",
            "a",
            "3..3",
            "4..2",
            "-1",
            "1..",
            "..2",
            "1.5",
            "0..99999999999",
            "0..=10000000",
            "18446744073709551616",
            "0..6000000,0..6000000",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
