//! Bad recipes: each file of `bad-recipes/` has the message that it must give beside it.
//!
//! Lines `# --set a.b=c` at the head of a recipe are laid over it as those of the command line.
//! `INSTA_UPDATE=always cargo test --release -p softdiff --test bad_recipes` writes the messages anew; read them before
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
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path("bad-recipes");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let _bound = settings.bind_to_scope();
    for file in &files {
        let (text, name, sets) = read(file);
        let error = Recipe::parse(&text, &name, &sets).expect_err(&name);
        insta::assert_snapshot!(file.file_stem().unwrap().to_string_lossy().as_ref(), error);
    }
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
            let shown = problem.to_string();
            let (_, excerpt) = shown.split_once(&format!("\n{line} | ")).expect(&name);
            let caret = excerpt.lines().nth(1).unwrap_or_default();
            let margin = line.to_string().chars().count() + 3;
            assert_eq!(caret.find('^').map(|at| at + 1 - margin), Some(column), "{name}: {problem}");
        }
    }
}

#[test]
fn a_long_line_is_cut_and_escape_codes_in_it_are_not_passed_on() {
    let long = "x".repeat(900_000);
    for bad in [
        format!("[train]\nbatch = \"{long}\"\n"),
        format!("[train]\nnotes = [\"{long}\n"),
        format!("[train]\n{long} = 1\n"),
        "[train]\nb\x1b[2Jatch = 1 \u{9b}31m\n".to_owned(),
        "[train]\nbatch = \"\u{9b}31m\ta\u{85}\u{7f}\"\n".to_owned(),
    ] {
        let error = Recipe::parse(&bad, "bad.toml", &[]).unwrap_err();
        for problem in &error.problems {
            let excerpt = problem.excerpt.as_ref().map_or("", |excerpt| &excerpt.text);
            assert!(excerpt.chars().count() <= 100 && !excerpt.contains(char::is_control), "{excerpt:?}");
        }
        let coloured = error.render(true);
        assert!(coloured.contains("\x1b[1m") && !coloured.contains("\x1b[2J"), "{coloured:?}");
        let plain = error.to_string();
        assert!(!plain.contains(|c: char| c.is_control() && c != '\n'), "{plain:?}");
    }
}
