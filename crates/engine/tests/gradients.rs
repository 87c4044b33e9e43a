//! Every operation's gradient against central finite differences in f64.
//!
//! The list of examples drives the proof; `every_operation_is_proven` fails while an operation is missing from it.

use softdiff_engine::cpu::CpuExecutor;
use softdiff_engine::op::{Function, Op};
use softdiff_engine::op_cases::OP_CASES;
use softdiff_engine::rng::Stream;
use softdiff_engine::{Graph, Params, Plan, Result, TensorShape, Var};
use std::collections::HashSet;

/// `sum(output * fixed random projection)`, its gradients, and the inputs.
struct Proof {
    executor: CpuExecutor<f64>,
    params: Params<f64>,
    loss: Var,
    gradients: Vec<Var>,
    values: Vec<Vec<f64>>,
    forward: HashSet<&'static str>,
    all: HashSet<&'static str>,
}

fn random(shape: &TensorShape, purpose: u32, low: f64, high: f64) -> Vec<f64> {
    let stream = Stream { seed: 1, purpose, step: 0 };
    (0..shape.numel()).map(|i| low + (high - low) * f64::from(stream.uniform(i as u64))).collect()
}

fn prove(inputs: &[TensorShape], above: f64, build: impl Fn(&mut Graph, &[Var]) -> Result<Var>) -> Proof {
    let mut g = Graph::new();
    let names: Vec<String> = (0..inputs.len()).map(|i| format!("x{i}")).collect();
    let vars: Vec<Var> = names.iter().zip(inputs).map(|(n, s)| g.input(n, s.clone()).unwrap()).collect();
    let out = build(&mut g, &vars).unwrap();
    let forward = g.nodes().iter().map(|n| n.op.name()).collect();
    let shape = g.shape(out).clone();
    let projection = g.constant(shape.clone(), random(&shape, 99, -1.0, 1.0)).unwrap();
    let product = g.mul(out, projection).unwrap();
    let loss = g.sum(product).unwrap();
    let gradients = g.gradients(loss, &vars).unwrap();
    let all = g.nodes().iter().map(|n| n.op.name()).collect();
    let mut outputs = gradients.clone();
    outputs.push(loss);
    let executor = CpuExecutor::new(Plan::new(&g, &outputs).unwrap());
    let values = inputs.iter().enumerate().map(|(i, s)| random(s, i as u32, above, above + 2.0)).collect();
    Proof { executor, params: Params::zeros(&g), loss, gradients, values, forward, all }
}

impl Proof {
    fn run(&mut self) -> f64 {
        for (i, values) in self.values.iter().enumerate() {
            self.executor.set(&format!("x{i}"), values).unwrap();
        }
        self.executor.run(&self.params, 3, 4).unwrap();
        self.executor.scalar(self.loss).unwrap()
    }

    /// The worst relative error over the inputs, each in the Euclidean norm.
    fn worst_error(&mut self) -> f64 {
        self.run();
        let analytic: Vec<Vec<f64>> = self.gradients.iter().map(|&v| self.executor.get(v).unwrap().to_vec()).collect();
        let mut worst: f64 = 0.0;
        for (input, analytic) in analytic.iter().enumerate() {
            let (mut error, mut norm) = (0.0, 0.0);
            // Large tensors are sampled, with a stride that visits every channel.
            for i in (0..analytic.len()).step_by(analytic.len().div_ceil(300) | 1) {
                let x = self.values[input][i];
                let mut at = |x| {
                    self.values[input][i] = x;
                    self.run()
                };
                // Fourth order: its truncation error is far below 1e-6.
                let h = 1e-3;
                let numeric = (8.0 * (at(x + h) - at(x - h)) - (at(x + 2.0 * h) - at(x - 2.0 * h))) / (12.0 * h);
                at(x);
                error += (numeric - analytic[i]).powi(2);
                norm += numeric.powi(2);
            }
            worst = worst.max((error / norm.max(1e-300)).sqrt());
        }
        worst
    }
}

fn shapes(inputs: &[&[usize]]) -> Vec<TensorShape> {
    inputs.iter().map(|&s| s.into()).collect()
}

#[test]
fn every_gradient_agrees_with_finite_differences() {
    for example in OP_CASES {
        let error = prove(&shapes(example.inputs), example.above, example.build).worst_error();
        assert!(error <= 1e-6, "{}: relative error {error:e}", example.name);
    }
}

#[test]
fn every_function_of_one_variable_has_the_right_slope() {
    for function in Function::ALL {
        let error = prove(&[[4, 5].into()], 0.2, |g, v| g.map(function, v[0])).worst_error();
        assert!(error <= 1e-6, "{function:?}: relative error {error:e}");
    }
}

#[test]
fn every_operation_is_proven() {
    let proofs: Vec<Proof> = OP_CASES.iter().map(|e| prove(&shapes(e.inputs), e.above, e.build)).collect();
    for (kind, differentiable) in Op::KINDS {
        let found =
            proofs.iter().any(|p| if *differentiable { p.forward.contains(kind) } else { p.all.contains(kind) });
        assert!(found, "{kind} has no example: add one to OP_CASES");
    }
}
