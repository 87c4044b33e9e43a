//! `softdiff eval`: how good generated images are, and the comparison of two such results.

mod compare;
mod metric;
mod sets;

use super::device::DeviceFlag;
use super::together::{OpenDevice, share};
use crate::atomic_file::{self, save, unwritable};
use crate::diagnostics::{Failure, Outcome};
use crate::output::counted;
use crate::progress::Tasks;
use clap::{Args, Subcommand};
use metric::MetricFlag;
use sets::SetFlags;
use softdiff::data::Dataset;
use softdiff::engine::ranks::Ranks;
use softdiff::image::{Picture, grid};
use softdiff::inception::{Extractor, Inception, Preset};
use softdiff::metrics::{
    Evaluation, EvaluationOptions, Evaluator, Metric, MetricError, Nearest, Reference, TaskProgress,
};
use softdiff::model::{LikelihoodOptions, Model, batch_size};
use softdiff::quote::one_line;
use softdiff::run::{RunFolder, StopRequest};
use std::path::PathBuf;
use std::time::Instant;

/// Generated images in a figure of nearest neighbours.
const SHOWN: usize = 16;

const EXAMPLE: &str = "\
Example: FID of 50000 images against CIFAR-10's training images, then all metrics
  softdiff eval images.npz --against cifar10
  softdiff eval images/ --against celeba.zip --size 64 --crop celeba --metrics all --out result.json

Example: two numbers of steps, kept with the run; its report draws FID over evaluations of the network
  softdiff sample runs/first --steps 20 --seeds 0..10000 --out 20.npz
  softdiff sample runs/first --steps 40 --seeds 0..10000 --out 40.npz
  softdiff eval 20.npz --against cifar10 --run runs/first
  softdiff eval 40.npz --against cifar10 --run runs/first
  softdiff report runs/first

Example: bits per dimension of test images under a model, by its probability flow
  softdiff eval runs/first --metrics likelihood --against cifar10 --against-split test --against-limit 1000

Example: without a network, and two results side by side
  softdiff eval images.npz --against embedded:fashion-mnist --metrics sliced-wasserstein,memorisation
  softdiff eval compare first.json second.json

Example: features computed by four processes
  mpirun -n 4 softdiff eval images.npz --against cifar10 --device cpu

The result says how it was measured. docs/evaluation.md explains every number.";

/// Measure generated images against a data set or its statistics, or compare two results.
#[derive(Args)]
#[command(after_help = EXAMPLE, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Eval {
    #[command(subcommand)]
    verb: Option<EvalVerb>,
    #[command(flatten)]
    measure: Measure,
}

#[derive(Subcommand)]
enum EvalVerb {
    Compare(compare::Compare),
}

/// What and how to measure.
#[derive(Args)]
pub struct Measure {
    #[command(flatten)]
    sets: SetFlags,
    /// Which numbers, separated by commas, or all.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "fid", value_name = "NAMES")]
    metrics: Vec<MetricFlag>,
    /// The FID network (.safetensors or .pth) [default: $SOFTDIFF_INCEPTION, else what softdiff data fetch fid-inception fetched].
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// How images come to the network: pytorch-fid, or tensorflow (as torch-fidelity has it).
    #[arg(long, default_value_t)]
    preset: Preset,
    /// The most images of each set for metrics of pairs: kid, prdc, sliced-wasserstein, and the generated ones of memorisation.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    samples: usize,
    /// Subsets of KID.
    #[arg(long, default_value_t = 100, value_name = "N")]
    kid_subsets: usize,
    /// Images of each set in a subset of KID.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    kid_subset_size: usize,
    /// Neighbours of precision, recall, density and coverage.
    #[arg(long, default_value_t = 5, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=1000))]
    neighbours: u16,
    /// Directions of sliced-wasserstein.
    #[arg(long, default_value_t = 500, value_name = "N")]
    directions: usize,
    /// Random directions of likelihood, for each evaluation of the flow's divergence.
    #[arg(long, default_value_t = 1, value_name = "N")]
    probes: usize,
    /// Error of a step of likelihood's flow.
    #[arg(long, default_value_t = 1e-4, value_name = "ERROR")]
    tolerance: f64,
    /// Decides subsets, directions and dequantisation.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write the result, as --json prints it, to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Keep the result in this run's folder, whose report shows it; the images must be of this run.
    #[arg(long, value_name = "RUN")]
    run: Option<PathBuf>,
    /// Write the reference's mean and covariance to this .npz, which --against takes in place of the images.
    #[arg(long, value_name = "FILE")]
    save_statistics: Option<PathBuf>,
    /// Draw the generated images that are nearest to a reference image, each above it; with memorisation.
    #[arg(long, value_name = "FILE")]
    show_neighbours: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceFlag,
}

