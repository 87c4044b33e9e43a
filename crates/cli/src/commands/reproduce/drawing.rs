//! The images of an experiment, each a file that its page shows.

use crate::atomic_file::save_in_folder;
use crate::diagnostics::Outcome;
use softdiff::corruption::Shape;
use softdiff::engine::Device;
use softdiff::engine::rng::RandomStream;
use softdiff::experiment::{FigureInputs, ReferenceData};
use softdiff::image::{from_unit, grid, to_unit};
use softdiff::model::Model;
use softdiff::recipe::SampleSection;
use std::path::Path;

/// Samples in a grid, and in a row of neighbours.
const GRID: usize = 64;
const ROW: usize = 16;
/// Images on their way, and times shown.
const ON_THEIR_WAY: usize = 4;
const TIMES: usize = 10;

/// Images in columns.
fn tiles(path: &Path, shape: Shape, bytes: &[u8], columns: usize) -> Outcome {
    let zoom = grid::usual_zoom(shape.width);
    let picture = grid::compose(shape.width, shape.height, shape.channels, bytes, columns, zoom);
    save_in_folder(path, &picture.to_png())
}

/// The first samples, uncurated.
pub fn samples(path: &Path, shape: Shape, bytes: &[u8]) -> Outcome {
    let shown = (bytes.len() / shape.len()).min(GRID);
    tiles(path, shape, &bytes[..shown * shape.len()], grid::square_columns(shown))
}

/// Images of the data from t = 0 to 1 (the paper's Figure 1).
pub fn paths(path: &Path, model: &Model, reference: &ReferenceData) -> Outcome {
    let shape = model.path.shape();
    let mut bytes = Vec::new();
    for index in 0..ON_THEIR_WAY.min(reference.dataset().len()) {
        let x0 = to_unit(reference.dataset().picture(index));
        let eta = RandomStream::numbered(0, "noise of an experiment's picture", index).normals(shape.len());
        for time in 0..TIMES {
            bytes.extend(from_unit(&model.path.diffuse(&x0, time as f64 / (TIMES - 1) as f64, &eta)?));
        }
    }
    tiles(path, shape, &bytes, TIMES)
}

/// The clean predictions on the way back (the paper's Figure 5).
pub fn means(path: &Path, model: &Model, section: &SampleSection, device: &Device) -> Outcome {
    let (sampler, sampling) = (section.build()?, section.sampling(&model.path)?);
    let seeds: Vec<u64> = (0..ON_THEIR_WAY as u64).collect();
    let precision = model.recipe.train.precision;
    let model = model.guided(section.guidance)?;
    let watched = model.watch_sampling(device, sampler.as_ref(), &sampling, &seeds, precision)?;
    save_in_folder(path, &watched.means().to_png())
}

/// Samples above their nearest training images (the paper's Figure 9).
pub fn neighbours(path: &Path, inputs: &FigureInputs<'_>) -> Outcome {
    let (shape, found) = (inputs.model.path.shape(), inputs.nearest);
    let shown = found.len().min(ROW);
    let mut rows = inputs.images[..shown * shape.len()].to_vec();
    rows.extend(found[..shown].iter().flat_map(|near| inputs.reference.dataset().picture(near.index)));
    tiles(path, shape, &rows, shown)
}
