// SPDX-License-Identifier: MIT
//! A panic under panic=abort, in code without unwind data: the hook prints the stack, by etch and by std.
use std::hint::black_box;

#[inline(never)]
fn inner(n: usize) -> usize {
    let digits = [1, 2, 3];
    digits[black_box(n)] + 1
}

#[inline(never)]
fn by_closure(f: &dyn Fn(usize) -> usize, n: usize) -> usize {
    f(n) + black_box(1)
}

#[inline(never)]
fn with_frame(n: usize) -> usize {
    let mut space = [n; 100];
    black_box(&mut space);
    by_closure(&|n| inner(n) + space[n % 100], n) + space[7]
}

fn main() {
    etch::prepare();
    std::panic::set_hook(Box::new(|_| {
        let mut ips = [std::ptr::null_mut(); 64];
        let mut walk = Box::new(etch::Walk::new());
        let (ips, status) = walk.backtrace(&mut ips);
        println!("{status}: {}", status.complete());
        for ip in ips {
            println!("{:x}", *ip as usize - 1);
        }
        println!("std\n{}", std::backtrace::Backtrace::force_capture());
    }));
    std::thread::spawn(|| println!("{}", with_frame(black_box(3)))).join().unwrap();
}
