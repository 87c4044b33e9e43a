//! One of several equal parts of a command's work, for jobs that do the others: `2/8`.

use crate::diagnostics::Failure;
use softdiff::ranks::Launch;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Part `number` of `count`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    number: usize,
    count: usize,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        let numbers = text.split_once('/').and_then(|(i, n)| Some((i.trim().parse().ok()?, n.trim().parse().ok()?)));
        match numbers {
            Some((number, count)) if (1..=count).contains(&number) => Ok(Part { number, count }),
            _ => Err(format!("{text:?} is no part; write 1/8 for the first of eight, to 8/8")),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl Part {
    /// That of a task of a Slurm array, whatever the number of its first.
    pub fn of_slurm_array() -> Option<Part> {
        Part::of_array(&|name| std::env::var(name).ok())
    }

    /// That of a process that a launcher started among others.
    pub fn of_launch(launch: &Launch) -> Part {
        Part { number: launch.rank + 1, count: launch.size }
    }

    fn of_array(variable: &dyn Fn(&str) -> Option<String>) -> Option<Part> {
        let number = |name: &str| variable(name).and_then(|text| text.parse::<usize>().ok());
        let (task, count) = (number("SLURM_ARRAY_TASK_ID")?, number("SLURM_ARRAY_TASK_COUNT")?);
        let number = task.checked_sub(number("SLURM_ARRAY_TASK_MIN").unwrap_or(0))? + 1;
        (count > 1 && number <= count).then_some(Part { number, count })
    }

    /// The places of this part among `total`: parts differ by one at most.
    pub fn range(&self, total: usize) -> Range<usize> {
        total * (self.number - 1) / self.count..total * self.number / self.count
    }

    /// The same, where it is not empty.
    pub fn of<'a, T>(&self, all: &'a [T], what: &str) -> Result<&'a [T], Failure> {
        match &all[self.range(all.len())] {
            [] => Err(Failure::new(format!("part {self} of {} {what} is empty", all.len()))
                .hint(format!("divide them into {} parts or fewer", all.len()))),
            part => Ok(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_any_number_make_the_whole() {
        for total in [0, 1, 7, 8, 1000] {
            for count in [1, 2, 3, 8] {
                let parts = (1..=count).flat_map(|number| Part { number, count }.range(total));
                assert!(parts.eq(0..total), "{count} parts of {total}");
            }
        }
        for wrong in ["", "3", "0/4", "5/4", "a/b", "1/0"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
        assert_eq!("2/8".parse::<Part>().unwrap().to_string(), "2/8");
    }

    #[test]
    fn a_task_of_a_slurm_array_has_its_part() {
        let of = |id: &str, count: &str, least: Option<&str>| {
            let variables = [
                ("SLURM_ARRAY_TASK_ID", Some(id)),
                ("SLURM_ARRAY_TASK_COUNT", Some(count)),
                ("SLURM_ARRAY_TASK_MIN", least),
            ];
            Part::of_array(&|name| variables.iter().find(|(known, _)| *known == name)?.1.map(str::to_owned))
        };
        assert_eq!(of("0", "4", Some("0")), Some(Part { number: 1, count: 4 }));
        assert_eq!(of("4", "4", Some("1")), Some(Part { number: 4, count: 4 }));
        assert_eq!(of("0", "1", Some("0")), None);
        assert_eq!(of("9", "4", None), None);
    }
}
