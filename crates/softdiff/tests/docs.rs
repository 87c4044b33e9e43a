//! The documentation's links lead somewhere.

use std::path::Path;

#[test]
fn every_link_between_our_files_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for folder in ["docs", "docs/decisions"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        pages.extend(entries.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "md")));
    }
    let mut links = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.starts_with('#') {
                continue;
            }
            let target = page.parent().unwrap().join(link.split('#').next().unwrap());
            assert!(target.exists(), "{} links to {link}, which does not exist", page.display());
            links += 1;
        }
    }
    assert!(links > 3, "only {links} links found");
}
