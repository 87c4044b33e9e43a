//! Several processes that train one network: who they are, and how their gradients become one.
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
use std::sync::Arc;

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
    pub fn own(&self, shares: u64) -> std::ops::Range<u64> {
        let each = shares / self.size() as u64;
        self.rank() as u64 * each..(self.rank() as u64 + 1) * each
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
                hint: "use the same program, images and kind of processor on all hosts; the last checkpoint is whole"
                    .into(),
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

pub(crate) fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(crate) fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}
