//! Bad recipes on the command line: exit code 2, all on standard error, nothing written.

use std::process::{Command, Output};

fn softdiff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_softdiff")).args(arguments).output().unwrap()
}

#[test]
fn a_bad_recipe_exits_with_2_and_shows_place_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (file, run) = (folder.path().join("mine.toml"), folder.path().join("run"));
    std::fs::write(&file, "[data]\nsource = \"pictures\"\n\n[train]\nbacth = 64\n").unwrap();
    let failed = softdiff(&["train", file.to_str().unwrap(), "--out", run.to_str().unwrap()]);
    let said = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(failed.status.code(), Some(2), "{said}");
    let expected =
        format!("error: {}:5:1: [train] has no key \"bacth\"\n  |\n5 | bacth = 64\n  | ^^^^^\n", file.display());
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.contains("hint: did you mean batch?"), "{said}");
    assert!(failed.stdout.is_empty() && !run.exists());
}

#[test]
fn a_slip_in_a_name_or_a_set_exits_with_2() {
    for (arguments, hint) in [
        (["train", "quikstart", "--out", "nowhere", "--dry-run"], "did you mean quickstart?"),
        (["train", "quickstart", "--out", "nowhere", "--set=train.batch=no"], "give a whole number from 1 to 65536"),
        (["train", "./no/such.toml", "--out", "nowhere", "--dry-run"], "give a recipe file"),
    ] {
        let failed = softdiff(&arguments);
        let said = String::from_utf8(failed.stderr).unwrap();
        assert_eq!(failed.status.code(), Some(2), "{said}");
        assert!(said.contains(hint), "{said}");
    }
}
