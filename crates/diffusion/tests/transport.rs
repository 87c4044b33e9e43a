//! Distances against other people's numbers: POT's exact transport, OTT's and POT's Sinkhorn, Gaussian Bures.

mod common;

use common::{CIFAR, golden, golden_json, numbers, pictures_of_the_transport_goldens, tensor};
use serde_json::Value;
use softdiff_diffusion::corruption::{Blur, Boundary, Corruption};
use softdiff_diffusion::linalg::Matrix;
use softdiff_diffusion::transport::*;

/// A and B, blurred at each of the golden levels.
struct BlurredPictures {
    a: Vec<Matrix>,
    b: Vec<Matrix>,
}

impl BlurredPictures {
    fn new(golden: &Value, n: usize) -> Self {
        let blur = Blur::new(CIFAR, Boundary::Zero, 18.0).unwrap();
        let [a, b] = pictures_of_the_transport_goldens(n);
        let blurred = |pictures: &Matrix| {
            numbers(&golden["levels"])
                .iter()
                .map(|&level| {
                    let values = blur.at(level).unwrap().apply_batch(CIFAR, pictures.values()).unwrap();
                    Matrix::from_vec(n, CIFAR.len(), values).unwrap()
                })
                .collect()
        };
        BlurredPictures { a: blurred(&a), b: blurred(&b) }
    }

    fn pair(&self, kind: &str, i: usize, j: usize) -> (&Matrix, &Matrix) {
        (&self.a[i], if kind == "same" { &self.a[j] } else { &self.b[j] })
    }
}

fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found} instead of {expected}");
}

fn exact_and_paired_distances_agree(n: usize, every: usize) {
    let golden = golden_json("ot.json");
    let pictures = BlurredPictures::new(&golden, n);
    let emd = &golden["emd"][n.to_string()];
    for i in 0..12 {
        for j in (i % every..12).step_by(every) {
            let (x, y) = pictures.pair("independent", i, j);
            let expected = emd["independent_w2sq"][i][j].as_f64().unwrap();
            let found = exact(x, y).unwrap();
            assert_close(found.value, expected, 1e-9 * expected, "exact");
            assert!(found.error <= 1e-10 * expected);
            let (x, y) = pictures.pair("same", i, j);
            let expected = emd["same_identity_cost"][i][j].as_f64().unwrap();
            assert_close(paired(x, y).unwrap().value, expected, 1e-9 * expected, "paired");
            // The identity is the optimal matching for every two levels.
            if i < j && (i + j) % 5 == 0 {
                assert_close(exact(x, y).unwrap().value, expected, 1e-9 * expected, "exact on the same pictures");
            }
        }
    }
}

fn bures_distances_agree(n: usize, every: usize) {
    let golden = golden_json("ot.json");
    let pictures = BlurredPictures::new(&golden, n);
    for kind in ["same", "independent"] {
        for i in 0..12 {
            for j in (i % every..12).step_by(every) {
                let (x, y) = pictures.pair(kind, i, j);
                let expected = golden["bures"][n.to_string()][format!("{kind}_w2sq")][i][j].as_f64().unwrap();
                let found = bures(x, y).unwrap();
                assert_close(found.value, expected, (1e-9 * expected).max(found.error), kind);
            }
        }
    }
}

fn sinkhorn_costs_agree(n: usize) {
    let golden = golden_json("ot.json");
    let pictures = BlurredPictures::new(&golden, n);
    let rows = golden["sinkhorn"].as_array().unwrap();
    for row in rows.iter().filter(|row| row["n"] == n) {
        let number = |key: &str| row[key].as_f64().unwrap();
        let (i, j) = (number("i") as usize, number("j") as usize);
        let (x, y) = pictures.pair(row["kind"].as_str().unwrap(), i, j);
        let entropy = number("epsilon");
        let options = SinkhornOptions { entropy, tolerance: 1e-12, max_iterations: 40_000 };
        let cost = squared_distances(x, y).unwrap();
        let xy = sinkhorn(&cost, &options).unwrap();
        assert!(xy.linear.converged, "{row}: {:?}", xy.linear);
        let close = |found: f64, key: &str| {
            let expected = number(key);
            // Costs that nearly vanish, and differences of costs, are exact relative to the terms they come from.
            let scale = expected.abs().max(1e-3 * number("xy_regularised").abs());
            assert_close(found, expected, 1e-7 * scale, &format!("{key} of {row}"));
        };
        close(xy.linear.value, "xy_linear");
        close(xy.regularised.value, "xy_regularised");
        for (cloud, name) in [(x, "xx"), (y, "yy")] {
            let (linear, regularised) = self_transport(&squared_distances(cloud, cloud).unwrap(), &options).unwrap();
            close(linear.value, &format!("{name}_linear"));
            close(regularised.value, &format!("{name}_regularised"));
        }
    }
}

