// SPDX-License-Identifier: MIT

/// Declares immediate values: `imv! { pub static VERBOSE: bool = false; }`.
///
/// Each is a static that dereferences to a [`Value`](crate::Value). It has a type of its own with the same name, so that
/// `VERBOSE.get()` is one instruction: a load of the variable, which `etch rewrite` makes an immediate.
///
/// The type must be a [`Scalar`](crate::Scalar), and the initial value a constant expression.
#[macro_export]
macro_rules! imv {
    ($($(#[$attr:meta])* $vis:vis static $name:ident : $t:ty = $init:expr;)*) => { $(
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #[repr(transparent)]
        $vis struct $name {
            value: $crate::Value<$t>,
        }

        $(#[$attr])*
        $vis static $name: $name = $name { value: $crate::Value::new($init) };

        #[allow(dead_code)]
        impl $name {
            /// The value: an immediate once the site is armed.
            #[inline(always)]
            pub fn get(&self) -> $t {
                $crate::__imv_load!($name, $t)
            }
            #[doc(hidden)]
            #[inline(always)]
            pub fn is_set(&self) -> bool {
                $crate::__imv_branch!($name, $t, 1, false, )
            }
            #[doc(hidden)]
            #[inline(always)]
            pub fn unlikely(&self) -> bool {
                $crate::__imv_branch!($name, $t, 1, false, $crate::__private::cold())
            }
            #[doc(hidden)]
            #[inline(always)]
            pub fn likely(&self) -> bool {
                $crate::__imv_branch!($name, $t, 2, true, $crate::__private::cold())
            }
        }

        impl ::core::ops::Deref for $name {
            type Target = $crate::Value<$t>;
            #[inline(always)]
            fn deref(&self) -> &$crate::Value<$t> {
                &self.value
            }
        }
    )* };
}

/// `if imv_unlikely!(VERBOSE)`: is the value other than 0 (`true`, not null)? The test is a nop while the value is 0, and
/// a jump to code out of line while it is not: there is no load and no compare.
///
/// Before the program is rewritten, and for a [`Value`](crate::Value) that is not declared by [`imv!`](crate::imv!), the
/// value is read and compared.
#[macro_export]
macro_rules! imv_unlikely {
    ($value:expr) => {
        $value.unlikely()
    };
}

/// Like [`imv_unlikely!`](crate::imv_unlikely!), for a value that is mostly not 0: falls through while it is not 0.
#[macro_export]
macro_rules! imv_likely {
    ($value:expr) => {
        $value.likely()
    };
}

/// Like [`imv_unlikely!`](crate::imv_unlikely!), where either way may be the usual one: falls through while the value
/// is 0.
#[macro_export]
macro_rules! imv_true {
    ($value:expr) => {
        $value.is_set()
    };
}

/// The read of etch/imv.h: one instruction inside an aligned word of 8 bytes, which one store replaces. Its register
/// needs no REX prefix. For narrow values it reads 4 bytes of their cell.
#[doc(hidden)]
#[macro_export]
#[cfg(not(miri))]
macro_rules! __imv_load {
    ($name:ident, $t:ty) => {
        // SAFETY: the instruction loads the bytes of a value that Value::new() or set() has stored. The load acts as a
        // relaxed atomic one: the assembly is volatile, because it lacks the option `pure`.
        unsafe {
            if const { ::core::mem::size_of::<$t>() == 8 } {
                let word: *mut ();
                $crate::__private::asm!(".p2align 3,,6", "mov {0}, qword ptr [rip + {1}]", out(reg) word, sym $name,
                    options(readonly, nostack, preserves_flags));
                ::core::mem::transmute_copy::<*mut (), $t>(&word)
            } else {
                let word: u32;
                $crate::__private::asm!(".p2align 3,,5", "mov {0:e}, dword ptr [rip + {1}]", out(reg_abcd) word,
                    sym $name, options(readonly, nostack, preserves_flags));
                ::core::mem::transmute_copy::<u32, $t>(&word)
            }
        }
    };
}

/// The static branch of etch/branch.h, and its record. The branch is a jump to code that reads the variable, until
/// libetch makes it a nop or a jump to the other way.
#[doc(hidden)]
#[macro_export]
#[cfg(not(miri))]
macro_rules! __imv_branch {
    ($name:ident, $t:ty, $kind:literal, $otherwise:literal, $($cold:expr)?) => {{
        // SAFETY: execution continues after the jump or at one of its labels; memory and registers stay as they are.
        unsafe {
            $crate::__private::asm!(
                ".p2align 3,,4",
                "771: .byte 0xe9",
                ".long {load} - (. + 4)",
                ".pushsection __etch_branch,\"aR?\",@progbits",
                ".balign 4",
                ".byte {size}, {kind}",
                "772: lea eax, [rip + {name}]",
                ".org 772b + 6",
                ".long 771b - ., {load} - ., {jump} - .",
                ".short 0, 0",
                ".popsection",
                load = label { return $crate::__private::loaded($name.get()) },
                jump = label { $($cold;)? return !$otherwise },
                name = sym $name,
                size = const ::core::mem::size_of::<$t>(),
                kind = const $kind,
                options(nomem, nostack, preserves_flags));
        }
        $otherwise
    }};
}

#[doc(hidden)]
#[macro_export]
#[cfg(miri)]
macro_rules! __imv_load {
    ($name:ident, $t:ty) => {
        $name.value.get()
    };
}

#[doc(hidden)]
#[macro_export]
#[cfg(miri)]
macro_rules! __imv_branch {
    ($name:ident, $t:ty, $kind:literal, $otherwise:literal, $($cold:expr)?) => {
        $crate::__private::loaded($name.get())
    };
}

/// Items that the macros use.
#[doc(hidden)]
pub mod __private {
    pub use core::arch::asm;

    /// The compiler lays code that calls this out of line.
    #[cold]
    #[inline(always)]
    pub fn cold() {}

    #[cold]
    #[inline(always)]
    pub fn loaded<T: crate::Scalar>(value: T) -> bool {
        crate::value::nonzero(value)
    }
}
