//! `softdiff bench restore`: how near restored photographs come to the true ones, side by side with other software.
//!
//! NumPy, SciPy and Pillow degrade the photographs; every method gets the same files and is told what happened to them.

use super::peer::Peer;
use crate::atomic_file::save;
use crate::commands::device::DeviceFlag;
use crate::commands::images;
use crate::commands::restore::pictures_in;
use crate::commands::steps::steps;
use crate::diagnostics::{Failure, Outcome};
use crate::progress::Progress;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use softdiff::Device;
use softdiff::image::{Picture, decode, from_unit};
use softdiff::metrics::{psnr, ssim};
use softdiff::model::Model;
use softdiff::quote::one_line;
use softdiff::restore::{BlurKind, Restoration, Task, photo_model};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The peers' side of the bench.
const SCRIPT: &str = include_str!("../../../../../benches/peers/restoration.py");
const PACKAGES: &str = "numpy scipy pillow scikit-image bm3d";

/// Restore degraded photographs, side by side with other software: mean PSNR and SSIM of each task.
///
/// Blur of 1, 2 and 3 pixels with noise 2/255, noise of 15, 25 and 50 of 255, and photographs 2 and 4 times smaller.
#[derive(Args)]
#[command(after_help = "\
Example: with the peers in a virtual environment
  python3 -m venv peers && peers/bin/pip install numpy scipy pillow scikit-image bm3d
  softdiff bench restore photographs/ --crop 256 --against all --python peers/bin/python3")]
pub struct BenchRestore {
    /// Photographs, or folders of them.
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    /// A model that takes images of any size, if not the one for photographs.
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Peers: wiener, richardson-lucy, tv, nlm (scikit-image), bm3d, bicubic (Pillow); or all.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    against: Vec<String>,
    /// Cut a square of this side from the middle of each photograph.
    #[arg(long, value_name = "SIDE")]
    crop: Option<usize>,
    /// Only these tasks: blur-1, blur-2, blur-3, noise-15, noise-25, noise-50, shrink-2, shrink-4.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    tasks: Vec<String>,
    /// Evaluations of the network for a restored image, and steps of a sample.
    #[arg(long, default_value_t = 16, value_parser = steps())]
    steps: usize,
    /// Leave out the row of one sample.
    #[arg(long)]
    no_sample: bool,
    /// Keep all images in this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The Python that has the peers.
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    python: PathBuf,
    #[command(flatten)]
    device: DeviceFlag,
}

/// What is done to a photograph, as the peers are told.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum BenchTask {
    Blur { level: f64, noise: f64 },
    Noise { noise: f64 },
    Shrink { factor: usize },
}

const TASKS: [(&str, BenchTask); 8] = [
    ("blur-1", BenchTask::Blur { level: 1.0, noise: 2.0 }),
    ("blur-2", BenchTask::Blur { level: 2.0, noise: 2.0 }),
    ("blur-3", BenchTask::Blur { level: 3.0, noise: 2.0 }),
    ("noise-15", BenchTask::Noise { noise: 15.0 }),
    ("noise-25", BenchTask::Noise { noise: 25.0 }),
    ("noise-50", BenchTask::Noise { noise: 50.0 }),
    ("shrink-2", BenchTask::Shrink { factor: 2 }),
    ("shrink-4", BenchTask::Shrink { factor: 4 }),
];

impl BenchTask {
    fn kind(self) -> &'static str {
        match self {
            BenchTask::Blur { .. } => "blur",
            BenchTask::Noise { .. } => "noise",
            BenchTask::Shrink { .. } => "shrink",
        }
    }

    /// The same for us, and its noise.
    fn ours(self) -> (Task, Option<f64>) {
        match self {
            BenchTask::Blur { level, noise } => {
                let kind = Some(BlurKind::Gaussian);
                (Task::Deblur { kind, level: Some(level), boundary: None, direction: None }, Some(noise / 255.0))
            }
            BenchTask::Noise { noise } => (Task::Denoise, Some(noise / 255.0)),
            BenchTask::Shrink { factor } => (Task::SuperResolve { factor: Some(factor), filter: None }, None),
        }
    }

    /// The least whole number that the sides of a photograph must be multiples of.
    fn multiple(self) -> usize {
        if let BenchTask::Shrink { factor } = self { factor } else { 1 }
    }
}

#[derive(Deserialize)]
struct Hello {
    /// Methods, and the kinds of tasks they are for.
    methods: BTreeMap<String, Vec<String>>,
    missing: BTreeMap<String, String>,
    versions: BTreeMap<String, String>,
}

/// One method on one task, over all photographs.
#[derive(Default, Serialize)]
struct MethodScore {
    psnr: f64,
    ssim: f64,
    seconds: f64,
    images: usize,
}

