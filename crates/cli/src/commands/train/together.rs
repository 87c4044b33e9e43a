//! `softdiff train` in several processes that `mpirun`, `srun`, `torchrun` or `--gpus` started.

use super::super::together::join;
use super::{Terminal, Train, preparing};
use crate::diagnostics::{Failure, Outcome};
use clap::ValueEnum;
use softdiff::engine::Device;
use softdiff::engine::ranks::Reduce;
use softdiff::ranks::{Launch, RankGroup};
use softdiff::recipe::Recipe;
use softdiff::run::StopRequest;
use softdiff::train::{Finished, Training, Watcher};

/// How gradients are added.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ReduceChoice {
    #[default]
    Exact,
    Fast,
}

impl Train {
    /// Trains with the other processes. Rank 0 speaks and writes.
    pub(super) fn run_together(self, launch: Launch, json: bool, stop: &StopRequest) -> Outcome {
        let reduce = match self.reduce {
            ReduceChoice::Exact => Reduce::Exact,
            ReduceChoice::Fast => Reduce::Fast,
        };
        join(launch, &self.device, reduce, stop, |group, device| {
            let finished = self.perform_together(group, device, json, stop)?;
            if group.ranks.is_first() {
                self.say_done(&finished, json);
            }
            Ok(())
        })
    }

    fn perform_together(
        &self,
        group: &RankGroup,
        device: &Device,
        json: bool,
        stop: &StopRequest,
    ) -> Result<Finished, Failure> {
        let is_first = group.ranks.is_first();
        // The others need to see neither the recipe's file nor the run.
        let text = if is_first { self.recipe()?.to_toml() } else { String::new() };
        let text = group.ranks.broadcast(text.into_bytes())?;
        let recipe = Recipe::parse_saved(&String::from_utf8_lossy(&text), "the recipe of rank 0", &[])?;
        let training = Training::of(recipe).device(device).checkpoint(self.checkpoint.unwrap_or_default());
        let training = training.ranks(group.ranks.clone());
        if !is_first {
            return Ok(training.watch(&mut OtherRank(stop.clone())).run_in(&self.out)?.finished);
        }
        let mut terminal = Terminal::new(stop.clone(), json).with_tensorboard(self.live_event_file()?);
        let gpus = group.gpu().map(|gpu| format!(", GPUs by NCCL {}", gpu.version())).unwrap_or_default();
        terminal.say(&format!("device: {device}; {} ranks by {}{gpus}", group.ranks.size(), group.library()));
        let progress = preparing();
        Ok(training.watch(&mut terminal).progress(&progress).run_in(&self.out)?.finished)
    }
}

/// A rank that says nothing and stops by signals.
struct OtherRank(StopRequest);

impl Watcher for OtherRank {
    fn stop_request(&self) -> StopRequest {
        self.0.clone()
    }
}
