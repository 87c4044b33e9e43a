//! `softdiff train`: a recipe becomes a run, or a run goes on.

mod estimate;
mod gpus;
mod together;
mod watcher;

use together::ReduceChoice;
pub use watcher::Terminal;

use estimate::duration;

use super::device::DeviceFlag;
use crate::atomic_file::unwritable;
use crate::diagnostics::{Failure, Outcome};
use crate::output::counted;
use crate::progress::Tasks;
use clap::Args;
use serde_json::json;
use softdiff::corruption::Shape;
use softdiff::data::Source;
use softdiff::engine::Device;
use softdiff::history::LiveEventFile;
use softdiff::model::CheckpointChoice;
use softdiff::quote::one_line;
use softdiff::ranks::Launch;
use softdiff::recipe::Recipe;
use softdiff::run::{RunFolder, RunLock, StopRequest};
use softdiff::train::{
    CustomParts, Finished, PreparedRun, RunStore, SelectionCost, StepTime, Training, TrainingMemory,
    guidance_without_guide, too_few_images,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLE: &str = "\
Example: the quickstart's recipe with more steps; run it again to continue where it stopped
  softdiff train quickstart --out runs/first --set train.steps=2000

Example: the paper's CIFAR-10 model, on images of one's own
  softdiff recipe list
  softdiff train cifar10-blur --out runs/cifar10
  softdiff train my-recipe.toml --out runs/mine --dry-run

Example: watched in TensorBoard while it trains
  softdiff train quickstart --out runs/first --tensorboard
  tensorboard --logdir runs

Example: another objective; here IHDM's, whose network is sampled by ihdm
  softdiff train quickstart --out runs/ihdm --set objective.kind=one-step --set sample= --set preview=

Example: times drawn one in each part of a batch, and a tenth of the clean loss mixed in
  softdiff train quickstart --out runs/options --set train.stratified=true --set objective.mixture=0.1

Example: four processes that share every batch, on CPUs; the weights are those of any other number
  mpirun -n 4 softdiff train quickstart --out runs/together --device cpu

Example: all four GPUs of this machine
  softdiff train cifar10-blur --out runs/cifar10 --gpus 4

Exit codes: 0 done, 75 stopped by SIGTERM or SIGHUP and 130 by Ctrl-C with a checkpoint saved; 75 also where another rank is lost.";

/// Train a network by a recipe, or continue a run; what is in its folder is never lost.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Train {
    /// A recipe file, or the name of a built-in one; none continues the run in --out by its own recipe.
    recipe: Option<String>,
    /// The run's folder.
    #[arg(long, value_name = "RUN")]
    out: PathBuf,
    /// Change a key of the recipe, such as train.steps=5000.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Continue from this checkpoint: best (by the recipe's checkpoint.metric), last, or its step; later ones are set aside
    /// [default: last].
    #[arg(long, value_name = "best|last|STEP")]
    checkpoint: Option<CheckpointChoice>,
    /// Write losses, metrics and previews for TensorBoard as they come, to this folder [default: RUN/tensorboard].
    #[arg(long, value_name = "FOLDER", num_args = 0..=1)]
    tensorboard: Option<Option<PathBuf>>,
    #[command(flatten)]
    device: DeviceFlag,
    /// Train on this many GPUs of this machine, each by a process of its own.
    #[arg(long, value_name = "N", conflicts_with = "dry_run")]
    gpus: Option<usize>,
    /// In several processes: how the gradients of the ranks are added. exact: in a fixed order, so that their number changes no
    /// bit; fast: by the own sum of MPI or NCCL.
    #[arg(long, value_enum, default_value_t)]
    reduce: ReduceChoice,
    /// Say what would be done; write nothing.
    #[arg(long)]
    dry_run: bool,
}

