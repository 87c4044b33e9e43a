//! What a restoration leaves: images, and how near they come.

use crate::atomic_file::save;
use crate::diagnostics::{Failure, Outcome};
use softdiff::corruption::Shape;
use softdiff::image::{from_unit, grid, png};
use softdiff::restore::{PairScore, RestorationScores, Restored};
use std::path::Path;

/// The most samples on the sheet.
const MOST: usize = 12;

/// The scores for people.
pub fn table(scores: &RestorationScores) -> String {
    let number = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let line = |name: &str, score: &PairScore| {
        format!("{name:<12} {:>6} dB PSNR  {:>6} SSIM\n", number(score.psnr, 2), number(score.ssim, 4))
    };
    let mean = |of: fn(&PairScore) -> Option<f64>| {
        let values: Vec<f64> = scores.samples.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let typical = PairScore { psnr: mean(|score| score.psnr), ssim: mean(|score| score.ssim) };
    let sample = if scores.samples.is_empty() { String::new() } else { line("one sample", &typical) };
    [line("as seen", &scores.seen), line("mean", &scores.mean), sample].concat()
}

/// What [`files`] writes.
pub fn names(seeds: &[u64]) -> Vec<String> {
    let fixed = ["seen.png", "mean.png", "spread.png", "sheet.png"].map(str::to_owned);
    fixed.into_iter().chain(seeds.iter().map(|seed| format!("sample-{seed:03}.png"))).collect()
}

/// Writes all images into a folder; gives their names.
pub fn files(out: &Path, restored: &Restored, truth: Option<&[f64]>, seeds: &[u64]) -> Result<Vec<String>, Failure> {
    std::fs::create_dir_all(out).map_err(|error| {
        Failure::new(format!("cannot make {}: {error}", out.display())).hint("check the folder and its permissions")
    })?;
    let seen = &restored.observed.observation;
    let shape = seen.shape();
    let Shape { height, width, channels } = shape;
    let mut written = Vec::new();
    let mut picture = |name: &str, values: &[f64]| -> Result<(), Failure> {
        let path = out.join(name);
        save(&path, &png::encode(width, height, channels, &from_unit(values)))?;
        written.push(path.display().to_string());
        Ok(())
    };
    let spread = restored.spread();
    picture("seen.png", seen.values())?;
    picture("mean.png", &restored.mean)?;
    picture("spread.png", &spread)?;
    for (sample, seed) in restored.samples.chunks_exact(shape.len()).zip(seeds) {
        picture(&format!("sample-{seed:03}.png"), sample)?;
    }
    let samples = restored.samples.chunks_exact(shape.len()).take(MOST);
    let cells: Vec<&[f64]> = truth.into_iter().chain([seen.values(), &restored.mean, &spread]).chain(samples).collect();
    let pixels: Vec<u8> = cells.iter().flat_map(|cell| from_unit(cell)).collect();
    let zoom = (128 / width.max(1)).clamp(1, 4);
    let sheet = grid::compose(width, height, channels, &pixels, cells.len(), zoom);
    let path = out.join("sheet.png");
    save(&path, &sheet.to_png())?;
    written.push(path.display().to_string());
    Ok(written)
}

/// Makes the folder that a file goes to.
pub fn make_folder(file: &Path) -> Outcome {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::new(format!("cannot make {}: {error}", folder.display())).hint("check the folder and its permissions")
    })
}
