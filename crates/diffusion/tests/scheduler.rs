//! The scheduler against networkx and scipy, and whole schedules of real pictures.

mod common;

use common::{CIFAR, golden, golden_json, numbers, pictures_of_the_transport_goldens, tensor};
use softdiff_diffusion::corruption::{Blur, Boundary, Composed, Corruption, Shape};
use softdiff_diffusion::curve::{Curve, Interpolation};
use softdiff_diffusion::linalg::Matrix;
use softdiff_diffusion::noise::Noise;
use softdiff_diffusion::path::{LevelSchedule, Path};
use softdiff_diffusion::schedule::*;
use softdiff_engine::Hint;
use softdiff_engine::hash::ContentHash;
use softdiff_engine::pixels::{from_unit, to_unit};

fn golden_distances() -> Matrix {
    let (shape, values) = tensor(&std::fs::read(golden("ot.safetensors")).unwrap(), "graph_w2");
    Matrix::from_vec(shape[0], shape[1], values).unwrap()
}

#[test]
fn shortest_paths_equal_networkx_and_scipy() {
    let golden = golden_json("ot.json");
    let distances = golden_distances();
    let squared = Matrix::from_fn(32, 32, |i, j| distances[(i, j)].powi(2));
    for case in golden["graph"]["cases"].as_array().unwrap() {
        let max_hop = case["eps"].as_f64().unwrap();
        for (name, weights, limit) in [("w2", &distances, max_hop), ("w2_squared", &squared, max_hop * max_hop)] {
            let expected = &case[name];
            let found = shortest_path(weights, limit).unwrap();
            let cost = expected["cost"].as_f64().unwrap();
            assert!((found.cost - cost).abs() <= 1e-9 * cost, "{name} at {max_hop}: {} not {cost}", found.cost);
            let nodes: Vec<usize> = numbers(&expected["nodes"]).iter().map(|&n| n as usize).collect();
            assert_eq!(found.nodes, nodes, "{name} at {max_hop}");
            let longest = found.nodes.windows(2).map(|p| distances[(p[0], p[1])]).fold(0.0, f64::max);
            assert!((longest - expected["max_hop"].as_f64().unwrap()).abs() < 1e-12);
        }
    }
}

#[test]
fn a_limit_below_the_golden_bottleneck_is_refused_with_that_bottleneck() {
    let expected = golden_json("ot.json")["graph"]["bottleneck"].as_f64().unwrap();
    match shortest_path(&golden_distances(), 0.99 * expected) {
        Err(ScheduleError::Unreachable { bottleneck, .. }) => assert!((bottleneck - expected).abs() < 1e-12),
        other => panic!("{other:?}"),
    }
}

#[test]
fn our_own_distances_of_all_pairs_equal_the_golden_ones() {
    let candidates = numbers(&golden_json("ot.json")["graph"]["candidates"]);
    let [pictures, _] = pictures_of_the_transport_goldens(128);
    let blur = Blur::new(CIFAR, Boundary::Zero, 18.0).unwrap();
    let found = paired_distances(&blur, &candidates, pictures.values(), &|_, _| {}).unwrap();
    let expected = golden_distances();
    for i in 0..32 {
        for j in 0..32 {
            let gap = (found[(i, j)] - expected[(i, j)]).abs();
            assert!(gap <= 1e-9 * expected[(i, j)], "{i} {j}: {} not {}", found[(i, j)], expected[(i, j)]);
        }
    }
}

/// 8x8 averages of the golden pictures: quick to schedule.
fn small_pictures() -> (Shape, Vec<f64>) {
    let [pictures, _] = pictures_of_the_transport_goldens(128);
    let shape = Shape::new(8, 8, 3);
    let mut values = Vec::new();
    for picture in 0..128 {
        let row = pictures.row(picture);
        for place in 0..shape.len() {
            let (y, x, channel) = (place / 24, place / 3 % 8, place % 3);
            let block = (0..16).map(|k| row[((4 * y + k / 4) * 32 + 4 * x + k % 4) * 3 + channel]);
            values.push(block.sum::<f64>() / 16.0);
        }
    }
    (shape, values)
}

