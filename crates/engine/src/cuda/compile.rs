//! Compiles a graph for a GPU: fusion, kernel selection, order and memory. This needs no GPU.

use super::concat_elision;
use super::cudnn::Problem;
use super::driver::Chip;
use super::fuse::fuse;
use super::select::{CompileTarget, Selected};
use super::streams;
use crate::error::Result;
use crate::plan::MemoryLayout;
use crate::plan::views::Views;
use crate::{Graph, Plan, Precision, Var};

/// Steps by which the second stream may be late, and the same where memory matters more than time.
const LEEWAY: usize = 24;
const SHORT_LEEWAY: usize = 8;

/// The operations that `outputs` need, fused, each with its kernel, in the order in which they start.
pub(super) fn order(graph: &Graph, outputs: &[Var], target: CompileTarget) -> Vec<Selected> {
    let mut nodes = fuse(graph, outputs, target);
    streams::gather(&mut nodes, graph);
    nodes
}

/// Their memory, in bytes; `workspace` is what cuDNN needs for a convolution.
pub(super) fn place(
    graph: &Graph,
    nodes: &[Selected],
    outputs: &[Var],
    target: CompileTarget,
    views: Views,
    mut workspace: impl FnMut(&Problem) -> Result<usize>,
) -> Result<Plan> {
    let of_parts = views.clone();
    let mut scratch = |index: usize| nodes[index].scratch(graph, target, &of_parts, &mut workspace);
    let layout = MemoryLayout {
        units: [4, if target.precision == Precision::Bf16 { 2 } else { 4 }],
        grain: 256,
        unit_bytes: 1,
        scratch: &mut scratch,
        second_stream: &|index| nodes[index].second_stream,
        ends_on_second_stream: &|index, var| streams::ends_on_second_stream(&nodes[index].node, graph, var),
        leeway: if graph.recompute { SHORT_LEEWAY } else { LEEWAY },
        views,
    };
    Plan::stored(graph, &nodes.iter().map(|selected| &selected.node).collect::<Vec<_>>(), outputs, layout)
}

/// The plan for a GPU of this kind, made without one; the workspaces of cuDNN's engines are not counted.
pub fn outline(graph: &Graph, outputs: &[Var], precision: Precision, chip: Chip) -> Result<Plan> {
    let target = CompileTarget { precision, chip };
    let nodes = order(graph, outputs, target);
    let views = concat_elision::find(&nodes, graph, outputs, target);
    place(graph, &nodes, outputs, target, views, |_| Ok(0))
}
