// SPDX-License-Identifier: MIT
//! Loads and unloads plugin.rs, whose value has the name of one here. Prints what libetch knows of: modules, sites,
//! armed ones.
use std::ffi::{c_char, c_int, c_void, CString};

etch::imv! {
    static LEVEL: i32 = 1;
}

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(handle: *mut c_void) -> c_int;
    fn etch_info(info: *mut u64) -> c_int;
}

fn info() -> (u64, u64, u64) {
    let mut info = [0; 27];
    info[0] = size_of_val(&info) as u64;
    // SAFETY: struct etch_info begins with its size.
    assert_eq!(unsafe { etch_info(info.as_mut_ptr()) }, 0);
    (info[1], info[2], info[3])
}

fn main() {
    let path = CString::new(std::env::args().nth(1).unwrap()).unwrap();
    for round in 0..3 {
        // SAFETY: the types are those of plugin.rs, and nothing of it is used behind dlclose().
        unsafe {
            let handle = dlopen(path.as_ptr(), 2);
            assert!(!handle.is_null());
            let level: extern "C" fn() -> i32 = std::mem::transmute(dlsym(handle, c"level".as_ptr()));
            let set_level: extern "C" fn(i32) -> i32 = std::mem::transmute(dlsym(handle, c"set_level".as_ptr()));
            print!("{} ", level());
            for n in [9 + round, 0] {
                print!("{} {} ", set_level(n), level());
            }
            LEVEL.set(round).unwrap();
            println!("{} {:?}", LEVEL.get(), info());
            assert_eq!(dlclose(handle), 0);
        }
    }
    println!("{:?}", info());
}
