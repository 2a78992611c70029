// SPDX-License-Identifier: MIT
//! The counterpart of what etch/imv.h emits into each object file: the module's descriptor, which the tool fills in, and
//! a constructor that registers the module with libetch before any other code of the program runs.
use core::ffi::c_void;

// Hidden and weak, as in C: if a module has several descriptors, the linker takes the first.
core::arch::global_asm!(
    ".pushsection __etch_mod,\"a\",@progbits",
    ".balign 8",
    ".weak etch_module_",
    ".hidden etch_module_",
    ".type etch_module_, @object",
    ".size etch_module_, 64",
    "etch_module_:",
    ".long 0x68637465", // ETCH_MODULE_MAGIC
    ".short 1, 64",     // ETCH_MODULE_VERSION, the size
    ".zero 56",
    ".popsection",
);

#[repr(C)]
struct Bounds {
    start: *const c_void,
    stop: *const c_void,
}

extern "C" {
    fn etch_module_load_v2(module: *const c_void, bounds: *const Bounds, count: u32);
    fn etch_module_unload_v1(module: *const c_void);
}

/// The address of a symbol, or null if the module lacks it. It is loaded through the GOT, with the ds prefix that tells
/// the tool that the address does not escape.
macro_rules! address {
    ($($name:literal),+) => {{
        let at: *const c_void;
        // SAFETY: the instruction only loads an entry of the GOT.
        unsafe {
            core::arch::asm!(concat!(".weak " $(, $name)+), concat!(".hidden " $(, $name)+), ".byte 0x3e",
                concat!("mov {}, qword ptr [rip + " $(, $name)+, "@GOTPCREL]"), out(reg) at,
                options(pure, readonly, nostack, preserves_flags));
        }
        at
    }};
}

macro_rules! bounds {
    ($name:literal) => {
        Bounds { start: address!("__start_", $name), stop: address!("__stop_", $name) }
    };
}

extern "C" fn load() {
    let bounds = [
        bounds!("__imv"),
        bounds!("__etch_obj"),
        bounds!("etched"),
        bounds!("etched_imv"),
        bounds!("__pv_sites"),
        bounds!("__pv_native"),
        bounds!("__pv_inline"),
        bounds!("__etch_branch"),
        bounds!("__etch_mark"),
        bounds!("etched_dense"),
    ];
    let module = address!("etch_module_");
    // SAFETY: the arguments are the module's own descriptor and sections.
    unsafe { etch_module_load_v2(module, bounds.as_ptr(), bounds.len() as u32) }
}

extern "C" fn unload() {
    let module = address!("etch_module_");
    // SAFETY: the argument is the one that load() has passed.
    unsafe { etch_module_unload_v1(module) }
}

// Priority 101, as in C: it runs before constructors without a priority.
#[used]
#[link_section = ".init_array.00101"]
static LOAD: extern "C" fn() = load;
#[used]
#[link_section = ".fini_array.00101"]
static UNLOAD: extern "C" fn() = unload;