impl Train {
    pub fn run(self, json: bool, stop: &StopRequest) -> Outcome {
        if self.dry_run {
            // A device that is not there is no reason to say nothing.
            let device = Device::choose(self.device.name()).ok().map(|(device, _)| device);
            return dry_run(self.recipe()?, device.as_ref(), json);
        }
        gpus::follow_starter(stop);
        match (self.gpus, Launch::from_env()) {
            (Some(_), Some(launch)) => {
                let Launch { launcher, size, .. } = launch;
                let failure = Failure::new(format!("--gpus under {launcher}, which started {size} processes"));
                return Err(failure.hint("leave --gpus out: each of these processes takes a GPU"));
            }
            (Some(count), None) => return gpus::start(count, self.device.name(), stop),
            (None, Some(launch)) => return self.run_together(launch, json, stop),
            (None, None) => {}
        }
        let (recipe, device) = (self.recipe()?, self.device.open()?);
        let mut terminal = Terminal::new(stop.clone(), json).with_tensorboard(self.live_event_file()?);
        let finished = perform_on(&mut terminal, recipe, &self.out, self.checkpoint.unwrap_or_default(), &device)?;
        self.say_done(&finished, json);
        Ok(())
    }

    /// The recipe that is named, or that of the run.
    fn recipe(&self) -> Result<Recipe, Failure> {
        let folder = RunFolder::new(&self.out);
        match &self.recipe {
            Some(name) => Ok(Recipe::open(name, &self.set)?),
            None if folder.config().is_file() => Ok(Recipe::saved(&folder.config(), &self.set)?),
            None => {
                let failure = Failure::new(format!("{} is no run to continue", self.out.display()));
                Err(failure.hint("name a recipe: softdiff recipe list shows the built-in ones"))
            }
        }
    }

    fn say_done(&self, finished: &Finished, json: bool) {
        let run = self.out.display().to_string();
        if json {
            let facts = json!({
                "run": run, "step": finished.step, "from_step": finished.from_step, "seconds": finished.seconds,
                "images_seen": finished.state.progress.images_seen, "skipped": finished.state.progress.guard.skipped,
            });
            println!("{facts}");
        } else {
            eprintln!("{run}: {} steps, trained for {:.0} s", finished.step, finished.seconds);
            eprintln!("next: softdiff sample {run}");
        }
    }

    /// The copy of the events for TensorBoard, where one is wanted.
    fn live_event_file(&self) -> Result<Option<LiveEventFile>, Failure> {
        let run = RunFolder::new(&self.out);
        let Some(folder) = &self.tensorboard else { return Ok(None) };
        let folder = match folder {
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
                folder.clone()
            }
            None => run.root().join("tensorboard"),
        };
        Ok(Some(LiveEventFile::new(&run, &folder)))
    }
}

/// Trains the run in `out`, shown on the terminal.
pub fn perform(
    recipe: Recipe,
    out: &Path,
    checkpoint: CheckpointChoice,
    device: &Device,
    stop: &StopRequest,
    quiet: bool,
) -> Result<Finished, Failure> {
    perform_on(&mut Terminal::new(stop.clone(), quiet), recipe, out, checkpoint, device)
}

fn perform_on(
    terminal: &mut Terminal,
    recipe: Recipe,
    out: &Path,
    checkpoint: CheckpointChoice,
    device: &Device,
) -> Result<Finished, Failure> {
    terminal.say(&format!("device: {device}"));
    let progress = preparing();
    let training = Training::of(recipe).device(device).checkpoint(checkpoint).watch(terminal).progress(&progress);
    Ok(training.run_in(out)?.finished)
}

/// Loads the data and makes the schedule and the prior, shown on the terminal.
pub fn prepare(
    recipe: Recipe,
    folder: &RunFolder,
    lock: &RunLock,
    terminal: &mut Terminal,
) -> Result<PreparedRun, Failure> {
    let store = Some(RunStore { folder, lock });
    Ok(PreparedRun::new(recipe, CustomParts::default(), store, terminal, &preparing())?)
}

