// SPDX-License-Identifier: MIT
//! What a panic costs that 20 frames pass on, each with something to drop: panics BATCHES COUNT, as throws.cc.
use std::hint::black_box;
use std::panic;
use std::time::Instant;

struct Counted(u64);

impl Drop for Counted {
    #[inline(never)]
    fn drop(&mut self) {
        black_box(self.0);
    }
}

#[inline(never)]
fn down(n: u64) -> u64 {
    let c = Counted(n);
    if n == 0 {
        panic::resume_unwind(Box::new(7u32));
    }
    down(n - 1) + c.0
}

fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    for _ in 0..args[0] {
        let start = Instant::now();
        for _ in 0..args[1] {
            assert!(panic::catch_unwind(|| black_box(down(20))).is_err());
        }
        println!("{:.1}", start.elapsed().as_nanos() as f64 / args[1] as f64);
    }
}
