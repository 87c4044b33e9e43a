//! What a run is known by: it goes on with the same recipe and the same images only.

use super::super::RunStore;
use super::PrepareError;
use crate::checkpoint::Identity;
use crate::corruption::Shape;
use crate::data::Dataset;
use crate::data::named::CIFAR10;
use crate::image::Quantise;
use crate::path::Path;
use crate::prior::Prior;
use crate::recipe::{Recipe, RecipeError};
use crate::run::fs::read_up_to;
use crate::run::{RunError, RunFolder};
use crate::schedule::Schedule;
use crate::spectrum::Spectrum;
use serde::{Deserialize, Serialize};
use softdiff_engine::hash::ContentHash;
use std::io::ErrorKind;
use std::path::Path as FilePath;

/// `data.json`: which images a run learns from.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct DataNote {
    source: String,
    images: usize,
    shape: Shape,
    hash: String,
}

/// Longest recipe or note that is read.
const LONGEST: u64 = 1 << 20;

/// The recipe without what may change when a run goes on: how long it is to be, and what changes no bit.
pub(super) fn lasting(recipe: &Recipe) -> String {
    let mut lasting = recipe.clone();
    lasting.train.steps = 1;
    lasting.train.recompute = false;
    lasting.data.crop = Some(lasting.data.load_options().transform.crop);
    lasting.sample.quantise = Quantise::default();
    // Runs that were begun when the built-in recipes named the unpacked folder.
    if let (true, Some(folder)) = (lasting.data.source == CIFAR10.name, &CIFAR10.instead) {
        lasting.data.source = folder.place.to_owned();
    }
    let text = lasting.to_toml();
    // Keys that runs begun before they existed do not have: whether `exif` changes the images is seen in their hash, the
    // others say what was so before.
    let absent = |line: &&str| !line.starts_with("exif = ") && !["start = 0.0", "centred = false"].contains(line);
    text.lines().filter(absent).map(|line| format!("{line}\n")).collect()
}

/// What the checkpoints of a run belong to; `custom` describes what the recipe does not.
pub(crate) fn of_run(
    recipe: &Recipe,
    custom: &str,
    schedule: Option<&Schedule>,
    prior: &Prior,
    spectrum: Option<&Spectrum>,
) -> Identity {
    let knots = schedule.map_or(String::new(), Schedule::to_json);
    let prior = prior.to_bytes().expect("a prior in memory can always be written");
    let spectrum = spectrum.map(|spectrum| spectrum.to_bytes().expect("a spectrum in memory can always be written"));
    let identity = Identity::of((lasting(recipe) + custom).as_bytes(), knots.as_bytes());
    identity.with_measurements(&prior, spectrum.as_deref())
}

/// What images say of the run that made them: the same for its checkpoints and for models that were exported from it, which may
/// be sampled in another way and do not say where the data were.
pub(crate) fn known_by(recipe: &Recipe, schedule: Option<&Schedule>, prior: &Prior) -> String {
    let text = lasting(&recipe.public());
    // [sample] is the last section.
    let trained = text.split("\n[sample]\n").next().unwrap_or_default();
    let knots = schedule.map_or(String::new(), Schedule::to_json);
    let prior = prior.to_bytes().expect("a prior in memory can always be written");
    ContentHash::of_parts([trained.as_bytes(), knots.as_bytes(), &prior].map(ContentHash::of)).hex()
}

/// Removes what an interrupted preparation with another recipe has left: it would be taken for this one's.
pub(super) fn start_over_if_another(recipe: &Recipe, custom: &str, store: RunStore) -> Result<(), PrepareError> {
    let (folder, fs) = (store.folder, store.folder.fs());
    let begun = folder.config().exists() || fs.list(&folder.checkpoints()).is_ok_and(|names| !names.is_empty());
    if begun {
        return Ok(());
    }
    let text = lasting(recipe) + custom;
    let note = folder.preparation();
    if read_up_to(fs.as_ref(), &note, LONGEST).is_ok_and(|bytes| bytes == text.as_bytes()) {
        return Ok(());
    }
    for file in [folder.schedule(), folder.prior(), folder.spectrum(), folder.data()] {
        remove(store, &file)?;
    }
    Ok(store.publish(&note, text.as_bytes())?)
}

