//! Several processes that work together: who they are, how they divide images, and how their gradients become one.
//!
//! A batch has a fixed number of equal shares, whoever computes them. With [`Reduce::Exact`] their gradients are added in the
//! order of a fixed tree ([`tree`]), so that the number of ranks changes no bit.

mod additions;
mod mpi;
mod threads;
mod tree;

pub(crate) use additions::{Addition, Additions};
pub use mpi::{MpiFamily, MpiRank};
pub use threads::ThreadRank;
pub(crate) use tree::ShareSum;

use crate::cuda::NcclRank;
use crate::error::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// The most bytes of one exchange in [`Ranks::gather_parts`].
const AT_ONCE: usize = 1 << 26;

/// What the ranks of a run say to each other. Every rank makes the same calls in the same order.
pub trait Communicator: Send + Sync {
    /// Which rank this is, from 0.
    fn rank(&self) -> usize;
    /// How many ranks there are.
    fn size(&self) -> usize;
    /// The bytes of all ranks, which are of one length, in the order of the ranks.
    fn gather(&self, bytes: &[u8]) -> Result<Vec<u8>>;
    /// Gives every rank its part of `values`, and has the part that every rank gives to this one, in the order of the ranks.
    fn exchange(&self, values: &[f32]) -> Result<Vec<f32>>;
    /// Adds the values of all ranks, in whichever order is fast.
    fn sum(&self, values: &mut [f32]) -> Result<()>;
    /// Replaces the bytes by those of rank 0.
    fn broadcast(&self, bytes: &mut [u8]) -> Result<()>;
    /// What carries the messages, with its version.
    fn library(&self) -> String;
    /// Says goodbye in order; afterwards nothing may be said.
    fn finish(&self) {}
}

/// How the gradients of the ranks are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduce {
    /// In a fixed order: the same bits with any number of ranks.
    #[default]
    Exact,
    /// By the library's own sum.
    Fast,
}

/// The ranks of a run: by default this process alone.
#[derive(Clone, Default)]
pub struct Ranks {
    communicator: Option<Arc<dyn Communicator>>,
    /// What carries the gradients, where every rank has a GPU.
    gpu: Option<Arc<NcclRank>>,
    /// How their gradients are added.
    pub reduce: Reduce,
}

impl Ranks {
    /// This rank among others.
    pub fn new(communicator: Arc<dyn Communicator>, reduce: Reduce) -> Ranks {
        Ranks { communicator: Some(communicator), gpu: None, reduce }
    }

    /// The same where every rank has a GPU, between which NCCL carries the gradients.
    pub fn with_gpus(communicator: Arc<dyn Communicator>, gpu: Arc<NcclRank>, reduce: Reduce) -> Ranks {
        Ranks { communicator: Some(communicator), gpu: Some(gpu), reduce }
    }

    /// What carries the gradients, where every rank has a GPU.
    pub(crate) fn gpu(&self) -> Option<&Arc<NcclRank>> {
        self.gpu.as_ref()
    }

    /// Which rank this is.
    pub fn rank(&self) -> usize {
        self.communicator.as_ref().map_or(0, |c| c.rank())
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.communicator.as_ref().map_or(1, |c| c.size())
    }

    /// Whether this is the rank that writes.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The other ranks, if there are any.
    pub fn others(&self) -> Option<&dyn Communicator> {
        self.communicator.as_deref().filter(|c| c.size() > 1)
    }

    /// The shares of a batch that this rank computes, of `shares`, which its number divides.
    pub fn own(&self, shares: u64) -> Range<u64> {
        let each = shares / self.size() as u64;
        self.rank() as u64 * each..(self.rank() as u64 + 1) * each
    }

    /// The part of `count` things that this rank has: equal parts, up to one, in the order of the ranks.
    pub fn part(&self, count: usize) -> Range<usize> {
        part(self.rank(), self.size(), count)
    }

