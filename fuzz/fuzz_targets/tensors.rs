//! The files of a model one by one: prior, spectrum, schedule, and weights.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softdiff::Schedule;
use softdiff::engine::{Graph, Init, Params};
use softdiff::prior::Prior;
use softdiff::spectrum::Spectrum;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("fuzz");
    let _ = Prior::from_file(bytes, path);
    let _ = Spectrum::from_file(bytes, path);
    let _ = Schedule::from_file(bytes, path);
    let mut graph = Graph::new();
    graph.param("0.weight", [2, 3], Init::Normal { deviation: 1.0 }).expect("a valid parameter");
    let _ = Params::<f32>::zeros(&graph).read_safetensors(bytes);
});
