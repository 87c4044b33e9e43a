//! From a picture and what happened to it to an observation.

use super::task::{Kind, Task, TaskFlags, fitted, with_channels};
use crate::diagnostics::Failure;
use softdiff::corruption::{Boundary, CorruptionSpec, Grey, ParameterValue, Shape};
use softdiff::image::{from_unit, to_unit};
use softdiff::model::Model;
use softdiff::random::Stream;
use softdiff::recipe::CorruptionSection;
use softdiff::restore::{Observation, blur_deviation, noise_deviation};

/// What is known of the picture.
pub struct Seen {
    pub task: &'static str,
    pub observation: Observation,
    pub level: Option<f64>,
    /// What a blur saw beyond the border.
    pub boundary: Option<Boundary>,
    /// Set where the time was given.
    pub time: Option<f64>,
    /// The picture before it was degraded here.
    pub truth: Option<Vec<f64>>,
    pub noise_estimated: bool,
}

impl TaskFlags {
    /// What was seen in a picture, of which `known` pixels are there; it is degraded here first if so told.
    pub fn observe(
        &self,
        model: &Model,
        (found, values): (Shape, Vec<f64>),
        known: Option<Vec<bool>>,
        degrade: bool,
    ) -> Result<Seen, Failure> {
        let shape = model.path.shape();
        let task = self.task.unwrap_or_else(|| self.guess(found, shape));
        if self.time.is_none() {
            self.check(task, model.recipe.path.corruption(), degrade)?;
        }
        if task == Task::Inpaint && known.is_none() {
            return Err(Failure::new("there is no mask").hint("give --mask, a picture that is white where to fill in"));
        }
        if degrade {
            let truth = fitted(found, values, shape)?;
            // As good as a file of 8 bits could be.
            let stored = |values: Vec<f64>| to_unit(&from_unit(&values));
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
            boundary: None,
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
                let factor = self.factor.unwrap_or(4).max(1);
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
                let section = self.corruption(model, level, clean)?;
                let boundary = section.boundary();
                let map = section.build(shape)?.at(level)?;
                let name = if self.corruption == Some(Kind::Custom) { "undo a map" } else { "deblur" };
                let observation = Observation::new(shape, map, noise, values)?;
                Ok(Seen { boundary, ..seen(name, observation, Some(level)) })
            }
        }
    }

    /// The corruption asked for, else the model's own where it blurs, else a blur.
    ///
    /// A picture `degraded_here` was blurred by the model's own blur. Any other was blurred by another program, and those
    /// mirror the image at its border or repeat its outer pixels, which is much the same.
    fn corruption(&self, model: &Model, level: f64, degraded_here: bool) -> Result<CorruptionSpec, Failure> {
        let named = |kind: Kind| match kind {
            Kind::Heat => "heat",
            Kind::Motion => "motion",
            Kind::Custom => "custom",
            _ => "blur",
        };
        let own = model.recipe.path.corruption().and_then(CorruptionSection::spec);
        let asked = self.boundary.map(Boundary::from);
        let boundary =
            |own: Option<Boundary>| asked.unwrap_or(own.filter(|_| degraded_here).unwrap_or(Boundary::Reflect));
        let spec = match (self.corruption, own) {
            (Some(kind), _) => CorruptionSpec::named(named(kind))?.with_boundary(boundary(None)),
            // Heat mirrors the image at its border.
            (None, Some(own)) if own.name() == "heat" && boundary(None) == Boundary::Reflect => own.clone(),
            (None, Some(own)) if matches!(own.name(), "blur" | "motion") => {
                own.clone().with_boundary(boundary(own.boundary()))
            }
            _ => CorruptionSpec::default().with_boundary(boundary(None)),
        };
        let spec = match &self.map {
            Some(map) => spec.with("map", ParameterValue::File(map.to_string_lossy().into_owned())),
            None => spec,
        };
        let spec = if self.vertical { spec.with("direction", ParameterValue::Word("vertical")) } else { spec };
        Ok(spec.with_largest(level.max(f64::MIN_POSITIVE)))
    }
}
