//! Choosing the instruction set at run time.

use std::sync::OnceLock;

/// The vector instructions of this machine that the kernels know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// 512-bit vectors, 32 registers.
    Avx512,
    /// 256-bit vectors with fused multiply-add.
    Avx2,
    /// Whatever the compiler's target has.
    Portable,
}

/// The best instruction set found; asked once.
///
/// `SOFTDIFF_ISA=avx2` or `portable` chooses a lesser one, to measure or to reproduce another machine.
pub fn isa() -> Isa {
    static FOUND: OnceLock<Isa> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let chosen = std::env::var("SOFTDIFF_ISA").unwrap_or_default();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq");
            if avx512 && chosen != "avx2" && chosen != "portable" {
                return Isa::Avx512;
            }
            if avx2 && chosen != "portable" {
                return Isa::Avx2;
            }
        }
        let _ = chosen;
        Isa::Portable
    })
}

/// Compiles a function once per instruction set and calls the best: plain loops, vectorised by the compiler.
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<T: Scalar>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $crate::cpu::simd::vectorized!(@each [$(#[$meta])*] [$vis] $name [<T: Scalar>] [::<T>]
            [$($arg: $ty),*] [$($arg),*] [$($ret)?] $body);
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $crate::cpu::simd::vectorized!(@each [$(#[$meta])*] [$vis] $name [] []
            [$($arg: $ty),*] [$($arg),*] [$($ret)?] $body);
    };
    (@each [$($meta:tt)*] [$vis:vis] $name:ident [$($generics:tt)*] [$($turbofish:tt)*]
        [$($arg:ident: $ty:ty),*] [$($pass:ident),*] [$($ret:ty)?] $body:block) => {
        $($meta)*
        #[allow(unsafe_code, clippy::too_many_arguments)]
        $vis fn $name $($generics)* ($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body $($generics)* ($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
                fn avx512 $($generics)* ($($arg: $ty),*) $(-> $ret)? { body $($turbofish)* ($($pass),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2 $($generics)* ($($arg: $ty),*) $(-> $ret)? { body $($turbofish)* ($($pass),*) }
                match $crate::cpu::simd::isa() {
                    // SAFETY: `isa` found the features that the function is compiled for.
                    $crate::cpu::simd::Isa::Avx512 => return unsafe { avx512 $($turbofish)* ($($pass),*) },
                    // SAFETY: as above.
                    $crate::cpu::simd::Isa::Avx2 => return unsafe { avx2 $($turbofish)* ($($pass),*) },
                    $crate::cpu::simd::Isa::Portable => {}
                }
            }
            body $($turbofish)* ($($pass),*)
        }
    };
}
pub(crate) use vectorized;
