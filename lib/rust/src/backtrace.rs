// SPDX-License-Identifier: MIT
use core::ffi::c_void;
use core::fmt;

use crate::sys;

/// How a walk ended: `enum etch_unwind_status` of `etch/unwind.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(i32);

/// `ETCH_UNWIND_ASSUMED`.
const ASSUMED: i32 = 256;

impl Status {
    /// The last frame is the outermost one.
    pub fn complete(self) -> bool {
        self.0 > 0
    }
    /// The number of `enum etch_unwind_status`.
    pub fn code(self) -> i32 {
        self.0 % ASSUMED
    }
    /// A function was called through a null or wild pointer, and its caller is assumed from the word at rsp.
    pub fn assumed(self) -> bool {
        self.0 / ASSUMED != 0
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the function takes any number, and returns a NUL-terminated string in static storage.
        let text = unsafe { core::ffi::CStr::from_ptr(sys::etch_unwind_strerror(self.0)) };
        f.write_str(text.to_str().unwrap_or("?"))
    }
}

fn max(ips: &[*mut c_void]) -> i32 {
    i32::try_from(ips.len()).unwrap_or(i32::MAX)
}

/// The return addresses of the calling thread's stack, innermost first: the first is in the function that calls this.
/// To look up names and lines, take 1 from each.
///
/// Walks by the tables that `etch rewrite` adds to a program, with or without `panic=abort`; [`prepare`] makes tables
/// for libraries that have none. Allocates nothing, takes no lock, and may be called in signal handlers.
///
/// ```
/// let mut ips = [core::ptr::null_mut(); 64];
/// etch::prepare();
/// for ip in etch::backtrace(&mut ips) {
///     println!("{ip:p}");
/// }
/// ```
#[inline(always)]
pub fn backtrace(ips: &mut [*mut c_void]) -> &[*mut c_void] {
    // SAFETY: the slice has as many entries as the call is told.
    let count = unsafe { sys::etch_backtrace(ips.as_mut_ptr(), max(ips)) };
    &ips[..count as usize]
}

/// Does what [`backtrace`] does from a signal handler's third argument, a `ucontext_t`: the first address is the
/// interrupted instruction, and the handler's own frames are left out.
///
/// # Safety
///
/// `context` must be the pointer that the kernel has passed to the handler, or null, which stands for the calling
/// function's own stack.
#[inline(always)]
pub unsafe fn backtrace_from(context: *const c_void, ips: &mut [*mut c_void]) -> (&[*mut c_void], Status) {
    let mut status = 0;
    // SAFETY: the slice has as many entries as the call is told; the caller vouches for `context`.
    let count = unsafe { sys::etch_backtrace_from_2(context, ips.as_mut_ptr(), max(ips), &mut status) };
    (&ips[..count as usize], Status(status))
}

/// The frames of a thread's last walk, which speed up the next one (`struct etch_walk`): for samplers and allocators
/// that walk often. 33 KB; one per thread.
#[repr(C, align(8))]
pub struct Walk([u64; 4103]);

impl Walk {
    /// Makes a `Walk` that knows no frames.
    pub const fn new() -> Self {
        Walk([0; 4103])
    }

    /// Does what [`backtrace`] does, with the help of the frames of the last walk.
    #[inline(always)]
    pub fn backtrace<'a>(&mut self, ips: &'a mut [*mut c_void]) -> (&'a [*mut c_void], Status) {
        let mut status = 0;
        // SAFETY: the slice has as many entries as the call is told; the walk is zero or was filled in by the last call.
        let count =
            unsafe { sys::etch_backtrace_reuse_2(self, core::ptr::null(), ips.as_mut_ptr(), max(ips), &mut status) };
        (&ips[..count as usize], Status(status))
    }

    /// Forgets the frames. Call it after a `dlclose` that may have replaced code at an address that was on the stack.
    pub fn reset(&mut self) {
        // SAFETY: the walk is zero or was filled in by the last call.
        unsafe { sys::etch_walk_reset(self) }
    }
}

impl Default for Walk {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes tables for the loaded libraries that have none, from their `.eh_frame`. Call it at start, and after `dlopen`.
/// Returns how many libraries still have none. Any thread may call it, but not in signal handlers.
pub fn prepare() -> usize {
    // SAFETY: the function has no preconditions.
    let left = unsafe { sys::etch_unwind_prepare() };
    usize::try_from(left).unwrap_or(0)
}
