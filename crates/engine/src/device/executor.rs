//! A graph with its weights on a device, run forward.

use super::Device;
use crate::cpu::CpuExecutor;
use crate::cuda::{CudaExecutor, DeviceParams};
use crate::error::Result;
use crate::{Graph, Params, Plan, Precision, Var};

/// A graph and its parameters, ready to run again and again.
pub struct Executor(Box<dyn Backend>);

/// A graph and its parameters on one kind of device.
trait Backend: Send {
    fn plan(&self) -> &Plan;
    fn set(&mut self, name: &str, values: &[f32]) -> Result<()>;
    fn carry(&mut self, output: Var, name: &str) -> Result<()>;
    fn run(&mut self, step: u32) -> Result<()>;
    fn get(&self, output: Var) -> Result<Vec<f32>>;
    fn set_params(&mut self, params: &Params<f32>) -> Result<()>;
}

impl Executor {
    /// Plans `outputs` of `graph` on `device`. On the CPU everything is f32, whatever `precision` is.
    pub fn new(
        device: &Device,
        graph: &Graph,
        outputs: &[Var],
        params: &Params<f32>,
        precision: Precision,
        seed: u64,
    ) -> Result<Executor> {
        Ok(Executor(match device {
            Device::Cpu => {
                let plan = Plan::new(graph, outputs)?;
                plan.require_host_memory()?;
                let run = CpuExecutor::new(plan);
                Box::new(CpuBackend { run, params: params.clone(), seed, carried: vec![] })
            }
            Device::Cuda(session) => {
                let params = DeviceParams::new(session, params)?;
                let run = CudaExecutor::new(session, graph, outputs, &params, precision, seed)?;
                Box::new(CudaBackend { run, params })
            }
        }))
    }

    /// After each run `output` becomes the input `name` of the next, without leaving the device.
    pub fn carry(&mut self, output: Var, name: &str) -> Result<()> {
        self.0.carry(output, name)
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        self.0.plan()
    }

    /// Sets an input by name.
    pub fn set(&mut self, name: &str, values: &[f32]) -> Result<()> {
        self.0.set(name, values)
    }

    /// Runs once; `step` selects the random numbers.
    pub fn run(&mut self, step: u32) -> Result<()> {
        self.0.run(step)
    }

    /// The value of a planned output, after all runs so far.
    pub fn get(&self, output: Var) -> Result<Vec<f32>> {
        self.0.get(output)
    }

    /// Replaces the weights.
    pub fn set_params(&mut self, params: &Params<f32>) -> Result<()> {
        self.0.set_params(params)
    }
}

/// The parameters are passed to every run.
struct CpuBackend {
    run: CpuExecutor<f32>,
    params: Params<f32>,
    seed: u64,
    /// Outputs that become inputs of the next run.
    carried: Vec<(Var, String)>,
}

impl Backend for CpuBackend {
    fn plan(&self) -> &Plan {
        self.run.plan()
    }

    fn set(&mut self, name: &str, values: &[f32]) -> Result<()> {
        self.run.set(name, values)
    }

    fn carry(&mut self, output: Var, name: &str) -> Result<()> {
        self.run.plan().find_input(name, self.run.get(output)?.len())?;
        self.carried.push((output, name.into()));
        Ok(())
    }

    fn run(&mut self, step: u32) -> Result<()> {
        self.run.run(&self.params, self.seed, step)?;
        for (output, name) in &self.carried {
            let values = self.run.get(*output)?.to_vec();
            self.run.set(name, &values)?;
        }
        Ok(())
    }

    fn get(&self, output: Var) -> Result<Vec<f32>> {
        self.run.get(output).map(<[f32]>::to_vec)
    }

    fn set_params(&mut self, params: &Params<f32>) -> Result<()> {
        params.check_fits(self.params.specs())?;
        self.params.clone_from(params);
        Ok(())
    }
}

struct CudaBackend {
    run: CudaExecutor,
    params: DeviceParams,
}

impl Backend for CudaBackend {
    fn plan(&self) -> &Plan {
        self.run.plan()
    }

    fn set(&mut self, name: &str, values: &[f32]) -> Result<()> {
        self.run.set(name, values)
    }

    fn carry(&mut self, output: Var, name: &str) -> Result<()> {
        self.run.carry(output, name)
    }

    fn run(&mut self, step: u32) -> Result<()> {
        self.run.run(step)
    }

    fn get(&self, output: Var) -> Result<Vec<f32>> {
        self.run.get(output)
    }

    fn set_params(&mut self, params: &Params<f32>) -> Result<()> {
        self.params.upload(params)
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
        let mut run = Executor::new(&Device::Cpu, &g, &[y], &params, Precision::F32, 0).unwrap();
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
