//! A graph with its weights on a device, run forward.

use super::Device;
use crate::cuda::{self, DeviceParams};
use crate::error::Result;
use crate::{Graph, Params, Plan, Precision, Var, cpu};

/// A graph and its parameters, ready to run again and again.
pub struct Evaluator {
    on: On,
    /// Outputs that become inputs of the next run.
    carried: Vec<(Var, String)>,
}

enum On {
    Cpu { run: Box<cpu::Executor<f32>>, params: Params<f32>, seed: u64 },
    Cuda { run: Box<cuda::CudaExecutor>, params: DeviceParams },
}

impl Evaluator {
    /// Plans `outputs` of `graph` on `device`. On the CPU everything is f32, whatever `precision` is.
    pub fn new(
        device: &Device,
        graph: &Graph,
        outputs: &[Var],
        params: &Params<f32>,
        precision: Precision,
        seed: u64,
    ) -> Result<Evaluator> {
        let on = match device {
            Device::Cpu => {
                let run = Box::new(cpu::Executor::new(Plan::new(graph, outputs)?));
                On::Cpu { run, params: params.clone(), seed }
            }
            Device::Cuda(session) => {
                let params = DeviceParams::new(session, params)?;
                let run = Box::new(cuda::CudaExecutor::new(session, graph, outputs, &params, precision, seed)?);
                On::Cuda { run, params }
            }
        };
        Ok(Evaluator { on, carried: vec![] })
    }

    /// After each run `output` becomes the input `name` of the next, without leaving the device.
    pub fn carry(&mut self, output: Var, name: &str) -> Result<()> {
        match &mut self.on {
            On::Cpu { run, .. } => {
                run.plan().find_input(name, run.get(output)?.len())?;
                self.carried.push((output, name.into()));
                Ok(())
            }
            On::Cuda { run, .. } => run.carry(output, name),
        }
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        match &self.on {
            On::Cpu { run, .. } => run.plan(),
            On::Cuda { run, .. } => run.plan(),
        }
    }

    /// Sets an input by name.
    pub fn set(&mut self, name: &str, values: &[f32]) -> Result<()> {
        match &mut self.on {
            On::Cpu { run, .. } => run.set(name, values),
            On::Cuda { run, .. } => run.set(name, values),
        }
    }

    /// Runs once; `step` selects the random numbers.
    pub fn run(&mut self, step: u32) -> Result<()> {
        match &mut self.on {
            On::Cpu { run, params, seed } => {
                run.run(params, *seed, step)?;
                for (output, name) in &self.carried {
                    let values = run.get(*output)?.to_vec();
                    run.set(name, &values)?;
                }
                Ok(())
            }
            On::Cuda { run, .. } => run.run(step),
        }
    }

    /// The value of a planned output, after all runs so far.
    pub fn get(&self, output: Var) -> Result<Vec<f32>> {
        match &self.on {
            On::Cpu { run, .. } => run.get(output).map(<[f32]>::to_vec),
            On::Cuda { run, .. } => run.get(output),
        }
    }

    /// Replaces the weights.
    pub fn set_params(&mut self, new: &Params<f32>) -> Result<()> {
        match &mut self.on {
            On::Cpu { params, .. } => {
                new.check_fits(params.specs())?;
                params.clone_from(new);
                Ok(())
            }
            On::Cuda { params, .. } => params.upload(new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Init;

    #[test]
    fn a_carried_output_is_the_next_input() {
        let mut g = Graph::new();
        let x = g.input("x", [2]).unwrap();
        let w = g.param("w", [2], Init::Constant(3.0)).unwrap();
        let y = g.mul(x, w).unwrap();
        let params = Params::initialise(&g, 0);
        let mut run = Evaluator::new(&Device::Cpu, &g, &[y], &params, Precision::F32, 0).unwrap();
        run.carry(y, "x").unwrap();
        run.set("x", &[1.0, 2.0]).unwrap();
        for _ in 0..3 {
            run.run(0).unwrap();
        }
        assert_eq!(run.get(y).unwrap(), [27.0, 54.0]);
        let mut other = params.clone();
        other.fill(1.0);
        run.set_params(&other).unwrap();
        run.run(0).unwrap();
        assert_eq!(run.get(y).unwrap(), [27.0, 54.0]);
        assert!(run.carry(y, "z").unwrap_err().to_string().contains("unknown input `z`"));
    }
}
