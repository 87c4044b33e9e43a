//! What the model makes: a grid, samplers side by side, predictions over time, quality over evaluations.

use super::page::ReportError;
use super::path::tiles;
use super::{Chart, Figure, PageBlock, Section, Series};
use crate::data::Dataset;
use crate::image::to_unit;
use crate::metrics::{Distance, Measured, evenly_spaced, memorisation, nearest};
use crate::model::{Model, NetworkDenoiser};
use crate::objective::Prediction;
use crate::sampler::{Sampler, Sampling, Watched, by_name, needs_scale, sample};
use softdiff_engine::Device;

/// Images in the grid.
const GRID: usize = 64;
/// Images in a row.
const ROW: usize = 8;
/// Samplers besides the recipe's own, and those whose quality is measured.
const SAMPLERS: [&str; 5] = ["naive", "momentum", "churn-rate", "multistep", "heun"];
const MEASURED_SAMPLERS: [&str; 2] = ["naive", "momentum"];
const STEPS: [usize; 4] = [4, 8, 16, 32];
/// The most images behind each point of quality over evaluations.
const MEASURED: usize = 64;
const DIRECTIONS: usize = 256;
/// Images at a time.
const BATCH: usize = 32;

/// What a report samples with.
pub(super) struct Scene<'a> {
    pub model: &'a Model,
    pub dataset: Option<&'a Dataset>,
    pub device: &'a Device,
    pub images: usize,
    /// Whether quality over evaluations is known already.
    pub measured: bool,
}

/// What was found: the grid, the rest, and numbers for the summary.
#[derive(Default)]
pub(super) struct SampleSections {
    pub grid: Option<Section>,
    pub others: Vec<Section>,
    pub numbers: Vec<(String, String)>,
}

