//! The CPU against references of other kinds: f32 with its vector instructions against f64, gradients against differences of
//! function values, convolutions and products against plain sums, random numbers against published ones.

use super::CpuExecutor;
use crate::comparison::{CaseGraph, Check, random, relative};
use crate::op::Window;
use crate::op_cases::{OP_CASES, OpCase};
use crate::rng::philox;
use crate::{Graph, Params, Plan, Precision, Result, Scalar, Var};

/// Step of the differences, as a part of the inputs' size.
const STEP: f64 = 1e-5;

/// Compares every operation, and what they are made of.
pub fn self_test() -> Vec<Check> {
    let f32_limit = 1e-5;
    let cases = OP_CASES.iter().flat_map(|case| {
        let gradients = format!("gradients of {}", case.name);
        [
            Check::new(case.name, Precision::F32, f32_limit, against_f64(case)),
            Check::new(gradients, Precision::F32, 1e-6, against_differences(case)),
        ]
    });
    type Test = fn() -> Result<f64>;
    let others: [(&str, f64, Test); 3] = [
        ("convolutions are the sums that define them", f32_limit, convolution_difference),
        ("matrix products are the sums that define them", f32_limit, product_difference),
        ("random numbers are those of Random123", 0.0, || Ok(philox_difference())),
    ];
    let others = others.into_iter().map(|(name, limit, test)| Check::new(name, Precision::F32, limit, test()));
    cases.chain(others).collect()
}

/// Values of `wanted` with the case's inputs, moved along a random direction.
fn values<T: Scalar>(case: &OpCase, built: &CaseGraph, wanted: &[Var], moved: f64) -> Result<Vec<Vec<T>>> {
    let mut run = CpuExecutor::<T>::new(Plan::new(&built.graph, wanted)?);
    for (number, (name, shape)) in built.inputs.iter().enumerate() {
        let direction = direction(built, number);
        let at = random(shape, number as u32, case.above).into_iter().zip(direction);
        let at: Vec<T> = at.map(|(x, d)| T::from_f64(f64::from(x) + moved * d)).collect();
        // A gradient need not depend on every input.
        if run.plan().inputs().iter().any(|(known, _)| known == name) {
            run.set(name, &at)?;
        }
    }
    run.run(&Params::<T>::zeros(&built.graph), 3, 4)?;
    wanted.iter().map(|&var| Ok(run.get(var)?.to_vec())).collect()
}

fn direction(built: &CaseGraph, number: usize) -> Vec<f64> {
    random(&built.inputs[number].1, 50 + number as u32, -1.0).into_iter().map(f64::from).collect()
}

fn against_f64(case: &OpCase) -> Result<f64> {
    let built = CaseGraph::new(case, Precision::F32)?;
    let single: Vec<Vec<f32>> = values(case, &built, &built.outputs, 0.0)?;
    let double: Vec<Vec<f64>> = values(case, &built, &built.outputs, 0.0)?;
    let errors = single
        .iter()
        .zip(&double)
        .map(|(single, double)| relative(single, &double.iter().map(|&value| value as f32).collect::<Vec<_>>()));
    Ok(errors.fold(0.0, f64::max))
}

/// The slope of the loss along a direction, by gradients and by two values of the loss, in f64.
fn against_differences(case: &OpCase) -> Result<f64> {
    let built = CaseGraph::new(case, Precision::F32)?;
    let gradients: Vec<Vec<f64>> = values(case, &built, &built.outputs[..built.inputs.len()], 0.0)?;
    let terms = (0..gradients.len()).flat_map(|number| {
        gradients[number].iter().zip(direction(&built, number)).map(|(g, d)| g * d).collect::<Vec<f64>>()
    });
    let (slope, size) = terms.fold((0.0, 0.0), |(sum, size), term: f64| (sum + term, size + term.abs()));
    let loss = |moved| Ok::<f64, crate::Error>(values::<f64>(case, &built, &[built.loss], moved)?[0][0]);
    let difference = (loss(STEP)? - loss(-STEP)?) / (2.0 * STEP);
    Ok((slope - difference).abs() / size.max(1e-30))
}

/// 3 x 3 convolutions, also wide enough for Winograd's tiles, against sums in f64.
fn convolution_difference() -> Result<f64> {
    let mut worst: f64 = 0.0;
    for [height, width, channels, filters] in [[7, 6, 3, 5], [9, 8, 32, 40]] {
        let mut g = Graph::new();
        let x = g.input("x", [1, height, width, channels])?;
        let w = g.input("w", [filters, 3, 3, channels])?;
        let y = g.conv2d(x, w, None, Window::same(3))?;
        let (xs, ws) = (random(g.shape(x), 0, -1.0), random(g.shape(w), 1, -1.0));
        let mut wanted = Vec::new();
        for place in 0..height * width * filters {
            let (row, column, filter) = (place / filters / width, place / filters % width, place % filters);
            let mut sum = 0.0;
            for tap in 0..9 {
                let (from_row, from_column) = (row + tap / 3, column + tap % 3);
                if (1..=height).contains(&from_row) && (1..=width).contains(&from_column) {
                    let pixel = ((from_row - 1) * width + from_column - 1) * channels;
                    let weight = (filter * 9 + tap) * channels;
                    sum += (0..channels).map(|c| f64::from(xs[pixel + c]) * f64::from(ws[weight + c])).sum::<f64>();
                }
            }
            wanted.push(sum as f32);
        }
        worst = worst.max(relative(&result(&g, y, &[("x", &xs), ("w", &ws)])?, &wanted));
    }
    Ok(worst)
}

fn product_difference() -> Result<f64> {
    let [rows, inner, columns] = [37, 65, 41];
    let mut g = Graph::new();
    let (a, b) = (g.input("a", [rows, inner])?, g.input("b", [inner, columns])?);
    let y = g.matmul(a, b, [false; 2])?;
    let (left, right) = (random(g.shape(a), 0, -1.0), random(g.shape(b), 1, -1.0));
    let entry = |place: usize| {
        let (row, column) = (place / columns, place % columns);
        (0..inner).map(|k| f64::from(left[row * inner + k]) * f64::from(right[k * columns + column])).sum::<f64>()
            as f32
    };
    let wanted: Vec<f32> = (0..rows * columns).map(entry).collect();
    Ok(relative(&result(&g, y, &[("a", &left), ("b", &right)])?, &wanted))
}

fn result(g: &Graph, output: Var, inputs: &[(&str, &[f32])]) -> Result<Vec<f32>> {
    let mut run = CpuExecutor::<f32>::new(Plan::new(g, &[output])?);
    for (name, values) in inputs {
        run.set(name, values)?;
    }
    run.run(&Params::<f32>::zeros(g), 0, 0)?;
    Ok(run.get(output)?.to_vec())
}

/// How many words differ from `kat_vectors` of Random123 for philox4x32-10.
fn philox_difference() -> f64 {
    let published = [
        ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
        ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
    ];
    let different = |(counter, key, words): ([u32; 4], [u32; 2], [u32; 4])| {
        philox(counter, key).iter().zip(words).filter(|(found, word)| *found != word).count()
    };
    published.into_iter().map(different).sum::<usize>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_comparison_agrees_on_this_machine() {
        let checks = self_test();
        for check in &checks {
            assert!(check.passed(), "{}: {:.1e} (limit {:.0e})", check.name, check.error, check.limit);
        }
        assert_eq!(checks.len(), 2 * OP_CASES.len() + 3);
    }
}
