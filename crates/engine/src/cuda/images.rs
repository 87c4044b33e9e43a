//! Training images: kept on the device, or streamed from the host in two shards, of which one is filled while the
//! other is read.

use super::arguments::{GatherImagesArgs, TakeImagesArgs};
use super::driver::{Address, Buffer, CudaDevice, CudaEvent, Pinned};
use super::executor::CudaExecutor;
use super::kernels::KernelName;
use crate::error::Result;
use crate::shared_bytes::SharedBytes;
use crate::shuffle::Shuffled;
use std::sync::Arc;

/// Runs whose images one shard holds: the host may be late by as many.
const RUNS: u64 = 16;

/// The shares of a batch, of which some are computed here: neighbours, whose number divides the first one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchShares {
    /// All of them.
    pub parts: u64,
    /// Those here, and the first of these.
    pub own: u64,
    pub first: u64,
}

impl BatchShares {
    /// Batches that are computed at once.
    pub const WHOLE: BatchShares = BatchShares { parts: 1, own: 1, first: 0 };

    /// Which run of all ranks is number `number` of those here.
    fn run(self, number: u64) -> u64 {
        number / self.own * self.parts + self.first + number % self.own
    }

    /// Which run of those here computes a part of a batch.
    pub fn number(self, step: u64, part: u64) -> u64 {
        step * self.own + part % self.own
    }
}

/// What the host does before it enqueues a run. A shard is named by its half of the memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ShardAction {
    /// Wait until all copies and runs are done.
    Settle,
    /// Send the images of a run.
    Send(u64),
    /// Make the runs wait until a shard has arrived.
    Await(usize),
    /// Wait until the host's half is free, and make copies wait for the runs so far, which may read the device's half.
    Free(usize),
    /// Record that all of a shard was sent.
    Sent(usize),
}

/// What to do before run number `run`, when the images of all runs before `next` were sent: afterwards those of this
/// run and of the `runs` that follow are.
fn acts(run: u64, next: Option<u64>, runs: u64) -> Vec<ShardAction> {
    let (ahead, half) = (run + runs, |run: u64| (run / runs % 2) as usize);
    let mut acts = Vec::new();
    if next != Some(ahead) {
        // The first run, or one out of order.
        acts.push(ShardAction::Settle);
        acts.extend((run..ahead).map(ShardAction::Send));
        acts.push(ShardAction::Settle);
    } else if run.is_multiple_of(runs) {
        acts.push(ShardAction::Await(half(run)));
    }
    if ahead.is_multiple_of(runs) {
        acts.push(ShardAction::Free(half(ahead)));
    }
    acts.push(ShardAction::Send(ahead));
    if (ahead + 1).is_multiple_of(runs) {
        acts.push(ShardAction::Sent(half(ahead)));
    }
    acts
}

/// Streams images from the host in the order of the runs.
pub(super) struct Shards {
    device: Arc<CudaDevice>,
    images: SharedBytes,
    order: Shuffled,
    batch: usize,
    shares: BatchShares,
    runs: u64,
    next: Option<u64>,
    /// Both shards, on the host and on the device.
    here: Pinned,
    there: Buffer,
    sent: [CudaEvent; 2],
    read: CudaEvent,
}

impl Shards {
    fn new(
        device: &Arc<CudaDevice>,
        images: &SharedBytes,
        order: &Shuffled,
        (batch, shares): (usize, BatchShares),
        runs: u64,
    ) -> Result<Shards> {
        let bytes = 2 * runs as usize * batch * order.image_size;
        Ok(Shards {
            device: device.clone(),
            images: images.clone(),
            order: *order,
            batch,
            shares,
            runs,
            next: None,
            here: Pinned::new(device, bytes)?,
            there: device.alloc(bytes)?,
            sent: [CudaEvent::new(device)?, CudaEvent::new(device)?],
            read: CudaEvent::new(device)?,
        })
    }

