//! Properties that every corruption must have, driven by one list, and blurs made by other software.

mod common;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use softdiff_diffusion::corruption::*;
use softdiff_diffusion::curve::{Curve, Interpolation};
use softdiff_diffusion::linalg::Matrix;
use softdiff_engine::rng::RandomStream;

const SMALL: Shape = Shape { height: 8, width: 7, channels: 3 };

/// Every corruption, on images small enough for dense matrices.
fn every_corruption() -> Vec<Box<dyn Corruption>> {
    let mut list: Vec<Box<dyn Corruption>> = vec![
        Box::new(Unchanged::new(SMALL)),
        Box::new(Fading::new(SMALL)),
        Box::new(Pixelation::new(SMALL)),
        Box::new(HeatDissipation::new(SMALL, 6.0).unwrap()),
        Box::new(HeatDissipation::new(SMALL, 6.0).unwrap().with_floor(0.001).unwrap()),
        Box::new(Decolourisation::new(SMALL, Grey::Mean).unwrap()),
        Box::new(Decolourisation::new(SMALL, Grey::Luma).unwrap()),
        Box::new(Masking::soft(SMALL, ErasureOrder::Spiral, 0.2).unwrap()),
    ];
    for boundary in [Boundary::Zero, Boundary::Reflect, Boundary::Periodic] {
        list.push(Box::new(Blur::new(SMALL, boundary, 5.0).unwrap()));
        for direction in [Direction::Horizontal, Direction::Vertical] {
            list.push(Box::new(MotionBlur::new(SMALL, direction, boundary, 5.0).unwrap()));
        }
    }
    let orders = [
        ErasureOrder::Window,
        ErasureOrder::Spiral,
        ErasureOrder::Random { seed: 1 },
        ErasureOrder::Rows,
        ErasureOrder::Columns,
    ];
    for order in orders {
        list.push(Box::new(Masking::new(SMALL, order)));
    }
    let mut stream = RandomStream::new(5, "custom");
    let dense = Matrix::from_fn(SMALL.len(), SMALL.len(), |_, _| stream.normal() / 20.0);
    list.push(Box::new(Custom::new(SMALL, LinearMap::Dense(dense)).unwrap()));
    let kernel = convolution_matrix(&[0.1, 0.7, 0.2], 8, Boundary::Periodic);
    let separable = LinearMap::Separable { rows: kernel, cols: Matrix::identity(7) };
    list.push(Box::new(Custom::new(SMALL, separable).unwrap()));
    list.push(Box::new(blur_then_grey_then_mask()));
    list
}

fn blur_then_grey_then_mask() -> Composed {
    let blur_levels = Curve::uniform(vec![0.0, 0.5, 1.0, 4.0], Interpolation::MonotoneCubic).unwrap();
    Composed::new(vec![
        (Box::new(Blur::new(SMALL, Boundary::Zero, 5.0).unwrap()), blur_levels),
        (Box::new(Decolourisation::new(SMALL, Grey::Mean).unwrap()), Curve::straight(0.0, 0.8).unwrap()),
        (Box::new(Masking::soft(SMALL, ErasureOrder::Rows, 0.3).unwrap()), Curve::straight(0.0, 1.0).unwrap()),
    ])
    .unwrap()
}

fn levels_of(corruption: &dyn Corruption, count: usize) -> Vec<f64> {
    let Levels { clean, full } = corruption.levels();
    (0..=count).map(|i| clean + (full - clean) * i as f64 / count as f64).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn length(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

/// Random cases, the same every time; a failing one is reported in its simplest form.
fn random_cases<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    runner.run(&strategy, test).unwrap();
}

/// Where between the clean and the full level, both included.
fn part() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 1 => Just(1.0), 8 => 0.0..1.0]
}

fn image() -> impl Strategy<Value = Vec<f64>> {
    vec(-1.0..1.0, SMALL.len())
}

fn level(corruption: &dyn Corruption, part: f64) -> f64 {
    let Levels { clean, full } = corruption.levels();
    clean + (full - clean) * part
}

#[test]
fn apply_and_adjoint_are_adjoint() {
    let corruptions = every_corruption();
    let cases = (0..corruptions.len(), part(), any::<bool>(), image(), image());
    random_cases(4096, cases, |(which, part, derivative, x, y)| {
        let corruption = &*corruptions[which];
        let level = level(corruption, part);
        let map = if derivative { corruption.derivative(level) } else { corruption.at(level) }.unwrap();
        let (cx, cty) = (map.apply(SMALL, &x).unwrap(), map.adjoint(SMALL, &y).unwrap());
        let gap = (dot(&cx, &y) - dot(&x, &cty)).abs();
        prop_assert!(gap <= 1e-13 * length(&cx) * length(&y), "{} at {level}", corruption.describe());
        Ok(())
    });
}

