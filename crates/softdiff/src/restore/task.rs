//! What happened to an image: the tasks that people know by name, and how their strength is estimated.

use super::{
    Estimate, Observation, PathEntry, PathMatch, RestoreError, Result, blur_estimate, jpeg_noise, noise_deviation,
};
use crate::corruption::{
    Boundary, CorruptionSpec, Direction, Grey, Kernel, LinearMap, ParameterValue, Shape, ShrinkFilter,
};
use crate::image::{Picture, from_unit, to_unit};
use crate::model::Model;
use crate::path::Path;
use crate::recipe::CorruptionSection;
use softdiff_engine::rng::RandomStream;
use std::path::PathBuf;
use std::sync::Arc;

/// The noise that is added to an image to be denoised again.
const USUAL_NOISE: f64 = 0.1;
/// How many times smaller an image is made to be super-resolved again.
const USUAL_FACTOR: usize = 4;
/// The widest blur in pixels; kernels of more take minutes.
const LARGEST_BLUR: f64 = 100.0;

/// What to undo.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// A blur.
    Deblur {
        /// Which; the model's own corruption where it blurs, else a Gaussian blur.
        kind: Option<BlurKind>,
        /// Standard deviation or length in pixels; estimated from the image where it can be.
        level: Option<f64>,
        /// What the blur saw beyond the border; the mirrored image, or for an image degraded here what the model's blur sees.
        boundary: Option<Boundary>,
        /// Direction of motion; the model's own, else horizontal.
        direction: Option<Direction>,
    },
    /// White noise.
    Denoise,
    /// What JPEG compression leaves: blocks, ringing, lost detail.
    JpegArtefacts {
        /// How coarsely it rounded: the quantization table of luma.
        quantization: [u16; 64],
    },
    /// Missing pixels.
    Inpaint {
        /// For each pixel, whether it was seen.
        known: Vec<bool>,
    },
    /// A small image.
    SuperResolve {
        /// How many times larger a photograph is made, and how many times smaller an image that is degraded here; 4 if not given.
        factor: Option<usize>,
        /// How it was made smaller; photographs by bicubic interpolation, images of a model of one size by means over blocks.
        filter: Option<ShrinkFilter>,
    },
    /// Missing colours.
    Colourise,
    /// The corruption of the model's path at a time.
    OnPath {
        /// From 0 to 1.
        t: f64,
    },
}

/// A blur, or any linear map.
#[derive(Clone, Debug, PartialEq)]
pub enum BlurKind {
    /// Gaussian.
    Gaussian,
    /// Heat dissipation.
    Heat,
    /// Motion along the task's direction.
    Motion,
    /// Motion at an angle in degrees from the horizontal, counterclockwise.
    Shaken {
        /// From -180 to 180.
        angle: f64,
    },
    /// A kernel that is known.
    Kernel(Kernel),
    /// A lens out of focus: the mean over a disc, whose radius is the level.
    Disc,
    /// The map in a `.json` or `.safetensors` file.
    Custom(PathBuf),
}

/// A degraded image, what is known of its degradation, and where the path is entered with it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The task in words.
    pub task: &'static str,
    /// The image, its map and its noise.
    pub observation: Observation,
    /// The model's path for images of its size.
    pub path: Arc<Path>,
    /// The level of the blur or of the path's corruption.
    pub level: Option<f64>,
    /// Whether the level was estimated from the image.
    pub level_estimated: bool,
    /// The standard error of an estimated level, over parts of the image.
    pub level_error: Option<f64>,
    /// What a blur saw beyond the border.
    pub boundary: Option<Boundary>,
    /// The image before it was degraded here.
    pub truth: Option<Vec<f64>>,
    /// Whether the noise was estimated from the image.
    pub noise_estimated: bool,
    /// The standard error of an estimated noise, over parts of the image.
    pub noise_error: Option<f64>,
    /// Where the path is entered.
    pub entry: PathEntry,
    /// How much the path's map differs there.
    pub mismatch: f64,
}