fn request(metric: TransportMetric, method: Method) -> Request {
    Request {
        source: "golden pictures, averaged to 8x8".into(),
        candidates: log_spaced(0.01, 0.2, 5.0, 64).unwrap(),
        knots: 12,
        metric,
        method,
        interpolation: Interpolation::Linear,
        timing: Timing::PAPER,
        images: 48,
        seed: 7,
        resamplings: 5,
    }
}

const SHORTEST: Method = Method::ShortestPath { max_hop: 0.0 };

#[test]
fn a_schedule_records_its_origin_and_survives_its_file() {
    let (shape, pictures) = small_pictures();
    let blur = Blur::new(shape, Boundary::Zero, 5.0).unwrap();
    let schedule = plan(&blur, &pictures, &request(TransportMetric::Paired, SHORTEST), &|_, _| {}).unwrap();
    assert_eq!((schedule.knots.len(), schedule.hops.len()), (12, 11));
    assert_eq!((schedule.knots[0], schedule.knots[11]), (0.01, 5.0));
    let Method::ShortestPath { max_hop, .. } = schedule.method else { panic!("{:?}", schedule.method) };
    assert!(schedule.hops.iter().all(|&hop| hop <= max_hop));
    assert_eq!(schedule.corruption, blur.describe());
    assert!(schedule.data.hash.starts_with("blake3:") && schedule.data.available == 128);
    let spread = schedule.spread.as_ref().unwrap();
    assert_eq!((spread.seeds.len(), spread.deviation.len()), (5, 12));
    let path = std::env::temp_dir().join(format!("softdiff-schedule-{}.json", std::process::id()));
    std::fs::write(&path, schedule.to_json()).unwrap();
    let read = Schedule::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read, schedule);
    assert_eq!(read.hash(), schedule.hash());
    assert_eq!(read.curve().unwrap().value(1.0), 5.0);
}

#[test]
fn a_schedule_is_for_its_own_corruption_also_where_an_older_version_hashed_it() {
    let (shape, pictures) = small_pictures();
    let part = |strength| Box::new(Blur::new(shape, Boundary::Zero, strength).unwrap()) as Box<dyn Corruption>;
    let composed = |strength| {
        let levels = Curve::uniform(vec![0.0, strength], Interpolation::Linear).unwrap();
        Composed::new(vec![(part(strength), levels.clone()), (part(strength), levels)]).unwrap()
    };
    let usual = request(TransportMetric::Paired, Method::EqualArcLength);
    let request = Request { candidates: vec![0.0, 0.5, 1.0], knots: 3, ..usual };
    let mut schedule = plan(&composed(2.0), &pictures, &request, &|_, _| {}).unwrap();
    assert!(schedule.is_for(&composed(2.0)) && !schedule.is_for(&composed(3.0)));
    let hash = &schedule.corruption[schedule.corruption.find("blake3:").unwrap()..][..39].to_owned();
    let before = schedule.corruption.clone();
    schedule.corruption = before.replace(hash, "fnv1a64:0123456789abcdef");
    assert!(schedule.is_for(&composed(2.0)) && !schedule.is_for(&*part(2.0)));
    schedule.corruption = before.replace(hash, "blake3:0123456789abcdef0123456789abcdef");
    assert!(!schedule.is_for(&composed(2.0)));
}

#[test]
fn the_schedule_of_bytes_is_that_of_their_values_and_has_the_same_hash() {
    let (shape, pictures) = small_pictures();
    let blur = Blur::new(shape, Boundary::Zero, 5.0).unwrap();
    let (bytes, wanted) = (from_unit(&pictures), request(TransportMetric::Paired, SHORTEST));
    let schedule = plan(&blur, &bytes, &wanted, &|_, _| {}).unwrap();
    let values = to_unit(&bytes);
    assert_eq!(schedule, plan(&blur, &values, &wanted, &|_, _| {}).unwrap());
    assert_eq!(schedule.data.hash, ContentHash::of_values(values).to_string());
}

