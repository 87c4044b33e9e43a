//! `softdiff sample`: images from a trained model.

use super::checkpoint::CheckpointFlag;
use super::device::DeviceFlag;
use super::images::{self, LoadedImages};
use super::part::Part;
use super::seeds::Seeds;
use super::steps::steps;
use super::together::{OpenDevice, share};
use crate::atomic_file::save;
use crate::diagnostics::{Failure, Outcome};
use crate::output::counted;
use crate::progress::Progress;
use clap::Args;
use serde_json::json;
use softdiff::corruption::Shape;
use softdiff::engine::Device;
use softdiff::engine::ranks::Ranks;
use softdiff::image::FilmFormat;
use softdiff::metrics::Made;
use softdiff::model::{Generation, Generator, ImageMaker, Model, batch_size, write_images};
use softdiff::prior::Prior;
use softdiff::recipe::{SampleSection, Weights};
use softdiff::run::StopRequest;
use softdiff::sampler::{Ending, SamplerError};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Images to begin with are drawn from so many.
const MOST_BEGINNINGS: usize = 10_000;

const EXAMPLE: &str = "\
Example: 64 images as a grid, then the same ones by another sampler
  softdiff sample runs/first
  softdiff sample runs/first --sampler heun --steps 40 --out heun.png
  softdiff sample runs/first --checkpoint last --out last.png

Example: 1000 images as files, as one npz, and eight on their way
  softdiff sample runs/first --seeds 0..1000 --out images/
  softdiff sample runs/first --seeds 0..1000 --out images.npz
  softdiff sample runs/first --seeds 0..8 --means means.png --film film.gif

Example: the same files by four jobs, of which this is the first; by four processes that share the images
  softdiff sample runs/first --seeds 0..1000 --out images/ --only 1/4
  mpirun -n 4 softdiff sample runs/first --seeds 0..1000 --out images/ --device cpu

Example: steps that end at every knot of the schedule; an average of another width, made from the checkpoints kept
  softdiff sample runs/first --steps 64 --set sample.grid=knots --out knots.png
  softdiff sample runs/first --weights posthoc-0.1 --out wide.png

Example: autoguidance by a smaller network that was trained on the same images for a shorter time
  softdiff sample runs/first --guide runs/weaker --guidance 1.5 --out guided.png

Example: 8-bit values as score_sde makes them before it measures FID
  softdiff sample runs/first --seeds 0..1000 --set sample.quantise=truncate --out images.npz

Example: does the prior or the way back lose more? Begin with real images at the end of the path, and half way
  softdiff sample runs/first --begin-with DATA --seeds 0..1000 --out from-1.npz
  softdiff sample runs/first --begin-with DATA --begin-at 0.5 --seeds 0..1000 --out from-half.npz

Image i depends on the model and seed i alone, not on what else is made.";

/// Make images with a trained model.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Sample {
    /// A run's folder, one of its checkpoints, an exported model, or imported weights (.safetensors).
    model: PathBuf,
    /// Which images: 7, 0..64, 10..=19, or a list of these.
    #[arg(long, default_value = "0..64")]
    seeds: Seeds,
    /// Only one of several equal parts of the seeds, for jobs that make the others: 1/8 to 8/8. The images are those of one job.
    #[arg(long, value_name = "I/N")]
    only: Option<Part>,
    /// The sampler, if not the recipe's: naive, momentum, flow-momentum, ddim-form, churn, churn-rate, heun, multistep, dormand-prince,
    /// predictor-corrector; on VE, VP and sub-VP also reverse-diffusion, euler-maruyama, ancestral, ddim; for one-step networks ihdm.
    #[arg(long, value_name = "NAME")]
    sampler: Option<String>,
    /// Its steps, if not the recipe's.
    #[arg(long, value_parser = steps())]
    steps: Option<usize>,
    /// What the last step does: denoised, stepped or at-path-start; if not the recipe's.
    #[arg(long)]
    ending: Option<String>,
    /// Change a key of the recipe's [sample], such as sample.churn_rate=2.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A weaker model of the same path (smaller, trained for a shorter time) to guide by, if not the model's own.
    #[arg(long, value_name = "MODEL")]
    guide: Option<PathBuf>,
    /// How far to go from the guide's prediction towards the model's and beyond; 1 is without guidance; if not the recipe's.
    #[arg(long, value_name = "FACTOR", value_parser = guidance)]
    guidance: Option<f64>,
    /// Begin with images of this data set, corrupted, instead of with the prior: what is lost from there on?
    #[arg(long, value_name = "DATA")]
    begin_with: Option<PathBuf>,
    /// Up to which time they are corrupted, above 0 to 1; all steps are taken from there.
    #[arg(long, value_name = "TIME", default_value_t = 1.0, requires = "begin_with")]
    begin_at: f64,
    #[command(flatten)]
    checkpoint: CheckpointFlag,
    /// Which weights: ema-0.999 and the like, raw, or posthoc-0.05 and other widths; if not the recipe's.
    #[arg(long)]
    weights: Option<Weights>,
    /// Images at a time.
    #[arg(long)]
    batch: Option<NonZeroUsize>,
    /// Where to: a .png (grid), .npz or .zip, or a folder (one file per seed) [default: samples.png, without --film and --means].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the predicted clean images over time as one image, one row per seed.
    #[arg(long, value_name = "FILE")]
    means: Option<PathBuf>,
    /// A film of the first eight seeds, .gif or .png: x_t to the left, the predicted clean image to the right.
    #[arg(long, value_name = "FILE")]
    film: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceFlag,
}

