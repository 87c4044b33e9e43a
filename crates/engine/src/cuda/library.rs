//! Loading NVIDIA's libraries at run time: a missing one is an error with a hint, never a crash.
#![allow(unsafe_code)]

#[cfg(unix)]
use super::python_packages;
use crate::error::{Error, Result};
use std::ffi::c_void;
#[cfg(unix)]
use std::ffi::{CStr, CString, c_char, c_int};

// SAFETY: the declarations of dlfcn.h.
#[cfg(unix)]
unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

/// A loaded library; it stays loaded for the life of the process.
pub struct SharedLibrary {
    #[cfg_attr(not(unix), allow(dead_code))]
    handle: *mut c_void,
    /// The name under which it was found.
    pub name: String,
    /// What to do where it is too old.
    #[cfg_attr(not(unix), allow(dead_code))]
    hint: String,
}

// SAFETY: the handle is only ever given to `dlsym`, which may be called from any thread.
unsafe impl Send for SharedLibrary {}
// SAFETY: as above.
unsafe impl Sync for SharedLibrary {}

impl SharedLibrary {
    /// Opens the first of `candidates` that can be loaded, by the system or from Python packages. `variable` may name a file that
    /// is tried first.
    #[cfg(unix)]
    pub fn open(what: &'static str, variable: &str, candidates: &[&str], hint: &str) -> Result<SharedLibrary> {
        const NOW_GLOBAL: c_int = 0x2 | 0x100;
        let chosen = std::env::var(variable).ok();
        let mut reason = String::new();
        let packages = python_packages::files(candidates);
        let named = chosen.iter().map(String::as_str).chain(candidates.iter().copied());
        for name in named.chain(packages.iter().map(String::as_str)) {
            let Ok(c_name) = CString::new(name) else { continue };
            // SAFETY: a NUL-terminated name and valid flags.
            let handle = unsafe { dlopen(c_name.as_ptr(), NOW_GLOBAL) };
            if !handle.is_null() {
                return Ok(SharedLibrary { handle, name: name.into(), hint: hint.into() });
            }
            // SAFETY: after a failed `dlopen`, `dlerror` gives null or a NUL-terminated message.
            let message = unsafe {
                let message = dlerror();
                if message.is_null() { String::new() } else { CStr::from_ptr(message).to_string_lossy().into_owned() }
            };
            if reason.is_empty() {
                reason = message;
            }
        }
        Err(Error::Device { what: format!("{what} could not be loaded"), problem: reason, hint: hint.into() })
    }

    /// There is no CUDA here.
    #[cfg(not(unix))]
    pub fn open(what: &'static str, _: &str, _: &[&str], hint: &str) -> Result<SharedLibrary> {
        let problem = "only Linux is supported".into();
        Err(Error::Device { what: format!("{what} could not be loaded"), problem, hint: hint.into() })
    }

    /// The function `name`.
    ///
    /// # Safety
    /// `F` must be the function's true type.
    pub unsafe fn function<F: Copy>(&self, name: &'static str) -> Result<F> {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        #[cfg(unix)]
        {
            let missing = || Error::Device {
                what: format!("{} has no function {name}", self.name),
                problem: "the library is too old".into(),
                hint: self.hint.clone(),
            };
            let c_name = CString::new(name).map_err(|_| missing())?;
            // SAFETY: a live handle and a NUL-terminated name.
            let address = unsafe { dlsym(self.handle, c_name.as_ptr()) };
            if address.is_null() {
                return Err(missing());
            }
            // SAFETY: a function pointer has the size of a data pointer (asserted), and the caller vouches for its type.
            Ok(unsafe { std::mem::transmute_copy(&address) })
        }
        #[cfg(not(unix))]
        unreachable!("no library opens here: {name}")
    }
}

/// A C function's type: the sizes of its result and its arguments.
pub(crate) trait CFunction: Copy {
    const SIZES: &'static [usize];
}

macro_rules! c_function {
    ($($argument:ident)*) => {
        impl<R, $($argument),*> CFunction for unsafe fn($($argument),*) -> R {
            const SIZES: &'static [usize] = &[size_of::<R>(), $(size_of::<$argument>()),*];
        }
        impl<R, $($argument),*> CFunction for unsafe extern "C" fn($($argument),*) -> R {
            const SIZES: &'static [usize] = &[size_of::<R>(), $(size_of::<$argument>()),*];
        }
    };
}
c_function!();
c_function!(A);
c_function!(A B);
c_function!(A B C);
c_function!(A B C D);
c_function!(A B C D E);
c_function!(A B C D E F);
c_function!(A B C D E F G);
c_function!(A B C D E F G H I J K L M N O P Q S T U);
c_function!(A B C D E F G H I J K L M N O P Q S T U V W X);

/// Whether our declaration of a function has as many arguments as NVIDIA's header, and each of the same size.
pub(crate) const fn same_layout<Ours: CFunction, Theirs: CFunction>(_: Theirs) -> bool {
    let (ours, theirs) = (Ours::SIZES, Theirs::SIZES);
    let mut same = ours.len() == theirs.len();
    let mut i = 0;
    while same && i < ours.len() {
        same = ours[i] == theirs[i];
        i += 1;
    }
    same
}

/// Declares a table of C functions that return a status, loaded once.
///
/// The declarations are compared with those that cudarc generates from NVIDIA's headers (`$sys`). Its functions are not
/// called: they panic where a library or a function is missing, look for libraries in their own order, and take a status
/// that a newer library has added for one of a Rust enum.
macro_rules! library {
    ($(#[$meta:meta])* $table:ident, $sys:ident, $what:literal, $variable:literal, $names:expr, $hint:literal,
     { $($function:ident: $symbol:ident ($($argument:ty),* $(,)?) $(-> $result:ty)?;)* }) => {
        $(#[$meta])*
        #[allow(missing_docs)]
        pub struct $table {
            pub library: $crate::cuda::library::SharedLibrary,
            $(pub $function: unsafe extern "C" fn($($argument),*) -> library!(@result $($result)?),)*
        }

        $(const _: () = assert!(
            $crate::cuda::library::same_layout::<unsafe extern "C" fn($($argument),*) -> library!(@result $($result)?), _>(
                $sys::$symbol as unsafe fn($(library!(@any $argument)),*) -> _
            ),
            concat!(stringify!($symbol), " is not declared as in NVIDIA's header")
        );)*

        impl $table {
            /// The functions, loaded on first use.
            #[allow(unsafe_code)]
            pub fn get() -> $crate::error::Result<&'static $table> {
                static TABLE: std::sync::OnceLock<$crate::error::Result<$table>> = std::sync::OnceLock::new();
                let load = || {
                    let library = $crate::cuda::library::SharedLibrary::open($what, $variable, $names, $hint)?;
                    // SAFETY: the types are those of the library's headers.
                    Ok(unsafe { $table { $($function: library.function(stringify!($symbol))?,)* library } })
                };
                TABLE.get_or_init(load).as_ref().map_err(Clone::clone)
            }
        }
    };
    (@result) => { i32 };
    (@result $result:ty) => { $result };
    (@any $argument:ty) => { _ };
}
pub(crate) use library;
