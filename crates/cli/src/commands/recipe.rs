//! `softdiff recipe`: the built-in recipes, and whether one's own is sound.

use crate::diagnostics::{Failure, Outcome};
use clap::{Args, Subcommand};
use serde_json::json;
use softdiff::recipe::{BUILTIN, KeyInfo, MAX_BYTES, Recipe, keys};
use softdiff_engine::regular_file;

const EXAMPLE: &str = "\
Example: begin with a built-in recipe, change it, and see whether it is sound
  softdiff recipe list
  softdiff recipe show cifar10-blur > mine.toml
  softdiff recipe keys train
  softdiff recipe check mine.toml --set train.batch=64";

/// Show the built-in recipes, or check one's own.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct RecipeVerb {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Name the built-in recipes, and say what each is for.
    #[command(after_help = "Example:\n  softdiff recipe list")]
    List,
    /// Print a recipe.
    #[command(after_help = "Example: a recipe as it is written, and with every key explicit
  softdiff recipe show quickstart
  softdiff recipe show quickstart --resolved --set train.steps=1000")]
    Show {
        /// The name of a built-in recipe, or a file.
        recipe: String,
        /// Print every key, also those that have their usual value.
        #[arg(long)]
        resolved: bool,
        /// Change a key, such as train.steps=5000; implies --resolved.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// List the keys of recipes with their defaults and what they mean.
    #[command(
        after_help = "Example: all of them, or those of a section\n  softdiff recipe keys\n  softdiff recipe keys train"
    )]
    Keys {
        /// A section, such as train or path.corruption.
        section: Option<String>,
    },
    /// Check a recipe for errors; lists all of them and exits with 2 if there are any.
    #[command(after_help = "Example:\n  softdiff recipe check mine.toml")]
    Check {
        /// The name of a built-in recipe, or a file.
        recipe: String,
        /// Change a key first, such as train.steps=5000.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
}

impl RecipeVerb {
    pub fn run(self, json: bool) -> Outcome {
        match self.verb {
            Verb::List => list(json),
            Verb::Show { recipe, resolved, set } => show(&recipe, resolved || !set.is_empty(), &set, json)?,
            Verb::Keys { section } => list_keys(section.as_deref(), json)?,
            Verb::Check { recipe, set } => {
                let sound = Recipe::open(&recipe, &set)?;
                if json {
                    println!("{}", json!({ "recipe": recipe, "name": sound.name, "sound": true }));
                } else {
                    println!("{recipe} is sound");
                }
            }
        }
        Ok(())
    }
}

fn list(json: bool) {
    if json {
        let all: Vec<_> = BUILTIN.iter().map(|(name, text)| json!({ "name": name, "what": what(text) })).collect();
        println!("{}", json!({ "recipes": all }));
        return;
    }
    let width = BUILTIN.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    BUILTIN.iter().for_each(|(name, text)| println!("{name:<width$}  {}", what(text)));
}

fn list_keys(section: Option<&str>, json: bool) -> Result<(), Failure> {
    let all = keys();
    if let Some(section) = section
        && !all.iter().any(|key| key.section == section)
    {
        let mut sections: Vec<&str> = all.iter().map(|key| key.section).collect();
        sections.dedup();
        let failure = Failure::new(format!("a recipe has no section {section:?}"));
        return Err(failure.hint(format!("give one of {}", sections.join(", "))));
    }
    let chosen: Vec<&KeyInfo> = all.iter().filter(|key| section.is_none_or(|section| key.section == section)).collect();
    if json {
        let facts = chosen.iter().map(|key| {
            json!({ "section": key.section, "key": key.name, "kinds": key.only, "default": key.default,
                    "expected": key.expected, "about": key.about })
        });
        println!("{}", json!({ "keys": facts.collect::<Vec<_>>() }));
        return Ok(());
    }
    let mut current = "";
    for key in chosen {
        if key.section != current {
            println!("{}[{}]", if current.is_empty() { "" } else { "\n" }, key.section);
            current = key.section;
        }
        let default = if key.default.is_empty() { String::new() } else { format!(" = {}", key.default) };
        let only = if key.only.is_empty() { String::new() } else { format!(" ({} only)", key.only.join(", ")) };
        println!("{}{default}{only}\n    {}\n    {}", key.name, key.about, key.expected);
    }
    Ok(())
}

fn show(name: &str, resolved: bool, sets: &[String], json: bool) -> Result<(), Failure> {
    let recipe = Recipe::open(name, sets)?;
    let builtin = BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
    let text = match (resolved, builtin) {
        (true, _) => recipe.to_toml(),
        (false, Some(text)) => text,
        // It was just read: what can go wrong went wrong there.
        (false, None) => regular_file::read_text(name.as_ref(), MAX_BYTES as u64)?,
    };
    if json {
        println!("{}", json!({ "recipe": recipe.name, "toml": text }));
    } else {
        print!("{text}");
    }
    Ok(())
}

/// The first sentence of what a recipe's head says.
fn what(text: &str) -> String {
    let comments = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let lines = comments.skip_while(|line| !line.starts_with("What:")).enumerate();
    let lines = lines.take_while(|(number, line)| *number == 0 || !line.split(' ').next().unwrap_or("").ends_with(':'));
    let joined = lines.map(|(_, line)| line).collect::<Vec<&str>>().join(" ");
    let said = joined.trim_start_matches("What:").trim();
    said.split_once(". ").map_or(said, |(first, _)| first).trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_recipe_says_what_it_is_for() {
        for (name, text) in BUILTIN {
            let said = what(text);
            assert!((15..300).contains(&said.len()) && !said.contains("Hardware"), "{name}: {said}");
        }
    }
}
