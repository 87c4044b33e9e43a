//! What a GPU runs of a graph, and where in memory: this needs no GPU.

use super::beside;
use super::cudnn::Problem;
use super::driver::Chip;
use super::fuse::fuse;
use super::lower::Numbers;
use super::select::{Selected, Target};
use super::slices;
use crate::error::Result;
use crate::plan::Storage;
use crate::views::Views;
use crate::{Graph, Plan, Var};

/// Steps by which what runs aside may be late, and where memory matters more than time.
const LEEWAY: usize = 24;
const SHORT_LEEWAY: usize = 8;

/// The operations that `outputs` need, fused, each with its kernel, in the order in which they start.
pub(super) fn order(graph: &Graph, outputs: &[Var], target: Target) -> Vec<Selected> {
    let mut nodes = fuse(graph, outputs, target);
    beside::gather(&mut nodes, graph);
    nodes
}

/// Their memory, in bytes; `workspace` tells what cuDNN wants for a convolution.
pub(super) fn place(
    graph: &Graph,
    nodes: &[Selected],
    outputs: &[Var],
    target: Target,
    views: Views,
    mut workspace: impl FnMut(&Problem) -> Result<usize>,
) -> Result<Plan> {
    let of_parts = views.clone();
    let mut scratch = |index: usize| nodes[index].scratch(graph, target, &of_parts, &mut workspace);
    let storage = Storage {
        units: [4, if target.numbers == Numbers::Bf16 { 2 } else { 4 }],
        grain: 256,
        unit_bytes: 1,
        scratch: &mut scratch,
        aside: &|index| nodes[index].aside,
        ends_aside: &|index, var| beside::ends_aside(&nodes[index].node, graph, var),
        leeway: if graph.recompute { SHORT_LEEWAY } else { LEEWAY },
        views,
    };
    Plan::stored(graph, &nodes.iter().map(|selected| &selected.node).collect::<Vec<_>>(), outputs, storage)
}

/// The plan for a GPU of this kind, without it; the workspaces of cuDNN's engines are not counted.
pub fn outline(graph: &Graph, outputs: &[Var], numbers: Numbers, chip: Chip) -> Result<Plan> {
    let target = Target { numbers, chip };
    let nodes = order(graph, outputs, target);
    let views = slices::find(&nodes, graph, outputs, target);
    place(graph, &nodes, outputs, target, views, |_| Ok(0))
}
