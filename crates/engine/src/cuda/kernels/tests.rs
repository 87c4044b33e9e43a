use super::*;
use std::collections::BTreeMap;

/// Every kernel that a launch can name.
fn all() -> Vec<KernelName> {
    use ElementType::{Bf16, F32};
    use KernelName::*;
    let mut all = vec![
        BinaryMany,
        Random,
        Interpolate,
        InterpolateSlope,
        InterpolateTableGradient,
        SumMiddleWideMany,
        NormImageSums,
        NormImageSumsMany,
        GroupNormSums,
        GroupNormApply,
        GroupNormGradientSums,
        GroupNormGradientApply,
        RgbConvToWide,
        RgbConvFromWide,
        RgbConvWeightSums,
        RgbConvWeights,
        F16x2Weights,
        ShareAdd,
        RowsSum,
        GradientSquares,
        GradientNorm,
        Adam,
        RecordStep,
        CarryF32,
        CarryBf16,
        GatherImages,
        TakeImages,
        Cast { from: F32, to: Bf16, pack: 1 },
        Cast { from: F32, to: Bf16, pack: 8 },
        Cast { from: Bf16, to: F32, pack: 1 },
        Cast { from: Bf16, to: F32, pack: 8 },
    ];
    for element in [F32, Bf16] {
        all.extend([Unary { element }, UnaryGradient { element }, Expand { element }]);
        all.extend([
            MaxPool { element },
            MaxPoolGradient { element },
            Softmax { element },
            SoftmaxGradient { element },
        ]);
        all.extend([SumMiddle { element }, SumMiddleWide { element }, SumRows { element }, SmallProducts { element }]);
        all.extend([GroupNormAny { element }, GroupNormGradientAny { element }]);
        for pack in [1, 8] {
            all.extend([Combine { element, pack }, CombineAll { element, pack }, Dropout { element, pack }]);
            all.extend([ConvEpilogue { element, pack }, Resample { element, pack }]);
            all.extend([F32, Bf16].map(|b| Binary { a: element, b, pack }));
        }
    }
    all.extend(
        [(F32, 1), (F32, 4), (Bf16, 1), (Bf16, 4), (Bf16, 8)].map(|(element, kept)| GroupNorm { element, kept }),
    );
    all.extend([(F32, 1), (Bf16, 1), (Bf16, 4)].map(|(element, kept)| GroupNormGradient { element, kept }));
    for pack in [1, 8] {
        all.extend([CombineMany { pack }, FirUp { pack }, FirSmooth { pack }, FirDown { pack }]);
    }
    all.extend([CopyUnit::U16, CopyUnit::U32, CopyUnit::Sixteen].map(|unit| CopyRows { unit }));
    all.extend([CopyUnit::U16, CopyUnit::U32, CopyUnit::Sixteen].map(|unit| JoinRows { unit }));
    for packs in [1, 2, 4, 8] {
        let variant = OnePassVariant { packs, slice: None };
        all.push(GroupNormOnePass { variant });
        all.extend([0, 3].map(|addends| GroupNormOnePassGradient { addends, variant }));
    }
    for (packs, slice) in super::super::lower::KNOWN {
        let variant = OnePassVariant { packs, slice: Some(slice) };
        all.push(GroupNormOnePass { variant });
        all.extend([0, 1, 2].map(|addends| GroupNormOnePassGradient { addends, variant }));
    }
    for channels in [64, 128, 256] {
        for (rows, width) in [(64, 64), (64, 256), (128, 256)] {
            all.extend([Attention { rows, width, channels }, AttentionGradient { rows, width, channels }]);
        }
    }
    all.extend(super::super::lower::FILTERS.map(|filters| ConvF16x2 { eights: filters / 8 }));
    all
}

/// The kernels of a compiled program, and offset and size of their parameters: `.nv.info` sections of an ELF file.
fn parameters(cubin: &[u8]) -> BTreeMap<String, Vec<Parameter>> {
    const PARAMETER: u8 = 0x17;
    let word =
        |at: usize, bytes: usize| (0..bytes).rev().fold(0usize, |word, i| word << 8 | usize::from(cubin[at + i]));
    let (sections, size, count, names) = (word(40, 8), word(58, 2), word(60, 2), word(62, 2));
    let offset = |section: usize| word(sections + section * size + 24, 8);
    let mut kernels = BTreeMap::new();
    for section in 0..count {
        let name = offset(names) + word(sections + section * size, 4);
        let name = cubin[name..].split(|&byte| byte == 0).next().expect("a name ends");
        let Some(kernel) = std::str::from_utf8(name).expect("an ASCII name").strip_prefix(".nv.info.") else {
            continue;
        };
        let mut found = Vec::new();
        let (mut at, end) = (offset(section), offset(section) + word(sections + section * size + 32, 8));
        // Attributes: format, name, and two bytes that are the value or its length.
        while at < end {
            let (format, attribute, length) = (cubin[at], cubin[at + 1], word(at + 2, 2));
            at += 4;
            if format == 4 {
                if attribute == PARAMETER {
                    // Index, ordinal, offset, and the size in the upper bits of flags.
                    found.push((word(at + 4, 2), (word(at + 6, 2), word(at + 8, 4) >> 18)));
                }
                at += length;
            }
        }
        found.sort_unstable();
        kernels.insert(kernel.to_string(), found.into_iter().map(|(_, parameter)| parameter).collect());
    }
    kernels
}

#[test]
fn every_kernel_takes_the_parameters_that_the_host_passes() {
    let cubins = match nvrtc::cubins((9, 0)) {
        Ok(cubins) => cubins,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    let compiled: BTreeMap<String, Vec<Parameter>> = cubins.iter().flat_map(|cubin| parameters(cubin)).collect();
    let named: BTreeMap<String, Vec<Parameter>> =
        all().into_iter().map(|kernel| (kernel.symbol(), kernel.parameters())).collect();
    for (name, parameters) in &named {
        assert_eq!(compiled.get(name), Some(parameters), "{name}");
    }
    assert_eq!(compiled.keys().collect::<Vec<_>>(), named.keys().collect::<Vec<_>>());
}

#[test]
fn no_two_kernels_share_a_name() {
    let mut names: Vec<String> = all().into_iter().map(KernelName::symbol).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn rows_of_tables_are_as_long_as_the_kernels_read_and_hold_every_argument() {
    assert!(include_str!("common.cuh").contains(&format!("blockIdx.z * {ROW})")));
    for kernel in all().into_iter().filter(|kernel| kernel.many().is_some()) {
        assert!(kernel.parameters().len() <= ROW, "{kernel:?}");
    }
}
