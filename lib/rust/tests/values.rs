// SPDX-License-Identifier: MIT
//! Tests values of every kind, with one thread and with several, before and after `etch rewrite` (tests/rust/test_rust.py).
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Barrier;
use std::thread;

use etch::{imv, imv_likely, imv_true, imv_unlikely, Scalar, Value};

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
enum Mode {
    Fast,
    Safe = 7,
}
// SAFETY: the type is one byte without padding.
unsafe impl Scalar for Mode {}

static WORDS: [&str; 2] = ["one", "two"];
static NUMBERS: [u32; 2] = [11, 22];

imv! {
    /// Documented.
    pub static VERBOSE: bool = false;
    static SMALL: i8 = -3;
    static BYTE: u8 = 250;
    static SHORT: i16 = -300;
    static WORD: u16 = 65_000;
    static INT: i32 = -70_000;
    static UNSIGNED: u32 = 4_000_000_000;
    static LONG: i64 = -5;
    static HUGE: u64 = u64::MAX;
    static SIZE: usize = 9;
    static RATIO: f32 = 0.5;
    static EXACT: f64 = -0.25;
    static LETTER: char = 'ä';
    static MODE: Mode = Mode::Fast;
    static NUMBER: &'static u32 = &NUMBERS[0];
    static MAYBE: Option<&'static u32> = None;
    static RAW: *const u32 = std::ptr::null();
}
imv! { static TEXT: &'static &'static str = &WORDS[0]; }

struct Config {
    limit: Value<i64>,
    deep: (Value<u8>, [Value<u16>; 2]),
}
static CONFIG: Config = Config { limit: Value::new(100), deep: (Value::new(1), [Value::new(2), Value::new(3)]) };

/// The value in memory: the compiler does not know which variable it is, so the read is a load.
#[inline(never)]
fn memory<T: Scalar>(value: &Value<T>) -> T {
    std::hint::black_box(value).get()
}

macro_rules! set_and_get {
    ($($name:ident $first:expr, $($next:expr),+;)*) => { $(
        assert_eq!($name.get(), $first, stringify!($name));
        $(
            $name.set($next).unwrap();
            assert_eq!(($name.get(), memory(&$name)), ($next, $next), stringify!($name));
        )+
        $name.set($first).unwrap();
        assert_eq!($name.get(), $first);
    )* };
}

#[test]
fn values_of_every_type() {
    set_and_get! {
        SMALL -3, 0, i8::MIN, i8::MAX;
        BYTE 250, 0, 255;
        SHORT -300, i16::MIN, i16::MAX, 0;
        WORD 65_000, 0, u16::MAX;
        INT -70_000, i32::MIN, i32::MAX, 0;
        UNSIGNED 4_000_000_000, 0, u32::MAX;
        LONG -5, i64::MIN, i64::MAX, 0, 1 << 40;
        HUGE u64::MAX, 0, 1 << 63, 0x7fff_ffff;
        SIZE 9, usize::MAX, 0;
        RATIO 0.5, f32::INFINITY, -0.0;
        EXACT -0.25, 1.5, f64::MAX;
        LETTER 'ä', '\u{10ffff}', '\0';
        MODE Mode::Fast, Mode::Safe;
        NUMBER &NUMBERS[0], &NUMBERS[1];
        MAYBE None, Some(&NUMBERS[1]);
        RAW std::ptr::null(), &raw const NUMBERS[1];
        TEXT &"one", &WORDS[1];
        VERBOSE false, true;
    }
    assert_eq!(NUMBER.get() as *const u32, &raw const NUMBERS[0]);
}

#[test]
fn members_of_a_static() {
    assert_eq!((CONFIG.limit.get(), CONFIG.deep.0.get(), CONFIG.deep.1[1].get()), (100, 1, 3));
    CONFIG.limit.set(-1).unwrap();
    CONFIG.deep.1[1].set(65_535).unwrap();
    assert_eq!(
        (CONFIG.limit.get(), CONFIG.deep.0.get(), CONFIG.deep.1[0].get(), CONFIG.deep.1[1].get()),
        (-1, 1, 2, 65_535)
    );
    assert_eq!(format!("{:?}", CONFIG.limit), "Value(-1)");
}

#[test]
fn values_elsewhere_are_variables() {
    let here = Box::new(Value::new(1.5f64));
    here.set(2.5).unwrap();
    assert_eq!((here.get(), memory(&here)), (2.5, 2.5));
    assert_eq!(Value::<u16>::default().get(), 0);
    fn takes<T: Scalar>(value: &Value<T>) -> T {
        value.get()
    }
    assert_eq!(takes(&WIDE), 1 << 33);
    imv! { static WIDE: u64 = 1 << 33; }
}

#[test]
fn errors_are_errors() {
    let error: Box<dyn std::error::Error + Send + Sync> = Box::new(etch::Error::Busy);
    assert!(error.to_string().len() > 5);
    assert_eq!(etch::Error::Threads.code(), 9);
}

mod branches {
    use super::*;
    imv! {
        static FLAG: bool = false;
        static COUNT: i64 = 1 << 40; // not 0, although its low half is
        static POINTER: Option<&'static u32> = None;
    }

