//! How much memory there is, and the refusal of what needs more.
//!
//! An allocation that fails ends the process without a word about what to do, and one that succeeds only on paper gets the
//! process killed later. So whatever may be large is estimated first, and [`require`] compares the estimate with what the
//! machine, the control group and the limit of the process leave.

use crate::hint::Hint;
use std::borrow::Cow;
use std::fmt;
#[cfg(target_os = "linux")]
use std::{fs, path::Path};

/// What needs less is not compared: looking costs more than it is worth.
const ALWAYS_FITS: u64 = 32 << 20;

/// The bytes that the process may take, in the environment: where no limit is known, or to leave memory to others.
pub const SETTING: &str = "SOFTDIFF_MEMORY";

/// What the memory is limited by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// The memory of the machine that is not in use.
    Machine,
    /// The limit of the control group (container, job of a cluster).
    ControlGroup,
    /// The limit on the address space of the process (`ulimit -v`, RLIMIT_AS).
    AddressSpace,
    /// The environment variable [`SETTING`].
    Setting,
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryLimit::Machine => "",
            MemoryLimit::ControlGroup => " in this control group",
            MemoryLimit::AddressSpace => " under ulimit -v",
            MemoryLimit::Setting => " by SOFTDIFF_MEMORY",
        })
    }
}

/// Something that does not fit into memory. Nothing was allocated for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} needs {} of memory, and {} are available{limit}", Size(*bytes), Size(*available))]
pub struct NotEnoughMemory {
    /// What was wanted, in words.
    pub what: String,
    /// How many bytes that takes.
    pub bytes: u64,
    /// How many there are.
    pub available: u64,
    /// Which limit is the tightest.
    pub limit: MemoryLimit,
    /// What to do about it.
    pub hint: String,
}

impl Hint for NotEnoughMemory {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(self.hint.as_str().into())
    }
}

/// Refuses what does not fit: `what` needs `bytes`, and `hint` says how it would need less.
pub fn require(bytes: u64, what: impl Into<String>, hint: impl Into<String>) -> Result<(), NotEnoughMemory> {
    if bytes <= ALWAYS_FITS {
        return Ok(());
    }
    match available() {
        (available, limit) if bytes > available => {
            Err(NotEnoughMemory { what: what.into(), bytes, available, limit, hint: hint.into() })
        }
        _ => Ok(()),
    }
}

/// Why a file of so many bytes cannot be mapped, where the limit on the address space is the reason.
pub(crate) fn beyond_address_space(bytes: u64) -> Option<NotEnoughMemory> {
    #[cfg(target_os = "linux")]
    if let Some(available) = address_space().filter(|&available| bytes > available) {
        let (what, hint) = ("mapping the file".into(), "raise ulimit -v".into());
        return Some(NotEnoughMemory { what, bytes, available, limit: MemoryLimit::AddressSpace, hint });
    }
    let _ = bytes;
    None
}

/// The bytes that this process may still allocate, and what limits them. Where that is not known (other systems than Linux,
/// without [`SETTING`]), all there could be.
pub fn available() -> (u64, MemoryLimit) {
    let limits = [
        (setting(), MemoryLimit::Setting),
        #[cfg(target_os = "linux")]
        (machine(), MemoryLimit::Machine),
        #[cfg(target_os = "linux")]
        (control_groups(), MemoryLimit::ControlGroup),
        #[cfg(target_os = "linux")]
        (address_space(), MemoryLimit::AddressSpace),
    ];
    let known = limits.into_iter().filter_map(|(bytes, limit)| Some((bytes?, limit)));
    known.min_by_key(|&(bytes, _)| bytes).unwrap_or((u64::MAX, MemoryLimit::Machine))
}

/// What [`SETTING`] leaves beside what is in use; pages of mapped files do not count.
fn setting() -> Option<u64> {
    let limit: u64 = std::env::var(SETTING).ok()?.parse().ok()?;
    #[cfg(target_os = "linux")]
    let used = kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "RssAnon:")?;
    #[cfg(not(target_os = "linux"))]
    let used = 0;
    Some(limit.saturating_sub(used))
}

