//! A run's whole page.

use super::path::{path_section, prior_section, schedule_section};
use super::samples::{SampleSections, Scene};
use super::{Page, PageBlock, Records, RecordsError, Section};
use crate::data::{Dataset, Source};
use crate::metrics::MetricError;
use crate::model::{Model, ModelError};
use crate::path::PathError;
use crate::prior::PriorError;
use crate::run::RunFolder;
use crate::sampler::SamplerError;
use crate::schedule::ScheduleError;
use softdiff_engine::Device;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The run's records.
    #[error("{0}")]
    Records(#[from] RecordsError),
    /// The model.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// The path.
    #[error("{0}")]
    Path(#[from] PathError),
    /// The prior.
    #[error("{0}")]
    Prior(#[from] PriorError),
    /// The schedule's distances.
    #[error("{0}")]
    Schedule(#[from] ScheduleError),
    /// Sampling.
    #[error("{0}")]
    Sampler(#[from] SamplerError),
    /// A metric.
    #[error("{0}")]
    Metric(#[from] MetricError),
}

/// The page of the run in `folder`, finished or not; `images` are sampled for it, none if 0.
pub fn page(
    folder: &RunFolder,
    device: &Device,
    images: usize,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<Page, ReportError> {
    let records = Records::read(folder)?;
    let model = match Model::open(folder.root(), None) {
        Ok(model) => Some(model),
        // A run that has only begun.
        Err(ModelError::NoCheckpoint(_) | ModelError::Prior(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let (dataset, missing) = match load(&records) {
        Ok(dataset) => (Some(dataset), None),
        Err(error) => {
            (None, Some(format!("The images could not be read again ({error}): what needs them is left out.")))
        }
    };
    let mut sections = Vec::new();
    let mut sampled = SampleSections::default();
    let quality = records.kept.quality();
    if let Some(model) = &model
        && images > 0
    {
        let measured = quality.is_some();
        sampled = Scene { model, dataset: dataset.as_ref(), device, images, measured }.sections(progress)?;
    }
    // An exported model has no events.
    let step = match &model {
        Some(model) if records.events.is_empty() => model.step,
        _ => records.step(),
    };
    sections.push(summary(&records, step, model.as_ref(), dataset.as_ref(), missing, &sampled));
    sections.extend(sampled.grid);
    if let Some(model) = &model {
        if let Some(dataset) = &dataset {
            sections.push(path_section(&model.path, dataset)?);
        }
        sections.push(schedule_section(&records, model, dataset.as_ref())?);
        if let Some(dataset) = &dataset {
            sections.push(prior_section(model, dataset)?);
        }
    }
    sections.push(records.training());
    sections.extend(records.previews());
    sections.extend(sampled.others);
    sections.extend(quality);
    sections.extend(records.kept.section());
    sections.push(records.reproduce());
    let recipe = &records.recipe;
    let lead = format!("A {} diffusion, {} steps of training.", recipe.path.kind(), step);
    Ok(Page { title: format!("softdiff: {}", recipe.name), lead, sections })
}

fn load(records: &Records) -> Result<Dataset, crate::data::DataError> {
    let data = &records.recipe.data;
    Source::open_split(data.source.as_ref(), data.split)?.load(&data.load_options(), &|_, _| {})
}

fn summary(
    records: &Records,
    step: u64,
    model: Option<&Model>,
    dataset: Option<&Dataset>,
    missing: Option<String>,
    sampled: &SampleSections,
) -> Section {
    let recipe = &records.recipe;
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut row = |name: &str, value: String| rows.push([name.into(), value]);
    if let Some(set) = dataset {
        let (height, width, channels) = (set.height(), set.width(), set.channels());
        row("data", format!("{} images of {height}x{width}x{channels}, {}", set.len(), recipe.data.source));
    }
    let kind = recipe.path.corruption().map_or("none", |corruption| corruption.kind());
    row("path", format!("{}, corruption: {kind}", recipe.path.kind()));
    if let Some(model) = model {
        row("network", format!("U-Net of {} weights", model.params.numel()));
        if let Some(guide) = &model.guide {
            let (size, factor) = (guide.params.numel(), recipe.sample.guidance);
            row("guide of the samples", format!("U-Net of {size} weights, guidance {factor}"));
        }
        row("weights shown", format!("{} after {} steps", model.weights, model.step));
    }
    let seen = step * recipe.train.batch as u64;
    row("training", format!("{step} of {} steps, {seen} images seen", recipe.train.steps));
    if let Some(time) = records.time() {
        row("time", time);
    }
    if let Some(session) = records.sessions.last() {
        row("device", session.device.clone());
    }
    for (name, value) in records.kept.lowest_fid().iter().chain(&sampled.numbers) {
        row(name, value.clone());
    }
    let rows = rows.into_iter().map(|row| row.to_vec()).collect();
    let mut blocks = vec![PageBlock::Table { head: vec![String::new(); 2], rows }];
    blocks.extend(missing.map(PageBlock::Text));
    Section { title: "At a glance".into(), blocks }
}
