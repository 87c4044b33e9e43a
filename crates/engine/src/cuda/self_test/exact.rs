//! Graphs on the GPU against f64 on the CPU.

use super::{random, relative};
use crate::cuda::{CudaExecutor, DeviceParams, Session};
use crate::params::to_bf16;
use crate::{Graph, Params, Plan, Precision, Result, Storage, Var, cpu};
use std::sync::Arc;

/// Inputs by name and shape: vectors in full precision, all else in half.
pub(super) fn inputs(g: &mut Graph, shapes: &[(&str, Vec<usize>)]) -> Result<Vec<Var>> {
    let mut vars = Vec::new();
    for (name, shape) in shapes {
        let var = g.input(name, &shape[..])?;
        vars.push(g.cast(var, if shape.len() > 1 { Storage::Half } else { Storage::Full })?);
    }
    Ok(vars)
}

/// Random numbers for an input: those that bf16 holds if it is used, so that only results are rounded.
pub(super) fn values(g: &Graph, input: Var, purpose: usize, precision: Precision) -> Vec<f32> {
    let round = |v: f32| f32::from_bits(u32::from(to_bf16(v)) << 16);
    let values = random(g.shape(input), purpose as u32, -1.0).into_iter();
    values.map(|v| if precision == Precision::Bf16 { round(v) } else { v }).collect()
}

/// The worst relative error of the outputs, eagerly and as a graph.
pub(super) fn error(session: &Arc<Session>, g: &Graph, outputs: &[Var], precision: Precision) -> Result<f64> {
    let mut host = cpu::CpuExecutor::<f64>::new(Plan::new(g, outputs)?);
    let on_device = DeviceParams::new(session, &Params::<f32>::zeros(g))?;
    let mut device = CudaExecutor::new(session, g, outputs, &on_device, precision, 0)?;
    for (purpose, (name, input)) in host.plan().inputs().to_vec().into_iter().enumerate() {
        let values = values(g, input, purpose, precision);
        host.set(&name, &values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>())?;
        device.set(&name, &values)?;
    }
    host.run(&Params::<f64>::zeros(g), 0, 0)?;
    let mut worst: f64 = 0.0;
    for _ in 0..2 {
        device.run(0)?;
        for &var in outputs {
            let exact: Vec<f32> = host.get(var)?.iter().map(|&v| v as f32).collect();
            worst = worst.max(relative(&device.get(var)?, &exact));
        }
    }
    Ok(worst)
}
