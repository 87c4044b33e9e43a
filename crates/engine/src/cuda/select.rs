//! Kernel selection: which kernel or library call computes each node, decided once before planning.
//!
//! Fusion, concat elision, scratch memory and launches all match on the stored decision. This needs no GPU.

use super::cudnn::Problem;
use super::driver::Chip;
use super::lower::{Fir, GroupNormKernel, OnChip, Products, RgbConv, SumPlan, conv_f16x2, convolution};
use super::streams::runs_on_second_stream;
use crate::cpu::conv::Geometry;
use crate::error::Result;
use crate::op::Op;
use crate::plan::views::Views;
use crate::{Graph, Node, Precision, TensorShape, Var};

/// What a graph is compiled for.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompileTarget {
    pub precision: Precision,
    pub chip: Chip,
}

impl CompileTarget {
    /// Whether a tensor is stored in bf16.
    pub fn half(&self, graph: &Graph, var: Var) -> bool {
        self.precision.half(graph.storage(var))
    }
}

/// What computes a node, with the geometry that it was chosen for.
#[derive(Clone, Debug)]
pub(super) enum Kernel {
    /// A convolution by cuDNN. Its pitches are dense here; see [`Selected::problem`].
    Cudnn(Problem),
    /// A convolution of f32 on tensor cores, each number as two f16.
    ConvF16x2(Geometry),
    /// A convolution from or to RGB.
    RgbConv(RgbConv),
    /// A group norm or its gradient.
    GroupNorm(GroupNormKernel),
    /// Attention with its weights in shared memory.
    AttentionOnChip(OnChip),
    /// Attention as matrix products around a softmax.
    AttentionProducts,
    /// Matrix products.
    Products(Products),
    /// A sum over the middle axis.
    Sum(SumPlan),
    /// Resampling by the same four taps everywhere.
    Fir(Fir),
    /// The operation's only kernel; its geometry follows from the shapes.
    Only,
}

/// A node with the decision about it.
#[derive(Clone, Debug)]
pub(super) struct Selected {
    pub node: Node,
    pub kernel: Kernel,
    /// Whether it runs on the second stream.
    pub second_stream: bool,
}

impl Selected {
    pub fn new(node: Node, graph: &Graph, target: CompileTarget) -> Selected {
        let kernel = select(&node, graph, target);
        let second_stream = runs_on_second_stream(&node, graph);
        Selected { node, kernel, second_stream }
    }

    /// The convolution that cuDNN is asked for, if it is; `pitch` is the number of elements from one pixel of a tensor to
    /// the next.
    pub fn problem(&self, pitch: impl Fn(Var) -> usize) -> Option<Problem> {
        match &self.kernel {
            Kernel::Cudnn(problem) => Some(convolution::with_pitches(problem, &self.node, pitch)),
            _ => None,
        }
    }

    /// Bytes of scratch memory; `workspace` is what cuDNN needs for a convolution.
    pub fn scratch(
        &self,
        graph: &Graph,
        target: CompileTarget,
        views: &Views,
        workspace: &mut dyn FnMut(&Problem) -> Result<usize>,
    ) -> Result<usize> {
        let shape = |input: usize| graph.shape(self.node.inputs[input]);
        let half = || target.half(graph, self.node.inputs[0]);
        Ok(match (&self.kernel, &self.node.op) {
            (Kernel::Cudnn(_), _) => {
                let problem = self.problem(|var| views.pitch(var, graph));
                workspace(&problem.expect("the kernel is cuDNN's"))?
            }
            (Kernel::ConvF16x2(geometry), _) => conv_f16x2::scratch(geometry),
            (Kernel::RgbConv(conv), _) => conv.scratch(),
            (Kernel::Sum(sum), _) => sum.scratch(),
            (Kernel::GroupNorm(norm), Op::GroupNormGradient(_)) => norm.gradient_scratch(shape(3)),
            (Kernel::GroupNorm(norm), _) => norm.scratch(shape(0)),
            (Kernel::AttentionOnChip(_), Op::AttentionGradient(_)) => OnChip::gradient_scratch(shape(0)),
            (Kernel::AttentionProducts, op) => {
                super::lower::attention_scratch(shape(0), matches!(op, Op::AttentionGradient(_)), half())
            }
            (Kernel::AttentionOnChip(_) | Kernel::Products(_) | Kernel::Fir(_) | Kernel::Only, _) => 0,
        })
    }
}

