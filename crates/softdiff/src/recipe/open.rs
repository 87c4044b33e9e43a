//! Recipes from files, or by name.

use super::document::Document;
use super::reader::{Problems, Reader};
use super::{BUILTIN, MAX_BYTES, Recipe, RecipeError, SampleSection};
use softdiff_data::quote::quote;
use softdiff_engine::regular_file;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

impl Recipe {
    /// Reads a file.
    pub fn read(path: &Path, sets: &[String]) -> Result<Recipe, RecipeError> {
        let origin = path.display().to_string();
        Recipe::parse(&read_text(path, regular_file::open(path))?, &origin, sets)
    }

    /// Reads the `config.toml` of a run or model. Where an earlier version wrote it without a key that has been added since,
    /// it keeps the meaning it had: "simultaneous" without `start` begins its corruption at 0, "vp" and "sub-vp" without
    /// `centred` are not centred, and images are not turned by an EXIF orientation where `exif` is absent.
    pub fn saved(path: &Path, sets: &[String]) -> Result<Recipe, RecipeError> {
        let file = regular_file::open_unlinked(File::options().read(true), path);
        Recipe::parse_saved(&read_text(path, file)?, &path.display().to_string(), sets)
    }

    /// The same for a text.
    pub fn parse_saved(text: &str, origin: &str, sets: &[String]) -> Result<Recipe, RecipeError> {
        let document = Document::parse(text, origin, &[])?;
        let problems = Problems::new(&document);
        let reader = Reader::new(&document, &problems);
        let (section, data) = (reader.table("path"), reader.table("data"));
        let mut all = Vec::new();
        if !data.has("exif") {
            all.push("data.exif=false".to_owned());
        }
        let kind = section.text("kind");
        if kind.as_deref() == Some("simultaneous") && !section.has("start") {
            all.push("path.start=0".to_owned());
        }
        if matches!(kind.as_deref(), Some("vp" | "sub-vp")) && !section.has("centred") {
            all.push("path.centred=false".to_owned());
        }
        all.extend_from_slice(sets);
        Recipe::parse(text, origin, &all)
    }

    /// The same recipe with `sets` laid over it.
    pub fn with_sets(&self, sets: &[String]) -> Result<Recipe, RecipeError> {
        Recipe::parse(&self.to_toml(), &self.name, sets)
    }

    /// Its `[sample]` with `sets` laid over it. Keys of other sections are refused, for the model is as it was trained.
    pub fn sample_with(&self, sets: &[String]) -> Result<SampleSection, RecipeError> {
        let refuse = |message: String, hint: &str| Err(RecipeError::whole("--set", message, hint));
        for key in sets.iter().map(|set| set.split('=').next().unwrap_or_default().trim()) {
            if key != "sample" && !key.starts_with("sample.") {
                let hint = "give a key of [sample], such as sample.steps=40 (softdiff recipe keys lists them)";
                return refuse(format!("{} is no key of [sample]", quote(key)), hint);
            }
            if key == "sample.weights" {
                let hint = "choose the weights where the model is opened: --weights";
                return refuse("sample.weights has no effect here".into(), hint);
            }
        }
        Ok(self.with_sets(sets)?.sample)
    }

    /// The same without the locations of the data and of the weights it began with, which are private.
    pub(crate) fn public(&self) -> Recipe {
        let mut recipe = self.clone();
        for place in std::iter::once(&mut recipe.data.source).chain(&mut recipe.train.from) {
            if let Some(name) = Path::new(place).file_name() {
                *place = name.to_string_lossy().into_owned();
            }
        }
        recipe
    }

    /// A built-in recipe where `name` is the name of one, else a file.
    pub fn open(name: &str, sets: &[String]) -> Result<Recipe, RecipeError> {
        let known = BUILTIN.iter().any(|(known, _)| *known == name);
        let path = Path::new(name);
        // A bare word is a slip in a name, not in a path.
        if known || (!path.exists() && !name.contains(['/', '\\', '.'])) {
            return Recipe::builtin(name, sets);
        }
        Recipe::read(path, sets)
    }
}

/// The text of a recipe file of bearable size.
fn read_text(path: &Path, file: io::Result<File>) -> Result<String, RecipeError> {
    let fail = |message: String, hint: &str| RecipeError::whole(&path.display().to_string(), message, hint);
    let unreadable = |error: io::Error| fail(error.to_string(), "give a recipe file, or the name of a built-in one");
    let mut bytes = Vec::new();
    let file = file.map_err(unreadable)?;
    // One byte more than allowed: then the parser refuses it.
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|_| fail("this is no text in UTF-8".to_owned(), "is this a recipe?"))
}

/// A file's name without folder and ending.
pub(super) fn stem(origin: &str) -> String {
    let stem = Path::new(origin).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let stem: String = stem.unwrap_or_default().chars().filter(|c| !c.is_control()).take(80).collect();
    if stem.trim().is_empty() { "unnamed".to_owned() } else { stem }
}
