//! From a recipe to a run: its data, schedule and prior, made once and kept in the run's folder.

use super::setup::{Preview, Setup, Watcher};
use crate::checkpoint::Identity;
use crate::corruption::Shape;
use crate::data::{DataError, Dataset, Source};
use crate::image::{Quantise, to_unit};
use crate::network::UNetConfig;
use crate::objective::{Precondition, Prediction, SPECTRUM_IMAGES, Weight, expected_loss};
use crate::path::{Path, PathError};
use crate::prior::{Prior, PriorError};
use crate::recipe::{BuildError, PriorSection, Recipe, TrainPrecision};
use crate::run::fs::read_up_to;
use crate::run::{RunError, RunFolder, RunLock};
use crate::sampler::{SamplerError, by_name};
use crate::schedule::{Schedule, ScheduleError, plan};
use crate::spectrum::{Spectrum, SpectrumError};
use serde::{Deserialize, Serialize};
use softdiff_engine::cuda::Numbers;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

/// Why a recipe could not be made into a run.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The folder holds a run of another recipe.
    #[error(
        "{} was begun with another recipe ({difference}); give another folder, or go on with `softdiff train --out {}` alone",
        folder.display(), folder.display()
    )]
    OtherRecipe {
        /// The run's folder.
        folder: PathBuf,
        /// The first key that differs.
        difference: String,
    },
    /// The data set has changed since.
    #[error(
        "the images of {source_name} are not those the run was begun with; put the old ones back, go on with `softdiff train --out` alone (a run of \
         an older version ignores EXIF orientation), or begin a new run"
    )]
    OtherData {
        /// What the data set is called.
        source_name: String,
    },
    /// A data set that cannot be read.
    #[error("{0}")]
    Data(#[from] DataError),
    /// A recipe that does not fit the images.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// A schedule that cannot be made.
    #[error("{0}")]
    Schedule(#[from] ScheduleError),
    /// A prior that cannot be fitted.
    #[error("{0}")]
    Prior(#[from] PriorError),
    /// A bad path.
    #[error("{0}")]
    Path(#[from] PathError),
    /// A bad sampler.
    #[error("{0}")]
    Sampler(#[from] SamplerError),
    /// A bad spectrum.
    #[error("{0}")]
    Spectrum(#[from] SpectrumError),
    /// The run's folder.
    #[error("{0}")]
    Run(#[from] RunError),
}

/// A run whose data, schedule and prior are there.
pub struct Prepared {
    /// The recipe.
    pub recipe: Recipe,
    /// The images.
    pub dataset: Dataset,
    /// The levels of corruption, where the path has some that were measured.
    pub schedule: Option<Schedule>,
    /// The path.
    pub path: Arc<Path>,
    /// p_1.
    pub prior: Prior,
    /// The losses to expect over time, where the objective's weight is balanced by them.
    pub expected: Option<Vec<f64>>,
    /// What the network predicts.
    pub prediction: Prediction,
    /// The network.
    pub network: UNetConfig,
    /// What checkpoints belong to.
    pub identity: Identity,
}

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

impl Prepared {
    /// Loads the data, and makes or reads back the schedule and the prior of the run in `folder`.
    pub fn new(
        recipe: Recipe,
        folder: &RunFolder,
        lock: &RunLock,
        watcher: &mut dyn Watcher,
        progress: &(dyn Fn(&'static str, &'static str, usize, usize) + Sync),
    ) -> Result<Prepared, PrepareError> {
        check_recipe(&recipe, folder)?;
        let source = Source::open_split(FilePath::new(&recipe.data.source), recipe.data.split)?;
        let loading = |done, total| progress("loading", "images", done, total);
        let dataset = source.load(&recipe.data.load_options(), &loading)?;
        let shape = Shape::new(dataset.height(), dataset.width(), dataset.channels());
        let network = recipe.network(shape)?;
        check_data(&recipe, &dataset, shape, folder, lock)?;
        let schedule = match read_schedule(folder)? {
            Some(schedule) => Some(schedule),
            None => {
                let measuring = |done, total| progress("scheduling", "distances", done, total);
                let made = make_schedule(&recipe, shape, &dataset, &source, &measuring)?;
                if let Some(schedule) = &made {
                    folder.publish(lock, &folder.schedule(), schedule.to_json().as_bytes())?;
                    watcher.note(&format!(
                        "schedule of {} levels from {} images, {:.4} to {:.4}",
                        schedule.knots.len(),
                        schedule.data.images,
                        schedule.knots.first().copied().unwrap_or(0.0),
                        schedule.knots.last().copied().unwrap_or(0.0)
                    ));
                }
                made
            }
        };
        let path = Arc::new(recipe.path(shape, schedule.as_ref())?);
        let prior = if folder.prior().exists() {
            folder.read_prior()?
        } else {
            let prior = make_prior(&recipe, &path, &dataset)?;
            let Ok(bytes) = prior.to_bytes() else { unreachable!("a prior can always be written") };
            folder.publish(lock, &folder.prior(), &bytes)?;
            watcher.note(&format!("prior: {}", recipe.prior.kind()));
            prior
        };
        let expected = match recipe.objective.weight {
            Weight::Balanced => Some(expected_loss(&path, &spread(&dataset, SPECTRUM_IMAGES))?),
            _ => None,
        };
        let spectrum = match recipe.objective.precondition {
            Precondition::Wiener => Some(make_spectrum(&recipe, &dataset, shape, folder, lock)?),
            Precondition::None => None,
        };
        let prediction = recipe.prediction(&path, spectrum.as_ref())?;
        let text = recipe.to_toml();
        folder.publish(lock, &folder.config(), text.as_bytes())?;
        let knots = schedule.as_ref().map(Schedule::to_json).unwrap_or_default();
        let identity = Identity::of(lasting(&recipe).as_bytes(), knots.as_bytes());
        Ok(Prepared { recipe, dataset, schedule, path, prior, expected, prediction, network, identity })
    }

    /// What the trainer needs.
    pub fn setup(&self) -> Result<Setup<'_>, PrepareError> {
        let Recipe { train, checkpoint, preview, sample, .. } = &self.recipe;
        let preview = match preview.every {
            Some(every) => Some(Preview {
                every,
                images: preview.images,
                sampler: by_name(&preview.sampler, &sample.options)?,
                sampling: sample.sampling_in(preview.steps)?,
            }),
            None => None,
        };
        Ok(Setup {
            dataset: &self.dataset,
            path: self.path.clone(),
            prior: &self.prior,
            network: self.network.clone(),
            from: train.from.as_ref().map(PathBuf::from),
            objective: self.recipe.objective,
            prediction: self.prediction.clone(),
            expected: self.expected.as_deref(),
            adam: self.recipe.adam(),
            seed: self.recipe.seed,
            steps: train.steps,
            batch: train.batch,
            accumulate: train.accumulate,
            recompute: train.recompute,
            stratified: train.stratified,
            mirror: self.recipe.data.mirror,
            numbers: numbers(train.precision),
            log_every: train.log_every,
            bins: train.bins,
            identity: self.identity.clone(),
            checkpoint_every: checkpoint.every,
            retention: checkpoint.retention(),
            best_by: (checkpoint.keep_best > 0).then(|| checkpoint.metric.clone()),
            preview,
        })
    }
}

/// How a GPU stores numbers under a recipe's precision.
pub fn numbers(precision: TrainPrecision) -> Numbers {
    match precision {
        TrainPrecision::F32 => Numbers::F32,
        TrainPrecision::Bf16 => Numbers::Bf16,
    }
}

/// The recipe without what may change when a run goes on: how long it is to be, and what changes no bit.
fn lasting(recipe: &Recipe) -> String {
    let mut lasting = recipe.clone();
    lasting.train.steps = 1;
    lasting.train.recompute = false;
    lasting.data.crop = Some(lasting.data.load_options().transform.crop);
    lasting.sample.quantise = Quantise::default();
    let text = lasting.to_toml();
    // Keys that runs begun before they existed do not have: whether `exif` changes the images is seen in their hash, the
    // others say what was so before.
    let absent = |line: &&str| !line.starts_with("exif = ") && !["start = 0.0", "centred = false"].contains(line);
    text.lines().filter(absent).map(|line| format!("{line}\n")).collect()
}

/// A run goes on with its own recipe only; it may be made longer.
fn check_recipe(recipe: &Recipe, folder: &RunFolder) -> Result<(), PrepareError> {
    let Ok(bytes) = read_up_to(folder.fs().as_ref(), &folder.config(), LONGEST) else { return Ok(()) };
    let text = String::from_utf8_lossy(&bytes);
    let other = |difference| PrepareError::OtherRecipe { folder: folder.root().into(), difference };
    let origin = folder.config().display().to_string();
    let before = Recipe::parse_saved(&text, &origin, &[]).map_err(|error| other(error.to_string()))?;
    let (before, now) = (lasting(&before), lasting(recipe));
    if before == now {
        return Ok(());
    }
    let differs = before.lines().zip(now.lines()).find(|(a, b)| a != b);
    Err(other(differs.map_or("it has other keys".into(), |(a, b)| format!("{a} there, {b} here"))))
}

fn check_data(
    recipe: &Recipe,
    dataset: &Dataset,
    shape: Shape,
    folder: &RunFolder,
    lock: &RunLock,
) -> Result<(), PrepareError> {
    let name = FilePath::new(&recipe.data.source).file_name().unwrap_or_default().to_string_lossy();
    let hash = softdiff_engine::hash::to_text(dataset.hash());
    let note = DataNote { source: name.into_owned(), images: dataset.len(), shape, hash };
    let file = folder.root().join("data.json");
    if let Ok(bytes) = read_up_to(folder.fs().as_ref(), &file, LONGEST) {
        return match serde_json::from_slice::<DataNote>(&bytes) {
            Ok(before) if before.hash == note.hash => Ok(()),
            _ => Err(PrepareError::OtherData { source_name: note.source }),
        };
    }
    let Ok(mut text) = serde_json::to_string_pretty(&note) else { unreachable!("a note is always JSON") };
    text.push('\n');
    Ok(folder.publish(lock, &file, text.as_bytes())?)
}

/// `count` images, or all there are, from everywhere in the data set.
fn spread(dataset: &Dataset, count: usize) -> Vec<f64> {
    let all = dataset.len();
    let count = count.min(all);
    (0..count).flat_map(|i| to_unit(dataset.picture(i * all / count))).collect()
}

fn read_schedule(folder: &RunFolder) -> Result<Option<Schedule>, PrepareError> {
    Ok(if folder.schedule().exists() { Some(Schedule::read(&folder.schedule())?) } else { None })
}

fn make_schedule(
    recipe: &Recipe,
    shape: Shape,
    dataset: &Dataset,
    source: &Source,
    progress: &crate::schedule::Progress<'_>,
) -> Result<Option<Schedule>, PrepareError> {
    if let Some(schedule) = recipe.schedule_file()? {
        return Ok(Some(schedule));
    }
    let Some(corruption) = recipe.corruption(shape)? else { return Ok(None) };
    let name = source.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let words = format!("{} {name}", source.format());
    let Some(mut request) = recipe.schedule_request(&*corruption, &words)? else { return Ok(None) };
    request.images = request.images.min(dataset.len());
    Ok(Some(plan(&*corruption, dataset.pixels(), &request, progress)?))
}

/// The spectrum of the images, from the run's folder or measured.
fn make_spectrum(
    recipe: &Recipe,
    dataset: &Dataset,
    shape: Shape,
    folder: &RunFolder,
    lock: &RunLock,
) -> Result<Spectrum, PrepareError> {
    /// Enough for the variance of every frequency to be known within 3 %.
    const IMAGES: usize = 4096;
    if let Some(spectrum) = folder.read_spectrum()? {
        return Ok(spectrum);
    }
    let images = spread(dataset, IMAGES);
    let spectrum = Spectrum::of_images(shape, &images, recipe.data.mirror).map_err(PathError::from)?;
    let Ok(bytes) = spectrum.to_bytes() else { unreachable!("a spectrum can always be written") };
    folder.publish(lock, &folder.spectrum(), &bytes)?;
    Ok(spectrum)
}

fn make_prior(recipe: &Recipe, path: &Path, dataset: &Dataset) -> Result<Prior, PrepareError> {
    let first = |images: &Option<usize>| {
        let count = images.map_or(dataset.len(), |images| images.min(dataset.len()));
        &dataset.pixels()[..count * dataset.picture_size()]
    };
    Ok(match &recipe.prior {
        PriorSection::Noise => Prior::noise(path)?,
        PriorSection::Data { images } => Prior::data(path, first(images), 1.0)?,
        PriorSection::Fitted { modes, components, images } => {
            Prior::fitted(path, first(images), *modes, *components, recipe.seed)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a version without the keys of today wrote for `recipe`.
    fn written_before(recipe: &Recipe) -> String {
        let absent = |line: &&str| ["exif", "start", "centred", "quantise"].iter().any(|key| line.starts_with(key));
        let text = recipe.to_toml().replace("crop = \"auto\"", "crop = \"none\"");
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
