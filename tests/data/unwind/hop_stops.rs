// SPDX-License-Identifier: MIT
//! hop_stops COUNT SEED PROGRAM [ARG...]: as remote_stops.c, by framehop, in the way of profilers like samply: each
//! mapped file is a module, with its sections .eh_frame, .eh_frame_hdr, .text and .got.
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use object::{Object, ObjectSection, ObjectSegment};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::{env, fs, thread, time::Duration};

const FRAMES: usize = 2000;
const ADDR_NO_RANDOMIZE: u64 = 0x40000;
const GETREGS: u64 = 12;
const CONT: u64 = 7;
const SEIZE: u64 = 0x4206;
const INTERRUPT: u64 = 0x4207;
const RBP_AT: usize = 4; // in struct user_regs_struct
const RIP_AT: usize = 16;
const RSP_AT: usize = 19;
const EVENT_STOP: i32 = 128;

#[repr(C)]
struct Iovec {
    base: u64,
    len: u64,
}
extern "C" {
    fn ptrace(request: u64, pid: i32, addr: u64, data: u64) -> i64;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn personality(persona: u64) -> i32;
    fn process_vm_readv(pid: i32, to: *const Iovec, n: u64, from: *const Iovec, m: u64, flags: u64) -> i64;
}

fn read(pid: i32, at: u64) -> Result<u64, ()> {
    let mut word = 0u64;
    let to = Iovec { base: &mut word as *mut u64 as u64, len: 8 };
    let from = Iovec { base: at, len: 8 };
    if unsafe { process_vm_readv(pid, &to, 1, &from, 1, 0) } == 8 { Ok(word) } else { Err(()) }
}

fn modules(pid: i32) -> UnwinderX86_64<Vec<u8>> {
    let mut unwinder = UnwinderX86_64::new();
    let mut files: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default().lines() {
        let f: Vec<&str> = line.split_whitespace().collect();
        if f.len() < 6 || !f[5].starts_with('/') {
            continue;
        }
        let ends: Vec<u64> = f[0].split('-').map(|a| u64::from_str_radix(a, 16).unwrap()).collect();
        let e = files.entry(f[5].into()).or_insert((ends[0], ends[1]));
        *e = (e.0.min(ends[0]), e.1.max(ends[1]));
    }
    for (path, (lo, hi)) in files {
        let Ok(bytes) = fs::read(&path) else { continue };
        let Ok(elf) = object::File::parse(&*bytes) else { continue };
        let base = elf.segments().map(|s| s.address()).min().unwrap_or(0) & !0xfff;
        let range = |name| elf.section_by_name(name).map(|s| s.address()..s.address() + s.size());
        let data = |name| elf.section_by_name(name).and_then(|s| s.data().ok().map(|d| d.to_vec()));
        unwinder.add_module(Module::new(path.clone(), lo..hi, lo, ExplicitModuleSectionInfo {
            base_svma: base,
            text_svma: range(".text"),
            text: data(".text"),
            got_svma: range(".got"),
            eh_frame_svma: range(".eh_frame"),
            eh_frame: data(".eh_frame"),
            eh_frame_hdr_svma: range(".eh_frame_hdr"),
            eh_frame_hdr: data(".eh_frame_hdr"),
            ..Default::default()
        }));
    }
    unwinder
}

fn main() {
    let args: Vec<String> = env::args().collect();
    let (mut count, mut seed): (u32, u64) = (args[1].parse().unwrap(), args[2].parse().unwrap());
    let mut command = Command::new(&args[3]);
    command.args(&args[4..]).stdout(Stdio::null());
    unsafe { command.pre_exec(|| { personality(ADDR_NO_RANDOMIZE); Ok(()) }) };
    let mut child = command.spawn().unwrap();
    let pid = child.id() as i32;
    thread::sleep(Duration::from_millis(200)); // past the dynamic linker
    let unwinder = modules(pid);
    let mut cache = CacheX86_64::new();
    assert!(unsafe { ptrace(SEIZE, pid, 0, 0) } == 0);
    while count > 0 {
        count -= 1;
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        thread::sleep(Duration::from_micros(1000 + (seed >> 33) % 7000));
        let (mut status, mut regs) = (0, [0u64; 27]);
        unsafe { ptrace(INTERRUPT, pid, 0, 0) };
        if unsafe { waitpid(pid, &mut status, 0) } != pid || status & 0xff != 0x7f {
            break;
        }
        unsafe { ptrace(GETREGS, pid, 0, regs.as_mut_ptr() as u64) };
        let (ip, sp, bp) = (regs[RIP_AT], regs[RSP_AT], regs[RBP_AT]);
        let mut memory = |at| read(pid, at);
        let mut frames = unwinder.iter_frames(ip, UnwindRegsX86_64::new(ip, sp, bp), &mut cache, &mut memory);
        for _ in 0..FRAMES {
            match frames.next() {
                Ok(Some(FrameAddress::InstructionPointer(a))) => print!("{a:x} "),
                Ok(Some(FrameAddress::ReturnAddress(a))) => print!("{:x} ", u64::from(a)),
                _ => break,
            }
        }
        println!();
        let signal = if status >> 16 == EVENT_STOP { 0 } else { status >> 8 & 0xff };
        unsafe { ptrace(CONT, pid, 0, signal as u64) };
    }
    let _ = child.kill();
}
