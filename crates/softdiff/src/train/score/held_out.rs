//! The training loss on images that are not trained on, and on as many that are: where they part, the network memorises.

use super::super::{CheckpointScore, PathTable, PreparedRun, RunSpec, StepLoss, StepNoise, StepSpec, TABLE_ROWS};
use super::ScoreError;
use crate::data::{Source, Split};
use crate::recipe::Recipe;
use softdiff_engine::device::Executor;
use softdiff_engine::pixels::PixelValue;
use softdiff_engine::rng::RandomStream;
use softdiff_engine::{Device, Graph, Params, Var};
use std::path::Path as FilePath;

/// Images at a time, each with a time from another part of [0, 1].
const BATCH: usize = 64;

/// The loss of a run on the test part of its data, and on its training part. Images, times and noise are the same at every
/// checkpoint, and those of training are not touched.
pub struct HeldOutLoss<'a> {
    spec: RunSpec<'a>,
    device: &'a Device,
    /// Images of the test part and as many of the training part, as bytes.
    parts: [(&'static str, Vec<u8>); 2],
    /// The loss on the device, built with the first weights and given the next ones.
    run: Option<(Executor, Var)>,
}

impl<'a> HeldOutLoss<'a> {
    /// The value of `checkpoint.metric` that asks for it, and the name of its event.
    pub const METRIC: &'static str = "held-out-loss";
    /// The name of the event of the same on training images.
    pub const TRAINING: &'static str = "training-loss";

    /// Reads `checkpoint.images` images, evenly spread over the test part of the recipe's data, and chooses as many of those
    /// that are trained on.
    pub fn new(prepared: &'a PreparedRun, device: &'a Device) -> Result<HeldOutLoss<'a>, ScoreError> {
        let Recipe { data, checkpoint, .. } = &prepared.recipe;
        if data.split != Split::Train {
            return Err(ScoreError::NothingHeldOut);
        }
        let dataset = &prepared.dataset;
        let source = Source::open_split(FilePath::new(&data.source), Split::Test)?;
        let count = checkpoint.images.min(source.len()).min(dataset.len());
        let options = data.load_options();
        let mut held_out = Vec::with_capacity(count * dataset.picture_size());
        for place in spread(count, source.len()) {
            let picture = source.read(place, options.exif).and_then(|picture| options.transform.apply(picture));
            let name = || source.picture_name(place);
            let picture = picture.map_err(|error| ScoreError::HeldOut { file: name(), reason: error.to_string() })?;
            let picture = picture.with_channels(dataset.channels());
            if (picture.height, picture.width) != (dataset.height(), dataset.width()) {
                let reason = format!("it is {} x {}, unlike the training images", picture.width, picture.height);
                return Err(ScoreError::HeldOut { file: name(), reason });
            }
            held_out.extend(picture.pixels);
        }
        let trained_on = spread(count, dataset.len()).flat_map(|place| dataset.picture(place)).copied().collect();
        let parts = [(Self::METRIC, held_out), (Self::TRAINING, trained_on)];
        Ok(HeldOutLoss { spec: prepared.spec()?, device, parts, run: None })
    }

    /// The mean loss of both parts with these weights.
    pub fn scores(&mut self, weights: &Params<f32>) -> Result<Vec<CheckpointScore>, ScoreError> {
        let HeldOutLoss { spec, device, parts, run } = self;
        let (run, losses) = match run {
            Some((run, losses)) => {
                run.set_params(weights)?;
                (run, *losses)
            }
            none => {
                let (graph, losses) = loss_graph(spec)?;
                let seed = RandomStream::new(spec.seed, Self::METRIC).bits();
                let run = Executor::new(device, &graph, &[losses], weights, spec.precision, seed)?;
                let (run, losses) = none.insert((run, losses));
                (run, *losses)
            }
        };
        let size = spec.dataset.picture_size();
        let mean = |(metric, images): &(&'static str, Vec<u8>)| {
            let mut sum = 0.0;
            let mut input = vec![0.0; BATCH * size];
            for (number, batch) in images.chunks(BATCH * size).enumerate() {
                // What is beyond the last image keeps the values of the batch before: it is not counted.
                input.iter_mut().zip(batch).for_each(|(to, &byte)| *to = byte.unit() as f32);
                run.set("x0", &input)?;
                run.run(number as u32)?;
                sum += run.get(losses)?.iter().take(batch.len() / size).map(|&loss| f64::from(loss)).sum::<f64>();
            }
            let count = images.len() / size;
            Ok(CheckpointScore { metric: (*metric).to_owned(), value: sum / count as f64, images: count as u64 })
        };
        parts.iter().map(mean).collect()
    }
}

/// `count` places evenly spread over `len`.
fn spread(count: usize, len: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |number| number * len / count)
}

/// The loss of each image, without mirroring and dropout: the images as they are.
fn loss_graph(run: &RunSpec) -> Result<(Graph, Var), ScoreError> {
    let spec = StepSpec {
        path: &PathTable::new(&run.path, TABLE_ROWS)?,
        objective: &*run.objective,
        prediction: &run.prediction,
        batch: BATCH,
        parts: 1,
        noise: StepNoise::Stratified,
        mirror: false,
        expected: run.expected,
    };
    let mut graph = Graph::new();
    let loss = StepLoss::of_network(&mut graph, &*run.network, &spec, false)?;
    Ok((graph, loss.losses))
}