#[test]
fn the_shortest_path_and_equal_arc_length_nearly_agree() {
    let (shape, pictures) = small_pictures();
    let blur = Blur::new(shape, Boundary::Zero, 5.0).unwrap();
    let fine =
        Request { candidates: log_spaced(0.01, 0.2, 5.0, 400).unwrap(), ..request(TransportMetric::Paired, SHORTEST) };
    let schedule = plan(&blur, &pictures, &fine, &|_, _| {}).unwrap();
    // In distance, not in levels: where blur does almost nothing yet, levels far apart are close.
    let mean = schedule.hops.iter().sum::<f64>() / schedule.hops.len() as f64;
    for hop in &schedule.hops {
        assert!((hop / mean - 1.0).abs() < 0.12, "a hop of {hop} where the mean is {mean}: {:?}", schedule.hops);
    }
    for (shortest, equal) in schedule.knots.iter().zip(&schedule.equal_arc_length).skip(1) {
        assert!((shortest / equal - 1.0).abs() < 0.12, "{shortest} against {equal}");
    }
}

#[test]
fn every_metric_and_method_yields_a_schedule_from_clean_to_full() {
    let (shape, pictures) = small_pictures();
    let blur = Blur::new(shape, Boundary::Reflect, 5.0).unwrap();
    let metrics = [
        TransportMetric::Exact,
        TransportMetric::Sinkhorn { entropy: 0.5 },
        TransportMetric::SinkhornDivergence { entropy: 0.5 },
        TransportMetric::Sliced { directions: 20, seed: 1 },
        TransportMetric::Bures,
        TransportMetric::Mmd { bandwidth: 2.0 },
    ];
    let pace = VarianceExploding { smallest: 0.01, largest: 50.0 };
    let methods = [Method::EqualArcLength, Method::MseMatched { pace, sigma: 0.01 }];
    let requests = metrics
        .map(|metric| request(metric, SHORTEST))
        .into_iter()
        .chain(methods.map(|method| request(TransportMetric::Paired, method)));
    for request in requests {
        let quick = Request {
            candidates: log_spaced(0.01, 0.3, 5.0, 16).unwrap(),
            knots: 5,
            images: 20,
            resamplings: 1,
            ..request
        };
        let schedule = plan(&blur, &pictures, &quick, &|_, _| {}).unwrap();
        assert_eq!(schedule.knots.len(), 5, "{:?}", quick.metric);
        assert_eq!((schedule.knots[0], schedule.knots[4]), (0.01, 5.0), "{:?}", quick.metric);
        assert!(schedule.knots.windows(2).all(|w| w[0] <= w[1]) && schedule.spread.is_none());
    }
}

