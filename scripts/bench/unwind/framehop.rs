// SPDX-License-Identifier: MIT
//! framehop for walk_framehop.c, in the way that its documentation describes for
//! unwinding inside the own process.
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, MustNotAllocateDuringUnwind, Unwinder};

type Bytes = &'static [u8];
type Policy = MustNotAllocateDuringUnwind;

static mut STATE: Option<(UnwinderX86_64<Bytes, Policy>, CacheX86_64<Policy>)> = None;

/// # Safety
/// The sections must stay mapped; one thread only.
#[no_mangle]
pub unsafe extern "C" fn hop_module(
    lo: u64, hi: u64, base: u64, eh_frame: *const u8, eh_frame_size: u64, hdr: *const u8, hdr_size: u64,
) {
    let bytes = |p: *const u8, n: u64| std::slice::from_raw_parts(p, n as usize);
    let at = |p: *const u8| p as u64 - base;
    let mut unwinder = UnwinderX86_64::new();
    unwinder.add_module(Module::new(
        String::from("program"),
        lo..hi,
        base,
        ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: Some(at(eh_frame)..at(eh_frame) + eh_frame_size),
            eh_frame: Some(bytes(eh_frame, eh_frame_size)),
            eh_frame_hdr_svma: Some(at(hdr)..at(hdr) + hdr_size),
            eh_frame_hdr: Some(bytes(hdr, hdr_size)),
            ..Default::default()
        },
    ));
    STATE = Some((unwinder, CacheX86_64::new_in()));
}

/// # Safety
/// After hop_module; the registers must be those of a frame above.
#[no_mangle]
pub unsafe extern "C" fn hop_walk(ip: u64, sp: u64, bp: u64, ips: *mut u64, max: i32) -> i32 {
    let Some((unwinder, cache)) = (*std::ptr::addr_of_mut!(STATE)).as_mut() else { return 0 };
    // The stack is this thread's own: the least check that a reader can make.
    let mut read = |at: u64| if at < sp { Err(()) } else { Ok(*(at as *const u64)) };
    let mut frames = unwinder.iter_frames(ip, UnwindRegsX86_64::new(ip, sp, bp), cache, &mut read);
    let mut n = 0;
    while n < max {
        match frames.next() {
            Ok(Some(FrameAddress::InstructionPointer(_))) => {}
            Ok(Some(f)) => {
                *ips.add(n as usize) = f.address();
                n += 1;
            }
            _ => break,
        }
    }
    n
}
