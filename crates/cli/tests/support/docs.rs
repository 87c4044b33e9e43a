//! The commands in the project's pages.
#![allow(dead_code)] // Each user takes a part of it.

use std::path::{Path, PathBuf};

/// The folder of the sources.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every page, as its path from the sources and its text.
pub fn pages() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned(), "python/README.md".to_owned()];
    for folder in ["docs", "docs/decisions"] {
        let entries = std::fs::read_dir(sources().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        let pages = entries.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".md"));
        names.extend(pages.map(|name| format!("{folder}/{name}")));
    }
    for model in std::fs::read_dir(sources().join("models")).unwrap() {
        names.push(format!("models/{}/README.md", model.unwrap().file_name().to_str().unwrap()));
    }
    names.sort();
    let text = |name: String| (name.clone(), std::fs::read_to_string(sources().join(name)).unwrap());
    names.into_iter().map(text).collect()
}

/// A page without its blocks of code, and the blocks that are shell commands.
pub fn prose_and_commands(page: &str) -> (String, Vec<String>) {
    let (mut prose, mut blocks) = (String::new(), Vec::new());
    for (index, part) in page.split("\n```").enumerate() {
        let (first, rest) = part.split_once('\n').unwrap_or((part, ""));
        if index % 2 == 0 {
            prose.push_str(part);
        } else if ["", "sh"].contains(&first) {
            blocks.push(rest.replace("cargo run --release -- ", "softdiff "));
        }
    }
    (prose, blocks)
}

/// The words of every command of this program in a page: those in blocks, and those that prose quotes.
pub fn commands(page: &str) -> Vec<Vec<String>> {
    let (prose, blocks) = prose_and_commands(page);
    let quoted = prose.split('`').skip(1).step_by(2).map(|code| code.replace('\n', " "));
    let lines: Vec<String> =
        blocks.iter().flat_map(|b| b.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let all = lines.into_iter().chain(quoted);
    let words = all
        .map(|line| line.split_whitespace().take_while(|w| !["#", "|", ">"].contains(w)).map(str::to_owned).collect());
    words.filter(|words: &Vec<String>| words.len() > 1 && words[0] == "softdiff").collect()
}
