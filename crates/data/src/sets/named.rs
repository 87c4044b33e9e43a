//! Data that is known by a name, such as `cifar10`: where it is on this machine, and which published files it is made of.
//!
//! The data folder is `$SOFTDIFF_DATA`, else `data` in the cache folder. `softdiff data fetch NAME` puts the files there, and so
//! may anyone by hand.

mod catalogue;

use super::DataError;
use softdiff_engine::cache;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

pub use catalogue::{CIFAR10, FID_INCEPTION, NAMED};

/// Published files under one name.
#[derive(Debug)]
pub struct NamedData {
    /// What commands and recipes call it.
    pub name: &'static str,
    /// What it is, in a line.
    pub what: &'static str,
    /// What to open in the data folder: a file, or the folder that the files are in.
    pub place: &'static str,
    /// The publisher's files.
    pub files: &'static [PublishedFile],
    /// Another form of the same content, which will do where they are not there.
    pub instead: Option<OtherForm>,
}

/// A file as its publisher has it.
#[derive(Debug)]
pub struct PublishedFile {
    /// Where it is in the data folder.
    pub path: &'static str,
    /// Where it is published; the first that answers is taken.
    pub addresses: &'static [&'static str],
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: &'static str,
}

/// The same content in other files.
#[derive(Debug)]
pub struct OtherForm {
    /// What to open in the data folder.
    pub place: &'static str,
    /// The files in the data folder, each with its SHA-256.
    pub files: &'static [(&'static str, &'static str)],
}

impl NamedData {
    /// The data of a name.
    pub fn find(name: &str) -> Option<&'static NamedData> {
        NAMED.iter().copied().find(|data| data.name == name)
    }

    /// Whether these are images, which commands take as data.
    pub fn is_images(&self) -> bool {
        self.name != FID_INCEPTION.name
    }

    /// Where it is in a data folder, if all of its files are there; whether they are whole is not looked at.
    pub fn in_folder(&self, folder: &Path) -> Option<PathBuf> {
        let there = |path: &str| folder.join(path).is_file();
        if self.files.iter().all(|file| there(file.path)) {
            return Some(folder.join(self.place));
        }
        let other = self.instead.as_ref().filter(|other| other.files.iter().all(|(path, _)| there(path)))?;
        Some(folder.join(other.place))
    }

    /// Where it is in the data folder of this user.
    pub fn located(&self) -> Option<PathBuf> {
        self.in_folder(&folder()?)
    }

    /// The command that provides it.
    pub fn command(&self) -> String {
        format!("softdiff data fetch {}", self.name)
    }
}

/// The data folder; none if the user has no home.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("SOFTDIFF_DATA")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(|| cache::file("data"))
}

/// Whether commands take this as the name of images.
pub fn is_name(path: &Path) -> bool {
    path.to_str().is_some_and(|path| known(path).is_some())
}

/// The file or folder that a path or a name means. What exists under the path comes first.
pub(super) fn resolve(path: &Path) -> Result<Cow<'_, Path>, DataError> {
    let named = path.to_str().and_then(known);
    match named {
        Some(data) if !path.exists() => {
            // The publisher's own name for it, in the current folder.
            let unpacked = data.instead.as_ref().map(|other| PathBuf::from(other.place)).filter(|place| place.exists());
            let found = data.located().or(unpacked);
            found.map(Cow::Owned).ok_or_else(|| DataError::NotFetched { path: path.into(), data })
        }
        _ => Ok(Cow::Borrowed(path)),
    }
}

/// Images by their name, or by that of their publisher's files.
fn known(path: &str) -> Option<&'static NamedData> {
    let path = path.trim_end_matches('/');
    let is_it = |data: &NamedData| {
        path == data.name || path == data.place || data.instead.as_ref().is_some_and(|other| path == other.place)
    };
    NAMED.iter().copied().find(|data| data.is_images() && is_it(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_places_and_sums_are_well_formed() {
        let is_sum = |sum: &str| sum.len() == 64 && sum.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        for data in NAMED {
            assert!(std::ptr::eq(NamedData::find(data.name).unwrap(), *data));
            for file in data.files {
                assert!(file.path.starts_with(data.place) && is_sum(file.sha256) && file.bytes > 0, "{}", file.path);
                let name = file.path.rsplit('/').next().unwrap();
                assert!(!file.addresses.is_empty() && file.addresses.iter().all(|address| address.ends_with(name)));
            }
            for (path, sum) in data.instead.iter().flat_map(|other| other.files) {
                assert!(is_sum(sum), "{path}");
            }
        }
    }

    #[test]
    fn data_is_there_when_all_of_its_files_are_and_other_forms_count() {
        let folder = tempfile::tempdir().unwrap();
        let touch = |path: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        let mnist = NamedData::find("mnist").unwrap();
        mnist.files[1..].iter().for_each(|file| touch(file.path));
        assert_eq!(mnist.in_folder(folder.path()), None);
        touch(mnist.files[0].path);
        assert_eq!(mnist.in_folder(folder.path()), Some(folder.path().join("mnist")));
        let unpacked = CIFAR10.instead.as_ref().unwrap();
        unpacked.files.iter().for_each(|(path, _)| touch(path));
        assert_eq!(CIFAR10.in_folder(folder.path()), Some(folder.path().join("cifar-10-batches-bin")));
        touch("cifar-10-binary.tar.gz");
        assert_eq!(CIFAR10.in_folder(folder.path()), Some(folder.path().join("cifar-10-binary.tar.gz")));
    }

    #[test]
    fn the_network_of_fid_is_no_data_set() {
        assert!(is_name(Path::new("cifar10")) && is_name(Path::new("cifar-10-batches-bin/")));
        assert!(!is_name(Path::new("fid-inception")) && !is_name(Path::new("cifar")));
    }
}