    /// What the ranks made of their [`part`](Self::part)s of `count` things, `unit` bytes of each thing, in order.
    pub fn gather_parts(&self, own: Vec<u8>, count: usize, unit: usize) -> Result<Vec<u8>> {
        let Some(others) = self.others() else { return Ok(own) };
        let size = self.size();
        let mut all = vec![0; count * unit];
        let longest = count.div_ceil(size);
        let round = (AT_ONCE / (unit * size).max(1)).clamp(1, longest.max(1));
        for first in (0..longest).step_by(round) {
            // All ranks send messages of one length.
            let mut message = vec![0; round * unit];
            let rest = &own[own.len().min(first * unit)..];
            let length = rest.len().min(message.len());
            message[..length].copy_from_slice(&rest[..length]);
            for (rank, message) in others.gather(&message)?.chunks_exact((round * unit).max(1)).enumerate() {
                let part = part(rank, size, count);
                let (from, to) = (part.end.min(part.start + first), part.end.min(part.start + first + round));
                all[from * unit..to * unit].copy_from_slice(&message[..(to - from) * unit]);
            }
        }
        Ok(all)
    }

    /// The largest of what the ranks say.
    pub fn largest(&self, value: u8) -> Result<u8> {
        match self.others() {
            Some(others) => Ok(others.gather(&[value])?.into_iter().max().unwrap_or(value)),
            None => Ok(value),
        }
    }

    /// An error where another rank has other bytes than rank 0; `what` says what they are.
    pub fn require_same(&self, what: &str, bytes: &[u8]) -> Result<()> {
        let Some(others) = self.others() else { return Ok(()) };
        let digest = blake3::hash(bytes);
        let all = others.gather(digest.as_bytes())?;
        let digests = all.chunks_exact(digest.as_bytes().len());
        match digests.enumerate().find(|(_, other)| *other != &all[..other.len()]) {
            Some((rank, _)) => Err(Error::Device {
                what: format!("rank {rank} differs from rank 0"),
                problem: what.into(),
                hint: "use the same program, files and kind of processor on all hosts".into(),
            }),
            None => Ok(()),
        }
    }

    /// Rank 0's bytes, of any length, on every rank.
    pub fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let Some(others) = self.others() else { return Ok(bytes) };
        let mut length = (bytes.len() as u64).to_le_bytes();
        others.broadcast(&mut length)?;
        let mut bytes = if self.is_first() { bytes } else { vec![0; u64::from_le_bytes(length) as usize] };
        others.broadcast(&mut bytes)?;
        Ok(bytes)
    }

    /// Rank 0's values on every rank.
    pub fn broadcast_values(&self, values: &mut [f32]) -> Result<()> {
        let Some(others) = self.others() else { return Ok(()) };
        let mut bytes = to_bytes(values);
        others.broadcast(&mut bytes)?;
        values.copy_from_slice(&from_bytes(&bytes));
        Ok(())
    }
}

fn part(rank: usize, size: usize, count: usize) -> Range<usize> {
    count * rank / size..count * (rank + 1) / size
}

pub(crate) fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(crate) fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_parts_of_all_ranks_come_together_in_their_order() {
        // The last ones take several messages.
        for (count, unit) in [(0, 4), (1, 4), (3, 1), (10, 8), (1 << 16, 1 << 12), (7, 1 << 25)] {
            let all: Arc<Vec<u8>> = Arc::new((0..count * unit).map(|i| (i * 31 / 7) as u8).collect());
            let threads: Vec<_> = ThreadRank::all(3)
                .into_iter()
                .map(|rank| {
                    let all = all.clone();
                    thread::spawn(move || {
                        let ranks = Ranks::new(Arc::new(rank), Reduce::Exact);
                        let part = ranks.part(count);
                        let own = all[part.start * unit..part.end * unit].to_vec();
                        assert!(ranks.gather_parts(own, count, unit).unwrap() == *all, "{count} of {unit}");
                        part.len()
                    })
                })
                .collect();
            let lengths: Vec<usize> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert_eq!(lengths.iter().sum::<usize>(), count);
            assert!(lengths.iter().all(|&length| length.abs_diff(count / 3) <= 1));
        }
    }
}
