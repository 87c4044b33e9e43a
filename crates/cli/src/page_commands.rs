//! Every command that a page or a help quotes is one that this program takes.

#[path = "../tests/support/docs.rs"]
mod docs;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Whether words stand for what a reader puts in their place: `RUN`, `DATA`, `...`.
fn is_placeholder(word: &str) -> bool {
    let stands = word.chars().any(|c| c.is_ascii_uppercase()) && !word.chars().any(|c| c.is_ascii_lowercase());
    stands || word.contains("...") || word.starts_with('$')
}

/// What is wrong with a command.
fn problem(words: &[String]) -> Option<String> {
    let words = words.iter().filter(|word| !word.starts_with('$') && *word != "...");
    let error = crate::arguments().try_get_matches_from(words).err()?;
    let invalid = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => value.clone(),
        _ => String::new(),
    };
    match error.kind() {
        // Prose may name a command without all that it needs.
        ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelp => None,
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => None,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation if invalid.is_empty() || is_placeholder(&invalid) => None,
        _ => Some(error.to_string()),
    }
}

#[test]
fn every_command_that_a_page_or_a_help_quotes_is_understood() {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for (name, page) in docs::pages() {
        all.extend(docs::commands(&page).into_iter().map(|words| (name.clone(), words)));
    }
    for folder in ["crates/cli/tests/help", "recipes"] {
        for entry in std::fs::read_dir(docs::sources().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "snap" || extension == "toml") {
                let text = std::fs::read_to_string(&path).unwrap();
                let line = |line: &str| {
                    line.trim_start_matches('#').trim_start().trim_start_matches("Command:").trim_start().to_owned()
                };
                let page = format!("\n```\n{}\n```", text.lines().map(line).collect::<Vec<_>>().join("\n"));
                all.extend(docs::commands(&page).into_iter().map(|words| (path.display().to_string(), words)));
            }
        }
    }
    assert!(all.len() > 150, "only {} commands were found", all.len());
    let wrong: Vec<String> = all
        .iter()
        .filter_map(|(place, words)| problem(words).map(|why| format!("{place}: {}\n{why}", words.join(" "))))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_with_a_misspelt_flag_is_found_out() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for wrong in ["softdiff sample RUN --sampel heun", "softdiff smaple RUN", "softdiff sample RUN --steps many"] {
        assert!(problem(&words(wrong)).is_some(), "{wrong}");
    }
    for right in ["softdiff sample RUN --steps N", "softdiff train", "softdiff sample RUN $COMMON"] {
        assert_eq!(problem(&words(right)), None);
    }
}
