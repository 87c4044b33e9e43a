//! Gradients of the shares of a batch, added on the device in the order of the CPU, and with those of the other ranks' GPUs.

use super::arguments::{RowsSumArgs, ShareAddArgs, int, long};
use super::driver::{Address, Buffer, CudaDevice, CudaEvent, Launch};
use super::executor::CudaExecutor;
use super::kernels::KernelName;
use super::nccl::NcclRank;
use super::optim::{GradientAt, PIECE};
use super::share_layout::{Bucket, ShareLayout};
use crate::Var;
use crate::error::Result;
use crate::ranks::{Addition, Additions, Communicator, Ranks, Reduce};
use std::sync::Arc;

/// Parts in which gradients are exchanged while the backward pass goes on.
const BUCKETS: usize = 8;

/// `SharePiece` of kernels/share_sum.cu: a block's part of a gradient.
#[repr(C)]
struct SharePiece {
    gradient: Address,
    sum: Address,
    count: i32,
    half: i32,
}

const _: () = assert!(size_of::<SharePiece>() == 24);

impl SharePiece {
    /// As it lies in memory.
    fn bytes(&self) -> Vec<u8> {
        let addresses = [self.gradient, self.sum].into_iter().flat_map(u64::to_le_bytes);
        addresses.chain([self.count, self.half].into_iter().flat_map(i32::to_le_bytes)).collect()
    }
}

/// The end of a run that is a share of a batch: its gradients are added to those of the shares before it, and the last share of
/// this rank brings those of the other ranks, and the update.
pub(super) struct ShareEnd {
    device: Arc<CudaDevice>,
    /// Adds all gradients of a run.
    add: Launch,
    /// Exchanges the sums, where there are other ranks.
    exchange: Option<Exchange>,
    /// What is done with the sum.
    update: Vec<Launch>,
    /// The number of this rank's last share.
    last: u64,
    sums: Vec<GradientAt>,
    _buffers: Vec<Buffer>,
}

/// What the ranks exchange in the run that completes a batch.
struct Exchange {
    nccl: Arc<NcclRank>,
    reduce: Reduce,
    buckets: Vec<Sent>,
    sums: Address,
    /// Elements of a buffer of sums, and the whole subtrees of this rank.
    pitch: usize,
    subtrees: usize,
    received: Buffer,
    /// What the first and the second stream have done when a bucket is ready, and the end of the exchange.
    marks: [CudaEvent; 2],
    done: CudaEvent,
}

/// A bucket with what is launched for it.
struct Sent {
    bucket: Bucket,
    /// Whether the second stream has begun by then.
    has_forked: bool,
    add: Launch,
    /// Adds the subtrees of all ranks, where there are several.
    rows: Option<Launch>,
}

impl ShareEnd {
    /// Of runs of `executor` that are the shares of `ranks` of batches with `shares` shares. The mean loss is added as if it were a
    /// gradient: where it is not finite on one rank, no rank makes the update.
    pub fn new(executor: &CudaExecutor, gradients: &[Var], loss: Var, shares: u64, ranks: &Ranks) -> Result<ShareEnd> {
        let (device, own, nccl) = (executor.device().clone(), ranks.own(shares), ranks.gpu());
        let is_exact = nccl.is_some() && ranks.reduce == Reduce::Exact;
        let count = own.end - own.start;
        let additions = if is_exact { Additions::among_others(count) } else { Additions::alone(count) };
        let vars: Vec<Var> = gradients.iter().copied().chain([loss]).collect();
        let sizes: Vec<(usize, usize)> = vars.iter().map(|&var| executor.extent(var)).collect();
        let layout = ShareLayout::new(&sizes, if nccl.is_some() { BUCKETS } else { 1 }, ranks.size());
        let sums = device.alloc(4 * layout.total * additions.buffers)?;
        let at = |number: usize| sums.address + 4 * layout.offsets[number] as u64;

        let (mut pieces, mut ranges) = (Vec::new(), Vec::new());
        for bucket in &layout.buckets {
            let first = pieces.len();
            for &number in &bucket.gradients {
                let (gradient, half) = executor.output(vars[number])?;
                let elements = sizes[number].0;
                pieces.extend((0..elements).step_by(PIECE).map(|begin| SharePiece {
                    gradient: gradient + if half { 2 } else { 4 } * begin as u64,
                    sum: at(number) + 4 * begin as u64,
                    count: int(PIECE.min(elements - begin)),
                    half: half.into(),
                }));
            }
            ranges.push(first..pieces.len());
        }
        let uploaded = device.upload(&pieces.iter().flat_map(SharePiece::bytes).collect::<Vec<_>>())?;
        let words = additions.each.iter().flat_map(|&Addition { levels, to }| [levels, to]);
        let table = device.upload(&words.flat_map(u32::to_le_bytes).collect::<Vec<_>>())?;
        let add = |range: std::ops::Range<usize>| {
            let arguments = ShareAddArgs {
                pieces: uploaded.address + (size_of::<SharePiece>() * range.start) as u64,
                additions: table.address,
                stride: long(layout.total),
                lowest: int(additions.lowest),
                step: executor.step_address(),
                first: int(own.start as usize),
                share: 1.0 / shares as f32,
            };
            executor.kernel(KernelName::ShareAdd, range.len(), &arguments)
        };
        let summed = (0..vars.len()).map(|number| GradientAt { address: at(number), half: false }).collect();
        let whole = add(0..pieces.len())?;
        let exchange = match nccl {
            None => None,
            Some(nccl) => {
                let adds = ranges.into_iter().map(add).collect::<Result<Vec<_>>>()?;
                Some(Exchange::new(executor, nccl, ranks, layout, adds, (sums.address, additions.subtrees))?)
            }
        };
        let buffers = vec![sums, uploaded, table];
        let (add, last, update) = (whole, own.end - 1, vec![]);
        Ok(ShareEnd { device, add, exchange, update, last, sums: summed, _buffers: buffers })
    }

