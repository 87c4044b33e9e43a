//! Images from a model in one line: [`Model::sample`].

use super::{DenoiseSteps, Generator, Model, ModelError, StepProgress, batch_size};
use crate::data::Dataset;
use crate::device_choice::DeviceChoice;
use crate::image::grid;
use crate::objective::Kind;
use crate::recipe::SampleSection;
use crate::sampler::{Sampler, SamplerError, names, needs_one_step, needs_scale};
use softdiff_engine::{atomic_file, memory};
use std::io::Write;
use std::path::Path as FilePath;

/// Images to be made by a model, one per seed. What is not said is as in the `[sample]` section of its recipe.
pub struct SampleRequest<'a> {
    model: &'a Model,
    seeds: Vec<u64>,
    section: SampleSection,
    custom: Option<Box<dyn Sampler>>,
    device: DeviceChoice,
    batch: Option<usize>,
}

impl Model {
    /// The samplers that work with this model: on its path, and with what its network predicts.
    pub fn samplers(&self) -> impl Iterator<Item = &'static str> {
        let (is_scale, one_step) =
            (self.recipe.path.is_scale(), matches!(self.recipe.objective.kind, Kind::OneStep { .. }));
        names().filter(move |name| (is_scale || !needs_scale(name)) && needs_one_step(name) == one_step)
    }

    /// Images from these seeds. An image depends on its own seed alone.
    ///
    /// ```no_run
    /// let model = softdiff::Model::open("runs/first".as_ref(), None)?;
    /// model.sample(0..64).sampler("heun").steps(40).grid("samples.png")?;
    /// # Ok::<(), softdiff::model::ModelError>(())
    /// ```
    pub fn sample(&self, seeds: impl IntoIterator<Item = u64>) -> SampleRequest<'_> {
        let (section, device) = (self.recipe.sample.clone(), DeviceChoice::default());
        SampleRequest { model: self, seeds: seeds.into_iter().collect(), section, custom: None, device, batch: None }
    }
}

impl SampleRequest<'_> {
    /// One of [`crate::sampler::NAMES`].
    pub fn sampler(mut self, name: &str) -> Self {
        self.section.sampler = name.into();
        self
    }

    /// A custom sampler.
    pub fn custom_sampler(mut self, sampler: Box<dyn Sampler>) -> Self {
        self.custom = Some(sampler);
        self
    }

    /// Steps of the sampler.
    pub fn steps(mut self, steps: usize) -> Self {
        self.section.steps = steps;
        self
    }

    /// Sampler, steps and their options, all of them.
    pub fn sampling(mut self, section: SampleSection) -> Self {
        self.section = section;
        self
    }

    /// What to compute on.
    pub fn device(mut self, device: impl Into<DeviceChoice>) -> Self {
        self.device = device.into();
        self
    }

    /// Images at a time: a matter of memory and speed.
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = Some(batch);
        self
    }

    /// The images as numbers, one after the other (NHWC), in the range of the data but not cut off to it.
    pub fn values(&self) -> Result<Vec<f64>, SamplerError> {
        self.values_watched(&mut |_, _| Ok(()))
    }

    /// The same; `progress` takes the steps done and all there are, counted for each image, and its error ends the sampling.
    pub fn values_watched(&self, progress: &mut StepProgress) -> Result<Vec<f64>, SamplerError> {
        let (images, size) = (self.seeds.len(), self.model.path.shape().len());
        let hint = "sample fewer seeds at a time";
        memory::require((images * size * size_of::<f64>()) as u64, format!("{images} images as numbers"), hint)
            .map_err(softdiff_engine::Error::HostMemory)?;
        let device = self.device.open()?;
        let named = match self.custom {
            Some(_) => None,
            None => Some(self.section.build()?),
        };
        let Some(sampler) = self.custom.as_deref().or(named.as_deref()) else {
            unreachable!("one of the two is there")
        };
        let sampling = self.section.sampling(&self.model.path)?;
        let batch = self.batch.unwrap_or(batch_size::SAMPLING.on(&device)).clamp(1, self.seeds.len().max(1));
        let model = self.model.guided(self.section.guidance)?;
        let generation = model.generation(sampler, &sampling, batch);
        let precision = model.recipe.train.precision;
        let mut generator = Generator::new(&device, model.predictor(), &generation, precision)?;
        generator.images(&generation, &self.seeds, progress)
    }

    /// The images as bytes.
    pub fn images(&self) -> Result<Dataset, ModelError> {
        self.images_watched(&mut |_, _| Ok(()))
    }

    /// The same, watched as [`SampleRequest::values_watched`].
    pub fn images_watched(&self, progress: &mut StepProgress) -> Result<Dataset, ModelError> {
        let shape = self.model.path.shape();
        let bytes = self.section.quantise.bytes(&self.values_watched(progress)?);
        Ok(Dataset::new(shape.height, shape.width, shape.channels, bytes, None, vec![]))
    }

    /// All images together, one step at a time.
    ///
    /// ```no_run
    /// let model = softdiff::Model::open("runs/first".as_ref(), None)?;
    /// for step in model.sample([3]).steps(40).denoise_steps()? {
    ///     let step = step?;
    ///     println!("t = {}, first value {} of {}", step.t, step.x0_hat[0], step.xt[0]);
    /// }
    /// # Ok::<(), softdiff::model::ModelError>(())
    /// ```
    pub fn denoise_steps(self) -> Result<DenoiseSteps, SamplerError> {
        let sampler = match self.custom {
            Some(sampler) => sampler,
            None => self.section.build()?,
        };
        let sampling = self.section.sampling(&self.model.path)?;
        let model = self.model.guided(self.section.guidance)?;
        DenoiseSteps::new(&model, &self.device.open()?, sampler, sampling, &self.seeds)
    }

    /// Writes the images as one sheet, a PNG file.
    pub fn grid(&self, file: impl AsRef<FilePath>) -> Result<(), ModelError> {
        let images = self.images()?;
        let (width, columns) = (images.width(), grid::square_columns(images.len()));
        let zoom = grid::usual_zoom(width);
        let sheet = grid::compose(width, images.height(), images.channels(), images.pixels(), columns, zoom);
        let file = file.as_ref();
        atomic_file::write(file, |to| to.write_all(&sheet.to_png()))
            .map_err(|error| ModelError::Unwritable { file: file.into(), problem: error.to_string() })
    }
}
