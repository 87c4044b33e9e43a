//! From what was typed to an observation.

use crate::commands::pictures;
use crate::diagnostics::Failure;
use clap::{Args, ValueEnum};
use softdiff::corruption::{Boundary, Corruption, Direction, Grey, Shape};
use softdiff::model::{Model, to_bytes};
use softdiff::random::Stream;
use softdiff::recipe::CorruptionSection;
use softdiff::restore::{Observation, blur_deviation, noise_deviation};
use std::path::{Path, PathBuf};

/// What happened to the picture.
#[derive(Args)]
pub struct TaskFlags {
    /// What to undo; without it, what the picture and the other flags look like, else the model's own corruption.
    #[arg(long, value_enum)]
    task: Option<Task>,
    /// Enter the model's path at this time, from 0 to 1: the picture is corrupted as the path is there.
    #[arg(long, value_name = "T", allow_negative_numbers = true, conflicts_with_all = ["task", "corruption", "level", "mask"])]
    time: Option<f64>,
    /// The corruption to undo, if not the model's own.
    #[arg(long, value_enum)]
    corruption: Option<Kind>,
    /// Its strength: pixels of blur or motion; told from the picture where it can be.
    #[arg(long, allow_negative_numbers = true)]
    level: Option<f64>,
    /// What the corruption sees beyond the border.
    #[arg(long, value_enum, default_value_t = Edge::Reflect)]
    boundary: Edge,
    /// Whether motion runs down the picture, not across.
    #[arg(long)]
    vertical: bool,
    /// A .json or .safetensors file with the map of --corruption custom.
    #[arg(long, value_name = "FILE", required_if_eq("corruption", "custom"))]
    map: Option<PathBuf>,
    /// A picture whose white pixels are missing and to be filled in.
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,
    /// How many times smaller --degrade makes the picture to super-resolve.
    #[arg(long, default_value_t = 4, value_name = "N")]
    factor: usize,
    /// Deviation of the noise in the picture, for values from 0 to 1; told from the picture where it can be.
    #[arg(long, allow_negative_numbers = true)]
    noise: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Task {
    /// Undo a blur.
    Deblur,
    /// Remove noise.
    Denoise,
    /// Fill in what a mask covers.
    Inpaint,
    /// Make a small picture large.
    SuperResolve,
    /// Give colours to a grey picture.
    Colourise,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    Blur,
    Heat,
    Motion,
    Pixelation,
    Decolourisation,
    Custom,
}

#[derive(Clone, Copy, ValueEnum)]
enum Edge {
    Zero,
    Reflect,
    Periodic,
}

/// What is known of the picture.
pub struct Seen {
    pub task: &'static str,
    pub observation: Observation,
    pub level: Option<f64>,
    /// Set where the time was given.
    pub time: Option<f64>,
    /// The picture before it was degraded here.
    pub truth: Option<Vec<f64>>,
    pub noise_estimated: bool,
}

impl TaskFlags {
    /// Reads the picture, degrades it first if so told, and says what was seen.
    pub fn observe(&self, model: &Model, file: &Path, index: usize, degrade: bool) -> Result<Seen, Failure> {
        let shape = model.path.shape();
        let (found, values) = pictures::one(file, index)?;
        let task = self.task.unwrap_or_else(|| self.guess(found, shape));
        let known = self.mask.as_deref().map(|mask| read_mask(mask, shape)).transpose()?;
        if task == Task::Inpaint && known.is_none() {
            return Err(Failure::new("there is no mask").hint("give --mask, a picture that is white where to fill in"));
        }
        if degrade {
            let truth = fitted(found, values, shape)?;
            // As good as a file of 8 bits could be.
            let stored =
                |values: Vec<f64>| to_bytes(&values).iter().map(|&b| f64::from(b) / 255.0).collect::<Vec<f64>>();
            let noise = self.noise.unwrap_or(if task == Task::Denoise { 0.1 } else { 0.0 });
            let template = self.observation(model, task, known.as_deref(), shape, &truth, Some(noise), true)?;
            let eta = Stream::new(0, "noise of a degraded picture").normals(truth.len());
            let clean = template.observation.map().apply(shape, &truth)?;
            let noisy = stored(clean.iter().zip(&eta).map(|(y, e)| y + noise * e).collect());
            let observation =
                Observation::new(shape, template.observation.map().clone(), template.observation.sigma(), noisy)?;
            return Ok(Seen { observation, truth: Some(truth), ..template });
        }
        self.observation(model, task, known.as_deref(), found, &values, self.noise, false)
    }

