//! Comparison, selection and minimum, made of other operations.

use crate::error::Result;
use crate::{Graph, Var};

/// How steeply a comparison goes from 0 to 1: within 1e-9 of the threshold it is in between.
const STEEP: f64 = 1e9;

impl Graph {
    /// 1 where `x` is above `threshold`, else 0.
    pub fn above(&mut self, x: Var, threshold: f64) -> Result<Var> {
        let shape = self.shape(x).clone();
        let table = self.constant([2, 1], vec![0.0, 1.0])?;
        let flat = self.reshape(x, [shape.numel()])?;
        let negative = self.constant([1], vec![-threshold])?;
        let difference = self.add(flat, negative)?;
        let position = self.scale(difference, STEEP)?;
        let step = self.interpolate(table, position)?;
        self.reshape(step, shape)
    }

    /// `a` where `mask` is 1, `b` where it is 0; dimensions of size 1 of the mask are repeated.
    pub fn select(&mut self, mask: Var, a: Var, b: Var) -> Result<Var> {
        let difference = self.sub(a, b)?;
        let chosen = self.mul(difference, mask)?;
        self.add(b, chosen)
    }

    /// `min(x, most)`, as `most - relu(most - x)`.
    pub fn min(&mut self, x: Var, most: f64) -> Result<Var> {
        let most = self.constant(vec![1; self.shape(x).len()], vec![most])?;
        let negative = self.scale(x, -1.0)?;
        let room = self.add(negative, most)?;
        let room = self.relu(room)?;
        let negative = self.scale(room, -1.0)?;
        self.add(negative, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuExecutor;
    use crate::{Params, Plan};

    #[test]
    fn comparison_selection_and_minimum_choose_elements() -> Result<()> {
        let mut g = Graph::new();
        let x = g.input("x", [2, 2])?;
        let y = g.input("y", [2, 2])?;
        let above = g.above(x, 0.5)?;
        let chosen = g.select(above, x, y)?;
        let least = g.min(x, 0.75)?;
        let total = g.sum(least)?;
        let slope = g.gradients(total, &[x])?[0];
        let mut run = CpuExecutor::<f64>::new(Plan::new(&g, &[above, chosen, least, slope])?);
        run.set("x", &[0.25, 0.5, 0.625, 1.0])?;
        run.set("y", &[-1.0, -2.0, -3.0, -4.0])?;
        run.run(&Params::zeros(&g), 0, 0)?;
        assert_eq!(run.get(above)?, [0.0, 0.0, 1.0, 1.0]);
        assert_eq!(run.get(chosen)?, [-1.0, -2.0, 0.625, 1.0]);
        assert_eq!(run.get(least)?, [0.25, 0.5, 0.625, 0.75]);
        assert_eq!(run.get(slope)?, [1.0, 1.0, 1.0, 0.0]);
        Ok(())
    }
}
