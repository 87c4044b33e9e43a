//! Sampling one step at a time.

use softdiff::sampler::SamplerError;
use softdiff::{Dataset, Model, Path, Shape, Training};

fn model() -> Model {
    let pixels = (0..16 * 64).map(|i| (i * i % 251) as u8).collect();
    let images = Dataset::new(8, 8, 1, pixels, None, vec![]);
    let path = Path::variance_exploding(Shape::new(8, 8, 1), 0.01, 10.0).unwrap();
    Training::new(images, path).set("network.channels=8").steps(2).batch(4).run().unwrap().model()
}

#[test]
fn the_steps_are_those_of_the_sampler_and_end_with_its_images() {
    let model = model();
    for (sampler, steps) in [("momentum", 5), ("heun", 3), ("multistep", 4)] {
        let request = || model.sample([3, 8]).sampler(sampler).steps(steps);
        let seen: Vec<_> = request().denoise_steps().unwrap().map(Result::unwrap).collect();
        assert_eq!(seen.len(), steps + 1);
        for (index, step) in seen.iter().enumerate() {
            assert_eq!(step.t, (steps - index) as f64 / steps as f64);
        }
        assert_eq!(seen[0].xt, model.starts(&[3, 8]));
        let last = &seen[steps];
        assert_eq!(last.xt, request().values().unwrap(), "{sampler}");
        assert_eq!((&last.x0_hat, &seen[steps - 1].x0_hat), (&last.xt, &last.xt), "the clean prediction ends it");
    }
}

#[test]
fn progress_counts_the_steps_of_every_image_and_can_stop_the_sampling() {
    let model = model();
    let request = model.sample([1, 2, 3]).steps(4).batch(2);
    let mut seen = Vec::new();
    let images = request
        .values_watched(&mut |done, total| {
            seen.push((done, total));
            Ok(())
        })
        .unwrap();
    assert_eq!(images, request.values().unwrap());
    assert_eq!(seen, [2, 4, 6, 8, 9, 10, 11, 12].map(|done| (done, 12)));
    let mut calls = 0;
    let stopped = request.values_watched(&mut |_, _| {
        calls += 1;
        if calls == 3 { Err(SamplerError::Stopped) } else { Ok(()) }
    });
    assert!(matches!(stopped, Err(SamplerError::Stopped)));
    assert_eq!(calls, 3);
}
