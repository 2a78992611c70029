// SPDX-License-Identifier: MIT
//! Settings that are read at every request and changed while all threads run.
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

etch::imv! {
    /// Is every request logged?
    static VERBOSE: bool = false;
    static LIMIT: u32 = 100;
}

#[inline(never)]
fn handle(request: u32) -> u32 {
    if etch::imv_unlikely!(VERBOSE) {
        println!("request {request}");
    }
    if request > LIMIT.get() {
        503
    } else {
        200
    }
}

fn main() -> Result<(), etch::Error> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let busy = thread::spawn(|| {
        while !STOP.load(Ordering::Relaxed) {
            std::hint::black_box(LIMIT.get());
        }
    });
    println!("{}", handle(200));
    VERBOSE.set(true)?; // all threads keep running
    LIMIT.set(1000)?;
    println!("{}", handle(200));
    STOP.store(true, Ordering::Relaxed);
    busy.join().unwrap();
    println!("{} instructions differ from memory", etch::verify()?);
    Ok(())
}
