//! Opening files that someone else may have made: regular files only, so that nothing blocks and nothing is endless.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Opens a file to read, through symbolic links. A pipe, a device or a folder is an error.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path, 0)
}

/// Opens a file of a run or model folder: the same, and a symbolic link is an error too.
pub fn open_unlinked(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    refuse_link(path)?;
    #[cfg(unix)]
    return open_with(options, path, libc::O_NOFOLLOW);
    #[cfg(not(unix))]
    open_with(options, path, 0)
}

/// A symbolic link in place of a file or folder of a run or model is an error.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    match path.is_symlink() {
        true => {
            Err(io::Error::new(ErrorKind::InvalidInput, "it is a symbolic link, which a run or model may not have"))
        }
        false => Ok(()),
    }
}

fn open_with(options: &mut OpenOptions, path: &Path, flags: i32) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A pipe without a writer is opened at once, and then refused.
        options.custom_flags(flags | libc::O_NONBLOCK);
    }
    #[cfg(not(unix))]
    let _ = flags;
    let file = options.open(path)?;
    let kind = file.metadata()?;
    match kind.is_file() {
        true => Ok(file),
        false if kind.is_dir() => Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder")),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "it is a pipe or a device, not a file")),
    }
}

/// Reads a whole file, through symbolic links; one of more than `limit` bytes is an error.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    if file.metadata()?.len() > limit {
        return Err(too_large(limit));
    }
    read_to_end(file, limit)
}

/// The same for a text.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not text in UTF-8"))
}

/// All of an open file; more than `limit` bytes are an error.
pub fn read_to_end(file: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_large(limit));
    }
    Ok(bytes)
}

/// The error of a file with more than `limit` bytes.
pub fn too_large(limit: u64) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("it has more than the {limit} bytes that such a file may have"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_files_are_opened_and_none_is_waited_for() {
        let folder = std::env::temp_dir().join(format!("softdiff-regular-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let (file, link, pipe) = (folder.join("file"), folder.join("link"), folder.join("pipe"));
        fs::write(&file, "12345").unwrap();
        symlink(&file, &link).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(read(&link, 5).unwrap(), b"12345");
        assert!(read(&file, 4).unwrap_err().to_string().contains("more than the 4 bytes"));
        for (path, problem) in [(&pipe, "a pipe or a device"), (&folder, "folder"), (&"/dev/zero".into(), "a device")] {
            assert!(open(path).unwrap_err().to_string().contains(problem), "{}", path.display());
        }
        let unlinked = |path| open_unlinked(OpenOptions::new().read(true), path);
        assert!(unlinked(&file).is_ok());
        assert!(unlinked(&link).unwrap_err().to_string().contains("symbolic link"));
        assert!(unlinked(&pipe).is_err());
        assert!(open_unlinked(OpenOptions::new().append(true).create(true), &link).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
