//! NVIDIA's libraries as `pip install nvidia-cudnn-cu13 nvidia-cuda-nvrtc nvidia-cublas` puts them: `nvidia/*/lib` in the folder of
//! the packages, where the system does not look.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Folders of packages that a Python interpreter has named.
static NAMED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Looks for libraries in this folder of Python packages too, from the next one on that is loaded.
pub fn add_python_packages(folder: PathBuf) {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner).push(folder);
}

/// The files that libraries of these names would be, in the packages of the interpreter and of the active environment.
pub(super) fn files(names: &[&str]) -> Vec<String> {
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os);
    let mut folders = NAMED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    folders.extend(environments.flat_map(|root| packages(Path::new(&root))));
    let folders: Vec<PathBuf> =
        folders.iter().flat_map(|folder| entries(&folder.join("nvidia"))).map(|package| package.join("lib")).collect();
    let mut found = Vec::new();
    for name in names.iter().filter(|name| !name.contains('/')) {
        let there = folders.iter().map(|folder| folder.join(name)).filter(|file| file.is_file());
        found.extend(there.filter_map(|file| file.to_str().map(str::to_owned)));
    }
    found
}

/// The folders of packages of an environment, `lib/python3.12/site-packages`.
fn packages(root: &Path) -> Vec<PathBuf> {
    let is_python = |folder: &PathBuf| {
        folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("python"))
    };
    let versions = entries(&root.join("lib")).into_iter().filter(is_python);
    versions.map(|version| version.join("site-packages")).collect()
}

/// What a folder holds, by name; nothing where it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_packages_are_found_newest_first() {
        let root = std::env::temp_dir().join(format!("softdiff-packages-{}", std::process::id()));
        let site = root.join("lib/python3.12/site-packages");
        for file in
            ["nvidia/cu13/lib/libcublas.so.13", "nvidia/cublas/lib/libcublas.so.12", "other/lib/libcublas.so.14"]
        {
            std::fs::create_dir_all(site.join(file).parent().unwrap()).unwrap();
            std::fs::write(site.join(file), "").unwrap();
        }
        assert_eq!(packages(&root), std::slice::from_ref(&site));
        add_python_packages(site.clone());
        let of_test: Vec<String> =
            files(&["libcublas.so.14", "libcublas.so.13", "libcublas.so.12", "/usr/lib/libcublas.so"])
                .into_iter()
                .filter(|file| file.starts_with(root.to_str().unwrap()))
                .collect();
        let wanted = ["nvidia/cu13/lib/libcublas.so.13", "nvidia/cublas/lib/libcublas.so.12"];
        assert_eq!(of_test, wanted.map(|file| site.join(file).to_str().unwrap().to_owned()));
        std::fs::remove_dir_all(root).unwrap();
    }
}