#[test]
fn every_corruption_is_linear() {
    let corruptions = every_corruption();
    random_cases(1024, (0..corruptions.len(), part(), image(), image()), |(which, part, x, y)| {
        let corruption = &*corruptions[which];
        let level = level(corruption, part);
        let map = corruption.at(level).unwrap();
        let mixed: Vec<f64> = x.iter().zip(&y).map(|(x, y)| 2.0 * x - 3.0 * y).collect();
        let (cx, cy) = (map.apply(SMALL, &x).unwrap(), map.apply(SMALL, &y).unwrap());
        let expected: Vec<f64> = cx.iter().zip(&cy).map(|(x, y)| 2.0 * x - 3.0 * y).collect();
        let found = map.apply(SMALL, &mixed).unwrap();
        prop_assert!(largest_difference(&found, &expected) < 1e-13, "{} at {level}", corruption.describe());
        Ok(())
    });
}

#[test]
fn every_corruption_starts_at_the_identity() {
    for corruption in every_corruption() {
        let map = corruption.at(corruption.levels().clean).unwrap();
        let difference = map.to_dense(SMALL).unwrap().largest_difference(&Matrix::identity(SMALL.len()));
        assert!(difference < 1e-14, "{}: {difference}", corruption.describe());
    }
}

#[test]
fn no_corruption_stretches_an_image_beyond_its_stated_bound() {
    let mut above_one = Vec::new();
    for corruption in every_corruption() {
        for level in levels_of(&*corruption, 8) {
            let norm = corruption.at(level).unwrap().norm(SMALL).unwrap();
            assert!(norm.value <= corruption.norm_bound() + 1e-9, "{} at {level}: {norm:?}", corruption.describe());
        }
        if corruption.norm_bound() > 1.0 + 1e-9 {
            above_one.push(corruption.name().to_owned());
        }
    }
    // Luma is no orthogonal projection, and a user's matrix may do anything.
    assert_eq!(above_one, ["decolourisation", "custom"]);
}

#[test]
fn the_fast_path_equals_the_dense_matrix() {
    let mut stream = RandomStream::new(3, "dense");
    for corruption in every_corruption() {
        for level in levels_of(&*corruption, 4) {
            for map in [corruption.at(level).unwrap(), corruption.derivative(level).unwrap()] {
                let dense = map.to_dense(SMALL).unwrap();
                let x = stream.normals(SMALL.len());
                let forward = largest_difference(&map.apply(SMALL, &x).unwrap(), &dense.times_vector(&x));
                let back = largest_difference(&map.adjoint(SMALL, &x).unwrap(), &dense.transposed_times_vector(&x));
                assert!(forward <= 1e-12 && back <= 1e-12, "{} at {level}", corruption.describe());
            }
        }
    }
}

#[test]
fn derivatives_equal_central_differences_between_their_corners() {
    let mut stream = RandomStream::new(4, "derivative");
    for corruption in every_corruption() {
        let Levels { clean, full } = corruption.levels();
        // An odd part of the range, away from the whole levels where pixelation and masks have corners.
        for part in [0.137, 0.389, 0.731] {
            let level = clean + part * (full - clean);
            let step = 1e-5 * (full - clean);
            let x = stream.normals(SMALL.len());
            let at = |level: f64| corruption.at(level).unwrap().apply(SMALL, &x).unwrap();
            let (ahead, behind) = (at(level + step), at(level - step));
            let expected: Vec<f64> = ahead.iter().zip(&behind).map(|(a, b)| (a - b) / (2.0 * step)).collect();
            let found = corruption.derivative(level).unwrap().apply(SMALL, &x).unwrap();
            let gap = largest_difference(&found, &expected);
            assert!(gap < 1e-6, "{} at {level}: {gap}", corruption.describe());
        }
    }
}

#[test]
fn heat_dissipation_is_a_semigroup_in_squared_deviations() {
    let heat = HeatDissipation::new(SMALL, 6.0).unwrap();
    let twice = LinearMap::Compose(vec![heat.at(1.2).unwrap(), heat.at(0.5).unwrap()]);
    let once = heat.at(1.3).unwrap();
    assert!(twice.to_dense(SMALL).unwrap().largest_difference(&once.to_dense(SMALL).unwrap()) < 1e-13);
}

