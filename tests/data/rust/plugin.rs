// SPDX-License-Identifier: MIT
//! A library with a value of its own, which host.rs loads.
etch::imv! {
    static LEVEL: i32 = 7;
}

#[no_mangle]
pub extern "C" fn level() -> i32 {
    if etch::imv_unlikely!(LEVEL) {
        LEVEL.get()
    } else {
        -1
    }
}

#[no_mangle]
pub extern "C" fn set_level(level: i32) -> i32 {
    LEVEL.set(level).map_or_else(|e| e.code(), |()| 0)
}