impl Sample {
    pub fn run(self, json: bool, stop: &StopRequest) -> Outcome {
        share(&self.device, stop, |ranks, device| self.perform(ranks, device, json))
    }

    /// Rank 0 writes and speaks; the others make a part of the images and need the model, not the place of the files.
    fn perform(&self, ranks: &Ranks, device: &OpenDevice<'_>, json: bool) -> Outcome {
        let format = self.film.as_deref().map(film_format).transpose()?;
        let mut model = self.checkpoint.open(&self.model, self.weights)?;
        let guidance = self.guidance.map(|factor| format!("sample.guidance={factor:?}"));
        let all: Vec<String> = self.set.iter().cloned().chain(guidance).collect();
        let mut section = model.recipe.sample_with(&all)?;
        let mut set: Vec<String> = self.set.iter().filter(|set| !is_of_guidance(set)).cloned().collect();
        section.sampler = self.sampler.clone().unwrap_or(section.sampler);
        section.steps = self.steps.unwrap_or(section.steps);
        if let Some(ending) = &self.ending {
            section.ending = match ending.as_str() {
                "denoised" => Ending::Denoised,
                "stepped" => Ending::Stepped,
                "at-path-start" => Ending::AtPathStart,
                other => {
                    let failure = Failure::new(format!("there is no ending {other:?}"));
                    return Err(failure.hint("give denoised, stepped or at-path-start"));
                }
            };
        }
        let (sampler, mut sampling) = (section.build()?, section.sampling(&model.path)?);
        set.extend(self.ending.iter().map(|e| format!("sample.ending={e}")));
        if let Some(guide) = &self.guide {
            if section.guidance == 1.0 {
                let failure = Failure::new("a guide changes nothing at sample.guidance = 1");
                return Err(failure.hint("give --guidance 1.5 or so"));
            }
            model = model.with_guide(Model::open(guide, None)?)?;
        }
        let mut model = model.guided(section.guidance)?.into_owned();
        let run = model.run_identity();
        if let Some(data) = &self.begin_with {
            let pictures = beginnings(data, self.begin_at, model.path.shape())?;
            model.prior = Prior::data(&model.path, &pictures.pixels, self.begin_at)?;
            sampling = sampling.beginning(self.begin_at);
            set.push(format!("begin at {} with {}", self.begin_at, pictures.source));
        }
        let device = device()?;
        let seeds = match self.only {
            Some(part) => part.of(&self.seeds.0, "seeds")?,
            None => &self.seeds.0,
        };
        let batch = self.batch.map(NonZeroUsize::get).unwrap_or(batch_size::SAMPLING.on(&device));
        let batch = batch_size::of_part(batch, seeds.len(), &device, ranks);
        let precision = model.recipe.train.precision;
        let generation = model.generation(sampler.as_ref(), &sampling, batch);
        let made = Made {
            model: model.name.clone(),
            run: Some(run),
            step: model.step,
            checkpoint: model.checkpoint.as_ref().map(ToString::to_string),
            weights: model.weights.to_string(),
            sampler: section.sampler.clone(),
            steps: section.steps,
            evaluations: 0,
            quantise: section.quantise,
            seeds: self.seeds.to_string(),
            guidance: (section.guidance != 1.0).then_some(section.guidance),
            guide: self.guide.as_ref().map(|guide| guide.display().to_string()),
            set,
        };
        // A film alone replaces no grid that was made before.
        let usual = (self.means.is_none() && self.film.is_none()).then(|| PathBuf::from("samples.png"));
        let out = self.out.clone().or(usual);
        let mut generator =
            Generator::new(&device, model.predictor(), &generation, precision)?.with_ranks(ranks.clone());
        model.require_same(ranks, &generation, seeds, &serde_json::to_vec(&made)?)?;
        if !ranks.is_first() {
            return if out.is_some() { Ok(generator.serve(&generation)?) } else { Ok(()) };
        }
        let mut making = Making {
            generator,
            generation,
            made,
            progress: Progress::new("sampling", "images"),
            done: 0,
            total: seeds.len(),
            time: Duration::ZERO,
        };
        let mut written = Vec::new();
        let mut images = None;
        if let Some(out) = out {
            write_images(&out, model.path.shape(), seeds, batch * ranks.size(), &mut making)?;
            making.generator.release()?;
            images = Some((making.made(), making.time.as_secs_f64()));
            written.push(out.display().to_string());
        }
        drop(making);
        if self.means.is_some() || self.film.is_some() {
            let watched = model.watch_sampling(&device, sampler.as_ref(), &sampling, seeds, precision)?;
            if let Some(file) = &self.means {
                save(file, &watched.means().to_png())?;
                written.push(file.display().to_string());
            }
            if let Some((file, format)) = self.film.as_deref().zip(format) {
                let film = watched.film(format).ok_or_else(|| Failure::new("there is nothing to show in a film"))?;
                save(file, &film)?;
                written.push(file.display().to_string());
            }
        }
        report(&model, &section, &device, seeds.len(), images, &written, json);
        Ok(())
    }
}

