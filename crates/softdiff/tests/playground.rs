//! The playground, with less effort than the example: every sampler finds the mixture.

#[path = "../examples/playground.rs"]
#[allow(dead_code)]
mod playground;

use playground::{Effort, picture, play};

/// Root of the sliced squared distance below which a sampler has found the mixture, whose parts lie 1 from the centre.
const FOUND: f64 = 0.12;
/// The Naive Sampler loses variance however long the network is trained.
const NAIVE: f64 = 0.25;

#[test]
fn every_sampler_finds_the_mixture_with_a_small_trained_network() {
    let outcomes = play(&Effort { training: 2000, points: 5000, steps: 50 }).unwrap();
    assert_eq!(outcomes.len(), 1 + 10 + 5);
    for outcome in &outcomes {
        println!("{:<28} {:.4}", outcome.name, outcome.distance);
    }
    for outcome in &outcomes {
        let bound = if outcome.name == "naive" { NAIVE } else { FOUND };
        assert!(outcome.distance < bound, "{}: {}", outcome.name, outcome.distance);
    }
    // The picture is the same bytes for the same points, and a PNG that decodes.
    assert!(softdiff::image::decode(&picture(&outcomes)).is_ok());
}
