// SPDX-License-Identifier: MIT
use core::fmt;

use crate::sys;

/// Why a value was not set: `enum etch_error` of `etch/imv.h`. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// A site holds a debugger's or a uprobe's breakpoint.
    Busy,
    /// A site holds bytes that neither etch nor the compiler wrote.
    Code,
    /// The system refuses to change the protection of text or data (`PR_SET_MDWE`, SELinux, seccomp).
    Permission,
    /// membarrier(2) cannot synchronize the other threads.
    NoSync,
    /// Out of memory, or out of mappings.
    NoMemory,
    /// A table of a loaded module is malformed or of another version.
    Format,
    /// A site can only be changed while the process has one thread.
    Threads,
    /// Any other code of libetch.
    Other(i32),
}

impl Error {
    /// Converts a code of libetch; 0 becomes `Ok`.
    pub(crate) fn check(code: i32) -> Result<(), Error> {
        Err(match code {
            0 => return Ok(()),
            3 => Error::Busy,
            4 => Error::Code,
            5 => Error::Permission,
            6 => Error::NoSync,
            7 => Error::NoMemory,
            8 => Error::Format,
            9 => Error::Threads,
            other => Error::Other(other),
        })
    }

    /// The number of `enum etch_error`.
    pub fn code(self) -> i32 {
        match self {
            Error::Busy => 3,
            Error::Code => 4,
            Error::Permission => 5,
            Error::NoSync => 6,
            Error::NoMemory => 7,
            Error::Format => 8,
            Error::Threads => 9,
            Error::Other(code) => code,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the function takes any number, and returns a NUL-terminated string in static storage.
        let text = unsafe { core::ffi::CStr::from_ptr(sys::etch_strerror(self.code())) };
        f.write_str(text.to_str().unwrap_or("etch error"))
    }
}

impl core::error::Error for Error {}
