//! Folding: a network written plainly becomes one of fewer operations with the same parameters, before it is
//! differentiated.
//!
//! - A convolution's bias before `+ shift` and a group norm becomes part of the shift, which the norm adds itself.
//! - SiLU and dropout after a group norm become part of it.
//! - `scale (convolution + residual)` becomes one operation; if the residual is a convolution, the biases are added first.
//! - Convolutions of one image whose results are joined (the projections of attention) become one convolution.

use crate::error::Result;
use crate::op::{Binary, BinaryKind, Combine, Conv2d, Function, GroupNorm, NormOptions, Op};
use crate::{Graph, Leaf, Node, Var};
use std::collections::HashMap;

/// What becomes of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fold {
    Keep,
    /// It is part of another.
    Drop,
    /// A convolution whose bias is added elsewhere.
    WithoutBias,
    /// The sum of a convolution and a shift per image and channel: only the shift, with the convolution's bias.
    Shift,
    /// A group norm with what follows it; with a shift if its input is one of the above.
    Norm {
        options: NormOptions,
        last: usize,
        shifted: bool,
    },
    /// The scaled sum of a convolution and a residual.
    Residual,
    /// The joined results of convolutions of one image.
    Projections,
}

impl Graph {
    /// Folds the operations from number `first` on. Tensors that were folded into others cannot be read any more; those in
    /// `keep`, and those that several operations read, stay.
    pub fn fold(&mut self, first: usize, keep: &[Var]) -> Result<()> {
        let folds = Pattern::new(self, first, keep).folds();
        let nodes = self.take_nodes();
        let mut replay = Replay { unbiased: HashMap::new(), shifts: HashMap::new() };
        for (node, fold) in nodes.iter().zip(folds) {
            let outer = self.replace_scope(node.scope.to_string());
            let replayed = replay.node(self, &nodes, node, fold);
            self.replace_scope(outer);
            replayed?;
        }
        Ok(())
    }
}

/// Finds what can be folded.
struct Pattern<'a> {
    graph: &'a Graph,
    readers: Vec<Vec<usize>>,
    first: usize,
    keep: &'a [Var],
}