impl Observed {
    /// What was found out, in a line: the task, its level and noise with their standard errors where they were estimated, and
    /// the size.
    pub fn summary(&self) -> String {
        let estimated = |is: bool, error: Option<f64>, digits: usize| match (is, error) {
            (false, _) => String::new(),
            (true, None) => " (estimated)".into(),
            (true, Some(error)) => format!(" ± {error:.digits$} (estimated)"),
        };
        let level = self.level.map_or(String::new(), |level| {
            format!(" of level {level:.3}{}", estimated(self.level_estimated, self.level_error, 3))
        });
        let noise = self.observation.sigma() / self.observation.copies().sqrt();
        let noise = format!("noise {noise:.4}{}", estimated(self.noise_estimated, self.noise_error, 4));
        let Shape { height, width, .. } = self.observation.shape();
        format!("{}{level}, {noise}, {width}x{height}", self.task)
    }
}

/// What a task makes of an image.
struct Degradation {
    name: &'static str,
    observation: Observation,
    level: Option<f64>,
    level_estimated: bool,
    level_error: Option<f64>,
    boundary: Option<Boundary>,
    noise_estimated: bool,
    noise_error: Option<f64>,
}

impl Task {
    /// A blur of which nothing is known.
    pub const DEBLUR: Task = Task::Deblur { kind: None, level: None, boundary: None, direction: None };

    /// What the size and the colours of an image look like to a model. A photograph's pixels say more: [`Restoration::observe`].
    ///
    /// [`Restoration::observe`]: super::Restoration::observe
    pub fn guess(found: Shape, model: &Model) -> Task {
        let shape = model.path.shape();
        if model.takes_any_size() {
            Task::DEBLUR
        } else if found.height < shape.height && found.width < shape.width {
            Task::SuperResolve { factor: None, filter: None }
        } else if found.channels < shape.channels {
            Task::Colourise
        } else {
            Task::DEBLUR
        }
    }

    /// The shape of what is restored from a degraded image.
    pub(super) fn restored_shape(&self, model: &Model, image: &Picture) -> Shape {
        match self {
            Task::SuperResolve { factor, .. } => shape_at(model, shape_of(image), factor.unwrap_or(USUAL_FACTOR)),
            _ => shape_at(model, shape_of(image), 1),
        }
    }

    /// What was seen in a degraded image; its noise and level are estimated where they are not given.
    pub(super) fn observe(&self, model: &Model, image: &Picture, noise: Option<f64>) -> Result<Observed> {
        require_deviation(noise)?;
        let found = shape_of(image);
        let path = path_at(model, self.restored_shape(model, image))?;
        let seen = self.degradation(model, &path, found, &to_unit(&image.pixels), noise, false)?;
        self.enter(path, seen, None)
    }

    /// Degrades a clean image, with `noise` if given, and observes that.
    pub(super) fn degrade(&self, model: &Model, image: &Picture, noise: Option<f64>) -> Result<Observed> {
        require_deviation(noise)?;
        let path = path_at(model, shape_at(model, shape_of(image), 1))?;
        let shape = path.shape();
        let truth = fitted(image, shape)?;
        let noise = noise.unwrap_or(if *self == Task::Denoise { USUAL_NOISE } else { 0.0 });
        let template = self.degradation(model, &path, shape, &truth, Some(noise), true)?;
        let map = template.observation.map();
        let eta = RandomStream::new(0, "noise of a degraded picture").normals(truth.len());
        let clean = map.apply(shape, &truth)?;
        // As good as a file of 8 bits could be.
        let noisy = clean.iter().zip(&eta).map(|(y, e)| y + noise * e).collect::<Vec<f64>>();
        let stored = to_unit(&from_unit(&noisy));
        let observation = Observation::new(shape, map.clone(), template.observation.sigma(), stored)?;
        self.enter(path, Degradation { observation, ..template }, Some(truth))
    }

