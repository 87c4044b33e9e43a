//! The way to corruption, its pace, and where it ends.

use super::page::ReportError;
use super::{Chart, Figure, PageBlock, Records, Section, Series, heat_map};
use crate::data::Dataset;
use crate::image::{Picture, from_unit, grid, to_unit};
use crate::model::Model;
use crate::path::Path;
use crate::schedule::paired_distances;
use softdiff_engine::rng::RandomStream;

/// Times shown, and images on their way.
const TIMES: usize = 10;
const IMAGES: usize = 4;
/// Images behind a distance, and behind the gap of the prior.
const MEASURED: usize = 256;
/// Images in a row of the prior.
const ROW: usize = 10;

fn values(dataset: &Dataset, first: usize, count: usize) -> Vec<f64> {
    let size = dataset.picture_size();
    let last = (first + count).min(dataset.len());
    to_unit(&dataset.pixels()[first.min(last) * size..last * size])
}

pub(super) fn tiles(path: &Path, images: &[f64], columns: usize) -> Picture {
    let shape = path.shape();
    let zoom = grid::usual_zoom(shape.width);
    grid::compose(shape.width, shape.height, shape.channels, &from_unit(images), columns, zoom)
}

/// Images of the data set on their way (Figure 1 of the paper, top).
pub(super) fn path_section(path: &Path, dataset: &Dataset) -> Result<Section, ReportError> {
    let images = values(dataset, 0, IMAGES);
    let size = path.shape().len();
    let mut shown = Vec::new();
    for (index, image) in images.chunks_exact(size).enumerate() {
        let eta = RandomStream::numbered(0, "noise of a report", index).normals(size);
        for step in 0..TIMES {
            shown.extend(path.diffuse(image, step as f64 / (TIMES - 1) as f64, &eta)?);
        }
    }
    let caption = "x_t = C_t x_0 + sigma_t eta for the first images of the data, from t = 0 (left) to t = 1 (right).";
    let figure = Figure::picture("path", caption, &tiles(path, &shown, TIMES));
    Ok(Section { title: "The corruption path".into(), blocks: vec![PageBlock::Figure(figure)] })
}

/// Level and noise over time; distances between the levels.
pub(super) fn schedule_section(
    records: &Records,
    model: &Model,
    dataset: Option<&Dataset>,
) -> Result<Section, ReportError> {
    let path = &model.path;
    let times: Vec<f64> = (0..=200).map(|i| f64::from(i) / 200.0).collect();
    let mut noise = Vec::new();
    let mut level = Vec::new();
    for &t in &times {
        noise.push((t, path.at(t)?.sigma));
        level.push((t, path.level(t)?));
    }
    let chart = |name: &str, points: Vec<(f64, f64)>, log_y: bool| Chart {
        x: "t".into(),
        y: name.into(),
        log_y,
        series: vec![Series::new(name, points)],
        ..Chart::default()
    };
    let mut blocks = Vec::new();
    if let Some(schedule) = &records.schedule {
        blocks.push(PageBlock::Text(format!(
            "{} levels of {}, chosen by {} among {} candidates on {} images; a path of cost {:.4}.",
            schedule.knots.len(),
            schedule.corruption,
            serde_json::to_value(schedule.method)
                .ok()
                .and_then(|v| Some(v.get("name")?.as_str()?.replace('_', " ")))
                .unwrap_or_default(),
            schedule.candidates.len(),
            schedule.data.images,
            schedule.path_cost
        )));
        blocks.push(PageBlock::Figure(Figure::chart(
            "schedule",
            "The level of corruption over time.",
            &chart("level", level, false),
        )));
        if let Some(sigmas) = &schedule.sigmas {
            let points = schedule.knots.iter().copied().zip(sigmas.iter().copied()).collect();
            let joint = Chart {
                x: "level".into(),
                y: "sigma".into(),
                series: vec![Series::new("knots", points)],
                ..Chart::default()
            };
            let caption = "Noise and level of the corruption together: the path that was chosen through both.";
            blocks.push(PageBlock::Figure(Figure::chart("joint", caption, &joint)));
        }
        let hops: Vec<(f64, f64)> = schedule.hops.iter().enumerate().map(|(i, h)| (i as f64 + 1.0, *h)).collect();
        let hops = Chart {
            x: "hop".into(),
            y: "distance".into(),
            series: vec![Series::new("distance", hops)],
            ..Chart::default()
        };
        blocks.push(PageBlock::Figure(Figure::chart(
            "hops",
            "The distance from each level to the next: a good schedule spends it evenly.",
            &hops,
        )));
        if let (Some(dataset), Some(corruption)) = (dataset, records.recipe.corruption(path.shape()).ok().flatten()) {
            let mut levels = schedule.knots.clone();
            levels.dedup();
            let distances = paired_distances(&*corruption, &levels, &values(dataset, 0, MEASURED), &|_, _| {})?;
            let map = heat_map(&levels, "level", distances.values(), "distance");
            let caption = "Distances between the levels (paired, the same images at both): dark is near, light is far. Hops go along \
                           the diagonal.";
            blocks.push(PageBlock::Figure(Figure::drawn("distances", caption, map)));
        }
    }
    blocks.push(PageBlock::Figure(Figure::chart(
        "noise",
        "The noise's standard deviation over time.",
        &chart("sigma", noise, true),
    )));
    Ok(Section { title: "The schedule".into(), blocks })
}

/// Samples of the prior next to the corrupted images they stand for.
pub(super) fn prior_section(model: &Model, dataset: &Dataset) -> Result<Section, ReportError> {
    let path = &model.path;
    let last = dataset.len().saturating_sub(MEASURED);
    let images = values(dataset, last, MEASURED);
    let shown = &images[..images.len().min(ROW * path.shape().len())];
    let eta = RandomStream::new(0, "noise of a prior's row").normals(shown.len());
    let mut rows = path.diffuse(shown, 1.0, &eta)?;
    rows.extend(model.starts(&(0..(shown.len() / path.shape().len()) as u64).collect::<Vec<_>>()));
    let caption = "Above: images of the data at t = 1. Below: draws from the prior, where samples start.";
    let mut blocks = vec![PageBlock::Figure(Figure::picture("prior", caption, &tiles(path, &rows, ROW)))];
    if images.len() >= 4 * path.shape().len() {
        let gap = model.prior.gap(path, &images, 4, 0)?;
        let row = |name: &str, value: f64, error: f64| vec![name.into(), format!("{value:.4}"), format!("{error:.4}")];
        blocks.push(PageBlock::Table {
            head: vec!["sliced W2 squared at t = 1".into(), "value".into(), "error".into()],
            rows: vec![
                row("prior to data", gap.sliced.value, gap.sliced.error),
                row("data to other data (the floor)", gap.sliced_floor.value, gap.sliced_floor.error),
            ],
        });
        if gap.leaks_training_images {
            blocks.push(PageBlock::Text(
                "This prior starts from corrupted training images: samples are not all its own.".into(),
            ));
        }
    }
    Ok(Section { title: "The prior".into(), blocks })
}
