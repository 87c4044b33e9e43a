//! A command in several processes that `mpirun`, `srun`, `torchrun` or `--gpus` started.

use super::device::DeviceFlag;
use crate::diagnostics::{Failure, Outcome};
use crate::output::{Verbosity, set_verbosity};
use softdiff::engine::Device;
use softdiff::engine::ranks::{Ranks, Reduce};
use softdiff::ranks::{Launch, RankGroup};
use softdiff::run::StopRequest;

/// Opens the device of a command.
pub type OpenDevice<'a> = dyn Fn() -> Result<Device, Failure> + 'a;

/// Does `work` with the other processes, each on its device.
pub fn join<T>(
    launch: Launch,
    device: &DeviceFlag,
    reduce: Reduce,
    stop: &StopRequest,
    work: impl FnOnce(&RankGroup, &Device) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let device = open(&launch, device)?;
    let group = RankGroup::join(launch, &device, reduce, stop)?;
    match work(&group, &device) {
        Ok(done) => {
            group.finish();
            Ok(done)
        }
        Err(failure) if failure.is_stopped() => {
            let is_first = group.ranks.is_first();
            group.finish();
            if is_first { Err(failure) } else { Err(failure.silent()) }
        }
        Err(failure) => {
            group.fail(&failure.explain().0, failure.has_cause(is_unknown_rank));
            Err(failure)
        }
    }
}

/// The device of this process among others, and its threads.
pub fn open(launch: &Launch, device: &DeviceFlag) -> Result<Device, Failure> {
    if let Some(threads) = launch.threads() {
        // Where the pool is there already, it stays as it is.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    }
    Ok(launch.open_device(device.name())?)
}

/// Does `work`, which saves nothing on its way, with the other processes, if a launcher started this one among others. Rank 0
/// speaks. `work` is given what opens its device.
pub fn share(
    device: &DeviceFlag,
    stop: &StopRequest,
    work: impl FnOnce(&Ranks, &OpenDevice<'_>) -> Outcome,
) -> Outcome {
    let Some(launch) = Launch::from_env() else { return work(&Ranks::default(), &|| device.open()) };
    join(launch, device, Reduce::Exact, stop, |group, device| {
        group.end_by_signal();
        if !group.ranks.is_first() {
            set_verbosity(Verbosity::Quiet);
        }
        work(&group.ranks, &|| Ok(device.clone()))
    })
}

/// Whether another rank is lost, and only the watch can say which one.
fn is_unknown_rank(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(softdiff::engine::Error::Rank { rank: None, .. }))
}