impl MethodScore {
    fn add(&mut self, truth: &Picture, restored: &Picture, seconds: f64) -> Outcome {
        let Picture { width, height, channels, .. } = *truth;
        let near = psnr(&restored.pixels, &truth.pixels)?;
        let alike = ssim(&restored.pixels, &truth.pixels, height, width, channels)?;
        let (before, count) = (self.images as f64, (self.images + 1) as f64);
        let mean = |mean: f64, value: f64| (mean * before + value) / count;
        (self.psnr, self.ssim) = (mean(self.psnr, near), mean(self.ssim, alike));
        (self.seconds, self.images) = (mean(self.seconds, seconds), self.images + 1);
        Ok(())
    }
}

/// The scores of a task, by method.
type TaskScores = BTreeMap<String, MethodScore>;

impl BenchRestore {
    pub fn run(self, json: bool) -> Outcome {
        let tasks = self.chosen_tasks()?;
        let model = self.open_model()?;
        let device = self.device.open()?;
        let photographs = self.photographs()?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (mut peer, greeting) = Peer::start(&self.python, SCRIPT, &[], threads, PACKAGES)?;
        let hello: Hello = serde_json::from_value(greeting)?;
        let methods = self.methods(&hello);
        let kept = match &self.out {
            Some(folder) => folder.clone(),
            None => std::env::temp_dir().join(format!("softdiff-bench-restore-{}", std::process::id())),
        };
        std::fs::create_dir_all(&kept)?;
        let folder = BenchFolder { place: kept, is_kept: self.out.is_some() };

        let mut scores: Vec<TaskScores> = tasks.iter().map(|_| TaskScores::default()).collect();
        let progress = Progress::new("restoring", "images");
        for (number, (name, photograph)) in photographs.iter().enumerate() {
            for (index, (task_name, task)) in tasks.iter().enumerate() {
                progress.update(number * tasks.len() + index, photographs.len() * tasks.len());
                let truth = cut(photograph, self.crop, task.multiple());
                let place = |what: &str| folder.place.join(format!("{name}-{task_name}-{what}.png"));
                let (true_file, seen_file) = (place("true"), place("seen"));
                save(&true_file, &truth.to_png())?;
                peer.ask(&json!({ "degrade": task, "truth": true_file, "out": seen_file }))?;
                let seen = read(&seen_file)?;
                let all = &mut scores[index];
                if (seen.width, seen.height) == (truth.width, truth.height) {
                    all.entry("input".into()).or_default().add(&truth, &seen, 0.0)?;
                }
                for (what, restored, seconds) in self.ours(&model, &device, *task, &seen)? {
                    save(&place(what), &restored.to_png())?;
                    all.entry(what.into()).or_default().add(&truth, &restored, seconds)?;
                }
                for method in methods.iter().filter(|method| suits(&hello, method, *task)) {
                    let out = place(method);
                    let request = json!({ "restore": method, "task": task, "image": seen_file, "out": out });
                    let answer = peer.ask(&request)?;
                    if let Some(problem) = answer["error"].as_str() {
                        eprintln!("warning: {method} failed on {name}, {task_name}: {}", one_line(problem));
                        continue;
                    }
                    let seconds = answer["seconds"].as_f64().unwrap_or(f64::NAN);
                    all.entry(method.clone()).or_default().add(&truth, &read(&out)?, seconds)?;
                }
            }
        }
        drop(progress);
        let names: Vec<&str> = tasks.iter().map(|(name, _)| *name).collect();
        if json {
            let tasks: BTreeMap<&str, &TaskScores> = names.into_iter().zip(&scores).collect();
            println!(
                "{}",
                json!({
                    "model": model.name, "step": model.step, "device": device.to_string(), "photographs": photographs.len(),
                    "crop": self.crop, "steps": self.steps, "versions": hello.versions, "tasks": tasks,
                })
            );
            return Ok(());
        }
        print!("{}", table(&names, &scores));
        let versions: Vec<String> = hello.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        println!("\n{} photographs, {device}; {}", photographs.len(), versions.join(", "));
        Ok(())
    }

    fn chosen_tasks(&self) -> Result<Vec<(&'static str, BenchTask)>, Failure> {
        if let Some(unknown) = self.tasks.iter().find(|name| TASKS.iter().all(|(known, _)| known != name)) {
            let known: Vec<&str> = TASKS.iter().map(|(name, _)| *name).collect();
            return Err(Failure::new(format!("there is no task {unknown}")).hint(format!("give {}", known.join(", "))));
        }
        let chosen = |name: &str| self.tasks.is_empty() || self.tasks.iter().any(|task| task == name);
        Ok(TASKS.into_iter().filter(|(name, _)| chosen(name)).collect())
    }

    fn open_model(&self) -> Result<Model, Failure> {
        let place = match &self.model {
            Some(place) => place.clone(),
            None => photo_model()?,
        };
        let model = Model::open(&place, None)?;
        if !model.takes_any_size() {
            let failure = Failure::new(format!("{} makes images of one size", model.name));
            return Err(failure.hint("give --model one for photographs"));
        }
        Ok(model)
    }

