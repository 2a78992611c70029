// SPDX-License-Identifier: MIT
//! Rust's panics through frames of Rust and C++, and C++'s exceptions through frames of Rust.
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;

static SEEN: Mutex<String> = Mutex::new(String::new());

struct Noted(u8);

impl Drop for Noted {
    fn drop(&mut self) {
        SEEN.lock().unwrap_or_else(|e| e.into_inner()).push((b'a' + self.0) as char);
    }
}

unsafe extern "C-unwind" {
    fn cxx_call(f: extern "C-unwind" fn(i32), n: i32);
    fn cxx_throw(n: i32);
    fn cxx_catch(f: extern "C-unwind" fn(i32), n: i32) -> i32;
}

#[inline(never)]
fn down(n: u8) -> u32 {
    let d = Noted(n);
    if n == 0 {
        panic::resume_unwind(Box::new(42u32));
    }
    down(n - 1) + d.0 as u32
}

extern "C-unwind" fn panics(n: i32) {
    let _d = Noted(20);
    down(n as u8);
}

extern "C-unwind" fn throws(n: i32) {
    let _d = Noted(21);
    unsafe { cxx_throw(n) };
}

fn say(name: &str, what: &str) {
    let mut seen = SEEN.lock().unwrap_or_else(|e| e.into_inner());
    println!("{name}: {what} {seen}");
    seen.clear();
}

fn main() {
    for i in 0..3 {
        let r = panic::catch_unwind(|| down(5 + i)).unwrap_err();
        say("panic", &format!("{:?}", r.downcast_ref::<u32>()));
        let r = panic::catch_unwind(|| unsafe { cxx_call(panics, 4) });
        say("through C++", &format!("{}", r.is_err()));
        let n = unsafe { cxx_catch(throws, 6) };
        say("exception through Rust", &format!("{n}"));
    }
    let r = std::thread::spawn(|| down(3)).join();
    say("thread", &format!("{}", r.is_err()));
    let r = panic::catch_unwind(AssertUnwindSafe(|| {
        struct Inner;
        impl Drop for Inner {
            fn drop(&mut self) {
                let _ = panic::catch_unwind(|| down(2));
            }
        }
        let _i = Inner;
        down(3)
    }));
    say("nested", &format!("{}", r.is_err()));
}
