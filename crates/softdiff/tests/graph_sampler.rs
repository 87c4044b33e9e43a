//! Sampling as a graph equals the samplers' own steps.

use softdiff::corruption::{Blur, Boundary, Shape};
use softdiff::curve::Interpolation;
use softdiff::engine::Precision;
use softdiff::engine::{Device, Params};
use softdiff::model::{Condition, Generation, Generator, GraphSampler, NetworkDenoiser, Predictor};
use softdiff::network::UNetConfig;
use softdiff::noise::Alpha;
use softdiff::objective::Prediction;
use softdiff::path::Path;
use softdiff::prior::Prior;
use softdiff::sampler::*;
use std::sync::Arc;

const SHAPE: Shape = Shape { height: 8, width: 8, channels: 1 };

fn paths() -> Vec<Path> {
    let blur = || Box::new(Blur::new(SHAPE, Boundary::Zero, 4.0).unwrap());
    vec![
        Path::two_stage(blur(), vec![0.0, 0.5, 1.5, 4.0], Interpolation::Linear).unwrap(),
        Path::variance_exploding(SHAPE, 0.01, 5.0).unwrap(),
        Path::variance_preserving(SHAPE, Alpha::COSINE).unwrap(),
        Path::blurring_diffusion(SHAPE).unwrap(),
        Path::variance_preserving(SHAPE, Alpha::LINEAR).unwrap().centred(),
    ]
}

fn general() -> Vec<Box<dyn Sampler>> {
    let churn = Churn { s_noise: 1.1, ..Churn::rate(5.0) };
    let plain: Vec<Box<dyn Sampler>> = vec![Box::new(Naive), Box::new(Momentum), Box::new(FlowMomentum)];
    let rest: Vec<Box<dyn Sampler>> =
        vec![Box::new(Churn::deterministic()), Box::new(Churn::part(0.3)), Box::new(churn), Box::new(Multistep)];
    plain.into_iter().chain(rest).chain([Box::new(Heun) as Box<dyn Sampler>]).collect()
}

/// Those that need a path of scales alone.
fn scaled() -> Vec<Box<dyn Sampler>> {
    vec![
        Box::new(ReverseDiffusion),
        Box::new(Ancestral),
        Box::new(Ddim { eta: 0.0 }),
        Box::new(Ddim { eta: 0.7 }),
        Box::new(EulerMaruyama),
    ]
}

/// The samplers for a path.
fn samplers(path: &Path) -> Vec<Box<dyn Sampler>> {
    let (from, to) = (path.at(0.9).unwrap(), path.at(0.5).unwrap());
    let step = StepContext { path, from: &from, to: &to, before: None, eta: &[] };
    let fits = |sampler: &dyn Sampler| sampler.updates(&step).is_ok();
    general().into_iter().chain(scaled().into_iter().filter(|sampler| fits(sampler.as_ref()))).collect()
}

#[test]
fn samplers_for_scales_are_tried_on_their_paths() {
    let counts: Vec<usize> = paths().iter().map(|path| samplers(path).len()).collect();
    assert_eq!(counts, [8, 13, 13, 8, 13]);
}

#[test]
fn the_graph_gives_the_images_of_the_loop() {
    graph_and_loop_agree(UNetConfig::small(8, 1, 8, &[1, 2]));
}

#[test]
fn a_network_that_sees_the_mask_sees_it_in_the_graph_as_in_the_loop() {
    graph_and_loop_agree(UNetConfig { mask_channel: true, ..UNetConfig::small(8, 1, 8, &[1, 2]) });
}