    #[inline(never)]
    pub fn taken() -> u32 {
        let mut sum = 0;
        if imv_unlikely!(FLAG) {
            sum += 1;
        }
        if imv_likely!(COUNT) {
            sum += 10;
        }
        if imv_true!(POINTER) {
            sum += 100;
        }
        if imv_likely!(FLAG) {
            sum += 1000;
        }
        if imv_unlikely!(CONFIG.deep.0) {
            sum += 10_000;
        }
        if imv_unlikely!(FLAG) {
            sum + 100_000
        } else {
            sum
        }
    }

    #[test]
    fn branches_follow_their_value() {
        assert_eq!(taken(), 10_010);
        FLAG.set(true).unwrap();
        assert_eq!(taken(), 111_011);
        COUNT.set(0).unwrap();
        POINTER.set(Some(&NUMBERS[0])).unwrap();
        assert_eq!(taken(), 111_101);
        FLAG.set(false).unwrap();
        COUNT.set(-1).unwrap();
        POINTER.set(None).unwrap();
        assert_eq!(taken(), 10_010);
    }
}

mod threads {
    use super::*;
    imv! {
        static TURN: u64 = 0;
        static TURN_TOO: u32 = 0;
        static ODD: bool = false;
    }

    #[inline(never)]
    fn read() -> (u64, u32, bool, bool) {
        (TURN.get(), TURN_TOO.get(), ODD.get(), imv_unlikely!(ODD))
    }

    /// The turns that readers see never decrease, and each was set before it is read.
    #[test]
    fn sets_reach_threads_that_run() {
        static DONE: AtomicU64 = AtomicU64::new(0);
        static STOP: AtomicBool = AtomicBool::new(false);
        static ROUNDS: AtomicU64 = AtomicU64::new(0);
        static START: Barrier = Barrier::new(4);
        let turns = if cfg!(miri) { 20 } else { 400 };
        let readers: Vec<_> = (0..3)
            .map(|_| {
                thread::spawn(move || {
                    let mut last = 0;
                    START.wait();
                    while !STOP.load(Ordering::Acquire) {
                        let done = DONE.load(Ordering::Acquire);
                        let (turn, too, _, _) = read();
                        assert!(turn >= done && turn >= last && turn <= turns, "{turn} after {done}, {last}");
                        assert!(u64::from(too) >= done && u64::from(too) <= turns);
                        last = turn;
                        ROUNDS.fetch_add(1, Ordering::Relaxed);
                    }
                    let (turn, too, odd, branch) = read();
                    assert_eq!((turn, u64::from(too), odd, branch), (turns, turns, turns % 2 == 1, turns % 2 == 1));
                })
            })
            .collect();
        START.wait();
        for turn in 1..=turns {
            TURN.set(turn).unwrap();
            TURN_TOO.set(turn as u32).unwrap();
            ODD.set(turn % 2 == 1).unwrap();
            DONE.store(turn, Ordering::Release);
        }
        while ROUNDS.load(Ordering::Relaxed) < 10 {
            thread::yield_now();
        }
        STOP.store(true, Ordering::Release);
        readers.into_iter().for_each(|r| r.join().unwrap());
        assert_eq!(etch::verify(), Ok(0));
    }

    /// Two threads set one value: in the end it is, everywhere, what one of them has set.
    #[test]
    fn setters_are_serialized() {
        imv! { static BOTH: u32 = 0; }
        let rounds = if cfg!(miri) { 5 } else { 100 };
        let setters: Vec<_> =
            [1u32, 2].map(|n| thread::spawn(move || (0..rounds).for_each(|_| BOTH.set(n).unwrap()))).into();
        setters.into_iter().for_each(|s| s.join().unwrap());
        assert_eq!(BOTH.get(), memory(&BOTH));
        assert!(matches!(BOTH.get(), 1 | 2));
    }
}

#[test]
#[cfg(not(miri))]
fn backtraces() {
    #[inline(never)]
    fn inner(ips: &mut [*mut std::ffi::c_void]) -> usize {
        std::hint::black_box(etch::backtrace(ips).len())
    }
    assert_eq!(etch::prepare(), 0);
    let mut ips = [std::ptr::null_mut(); 64];
    let count = inner(&mut ips);
    assert!((4..64).contains(&count), "{count}");
    let at = inner as *const () as usize;
    assert!((at..at + 256).contains(&(ips[0] as usize)), "the first is in its caller");
    let mut walk = Box::new(etch::Walk::new());
    for _ in 0..3 {
        let (found, status) = walk.backtrace(&mut ips);
        assert!(status.complete() && !found.is_empty(), "{status}");
    }
    // SAFETY: the argument may be null.
    let (found, status) = unsafe { etch::backtrace_from(std::ptr::null(), &mut ips[..2]) };
    assert_eq!((found.len(), status.complete()), (2, false));
}

/// Prints what libetch counts in the rewritten program, for tests/rust/test_rust.py.
#[test]
#[cfg(not(miri))]
fn counts() {
    extern "C" {
        fn etch_info(info: *mut u64) -> i32;
    }
    const NAMES: [(&str, usize); 7] = [
        ("modules", 1),
        ("sites", 2),
        ("armed", 3),
        ("objects", 6),
        ("armed objects", 7),
        ("branches", 21),
        ("static branches", 22),
    ];
    let mut info = [0; 28];
    info[0] = size_of_val(&info) as u64;
    // SAFETY: struct etch_info begins with its size; all its members are words.
    assert_eq!(unsafe { etch_info(info.as_mut_ptr()) }, 0);
    for (name, at) in NAMES {
        println!("{name}: {}", info[at]);
    }
}
