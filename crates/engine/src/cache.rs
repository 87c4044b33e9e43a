//! The user's cache folder: `$SOFTDIFF_CACHE`, else `softdiff` in `$XDG_CACHE_HOME`, `~/.cache` or `%LOCALAPPDATA%`.

use crate::atomic_file::{self, Output};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest wait for the lock; after it the file is written without.
const PATIENCE: Duration = Duration::from_secs(5);

/// The place of a file in the cache; none if the user has no home.
pub fn file(name: &str) -> Option<PathBuf> {
    Some(folder()?.join(name))
}

/// Writes a file of the cache; a cache that cannot be written is not an error.
pub fn store(name: &str, content: impl FnOnce(&mut Output) -> io::Result<()>) {
    if let Some(path) = file(name)
        && let Some(folder) = path.parent()
    {
        let made = std::fs::create_dir_all(folder);
        let _ = made.and_then(|()| atomic_file::write(&path, content));
    }
}

/// Replaces the text of a file of the cache by what `change` makes of it, under a lock, so that processes that do so at the same
/// time do not overwrite each other's changes.
pub fn update(name: &str, change: impl FnOnce(&str) -> String) {
    if let Some(path) = file(name) {
        let _ = update_file(&path, change);
    }
}

fn update_file(path: &Path, change: impl FnOnce(&str) -> String) -> io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    let lock = File::options().create(true).truncate(false).write(true).open(path.with_extension("lock"))?;
    let begun = Instant::now();
    while lock.try_lock().is_err() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = change(&std::fs::read_to_string(path).unwrap_or_default());
    atomic_file::write(path, |file| file.write_all(text.as_bytes()))
}

/// The folder itself; none if the user has no home.
pub fn folder() -> Option<PathBuf> {
    folder_by(|variable| std::env::var_os(variable))
}

fn folder_by(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from);
    path("SOFTDIFF_CACHE").or_else(|| {
        let home = || Some(path("HOME")?.join(".cache"));
        let base = path("XDG_CACHE_HOME").or_else(home).or_else(|| path("LOCALAPPDATA"))?;
        Some(base.join("softdiff"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_write_at_the_same_time_is_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/choices.txt");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for line in 0..10 {
                        update_file(path, |text| format!("{text}{writer} {line}\n")).unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), 80);
    }

    #[test]
    fn the_cache_is_where_the_user_wants_it_or_where_caches_are() {
        let set = |variables: &[(&str, &str)]| {
            folder_by(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
        };
        let (home, base, own) = (("HOME", "/home/me"), ("XDG_CACHE_HOME", "/caches"), ("SOFTDIFF_CACHE", "/own"));
        assert_eq!(set(&[home, base, own]), Some("/own".into()));
        assert_eq!(set(&[home, base]), Some("/caches/softdiff".into()));
        assert_eq!(set(&[home]), Some("/home/me/.cache/softdiff".into()));
        assert_eq!(set(&[("LOCALAPPDATA", "/windows")]), Some("/windows/softdiff".into()));
        assert_eq!(set(&[]), None);
    }
}