    /// The sums of the gradients, and of the loss.
    pub fn sums(&self) -> (&[GradientAt], Address) {
        let (loss, gradients) = self.sums.split_last().expect("the loss is among them");
        (gradients, loss.address)
    }

    /// What is done with the sums when all shares are in them.
    pub fn then(self, update: Vec<Launch>) -> ShareEnd {
        ShareEnd { update, ..self }
    }

    /// Whether this share is the last one here.
    pub fn completes(&self, share: u64) -> bool {
        share == self.last
    }

    /// Whether other ranks have shares too.
    pub fn is_exchanged(&self) -> bool {
        self.exchange.is_some()
    }

    /// The commands of a step after which something is sent, one for each bucket.
    pub fn sends(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let buckets = self.exchange.iter().flat_map(|exchange| &exchange.buckets);
        buckets.enumerate().map(|(number, sent)| (number, sent.bucket.ready))
    }

    /// Enqueues the addition and the exchange of a bucket, beside what follows on the first two streams.
    pub fn send(&self, number: usize) -> Result<()> {
        match &self.exchange {
            Some(exchange) => exchange.send(&self.device, &exchange.buckets[number]),
            None => Ok(()),
        }
    }

    /// Enqueues the end of a run; if it `completes` the batch, after all buckets were sent.
    pub fn finish(&self, completes: bool) -> Result<()> {
        let stream = self.device.stream;
        match &self.exchange {
            Some(exchange) if completes => {
                exchange.done.record(exchange.nccl.stream())?;
                exchange.done.wait(stream)?;
            }
            _ => self.add.enqueue(&self.device, stream, false)?,
        }
        if completes {
            for (place, launch) in self.update.iter().enumerate() {
                // The first one follows a kernel only where nothing was exchanged.
                launch.enqueue(&self.device, stream, place > 0 || self.exchange.is_none())?;
            }
        }
        Ok(())
    }
}

impl Exchange {
    /// Of sums at an address, with so many whole subtrees; `adds` are the additions of each bucket.
    fn new(
        executor: &CudaExecutor,
        nccl: &Arc<NcclRank>,
        ranks: &Ranks,
        layout: ShareLayout,
        adds: Vec<Launch>,
        (sums, subtrees): (Address, usize),
    ) -> Result<Exchange> {
        let (device, reduce, pitch) = (executor.device(), ranks.reduce, layout.total);
        let is_received = reduce == Reduce::Exact && ranks.size() > 1;
        let received = device.alloc(if is_received { 4 * pitch * subtrees } else { 0 })?;
        let mut buckets = Vec::new();
        for (bucket, add) in layout.buckets.into_iter().zip(adds) {
            let part = bucket.elements / ranks.size();
            let count = ranks.size() * subtrees;
            let arguments = RowsSumArgs {
                out: sums + 4 * (bucket.begin + ranks.rank() * part) as u64,
                pitch: long(pitch),
                first: int(ranks.rank() * subtrees),
                own: int(subtrees),
                rows: received.address + 4 * (subtrees * bucket.begin) as u64,
                count: int(count),
                n: long(part),
            };
            let rows = match count {
                1 => None,
                _ => Some(executor.kernel(KernelName::RowsSum, part.div_ceil(256), &arguments)?),
            };
            buckets.push(Sent { has_forked: executor.has_forked(bucket.ready), bucket, add, rows });
        }
        let marks = [CudaEvent::new(device)?, CudaEvent::new(device)?];
        let (nccl, done) = (nccl.clone(), CudaEvent::new(device)?);
        Ok(Exchange { nccl, reduce, buckets, sums, pitch, subtrees, received, marks, done })
    }

    /// Enqueues the addition and the exchange of a bucket.
    fn send(&self, device: &CudaDevice, sent: &Sent) -> Result<()> {
        let stream = self.nccl.stream();
        for (mark, from, is_used) in
            [(&self.marks[0], device.stream, true), (&self.marks[1], device.side, sent.has_forked)]
        {
            if is_used {
                mark.record(from)?;
                mark.wait(stream)?;
            }
        }
        sent.add.enqueue(device, stream, false)?;
        let Bucket { begin, elements, .. } = sent.bucket;
        let at = |base: Address, values: usize| base + 4 * values as u64;
        let (from, part) = (at(self.sums, begin), elements / self.nccl.size());
        if self.reduce == Reduce::Fast {
            return self.nccl.sum_in_place(from, elements, stream);
        }
        let to = at(self.received.address, self.subtrees * begin);
        self.nccl.exchange_parts(from, (self.subtrees, self.pitch, part), to, stream)?;
        if let Some(rows) = &sent.rows {
            rows.enqueue(device, stream, false)?;
        }
        self.nccl.gather_parts(from, part, stream)
    }
}

#[cfg(test)]
mod tests;
