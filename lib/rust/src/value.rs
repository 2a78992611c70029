// SPDX-License-Identifier: MIT
use core::cell::UnsafeCell;
use core::fmt;

use crate::sys::{self, NOT_ETCHED};
use crate::{Error, Scalar};

/// The mark by which `etch rewrite` recognizes values: `ETCH_VALUE_MARK_0` and `_1` of `etch/format.h`.
const MARK: [u64; 2] = [0x9c1f_6e35_a2d8_4b07, 0xd3b0_7a4c_e591_6f28];

/// Eight bytes, which begin with the value; the rest is 0, because narrow values are read by loads of 4 bytes.
#[repr(C)]
union Cell<T: Copy> {
    word: u64,
    value: T,
}

/// An immediate value as a type, for members of structures, and for code that should not use the macro
/// [`imv!`](crate::imv!).
///
/// ```
/// struct Config { verbose: etch::Value<bool>, limit: etch::Value<i64> }
/// static CONFIG: Config = Config { verbose: etch::Value::new(false), limit: etch::Value::new(100) };
///
/// CONFIG.limit.set(5)?;
/// assert_eq!(CONFIG.limit.get(), 5);
/// # Ok::<(), etch::Error>(())
/// ```
///
/// Reads of a `static` whose address the compiler knows become immediates (next to an instruction that takes the
/// address, which `imv!` does without). Other reads, and those of values on the heap or the stack, are relaxed atomic
/// loads, and sets of such values are stores. A `Value` takes 24 bytes, because the tool finds it by a mark.
#[repr(C)]
pub struct Value<T: Scalar> {
    cell: UnsafeCell<Cell<T>>,
    mark: [u64; 2],
}

// SAFETY: threads read and replace the value as a whole, and Scalar's contract allows that.
unsafe impl<T: Scalar> Sync for Value<T> {}
// SAFETY: the same; no reference to the value outlives the call that makes it.
unsafe impl<T: Scalar> Send for Value<T> {}

impl<T: Scalar> Value<T> {
    /// Makes a `Value` with this initial value.
    pub const fn new(value: T) -> Self {
        const {
            assert!(matches!(size_of::<T>(), 1 | 2 | 4 | 8), "an immediate value has 1, 2, 4 or 8 bytes");
            assert!(align_of::<T>() <= 8, "an immediate value is aligned to at most 8 bytes");
        }
        let mut cell = Cell { word: 0 };
        cell.value = value;
        Value { cell: UnsafeCell::new(cell), mark: MARK }
    }

    /// The value: an immediate once the site is armed, else a relaxed atomic load. May be called in signal handlers.
    #[inline(always)]
    pub fn get(&self) -> T {
        #[cfg(not(miri))]
        // SAFETY: the instruction loads the bytes of a T that new() or set() has stored.
        unsafe {
            // Eight-byte values are loaded as a pointer, so that the compiler still knows where it may point.
            if const { size_of::<T>() == 8 } {
                let word: *mut ();
                core::arch::asm!(".p2align 3,,6", "{{disp32}} mov {0}, qword ptr [{1}]", out(reg) word,
                    in(reg_abcd) &raw const *self, options(readonly, nostack, preserves_flags));
                core::mem::transmute_copy(&word)
            } else {
                let word: u32;
                core::arch::asm!(".p2align 3,,5", "{{disp32}} mov {0:e}, dword ptr [{1}]", out(reg_abcd) word,
                    in(reg_abcd) &raw const *self, options(readonly, nostack, preserves_flags));
                core::mem::transmute_copy(&word)
            }
        }
        #[cfg(miri)]
        self.get_memory()
    }

    /// Reads the value by an atomic load, as the instruction of get() does until it is armed.
    #[cfg(miri)]
    fn get_memory(&self) -> T {
        use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU8, Ordering::Relaxed};
        let at = self.cell.get();
        // SAFETY: the cell is aligned to 8 and lives as long as self; all concurrent stores to it are atomic, too.
        unsafe {
            match size_of::<T>() {
                1 => core::mem::transmute_copy(&AtomicU8::from_ptr(at.cast()).load(Relaxed)),
                2 => core::mem::transmute_copy(&AtomicU16::from_ptr(at.cast()).load(Relaxed)),
                4 => core::mem::transmute_copy(&AtomicU32::from_ptr(at.cast()).load(Relaxed)),
                _ => core::mem::transmute_copy(&AtomicPtr::<()>::from_ptr(at.cast()).load(Relaxed)),
            }
        }
    }

    /// Sets the value in memory and in every instruction that reads it, while all threads run.
    ///
    /// # Errors
    ///
    /// See [`Error`]. After an error nothing has changed. If no rewritten module has the value, `set` stores to it, which
    /// is no error.
    ///
    /// May be called in signal handlers. It waits for the sets of other threads. No handler interrupts a set, except that of a
    /// fault inside one; there it returns [`Error::Busy`].
    pub fn set(&self, value: T) -> Result<(), Error> {
        // SAFETY: the first argument is the address of a cell; at the second are as many bytes as the third says.
        match unsafe { sys::etch_set_bytes(self.cell.get().cast(), (&raw const value).cast(), size_of::<T>()) } {
            NOT_ETCHED => self.store(value),
            code => return Error::check(code),
        }
        Ok(())
    }

    fn store(&self, value: T) {
        use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU8, Ordering::SeqCst};
        let at = self.cell.get();
        // SAFETY: as in get_memory(); each arm reads as many bytes of `value` as it has.
        unsafe {
            match size_of::<T>() {
                1 => AtomicU8::from_ptr(at.cast()).store(core::mem::transmute_copy(&value), SeqCst),
                2 => AtomicU16::from_ptr(at.cast()).store(core::mem::transmute_copy(&value), SeqCst),
                4 => AtomicU32::from_ptr(at.cast()).store(core::mem::transmute_copy(&value), SeqCst),
                _ => AtomicPtr::<()>::from_ptr(at.cast()).store(core::mem::transmute_copy(&value), SeqCst),
            }
        }
    }

    /// Is the value other than 0? For [`imv_unlikely!`](crate::imv_unlikely!) and the like.
    #[doc(hidden)]
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        nonzero(self.get())
    }
    #[doc(hidden)]
    #[inline(always)]
    pub fn unlikely(&self) -> bool {
        self.is_set()
    }
    #[doc(hidden)]
    #[inline(always)]
    pub fn likely(&self) -> bool {
        self.is_set()
    }
}

/// Is any byte of the value other than 0?
#[doc(hidden)]
#[inline(always)]
pub fn nonzero<T: Scalar>(value: T) -> bool {
    let mut word = 0u64;
    // SAFETY: a Scalar is at most 8 bytes without padding.
    unsafe {
        core::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), (&raw mut word).cast(), size_of::<T>());
    }
    word != 0
}

impl<T: Scalar + fmt::Debug> fmt::Debug for Value<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_assert_eq!(self.mark, MARK);
        f.debug_tuple("Value").field(&self.get()).finish()
    }
}

impl<T: Scalar + Default> Default for Value<T> {
    fn default() -> Self {
        Value::new(T::default())
    }
}

/// Compares every armed instruction of every module with memory, and returns how many differ (0 unless something else
/// has written to a value or to code).
///
/// # Errors
///
/// See [`Error`].
pub fn verify() -> Result<usize, Error> {
    // SAFETY: without a callback there are no conditions on the arguments.
    let differ = unsafe { sys::etch_verify(None, core::ptr::null_mut()) };
    usize::try_from(differ).or_else(|_| Error::check(-differ as i32).map(|()| 0))
}
