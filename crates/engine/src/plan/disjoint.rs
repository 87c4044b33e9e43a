//! The check that a plan's steps keep out of each other's memory.

use super::{Place, Plan};
use crate::Var;
use crate::error::{Error, Result};
use crate::op::Op;
use crate::plan::views::ChannelView;

/// A tensor's place in the arena, which it may share with others of the same whole.
struct Span {
    from: usize,
    to: usize,
    view: Option<ChannelView>,
    width: usize,
}

impl Span {
    fn meets(&self, other: &Span) -> bool {
        let beside = match (self.view, other.view) {
            (Some(a), Some(b)) if a.whole == b.whole => {
                a.first + self.width <= b.first || b.first + other.width <= a.first
            }
            _ => false,
        };
        self.from < other.to && other.from < self.to && !beside
    }
}

impl Plan {
    /// The executor's safety rests on this: no step writes what it reads, or writes one place twice.
    pub(super) fn check_disjoint(&self) -> Result<()> {
        for step in &self.steps {
            // A concatenation does not touch the parts that are already in place.
            let there = |var: &Var| matches!(step.op, Op::Concat(_)) && self.lies_in(*var, step.outputs[0]);
            let mut written: Vec<Span> = step.outputs.iter().filter_map(|&v| self.span(v)).collect();
            let (from, size) = step.scratch;
            written.push(Span { from, to: from + size, view: None, width: 0 });
            let read: Vec<Span> = step.inputs.iter().filter(|v| !there(v)).filter_map(|&v| self.span(v)).collect();
            let clash = written
                .iter()
                .enumerate()
                .any(|(i, a)| a.to > self.arena || written[..i].iter().chain(&read).any(|b| a.meets(b)));
            if clash || read.iter().any(|r| r.to > self.arena) {
                return Err(Error::Operation {
                    operation: step.op.name(),
                    place: format!(" at `{}`", step.scope),
                    problem: "the memory plan overlaps; this is a defect of the engine".into(),
                    inputs: String::new(),
                });
            }
        }
        Ok(())
    }

    /// What a tensor takes of the arena.
    fn span(&self, var: Var) -> Option<Span> {
        let Place::Arena(from) = self.place(var) else { return None };
        let numel = self.shape(var).numel();
        let (width, pitch) = (self.shape(var).last().copied().unwrap_or(1), self.pitch(var));
        let elements = (numel / width - 1) * pitch + width;
        Some(Span { from, to: from + elements * (self.sizes[var.index()] / numel), view: self.views.get(var), width })
    }
}
