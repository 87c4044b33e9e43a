//! A recipe: TOML, its keys and values, and the text it is written as.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softdiff::Recipe;

fuzz_target!(|text: &str| {
    let _ = Recipe::parse_saved(text, "fuzz", &[]);
    if let Ok(recipe) = Recipe::parse(text, "fuzz", &[]) {
        let written = recipe.to_toml();
        let again = Recipe::parse(&written, "fuzz", &[]).expect("a written recipe can be read");
        assert_eq!(again.to_toml(), written);
    }
});