    /// Names and colours of all photographs.
    fn photographs(&self) -> Result<Vec<(String, Picture)>, Failure> {
        let files = self.images.iter().flat_map(|image| match pictures_in(image) {
            pictures if pictures.is_empty() => vec![image.clone()],
            pictures => pictures,
        });
        let read = |file: PathBuf| {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok((name, images::one(&file, 0)?.with_channels(3)))
        };
        files.map(read).collect()
    }

    /// The peers that were asked for and are there.
    fn methods(&self, hello: &Hello) -> Vec<String> {
        if self.against.iter().any(|name| name == "all") {
            return hello.methods.keys().cloned().collect();
        }
        let mut methods = Vec::new();
        for name in &self.against {
            match hello.methods.contains_key(name) {
                true => methods.push(name.clone()),
                false => {
                    let why = hello.missing.get(name).map_or("no such peer", String::as_str);
                    eprintln!("warning: {name} is left out: {why}");
                }
            }
        }
        methods
    }

    /// The best guess and one sample, with their seconds.
    fn ours(
        &self,
        model: &Model,
        device: &Device,
        task: BenchTask,
        seen: &Picture,
    ) -> Result<Vec<(&'static str, Picture, f64)>, Failure> {
        let (task, noise) = task.ours();
        let mut section = model.recipe.restoring().sample;
        section.steps = self.steps;
        let restoration = Restoration::new(model).task(task).noise(noise).sampling(section).device(device);
        let restoration = restoration.guess_steps(self.steps);
        let picture = |shape: softdiff::Shape, values: &[f64]| Picture {
            width: shape.width,
            height: shape.height,
            channels: shape.channels,
            pixels: from_unit(values),
        };
        let begun = Instant::now();
        let restored = restoration.run(seen)?;
        let shape = restored.observed.observation.shape();
        let mut all = vec![("softdiff", picture(shape, &restored.mean), begun.elapsed().as_secs_f64())];
        if !self.no_sample {
            let begun = Instant::now();
            let restored = restoration.seeds(0..1).run(seen)?;
            all.push(("one sample", picture(shape, &restored.samples), begun.elapsed().as_secs_f64()));
        }
        Ok(all)
    }
}

fn suits(hello: &Hello, method: &str, task: BenchTask) -> bool {
    hello.methods.get(method).is_some_and(|kinds| kinds.iter().any(|kind| kind == task.kind()))
}

/// The middle of a photograph, with sides that are multiples of a number.
fn cut(photograph: &Picture, side: Option<usize>, multiple: usize) -> Picture {
    let most = |length: usize| side.map_or(length, |side| side.min(length)) / multiple * multiple;
    let (width, height) = (most(photograph.width), most(photograph.height));
    let (left, top) = ((photograph.width - width) / 2, (photograph.height - height) / 2);
    photograph.crop(left, top, width, height).unwrap_or_else(|| photograph.clone())
}

fn read(path: &Path) -> Result<Picture, Failure> {
    Ok(decode(&std::fs::read(path)?).map_err(|error| images::undecodable(path, error))?.with_channels(3))
}

/// A Markdown table: a row for each task, a column for each method, the best in bold.
fn table(tasks: &[&str], scores: &[TaskScores]) -> String {
    const FIRST: [&str; 3] = ["input", "softdiff", "one sample"];
    let mut methods: Vec<&String> = scores.iter().flat_map(TaskScores::keys).collect();
    methods.sort_by_key(|name| (FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()), (*name).clone()));
    methods.dedup();
    let names: Vec<&str> = methods.iter().map(|name| name.as_str()).collect();
    let mut out = format!("| PSNR in dB, SSIM | {} |\n|---|{}\n", names.join(" | "), "--:|".repeat(names.len()));
    for (task, scores) in tasks.iter().zip(scores) {
        let best = scores.values().map(|score| score.psnr).fold(f64::NEG_INFINITY, f64::max);
        let cell = |name: &&String| {
            scores.get(*name).map_or("–".to_owned(), |score| {
                let text = format!("{:.2}, {:.3}", score.psnr, score.ssim);
                if score.psnr == best { format!("**{text}**") } else { text }
            })
        };
        let cells: Vec<String> = methods.iter().map(cell).collect();
        out += &format!("| {task} | {} |\n", cells.join(" | "));
    }
    out
}

/// Where the images are, removed at the end unless they are to be kept.
struct BenchFolder {
    place: PathBuf,
    is_kept: bool,
}

impl Drop for BenchFolder {
    fn drop(&mut self) {
        if !self.is_kept {
            // What cannot be removed stays in the system's folder for temporary files.
            let _ = std::fs::remove_dir_all(&self.place);
        }
    }
}
