//! Tensors that are some channels of another, in its memory: what is written there need not be copied there.

use crate::op::Op;
use crate::{Graph, Node, Var};
use std::collections::HashMap;

/// Where a part is stored: in which tensor, and from which channel on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelView {
    pub whole: Var,
    pub first: usize,
}

/// The tensors that are stored in others. No whole is itself a part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Views(HashMap<Var, ChannelView>);

impl Views {
    pub fn insert(&mut self, part: Var, view: ChannelView) {
        self.0.insert(part, view);
    }

    pub fn remove(&mut self, part: Var) {
        self.0.remove(&part);
    }

    pub fn get(&self, part: Var) -> Option<ChannelView> {
        self.0.get(&part).copied()
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (Var, ChannelView)> {
        self.0.iter().map(|(&part, &view)| (part, view))
    }

    /// The tensor whose memory this one's is in: mostly itself.
    pub fn whole(&self, var: Var) -> Var {
        self.get(var).map_or(var, |view| view.whole)
    }

    /// Elements from one pixel of a tensor to the next.
    pub fn pitch(&self, var: Var, graph: &Graph) -> usize {
        graph.shape(self.whole(var)).channels()
    }

    /// The tensor in which all parts that `node` concatenates are already in place.
    pub fn joined(&self, node: &Node, graph: &Graph) -> Option<Var> {
        let Op::Concat(_) = node.op else { return None };
        let whole = self.get(*node.inputs.first()?)?.whole;
        parts(node, graph).all(|(part, first)| self.get(part) == Some(ChannelView { whole, first })).then_some(whole)
    }
}

/// What a node concatenates, and the first channel of each.
pub(crate) fn parts<'a>(node: &'a Node, graph: &'a Graph) -> impl Iterator<Item = (Var, usize)> + 'a {
    node.inputs.iter().scan(0, |end, &part| {
        let first = *end;
        *end += graph.shape(part).channels();
        Some((part, first))
    })
}
