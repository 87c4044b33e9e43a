//! A model's folder from elsewhere: any of its files may be anything, and the manifest says that it is right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softdiff::Model;
use softdiff_fuzz::{files, replace, scratch, training};
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

static MODEL: LazyLock<(PathBuf, Vec<PathBuf>)> = LazyLock::new(|| {
    let (run, model) = (scratch("model-run"), scratch("model"));
    training().run_in(&run).expect("it trains");
    Model::open(&run, None).expect("it opens").export(&model, false).expect("it is exported");
    let files = files(&model);
    (model, files)
});

fuzz_target!(|bytes: &[u8]| {
    let (folder, files) = &*MODEL;
    let Some((file, before)) = replace(files, bytes) else { return };
    let manifest = folder.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap_or_default();
    if file != manifest {
        let hash = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
        let length = |bytes: &[u8]| format!("\"bytes\": {}", bytes.len());
        let right = text.replace(&hash(&before), &hash(&bytes[1..])).replace(&length(&before), &length(&bytes[1..]));
        fs::write(&manifest, right).expect("the manifest can be written");
    }
    if let Ok(model) = Model::open(folder, None) {
        let _ = model.sample(0..1).device("cpu").steps(2).values();
    }
    if file != manifest {
        fs::write(&manifest, text).expect("the manifest can be written");
    }
    fs::write(file, before).expect("the file can be written");
});
