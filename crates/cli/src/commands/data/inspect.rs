//! `softdiff data inspect`: what is in a data set, as text, JSON and an image.

use super::{ExifFlag, SplitName, explain_opening};
use crate::atomic_file;
use crate::diagnostics::{Failure, Outcome};
use crate::output::counted;
use crate::progress::Progress;
use clap::Args;
use serde_json::{Value, json};
use softdiff::data::{Crop, Exif, Skipped, Source, Survey, Transform};
use softdiff::image::grid;
use softdiff::quote::one_line;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Images of a grid.
const GRID_IMAGES: usize = 64;
/// Larger images are shrunk to this side, smaller ones are magnified towards it.
const GRID_SIDE: usize = 96;
/// How many duplicates and broken files the text lists; JSON lists all.
const LISTED: usize = 20;

const EXAMPLE: &str = "\
Example: look at the data set inside the program.
  softdiff data inspect embedded:fashion-mnist --grid fashion.png

Every image is decoded. Broken ones are listed with the reason; the command still succeeds.";

/// Show counts, sizes, colours, classes, duplicates and broken files.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Inspect {
    /// The data set: a file, a folder, embedded:fashion-mnist, or the name of fetched data such as cifar10.
    path: PathBuf,
    /// Which part of a set that has several.
    #[arg(long, value_enum, default_value_t, value_name = "PART")]
    split: SplitName,
    #[command(flatten)]
    exif: ExifFlag,
    /// Write a PNG of 64 images, evenly spread over the set.
    #[arg(long, value_name = "FILE")]
    grid: Option<PathBuf>,
}

impl Inspect {
    pub fn run(self, json: bool) -> Outcome {
        let source = Source::open_split(&self.path, self.split.into()).map_err(explain_opening)?;
        let progress = Progress::new("decoding", "images");
        let survey = Survey::of(&source, self.exif.into(), &|done, total| progress.update(done, total));
        drop(progress);
        if let Some(file) = &self.grid {
            write_grid(&source, &survey, self.exif.into(), file)?;
        }
        let mut out = io::stdout().lock();
        let printed =
            if json { writeln!(out, "{}", as_json(&source, &survey)) } else { write_text(&mut out, &source, &survey) };
        match printed {
            // The reader of a pipe (`| head`) has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            printed => Ok(printed?),
        }
    }
}

fn as_json(source: &Source, survey: &Survey) -> Value {
    let sizes: Vec<Value> = survey
        .sizes
        .iter()
        .map(|((width, height), count)| json!({ "width": width, "height": height, "count": count }))
        .collect();
    let classes: Vec<Value> = survey
        .class_counts
        .iter()
        .map(|(&label, count)| json!({ "label": label, "name": source.classes().get(label as usize), "count": count }))
        .collect();
    let name = |index| source.picture_name(index);
    let duplicates: Vec<Value> =
        survey.duplicates.iter().map(|&(copy, of)| json!({ "file": name(copy), "same_as": name(of) })).collect();
    let broken: Vec<Value> =
        survey.broken.iter().map(|Skipped { file, reason }| json!({ "file": file, "reason": reason })).collect();
    json!({
        "source": source.path().display().to_string(),
        "format": source.format(),
        "pictures": survey.listed,
        "good": survey.listed - survey.broken.len(),
        "passed_over": source.ignored(),
        "sizes": sizes,
        "grey": survey.grey,
        "coloured": survey.coloured,
        "mean": survey.statistics.iter().map(|channel| channel.mean).collect::<Vec<_>>(),
        "std": survey.statistics.iter().map(|channel| channel.std).collect::<Vec<_>>(),
        "classes": classes,
        "unlabelled": survey.unlabelled,
        "duplicates": duplicates,
        "broken": broken,
    })
}

