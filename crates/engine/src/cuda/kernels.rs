//! Our kernels by name; their sources are in the folder of this name.

use super::arguments::*;
use super::driver::{CudaDevice, CudaFunction, Launch, Module};
use super::nvrtc;
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

/// How a kernel reads and writes tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ElementType {
    F32,
    Bf16,
}

impl ElementType {
    pub fn bytes(self) -> usize {
        if self == ElementType::Bf16 { 2 } else { 4 }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == ElementType::Bf16 { "bf16" } else { "float" })
    }
}

/// What rows are copied in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CopyUnit {
    U16,
    U32,
    Sixteen,
}

impl fmt::Display for CopyUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyUnit::U16 => "u16",
            CopyUnit::U32 => "u32",
            CopyUnit::Sixteen => "uint4",
        })
    }
}

/// How group norm in one pass is compiled: for packs of eight values per thread, and for one slice of channels or any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OnePassVariant {
    pub packs: usize,
    pub slice: Option<usize>,
}

impl fmt::Display for OnePassVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.slice {
            Some(slice) => write!(f, "{}x{slice}", self.packs),
            None => write!(f, "{}", self.packs),
        }
    }
}

/// Declares the kernels: the variants, the name of each in the sources, and the struct of its parameters.
macro_rules! kernel_names {
    ($($(#[$meta:meta])* $variant:ident $({ $($field:ident: $type:ty),* })? = $name:literal, $arguments:ident;)*) => {
        /// A kernel of ours. `pack` is how many elements a thread takes at a time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(super) enum KernelName {
            $($(#[$meta])* $variant $({ $($field: $type),* })?),*
        }

        impl KernelName {
            /// Its name in the sources.
            fn symbol(self) -> String {
                match self {
                    $(KernelName::$variant $({ $($field),* })? => format!($name)),*
                }
            }

            /// The struct of its parameters.
            pub fn arguments(self) -> &'static str {
                match self {
                    $(KernelName::$variant $({ $($field: _),* })? => $arguments::NAME),*
                }
            }

            /// Offset and size of each parameter.
            #[cfg(test)]
            fn parameters(self) -> Vec<Parameter> {
                match self {
                    $(KernelName::$variant $({ $($field: _),* })? => $arguments::parameters()),*
                }
            }
        }
    };
}

kernel_names! {
    Combine { element: ElementType, pack: usize } = "combine_{element}_{pack}", CombineArgs;
    CombineAll { element: ElementType, pack: usize } = "combine_all_{element}_{pack}", CombineAllArgs;
    CombineMany { pack: usize } = "combine_float_{pack}_many", TableArgs;
    Binary { a: ElementType, b: ElementType, pack: usize } = "binary_{a}_{b}_{pack}", BinaryArgs;
    BinaryMany = "binary_float_float_8_many", TableArgs;
    Unary { element: ElementType } = "unary_{element}", UnaryArgs;
    UnaryGradient { element: ElementType } = "unary_gradient_{element}", UnaryGradientArgs;
    Cast { from: ElementType, to: ElementType, pack: usize } = "cast_{from}_{to}_{pack}", CastArgs;
    CopyRows { unit: CopyUnit } = "copy_rows_{unit}", CopyRowsArgs;
    JoinRows { unit: CopyUnit } = "join_rows_{unit}", JoinRowsArgs;
    Expand { element: ElementType } = "expand_{element}", ExpandArgs;
    Dropout { element: ElementType, pack: usize } = "dropout_{element}_{pack}", DropoutArgs;
    Random = "random_float", RandomArgs;
    ConvEpilogue { element: ElementType, pack: usize } = "epilogue_{element}_{pack}", ConvEpilogueArgs;
    FirUp { pack: usize } = "fir_up_{pack}", FirArgs;
    FirSmooth { pack: usize } = "fir_smooth_{pack}", FirArgs;
    FirDown { pack: usize } = "fir_down_{pack}", FirArgs;
    Resample { element: ElementType, pack: usize } = "resample_{element}_{pack}", ResampleArgs;
    MaxPool { element: ElementType } = "max_pool_{element}", MaxPoolArgs;
    MaxPoolGradient { element: ElementType } = "max_pool_gradient_{element}", MaxPoolGradientArgs;
    Softmax { element: ElementType } = "softmax_{element}", SoftmaxArgs;
    SoftmaxGradient { element: ElementType } = "softmax_gradient_{element}", SoftmaxGradientArgs;
    Interpolate = "interpolate", InterpolateArgs;
    InterpolateSlope = "interpolate_slope", InterpolateSlopeArgs;
    InterpolateTableGradient = "interpolate_table_gradient", InterpolateTableGradientArgs;
    SumMiddle { element: ElementType } = "sum_middle_{element}", SumMiddleArgs;
    SumMiddleWide { element: ElementType } = "sum_middle_wide_{element}", SumMiddleArgs;
    SumMiddleWideMany = "sum_middle_wide_float_many", TableArgs;
    SumRows { element: ElementType } = "sum_rows_{element}", SumRowsArgs;
    NormImageSums = "norm_image_sums", NormImageSumsArgs;
    NormImageSumsMany = "norm_image_sums_many", TableArgs;
    SmallProducts { element: ElementType } = "small_products_{element}", SmallProductsArgs;
    GroupNorm { element: ElementType, kept: usize } = "group_norm_{element}_{kept}", GroupNormArgs;
    GroupNormGradient { element: ElementType, kept: usize } = "group_norm_gradient_{element}_{kept}", GroupNormGradientArgs;
    GroupNormAny { element: ElementType } = "group_norm_any_{element}", GroupNormAnyArgs;
    GroupNormGradientAny { element: ElementType } = "group_norm_gradient_any_{element}", GroupNormGradientAnyArgs;
    GroupNormSums = "group_norm_sums_bf16", GroupNormSumsArgs;
    GroupNormApply = "group_norm_apply_bf16", GroupNormApplyArgs;
    GroupNormGradientSums = "group_norm_gradient_sums_bf16", GroupNormGradientSumsArgs;
    GroupNormGradientApply = "group_norm_gradient_apply_bf16", GroupNormGradientApplyArgs;
    GroupNormOnePass { variant: OnePassVariant } = "group_norm_one_pass_{variant}", GroupNormOnePassArgs;
    GroupNormOnePassGradient { addends: usize, variant: OnePassVariant } =
        "group_norm_one_pass_gradient_{addends}_{variant}", GroupNormOnePassGradientArgs;
    Attention { rows: usize, width: usize, channels: usize } = "attention_{rows}_{width}_{channels}", AttentionArgs;
    AttentionGradient { rows: usize, width: usize, channels: usize } =
        "attention_gradient_{rows}_{width}_{channels}", AttentionGradientArgs;
    RgbConvToWide = "rgb_conv_to_wide", RgbConvToWideArgs;
    RgbConvFromWide = "rgb_conv_from_wide", RgbConvFromWideArgs;
    RgbConvWeightSums = "rgb_conv_weight_sums", RgbConvWeightSumsArgs;
    RgbConvWeights = "rgb_conv_weights", RgbConvWeightsArgs;
    F16x2Weights = "f16x2_weights", F16x2WeightsArgs;
    ConvF16x2 { eights: usize } = "conv_f16x2_{eights}", ConvF16x2Args;
    ShareAdd = "share_add", ShareAddArgs;
    RowsSum = "rows_sum", RowsSumArgs;
    GradientSquares = "gradient_squares", GradientSquaresArgs;
    GradientNorm = "gradient_norm", GradientNormArgs;
    Adam = "adam", AdamArgs;
    RecordStep = "record_step", RecordStepArgs;
    CarryF32 = "carry_f32", CarryArgs;
    CarryBf16 = "carry_bf16", CarryArgs;
    GatherImages = "gather_images", GatherImagesArgs;
    TakeImages = "take_images", TakeImagesArgs;
}

impl KernelName {
    /// The form for batched launches, which reads the arguments of each from a table.
    pub fn many(self) -> Option<KernelName> {
        use ElementType::F32;
        match self {
            KernelName::Binary { a: F32, b: F32, pack: 8 } => Some(KernelName::BinaryMany),
            KernelName::Combine { element: F32, pack } => Some(KernelName::CombineMany { pack }),
            KernelName::SumMiddleWide { element: F32 } => Some(KernelName::SumMiddleWideMany),
            KernelName::NormImageSums => Some(KernelName::NormImageSumsMany),
            _ => None,
        }
    }
}

/// The compiled kernels.
pub(super) struct Kernels {
    device: Arc<CudaDevice>,
    /// Their compilation, until the first is asked for: it takes seconds, during which cuDNN plans.
    compiling: Option<JoinHandle<Result<Vec<Vec<u8>>>>>,
    modules: Vec<Module>,
    functions: HashMap<KernelName, CudaFunction>,
}

impl Kernels {
    /// Begins to compile the kernels, or takes them from the cache.
    pub fn new(device: &Arc<CudaDevice>) -> Self {
        let (device, capability) = (device.clone(), device.chip.capability);
        let compiling = Some(std::thread::spawn(move || nvrtc::cubins(capability)));
        Kernels { device, compiling, modules: Vec::new(), functions: HashMap::new() }
    }

    /// A launch without shared memory and clusters.
    pub fn launch<A: Arguments>(
        &mut self,
        kernel: KernelName,
        grid: [usize; 3],
        block: [usize; 3],
        arguments: &A,
    ) -> Result<Launch> {
        assert_eq!(kernel.arguments(), A::NAME, "the arguments of {kernel:?}");
        let [grid, block] = [grid, block].map(|sizes| sizes.map(|size| size as u32));
        let (function, arguments) = (self.get(kernel)?, arguments.words());
        Ok(Launch { kernel, function, grid, block, shared: 0, cluster: 1, arguments })
    }

    fn get(&mut self, name: KernelName) -> Result<CudaFunction> {
        if let Some(function) = self.functions.get(&name) {
            return Ok(*function);
        }
        let defect = |problem: &str| Error::Device {
            what: format!("finding kernel {}", name.symbol()),
            problem: problem.into(),
            hint: "this is a defect of softdiff".into(),
        };
        if let Some(compiling) = self.compiling.take() {
            let cubins = compiling.join().unwrap_or_else(|_| Err(defect("the compiler's thread ended")))?;
            self.modules = cubins.iter().map(|cubin| Module::load(&self.device, cubin)).collect::<Result<_>>()?;
        }
        let mut found = self.modules.iter().map(|module| module.function(&name.symbol()));
        let function = found.find_map(|function| function.ok()).ok_or_else(|| defect("no program has it"))?;
        self.functions.insert(name, function);
        Ok(function)
    }
}

impl Drop for Kernels {
    /// Waits for NVRTC: a process that exits while it compiles crashes.
    fn drop(&mut self) {
        if let Some(compiling) = self.compiling.take() {
            compiling.join().ok();
        }
    }
}

#[cfg(test)]
mod tests;