/// The preparation is complete: the recipe's file says so.
pub(super) fn finish(store: RunStore) -> Result<(), PrepareError> {
    remove(store, &store.folder.preparation())
}

fn remove(store: RunStore, file: &FilePath) -> Result<(), PrepareError> {
    match store.folder.fs().remove_file(file) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(RunError::Io { action: "remove", path: file.into(), source }.into())
        }
        _ => Ok(()),
    }
}

/// A run that several ranks have begun may have more shares of a batch than the recipe says, and goes on with these. Gives
/// whether there is a run.
pub(in crate::train) fn adopt_shares(recipe: &mut Recipe, folder: &RunFolder) -> bool {
    let Ok(text) = read_up_to(folder.fs().as_ref(), &folder.config(), LONGEST) else { return false };
    let saved = Recipe::parse_saved(&String::from_utf8_lossy(&text), "config.toml", &[]);
    if let (1, Ok(saved)) = (recipe.train.accumulate, saved) {
        recipe.train.accumulate = saved.train.accumulate;
    }
    true
}

/// A path that no recipe describes, in words.
pub(super) fn described(path: &Path) -> String {
    let stages = path.stages().map(|(corruption, level)| format!("{} {level:?}\n", corruption.describe()));
    format!("{}{:?} about {}\n", stages.collect::<String>(), path.noise(), path.centre())
}

/// The recipe that a run was begun with, where there is one.
fn saved_recipe(folder: &RunFolder) -> Option<Result<Recipe, RecipeError>> {
    let bytes = read_up_to(folder.fs().as_ref(), &folder.config(), LONGEST).ok()?;
    let origin = folder.config().display().to_string();
    Some(Recipe::parse_saved(&String::from_utf8_lossy(&bytes), &origin, &[]))
}

/// A run goes on with the levels and the attention that it was begun with, where the recipe leaves the choice.
pub(super) fn adopt_network(recipe: &mut Recipe, folder: &RunFolder) {
    let automatic = recipe.network.multipliers.is_none() || recipe.network.attention.is_none();
    if automatic && let Some(Ok(before)) = saved_recipe(folder) {
        recipe.network.adopt(&before.network);
    }
}

/// A run goes on with its own recipe only; it may be made longer.
pub(super) fn check_recipe(recipe: &Recipe, folder: &RunFolder) -> Result<(), PrepareError> {
    let Some(before) = saved_recipe(folder) else { return Ok(()) };
    let other = |difference| PrepareError::OtherRecipe { folder: folder.root().into(), difference };
    let before = before.map_err(|error| other(error.to_string()))?;
    let mut recipe = recipe.clone();
    adopt_network(&mut recipe, folder);
    let (before, now) = (lasting(&before), lasting(&recipe));
    if before == now {
        return Ok(());
    }
    let differs = before.lines().zip(now.lines()).find(|(a, b)| a != b);
    Err(other(differs.map_or("it has other keys".into(), |(a, b)| format!("{a} there, {b} here"))))
}