/// Appendix, "Ablation Study for Blur": E|x_0 - x_t|^2 / E|x_0 - x_1|^2 equals that of the VE diffusion, for every t.
#[test]
fn matched_errors_grow_with_time_as_those_of_ve_whatever_the_metric_and_the_noise() {
    let (shape, pictures) = small_pictures();
    let blur = Blur::new(shape, Boundary::Zero, 5.0).unwrap();
    let pace = VarianceExploding { smallest: 0.01, largest: 2.0 };
    let throughout = Timing { noise: Noise::Geometric { smallest: 0.01, largest: 0.1, until: 1.0 }, start: 0.18 };
    for (timing, metric) in [
        (Timing::PAPER, TransportMetric::Paired),
        (Timing::PAPER, TransportMetric::Mmd { bandwidth: 2.0 }),
        (throughout, TransportMetric::Sliced { directions: 20, seed: 1 }),
    ] {
        let method = Method::MseMatched { pace, sigma: timing.noise.sigma(1.0) };
        let (candidates, knots) = (log_spaced(0.01, 0.05, 5.0, 200).unwrap(), 256);
        let wanted = Request {
            candidates,
            knots,
            images: 128,
            resamplings: 1,
            timing: timing.clone(),
            ..request(metric, method)
        };
        let schedule = plan(&blur, &pictures, &wanted, &|_, _| {}).unwrap();
        assert_eq!((schedule.knots.len(), schedule.timing.as_ref()), (256, Some(&timing)));
        let curve = schedule.curve().unwrap();
        let path = Path::new(
            vec![(Box::new(blur.clone()), LevelSchedule::Curve { curve, start: timing.start })],
            timing.noise,
        );
        let path = path.unwrap();
        let error = |t: f64| {
            let moment = path.at(t).unwrap();
            let blurred = moment.map.apply_batch(shape, &pictures).unwrap();
            let squares: f64 = blurred.iter().zip(&pictures).map(|(a, b)| (a - b).powi(2)).sum();
            squares / 128.0 + shape.len() as f64 * moment.sigma.powi(2)
        };
        let mut matched = 0;
        for t in [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99] {
            let expected = (0.01f64 / 2.0).powf(2.0 * (1.0 - t));
            // Before the blur begins, noise alone is more than the target.
            if path.level(t).unwrap() > 0.05 {
                let found = error(t) / error(1.0);
                assert!((found / expected - 1.0).abs() < 0.02, "{metric:?} at {t}: {found} not {expected}");
                matched += 1;
            }
        }
        assert!(matched >= 4, "{metric:?}: {matched}");
    }
}

#[test]
fn levels_and_noise_chosen_together_have_just_the_knots_asked_for_and_nearly_even_hops() {
    let (shape, pictures) = small_pictures();
    let blur = Blur::new(shape, Boundary::Zero, 5.0).unwrap();
    let method = Method::Joint { max_hop: 0.0, smallest: 0.01, largest: 0.1, noise_levels: 20 };
    let schedule = plan(&blur, &pictures, &request(TransportMetric::Paired, method), &|_, _| {}).unwrap();
    let sigmas = schedule.sigmas.clone().unwrap();
    assert_eq!((schedule.knots.len(), sigmas.len(), schedule.hops.len()), (12, 12, 11));
    assert_eq!((schedule.knots[0], schedule.knots[11], sigmas[0], sigmas[11]), (0.01, 5.0, 0.01, 0.1));
    assert!(sigmas.windows(2).all(|pair| pair[0] <= pair[1]));
    // Each hop is what the images and their noise move, images and noise being the same at both ends.
    let images = 48.0;
    let chosen: Vec<f64> = {
        let mut order = softdiff_engine::rng::RandomStream::new(7, "images of a schedule").permutation(128);
        order.truncate(48);
        order.sort_unstable();
        order.iter().flat_map(|&i| pictures[i * shape.len()..(i + 1) * shape.len()].to_vec()).collect()
    };
    let at = |k: usize| blur.at(schedule.knots[k]).unwrap().apply_batch(shape, &chosen).unwrap();
    for (k, hop) in schedule.hops.iter().enumerate() {
        let squares: f64 = at(k).iter().zip(&at(k + 1)).map(|(a, b)| (a - b).powi(2)).sum();
        let noise = shape.len() as f64 * (sigmas[k + 1] - sigmas[k]).powi(2);
        assert!((hop - (squares / images + noise).sqrt()).abs() < 1e-9, "{k}");
    }
    let longest = schedule.hops.iter().copied().fold(0.0, f64::max);
    assert!(longest < 1.4 * schedule.path_cost / 11.0, "{:?}", schedule.hops);
    let read = Schedule::from_json(schedule.to_json().as_bytes()).unwrap();
    assert_eq!(read, schedule);
    let timing = read.timing(Timing::PAPER).unwrap();
    for (k, sigma) in sigmas.iter().enumerate() {
        assert!((timing.noise.sigma(k as f64 / 11.0) - sigma).abs() < 1e-15);
    }
    let mut short = schedule.clone();
    short.sigmas = Some(vec![0.1]);
    assert!(Schedule::from_json(short.to_json().as_bytes()).unwrap_err().to_string().contains("1 noise levels"));
}

