//! What the ranks of a run agree on: the state they begin with, what is to be done, when to stop, and that their weights are the same.

use super::TrainError;
use crate::checkpoint::TrainingState;
use crate::run::StopSignal;
use softdiff_engine::ranks::Ranks;
use softdiff_engine::{Error, Params};

/// Refuses a batch that cannot be cut into so many parts, or parts that cannot be divided among the ranks; with one part, each
/// rank has one.
pub(super) fn require_shares(batch: usize, parts: usize, ranks: usize) -> Result<(), TrainError> {
    let parts = if parts == 1 { ranks } else { parts };
    match () {
        () if !batch.is_multiple_of(parts) => Err(TrainError::Parts { batch, parts }),
        () if !parts.is_multiple_of(ranks) => Err(TrainError::Ranks { parts, ranks }),
        () => Ok(()),
    }
}

/// Rank 0's state on every rank.
pub(super) fn share_state(ranks: &Ranks, mut state: TrainingState) -> Result<TrainingState, TrainError> {
    if ranks.others().is_none() {
        return Ok(state);
    }
    let progress = serde_json::to_vec(&(&state.progress, state.adam.step)).expect("plain fields are always JSON");
    let progress = ranks.broadcast(progress)?;
    let unreadable =
        |error: serde_json::Error| Error::Rank { rank: Some(0), problem: format!("sent no state: {error}") };
    (state.progress, state.adam.step) = serde_json::from_slice(&progress).map_err(unreadable)?;
    let averages = state.adam.ema.iter_mut();
    for params in averages.chain([&mut state.params]) {
        for index in 0..params.specs().len() {
            ranks.broadcast_values(params.value_mut(index))?;
        }
    }
    for moment in state.adam.first.iter_mut().chain(&mut state.adam.second) {
        ranks.broadcast_values(moment)?;
    }
    Ok(state)
}

/// What rank 0 says, on every rank.
pub(super) fn of_first(ranks: &Ranks, says: bool) -> Result<bool, TrainError> {
    Ok(ranks.broadcast(vec![u8::from(says)])? == [1])
}

/// Updates between two points at which ranks on GPUs ask each other whether to stop: asking waits for the GPUs.
const ASKED_EVERY: u64 = 8;

/// Whether all ranks ask each other after `done` updates, where nothing else is due.
pub(super) fn is_asked(ranks: &Ranks, is_gpu: bool, done: u64) -> bool {
    ranks.others().is_none() || !is_gpu || done.is_multiple_of(ASKED_EVERY)
}

/// The signal that any rank received: what one is asked, all are.
pub(super) fn agree_to_stop(ranks: &Ranks, signal: Option<StopSignal>) -> Result<Option<StopSignal>, TrainError> {
    const SIGNALS: [StopSignal; 3] = [StopSignal::Interrupt, StopSignal::HangUp, StopSignal::Terminate];
    let own = signal.and_then(|signal| SIGNALS.iter().position(|known| *known == signal));
    let code = ranks.largest(own.map_or(0, |place| place as u8 + 1))?;
    Ok(usize::from(code).checked_sub(1).map(|place| SIGNALS[place]))
}

/// Refuses to save weights of which another rank has others.
pub(super) fn require_same_weights(ranks: &Ranks, weights: &Params<f32>) -> Result<(), TrainError> {
    if ranks.others().is_none() {
        return Ok(());
    }
    let values = (0..weights.specs().len()).flat_map(|index| weights.value(index));
    let bytes: Vec<u8> = values.flat_map(|value| value.to_le_bytes()).collect();
    Ok(ranks.require_same("the weights, which every rank computes", &bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::ranks::{Reduce, ThreadRank};
    use std::sync::Arc;

    #[test]
    fn ranks_on_gpus_ask_each_other_after_the_same_few_updates_and_others_after_each() {
        let others = Ranks::new(Arc::new(ThreadRank::all(2).remove(0)), Reduce::Exact);
        let asked = |ranks: &Ranks, is_gpu| (1..=20).filter(|done| is_asked(ranks, is_gpu, *done)).collect::<Vec<_>>();
        assert_eq!(asked(&others, true), [8, 16]);
        assert_eq!(asked(&others, false).len(), 20);
        assert_eq!(asked(&Ranks::default(), true).len(), 20);
    }
}