impl<'a> Pattern<'a> {
    fn new(graph: &'a Graph, first: usize, keep: &'a [Var]) -> Pattern<'a> {
        let mut readers = vec![Vec::new(); graph.tensor_count()];
        for (index, node) in graph.nodes().iter().enumerate() {
            node.inputs.iter().for_each(|v| readers[v.index()].push(index));
        }
        Pattern { graph, readers, first, keep }
    }

    fn folds(&self) -> Vec<Fold> {
        let nodes = self.graph.nodes();
        let mut folds = vec![Fold::Keep; nodes.len()];
        for (index, node) in nodes.iter().enumerate().skip(self.first) {
            match &node.op {
                Op::GroupNorm(op) => self.norm(index, op, &mut folds),
                Op::Combine(op) => self.residual(index, op, &mut folds),
                Op::Concat(_) => self.projections(index, &mut folds),
                _ => {}
            }
        }
        folds
    }

    /// The node that computes a tensor which only one other reads.
    fn only_read_here(&self, var: Var) -> Option<(usize, &'a Node)> {
        let Leaf::Computed(index) = *self.graph.leaf(var) else { return None };
        let once = self.readers[var.index()].len() == 1 && index >= self.first && !self.keep.contains(&var);
        once.then(|| (index, &self.graph.nodes()[index]))
    }

    /// The only node that reads a tensor.
    fn only_reader(&self, var: Var) -> Option<(usize, &'a Node)> {
        match self.readers[var.index()][..] {
            [index] if !self.keep.contains(&var) => Some((index, &self.graph.nodes()[index])),
            _ => None,
        }
    }

    /// A convolution with a bias and nothing else that only one other operation reads.
    fn plain_conv(&self, var: Var) -> Option<(usize, &'a Conv2d, &'a Node)> {
        let (index, node) = self.only_read_here(var)?;
        match &node.op {
            Op::Conv2d(op) if op.bias && !op.residual && op.scale == 1.0 && !op.rectified => Some((index, op, node)),
            _ => None,
        }
    }

    fn norm(&self, index: usize, op: &GroupNorm, folds: &mut [Fold]) {
        let node = &self.graph.nodes()[index];
        if node.inputs.len() != 3 || op.options.mask.is_some() {
            return;
        }
        let (mut options, mut last) = (op.options, index);
        if let Some((silu, Node { op: Op::Unary(op), .. })) = self.only_reader(node.outputs[0])
            && op.function == Function::Silu
            && !options.silu
        {
            (options.silu, last, folds[silu]) = (true, silu, Fold::Drop);
        }
        if let Some((dropout, Node { op: Op::Dropout(op), .. })) = self.only_reader(self.graph.nodes()[last].outputs[0])
        {
            (options.mask, last, folds[dropout]) = (Some(op.mask), dropout, Fold::Drop);
        }
        let shifted = self.shift(node.inputs[0], folds);
        if shifted || last != index {
            folds[index] = Fold::Norm { options, last, shifted };
        }
    }

    /// Folds `convolution + reshaped shift [n, c]`.
    fn shift(&self, x: Var, folds: &mut [Fold]) -> bool {
        let Some((add, Node { op: Op::Binary(Binary { kind: BinaryKind::Add }), inputs, .. })) = self.only_read_here(x)
        else {
            return false;
        };
        let Some((reshape, Node { op: Op::Reshape(_), inputs: shift, .. })) = self.only_read_here(inputs[1]) else {
            return false;
        };
        let image = self.graph.shape(x);
        let per_image = self.graph.shape(shift[0])[..] == [image[0], image.channels()];
        let Some((conv, ..)) = self.plain_conv(inputs[0]).filter(|_| per_image) else { return false };
        (folds[conv], folds[add], folds[reshape]) = (Fold::WithoutBias, Fold::Shift, Fold::Drop);
        true
    }

    fn residual(&self, index: usize, op: &Combine, folds: &mut [Fold]) {
        let ([a, b], [h, x]) = (&op.coefficients[..], &self.graph.nodes()[index].inputs[..]) else { return };
        let Some((conv, ..)) = self.plain_conv(*h).filter(|_| a == b) else { return };
        (folds[conv], folds[index]) = (Fold::Drop, Fold::Residual);
        if let Some((skip, ..)) = self.plain_conv(*x) {
            folds[skip] = Fold::WithoutBias;
        }
    }

    fn projections(&self, index: usize, folds: &mut [Fold]) {
        let parts: Option<Vec<_>> =
            self.graph.nodes()[index].inputs.iter().map(|&part| self.plain_conv(part)).collect();
        let Some(parts) = parts else { return };
        let taps = |node: &Node| self.graph.shape(node.inputs[1])[1..].to_vec();
        let same = |(_, op, node): &(usize, &Conv2d, &Node)| {
            let (_, first_op, first) = parts[0];
            op.window == first_op.window && node.inputs[0] == first.inputs[0] && taps(node) == taps(first)
        };
        if parts.len() > 1 && parts.iter().all(same) {
            parts.iter().for_each(|part| folds[part.0] = Fold::Drop);
            folds[index] = Fold::Projections;
        }
    }
}

/// Adds the folded operations.
struct Replay {
    /// Results of convolutions without their biases, by those with, and the biases.
    unbiased: HashMap<Var, (Var, Var)>,
    /// The convolution and the shift that a sum of both became.
    shifts: HashMap<Var, (Var, Var)>,
}

