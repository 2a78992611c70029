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
//! When `set` has returned `Ok`, memory and every instruction that any thread executes from then on have the new value;
//! what the setting thread wrote before is visible to a thread that has read it (as by a release store and an acquire
//! load). Meanwhile a reader gets the old or the new value, whole. On an error nothing has changed. Sets are serialized.
//! Any thread may set at any time, but a signal handler may not; it may read.
//!
//! # Linking
//!
//! The build script links `libetch.a` from `ETCH_LIB_DIR`, or from where `pkg-config` knows etch; `libetch.so` with
//! `ETCH_DYNAMIC=1`, which is needed where a process has several modules with etched values, as a program and a
//! `cdylib` that it loads. `#![no_std]`, without dependencies, x86-64 Linux, Rust 1.87 and later. Values of a crate of
//! type `dylib` are for that crate alone.
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