/// Refuses other images than those that the run was begun with.
pub(super) fn check_data(
    recipe: &Recipe,
    dataset: &Dataset,
    shape: Shape,
    store: RunStore,
) -> Result<(), PrepareError> {
    let name = FilePath::new(&recipe.data.source).file_name().unwrap_or_default().to_string_lossy();
    let hash = dataset.hash().to_string();
    let note = DataNote { source: name.into_owned(), images: dataset.len(), shape, hash };
    let file = store.folder.data();
    let damaged = |problem: String| PrepareError::DataNote { file: file.clone(), problem };
    match read_up_to(store.folder.fs().as_ref(), &file, LONGEST) {
        Ok(bytes) => {
            let before: DataNote = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
            return match before.hash == note.hash || before.hash == dataset.old_hash() {
                true => Ok(()),
                false => Err(PrepareError::OtherData { source_name: note.source }),
            };
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(damaged(error.to_string())),
    }
    let mut text = serde_json::to_string_pretty(&note).expect("a note of plain fields is always JSON");
    text.push('\n');
    Ok(store.publish(&file, text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a version without the keys of today wrote for `recipe`.
    fn written_before(recipe: &Recipe) -> String {
        let absent = |line: &&str| ["exif", "start", "centred", "quantise"].iter().any(|key| line.starts_with(key));
        let text = recipe.to_toml().replace("crop = \"auto\"", "crop = \"none\"");
        let text = text.replace("source = \"cifar10\"", "source = \"cifar-10-batches-bin\"");
        text.lines().filter(|line| !absent(line)).map(|line| format!("{line}\n")).collect()
    }

    /// Checkpoints are known by the hash of the text that a version before wrote, with one step.
    fn hashed_before(recipe: &Recipe) -> String {
        written_before(recipe).replace(&format!("\nsteps = {}\n", recipe.train.steps), "\nsteps = 1\n")
    }

    #[test]
    fn a_run_may_go_on_longer_and_in_less_memory_but_not_otherwise() {
        let recipe = |set: &str| Recipe::builtin("quickstart", &[set.into()]).unwrap();
        let begun = lasting(&recipe("train.steps=5"));
        assert_eq!(begun, lasting(&recipe("train.recompute=true")));
        assert_ne!(begun, lasting(&recipe("train.rate=1")));
        assert!(recipe("train.recompute=true").to_toml().contains("recompute = true"));
        assert!(!recipe("train.steps=5").to_toml().contains("recompute"));
        assert_eq!(begun, lasting(&recipe("sample.quantise=truncate")));
        // A run of the version before path.centred: its text had no such key, and it is not centred.
        let vp = Recipe::builtin("vp", &[]).unwrap();
        let before = Recipe::parse_saved(&written_before(&vp), "config.toml", &[]).unwrap();
        assert_eq!(lasting(&before), hashed_before(&vp));
    }

    #[test]
    fn a_run_that_named_the_folder_of_cifar10_goes_on_by_the_built_in_recipe() {
        let now = Recipe::builtin("cifar10-small", &[]).unwrap();
        let before = Recipe::builtin("cifar10-small", &["data.source=cifar-10-batches-bin".into()]).unwrap();
        assert_eq!((now.data.source.as_str(), before.data.source.as_str()), ("cifar10", "cifar-10-batches-bin"));
        assert_eq!(lasting(&now), lasting(&before));
        assert!(lasting(&now).contains("source = \"cifar-10-batches-bin\""));
        let other = Recipe::builtin("cifar10-small", &["data.source=mnist".into()]).unwrap();
        assert_ne!(lasting(&now), lasting(&other));
    }

    #[test]
    fn a_simultaneous_run_of_before_keeps_its_stretched_curve_and_can_go_on() {
        let now = Recipe::builtin("simultaneous", &[]).unwrap();
        let before = Recipe::parse_saved(&written_before(&now), "config.toml", &[]).unwrap();
        let start = |recipe: &Recipe| match recipe.path {
            crate::recipe::PathSection::Simultaneous { start, .. } => start,
            _ => f64::NAN,
        };
        assert_eq!((start(&now), start(&before)), (0.18, 0.0));
        // What checkpoints were hashed with is the same text as ever.
        assert_eq!(lasting(&before), hashed_before(&now));
        assert_eq!(Recipe::parse_saved(&before.to_toml(), "config.toml", &[]).unwrap(), before);
    }

    #[test]
    fn a_run_of_a_version_without_orientation_and_usual_crop_goes_on() {
        let now = Recipe::builtin("quickstart", &[]).unwrap();
        let before = Recipe::parse_saved(&written_before(&now), "config.toml", &[]).unwrap();
        assert!(!before.data.exif);
        assert_eq!(lasting(&before), hashed_before(&now));
        assert_eq!(lasting(&before), lasting(&now));
        // With a size, the rule has changed: what was stretched is not mixed with what is cropped.
        let sized = |crop: &str| {
            let sets = ["data.size=16".to_owned(), format!("data.crop={crop}")];
            lasting(&Recipe::builtin("quickstart", &sets).unwrap())
        };
        assert_ne!(sized("none"), sized("auto"));
        assert_eq!(sized("centre"), sized("auto"));
    }
}
