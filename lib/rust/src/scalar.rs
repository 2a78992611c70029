// SPDX-License-Identifier: MIT
/// A type whose variables may be immediate values: it has 1, 2, 4 or 8 bytes.
///
/// The trait is implemented for `bool`, integers, floats, `char`, raw pointers, and `&'static` references. For an
/// enumeration of your own:
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// #[repr(u8)]
/// enum Mode { Fast, Safe = 7 }
/// // SAFETY: the type is one byte without padding, `Send` and `Sync`.
/// unsafe impl etch::Scalar for Mode {}
///
/// etch::imv! { static MODE: Mode = Mode::Fast; }
/// MODE.set(Mode::Safe).unwrap();
/// assert_eq!(MODE.get(), Mode::Safe);
/// ```
///
/// # Safety
///
/// The type must have no padding, no uninitialized bytes, and an alignment of at most 8. Threads must be allowed to share
/// a variable of it that they replace as a whole (it is `Send`, or shared as `AtomicPtr` shares pointers). The compiler
/// rejects sizes other than 1, 2, 4 and 8.
pub unsafe trait Scalar: Copy + 'static {}

macro_rules! scalars {
    ($($t:ty)*) => { $(
        // SAFETY: the type has no padding and at most 8 bytes.
        unsafe impl Scalar for $t {}
    )* };
}
scalars! { bool char u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64 }

// SAFETY: the pointer is shared as AtomicPtr shares it; only unsafe code can reach what it points to.
unsafe impl<T: 'static> Scalar for *const T {}
// SAFETY: the same.
unsafe impl<T: 'static> Scalar for *mut T {}
// SAFETY: any thread may use the reference.
unsafe impl<T: Sync + 'static> Scalar for &'static T {}
// SAFETY: the same; None is the null pointer.
unsafe impl<T: Sync + 'static> Scalar for Option<&'static T> {}
