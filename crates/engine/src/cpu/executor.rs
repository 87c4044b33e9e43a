//! Runs a plan on the CPU.

use crate::error::{Error, Result};
use crate::op::Call;
use crate::rng::Draw;
use crate::{Params, Place, Plan, Scalar, TensorShape, Var};
use std::time::{Duration, Instant};

/// A plan with its memory, ready to run again and again.
pub struct CpuExecutor<T> {
    plan: Plan,
    arena: Vec<T>,
    inputs: Vec<Vec<T>>,
    constants: Vec<Vec<T>>,
}

/// Time one operation took; see [`CpuExecutor::run_timed`].
#[derive(Clone, Debug)]
pub struct NodeTime {
    /// The operation's name.
    pub operation: &'static str,
    /// Where in the network it is.
    pub scope: String,
    /// The shape of its first output.
    pub shape: String,
    /// Floating-point operations it did.
    pub flops: u64,
    /// Bytes of its inputs and outputs, each counted once.
    pub bytes: u64,
    /// How long it took.
    pub time: Duration,
}

/// Buffers begin at whole pairs of cache lines.
const ALIGNMENT: usize = 128;

impl<T: Scalar> CpuExecutor<T> {
    /// Allocates the plan's memory.
    pub fn new(plan: Plan) -> Self {
        let arena = vec![T::ZERO; plan.arena_elements() + ALIGNMENT / size_of::<T>()];
        let inputs = plan.inputs().iter().map(|(_, var)| vec![T::ZERO; plan.shape(*var).numel()]).collect();
        let constants = plan.constants().iter().map(|c| c.iter().map(|&v| T::from_f64(v)).collect()).collect();
        CpuExecutor { plan, arena, inputs, constants }
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Sets an input by name; the number of values must be that of its shape.
    pub fn set(&mut self, name: &str, values: &[T]) -> Result<()> {
        let input = self.input_mut(name, values.len())?;
        input.copy_from_slice(values);
        Ok(())
    }

    /// Sets an input from `f64` values.
    pub fn set_f64(&mut self, name: &str, values: &[f64]) -> Result<()> {
        let input = self.input_mut(name, values.len())?;
        input.iter_mut().zip(values).for_each(|(to, &from)| *to = T::from_f64(from));
        Ok(())
    }

    fn input_mut(&mut self, name: &str, len: usize) -> Result<&mut [T]> {
        let index = self.plan.find_input(name, len)?;
        Ok(&mut self.inputs[index])
    }

    /// The value of a planned output after a run.
    pub fn get(&self, var: Var) -> Result<&[T]> {
        if !self.plan.outputs().contains(&var) {
            let name = format!("{var:?}");
            let hint = Some("only tensors named when the plan was made are kept".into());
            return Err(Error::Unknown { kind: "output", name, hint });
        }
        let len = self.plan.shape(var).numel();
        Ok(match self.plan.place(var) {
            Place::Arena(offset) => &self.arena[self.base() + offset..][..len],
            Place::Input(index) => &self.inputs[index],
            Place::Constant(index) => &self.constants[index],
            Place::Param(index) => {
                let name = self.plan.params()[index].name.clone();
                let hint = Some("a parameter is read from its store, not from a run".into());
                return Err(Error::Unknown { kind: "output", name, hint });
            }
        })
    }

    /// The value of a planned output with one element.
    pub fn scalar(&self, var: Var) -> Result<T> {
        match self.get(var)? {
            [value] => Ok(*value),
            _ => Err(Error::ShapeMismatch {
                kind: "output",
                name: "scalar".into(),
                expected: TensorShape::default(),
                found: self.plan.shape(var).clone(),
            }),
        }
    }

    /// Runs every operation once.
    pub fn run(&mut self, params: &Params<T>, seed: u64, draw: impl Into<Draw>) -> Result<()> {
        self.run_each(params, seed, draw.into(), |_, run| run())
    }

    /// Runs every operation once and times each.
    pub fn run_timed(&mut self, params: &Params<T>, seed: u64, step: u32) -> Result<Vec<NodeTime>> {
        let mut times = vec![Duration::ZERO; self.plan.steps().len()];
        self.run_each(params, seed, step.into(), |index, run| {
            let start = Instant::now();
            run();
            times[index] = start.elapsed();
        })?;
        Ok(self.plan.steps().iter().zip(times).map(|(step, time)| self.plan.timed(step, time)).collect())
    }

    /// Elements to skip so that the arena is aligned.
    fn base(&self) -> usize {
        let misaligned = self.arena.as_ptr() as usize % ALIGNMENT;
        (ALIGNMENT - misaligned) % ALIGNMENT / size_of::<T>()
    }

    #[allow(unsafe_code)]
    fn run_each(
        &mut self,
        params: &Params<T>,
        seed: u64,
        draw: Draw,
        mut around: impl FnMut(usize, &mut dyn FnMut()),
    ) -> Result<()> {
        params.check_fits(self.plan.params())?;
        let base = self.base();
        let (plan, inputs, constants) = (&self.plan, &self.inputs, &self.constants);
        let arena = self.arena[base..].as_mut_ptr();
        for (index, node) in plan.steps().iter().enumerate() {
            let read = |&var: &Var| -> &[T] {
                let len = plan.shape(var).numel();
                match plan.place(var) {
                    // SAFETY: the plan keeps every tensor inside the arena, and apart from what its step writes.
                    Place::Arena(offset) => unsafe { std::slice::from_raw_parts(arena.add(offset), len) },
                    Place::Input(i) => &inputs[i],
                    Place::Param(i) => params.value(i),
                    Place::Constant(i) => &constants[i],
                }
            };
            // SAFETY: as above; outputs and scratch of a step overlap neither each other nor its inputs
            // (`Plan::new` checks exactly this).
            let write = |offset: usize, len: usize| unsafe { std::slice::from_raw_parts_mut(arena.add(offset), len) };
            let read_values: Vec<&[T]> = node.inputs.iter().map(read).collect();
            let read_shapes: Vec<&TensorShape> = node.inputs.iter().map(|&v| plan.shape(v)).collect();
            let write_shapes: Vec<&TensorShape> = node.outputs.iter().map(|&v| plan.shape(v)).collect();
            let mut written: Vec<&mut [T]> = node
                .outputs
                .iter()
                .zip(&write_shapes)
                .map(|(&var, shape)| match plan.place(var) {
                    Place::Arena(offset) => write(offset, shape.numel()),
                    _ => &mut [],
                })
                .collect();
            let mut call = Call {
                inputs: &read_values,
                input_shapes: &read_shapes,
                outputs: &mut written,
                output_shapes: &write_shapes,
                scratch: write(node.scratch.0, node.scratch.1),
                seed,
                draw,
            };
            around(index, &mut || node.op.run(&mut call));
        }
        Ok(())
    }
}
