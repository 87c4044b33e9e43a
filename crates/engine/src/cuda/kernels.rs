//! Our kernels by name; their sources are in the folder of this name.

use super::driver::{Device, Function, Module};
use super::nvrtc;
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Kernels by name.
pub(super) struct Kernels {
    device: Arc<Device>,
    /// Their compilation, until the first is asked for: it takes seconds, in which cuDNN can plan.
    compiling: Option<JoinHandle<Result<Vec<Vec<u8>>>>>,
    modules: Vec<Module>,
    functions: HashMap<String, Function>,
}

impl Kernels {
    /// Begins to compile the kernels, or takes them from the cache.
    pub fn new(device: &Arc<Device>) -> Self {
        let (device, capability) = (device.clone(), device.chip.capability);
        let compiling = Some(std::thread::spawn(move || nvrtc::cubins(capability)));
        Kernels { device, compiling, modules: Vec::new(), functions: HashMap::new() }
    }

    pub fn get(&mut self, name: &str) -> Result<Function> {
        if let Some(function) = self.functions.get(name) {
            return Ok(*function);
        }
        let defect = |problem: &str| Error::Device {
            what: format!("finding kernel {name}"),
            problem: problem.into(),
            hint: "this is a defect of softdiff".into(),
        };
        if let Some(compiling) = self.compiling.take() {
            let cubins = compiling.join().unwrap_or_else(|_| Err(defect("the compiler's thread ended")))?;
            self.modules = cubins.iter().map(|cubin| Module::load(&self.device, cubin)).collect::<Result<_>>()?;
        }
        let mut found = self.modules.iter().map(|module| module.function(name));
        let function = found.find_map(|function| function.ok()).ok_or_else(|| defect("no program has it"))?;
        self.functions.insert(name.into(), function);
        Ok(function)
    }
}