#[test]
fn schedules_of_earlier_versions_still_load_with_the_same_hash() {
    let (shape, pictures) = small_pictures();
    let blur = Blur::new(shape, Boundary::Zero, 5.0).unwrap();
    let method = Method::MseMatched { pace: VarianceExploding { smallest: 0.01, largest: 50.0 }, sigma: 0.1 };
    let schedule = plan(&blur, &pictures, &request(TransportMetric::Paired, method), &|_, _| {}).unwrap();
    let mut before: serde_json::Value = serde_json::from_str(&schedule.to_json()).unwrap();
    before.as_object_mut().unwrap().remove("timing").unwrap();
    assert!(before.get("sigmas").is_none());
    let read = Schedule::from_json(before.to_string().as_bytes()).unwrap();
    assert_eq!((read.timing.is_none(), &read.knots), (true, &schedule.knots));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&read.to_json()).unwrap(), before);
}

#[test]
fn files_that_are_no_schedules_say_why() {
    assert!(Schedule::from_json(b"{}").unwrap_err().to_string().contains("missing field"));
    let (shape, pictures) = small_pictures();
    let blur = Blur::new(shape, Boundary::Zero, 5.0).unwrap();
    let mut schedule = plan(&blur, &pictures, &request(TransportMetric::Paired, SHORTEST), &|_, _| {}).unwrap();
    schedule.format = "softdiff-schedule/0".into();
    let error = Schedule::from_json(schedule.to_json().as_bytes()).unwrap_err();
    assert_eq!(error.hint().unwrap(), "make the schedule anew");
    let missing = Schedule::read(std::path::Path::new("no/such.json")).unwrap_err().to_string();
    assert!(missing.starts_with("no/such.json: "));
    let few = Request { images: 1000, ..request(TransportMetric::Paired, SHORTEST) };
    assert!(matches!(plan(&blur, &pictures, &few, &|_, _| {}), Err(ScheduleError::Images { found: 128, .. })));
}

#[test]
#[ignore = "needs CIFAR-10: see tests/golden/README.md"]
fn all_pairs_of_256_levels_on_1024_pictures_take_less_than_a_minute() {
    let folder = std::env::var("SOFTDIFF_CIFAR10").expect("set SOFTDIFF_CIFAR10 to cifar-10-batches-bin");
    let bytes = std::fs::read(std::path::Path::new(&folder).join("data_batch_1.bin")).unwrap();
    let mut pictures = Vec::new();
    for record in bytes.chunks_exact(3073).take(1024) {
        let planes: Vec<f64> = record[1..].iter().map(|&b| f64::from(b) / 255.0).collect();
        pictures.extend(common::interleaved(&planes, CIFAR.pixels()));
    }
    let blur = Blur::new(CIFAR, Boundary::Zero, 18.0).unwrap();
    let candidates = usual_candidates(&blur, 256).unwrap();
    let start = std::time::Instant::now();
    let distances = paired_distances(&blur, &candidates, &pictures, &|_, _| {}).unwrap();
    println!("{:?}", start.elapsed());
    assert!(start.elapsed().as_secs() < 60);
    // The same by plain differences, for pairs of every nearness.
    let at = |i: usize| blur.at(candidates[i]).unwrap().apply_batch(CIFAR, &pictures).unwrap();
    for (i, j) in [(0, 100), (60, 61), (80, 81), (100, 101), (150, 151), (254, 255), (3, 255)] {
        let squares: f64 = at(i).iter().zip(&at(j)).map(|(a, b)| (a - b).powi(2)).sum();
        let expected = (squares / 1024.0).sqrt();
        let gap = (distances[(i, j)] - expected).abs() / expected;
        println!("{i} {j} {expected:e} {gap:e}");
        assert!(gap < 1e-9, "{i} {j}");
    }
}