#[test]
fn whole_pixelation_levels_and_masks_absorb_one_another() {
    let absorbs = |corruption: &dyn Corruption, weak: f64, strong: f64| {
        let strong = corruption.at(strong).unwrap();
        let both = LinearMap::Compose(vec![corruption.at(weak).unwrap(), strong.clone()]);
        let gap = both.to_dense(SMALL).unwrap().largest_difference(&strong.to_dense(SMALL).unwrap());
        assert!(gap < 1e-14, "{}", corruption.describe());
    };
    absorbs(&Pixelation::new(SMALL), 1.0, 2.0);
    absorbs(&Pixelation::new(SMALL), 2.0, 3.0);
    absorbs(&Masking::new(SMALL, ErasureOrder::Random { seed: 9 }), 0.2, 0.7);
}

#[test]
fn the_last_pixelation_is_the_mean_colour() {
    let map = Pixelation::new(SMALL).at(3.0).unwrap();
    let x = RandomStream::new(6, "image").normals(SMALL.len());
    let y = map.apply(SMALL, &x).unwrap();
    let mean: f64 = x.iter().step_by(3).sum::<f64>() / SMALL.pixels() as f64;
    assert!(y.iter().step_by(3).all(|v| (v - mean).abs() < 1e-14));
}

#[test]
fn a_reflected_wide_blur_is_close_to_heat_dissipation() {
    let shape = Shape::new(16, 16, 1);
    let blur = Blur::new(shape, Boundary::Reflect, 5.0).unwrap().with_half_support(60).at(3.0).unwrap();
    let heat = HeatDissipation::new(shape, 5.0).unwrap().at(3.0).unwrap();
    assert!(blur.to_dense(shape).unwrap().largest_difference(&heat.to_dense(shape).unwrap()) < 1e-12);
}

#[test]
fn a_batch_equals_its_images_one_by_one() {
    let map = blur_then_grey_then_mask().at(0.4).unwrap();
    let batch = RandomStream::new(7, "batch").normals(5 * SMALL.len());
    let expected: Vec<f64> = batch.chunks(SMALL.len()).flat_map(|x| map.apply(SMALL, x).unwrap()).collect();
    assert_eq!(map.apply_batch(SMALL, &batch).unwrap(), expected);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    use softdiff_diffusion::linalg::SymmetricEigen;
    use softdiff_diffusion::schedule::paired_distances;
    use softdiff_diffusion::transport::squared_distances;
    let shape = Shape::new(16, 16, 3);
    let blur = Blur::new(shape, Boundary::Zero, 5.0).unwrap();
    let images = RandomStream::new(8, "threads").normals(120 * shape.len());
    let cloud = Matrix::from_vec(120, shape.len(), images.clone()).unwrap();
    let levels: Vec<f64> = (1..40).map(|k| 0.1 * k as f64).collect();
    let all = || {
        let costs = squared_distances(&cloud, &cloud).unwrap();
        let eigen = SymmetricEigen::new(&costs).unwrap();
        let paired = paired_distances(&blur, &levels, &images, &|_, _| {}).unwrap();
        (blur.at(2.0).unwrap().apply_batch(shape, &images).unwrap(), costs, eigen.values, eigen.vectors, paired)
    };
    let with = |threads: usize| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(all);
    assert!(with(1) == with(3));
}

#[test]
fn levels_out_of_range_and_images_of_another_size_are_typed_errors() {
    for corruption in every_corruption() {
        let Levels { clean, full } = corruption.levels();
        for level in [clean - 0.1, full + 0.1, f64::NAN, f64::INFINITY] {
            assert!(matches!(corruption.at(level), Err(CorruptionError::Level { .. })));
            assert!(matches!(corruption.derivative(level), Err(CorruptionError::Level { .. })));
        }
        let map = corruption.at(clean).unwrap();
        assert!(matches!(map.apply(SMALL, &[0.0; 5]), Err(CorruptionError::ImageSize { found: 5, .. })));
    }
    let blur = Blur::new(SMALL, Boundary::Zero, 5.0).unwrap().at(1.0).unwrap();
    let error = blur.apply(Shape::new(4, 4, 1), &[0.0; 16]).unwrap_err();
    assert!(matches!(error, CorruptionError::MapSize { part: "row matrix", .. }));
}

#[test]
fn compositions_that_cannot_be_are_refused() {
    assert!(matches!(Composed::new(Vec::new()), Err(CorruptionError::NothingToCompose)));
    let part = || Box::new(Fading::new(SMALL));
    let wild = Composed::new(vec![(part(), Curve::straight(0.0, 1.5).unwrap())]);
    assert!(matches!(wild, Err(CorruptionError::ComposedCurve { .. })));
    let other = Box::new(Fading::new(Shape::new(2, 2, 1)));
    let curve = || Curve::straight(0.0, 1.0).unwrap();
    let mixed = Composed::new(vec![(part(), curve()), (other, curve())]);
    assert!(matches!(mixed, Err(CorruptionError::ComposedShape { .. })));
}

