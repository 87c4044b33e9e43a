//! `softdiff reproduce`: the paper's tables and figures, one name each.

mod drawing;
mod host;
mod page;
mod table;

use super::device::DeviceFlag;
use super::part::Part;
use super::together;
use crate::diagnostics::{Failure, Outcome};
use crate::output::{Verbosity, set_verbosity};
use crate::progress::Tasks;
use clap::{Args, ValueEnum};
use host::ExperimentTerminal;
use serde_json::json;
use softdiff::experiment::{Budget, EXPERIMENTS, Experiment, ExperimentRunner, parse_images};
use softdiff::inception::Inception;
use softdiff::ranks::Launch;
use softdiff::run::StopRequest;
use std::path::PathBuf;

const EXAMPLE: &str = "\
Example: list the experiments, then run a small version of one on built-in data
  softdiff reproduce list
  softdiff reproduce sampler-ablation --minutes 10

Example: on CIFAR-10, by FID, each model after two million images
  softdiff reproduce results --data cifar10 --images 2M

Example: mean and standard deviation over three sets of seeds
  softdiff reproduce sampler-ablation --minutes 10 --seeds 3

Example: the schedules of two data sets, side by side
  softdiff reproduce schedules --recipe cifar10-small --data cifar10 --data my-images.zip

Example: the models trained by four jobs, then measured by one
  softdiff reproduce results --images 2M --only 1/4     # to 4/4, or in a Slurm array of four tasks, or by mpirun -n 4
  softdiff reproduce results --images 2M

All models of an experiment have the same network, data, seed and number of steps. Stopped half-way, the same command
goes on where it was. Numbers of small budgets show which is better, not how good it can be.";

/// Repeat an experiment of the paper: train its models, measure them, and set the paper's numbers beside ours.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Reproduce {
    /// The name of the experiment; `reproduce list` shows all.
    name: String,
    /// Minutes for the whole experiment, shared equally by its models.
    #[arg(long, value_name = "M", conflicts_with_all = ["images", "budget"])]
    minutes: Option<f64>,
    /// Images that each model sees in training: 500000, 500k or 2M.
    #[arg(long, value_name = "N", value_parser = parse_images, conflicts_with = "budget")]
    images: Option<u64>,
    /// Train as long as the paper did: paper.
    #[arg(long, value_name = "paper", value_parser = ["paper"])]
    budget: Option<String>,
    /// The data set; several for schedules [default: the built-in Fashion-MNIST].
    #[arg(long, value_name = "SOURCE")]
    data: Vec<String>,
    /// The recipe whose keys the experiment changes [default: quickstart; with --data cifar10-small, with --budget cifar10-blur].
    #[arg(long)]
    recipe: Option<String>,
    /// The folder; the experiment gets one of its name inside.
    #[arg(long, default_value = "reproduce", value_name = "FOLDER")]
    out: PathBuf,
    /// Change a key of the recipe for all models, such as network.channels=32.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Images behind each number [default: up to 256 on a CPU and 10000 on a GPU by the minutes; 50000 with --budget].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    samples: Option<u32>,
    /// Sets of sampling seeds behind each number: its mean and standard deviation over them, and the least, are reported.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    seeds: u16,
    /// Only train one of several equal parts of the models, for jobs that train the others: 1/4 to 4/4; without it, the same command
    /// then measures all [default: the task of a Slurm array or the rank under a launcher, where it is one].
    #[arg(long, value_name = "I/N")]
    only: Option<Part>,
    /// What is measured [default: fid with a network, else sliced-wasserstein].
    #[arg(long, value_enum)]
    metric: Option<DistanceName>,
    /// The FID network [default: $SOFTDIFF_INCEPTION, else what softdiff data fetch fid-inception fetched].
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceFlag,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DistanceName {
    /// Fréchet Inception distance; needs the network.
    Fid,
    /// Sliced Wasserstein distance of the pixels.
    SlicedWasserstein,
}

