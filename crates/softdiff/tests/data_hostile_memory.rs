//! Hostile data costs little memory: refusing a file takes at most 64 MiB beyond the file itself.

use hostile_data::Case;
use softdiff::data::{LoadOptions, Source, Split};
use std::path::Path;

mod counting;
mod forge;
#[allow(dead_code, unused_imports)] // The sound files are another test's.
mod hostile_data;

const MOST: usize = 64 << 20;

#[test]
fn refusing_a_hostile_file_takes_at_most_64_mib() {
    let sets = [hostile_data::pictures(), hostile_data::archives(), hostile_data::arrays(), hostile_data::tables()];
    let (mut greedy, mut cases) = (Vec::new(), 0);
    for Case { what, file, bytes, .. } in sets.into_iter().flatten() {
        let (refused, taken) = counting::taken(|| {
            Source::from_bytes(Path::new(file), bytes, Split::All)
                .and_then(|source| source.load(&LoadOptions::default(), &|_, _| {}))
        });
        assert!(refused.is_err(), "{what} was accepted");
        if taken > MOST {
            greedy.push(format!("{what}: {} MiB", taken >> 20));
        }
        cases += 1;
    }
    assert!(cases >= 85 && greedy.is_empty(), "{cases} cases\n{}", greedy.join("\n"));
}