#[test]
fn zero_padded_blurs_equal_the_golden_ones() {
    let bytes = std::fs::read(common::golden("blur.safetensors")).unwrap();
    for (set, side, largest) in [("cifar", 32, 23.0), ("face", 64, 23.0)] {
        let shape = Shape::new(side, side, 3);
        let blur = Blur::new(shape, Boundary::Zero, largest).unwrap();
        let (_, pictures) = common::tensor(&bytes, &format!("{set}_u8"));
        for deviation in ["0.01", "0.3", "1", "4", "9", "18", "23"] {
            let (_, expected) = common::tensor(&bytes, &format!("{set}_std{deviation}"));
            let map = blur.at(deviation.parse().unwrap()).unwrap();
            for (picture, expected) in pictures.chunks(shape.len()).zip(expected.chunks(shape.len())) {
                let x: Vec<f64> = picture.iter().map(|v| v / 255.0).collect();
                let found = map.apply(shape, &common::interleaved(&x, shape.pixels())).unwrap();
                let gap = largest_difference(&found, &common::interleaved(expected, shape.pixels()));
                assert!(gap <= 1e-12, "{set} at {deviation}: {gap}");
            }
        }
    }
}

#[test]
fn the_norm_of_the_papers_last_blur_is_its_golden_eigenvalue_squared() {
    let golden = common::golden_json("blur.json");
    for (set, side) in [("cifar", 32), ("face", 64)] {
        let shape = Shape::new(side, side, 1);
        let blur = Blur::new(shape, Boundary::Zero, 23.0).unwrap();
        for row in golden["sets"][set]["rows"].as_array().unwrap() {
            let top = row["top_eigs_1d"][0].as_f64().unwrap();
            let norm = blur.at(row["std"].as_f64().unwrap()).unwrap().norm(shape).unwrap();
            assert!(norm.converged && (norm.value - top * top).abs() < 1e-6, "{set}: {norm:?} against {top}^2");
        }
    }
}

/// A batch of maps of one corruption at several levels, applied by the engine.
#[test]
fn the_engine_applies_every_corruption_and_its_gradient_is_the_adjoint() {
    use softdiff_engine::cpu::CpuExecutor;
    use softdiff_engine::{Graph, Params, Plan};
    let mut stream = RandomStream::new(11, "engine");
    for corruption in every_corruption() {
        let levels = levels_of(&*corruption, 4);
        let at: Vec<LinearMap> = levels.iter().map(|&l| corruption.at(l).unwrap()).collect();
        let moving: Vec<LinearMap> = levels[1..4].iter().map(|&l| corruption.derivative(l).unwrap()).collect();
        for maps in [at, moving] {
            let name = corruption.describe();
            let program = MapProgram::covering(&maps, SMALL).unwrap();
            let n = maps.len();
            let mut g = Graph::new();
            let images = [n, SMALL.height, SMALL.width, SMALL.channels];
            let (x, dy) = (g.input("x", images).unwrap(), g.input("dy", images).unwrap());
            let parameters = program.inputs(&mut g, "map", n).unwrap();
            let y_var = program.emit(&mut g, x, &parameters).unwrap();
            let product = g.mul(y_var, dy).unwrap();
            let loss = g.sum(product).unwrap();
            let gradient = g.gradients(loss, &[x]).unwrap()[0];
            let mut run = CpuExecutor::<f64>::new(Plan::new(&g, &[y_var, gradient]).unwrap());
            let (x, dy) = (stream.normals(n * SMALL.len()), stream.normals(n * SMALL.len()));
            // The identity needs no operation, so that its plan reads nothing of some inputs.
            let _ = run.set("x", &x);
            let _ = run.set("dy", &dy);
            for (i, values) in program.batch_values(&maps).unwrap().iter().enumerate() {
                run.set(&format!("map.{i}"), values).unwrap();
            }
            run.run(&Params::zeros(&g), 0, 0).unwrap();
            let images = x.chunks(SMALL.len()).zip(dy.chunks(SMALL.len())).zip(&maps);
            for (i, ((x, dy), map)) in images.enumerate() {
                let part = i * SMALL.len()..(i + 1) * SMALL.len();
                let y = map.apply(SMALL, x).unwrap();
                assert!(largest_difference(&run.get(y_var).unwrap()[part.clone()], &y) < 1e-12, "{name}");
                let back = map.adjoint(SMALL, dy).unwrap();
                assert!(largest_difference(&run.get(gradient).unwrap()[part], &back) < 1e-12, "{name}");
            }
        }
    }
}