impl Reproduce {
    pub fn run(self, json: bool, stop: &StopRequest) -> Outcome {
        if self.name == "list" {
            list(json);
            return Ok(());
        }
        let experiment = Experiment::find(&self.name)?;
        let budget = Budget::new(self.minutes, self.images, self.budget.is_some())?;
        let launch = Launch::from_env();
        let only = self.only.or_else(Part::of_slurm_array).or_else(|| launch.as_ref().map(Part::of_launch));
        if let (Some(part), Budget::Minutes(_)) = (only, &budget) {
            let failure = Failure::new(format!("part {part} would measure another pace than the other parts"));
            return Err(
                failure.hint("give --images N or --budget paper with --only, in a Slurm array and under a launcher")
            );
        }
        let models = experiment.plan(self.recipe.as_deref(), &self.data, &self.set, &budget)?;
        // Before hours of training, not after.
        let network = if experiment.trains() { self.network()? } else { None };
        let device = match &launch {
            Some(launch) => together::open(launch, &self.device)?,
            None => self.device.open()?,
        };
        if launch.is_some_and(|launch| launch.rank > 0) {
            set_verbosity(Verbosity::Quiet);
        }
        let folder = self.out.join(experiment.name);
        let mut host =
            ExperimentTerminal { experiment, folder: folder.clone(), device: device.clone(), stop: stop.clone(), json };
        let tasks = Tasks::default();
        let runner = ExperimentRunner {
            experiment,
            models,
            budget,
            samples: self.samples.map(|samples| samples as usize),
            seeds: self.seeds.into(),
            network,
            folder,
            device,
            command: typed(),
            progress: &|task, unit, done, total| tasks.update(task, unit, done, total),
        };
        if let Some(part) = only {
            runner.train_only(part.range(runner.models.len()), &mut host)?;
            if json {
                println!("{}", json!({ "only": part.to_string() }));
            } else {
                eprintln!("part {part} is trained; when all are, the same command without --only measures the models");
            }
            return Ok(());
        }
        let results = runner.run(&mut host)?;
        let files = host.publish(&runner, &results)?;
        if json {
            println!("{}", json!({ "results": results, "files": files }));
        } else {
            println!("{}", table::for_terminal(experiment, &results));
            files.iter().for_each(|file| eprintln!("wrote {file}"));
        }
        Ok(())
    }

    /// The FID network, where one is wanted.
    fn network(&self) -> Result<Option<Inception>, Failure> {
        match (self.metric, Inception::file(self.network.clone())) {
            (Some(DistanceName::SlicedWasserstein), _) | (None, None) => Ok(None),
            (_, Some(path)) => Ok(Some(Inception::read(&path)?)),
            (Some(DistanceName::Fid), None) => {
                let failure = Failure::new("FID needs the Inception network, and none was given");
                Err(failure
                    .hint("softdiff data fetch fid-inception, or give --network FILE or --metric sliced-wasserstein"))
            }
        }
    }
}

/// The command as it was typed; words with blanks in quotes.
fn typed() -> String {
    let words = std::env::args().skip(1).map(|word| if word.contains(' ') { format!("'{word}'") } else { word });
    std::iter::once("softdiff".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn list(json: bool) {
    if json {
        let all: Vec<_> = EXPERIMENTS
            .iter()
            .map(|one| {
                json!({ "name": one.name, "paper": one.paper, "question": one.question, "finding": one.finding,
                    "variants": one.variants.iter().map(|variant| variant.name).collect::<Vec<_>>(),
                    "measurements": one.measurements() })
            })
            .collect();
        println!("{}", json!({ "experiments": all }));
        return;
    }
    for one in EXPERIMENTS {
        println!("{}", one.name);
        println!("    paper  {}", one.paper);
        println!("    asks   {}", one.question);
        println!("    found  {}", one.finding);
        println!("    costs  {}", one.cost());
    }
}
