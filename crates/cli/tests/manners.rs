//! How the program behaves among others: pipes, colours, quiet, JSON, names that are no text.

mod support;

use serde_json::Value;
use std::process::Stdio;
use support::{Scratch, command, done, softdiff, text, tiny};

#[test]
fn json_is_one_object_on_standard_output_also_about_a_failure() {
    let listed: Value = serde_json::from_str(&done(&["recipe", "list", "--json"])).unwrap();
    assert!(listed["recipes"].as_array().unwrap().len() >= 9);
    let checked: Value = serde_json::from_str(&done(&["--json", "recipe", "check", "ve"])).unwrap();
    assert_eq!(checked["sound"], true);
    let failed = softdiff(&["recipe", "check", "quickstart", "--set", "train.bacth=1", "--json"]);
    assert_eq!(failed.status.code(), Some(2));
    let facts: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!((&facts["code"], &facts["problems"][0]["key"]), (&2.into(), &"train.bacth".into()));
    let failed = softdiff(&["sample", "no/such/run", "--json"]);
    assert_eq!(failed.status.code(), Some(1));
    let facts: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert!(facts["error"].as_str().unwrap().contains("is not a model") && facts["hint"].is_string(), "{facts}");
    assert!(text(&failed.stderr).starts_with("error: "));
}

#[test]
fn a_recipe_shown_is_a_recipe_and_its_explicit_form_too() {
    let scratch = Scratch::new("recipes");
    let file = scratch.path("mine.toml");
    for flags in [
        &["recipe", "show", "vp"][..],
        &["recipe", "show", "vp", "--resolved"],
        &["recipe", "show", "vp", "--set", "seed=3"],
    ] {
        std::fs::write(&file, done(flags)).unwrap();
        assert_eq!(done(&["recipe", "check", &file]), format!("{file} is sound\n"));
        // Only the name is the file's where the recipe has none.
        assert!(done(&["recipe", "show", &file]).contains("[path]"));
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    for arguments in
        [&["recipe", "list"][..], &["completions", "bash"], &["recipe", "show", "quickstart", "--json"], &["--help"]]
    {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Nobody reads.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    }
    // The same for standard error, which everything but data goes to.
    let mut child =
        command(&["recipe", "check", "nothing"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command(&["recipe", "list"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: cannot write to standard output"));
}

#[test]
fn colours_are_for_terminals_and_for_those_who_ask() {
    let said = |variables: &[(&str, &str)]| {
        let mut command = command(&["recipe", "check", "nothing"]);
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        text(&command.envs(variables.iter().copied()).output().unwrap().stderr)
    };
    let plain = said(&[]);
    assert!(plain.starts_with("error: ") && plain.contains("\nhint: "), "{plain}");
    let coloured = said(&[("CLICOLOR_FORCE", "1")]);
    assert!(coloured.starts_with("\x1b[1;31merror:\x1b[0m "), "{coloured}");
    for variables in
        [&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")][..], &[("CLICOLOR_FORCE", "0")], &[("CLICOLOR", "1")]]
    {
        assert_eq!(said(variables), plain, "{variables:?}");
    }
}

#[test]
fn quiet_says_nothing_and_verbose_says_more() {
    let scratch = Scratch::new("voices");
    let run = |name: &str, flag: &str| {
        let out = scratch.path(name);
        let output = softdiff(&tiny(&out, &[flag]));
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert_eq!(run("quiet", "--quiet"), "");
    assert!(run("verbose", "-v").contains("\ntook "));
    assert!(text(&softdiff(&["-q", "recipe", "check", "nothing"]).stderr).starts_with("error: "));
    assert_eq!(softdiff(&["-q", "-v", "recipe", "list"]).status.code(), Some(2));
}

#[cfg(unix)]
#[test]
fn names_that_are_no_text_are_no_panic() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new("bytes");
    let odd = OsStr::from_bytes(b"caf\xe9.png");
    let folder = std::path::PathBuf::from(scratch.path("")).join(odd);
    std::fs::create_dir_all(&folder).unwrap();
    let verbs: [&[&str]; 7] = [
        &["corrupt"],
        &["data", "inspect"],
        &["sample"],
        &["schedule"],
        &["recipe", "check"],
        &["train", "quickstart", "--dry-run", "--out"],
        &["restore", "no/such/run"],
    ];
    for verb in verbs {
        let output = command(verb).arg(&folder).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{verb:?}: {said}");
        assert!(matches!(output.status.code(), Some(0..=2)), "{verb:?}: {said}");
    }
    // A picture of such a name is written and read again.
    let file = folder.join(odd);
    let picture = concat!(env!("CARGO_MANIFEST_DIR"), "/../softdiff/tests/golden/pictures/rgb.png");
    assert!(command(&["corrupt", picture, "--steps", "2", "--out"]).arg(&file).status().unwrap().success());
    assert!(
        command(&["corrupt", "--steps", "2", "--out", &scratch.path("b.png")]).arg(&file).status().unwrap().success()
    );
}

#[test]
fn completions_and_manual_pages_know_every_verb() {
    let scratch = Scratch::new("man");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = done(&["completions", shell]);
        assert!(script.contains("restore") && script.contains("super-resolve"), "{shell}");
    }
    let folder = scratch.path("pages");
    done(&["man", "--out", &folder]);
    for page in ["softdiff.1", "softdiff-train.1", "softdiff-recipe-check.1"] {
        assert!(text(&support::bytes(format!("{folder}/{page}"))).starts_with(".ie"), "{page}");
    }
}

#[test]
fn a_number_below_zero_is_refused_by_the_option_it_is_given_to() {
    for (arguments, option) in [
        (&["sample", "run", "--guidance", "-1"][..], "--guidance <FACTOR>"),
        (&["sample", "run", "--guidance", "nan"], "--guidance <FACTOR>"),
        (&["sample", "run", "--guidance", "1e38"], "--guidance <FACTOR>"),
        (&["sample", "run", "--seeds", "-1"], "--seeds <SEEDS>"),
        (&["report", "run", "--samples", "-1"], "--samples <COUNT>"),
        (&["restore", "image.png", "--index", "-1"], "--index <N>"),
        (&["data", "prepare", "images", "--out", "x.npz", "--limit", "-1"], "--limit <N>"),
    ] {
        let failed = softdiff(arguments);
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(2), "{arguments:?}: {said}");
        let value = arguments.last().unwrap();
        assert!(said.contains(&format!("invalid value '{value}' for '{option}'")), "{arguments:?}: {said}");
    }
}