    /// Sends what run number `run` of those here, which is enqueued next, needs.
    pub fn supply(&mut self, run: u64) -> Result<()> {
        let CudaDevice { stream, copies, .. } = *self.device;
        for act in acts(run, self.next, self.runs) {
            match act {
                ShardAction::Settle => {
                    self.device.synchronize()?;
                    self.device.synchronize_copies()?;
                }
                ShardAction::Send(run) => self.send(run)?,
                ShardAction::Await(half) => self.sent[half].wait(stream)?,
                ShardAction::Free(half) => {
                    self.sent[half].synchronize()?;
                    self.read.record(stream)?;
                    self.read.wait(copies)?;
                }
                ShardAction::Sent(half) => self.sent[half].record(copies)?,
            }
        }
        self.next = Some(run + self.runs + 1);
        Ok(())
    }

    fn send(&mut self, run: u64) -> Result<()> {
        let size = self.order.image_size;
        let (bytes, count) = (self.batch * size, (self.images.len() / size.max(1)) as u64);
        let begin = (run % (2 * self.runs)) as usize * bytes;
        for (place, to) in self.here.bytes()[begin..begin + bytes].chunks_exact_mut(size.max(1)).enumerate() {
            let chosen = self.order.at(self.shares.run(run) * self.batch as u64 + place as u64, count) as usize;
            to.copy_from_slice(&self.images[chosen * size..][..size]);
        }
        self.there.begin_write(&self.here, begin..begin + bytes)
    }
}

impl CudaExecutor {
    /// From now on fills the input `name` with the images that `order` gives each run (bytes, given as 0 to 1): kept on
    /// the device, or streamed if they would take more than half of its free memory.
    pub(crate) fn feed(&mut self, name: &str, images: &SharedBytes, order: &Shuffled) -> Result<()> {
        let fits = images.len() <= self.device().memory()?.0 / 2;
        if fits { self.keep(name, images, order) } else { self.stream(name, images, order) }
    }

    /// As [`feed`](Self::feed), from all images on the device.
    pub fn keep(&mut self, name: &str, images: &[u8], order: &Shuffled) -> Result<()> {
        let (out, batch) = self.batch_of(name, order)?;
        let count = images.len() / order.image_size.max(1);
        let kept = self.device().upload(images)?;
        let bits = crate::shuffle::half_bits(count as u64);
        let arguments = GatherImagesArgs {
            out,
            images: kept.address,
            step: self.step_address(),
            batch: batch as u32,
            parts: self.shares().parts as u32,
            count: count as u64,
            size: order.image_size as u32,
            seed: order.seed,
            purpose: order.purpose,
            half_bits: bits,
        };
        let launch = self.kernel(KernelName::GatherImages, batch, &arguments)?;
        self.begin_with(launch, None);
        self.hold(kept);
        Ok(())
    }

    /// As [`feed`](Self::feed), from the host in shards.
    pub fn stream(&mut self, name: &str, images: &SharedBytes, order: &Shuffled) -> Result<()> {
        self.stream_by(name, images, order, RUNS)
    }

    /// The same with `runs` runs to a shard.
    pub(super) fn stream_by(&mut self, name: &str, images: &SharedBytes, order: &Shuffled, runs: u64) -> Result<()> {
        let (out, batch) = self.batch_of(name, order)?;
        let shards = Shards::new(self.device(), images, order, (batch, self.shares()), runs)?;
        let (batches, step, size) = (shards.there.address, self.step_address(), order.image_size as u32);
        let (batch_size, parts, runs) = (batch as u32, self.shares().own as u32, 2 * runs as u32);
        let arguments = TakeImagesArgs { out, batches, step, batch: batch_size, parts, runs, size };
        let launch = self.kernel(KernelName::TakeImages, batch, &arguments)?;
        self.begin_with(launch, Some(shards));
        Ok(())
    }