impl Eval {
    pub fn run(self, json: bool, stop: &StopRequest) -> Outcome {
        match self.verb {
            Some(EvalVerb::Compare(compare)) => compare.run(json),
            None => {
                let measure = &self.measure;
                share(&measure.device, stop, |ranks, device| measure.run(ranks, device, json))
            }
        }
    }
}

impl Measure {
    fn run(&self, ranks: &Ranks, device: &OpenDevice<'_>, json: bool) -> Outcome {
        let begun = Instant::now();
        let metrics = MetricFlag::expand(&self.metrics);
        if !ranks.is_first() {
            return self.help(ranks, device);
        }
        let tasks = Tasks::default();
        let progress = |task, unit, done, total| tasks.update(task, unit, done, total);
        let mut evaluation = match metrics.contains(&Metric::Likelihood) {
            true => self.likelihood(&metrics, ranks, device, &progress)?,
            false => self.evaluate(&metrics, ranks, device, &progress)?,
        };
        // Decoding included.
        evaluation.seconds = begun.elapsed().as_secs_f64();
        if let Some(path) = &self.out {
            save(path, evaluation.to_json().as_bytes())?;
        }
        if let Some(run) = &self.run {
            let file = evaluation.store(&RunFolder::new(run))?;
            eprintln!("kept as {}; softdiff report {} shows it", file.display(), run.display());
        }
        if json {
            println!("{}", serde_json::to_string(&evaluation)?);
        } else {
            show(&evaluation);
        }
        Ok(())
    }

    /// Computes features for rank 0, which needs no help with anything else.
    fn help(&self, ranks: &Ranks, device: &OpenDevice<'_>) -> Outcome {
        let Some(network) = Inception::of_first(None, ranks)? else { return Ok(()) };
        Ok(Extractor::new(&device()?, &network, self.preset).with_ranks(ranks.clone()).serve()?)
    }

    fn evaluate(
        &self,
        metrics: &[Metric],
        ranks: &Ranks,
        device: &OpenDevice<'_>,
        progress: TaskProgress<'_>,
    ) -> Result<Evaluation, Failure> {
        let device = device()?;
        let mut evaluator = Evaluator::new(&device).with_options(self.options()).with_progress(progress);
        // The network first: a wrong file should not cost the time of decoding.
        let needs_network = metrics.iter().any(|metric| metric.needs_network());
        let network = if needs_network { Some(self.network()?) } else { None };
        if let Some(network) = Inception::of_first(network, ranks)? {
            evaluator = evaluator.with_preset(&network, self.preset).with_ranks(ranks);
        }
        let (images, reference) = self.sets.load()?;
        self.check_run(images.made.as_ref().map(|made| (&*made.model, made.run.as_deref())))?;
        if images.made.is_none() && self.run.is_some() {
            eprintln!(
                "note: {} does not say which model made its images; npz files of softdiff sample do",
                images.info.source
            );
        }
        let evaluation = evaluator.evaluate(&images, &reference, metrics)?;
        let Reference::Images(reference) = &reference else {
            evaluator.release()?;
            return Ok(evaluation);
        };
        let statistics = match &self.save_statistics {
            Some(path) if needs_network => Some((path, evaluator.reference_statistics(reference)?)),
            _ => None,
        };
        evaluator.release()?;
        if let Some((path, (statistics, note))) = statistics {
            atomic_file::write(path, |file| statistics.write(file, &note)).map_err(|error| unwritable(path, &error))?;
        }
        if let (Some(path), true) = (&self.show_neighbours, metrics.contains(&Metric::Memorisation)) {
            save(path, &neighbours(&images.dataset, &reference.dataset, &evaluation.nearest).to_png())?;
        }
        Ok(evaluation)
    }

