//! Published data by its name.

use crate::error::with_hint;
use crate::progress::Progress;
use crate::worker;
use pyo3::prelude::*;
use softdiff::data::named::{self, NAMED, NamedData};
use softdiff::engine::suggest;
use softdiff::hint::Hint;
use softdiff_fetch::FetchProgress;
use std::path::PathBuf;

const MB: u64 = 1_000_000;

/// Fetches published data from its publisher into the data folder, as `softdiff data fetch` does: what is there is verified and not
/// fetched again, and what was interrupted goes on. Everything that takes images then knows it by its name.
///
/// Args:
///     name: "cifar10", "fashion-mnist", "mnist", or "fid-inception", the network of FID.
///     progress: whether to show a bar.
///
/// Returns:
///     Where it is, a pathlib.Path. The environment variables SOFTDIFF_DATA and SOFTDIFF_MIRROR name the data folder and another
///     server.
#[pyfunction]
#[pyo3(signature = (name, *, progress=true))]
pub fn fetch(py: Python<'_>, name: &str, progress: bool) -> PyResult<PathBuf> {
    let known = || suggest::hint(name, NAMED.iter().map(|data| data.name));
    let unknown = || with_hint(&format!("there is no published data called {name:?}"), Some(&known()));
    let data = NamedData::find(name).ok_or_else(unknown)?;
    let homeless =
        || with_hint("there is no home folder to put data into", Some("set SOFTDIFF_DATA to a folder for data"));
    let folder = named::folder().ok_or_else(homeless)?;
    let mirror = std::env::var("SOFTDIFF_MIRROR").ok().filter(|mirror| !mirror.is_empty());
    let progress = Progress::new(py, progress)?;
    let result = worker::run(py, |worker| {
        softdiff_fetch::fetch(data, &folder, mirror.as_deref(), &mut |event| {
            if let FetchProgress::Fetching(file, done) = event {
                progress.update(worker, file.path, "MB", ((done / MB) as usize, (file.bytes / MB) as usize));
            }
            worker.unwind_if_ended();
        })
    });
    progress.close(py)?;
    let fetched = result?.map_err(|error| with_hint(&error.to_string(), error.hint().as_deref()))?;
    Ok(fetched.place)
}
