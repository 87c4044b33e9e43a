//! The recipes inside the program, those of the folder `recipes/`.

use super::{Recipe, RecipeError};

macro_rules! builtin {
    ($($name:literal),*) => {
        &[$(($name, include_str!(concat!("../../../../recipes/", $name, ".toml")))),*]
    };
}

/// Names and texts.
pub const BUILTIN: &[(&str, &str)] = builtin!(
    "quickstart",
    "cifar10-blur",
    "cifar10-small",
    "photos",
    "celeba64-blur",
    "masking",
    "simultaneous",
    "cold",
    "ve",
    "vp",
    "sub-vp"
);

impl Recipe {
    /// The built-in recipe of that name with `sets` laid over it.
    pub fn builtin(name: &str, sets: &[String]) -> Result<Recipe, RecipeError> {
        match BUILTIN.iter().find(|(known, _)| *known == name) {
            Some((name, text)) => Recipe::parse(text, name, sets),
            None => {
                let hint = softdiff_engine::suggest::hint(name, BUILTIN.iter().map(|(known, _)| *known));
                let message = format!("there is no built-in recipe {}", softdiff_data::quote::quote(name));
                Err(RecipeError::whole("recipe", message, hint))
            }
        }
    }
}
