//! `softdiff data fetch`: published data by its name, from its publisher into the data folder.

use crate::diagnostics::{Failure, Outcome};
use crate::progress::Progress;
use clap::Args;
use serde_json::{Value, json};
use softdiff::data::named::{self, NAMED, NamedData};
use softdiff::engine::suggest;
use softdiff::hint::Hint;
use softdiff_fetch::{FetchProgress, fetch};
use std::path::{Path, PathBuf};

const LIST: &str = "list";
const MB: u64 = 1_000_000;

const EXAMPLE: &str = "\
Example: see what there is, fetch CIFAR-10 and the network of FID, and use both.
  softdiff data fetch list
  softdiff data fetch cifar10 fid-inception
  softdiff data inspect cifar10
  softdiff eval images.npz --against cifar10

Files come from their publishers into the data folder: $SOFTDIFF_DATA, else data in the cache folder ($SOFTDIFF_CACHE, else
~/.cache/softdiff). A file gets its name when it is complete and its SHA-256 is the published one. Stopped half-way, the
same command goes on where it was. What is there already is verified and not fetched again.

SOFTDIFF_MIRROR=http://HOST/FOLDER fetches from a copy of a data folder instead; HTTPS_PROXY names a proxy.
Without a network, put the files into the data folder by hand: the message says which, and where.";

/// Fetch published data by its name: downloads, resumes, verifies.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Fetch {
    /// What to fetch: cifar10, fashion-mnist, mnist, fid-inception; list shows what is there.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

impl Fetch {
    pub fn run(self, json: bool) -> Outcome {
        let folder = named::folder().ok_or_else(|| {
            Failure::new("there is no home folder to put data into").hint("set SOFTDIFF_DATA to a folder for data")
        })?;
        if self.names == [LIST] {
            list(&folder, json);
            return Ok(());
        }
        // All names are looked at before the first is fetched.
        let wanted: Vec<_> = self.names.iter().map(|name| find(name)).collect::<Result<_, Failure>>()?;
        let mirror = std::env::var("SOFTDIFF_MIRROR").ok().filter(|mirror| !mirror.is_empty());
        let mut facts = Vec::new();
        for data in wanted {
            facts.push(one(data, &folder, mirror.as_deref())?);
        }
        if json {
            println!("{}", json!({ "folder": folder.display().to_string(), "data": facts }));
        }
        Ok(())
    }
}

fn find(name: &str) -> Result<&'static NamedData, Failure> {
    NamedData::find(name).ok_or_else(|| {
        let names = NAMED.iter().map(|data| data.name);
        Failure::new(format!("there is no published data called {name:?}")).hint(suggest::hint(name, names))
    })
}

fn one(data: &'static NamedData, folder: &Path, mirror: Option<&str>) -> Result<Value, Failure> {
    let mut shown: Option<(&str, Progress)> = None;
    let fetched = fetch(data, folder, mirror, &mut |progress| match progress {
        FetchProgress::Verifying(_) => {}
        FetchProgress::Replacing(file) => {
            eprintln!("warning: {} is not the published file, and is replaced", folder.join(file.path).display());
        }
        FetchProgress::Fetching(file, done) => {
            if shown.as_ref().is_none_or(|(path, _)| *path != file.path) {
                let before = (done / MB) as usize;
                eprintln!("fetching {}, {} MB{}", file.path, rounded(file.bytes), from(before));
                shown = Some((file.path, Progress::new(file.path, "MB").continuing(before)));
            }
            if let Some((_, progress)) = &shown {
                progress.update((done / MB) as usize, (file.bytes / MB) as usize);
            }
        }
    });
    drop(shown);
    let fetched = fetched.map_err(|error| {
        let hint = error.hint().unwrap_or_default().into_owned();
        Failure::new(error).hint(hint)
    })?;
    let place = fetched.place.display();
    match fetched.files.is_empty() {
        true => eprintln!("{} is there and verified: {place}", data.name),
        false => eprintln!("{} is fetched and verified: {place}", data.name),
    }
    let files: Vec<String> = fetched.files.iter().map(|file| file.display().to_string()).collect();
    Ok(json!({ "name": data.name, "place": place.to_string(), "fetched": files }))
}

fn from(before: usize) -> String {
    if before > 0 { format!(", from {before} MB on") } else { String::new() }
}

/// In MB; a small file has some, too.
fn rounded(bytes: u64) -> String {
    let digits = if bytes < MB { 3 } else { 0 };
    format!("{:.digits$}", bytes as f64 / MB as f64)
}

fn list(folder: &Path, json: bool) {
    let bytes = |data: &NamedData| data.files.iter().map(|file| file.bytes).sum::<u64>();
    let place = |data: &NamedData| data.in_folder(folder).map(|place: PathBuf| place.display().to_string());
    if json {
        let one = |data: &&NamedData| json!({ "name": data.name, "what": data.what, "bytes": bytes(data), "place": place(data) });
        let all: Vec<Value> = NAMED.iter().map(one).collect();
        println!("{}", json!({ "folder": folder.display().to_string(), "data": all }));
        return;
    }
    for data in NAMED {
        println!("{:<14} {}, {} MB", data.name, data.what, rounded(bytes(data)));
        match place(data) {
            Some(place) => println!("{:<14} {place}", ""),
            None => println!("{:<14} not here: {}", "", data.command()),
        }
    }
}