/// A number of bytes for people: `41.2 GB`.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_000_000 => write!(f, "{:.1} kB", bytes / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} MB", bytes / 1e6),
            1_000_000_000..1_000_000_000_000 => write!(f, "{:.1} GB", bytes / 1e9),
            _ => write!(f, "{:.1} TB", bytes / 1e12),
        }
    }
}

/// What the machine can give without swapping.
#[cfg(target_os = "linux")]
fn machine() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// What RLIMIT_AS leaves beside what is mapped already.
#[cfg(target_os = "linux")]
fn address_space() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    // `unlimited` is no number.
    let limit: u64 = limit.split_whitespace().next()?.parse().ok()?;
    let mapped = kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmSize:")?;
    Some(limit.saturating_sub(mapped))
}

/// `1024 * number` of the line `key number kB`.
#[cfg(target_os = "linux")]
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let number = text.lines().find_map(|line| line.strip_prefix(key))?;
    number.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What the tightest control group leaves, of version 2 or 1.
#[cfg(target_os = "linux")]
fn control_groups() -> Option<u64> {
    const VERSION_2: [&str; 3] = ["memory.max", "memory.current", "inactive_file"];
    const VERSION_1: [&str; 3] = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"];
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let left = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        match controllers {
            "" => left_in(Path::new("/sys/fs/cgroup"), group, VERSION_2),
            _ if controllers.split(',').any(|name| name == "memory") => {
                left_in(Path::new("/sys/fs/cgroup/memory"), group, VERSION_1)
            }
            _ => None,
        }
    });
    left.min()
}

/// The least that a group below `root`, or one that it is in, leaves. In a container the group's own folder may not be seen,
/// and `root` is the container's.
#[cfg(target_os = "linux")]
fn left_in(root: &Path, group: &str, [limit, usage, cache]: [&str; 3]) -> Option<u64> {
    let group = Path::new(group.trim_start_matches('/'));
    let left = group.ancestors().filter_map(|group| {
        let folder = root.join(group);
        let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        // `max` is no number.
        let (limit, usage) = (number(limit)?, number(usage)?);
        // Pages of files that were read are given back when memory runs short.
        let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let cached = stat.lines().find_map(|line| line.strip_prefix(cache)?.trim().parse::<u64>().ok());
        Some(limit.saturating_sub(usage.saturating_sub(cached.unwrap_or(0))))
    });
    left.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers_and_the_remedy() {
        let error = require(u64::MAX / 2, "a batch of 16384 images", "give a smaller --batch");
        if cfg!(target_os = "linux") {
            let error = error.unwrap_err();
            assert!(
                error.to_string().starts_with("a batch of 16384 images needs 9223372.0 TB of memory, and "),
                "{error}"
            );
            assert_eq!(error.hint().as_deref(), Some("give a smaller --batch"));
            assert!(error.available > 0);
        }
        assert_eq!(require(1 << 20, "little", ""), Ok(()));
    }

    #[test]
    fn sizes_are_written_for_people() {
        let sizes = [0, 1500, 2_500_000, 41_240_000_000, 3_000_000_000_000];
        assert_eq!(sizes.map(|bytes| Size(bytes).to_string()), ["0.0 kB", "1.5 kB", "2.5 MB", "41.2 GB", "3.0 TB"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_tightest_control_group_counts_and_pages_of_files_do_not() {
        let root = std::env::temp_dir().join(format!("softdiff-groups-{}", std::process::id()));
        let group = root.join("outer/inner");
        fs::create_dir_all(&group).unwrap();
        let write = |folder: &Path, max: &str, current: &str, cached: &str| {
            fs::write(folder.join("memory.max"), max).unwrap();
            fs::write(folder.join("memory.current"), current).unwrap();
            fs::write(folder.join("memory.stat"), format!("anon 1\ninactive_file {cached}\n")).unwrap();
        };
        write(&group, "max\n", "700\n", "0");
        write(&root.join("outer"), "1000\n", "700\n", "100");
        let files = ["memory.max", "memory.current", "inactive_file"];
        assert_eq!(left_in(&root, "/outer/inner", files), Some(400));
        write(&group, "500\n", "700\n", "0");
        assert_eq!(left_in(&root, "/outer/inner", files), Some(0));
        assert_eq!(left_in(&root, "/elsewhere", files), None);
        fs::remove_dir_all(root).unwrap();
    }
}