    fn enter(&self, path: Arc<Path>, seen: Degradation, truth: Option<Vec<f64>>) -> Result<Observed> {
        let (entry, mismatch) = match *self {
            Task::OnPath { t } => (PathEntry::At { t, scale: 1.0 }, 0.0),
            _ => {
                let found = PathMatch::find(&path, &seen.observation)?;
                (found.entry(), found.mismatch)
            }
        };
        let Degradation {
            name,
            observation,
            level,
            level_estimated,
            level_error,
            boundary,
            noise_estimated,
            noise_error,
        } = seen;
        Ok(Observed {
            task: name,
            observation,
            path,
            level,
            level_estimated,
            level_error,
            boundary,
            truth,
            noise_estimated,
            noise_error,
            entry,
            mismatch,
        })
    }

    /// The observation of an image that is degraded, or (`degraded_here`) whose values are to be replaced by a degraded one's.
    fn degradation(
        &self,
        model: &Model,
        path: &Path,
        found: Shape,
        values: &[f64],
        noise: Option<f64>,
        degraded_here: bool,
    ) -> Result<Degradation> {
        let shape = path.shape();
        let full_size = || fit(found, values, shape);
        let estimated = |values: &[f64]| match noise {
            Some(noise) => Ok(Estimate { value: noise, error: None }),
            None => Estimate::over_parts(shape, values, noise_deviation),
        };
        let plain = |name, observation| Degradation {
            name,
            observation,
            level: None,
            level_estimated: false,
            level_error: None,
            boundary: None,
            noise_estimated: noise.is_none(),
            noise_error: None,
        };
        match self {
            Task::OnPath { t } => {
                let values = full_size()?;
                let Estimate { value: noise, error: noise_error } = estimated(&values)?;
                let observation = Observation::on_path(path, *t, noise, values)?;
                let level = Some(path.level(*t)?);
                Ok(Degradation { level, noise_error, ..plain("the path's corruption", observation) })
            }
            Task::Inpaint { known } => {
                let observation = Observation::masked(shape, known, noise.unwrap_or(0.0), full_size()?)?;
                Ok(Degradation { noise_estimated: false, ..plain("inpaint", observation) })
            }
            Task::SuperResolve { factor, filter } => {
                let factor = factor.unwrap_or(USUAL_FACTOR).max(1);
                let (small, values) = if degraded_here {
                    let small = Shape::new(shape.height / factor, shape.width / factor, shape.channels);
                    (small, vec![0.0; small.len()])
                } else {
                    let small = Shape::new(found.height, found.width, shape.channels);
                    (small, with_channels(found, values, shape.channels))
                };
                let usual = if model.takes_any_size() { ShrinkFilter::Bicubic } else { ShrinkFilter::Box };
                let filter = filter.unwrap_or(usual);
                let observation = Observation::shrunk(shape, small, filter, noise.unwrap_or(0.0), &values)?;
                Ok(Degradation { noise_estimated: false, ..plain("super-resolve", observation) })
            }
            Task::Colourise => {
                let grey = Shape { channels: 1, ..found };
                let values = fit(grey, &with_channels(found, values, 1), Shape { channels: 1, ..shape })?;
                let observation = Observation::decoloured(shape, Grey::Luma, noise.unwrap_or(0.0), &values)?;
                Ok(Degradation { noise_estimated: false, ..plain("colourise", observation) })
            }
            Task::Denoise => {
                let values = full_size()?;
                let Estimate { value: noise, error: noise_error } = estimated(&values)?;
                let observation = Observation::new(shape, LinearMap::Identity, noise, values)?;
                Ok(Degradation { noise_error, ..plain("denoise", observation) })
            }
            Task::JpegArtefacts { quantization } => {
                let noise = noise.unwrap_or_else(|| jpeg_noise(quantization));
                let observation = Observation::new(shape, LinearMap::Identity, noise, full_size()?)?;
                Ok(plain("JPEG artefacts", observation))
            }
            Task::Deblur { kind, level, boundary, direction } => {
                let values = full_size()?;
                let Estimate { value: noise, error: noise_error } = estimated(&values)?;
                let known = |level| Estimate { value: level, error: None };
                let (level, level_estimated) = match (*level, kind) {
                    (Some(level), _) => (known(level), false),
                    (None, Some(BlurKind::Custom(_) | BlurKind::Kernel(_))) => (known(1.0), false),
                    (None, Some(BlurKind::Motion | BlurKind::Shaken { .. })) => {
                        let what = "the length of the motion";
                        return Err(RestoreError::NoEstimate { what, remedy: "give --level, in pixels" });
                    }
                    (None, Some(BlurKind::Disc)) => {
                        let what = "the radius of the disc";
                        return Err(RestoreError::NoEstimate { what, remedy: "give --level, in pixels" });
                    }
                    (None, _) if degraded_here => return Err(RestoreError::NoLevel),
                    _ => (blur_estimate(shape, &values, noise)?, true),
                };
                let Estimate { value: level, error: level_error } = level;
                if !(level >= 0.0 && level.is_finite()) {
                    let remedy = "give a level from 0 on, such as 1.5";
                    return Err(RestoreError::Number { what: "the level of the blur", value: level, remedy });
                }
                let own = model.recipe.path.corruption().and_then(CorruptionSection::spec);
                if level > LARGEST_BLUR && !matches!(kind, Some(BlurKind::Custom(_))) {
                    let remedy = "give pixels from 0 to 100";
                    return Err(RestoreError::Number { what: "the level of the blur", value: level, remedy });
                }
                let (map, boundary) = match kernel(kind.as_ref(), own, level, *direction) {
                    Some(kernel) => {
                        let boundary = boundary.unwrap_or(Boundary::Reflect);
                        (kernel.map(shape, boundary), Some(boundary))
                    }
                    None => {
                        let section = corruption(kind.as_ref(), own, level, *boundary, *direction, degraded_here)?;
                        (section.build(shape)?.at(level)?, section.boundary())
                    }
                };
                let name = if matches!(kind, Some(BlurKind::Custom(_))) { "undo a map" } else { "deblur" };
                let observation = Observation::new(shape, map, noise, values)?;
                let level = (!matches!(kind, Some(BlurKind::Kernel(_)))).then_some(level);
                Ok(Degradation {
                    boundary,
                    level,
                    level_estimated,
                    level_error,
                    noise_error,
                    ..plain(name, observation)
                })
            }
        }
    }
}

