//! From a recipe to paths, networks and optimisers.

use super::{KnotMethod, PathSection, Recipe};
use crate::corruption::{Corruption, CorruptionError, Shape};
use crate::curve::{Curve, CurveError};
use crate::network::{ConfigError, UNetConfig};
use crate::noise::PAPER_SMALLEST;
use crate::objective::{Precondition, Prediction, Wiener, WienerError};
use crate::path::{LevelSchedule, Path, PathError};
use crate::schedule::{Method, Request, Schedule, ScheduleError, Timing, VarianceExploding, usual_candidates};
use crate::spectrum::Spectrum;
use softdiff_engine::Hint;
use softdiff_engine::optim::AdamConfig;
use std::borrow::Cow;
use std::sync::Arc;

/// A recipe that does not fit the images or the schedule.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The schedule is still to be made.
    #[error("schedule.method \"{method}\" measures images first")]
    NeedsSchedule {
        /// The method.
        method: &'static str,
    },
    /// A schedule of something else.
    #[error("the schedule was made for {made_for}, the recipe has {wanted}")]
    OtherSchedule {
        /// What the schedule says.
        made_for: String,
        /// What the recipe says.
        wanted: String,
    },
    /// The network wants squares.
    #[error("images of {0} are not square")]
    NotSquare(Shape),
    /// A preconditioned model without the spectrum of its images.
    #[error("objective.parametrisation \"wiener\" needs spectrum.safetensors, which is missing")]
    NoSpectrum,
    /// A path that cannot be preconditioned.
    #[error("{0}")]
    Wiener(#[from] WienerError),
    /// A bad path.
    #[error("{0}")]
    Path(#[from] PathError),
    /// A bad corruption.
    #[error("{0}")]
    Corruption(#[from] CorruptionError),
    /// A bad schedule.
    #[error("{0}")]
    Schedule(#[from] ScheduleError),
    /// Bad knots.
    #[error("{0}")]
    Curve(#[from] CurveError),
    /// A network that does not fit the images.
    #[error("{0}")]
    Network(#[from] ConfigError),
}

impl Hint for BuildError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            BuildError::NeedsSchedule { .. } => "make the schedule, or give schedule.method \"even\"".into(),
            BuildError::OtherSchedule { .. } => "make it again, or change path".into(),
            BuildError::NotSquare(_) => "set data.crop = \"centre\" and data.size".into(),
            BuildError::NoSpectrum => "copy it from the run".into(),
            _ => return None,
        })
    }
}

impl Recipe {
    /// What the network predicts; `spectrum` is that of the images, for a preconditioned one.
    pub fn prediction(&self, path: &Path, spectrum: Option<&Spectrum>) -> Result<Prediction, BuildError> {
        match self.objective.precondition {
            Precondition::None => Ok(self.objective.prediction()),
            Precondition::Wiener => {
                Ok(Prediction::Wiener(Arc::new(Wiener::new(path, spectrum.ok_or(BuildError::NoSpectrum)?)?)))
            }
        }
    }

    /// The corruption whose levels a schedule chooses; none for VE, VP, sub-VP and blurring diffusion.
    pub fn corruption(&self, shape: Shape) -> Result<Option<Box<dyn Corruption>>, BuildError> {
        Ok(self.path.corruption().map(|corruption| corruption.build(shape)).transpose()?)
    }

    /// What to ask the scheduler for; none where no images have to be measured. `source` names the images in words.
    pub fn schedule_request(&self, corruption: &dyn Corruption, source: &str) -> Result<Option<Request>, BuildError> {
        let (section, Some(timing)) = (&self.schedule, self.path.timing()) else { return Ok(None) };
        let method = match section.method {
            // The limit is found, not read.
            KnotMethod::ShortestPath => Method::ShortestPath { max_hop: 0.0 },
            KnotMethod::EqualArcLength => Method::EqualArcLength,
            KnotMethod::MseMatched { pace } => {
                let pace = VarianceExploding { smallest: PAPER_SMALLEST, largest: pace };
                Method::MseMatched { pace, sigma: timing.noise.sigma(1.0) }
            }
            KnotMethod::Joint { noise_levels } => Method::Joint {
                max_hop: 0.0,
                smallest: timing.noise.sigma(0.0),
                largest: timing.noise.sigma(1.0),
                noise_levels,
            },
            _ => return Ok(None),
        };
        Ok(Some(Request {
            source: source.to_owned(),
            candidates: usual_candidates(corruption, section.candidates)?,
            knots: section.knots,
            metric: section.metric,
            method,
            interpolation: section.interpolation,
            timing,
            images: section.images,
            seed: self.seed,
            resamplings: section.resamplings,
        }))
    }

    /// The schedule of `schedule.method = "file"`, read and checked; none for other methods.
    pub fn schedule_file(&self) -> Result<Option<Schedule>, BuildError> {
        match (&self.schedule.method, self.path.corruption()) {
            (KnotMethod::File { file }, Some(_)) => Ok(Some(Schedule::read(std::path::Path::new(file))?)),
            _ => Ok(None),
        }
    }

    /// The path for images of `shape`. A schedule is needed where its method measures images or names a file.
    pub fn path(&self, shape: Shape, schedule: Option<&Schedule>) -> Result<Path, BuildError> {
        Ok(match &self.path {
            PathSection::Ve { smallest, largest } => Path::variance_exploding(shape, *smallest, *largest)?,
            PathSection::Vp { alpha, centred } => about(Path::variance_preserving(shape, *alpha)?, *centred),
            PathSection::SubVp { alpha, centred } => about(Path::sub_variance_preserving(shape, *alpha)?, *centred),
            PathSection::Blurring => Path::blurring_diffusion(shape)?,
            PathSection::TwoStage { corruption, .. } | PathSection::Simultaneous { corruption, .. } => {
                let corruption = corruption.build(shape)?;
                let curve = self.curve(&*corruption, schedule)?;
                let mut timing = self.path.timing().unwrap_or(Timing::PAPER);
                if let Some(schedule) = schedule {
                    timing = schedule.timing(timing)?;
                }
                let Timing { noise, start } = timing;
                Path::new(vec![(corruption, LevelSchedule::Curve { curve, start })], noise)?
            }
        })
    }

    /// The network for pictures of `shape`, checked.
    pub fn network(&self, shape: Shape) -> Result<UNetConfig, BuildError> {
        if shape.height != shape.width {
            return Err(BuildError::NotSquare(shape));
        }
        let config = self.network.config(shape, &self.path);
        config.check()?;
        Ok(config)
    }

    /// The optimiser.
    pub fn adam(&self) -> AdamConfig {
        self.train.adam()
    }

    /// Levels over progress.
    fn curve(&self, corruption: &dyn Corruption, schedule: Option<&Schedule>) -> Result<Curve, BuildError> {
        let section = &self.schedule;
        if let Some(schedule) = schedule {
            if !schedule.is_for(corruption) {
                let made_for = format!("{} of {}", schedule.corruption, schedule.shape);
                let wanted = format!("{} of {}", corruption.describe(), corruption.shape());
                return Err(BuildError::OtherSchedule { made_for, wanted });
            }
            if let (Some(made_for), Some(wanted)) = (&schedule.timing, self.path.timing())
                && *made_for != wanted
            {
                let words =
                    |timing: &Timing| format!("corruption from t = {} on with {:?}", timing.start, timing.noise);
                let (made_for, wanted) = (words(made_for), words(&wanted));
                return Err(BuildError::OtherSchedule { made_for, wanted });
            }
            return Ok(schedule.curve()?);
        }
        let levels = corruption.levels();
        match section.method {
            KnotMethod::Straight => Ok(Curve::straight(levels.clean, levels.full)?),
            KnotMethod::Even => {
                Ok(Curve::uniform(usual_candidates(corruption, section.knots)?, section.interpolation)?)
            }
            _ => Err(BuildError::NeedsSchedule { method: section.method.name() }),
        }
    }
}

fn about(path: Path, centred: bool) -> Path {
    if centred { path.centred() } else { path }
}
