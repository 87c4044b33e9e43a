//! What a GPU runs of a graph, and where in memory: this needs no GPU.

use super::beside;
use super::cudnn::Problem;
use super::driver::Chip;
use super::fuse::fuse;
use super::lower::{Numbers, scratch};
use super::slices;
use crate::error::Result;
use crate::plan::Storage;
use crate::views::Views;
use crate::{Graph, Node, Plan, Var};

/// Steps by which what runs aside may be late, and where memory matters more than time.
const LEEWAY: usize = 24;
const SHORT_LEEWAY: usize = 8;

/// The operations that `outputs` need, fused and in the order in which they start.
pub(super) fn order(graph: &Graph, outputs: &[Var], numbers: Numbers, chip: Chip) -> Vec<Node> {
    let mut nodes = fuse(graph, outputs, numbers, chip.capability);
    beside::gather(&mut nodes, graph);
    nodes
}

/// Their memory, in bytes; `workspace` tells what cuDNN wants for a convolution.
pub(super) fn place(
    graph: &Graph,
    nodes: &[Node],
    outputs: &[Var],
    numbers: Numbers,
    chip: Chip,
    views: Views,
    mut workspace: impl FnMut(&Problem) -> Result<usize>,
) -> Result<Plan> {
    let of_parts = views.clone();
    let mut scratch = |node: &Node, graph: &Graph| scratch(node, graph, numbers, chip, &of_parts, &mut workspace);
    let storage = Storage {
        units: [4, if numbers == Numbers::Bf16 { 2 } else { 4 }],
        grain: 256,
        unit_bytes: 1,
        scratch: &mut scratch,
        aside: &beside::runs_aside,
        ends_aside: &beside::ends_aside,
        leeway: if graph.recompute { SHORT_LEEWAY } else { LEEWAY },
        views,
    };
    Plan::stored(graph, nodes, outputs, storage)
}

/// The plan for a GPU of this kind, without it; the workspaces of cuDNN's engines are not counted.
pub fn outline(graph: &Graph, outputs: &[Var], numbers: Numbers, chip: Chip) -> Result<Plan> {
    let nodes = order(graph, outputs, numbers, chip);
    let views = slices::find(&nodes, graph, outputs, numbers, chip);
    place(graph, &nodes, outputs, numbers, chip, views, |_| Ok(0))
}