#[test]
fn exact_transport_and_the_paired_distance_equal_pot() {
    exact_and_paired_distances_agree(128, 2);
}

#[test]
fn gaussian_distances_equal_the_golden_ones() {
    bures_distances_agree(128, 4);
}

#[test]
fn sinkhorn_costs_equal_ott_and_pot() {
    sinkhorn_costs_agree(128);
}

#[test]
#[ignore = "needs CIFAR-10: see tests/golden/README.md"]
fn distances_of_256_pictures_equal_the_golden_ones() {
    exact_and_paired_distances_agree(256, 1);
    bures_distances_agree(256, 1);
    sinkhorn_costs_agree(256);
}

#[test]
fn the_stored_cost_matrix_has_pots_optimal_assignment() {
    let bytes = std::fs::read(golden("ot.safetensors")).unwrap();
    let (shape, cost) = tensor(&bytes, "cost");
    let (_, columns) = tensor(&bytes, "cost_optimal_column_of_row");
    let found = assignment(&Matrix::from_vec(shape[0], shape[1], cost).unwrap()).unwrap();
    let expected = golden_json("ot.json")["cost_tensor"]["emd"].as_f64().unwrap();
    assert_close(found.cost.value, expected, 1e-9 * expected, "assignment");
    assert_eq!(found.column_of_row, columns.iter().map(|&c| c as usize).collect::<Vec<_>>());
}

#[test]
fn library_divergences_are_reproduced_each_in_its_own_kind() {
    let golden = golden_json("ot.json");
    let library = &golden["library_divergence"];
    let pictures = BlurredPictures::new(&golden, 128);
    let (x, y) = pictures.pair("independent", 0, 11);
    let options = SinkhornOptions::new(library["epsilon"].as_f64().unwrap());
    let found = sinkhorn_divergence(x, y, &options).unwrap();
    let expected = library["ott_sinkhorn_divergence"].as_f64().unwrap();
    assert_close(found.regularised.value, expected, 1e-6 * expected, "OTT");
    let expected = library["pot_empirical_sinkhorn_divergence"].as_f64().unwrap();
    assert_close(found.linear.value, expected, 1e-6 * expected, "POT");
}

#[test]
fn cases_that_other_libraries_gave_up_after_forty_thousand_iterations_converge() {
    let golden = golden_json("ot.json");
    let pictures = BlurredPictures::new(&golden, 128);
    for row in golden["sinkhorn_dropped"].as_array().unwrap().iter().filter(|row| row["n"] == 128) {
        let number = |key: &str| row[key].as_f64().unwrap();
        let (x, y) = pictures.pair(row["kind"].as_str().unwrap(), number("i") as usize, number("j") as usize);
        let options = SinkhornOptions { entropy: number("epsilon"), tolerance: 1e-12, max_iterations: 40_000 };
        let found = sinkhorn(&squared_distances(x, y).unwrap(), &options).unwrap();
        assert!(found.linear.converged && found.linear.iterations < 4000, "{row}: {:?}", found.linear);
    }
}

#[test]
fn gaussian_samples_lie_at_the_closed_form_within_two_percent() {
    use softdiff_engine::rng::RandomStream;
    let mut stream = RandomStream::new(1, "gaussians");
    let n = 4000;
    let x = Matrix::from_fn(n, 3, |_, _| stream.normal());
    let y = Matrix::from_fn(n, 3, |_, j| 2.0 + [1.0, 2.0, 0.5][j] * stream.normal());
    let closed_form = 12.0 + 0.0 + 1.0 + 0.25;
    assert_close(bures(&x, &y).unwrap().value, closed_form, 0.02 * closed_form, "Bures");
    let small = |cloud: &Matrix| Matrix::from_fn(800, 3, |i, j| cloud[(i, j)]);
    assert_close(exact(&small(&x), &small(&y)).unwrap().value, closed_form, 0.06 * closed_form, "exact");
}