impl Scene<'_> {
    pub fn sections(&self, progress: &mut dyn FnMut(&str, usize, usize)) -> Result<SampleSections, ReportError> {
        let model = self.model;
        let section = &model.recipe.sample;
        let (own, sampling) = (section.build()?, section.sampling(&model.path)?);
        let precision = model.recipe.train.precision;
        // A run has no guide.
        let guided = match model.guide {
            Some(_) => model.guided(section.guidance)?,
            None => model.guided(1.0)?,
        };
        let mut denoiser = guided.denoiser(self.device, BATCH, precision)?;
        let mut found = SampleSections::default();
        let seeds: Vec<u64> = (0..self.images as u64).collect();
        let mut images = Vec::new();
        for part in seeds.chunks(BATCH) {
            images.extend(sample(&model.path, &*own, &mut denoiser, model.starts(part), part, &sampling)?);
            progress("sampling", images.len() / model.path.shape().len(), self.images);
        }
        let shown = self.images.min(GRID);
        let size = model.path.shape().len();
        let each = denoiser.evaluations() / self.images.max(1) as u64;
        let caption = format!(
            "Uncurated: seeds 0 to {}, {} in {} steps ({each} evaluations of the network per image), {}.{}",
            shown.saturating_sub(1),
            section.sampler,
            section.steps,
            model.weights,
            guidance(model)
        );
        let picture = tiles(&model.path, &images[..shown * size], crate::image::grid::square_columns(shown));
        let figure = PageBlock::Figure(Figure::picture("samples", caption, &picture));
        found.grid = Some(Section { title: "Samples".into(), blocks: vec![figure] });
        if let Some(dataset) = self.dataset {
            let quality = self.quality(&images)?;
            let floor = self.floor(dataset, self.images)?;
            let text = |found: Measured| format!("{:.4} ± {:.4}", found.value, found.error.unwrap_or(0.0));
            found.numbers.push((format!("sliced Wasserstein, {} samples to data", self.images), text(quality)));
            found.numbers.push(("the same for other images of the data".into(), text(floor)));
            self.neighbours(&images, dataset, &mut found)?;
        }
        // A one-step network has one sampler and one number of steps.
        let one_step = matches!(model.prediction, Prediction::OneStep { .. });
        if !one_step {
            found.others.push(self.samplers(&*own, &mut denoiser, &sampling)?);
        }
        found.others.push(self.means(&*own, &mut denoiser, &sampling)?);
        if self.dataset.is_some() && !self.measured && !one_step {
            found.others.push(self.evaluations(&*own, &mut denoiser, progress)?);
        }
        Ok(found)
    }

    /// The same starting points under every sampler that can go this path.
    fn samplers(
        &self,
        own: &dyn Sampler,
        denoiser: &mut NetworkDenoiser,
        sampling: &Sampling,
    ) -> Result<Section, ReportError> {
        let model = self.model;
        let seeds: Vec<u64> = (0..ROW as u64).collect();
        let mut names = vec![model.recipe.sample.sampler.clone()];
        let mut rows = sample(&model.path, own, denoiser, model.starts(&seeds), &seeds, sampling)?;
        for name in SAMPLERS {
            if *name == names[0] || needs_scale(name) {
                continue;
            }
            let sampler = by_name(name, &model.recipe.sample.options())?;
            rows.extend(sample(&model.path, &*sampler, denoiser, model.starts(&seeds), &seeds, sampling)?);
            names.push(name.to_owned());
        }
        let caption = format!("From top to bottom: {}. Each column starts from the same seed.", names.join(", "));
        let figure = Figure::picture("samplers", caption, &tiles(&model.path, &rows, ROW));
        Ok(Section { title: "Samplers side by side".into(), blocks: vec![PageBlock::Figure(figure)] })
    }

    /// The predicted clean image over time (the paper's figure of conditional means).
    fn means(
        &self,
        own: &dyn Sampler,
        denoiser: &mut NetworkDenoiser,
        sampling: &Sampling,
    ) -> Result<Section, ReportError> {
        let model = self.model;
        let seeds: Vec<u64> = (0..4).collect();
        let mut kept = Vec::new();
        let keep = |mean: &[f64]| {
            kept.push(mean.to_vec());
            Ok(())
        };
        let mut keeping = Watched { inner: denoiser, look: keep };
        sample(&model.path, own, &mut keeping, model.starts(&seeds), &seeds, sampling)?;
        let size = model.path.shape().len();
        let columns = kept.len().min(10);
        let mut rows = Vec::new();
        for seed in 0..seeds.len() {
            for column in 0..columns {
                let mean = &kept[column * (kept.len() - 1) / (columns - 1).max(1)];
                rows.extend_from_slice(&mean[seed * size..(seed + 1) * size]);
            }
        }
        let caption = "The network's prediction on the way, from the start (left) to the end (right).";
        let figure = Figure::picture("means", caption, &tiles(&model.path, &rows, columns));
        Ok(Section { title: "Conditional means".into(), blocks: vec![PageBlock::Figure(figure)] })
    }

    /// Quality over the number of evaluations.
    fn evaluations(
        &self,
        own: &dyn Sampler,
        denoiser: &mut NetworkDenoiser,
        progress: &mut dyn FnMut(&str, usize, usize),
    ) -> Result<Section, ReportError> {
        let model = self.model;
        let mut names = vec![model.recipe.sample.sampler.as_str()];
        names.extend(MEASURED_SAMPLERS.iter().filter(|name| **name != model.recipe.sample.sampler));
        let count = self.images.min(MEASURED);
        let seeds: Vec<u64> = (0..count as u64).collect();
        let mut series = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let other = by_name(name, &model.recipe.sample.options())?;
            let sampler = if index == 0 { own } else { &*other };
            let (mut points, mut errors) = (Vec::new(), Vec::new());
            for (done, &steps) in STEPS.iter().enumerate() {
                let sampling = model.recipe.sample.sampling_in(steps)?;
                let before = denoiser.evaluations();
                let images = sample(&model.path, sampler, denoiser, model.starts(&seeds), &seeds, &sampling)?;
                let Measured { value, error, .. } = self.quality(&images)?;
                points.push(((denoiser.evaluations() - before) as f64 / count as f64, value));
                errors.push(error.unwrap_or(f64::NAN));
                progress("comparing samplers", index * STEPS.len() + done + 1, names.len() * STEPS.len());
            }
            series.push(Series::new(*name, points).with_errors(errors));
        }
        if let Some(dataset) = self.dataset {
            let Measured { value: floor, error, .. } = self.floor(dataset, count)?;
            let error = error.unwrap_or(f64::NAN);
            let (first, last) = (STEPS[0] as f64, STEPS[STEPS.len() - 1] as f64);
            series.push(
                Series::new("data itself", vec![(first, floor), (last, floor)]).with_errors(vec![error; 2]).dashed(),
            );
        }
        let chart = Chart {
            x: "evaluations of the network per image".into(),
            y: "sliced Wasserstein distance to the data".into(),
            log_x: true,
            from_zero: true,
            series,
            ..Chart::default()
        };
        let caption = format!(
            "Lower is better; {count} images per point. Bars: one standard error over random directions; points whose bars overlap \
             are not told apart. Dashed: other images of the data."
        );
        let figure = Figure::chart("quality", caption, &chart);
        let why = "This is not FID, which needs the Inception network and thousands of images: results that softdiff eval --run \
                   keeps, of several samplers or numbers of steps, are drawn here instead.";
        let blocks = vec![PageBlock::Figure(figure), PageBlock::Text(why.into())];
        Ok(Section { title: "Quality over evaluations".into(), blocks })
    }

    /// Sliced Wasserstein distance of images, as bytes would hold them, to as many of the data.
    fn quality(&self, images: &[f64]) -> Result<Measured, ReportError> {
        let dataset = self.dataset.expect("quality is asked for with data only");
        let count = images.len() / self.model.path.shape().len();
        distance(dataset, &self.model.recipe.sample.quantise.bytes(images), count)
    }

    /// The same for images of the data that are not among those compared with.
    fn floor(&self, dataset: &Dataset, count: usize) -> Result<Measured, ReportError> {
        distance(dataset, &evenly_spaced(dataset, 1, count), count)
    }

    /// The first images, each above its nearest neighbour in the data; whether the model only remembers.
    fn neighbours(&self, images: &[f64], dataset: &Dataset, found: &mut SampleSections) -> Result<(), ReportError> {
        let (bytes, size) = (self.model.recipe.sample.quantise.bytes(images), dataset.picture_size());
        let near = nearest(&bytes, dataset.pixels(), size, &|_, _| {})?;
        let score = memorisation(&near);
        let shown = near.len().min(2 * ROW);
        let mut rows = bytes[..shown * size].to_vec();
        rows.extend(near[..shown].iter().flat_map(|near| dataset.picture(near.index)));
        let caption = format!(
            "Above: samples. Below: the nearest training image of each, by pixels. {:.1} % of {} samples are much nearer \
             to one training image than to any other; {} equal one.",
            100.0 * score.share,
            near.len(),
            score.copies
        );
        found.numbers.push(("memorised (pixels)".into(), format!("{:.1} %", 100.0 * score.share)));
        let figure = Figure::picture("neighbours", caption, &tiles(&self.model.path, &to_unit(&rows), shown));
        found.others.push(Section { title: "Nearest neighbours".into(), blocks: vec![PageBlock::Figure(figure)] });
        Ok(())
    }
}

/// How the samples are guided, or why they are not although the recipe says so.
fn guidance(model: &Model) -> String {
    match (model.recipe.sample.guidance, &model.guide) {
        (1.0, _) => String::new(),
        (factor, Some(guide)) => format!(" Guided by a model of {} weights, guidance {factor}.", guide.params.numel()),
        (factor, None) => {
            format!(" Not guided: the recipe has sample.guidance = {factor}, and there is no guide here.")
        }
    }
}

/// Sliced Wasserstein distance of images to `count` of the data.
fn distance(dataset: &Dataset, images: &[u8], count: usize) -> Result<Measured, ReportError> {
    let reference = evenly_spaced(dataset, 0, count);
    let size = [dataset.height(), dataset.width(), dataset.channels()];
    Ok(Distance::SlicedWasserstein { reference, directions: DIRECTIONS }.of(images, size)?)
}