    /// The address of the input `name`, and how many images it holds.
    fn batch_of(&self, name: &str, order: &Shuffled) -> Result<(Address, usize)> {
        let batch = self.plan().images_of(name, order.image_size)?;
        Ok((self.input_address(name, batch * order.image_size)?, batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;
    use std::collections::VecDeque;

    /// What a stream of the device has to do.
    #[derive(Clone, Copy, Debug)]
    enum StreamEvent {
        Copy {
            slot: usize,
            run: u64,
        },
        Read {
            slot: usize,
            run: u64,
        },
        /// Reaches the mark, which is number so many of its event.
        Mark(usize, u64),
        Wait(usize, u64),
    }

    /// Both sides: the host's memory, the device's, two streams, and three events as marks set and reached.
    struct Model {
        here: Vec<Option<u64>>,
        there: Vec<Option<u64>>,
        streams: [VecDeque<StreamEvent>; 2],
        set: [u64; 3],
        reached: [u64; 3],
        reads: Vec<u64>,
    }

    impl Model {
        /// Does the next thing on a stream; false if there is none, or it waits.
        fn advance(&mut self, stream: usize) -> bool {
            let Some(&work) = self.streams[stream].front() else { return false };
            match work {
                StreamEvent::Wait(event, mark) if self.reached[event] < mark => return false,
                StreamEvent::Wait(..) => {}
                StreamEvent::Mark(event, mark) => self.reached[event] = mark,
                StreamEvent::Copy { slot, run } => {
                    assert_eq!(self.here[slot], Some(run), "the host's memory was written too early");
                    self.there[slot] = Some(run);
                }
                StreamEvent::Read { slot, run } => {
                    assert_eq!(self.there[slot], Some(run), "the device's memory was written too early, or too late");
                    self.reads.push(run);
                }
            }
            self.streams[stream].pop_front();
            true
        }

        fn finish(&mut self) {
            while (0..2).any(|stream| self.advance(stream)) {}
            assert!(self.streams.iter().all(VecDeque::is_empty), "the streams wait for each other");
        }

        fn mark(&mut self, event: usize, stream: usize) {
            self.set[event] += 1;
            self.streams[stream].push_back(StreamEvent::Mark(event, self.set[event]));
        }
    }

    /// Runs a sequence with a device that is as late as it can be, as early, or in between.
    fn simulate(sequence: &[u64], runs: u64, seed: u64) {
        const READ: usize = 2;
        let slots = 2 * runs as usize;
        let mut model = Model {
            here: vec![None; slots],
            there: vec![None; slots],
            streams: Default::default(),
            set: [0; 3],
            reached: [0; 3],
            reads: vec![],
        };
        let chance = Stream { seed, purpose: 0, step: 0 };
        let (mut next, mut drawn) = (None, 0);
        for &run in sequence {
            for act in acts(run, next, runs) {
                match act {
                    ShardAction::Settle => model.finish(),
                    ShardAction::Send(run) => {
                        let slot = (run % (2 * runs)) as usize;
                        model.here[slot] = Some(run);
                        model.streams[1].push_back(StreamEvent::Copy { slot, run });
                    }
                    ShardAction::Await(half) => model.streams[0].push_back(StreamEvent::Wait(half, model.set[half])),
                    ShardAction::Free(half) => {
                        while model.reached[half] < model.set[half] {
                            assert!(model.advance(1) || model.advance(0), "the host waits for ever");
                        }
                        model.mark(READ, 0);
                        model.streams[1].push_back(StreamEvent::Wait(READ, model.set[READ]));
                    }
                    ShardAction::Sent(half) => model.mark(half, 1),
                }
            }
            next = Some(run + runs + 1);
            model.streams[0].push_back(StreamEvent::Read { slot: (run % (2 * runs)) as usize, run });
            // Seed 0: nothing is done before someone waits for it.
            while seed > 0 && !chance.word(drawn).is_multiple_of(4) {
                model.advance((chance.word(drawn) >> 8) as usize % 2);
                drawn += 1;
            }
            drawn += 1;
        }
        model.finish();
        assert_eq!(model.reads, sequence);
    }

    #[test]
    fn the_runs_of_a_rank_follow_each_other() {
        let shares = BatchShares { parts: 8, own: 2, first: 4 };
        let runs: Vec<u64> = (0..6).map(|number| shares.run(number)).collect();
        assert_eq!(runs, [4, 5, 12, 13, 20, 21]);
        for (number, run) in (0..).zip(runs) {
            assert_eq!(shares.number(run / 8, run % 8), number);
        }
        assert!((0..5).all(|run| BatchShares::WHOLE.run(run) == run && BatchShares::WHOLE.number(run, 0) == run));
    }

    #[test]
    fn every_run_reads_its_own_pictures_however_late_the_device_is() {
        for runs in [1, 2, 3, 16] {
            for first in [0, 1, 5, 31] {
                let mut sequence: Vec<u64> = (first..first + 70).collect();
                // Then again from before, as after a step back.
                sequence.extend(first + 7..first + 60);
                for seed in 0..20 {
                    simulate(&sequence, runs, seed);
                }
            }
        }
    }
}
