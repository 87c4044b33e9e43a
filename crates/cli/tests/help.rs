//! The help of every verb, word by word: each file of `help/` is what `softdiff VERB --help` prints.
//!
//! `INSTA_UPDATE=always cargo test --release -p softdiff-cli --test help` writes them anew; read them before committing them.

mod support;

use support::{done, softdiff, text};

/// The verbs below some words, by their help.
fn verbs(of: &[String]) -> Vec<Vec<String>> {
    let help = help(of);
    let Some((_, commands)) = help.split_once("\nCommands:\n") else { return vec![] };
    let listed = commands.lines().take_while(|line| !line.is_empty());
    let names = listed
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    let mut all = Vec::new();
    for name in names.filter(|name| *name != "help") {
        let verb = [of, &[name.to_owned()]].concat();
        all.push(verb.clone());
        all.extend(verbs(&verb));
    }
    all
}

fn help(of: &[String]) -> String {
    let words: Vec<&str> = of.iter().map(String::as_str).chain(["--help"]).collect();
    // Empty lines of long helps are indented.
    done(&words).lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn the_help_of_every_verb_is_the_one_on_file_and_has_an_example() {
    let all = verbs(&[]);
    assert!(all.len() >= 20, "{all:?}");
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path("help");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let _bound = settings.bind_to_scope();
    for verb in [vec![vec![]], all].concat() {
        let (found, name) = (help(&verb), if verb.is_empty() { "softdiff".to_owned() } else { verb.join("-") });
        assert!(verb.is_empty() || found.contains("Example"), "{name} has no example");
        insta::assert_snapshot!(name, found);
    }
}

#[test]
fn an_unknown_verb_or_flag_is_answered_with_the_nearest() {
    for (arguments, tip) in [(["trian", "--out"], "'train'"), (["sample", "--sampel=heun"], "'--sample")] {
        let failed = softdiff(&arguments);
        assert_eq!(failed.status.code(), Some(2));
        assert!(text(&failed.stderr).contains(tip), "{}", text(&failed.stderr));
        assert!(failed.stdout.is_empty());
    }
}
