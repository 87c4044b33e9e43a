//! `softdiff train`: a recipe becomes a run, or a run goes on.

mod together;
mod watcher;

use together::ReduceChoice;
pub use watcher::Terminal;

use super::device::DeviceFlag;
use crate::diagnostics::{Failure, Outcome};
use crate::progress::Tasks;
use clap::Args;
use serde_json::json;
use softdiff::corruption::Shape;
use softdiff::data::Source;
use softdiff::engine::Device;
use softdiff::engine::memory::Size;
use softdiff::model::CheckpointChoice;
use softdiff::quote::one_line;
use softdiff::ranks::Launch;
use softdiff::recipe::Recipe;
use softdiff::run::{RunFolder, RunLock, StopRequest};
use softdiff::train::{CustomParts, Finished, PreparedRun, RunStore, SelectionCost, Training, TrainingMemory};
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Example: the quickstart's recipe with more steps; run it again to continue where it stopped
  softdiff train quickstart --out runs/first --set train.steps=2000

Example: the paper's CIFAR-10 model, on images of one's own
  softdiff recipe list
  softdiff train cifar10-blur --out runs/cifar10 --set data.source=cifar-10-batches-bin
  softdiff train my-recipe.toml --out runs/mine --dry-run

Example: another objective; here IHDM's, whose network is sampled by ihdm
  softdiff train quickstart --out runs/ihdm --set objective.kind=one-step --set sample= --set preview=

Example: times drawn one in each part of a batch, and a tenth of the clean loss mixed in
  softdiff train quickstart --out runs/options --set train.stratified=true --set objective.mixture=0.1

Example: four processes that share every batch, on CPUs; the weights are those of any other number
  mpirun -n 4 softdiff train quickstart --out runs/together --device cpu

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
    #[command(flatten)]
    device: DeviceFlag,
    /// Under mpirun or srun: how the gradients of the ranks are added. exact: in a fixed order, so that their number changes no
    /// bit; fast: by MPI's own sum.
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
            return dry_run(&self.recipe()?, device.as_ref(), json);
        }
        if let Some(launch) = Launch::from_env() {
            return self.run_together(launch, json, stop);
        }
        let (recipe, device) = (self.recipe()?, self.device.open()?);
        let finished = perform(recipe, &self.out, self.checkpoint.unwrap_or_default(), &device, stop, json)?;
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
    let mut terminal = Terminal::new(stop.clone(), quiet);
    terminal.say(&format!("device: {device}"));
    let progress = preparing();
    let training = Training::of(recipe).device(device).checkpoint(checkpoint).watch(&mut terminal).progress(&progress);
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
fn dry_run(recipe: &Recipe, device: Option<&Device>, json: bool) -> Outcome {
    let source = Source::open_split(Path::new(&recipe.data.source), recipe.data.split)?;
    let options = recipe.data.load_options();
    let one = softdiff::data::LoadOptions { limit: Some(1), ..options };
    let first = source.load(&one, &|_, _| {})?;
    let images = recipe.data.limit.unwrap_or(usize::MAX).min(source.len());
    let shape = Shape::new(first.height(), first.width(), first.channels());
    let network = recipe.network(shape)?;
    let memory = TrainingMemory::of(&network, shape, &recipe.train)?;
    if let Some(device) = device {
        memory.require(device)?;
    }
    let parameters = memory.parameters;
    let bytes = memory.on(device.unwrap_or(&Device::Cpu));
    let selection = SelectionCost::of(recipe)?;
    if json {
        let facts = json!({
            "recipe": recipe.name, "images": images, "shape": shape, "path": recipe.path.kind(),
            "parameters": parameters, "memory": bytes, "steps": recipe.train.steps, "batch": recipe.train.batch,
            "selection": selection,
            "config": recipe.to_toml(),
        });
        println!("{facts}");
        return Ok(());
    }
    println!("recipe      {}", one_line(&recipe.name));
    println!("data        {images} images of {shape}: {} {}", source.format(), one_line(&recipe.data.source));
    println!("path        {}", recipe.path.kind());
    println!("network     {parameters} parameters");
    println!(
        "memory      {} beside the images{}",
        Size(bytes),
        if device.is_some_and(Device::is_gpu) { ", and the GPU's" } else { "" }
    );
    let epochs = (recipe.train.steps * recipe.train.batch as u64) as f64 / images.max(1) as f64;
    println!("training    {} steps of {} images: {epochs:.1} epochs", recipe.train.steps, recipe.train.batch);
    if let Some(selection) = selection {
        println!("selection   {selection}");
    }
    println!("\n# resolved recipe\n{}", recipe.to_toml());
    Ok(())
}