fn graph_and_loop_agree(network: UNetConfig) {
    let mut params = Params::initialise(&network.graph(1).unwrap().0, 5);
    // A network just initialised answers 0, whatever it is told.
    let weights = params.trainable_mut().flatten().enumerate();
    weights.for_each(|(i, weight)| *weight += 0.1 * (i as f32 * 1.3).sin());
    let seeds = [3, 1, 4];
    for path in paths().into_iter().map(Arc::new) {
        let prior = Prior::noise(&path).unwrap();
        for sampler in samplers(&path) {
            let endings = [Ending::Denoised, Ending::Stepped, Ending::AtPathStart];
            let predictions = [Prediction::PAPER, Prediction::Noise];
            for (ending, prediction) in endings.iter().flat_map(|&e| predictions.clone().map(|p| (e, p))) {
                let sampling = Sampling::uniform(5).unwrap().ending(ending);
                let (condition, precision) = (Condition::Time, Precision::F32);
                let predictor =
                    Predictor { network: &network, params: &params, prediction, condition, path: path.clone() };
                let mut denoiser = NetworkDenoiser::new(&Device::Cpu, predictor.clone(), 3, precision).unwrap();
                let generation =
                    Generation { path: &path, prior: &prior, sampler: sampler.as_ref(), sampling: &sampling, batch: 3 };
                let expected = generation.images(&mut denoiser, &seeds, &mut |_, _| Ok(()));
                // A batch with one place to spare.
                let mut graph = GraphSampler::new(&Device::Cpu, predictor, &sampling, 4, precision).unwrap();
                let found = graph.sample(sampler.as_ref(), generation.starts(&seeds), &seeds, &sampling);
                let (expected, found) = match (expected, found) {
                    (Ok(expected), Ok(found)) => (expected, found),
                    (Err(a), Err(b)) => {
                        assert_eq!(a.to_string(), b.to_string());
                        continue;
                    }
                    (a, b) => panic!("{}: {:?} against {:?}", sampler.name(), a.err(), b.err()),
                };
                assert_eq!(graph.evaluations(), denoiser.evaluations(), "{}", sampler.name());
                let scale = expected.iter().map(|v| v.abs()).fold(1.0, f64::max);
                let worst = expected.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(worst < 1e-4 * scale, "{} {ending:?}: {worst:e} of {scale}", sampler.name());
            }
        }
    }
}

/// A preview may be made while the network is in trouble; the next one must not suffer from it.
#[test]
fn weights_given_later_make_their_own_images_even_after_some_that_are_not_finite() {
    let network = UNetConfig::small(8, 1, 8, &[1, 2]);
    let mut params = Params::initialise(&network.graph(1).unwrap().0, 5);
    params.trainable_mut().flatten().enumerate().for_each(|(i, weight)| *weight += 0.1 * (i as f32 * 1.3).sin());
    let mut broken = params.clone();
    broken.trainable_mut().flatten().for_each(|weight| *weight = f32::NAN);
    let (path, sampling) = (Arc::new(paths().remove(0)), Sampling::uniform(3).unwrap());
    let (prior, sampler) = (Prior::noise(&path).unwrap(), &samplers(&path)[0]);
    let with = |params| Predictor {
        network: &network,
        params,
        prediction: Prediction::PAPER,
        condition: Condition::Time,
        path: path.clone(),
    };
    let generation =
        Generation { path: &path, prior: &prior, sampler: sampler.as_ref(), sampling: &sampling, batch: 2 };
    let sample = |graph: &mut GraphSampler| {
        graph.sample(sampler.as_ref(), generation.starts(&[1, 2]), &[1, 2], &sampling).map_err(|e| e.to_string())
    };
    let fresh = |params| GraphSampler::new(&Device::Cpu, with(params), &sampling, 2, Precision::F32).unwrap();
    let expected = sample(&mut fresh(&params)).unwrap();
    let mut graph = fresh(&broken);
    sample(&mut graph).unwrap_err();
    graph.set_params(&params).unwrap();
    assert_eq!(sample(&mut graph).unwrap(), expected);
    let mut generator = Generator::new(&Device::Cpu, with(&broken), &generation, Precision::F32).unwrap();
    generator.set_params(&params).unwrap();
    let mut other = Generator::new(&Device::Cpu, with(&params), &generation, Precision::F32).unwrap();
    let [found, expected] =
        [&mut generator, &mut other].map(|g| g.images(&generation, &[1, 2], &mut |_, _| Ok(())).unwrap());
    assert_eq!(found, expected);
}
