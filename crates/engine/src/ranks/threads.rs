//! Ranks that are threads of one process: for tests.

use super::{Communicator, from_bytes, to_bytes};
use crate::error::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longer than any step of a test.
const PATIENCE: Duration = Duration::from_secs(60);

/// One of several threads.
pub struct ThreadRank {
    rank: usize,
    table: Arc<Table>,
}

struct Table {
    size: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Meetings that took place.
    meetings: u64,
    brought: Vec<Option<Vec<u8>>>,
    /// What all brought to the last meeting.
    last: Arc<Vec<Vec<u8>>>,
    gone: Option<usize>,
}

impl ThreadRank {
    /// `size` ranks, one for each thread.
    pub fn all(size: usize) -> Vec<ThreadRank> {
        let state = State { brought: vec![None; size], ..State::default() };
        let table = Arc::new(Table { size, state: Mutex::new(state), changed: Condvar::new() });
        (0..size).map(|rank| ThreadRank { rank, table: table.clone() }).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.table.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all ranks bring, when the last has come.
    fn meet(&self, bytes: Vec<u8>) -> Result<Arc<Vec<Vec<u8>>>> {
        let mut state = self.state();
        let meeting = state.meetings;
        state.brought[self.rank] = Some(bytes);
        if state.brought.iter().all(Option::is_some) {
            state.last = Arc::new(state.brought.iter_mut().filter_map(Option::take).collect());
            state.meetings += 1;
            self.table.changed.notify_all();
        }
        let waits = |state: &mut State| state.meetings == meeting && state.gone.is_none();
        let waited = self.table.changed.wait_timeout_while(state, PATIENCE, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.meetings > meeting {
            return Ok(state.last.clone());
        }
        let problem = if state.gone.is_some() { "ended" } else { "does not answer" };
        Err(Error::Rank { rank: state.gone, problem: problem.into() })
    }
}

impl Drop for ThreadRank {
    fn drop(&mut self) {
        let rank = self.rank;
        self.state().gone.get_or_insert(rank);
        self.table.changed.notify_all();
    }
}

impl Communicator for ThreadRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.table.size
    }

    fn gather(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(self.meet(bytes.to_vec())?.concat())
    }

    fn exchange(&self, values: &[f32]) -> Result<Vec<f32>> {
        let part = 4 * values.len() / self.size();
        let all = self.meet(to_bytes(values))?;
        Ok(all.iter().flat_map(|bytes| from_bytes(&bytes[self.rank * part..][..part])).collect())
    }

    fn sum(&self, values: &mut [f32]) -> Result<()> {
        let all = self.meet(to_bytes(values))?;
        values.fill(0.0);
        for bytes in all.iter() {
            values.iter_mut().zip(from_bytes(bytes)).for_each(|(sum, value)| *sum += value);
        }
        Ok(())
    }

    fn broadcast(&self, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(&self.meet(bytes.to_vec())?[0]);
        Ok(())
    }

    fn library(&self) -> String {
        "threads of one process".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn every_rank_hears_what_all_say() {
        for size in [1, 2, 5] {
            thread::scope(|scope| {
                for rank in ThreadRank::all(size) {
                    scope.spawn(move || {
                        let me = rank.rank() as u8;
                        assert_eq!(
                            rank.gather(&[me, 7]).unwrap(),
                            (0..size as u8).flat_map(|r| [r, 7]).collect::<Vec<_>>()
                        );
                        let mut bytes = [me + 3];
                        rank.broadcast(&mut bytes).unwrap();
                        assert_eq!(bytes, [3]);
                        // Rank r gives 10 r + to.
                        let given: Vec<f32> = (0..size).map(|to| f32::from(me) * 10.0 + to as f32).collect();
                        let had = rank.exchange(&given).unwrap();
                        assert_eq!(had, (0..size).map(|from| from as f32 * 10.0 + f32::from(me)).collect::<Vec<_>>());
                        let mut sum = [f32::from(me), 1.0];
                        rank.sum(&mut sum).unwrap();
                        assert_eq!(sum, [(size * (size - 1) / 2) as f32, size as f32]);
                    });
                }
            });
        }
    }

    #[test]
    fn a_rank_that_ends_is_named_to_those_that_wait() {
        let mut ranks = ThreadRank::all(3);
        let ends = ranks.remove(1);
        let waiting: Vec<_> = ranks.into_iter().map(|rank| thread::spawn(move || rank.gather(&[0]))).collect();
        drop(ends);
        for rank in waiting {
            let error = rank.join().unwrap().unwrap_err();
            assert!(error.to_string().starts_with("rank 1 ended"), "{error}");
        }
    }
}