/// The images of a command in the making.
struct Making<'a> {
    generator: Generator,
    generation: Generation<'a>,
    made: Made,
    progress: Progress,
    done: usize,
    total: usize,
    time: Duration,
}

impl ImageMaker for Making<'_> {
    fn images(&mut self, seeds: &[u64]) -> Result<Vec<f64>, SamplerError> {
        let begun = Instant::now();
        let images = self.generator.images(&self.generation, seeds, &mut |_, _| Ok(()))?;
        self.time += begun.elapsed();
        self.done += seeds.len();
        self.progress.update(self.done, self.total);
        Ok(images)
    }

    fn made(&self) -> Made {
        Made { evaluations: self.generator.evaluations(), ..self.made.clone() }
    }
}

/// The factor of a guide, in the range of sample.guidance.
fn guidance(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.0..=100.0).contains(factor));
    factor.ok_or_else(|| "expected a number from 0 to 100".into())
}

/// Whether a change of the recipe sets the guidance, which is recorded in a field of its own.
fn is_of_guidance(set: &str) -> bool {
    set.split('=').next().is_some_and(|key| key.trim() == "sample.guidance")
}

/// The format of a film by its file's name.
fn film_format(path: &Path) -> Result<FilmFormat, Failure> {
    path.extension().and_then(|ending| FilmFormat::of_ending(&ending.to_string_lossy())).ok_or_else(|| {
        Failure::new(format!("{}: no format of films", path.display()))
            .hint("give a .gif, or a .png, which is animated")
    })
}

/// The images to begin with.
fn beginnings(data: &Path, at: f64, shape: Shape) -> Result<LoadedImages, Failure> {
    if !(at > 0.0 && at <= 1.0) {
        return Err(Failure::new(format!("--begin-at is {at}")).hint("give a time above 0 and up to 1, such as 0.5"));
    }
    let pictures = images::load(data, MOST_BEGINNINGS)?;
    if pictures.shape != shape {
        let failure =
            Failure::new(format!("{} has images of {}, the model makes {shape}", data.display(), pictures.shape));
        return Err(failure.hint("softdiff data prepare crops and resizes"));
    }
    Ok(pictures)
}

/// Says what was done; `made` and the seconds it took are of the images, where some were written beside a film.
fn report(
    model: &Model,
    SampleSection { sampler, steps, guidance, .. }: &SampleSection,
    device: &Device,
    images: usize,
    made: Option<(Made, f64)>,
    written: &[String],
    json: bool,
) {
    if json {
        let (evaluations, seconds) = made.map(|(made, seconds)| (made.evaluations, seconds)).unzip();
        let facts = json!({
            "model": model.name, "step": model.step, "checkpoint": model.checkpoint, "weights": model.weights.to_string(),
            "sampler": sampler, "steps": steps, "guidance": guidance, "evaluations": evaluations, "images": images, "seconds": seconds,
            "device": device.to_string(), "files": written,
            "starts_from_training_images": model.prior.leaks_training_images(),
        });
        println!("{facts}");
        return;
    }
    if model.prior.leaks_training_images() {
        eprintln!(
            "warning: sampling begins with corrupted images of a data set, so the samples are not all the model's own"
        );
    }
    let (images, stage) = (counted(images, "image"), model.stage());
    let cost = made.map_or(String::new(), |(made, seconds)| {
        format!(" and {} evaluations each, {seconds:.1} s on {device}", made.evaluations)
    });
    let guided = if *guidance == 1.0 { String::new() } else { format!(", guidance {guidance}") };
    eprintln!("{images} of {} at {stage} ({}), {sampler} in {steps} steps{guided}{cost}", model.name, model.weights);
    written.iter().for_each(|file| eprintln!("wrote {file}"));
}
