//! What to expect of a training before it begins: how long a step takes, and whether the images are too few for so many steps.

use super::{ImageFeed, PrepareError, RunSpec, Stepper, TrainError};
use crate::corruption::Shape;
use crate::data::Dataset;
use crate::network::Network;
use crate::path::Path;
use crate::prior::Prior;
use crate::recipe::{SampleSection, TrainSection};
use softdiff_engine::Device;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Images of the larger of two steps that are timed on a CPU, where a step takes a fixed time and one in proportion to its images: many
/// where that is quick, else few.
const TIMED_IMAGES: [usize; 2] = [8, 2];
/// How long steps are timed, after one that is not.
const TIMED: Duration = Duration::from_millis(500);
/// The most passes over the images that are usual: the paper's CIFAR-10 training makes 2,560.
const MOST_PASSES: f64 = 3_000.0;
/// With fewer images than these, this many passes are already too many.
const FEW_IMAGES: usize = 1_000;
const MOST_PASSES_OVER_FEW: f64 = 100.0;

/// The time of a training step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTime {
    /// Seconds of a step with all its images.
    pub seconds: f64,
    /// Images that were timed at once.
    pub images: usize,
    /// Steps that were timed.
    pub steps: u32,
}

impl StepTime {
    /// Times steps of `network` on grey images that are thrown away with all that they did. On a CPU small batches are timed.
    pub fn measure(
        network: Arc<dyn Network>,
        shape: Shape,
        train: &TrainSection,
        device: &Device,
    ) -> Result<StepTime, TrainError> {
        if device.is_gpu() {
            return time(network, shape, train, device, train.batch);
        }
        let one = time(network.clone(), shape, train, device, 1)?;
        let [many, few] = TIMED_IMAGES.map(|images| images.min(train.batch));
        let is_quick = one.seconds * (many as f64) < 2.0 * TIMED.as_secs_f64();
        let timed = time(network, shape, train, device, if is_quick { many } else { few })?;
        let each = (timed.seconds - one.seconds) / (timed.images - 1).max(1) as f64;
        let seconds = match each > 0.0 {
            true => timed.seconds + each * (train.batch - timed.images) as f64,
            false => timed.seconds * train.batch as f64 / timed.images as f64,
        };
        Ok(StepTime { seconds, ..timed })
    }
}

/// The time of a step with so many images.
fn time(
    network: Arc<dyn Network>,
    shape: Shape,
    train: &TrainSection,
    device: &Device,
    images: usize,
) -> Result<StepTime, TrainError> {
    let dataset =
        Dataset::new(shape.height, shape.width, shape.channels, vec![128; images * shape.len()], None, vec![]);
    let path = Arc::new(Path::variance_exploding(shape, 0.01, 1.0).map_err(PrepareError::from)?);
    let prior = Prior::noise(&path).map_err(PrepareError::from)?;
    let accumulate = if images == train.batch { train.accumulate } else { 1 };
    let spec = RunSpec {
        batch: images,
        accumulate,
        recompute: train.recompute,
        precision: train.precision,
        ..RunSpec::new(&dataset, path, &prior, network)
    };
    let step = spec.step()?;
    let state = spec.new_state(&step);
    let mut stepper = Stepper::new(&spec, &step, (state.params, state.adam), device, ImageFeed::Fixed)?;
    let mut run = |number: u64| -> Result<(), TrainError> {
        stepper.run(number)?;
        stepper.wait()?;
        Ok(())
    };
    run(0)?;
    let (begun, mut steps) = (Instant::now(), 0);
    while steps == 0 || begun.elapsed() < TIMED {
        steps += 1;
        run(steps.into())?;
    }
    let seconds = begun.elapsed().as_secs_f64() / f64::from(steps);
    Ok(StepTime { seconds, images, steps })
}

/// A warning where a network would see so few images so often that it learns them by heart.
pub fn too_few_images(images: usize, train: &TrainSection) -> Option<String> {
    let passes = train.steps as f64 * train.batch as f64 / images.max(1) as f64;
    let most = if images < FEW_IMAGES { MOST_PASSES_OVER_FEW } else { MOST_PASSES };
    if passes <= most {
        return None;
    }
    let steps = ((most * images as f64 / train.batch as f64).floor() as u64).max(1);
    let plural = if images == 1 { "" } else { "s" };
    Some(format!(
        "{images} image{plural}, each shown {passes:.0} times: the network will reproduce them instead of making new ones; \
         give more images, or at most train.steps={steps} ({most} times each); softdiff eval --metrics memorisation measures it"
    ))
}

/// A warning where a recipe asks for samples that its run cannot make alone.
pub fn guidance_without_guide(sample: &SampleSection) -> Option<String> {
    let factor = Some(sample.guidance).filter(|factor| *factor != 1.0)?;
    Some(format!(
        "sample.guidance is {factor}, and a run has no guide: softdiff sample will need --guide MODEL or --guidance 1"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::UNetConfig;

    #[test]
    fn many_passes_over_few_images_are_warned_of_with_their_numbers() {
        let train = |steps, batch| TrainSection { steps, batch, ..TrainSection::default() };
        // The paper's CIFAR-10 training, and the quickstart.
        assert_eq!(too_few_images(50_000, &train(1_000_000, 128)), None);
        assert_eq!(too_few_images(60_000, &train(500, 64)), None);
        assert_eq!(too_few_images(64, &train(8, 4)), None);
        let warning = too_few_images(200, &train(100_000, 128)).unwrap();
        assert!(warning.contains("200 images") && warning.contains("64000 times"), "{warning}");
        assert!(warning.contains("train.steps=156"), "{warning}");
        assert!(too_few_images(3, &train(1000, 64)).is_some());
        assert!(
            too_few_images(1000, &train(23_437, 128)).is_none() && too_few_images(1000, &train(24_000, 128)).is_some()
        );
    }

    #[test]
    fn the_time_of_a_step_follows_from_those_of_small_batches() {
        let network = Arc::new(UNetConfig::small(8, 1, 8, &[1, 2]));
        let shape = Shape::new(8, 8, 1);
        let train = TrainSection { batch: 64, ..TrainSection::default() };
        let time = StepTime::measure(network, shape, &train, &Device::Cpu).unwrap();
        assert!(time.seconds > 0.0 && time.seconds.is_finite() && time.images == 8 && time.steps > 0, "{time:?}");
    }
}