fn preparing() -> impl Fn(&'static str, &'static str, usize, usize) + Sync {
    let tasks = Tasks::default();
    move |task, unit, done, total| tasks.update(task, unit, done, total)
}

/// What a run of this recipe would be.
fn dry_run(mut recipe: Recipe, device: Option<&Device>, json: bool) -> Outcome {
    let source = Source::open_split(Path::new(&recipe.data.source), recipe.data.split)?;
    let options = recipe.data.load_options();
    let one = softdiff::data::LoadOptions { limit: Some(1), ..options };
    let first = source.load(&one, &|_, _| {})?;
    let images = recipe.data.limit.unwrap_or(usize::MAX).min(source.len());
    let shape = Shape::new(first.height(), first.width(), first.channels());
    let network = recipe.network(shape)?;
    recipe.network.settle(Some(shape.height));
    let memory = TrainingMemory::of(&network, shape, &recipe.train)?;
    if let Some(device) = device {
        memory.require(device)?;
    }
    let parameters = memory.parameters;
    let bytes = memory.on(device.unwrap_or(&Device::Cpu));
    let selection = SelectionCost::of(&recipe)?;
    let warnings = [too_few_images(images, &recipe.train), guidance_without_guide(&recipe.sample)];
    let warnings: Vec<String> = warnings.into_iter().flatten().collect();
    let time = match device {
        Some(device) => Some(StepTime::measure(Arc::new(network.clone()), shape, &recipe.train, device)?),
        None => None,
    };
    let seconds = time.map(|time| time.seconds * recipe.train.steps as f64);
    let sides: Vec<usize> = (0..network.multipliers.len()).map(|level| shape.height >> level).collect();
    if json {
        let facts = json!({
            "recipe": recipe.name, "images": images, "shape": shape, "path": recipe.path.kind(),
            "parameters": parameters, "memory": bytes, "steps": recipe.train.steps, "batch": recipe.train.batch,
            "selection": selection, "sides": sides, "attention": network.attention,
            "step_seconds": time.map(|time| time.seconds), "seconds": seconds,
            "warning": (!warnings.is_empty()).then(|| warnings.join("; ")),
            "config": recipe.to_toml(),
        });
        println!("{facts}");
        return Ok(());
    }
    println!("recipe      {}", one_line(&recipe.name));
    println!(
        "data        {} of {shape}: {} {}",
        counted(images, "image"),
        source.format(),
        one_line(&recipe.data.source)
    );
    println!("path        {}", recipe.path.kind());
    let list = |sizes: &mut dyn Iterator<Item = usize>| {
        let sizes: Vec<String> = sizes.map(|size| size.to_string()).collect();
        if sizes.is_empty() { "none".to_owned() } else { sizes.join(", ") }
    };
    let channels = list(&mut network.multipliers.iter().map(|multiplier| multiplier * network.channels));
    let attention = list(&mut network.attention.iter().copied());
    println!("network     {parameters} parameters");
    println!("levels      {} pixels with {channels} channels; attention at {attention}", list(&mut sides.into_iter()));
    println!("memory      {}", memory.words(device.unwrap_or(&Device::Cpu)));
    let epochs = (recipe.train.steps * recipe.train.batch as u64) as f64 / images.max(1) as f64;
    println!("training    {} steps of {} images: {epochs:.1} epochs", recipe.train.steps, recipe.train.batch);
    if let (Some(StepTime { seconds: step, images, steps }), Some(seconds)) = (time, seconds) {
        let (step, total) = (duration(step), duration(seconds));
        println!(
            "time        about {total}, {step} a step ({} timed with {}); previews, scores and checkpoints come on top",
            counted(steps as usize, "step"),
            counted(images, "image")
        );
    }
    if let Some(selection) = selection {
        println!("selection   {selection}");
    }
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    println!("\n# resolved recipe\n{}", recipe.to_toml());
    Ok(())
}