    fn likelihood(
        &self,
        metrics: &[Metric],
        ranks: &Ranks,
        device: &OpenDevice<'_>,
        progress: TaskProgress<'_>,
    ) -> Result<Evaluation, Failure> {
        if metrics.len() > 1 {
            return Err(MetricError::LikelihoodOfImages.into());
        }
        let (place, images) = self.sets.model_and_images()?;
        let model = Model::open(&place, None)?;
        self.check_run(Some((&model.name, Some(&model.run_identity()))))?;
        Inception::of_first(None, ranks)?;
        let device = device()?;
        let (probes, tolerance, seed) = (self.probes, self.tolerance, self.seed);
        let options = LikelihoodOptions { probes, tolerance, seed, batch: batch_size::LIKELIHOOD.on(&device) };
        Ok(Evaluator::new(&device).with_progress(progress).likelihood(&model, &images, &options)?)
    }

    fn options(&self) -> EvaluationOptions {
        EvaluationOptions {
            samples: self.samples,
            kid_subsets: self.kid_subsets,
            kid_subset_size: self.kid_subset_size,
            neighbours: self.neighbours.into(),
            directions: self.directions,
            seed: self.seed,
        }
    }

    /// Refuses --run for images of another model before anything costs time.
    fn check_run(&self, model: Option<(&str, Option<&str>)>) -> Outcome {
        match &self.run {
            Some(run) => Ok(Evaluation::check_run(&RunFolder::new(run), model)?),
            None => Ok(()),
        }
    }

    /// The network that was asked for, or the one the environment names.
    fn network(&self) -> Result<Inception, Failure> {
        let Some(path) = Inception::file(self.network.clone()) else {
            return Err(MetricError::NoNetwork.into());
        };
        Ok(Inception::read(&path)?)
    }
}

/// The generated images that are nearest to a reference image, each above that image.
fn neighbours(images: &Dataset, reference: &Dataset, nearest: &[Nearest]) -> Picture {
    let mut order: Vec<usize> = (0..nearest.len()).collect();
    order.sort_by(|&i, &j| nearest[i].distance.total_cmp(&nearest[j].distance));
    order.truncate(SHOWN);
    let above = order.iter().flat_map(|&i| images.picture(i));
    let below = order.iter().flat_map(|&i| reference.picture(nearest[i].index));
    let pixels: Vec<u8> = above.chain(below).copied().collect();
    let zoom = grid::usual_zoom(images.width());
    grid::compose(images.width(), images.height(), images.channels(), &pixels, order.len(), zoom)
}

/// The numbers for a reader, then the warnings.
fn show(evaluation: &Evaluation) {
    let (images, reference) = (&evaluation.protocol.images, &evaluation.protocol.reference);
    let count = |n: usize| if n == 0 { "statistics of".into() } else { format!("{} of", counted(n, "image")) };
    let against = format!("{} {}", count(reference.count), reference.source);
    match images.count {
        0 => println!("{}", one_line(&format!("{against} under the model {}", images.source))),
        generated => {
            println!("{}", one_line(&format!("{} of {} against {against}", counted(generated, "image"), images.source)))
        }
    }
    if let Some(made) = &evaluation.made {
        let checkpoint = made.checkpoint.as_ref().map_or(String::new(), |checkpoint| format!(", {checkpoint}"));
        let how = format!("at step {}{checkpoint}, {} in {} steps", made.step, made.how(), made.steps);
        println!("{}", one_line(&format!("made by {} {how}", made.model)));
    }
    for (name, measured) in &evaluation.results {
        let error = measured.error.map(|error| format!(" +- {error:.2e}")).unwrap_or_default();
        println!("{name:>20}  {:.6}{error}", measured.value);
    }
    for warning in &evaluation.warnings {
        eprintln!("warning: {warning}");
    }
}
