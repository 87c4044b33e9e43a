//! `docs/paper-to-code.md` points at files and tests that exist.

use std::path::Path;

#[test]
fn every_file_and_test_named_in_the_paper_map_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let map = std::fs::read_to_string(root.join("docs/paper-to-code.md")).unwrap();
    let mut checked = 0;
    for name in map.split('`').skip(1).step_by(2).filter(|name| name.starts_with("crates/")) {
        let (file, test) = name.split_once("::").map_or((name, None), |(file, test)| (file, Some(test)));
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        if let Some(test) = test {
            assert!(text.contains(&format!("fn {test}()")), "{file} has no test {test}");
        }
        checked += 1;
    }
    assert!(checked > 40, "only {checked} names found");
}