/// `factor` times as large as `found` for a model of any size, else the model's own.
pub(super) fn shape_at(model: &Model, found: Shape, factor: usize) -> Shape {
    let own = model.path.shape();
    match model.takes_any_size() {
        true => Shape::new(found.height.saturating_mul(factor), found.width.saturating_mul(factor), own.channels),
        false => own,
    }
}

/// The model's path for images of a shape.
/// Refuses noise that values from 0 to 1 do not have.
fn require_deviation(noise: Option<f64>) -> Result<()> {
    match noise {
        Some(value) if !(0.0..=1.0).contains(&value) => {
            let remedy = "give a deviation from 0 to 1, for values from 0 to 1: 10 of 255 is 0.0392";
            Err(RestoreError::Number { what: "the noise of the observation", value, remedy })
        }
        _ => Ok(()),
    }
}

fn path_at(model: &Model, shape: Shape) -> Result<Arc<Path>> {
    match shape == model.path.shape() {
        true => Ok(model.path.clone()),
        false => Ok(Arc::new(model.recipe.path(shape, None)?)),
    }
}

/// The kernel asked for, of blurs that the model's path does not have.
fn kernel(
    kind: Option<&BlurKind>,
    own: Option<&CorruptionSpec>,
    level: f64,
    direction: Option<Direction>,
) -> Option<Kernel> {
    let angle = if direction == Some(Direction::Vertical) { 90.0 } else { 0.0 };
    match kind {
        Some(BlurKind::Disc) => Some(Kernel::disc(level)),
        Some(BlurKind::Gaussian) => Some(Kernel::gaussian(level)),
        Some(BlurKind::Motion) => Some(Kernel::motion(level, angle)),
        Some(BlurKind::Shaken { angle }) => Some(Kernel::motion(level, *angle)),
        Some(BlurKind::Kernel(kernel)) => Some(kernel.clone()),
        Some(BlurKind::Heat | BlurKind::Custom(_)) => None,
        None => own.is_none().then(|| Kernel::gaussian(level)),
    }
}

