//! Bad recipes: each file of `bad-recipes/` has the message that it must give beside it.
//!
//! Lines `# --set a.b=c` at the head of a recipe are laid over it as those of the command line.
//! `SOFTDIFF_BLESS=1 cargo test --release -p softdiff --test bad_recipes` writes the messages anew; read them before
//! committing them.

use softdiff::recipe::Recipe;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad-recipes");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|ending| ending == "toml")).collect();
    files.sort();
    files
}

/// The text of a recipe, its name, and its `--set`s.
fn read(file: &Path) -> (String, String, Vec<String>) {
    let text = std::fs::read_to_string(file).unwrap();
    let sets = text.lines().map_while(|line| line.strip_prefix("# --set ")).map(str::to_owned).collect();
    (text, file.file_name().unwrap().to_string_lossy().into_owned(), sets)
}

#[test]
fn every_bad_recipe_gives_the_message_written_beside_it() {
    let files = files();
    assert!(files.len() >= 40, "only {} bad recipes", files.len());
    let bless = std::env::var_os("SOFTDIFF_BLESS").is_some();
    let mut wrong = Vec::new();
    for file in &files {
        let (text, name, sets) = read(file);
        let error = match Recipe::parse(&text, &name, &sets) {
            Ok(_) => panic!("{name} is read as a sound recipe"),
            Err(error) => format!("{error}\n"),
        };
        let beside = file.with_extension("txt");
        if bless {
            std::fs::write(&beside, &error).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        if expected != error {
            wrong.push(format!("--- {name}, expected\n{expected}--- found\n{error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_problem_has_a_place_a_line_with_a_caret_and_a_remedy() {
    for file in files() {
        let (text, name, sets) = read(&file);
        let problems = Recipe::parse(&text, &name, &sets).unwrap_err().problems;
        for problem in problems {
            let hint = problem.hint.as_deref().unwrap_or_default();
            assert!(!hint.is_empty() && !problem.message.is_empty(), "{name}: {problem}");
            let Some((line, column)) = problem.line.zip(problem.column) else {
                // Only what is missing, and what a --set brings, has no line.
                assert!(problem.location == "--set" || problem.message.contains("missing"), "{name}: {problem}");
                continue;
            };
            assert_eq!(problem.location, format!("{name}:{line}:{column}"));
            let excerpt = problem.excerpt.as_deref().unwrap_or_default();
            let (shown, caret) = excerpt.split_once('\n').unwrap_or_default();
            assert!(shown.starts_with(&format!("{line} | ")) && caret.contains('^'), "{name}: {problem}");
            let margin = line.to_string().chars().count() + 3;
            assert_eq!(caret.find('^').map(|at| at + 1 - margin), Some(column), "{name}: {problem}");
        }
    }
}