/// The kernel for a node.
fn select(node: &Node, graph: &Graph, target: CompileTarget) -> Kernel {
    let shapes: Vec<&TensorShape> = node.inputs.iter().map(|&v| graph.shape(v)).collect();
    let half = |input: usize| target.half(graph, node.inputs[input]);
    match &node.op {
        Op::Conv2d(_) | Op::Conv2dInputGradient(_) | Op::Conv2dWeightGradient(_) => {
            if let Some(geometry) = conv_f16x2::geometry(&node.op, &shapes, target.precision) {
                return Kernel::ConvF16x2(geometry);
            }
            match RgbConv::of(&node.op, &shapes, half(0), target.chip) {
                Some(conv) => Kernel::RgbConv(conv),
                None => Kernel::Cudnn(convolution::problem(&node.op, &shapes, half(0), target.precision.tf32())),
            }
        }
        Op::GroupNorm(op) => {
            Kernel::GroupNorm(GroupNormKernel::new(shapes[0], op.options.groups, half(0), false, target.chip))
        }
        Op::GroupNormGradient(op) => {
            Kernel::GroupNorm(GroupNormKernel::new(shapes[3], op.options.groups, half(3), true, target.chip))
        }
        Op::Attention(_) | Op::AttentionGradient(_) => match OnChip::of(shapes[0], half(0), target.chip) {
            Some(cut) => Kernel::AttentionOnChip(cut),
            None => Kernel::AttentionProducts,
        },
        Op::Matmul(op) => Kernel::Products(Products::new(op, shapes[0], shapes[1])),
        Op::Sum(op) => Kernel::Sum(SumPlan::new(op.cut(shapes[0]))),
        Op::Resample(op) if half(0) => Fir::both(op).map_or(Kernel::Only, Kernel::Fir),
        _ => Kernel::Only,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{NormOptions, Window};
    use crate::{Init, Storage};

    const OLD: Chip = Chip { capability: (7, 5), shared: 64 << 10 };

    /// The kernels of a small network of images of `size` x `size`, with its gradients, by operation.
    fn kernels(size: usize, precision: Precision, chip: Chip) -> Result<Vec<(&'static str, Kernel)>> {
        let mut g = Graph::new();
        let image = g.input("image", [2, size, size, 3])?;
        let image = g.cast(image, Storage::Half)?;
        let [first, second] = [("first", 3), ("second", 64)]
            .map(|(name, channels)| g.param(name, [64, 3, 3, channels], Init::Constant(0.1)).expect("a new name"));
        let gamma = g.param("gamma", [64], Init::Constant(1.0))?;
        let beta = g.param("beta", [64], Init::Constant(0.0))?;
        let qkv = g.param("qkv", [192, 1, 1, 64], Init::Constant(0.1))?;
        let x = g.conv2d(image, first, None, Window::same(3))?;
        let options = NormOptions { groups: 16, epsilon: 1e-6, silu: true, mask: None };
        let x = g.group_norm_with(x, gamma, beta, None, options)?;
        let x = g.conv2d(x, second, None, Window::same(3))?;
        let x = g.fir_down(x, [1.0, 3.0, 3.0, 1.0])?;
        let x = g.conv2d(x, qkv, None, Window::same(1))?;
        let x = g.reshape(x, [2, size * size / 4, 192])?;
        let x = g.attention(x, 0.1)?;
        let x = g.cast(x, Storage::Full)?;
        let loss = g.sum(x)?;
        let outputs = g.parameter_gradients(loss)?;
        let nodes = super::super::compile::order(&g, &outputs, CompileTarget { precision, chip });
        Ok(nodes.into_iter().map(|selected| (selected.node.op.name(), selected.kernel)).collect())
    }

    fn of(kernels: &[(&str, Kernel)], name: &str) -> Vec<String> {
        let variant = |kernel: &Kernel| match kernel {
            Kernel::GroupNorm(norm) => format!("{norm:?}"),
            kernel => format!("{kernel:?}"),
        };
        let named = kernels.iter().filter(|(op, _)| *op == name);
        named.map(|(_, kernel)| variant(kernel).split(['(', ' ']).next().unwrap_or_default().into()).collect()
    }

    #[test]
    fn bf16_on_a_new_gpu_takes_the_kernels_made_for_it() -> Result<()> {
        let kernels = kernels(32, Precision::Bf16, Chip::HOPPER)?;
        assert_eq!(of(&kernels, "conv2d"), ["RgbConv", "Cudnn", "Cudnn"]);
        assert_eq!(of(&kernels, "conv2d_weight_gradient"), ["Cudnn", "Cudnn", "RgbConv"]);
        assert_eq!(of(&kernels, "group_norm"), ["OnePass"]);
        assert_eq!(of(&kernels, "group_norm_gradient"), ["OnePass"]);
        assert_eq!(of(&kernels, "resample"), ["Fir", "Fir"]);
        assert_eq!(of(&kernels, "attention"), ["AttentionOnChip"]);
        assert_eq!(of(&kernels, "attention_gradient"), ["AttentionOnChip"]);
        Ok(())
    }

    #[test]
    fn other_precisions_and_old_gpus_take_the_general_kernels() -> Result<()> {
        for (precision, chip) in
            [(Precision::F32, Chip::HOPPER), (Precision::Tf32, Chip::HOPPER), (Precision::F32, OLD)]
        {
            let kernels = kernels(32, precision, chip)?;
            assert_eq!(of(&kernels, "conv2d"), ["Cudnn"; 3]);
            assert_eq!(of(&kernels, "group_norm"), ["Slices"]);
            assert_eq!(of(&kernels, "resample"), ["Only", "Only"]);
            assert_eq!(of(&kernels, "attention"), ["AttentionProducts"]);
        }
        // 16 channels at a time are what the kernel for halves takes.
        assert_eq!(of(&kernels(32, Precision::F16x2, Chip::HOPPER)?, "conv2d"), ["Cudnn", "ConvF16x2", "ConvF16x2"]);
        Ok(())
    }

    #[test]
    fn a_decision_holds_for_every_pass_that_asks_for_it() -> Result<()> {
        // A norm that one pass computes forward is computed so backward, or parts of joined channels could not be read.
        for size in [8, 16, 32, 64] {
            let kernels = kernels(size, Precision::Bf16, Chip::HOPPER)?;
            assert_eq!(of(&kernels, "group_norm"), of(&kernels, "group_norm_gradient"), "{size}");
        }
        Ok(())
    }
}