    /// What the picture and the flags look like.
    fn guess(&self, found: Shape, shape: Shape) -> Task {
        let smaller = found.height < shape.height && found.width < shape.width;
        match self.corruption {
            Some(Kind::Pixelation) => Task::SuperResolve,
            Some(Kind::Decolourisation) => Task::Colourise,
            Some(_) => Task::Deblur,
            None if self.mask.is_some() => Task::Inpaint,
            None if smaller => Task::SuperResolve,
            None if found.channels < shape.channels => Task::Colourise,
            None => Task::Deblur,
        }
    }

    /// The observation of a picture that is degraded, or (`clean`) whose values are to be replaced by a degraded one's.
    #[allow(clippy::too_many_arguments)]
    fn observation(
        &self,
        model: &Model,
        task: Task,
        known: Option<&[bool]>,
        found: Shape,
        values: &[f64],
        noise: Option<f64>,
        clean: bool,
    ) -> Result<Seen, Failure> {
        let shape = model.path.shape();
        let seen = |task, observation, level| Seen {
            task,
            observation,
            level,
            time: self.time,
            truth: None,
            noise_estimated: noise.is_none(),
        };
        if let Some(t) = self.time {
            let values = fitted(found, values.to_vec(), shape)?;
            let noise = noise.map_or_else(|| noise_deviation(shape, &values), Ok)?;
            let observation = Observation::on_path(&model.path, t, noise, values)?;
            return Ok(seen("the path's corruption", observation, Some(model.path.level(t)?)));
        }
        match task {
            Task::Inpaint => {
                let values = fitted(found, values.to_vec(), shape)?;
                let observation = Observation::masked(shape, known.unwrap_or(&[]), noise.unwrap_or(0.0), values)?;
                Ok(Seen { noise_estimated: false, ..seen("inpaint", observation, None) })
            }
            Task::SuperResolve => {
                let factor = self.factor.max(1);
                let small = match clean {
                    true => Shape::new(shape.height / factor, shape.width / factor, shape.channels),
                    false => Shape::new(found.height, found.width, shape.channels),
                };
                let values = if clean { vec![0.0; small.len()] } else { with_channels(found, values, shape.channels) };
                let observation = Observation::shrunk(shape, small, noise.unwrap_or(0.0), &values)?;
                Ok(Seen { noise_estimated: false, ..seen("super-resolve", observation, None) })
            }
            Task::Colourise => {
                let values = fitted(found, with_channels(found, values, 1), Shape { channels: 1, ..shape })?;
                let observation = Observation::decoloured(shape, Grey::Luma, noise.unwrap_or(0.0), &values)?;
                Ok(Seen { noise_estimated: false, ..seen("colourise", observation, None) })
            }
            Task::Denoise => {
                let values = fitted(found, values.to_vec(), shape)?;
                let noise = noise.map_or_else(|| noise_deviation(shape, &values), Ok)?;
                let identity = softdiff::corruption::LinearMap::Identity;
                Ok(seen("denoise", Observation::new(shape, identity, noise, values)?, None))
            }
            Task::Deblur => {
                let values = fitted(found, values.to_vec(), shape)?;
                let noise = noise.map_or_else(|| noise_deviation(shape, &values), Ok)?;
                let level = match (self.level, self.corruption) {
                    (Some(level), _) => level,
                    (None, Some(Kind::Custom)) => 1.0,
                    (None, Some(Kind::Motion)) => {
                        return Err(
                            Failure::new("the length of the motion cannot be told").hint("give --level, in pixels")
                        );
                    }
                    (None, _) if clean => {
                        return Err(Failure::new("how much to degrade?").hint("give --level, such as --level 2"));
                    }
                    _ => blur_deviation(shape, &values, noise)?,
                };
                let corruption = self.corruption(model, shape, level)?;
                let map = corruption.at(level)?;
                let name =
                    if self.corruption.is_some_and(|kind| kind == Kind::Custom) { "undo a map" } else { "deblur" };
                Ok(seen(name, Observation::new(shape, map, noise, values)?, Some(level)))
            }
        }
    }

