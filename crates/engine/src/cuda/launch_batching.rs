//! Batches small operations into one launch: alone, each would occupy a multiprocessor that a large kernel could use.

use super::arguments::{ROW, TableArgs};
use super::cublas::Gemm;
use super::driver::Launch;
use super::lower::{Command, Lowering};
use crate::Plan;
use crate::error::Result;
use crate::op::Op;
use crate::plan::Step;
use std::collections::HashSet;

/// How many steps from `index` on can be one launch: on the second stream, of one kind, and independent of each other. They
/// are consecutive, so that none reuses memory of another.
pub(super) fn batchable_steps(plan: &Plan, index: usize) -> usize {
    let steps = &plan.steps()[index..];
    if !matches!(steps[0].op, Op::Matmul(_) | Op::Binary(_) | Op::Combine(_) | Op::Sum(_)) {
        return 1;
    }
    let mut made = HashSet::new();
    let joins = |step: &&Step| {
        let alike = step.second_stream && step.op.name() == steps[0].op.name();
        let ready = step.inputs.iter().all(|&v| !made.contains(&plan.root(v)));
        made.extend(step.outputs.iter().map(|&v| plan.root(v)));
        alike && ready
    };
    steps.iter().take_while(joins).count().max(1)
}

impl Lowering<'_> {
    /// Batches independent commands of one kind.
    pub fn batch(&mut self, commands: Vec<Command>) -> Result<Vec<Command>> {
        let (mut launches, mut products, mut made): (Vec<Vec<Launch>>, Vec<Vec<Gemm>>, Vec<Command>) =
            Default::default();
        for command in commands {
            match command {
                Command::Kernel(launch) => {
                    let same = |l: &Launch| {
                        (l.kernel, l.block, l.shared, l.grid[1])
                            == (launch.kernel, launch.block, launch.shared, launch.grid[1])
                    };
                    match launches.iter_mut().find(|group| same(&group[0])) {
                        Some(group) => group.push(launch),
                        None => launches.push(vec![launch]),
                    }
                }
                Command::Product(gemm) => match products.iter_mut().find(|group| group[0].shaped_as(&gemm)) {
                    Some(group) => group.push(gemm),
                    None => products.push(vec![gemm]),
                },
                other => made.push(other),
            }
        }
        for group in launches {
            made.extend(self.one_launch(group)?);
        }
        for group in products {
            made.extend(self.one_product(group)?);
        }
        Ok(made)
    }

    fn one_launch(&mut self, group: Vec<Launch>) -> Result<Vec<Command>> {
        let plain = group.iter().all(|launch| launch.grid[2] == 1 && launch.cluster == 1);
        let (Some(many), true, true) = (group[0].kernel.many(), plain, group.len() > 1) else {
            return Ok(group.into_iter().map(Command::Kernel).collect());
        };
        let mut words = Vec::new();
        for launch in &group {
            words.extend(&launch.arguments);
            words.resize(words.len().next_multiple_of(ROW), 0);
        }
        let table = self.device.upload(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())?;
        let across = group.iter().map(|launch| launch.grid[0]).max().expect("a group has launches");
        let [grid, block] =
            [[across, group[0].grid[1], group.len() as u32], group[0].block].map(|s| s.map(|n| n as usize));
        let launch = self.kernels.launch(many, grid, block, &TableArgs { rows: table.address })?;
        let launch = Launch { shared: group[0].shared, ..launch };
        self.tables.push(table);
        Ok(vec![Command::Kernel(launch)])
    }

    fn one_product(&mut self, group: Vec<Gemm>) -> Result<Vec<Command>> {
        if group.len() == 1 {
            return Ok(group.into_iter().map(Command::Product).collect());
        }
        let addresses = group.iter().map(|g| g.a).chain(group.iter().map(|g| g.b)).chain(group.iter().map(|g| g.out));
        let table = self.device.upload(&addresses.flat_map(u64::to_le_bytes).collect::<Vec<_>>())?;
        let gemm = Gemm { batch: group.len(), addresses: Some(table.address), ..group[0].clone() };
        self.tables.push(table);
        Ok(vec![Command::Product(gemm)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::{Chip, outline};
    use crate::{Graph, Init, Precision, Result, Var};

    /// A time that shifts the channels of some blocks, as in the networks, with its gradients.
    fn shifted(blocks: usize) -> Result<(Graph, Vec<Var>)> {
        let mut g = Graph::new();
        let time = g.input("time", [4, 16])?;
        let mut x = g.input("x", [4, 64, 64, 32])?;
        for block in 0..blocks {
            let weight = g.param(&format!("{block}.weight"), [32, 16], Init::Constant(0.1))?;
            let bias = g.param(&format!("{block}.bias"), [32], Init::Constant(0.1))?;
            let shift = g.linear(time, weight, Some(bias))?;
            let shift = g.reshape(shift, [4, 1, 1, 32])?;
            let moved = g.add(x, shift)?;
            x = g.mul(moved, x)?;
        }
        let loss = g.sum(x)?;
        let mut outputs = g.parameter_gradients(loss)?;
        outputs.push(loss);
        Ok((g, outputs))
    }

    #[test]
    fn the_products_of_all_blocks_are_launched_together() -> Result<()> {
        let (graph, outputs) = shifted(30)?;
        let plan = outline(&graph, &outputs, Precision::Bf16, Chip::HOPPER)?;
        let mut runs = Vec::new();
        let mut index = 0;
        while index < plan.steps().len() {
            let run = batchable_steps(&plan, index);
            runs.push((plan.steps()[index].op.name(), run));
            index += run;
        }
        let of = |name| runs.iter().filter(|run| run.0 == name).map(|run| run.1).collect::<Vec<_>>();
        // Forward, and for the weights.
        assert_eq!(of("matmul"), [30, 30]);
        assert_eq!(of("binary").iter().filter(|&&run| run == 30).count(), 1);
        Ok(())
    }
}
