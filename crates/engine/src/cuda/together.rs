//! Small operations in common launches: alone, each would take the place of a block of something large.

use super::cublas::Gemm;
use super::driver::Launch;
use super::lower::{Command, Lowering};
use crate::error::Result;
use crate::op::Op;
use crate::plan::Step;
use std::collections::HashSet;

/// Kernels that have a form for many launches, which finds the arguments of each in a table.
const MANY: [&str; 5] =
    ["binary_float_float_8", "combine_float_8", "combine_float_1", "sum_middle_wide_float", "norm_image_sums"];
/// Arguments of a launch in the table.
const WORDS: usize = 16;

impl Lowering<'_> {
    /// How many steps from `index` on may be one: aside, alike, and not in need of each other. What a step aside uses is kept
    /// for some steps, and no longer.
    pub fn run_of_alike(&self, index: usize) -> usize {
        let steps = &self.plan.steps()[index..];
        let alike =
            |step: &Step| step.aside && std::mem::discriminant(&step.op) == std::mem::discriminant(&steps[0].op);
        if !matches!(steps[0].op, Op::Matmul(_) | Op::Binary(_) | Op::Combine(_) | Op::Sum(_)) {
            return 1;
        }
        let mut made = HashSet::new();
        let apart = |step: &&Step| {
            let ready = step.inputs.iter().all(|&v| !made.contains(&self.plan.root(v)));
            made.extend(step.outputs.iter().map(|&v| self.plan.root(v)));
            ready && alike(step)
        };
        steps.iter().take_while(apart).count().clamp(1, self.plan.leeway().max(1))
    }

    /// Commands that do not need each other, those that are alike made one.
    pub fn together(&mut self, commands: Vec<Command>) -> Result<Vec<Command>> {
        let (mut launches, mut products, mut made): (Vec<Vec<Launch>>, Vec<Vec<Gemm>>, Vec<Command>) =
            Default::default();
        for command in commands {
            match command {
                Command::Kernel(launch) => {
                    let same = |l: &Launch| {
                        (l.function, l.block, l.shared, l.grid[1])
                            == (launch.function, launch.block, launch.shared, launch.grid[1])
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
        let mut many = None;
        for name in MANY {
            if self.kernels.get(name)? == group[0].function {
                many = Some(self.kernels.get(&format!("{name}_many"))?);
            }
        }
        let plain = group.iter().all(|launch| launch.grid[2] == 1 && launch.cluster == 1);
        let (Some(function), true, true) = (many, plain, group.len() > 1) else {
            return Ok(group.into_iter().map(Command::Kernel).collect());
        };
        let mut words = Vec::new();
        for launch in &group {
            words.extend(&launch.arguments);
            words.resize(words.len().next_multiple_of(WORDS), 0);
        }
        let table = self.device.upload(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())?;
        let across = group.iter().map(|launch| launch.grid[0]).max().unwrap_or(1);
        let grid = [across, group[0].grid[1], group.len() as u32];
        let launch = Launch { function, grid, arguments: vec![table.address], ..group[0].clone() };
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