impl Replay {
    fn node(&mut self, g: &mut Graph, nodes: &[Node], node: &Node, fold: Fold) -> Result<()> {
        // Nodes that are dropped stay in the old list, where their readers find them.
        let producer = |var: Var| nodes.iter().find(|node| node.outputs.contains(&var)).expect("it was computed");
        match fold {
            Fold::Keep => g.add_node(node.op.clone(), &node.inputs, &node.outputs),
            Fold::Drop => {}
            Fold::WithoutBias => {
                let Op::Conv2d(op) = &node.op else { unreachable!("only convolutions have biases") };
                let plain = g.apply1(Conv2d { bias: false, ..op.clone() }, &node.inputs[..2])?;
                self.unbiased.insert(node.outputs[0], (plain, node.inputs[2]));
            }
            Fold::Shift => {
                let (conv, bias) = self.unbiased[&node.inputs[0]];
                let shift = producer(node.inputs[1]).inputs[0];
                let channels = g.shape(bias).numel();
                let bias = g.reshape(bias, [1, channels])?;
                self.shifts.insert(node.outputs[0], (conv, g.add(shift, bias)?));
            }
            Fold::Norm { options, last, shifted } => {
                let mut inputs = node.inputs.clone();
                if shifted {
                    let (conv, shift) = self.shifts[&node.inputs[0]];
                    inputs[0] = conv;
                    inputs.push(shift);
                }
                let outputs = [nodes[last].outputs[0], node.outputs[1], node.outputs[2]];
                g.add_node(GroupNorm { options }.into(), &inputs, &outputs);
            }
            Fold::Residual => {
                let Op::Combine(Combine { coefficients }) = &node.op else { unreachable!("a residual is added") };
                let conv = producer(node.inputs[0]);
                let Op::Conv2d(op) = &conv.op else { unreachable!("a residual is added to a convolution") };
                let (mut bias, mut residual) = (conv.inputs[2], node.inputs[1]);
                if let Some(&(skip, skip_bias)) = self.unbiased.get(&residual) {
                    (bias, residual) = (g.add(bias, skip_bias)?, skip);
                }
                let op = Conv2d { residual: true, scale: coefficients[0], ..op.clone() };
                g.add_node(op.into(), &[conv.inputs[0], conv.inputs[1], bias, residual], &node.outputs);
            }
            Fold::Projections => {
                let parts: Vec<&Node> = node.inputs.iter().map(|&part| producer(part)).collect();
                let Op::Conv2d(op) = &parts[0].op else { unreachable!("projections are convolutions") };
                let image = parts[0].inputs[0];
                let [_, rows, columns, channels] = g.shape(parts[0].inputs[1]).known();
                let (mut weights, mut biases) = (Vec::new(), Vec::new());
                for part in &parts {
                    let weight = g.cast(part.inputs[1], g.storage(image))?;
                    let count = g.shape(weight).numel();
                    weights.push(g.reshape(weight, [count])?);
                    biases.push(part.inputs[2]);
                }
                let (weight, bias) = (g.concat(&weights)?, g.concat(&biases)?);
                let filters = g.shape(bias).numel();
                let weight = g.reshape(weight, [filters, rows, columns, channels])?;
                g.add_node(op.clone().into(), &[image, weight, bias], &node.outputs);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuExecutor;
    use crate::op::Window;
    use crate::{Init, Params, Plan, Storage};

    /// A residual block with a time, dropout and a skip convolution, and attention, as networks state them; its output and
    /// that of the first convolution.
    fn network(g: &mut Graph, channels: usize) -> Result<(Var, Var)> {
        let mut count = 0;
        let mut conv = |g: &mut Graph, x: Var, filters: usize, taps: usize| -> Result<Var> {
            count += 1;
            let init = Init::Uniform { bound: 0.3 };
            let weight = g.param(&format!("w{count}"), [filters, taps, taps, g.shape(x).channels()], init)?;
            let bias = g.param(&format!("b{count}"), [filters], init)?;
            g.conv2d(x, weight, Some(bias), Window::same(taps))
        };
        let x = g.input("x", [2, 4, 4, 8])?;
        let time = g.input("time", [2, channels])?;
        let ones = g.constant([channels], vec![1.5; channels])?;
        let zeros = g.constant([channels], vec![0.5; channels])?;
        let x = g.cast(x, Storage::Half)?;
        let first = conv(g, x, channels, 3)?;
        let shift = g.reshape(time, [2, 1, 1, channels])?;
        let h = g.add(first, shift)?;
        let h = g.group_norm(h, ones, zeros, 4, 1e-6, false)?;
        let h = g.silu(h)?;
        let h = g.dropout(h, 0.25, 7)?;
        let h = conv(g, h, channels, 3)?;
        let skip = conv(g, x, channels, 1)?;
        let h = g.add_scaled(h, skip, 0.7)?;
        let normal = g.group_norm(h, ones, zeros, 4, 1e-6, false)?;
        let projections = [(); 3].map(|()| conv(g, normal, channels, 1)).into_iter().collect::<Result<Vec<_>>>()?;
        let qkv = g.concat(&projections)?;
        let tokens = g.reshape(qkv, [2, 16, 3 * channels])?;
        let mixed = g.attention(tokens, 0.3)?;
        let mixed = g.reshape(mixed, [2, 4, 4, channels])?;
        let mixed = conv(g, mixed, channels, 1)?;
        Ok((g.add_scaled(mixed, h, 0.7)?, first))
    }

    fn operations(g: &Graph) -> Vec<&'static str> {
        let named = g.nodes().iter().filter(|node| !matches!(node.op, Op::Reshape(_) | Op::Cast(_)));
        named.map(|node| node.op.name()).collect()
    }

    /// Output and gradients.
    fn values(g: &mut Graph, output: Var) -> Result<Vec<Vec<f64>>> {
        let squares = g.square(output)?;
        let loss = g.sum(squares)?;
        let mut outputs = g.parameter_gradients(loss)?;
        outputs.push(output);
        let params = Params::<f64>::initialise(g, 3);
        let mut run = CpuExecutor::new(Plan::new(g, &outputs)?);
        for (name, size) in [("x", 2 * 16 * 8), ("time", 2 * 12)] {
            run.set_f64(name, &(0..size).map(|i| (i as f64 * 0.7).sin()).collect::<Vec<_>>())?;
        }
        run.run(&params, 5, 6)?;
        outputs.iter().map(|&v| Ok(run.get(v)?.to_vec())).collect()
    }

    #[test]
    fn a_plain_network_becomes_one_of_few_operations() -> Result<()> {
        let mut g = Graph::new();
        let (output, _) = network(&mut g, 12)?;
        g.fold(0, &[output])?;
        let expected = [
            "conv2d",
            "binary",
            "group_norm",
            "conv2d",
            "combine",
            "conv2d",
            "group_norm",
            "concat",
            "concat",
            "conv2d",
            "attention",
            "conv2d",
        ];
        assert_eq!(operations(&g), expected);
        // Nothing is left to fold, and parameters keep their order.
        let names: Vec<String> = g.params().iter().map(|(spec, _)| spec.name.clone()).collect();
        g.fold(0, &[output])?;
        assert_eq!(operations(&g), expected);
        assert_eq!(names[..4], ["w1", "b1", "w2", "b2"]);
        Ok(())
    }

    #[test]
    fn a_folded_network_has_the_values_and_gradients_of_the_plain_one() -> Result<()> {
        let (mut plain, mut folded) = (Graph::new(), Graph::new());
        let (output, _) = network(&mut plain, 12)?;
        let expected = values(&mut plain, output)?;
        let (output, _) = network(&mut folded, 12)?;
        folded.fold(0, &[output])?;
        let found = values(&mut folded, output)?;
        for (a, b) in expected.iter().flatten().zip(found.iter().flatten()) {
            assert!((a - b).abs() <= 1e-10 * (1.0 + a.abs()), "{a} {b}");
        }
        Ok(())
    }

    #[test]
    fn tensors_that_others_read_are_not_folded_and_folded_ones_cannot_be_read() -> Result<()> {
        let mut g = Graph::new();
        let (output, first) = network(&mut g, 12)?;
        g.fold(0, &[output, first])?;
        assert_eq!(operations(&g)[..3], ["conv2d", "binary", "group_norm"]);
        assert!(g.square(first).is_ok());
        let mut g = Graph::new();
        let (output, first) = network(&mut g, 12)?;
        g.fold(0, &[output])?;
        let error = g.square(first).expect_err("its bias is in the shift").to_string();
        assert!(error.contains("folded"), "{error}");
        assert!(Plan::new(&g, &[first]).is_err());
        Ok(())
    }
}
