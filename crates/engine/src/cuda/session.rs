//! A GPU with its libraries and kernels.

use super::cublas::Cublas;
use super::cudnn::Cudnn;
use super::driver::CudaDevice;
use super::kernels::Kernels;
use super::nvrtc;
use crate::error::Result;
use std::sync::{Arc, Mutex};

/// A device with its libraries and kernels, shared by the executors on it.
pub struct Session {
    /// The GPU.
    pub device: Arc<CudaDevice>,
    pub(super) libraries: Mutex<Libraries>,
}

pub(super) struct Libraries {
    pub cudnn: Cudnn,
    /// For the first stream and for the second.
    pub cublas: [Cublas; 2],
    pub kernels: Kernels,
}

impl Session {
    /// Opens GPU number `ordinal` with its libraries, and begins to compile the kernels or to take them from the cache.
    pub fn open(ordinal: usize) -> Result<Arc<Session>> {
        let device = CudaDevice::open(ordinal)?;
        // A compiler that cannot work is reported here; the kernels are compiled in the background.
        nvrtc::check(device.chip.capability)?;
        let kernels = Kernels::new(&device);
        let cublas = [Cublas::new(&device, device.stream)?, Cublas::new(&device, device.side)?];
        let libraries = Libraries { cudnn: Cudnn::new(&device)?, cublas, kernels };
        Ok(Arc::new(Session { device, libraries: Mutex::new(libraries) }))
    }

    /// Versions of what was loaded: cuDNN, cuBLAS.
    pub fn versions(&self) -> (i32, i32) {
        let libraries = self.lock();
        (libraries.cudnn.version(), libraries.cublas[0].version())
    }

    /// The files the libraries were loaded from.
    pub fn loaded(&self) -> Vec<&'static str> {
        let names = [
            super::driver::Driver::get().map(|t| &t.library),
            nvrtc::Nvrtc::get().map(|t| &t.library),
            super::cublas::CublasFunctions::get().map(|t| &t.library),
            super::cudnn::CudnnFunctions::get().map(|t| &t.library),
        ];
        names.into_iter().flatten().map(|library| library.name.as_str()).collect()
    }

    /// The engines of the convolutions that were planned so far, one in a line.
    pub(crate) fn engines(&self) -> String {
        self.lock().cudnn.engines()
    }

    /// From now on convolutions have these engines, as another process has listed them.
    pub(crate) fn adopt_engines(&self, engines: &str) {
        self.lock().cudnn.adopt(engines);
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Libraries> {
        // Nothing here is left inconsistent by a panic elsewhere.
        self.libraries.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