fn write_text(out: &mut impl Write, source: &Source, survey: &Survey) -> io::Result<()> {
    let mut fact = |name: &str, fact: String| writeln!(out, "{name:<12}{}", one_line(&fact));
    fact("source", format!("{}: {}", source.path().display(), source.format()))?;
    fact("images", survey.listed.to_string())?;
    if source.ignored() > 0 {
        fact("passed over", format!("{} files that are no images", source.ignored()))?;
    }
    fact("sizes", sizes(survey))?;
    fact("colours", colours(survey))?;
    let numbers = |number: fn(&softdiff::data::Statistics) -> f64| {
        survey.statistics.iter().map(|channel| format!("{:.4}", number(channel))).collect::<Vec<_>>().join("  ")
    };
    fact("mean", numbers(|channel| channel.mean))?;
    fact("std", numbers(|channel| channel.std))?;
    fact("classes", classes(source, survey))?;
    fact("duplicates", survey.duplicates.len().to_string())?;
    let name = |index| source.picture_name(index);
    let duplicates = survey.duplicates.iter().map(|&(copy, of)| format!("{} is {}", name(copy), name(of)));
    for line in listed(duplicates, survey.duplicates.len()) {
        fact("", line)?;
    }
    fact("broken", survey.broken.len().to_string())?;
    for line in listed(survey.broken.iter().map(Skipped::to_string), survey.broken.len()) {
        fact("", line)?;
    }
    Ok(())
}

fn listed(lines: impl Iterator<Item = String>, count: usize) -> impl Iterator<Item = String> {
    let more = (count > LISTED).then(|| format!("and {} more (--json lists all)", count - LISTED));
    lines.take(LISTED).chain(more)
}

fn sizes(survey: &Survey) -> String {
    let mut sizes: Vec<_> = survey.sizes.iter().collect();
    sizes.sort_by_key(|&(size, count)| (std::cmp::Reverse(count), size));
    match sizes.as_slice() {
        [] => "none".into(),
        [((width, height), _)] => format!("{width} x {height}"),
        sizes => {
            let first = sizes.iter().take(5).map(|((width, height), count)| format!("{width} x {height} ({count})"));
            let more = (sizes.len() > 5).then(|| format!("and {} more sizes", sizes.len() - 5));
            first.chain(more).collect::<Vec<_>>().join(", ")
        }
    }
}

fn colours(survey: &Survey) -> String {
    match (survey.grey, survey.coloured) {
        (0, 0) => "none".into(),
        (_, 0) => "grey".into(),
        (0, _) => "RGB".into(),
        (grey, coloured) => format!("RGB ({coloured}), grey ({grey})"),
    }
}

fn classes(source: &Source, survey: &Survey) -> String {
    if survey.class_counts.is_empty() {
        return "none".into();
    }
    let name = |label: u32| source.classes().get(label as usize).cloned().unwrap_or_else(|| label.to_string());
    let shown = survey.class_counts.iter().take(LISTED).map(|(&label, count)| format!("{} {count}", name(label)));
    let count = survey.class_counts.len();
    let more = (count > LISTED).then(|| format!("and {} more", count - LISTED));
    format!("{count}: {}", shown.chain(more).collect::<Vec<_>>().join(", "))
}

/// Images evenly spread over the set, all made the size that most have.
fn write_grid(source: &Source, survey: &Survey, exif: Exif, file: &Path) -> Outcome {
    let Some((width, height)) = survey.usual_size() else {
        return Err(Failure::new("no image could be decoded, so there is no grid").hint("run again without --grid"));
    };
    let shrink = |side: usize| (side * GRID_SIDE / width.max(height)).max(1);
    let (cell_width, cell_height) =
        if width.max(height) > GRID_SIDE { (shrink(width), shrink(height)) } else { (width, height) };
    let channels = if survey.coloured > 0 { 3 } else { 1 };
    let transform = Transform { crop: Crop::Centre, size: Some((cell_width, cell_height)), channels: Some(channels) };
    let count = source.len().min(GRID_IMAGES);
    let chosen = (0..count).map(|number| number * source.len() / count);
    let pictures: Vec<u8> = chosen
        .filter_map(|index| source.read(index, exif).and_then(|picture| transform.apply(picture)).ok())
        .flat_map(|picture| picture.pixels)
        .collect();
    let columns = grid::square_columns(count);
    let zoom = (GRID_SIDE / cell_width.max(cell_height)).max(1);
    let grid = grid::compose(cell_width, cell_height, channels, &pictures, columns, zoom);
    let bytes = grid.to_png();
    atomic_file::save(file, &bytes)?;
    eprintln!("wrote {}: {}", file.display(), counted(count, "image"));
    Ok(())
}
