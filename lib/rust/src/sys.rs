// SPDX-License-Identifier: MIT
//! The functions of libetch. Under Miri, which runs no foreign code, they behave as in a program that has not been
//! rewritten: they know of no module.
use core::ffi::{c_char, c_int, c_long, c_void};

use crate::backtrace::Walk;

pub(crate) type Report = extern "C" fn(*mut c_void, *const c_void, *const c_void);

/// The error of a set of a variable that no module has.
pub(crate) const NOT_ETCHED: c_int = 2;

macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $t:ty),*) -> $result:ty { $miri:expr })*) => {
        #[cfg(not(miri))]
        extern "C" {
            $(pub(crate) fn $name($($arg: $t),*) -> $result;)*
        }
        $(
            #[cfg(miri)]
            pub(crate) unsafe fn $name($(_: $t),*) -> $result {
                $miri
            }
        )*
    };
}
functions! {
    fn etch_set_bytes(object: *mut c_void, value: *const c_void, size: usize) -> c_int { NOT_ETCHED }
    fn etch_verify(report: Option<Report>, arg: *mut c_void) -> c_long { 0 }
    fn etch_strerror(error: c_int) -> *const c_char { c"an error".as_ptr() }
    fn etch_backtrace(ips: *mut *mut c_void, max: c_int) -> c_int { 0 }
    fn etch_backtrace_from_2(context: *const c_void, ips: *mut *mut c_void, max: c_int, status: *mut c_int) -> c_int { 0 }
    fn etch_backtrace_reuse_2(walk: *mut Walk, context: *const c_void, ips: *mut *mut c_void, max: c_int,
                            status: *mut c_int) -> c_int { 0 }
    fn etch_walk_reset(walk: *mut Walk) -> () { () }
    fn etch_unwind_prepare() -> c_int { 0 }
    fn etch_unwind_strerror(status: c_int) -> *const c_char { c"a status".as_ptr() }
}