    /// The corruption asked for, else the model's own where it blurs, else a blur.
    fn corruption(&self, model: &Model, shape: Shape, level: f64) -> Result<Box<dyn Corruption>, Failure> {
        let boundary = match self.boundary {
            Edge::Zero => Boundary::Zero,
            Edge::Reflect => Boundary::Reflect,
            Edge::Periodic => Boundary::Periodic,
        };
        let largest = Some(level.max(f64::MIN_POSITIVE));
        let direction = if self.vertical { Direction::Vertical } else { Direction::Horizontal };
        let section = match (self.corruption, model.recipe.path.corruption()) {
            (Some(Kind::Heat), _) => CorruptionSection::Heat { largest, floor: 0.0 },
            (Some(Kind::Motion), _) => CorruptionSection::Motion { largest, direction, boundary },
            (Some(Kind::Custom), _) => {
                let map = self.map.as_deref().unwrap_or("".as_ref());
                CorruptionSection::Custom { map: map.to_string_lossy().into_owned() }
            }
            (None, Some(CorruptionSection::Blur { boundary, .. })) => {
                CorruptionSection::Blur { largest, boundary: *boundary }
            }
            (None, Some(CorruptionSection::Heat { floor, .. })) => CorruptionSection::Heat { largest, floor: *floor },
            (None, Some(CorruptionSection::Motion { direction, boundary, .. })) => {
                CorruptionSection::Motion { largest, direction: *direction, boundary: *boundary }
            }
            _ => CorruptionSection::Blur { largest, boundary },
        };
        Ok(section.build(shape)?)
    }
}

/// A picture of the model's size, in its colours.
pub fn fitting(file: &Path, index: usize, shape: Shape) -> Result<Vec<f64>, Failure> {
    let (found, values) = pictures::one(file, index)?;
    fitted(found, values, shape)
}

fn fitted(found: Shape, values: Vec<f64>, shape: Shape) -> Result<Vec<f64>, Failure> {
    if (found.height, found.width) != (shape.height, shape.width) {
        let (has, wants) = (format!("{}x{}", found.width, found.height), format!("{}x{}", shape.width, shape.height));
        let failure = Failure::new(format!("the picture has {has} pixels, this model makes {wants}"));
        return Err(failure.hint(format!("cut or resize it to {wants}; smaller ones take --task super-resolve")));
    }
    Ok(if values.len() == shape.len() { values } else { with_channels(found, &values, shape.channels) })
}

/// Grey as luma (ITU-R BT.601), colour of grey as grey.
fn with_channels(found: Shape, values: &[f64], channels: usize) -> Vec<f64> {
    match (found.channels, channels) {
        (3, 1) => values.chunks_exact(3).map(|p| 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]).collect(),
        (1, 3) => values.iter().flat_map(|&grey| [grey; 3]).collect(),
        _ => values.to_vec(),
    }
}

/// Which pixels are known: those that are not white.
fn read_mask(file: &Path, shape: Shape) -> Result<Vec<bool>, Failure> {
    let mask = fitting(file, 0, Shape { channels: 1, ..shape })?;
    let known: Vec<bool> = mask.iter().map(|&value| value < 0.5).collect();
    if known.iter().all(|known| *known) || !known.contains(&true) {
        let failure = Failure::new(format!("{} leaves all or nothing to be filled in", file.display()));
        return Err(failure.hint("white pixels are missing, black ones are known"));
    }
    Ok(known)
}