/// The corruption asked for, else the model's `own` where it blurs, else a blur.
///
/// An image `degraded_here` was blurred by the model's own blur. Any other was blurred by another program, and those
/// mirror the image at its border or repeat its outer pixels, which is much the same.
fn corruption(
    kind: Option<&BlurKind>,
    own: Option<&CorruptionSpec>,
    level: f64,
    boundary: Option<Boundary>,
    direction: Option<Direction>,
    degraded_here: bool,
) -> Result<CorruptionSpec> {
    let boundary =
        |own: Option<Boundary>| boundary.unwrap_or(own.filter(|_| degraded_here).unwrap_or(Boundary::Reflect));
    let named = |name: &str| Ok::<_, RestoreError>(CorruptionSpec::named(name)?.with_boundary(boundary(None)));
    let spec = match (kind, own) {
        (Some(BlurKind::Gaussian | BlurKind::Disc | BlurKind::Kernel(_)), _) => named("blur")?,
        (Some(BlurKind::Heat), _) => named("heat")?,
        (Some(BlurKind::Motion | BlurKind::Shaken { .. }), _) => named("motion")?,
        (Some(BlurKind::Custom(map)), _) => {
            named("custom")?.with("map", ParameterValue::File(map.to_string_lossy().into_owned()))
        }
        // Heat mirrors the image at its border.
        (None, Some(own)) if own.name() == "heat" && boundary(None) == Boundary::Reflect => own.clone(),
        (None, Some(own)) if matches!(own.name(), "blur" | "motion") => {
            own.clone().with_boundary(boundary(own.boundary()))
        }
        _ => named("blur")?,
    };
    let spec = match direction {
        Some(Direction::Horizontal) => spec.with("direction", ParameterValue::Word("horizontal")),
        Some(Direction::Vertical) => spec.with("direction", ParameterValue::Word("vertical")),
        None => spec,
    };
    Ok(spec.with_largest(level.max(f64::MIN_POSITIVE)))
}

pub(super) fn shape_of(image: &Picture) -> Shape {
    Shape::new(image.height, image.width, image.channels)
}

/// The values of an image of a model's size, in its colours.
pub fn fitted(image: &Picture, shape: Shape) -> Result<Vec<f64>> {
    fit(shape_of(image), &to_unit(&image.pixels), shape)
}

fn fit(found: Shape, values: &[f64], shape: Shape) -> Result<Vec<f64>> {
    if (found.height, found.width) != (shape.height, shape.width) {
        return Err(RestoreError::ImageSize { found, shape });
    }
    Ok(with_channels(found, values, shape.channels))
}

/// Grey as luma (ITU-R BT.601), colour of grey as grey.
fn with_channels(found: Shape, values: &[f64], channels: usize) -> Vec<f64> {
    match (found.channels, channels) {
        (3, 1) => values.chunks_exact(3).map(|p| 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]).collect(),
        (1, 3) => values.iter().flat_map(|&grey| [grey; 3]).collect(),
        _ => values.to_vec(),
    }
}

/// Which pixels a mask leaves known: those that are not white. `name` is for the message about one that is all or nothing.
pub fn known_pixels(mask: &[f64], name: &str) -> Result<Vec<bool>> {
    let known: Vec<bool> = mask.iter().map(|&value| value < 0.5).collect();
    if known.iter().all(|known| *known) || !known.contains(&true) {
        return Err(RestoreError::Mask { name: name.into() });
    }
    Ok(known)
}
