// SPDX-License-Identifier: MIT
/// What may be an immediate value: 1, 2, 4 or 8 bytes.
///
/// Implemented for `bool`, integers, floats, `char`, raw pointers, and `&'static` references. For an enumeration of your
/// own:
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// #[repr(u8)]
/// enum Mode { Fast, Safe = 7 }
/// // SAFETY: one byte without padding, `Send` and `Sync`.
/// unsafe impl etch::Scalar for Mode {}
///
/// etch::imv! { static MODE: Mode = Mode::Fast; }
/// MODE.set(Mode::Safe).unwrap();
/// assert_eq!(MODE.get(), Mode::Safe);
/// ```
///
/// # Safety
///
/// The type has no padding and no uninitialized bytes, an alignment of at most 8, and threads may share a variable of it
/// that they replace as a whole (`Send`, or as `AtomicPtr` does for pointers). A size other than 1, 2, 4 and 8 is refused
/// when the program is compiled.
pub unsafe trait Scalar: Copy + 'static {}

macro_rules! scalars {
    ($($t:ty)*) => { $(
        // SAFETY: without padding, at most 8 bytes.
        unsafe impl Scalar for $t {}
    )* };
}
scalars! { bool char u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64 }

// SAFETY: the pointer is shared, as by AtomicPtr; what it points to takes unsafe code to reach.
unsafe impl<T: 'static> Scalar for *const T {}
// SAFETY: the same.
unsafe impl<T: 'static> Scalar for *mut T {}
// SAFETY: a reference that any thread may use.
unsafe impl<T: Sync + 'static> Scalar for &'static T {}
// SAFETY: the same; None is the null pointer.
unsafe impl<T: Sync + 'static> Scalar for Option<&'static T> {}
