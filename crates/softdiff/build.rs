//! Puts the model for photographs into the library, so that an installed program has it: a table of its files.

use std::path::Path;
use std::{env, fs};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/photos");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut table = String::new();
    // In a copy of this crate alone there is no model, and the table is empty.
    let mut files: Vec<_> = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.is_file()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        table.push_str(&format!("({name:?}, include_bytes!({:?})),\n", file.display().to_string()));
    }
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("photo_model.rs");
    fs::write(out, format!("&[\n{table}]\n")).expect("OUT_DIR can be written");
}
