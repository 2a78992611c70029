// SPDX-License-Identifier: MIT
//! Variables that live in the instruction stream, and stack traces by etch's tables.
//!
//! ```
//! etch::imv! {
//!     /// Is every request logged?
//!     pub static VERBOSE: bool = false;
//!     static BATCH: u32 = 64;
//! }
//!
//! fn handle(requests: u32) -> u32 {
//!     if etch::imv_unlikely!(VERBOSE) {
//!         println!("{requests} requests"); // out of line; here is a nop while VERBOSE is false
//!     }
//!     requests / BATCH.get() // the value is in the instruction
//! }
//!
//! # fn main() -> Result<(), etch::Error> {
//! assert_eq!(handle(128), 2);
//! BATCH.set(32)?; // every site, while all threads run
//! assert_eq!(handle(128), 4);
//! # Ok(())
//! # }
//! ```
//!
//! `cargo build`, then `etch rewrite target/release/PROGRAM`. A program that has not been rewritten behaves the same and
//! reads memory.
//!
//! # What a set guarantees
//!
//! When `set` has returned `Ok`, memory and every instruction that any thread executes from then on have the new value.
//! A thread that has read the new value also sees what the setting thread wrote before (as by a release store and an
//! acquire load). During a set a reader gets the old or the new value, whole. If `set` returns an error, nothing has
//! changed. Sets are serialized. Any thread may read and set at any time, also in a signal handler. A set in a handler
//! waits for the sets of other threads.
//!
//! # Linking
//!
//! The build script links `libetch.a` from `ETCH_LIB_DIR`, or from the directory that `pkg-config` names for etch. With
//! `ETCH_DYNAMIC=1` it links `libetch.so`, which is needed if a process has several modules with etched values, such as
//! a program and a `cdylib` that it loads. The crate is `#![no_std]`, has no dependencies, and needs x86-64 Linux and
//! Rust 1.87 or later. Values of a crate of type `dylib` are for that crate alone.
#![no_std]
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod backtrace;
mod error;
mod imv;
#[cfg(not(miri))]
mod module;
mod scalar;
mod sys;
mod value;

pub use backtrace::{backtrace, backtrace_from, prepare, Status, Walk};
pub use error::Error;
pub use scalar::Scalar;
pub use value::{verify, Value};

#[doc(hidden)]
pub use imv::__private;
