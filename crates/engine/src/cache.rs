//! The user's cache folder: `$SOFTDIFF_CACHE`, else `softdiff` in `$XDG_CACHE_HOME`, `~/.cache` or `%LOCALAPPDATA%`.

use crate::atomic_file::{self, Output};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

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
