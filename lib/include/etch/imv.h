/* SPDX-License-Identifier: MIT */
/*
 * etch/imv.h: immediate values, which live in the instruction stream.
 *
 *     #include <etch/imv.h>
 *
 *     DEFINE_IMV(int, verbose) = 0;        // a scalar, read with imv_read
 *     ETCHED struct config cfg = { ... };  // any variable, read as usual
 *
 *     if (etch_unlikely(imv_read(verbose))) ...
 *     imv_set(verbose, 1);                 // every site, while all threads run
 *     etch_set(&cfg.batch, 64);
 *
 * The names come from Mathieu Desnoyers' immediate values for Linux. A program that the tool has not processed
 * behaves the same and reads memory. C11 and later (GNU keywords in their __x__ spelling), C++11 and later; gcc and
 * clang.
 *
 * WHAT A SET GUARANTEES. When imv_set or etch_set has returned 0,
 *   1. memory holds the new value;
 *   2. every site that any thread executes from then on yields the new value,
 *      and so does every plain or imv_read access that is not hoisted by the
 *      compiler (imv_read never is);
 *   3. what the setting thread wrote before the set is visible to a thread that
 *      has read the new value from a site: the set orders its earlier stores
 *      before the new value, as a release store does (x86-64 keeps stores in
 *      order, and all threads pass a full barrier before the set returns).
 * During a set, a reader sees the old or the new value of each site, whole; two sites may differ until the set
 * returns. Sets are serialized: two sets of one object take effect in the same order at all its sites. If a set
 * returns anything but 0, neither memory nor a site has changed.
 *
 * Thread safety: all functions may be called from any thread at any time, also while other threads dlopen, dlclose or
 * fork. Signal safety: a signal handler may read objects (plainly, by imv_read and _imv_read, through an ops table),
 * and call imv_set, etch_set, etch_set_batch, etch_sync, etch_release and etch_strerror. No handler interrupts a call
 * that holds libetch's lock, because signals are blocked then, except those that an instruction raises. If such a
 * fault happens inside libetch (in a callback, for instance), a call in its handler returns ETCH_EBUSY. A set takes
 * microseconds, and waits for the sets of other threads: where that is too long for a handler, let the handler store
 * a flag and let another thread call etch_set.
 *
 * Cancellation: no function is a cancellation point. A thread may be canceled asynchronously inside one
 * (PTHREAD_CANCEL_ASYNCHRONOUS, which POSIX allows in hardly any function): the call completes the work that it has
 * begun under the lock, and the cancellation takes effect then. Callbacks of etch_verify run with cancellation
 * disabled.
 *
 * Stack: a call takes less than 2 KiB of the caller's stack, plus what a callback and signal handlers take, and what
 * the dynamic linker takes when it binds a function of the C library (not with -z now). libetch takes more if it is
 * built for AddressSanitizer or without optimization; so do dlopen(3) and dlclose(3) of a file with etched objects (a
 * few KiB).
 */
#ifndef ETCH_IMV_H
#define ETCH_IMV_H

#include <stddef.h>
#include <etch/format.h>

#if !defined(__x86_64__) || defined(__ILP32__)
#error "etch rewrites x86-64 code (LP64)"
#endif

#ifdef __cplusplus
/* An unsigned integer of 8 bytes, or of 4. */
template <unsigned long bytes> struct etch_word_ {
	typedef unsigned int type;
};
template <> struct etch_word_<8> {
	typedef unsigned long type;
};
/* A type without reference, const and volatile. */
template <class T> struct etch_plain_ {
	typedef T type;
};
template <class T> struct etch_plain_<const T> {
	typedef typename etch_plain_<T>::type type;
};
template <class T> struct etch_plain_<volatile T> {
	typedef typename etch_plain_<T>::type type;
};
template <class T> struct etch_plain_<const volatile T> {
	typedef typename etch_plain_<T>::type type;
};
template <class T> struct etch_plain_<T &> {
	typedef typename etch_plain_<T>::type type;
};
/* The type of a pointer to what an argument points to. If the argument is not an address, it is char *, so that
 * ETCH_TAKES_ below reports the only error. */
template <class T> struct etch_pointer_ {
	enum { is_address = 0 };
	typedef char *type;
};
template <class T> struct etch_pointer_<T *> {
	enum { is_address = 1 };
	typedef T *type;
};
template <class T> struct etch_pointer_<T *const> : etch_pointer_<T *> {
};
template <class T> struct etch_pointer_<T *volatile> : etch_pointer_<T *> {
};
template <class T, size_t n> struct etch_pointer_<T[n]> : etch_pointer_<T *> {
};
template <class T> struct etch_pointer_<T &> : etch_pointer_<T> {
};
extern "C" {
#endif

/* Which way a branch mostly goes. */
#define etch_likely(x)   __builtin_expect(!!(x), 1)
#define etch_unlikely(x) __builtin_expect(!!(x), 0)

/* ---- errors -------------------------------------------------------------- */

/* The results of all calls: 0, or one of these. On an error nothing has changed. */
enum etch_error {
	ETCH_OK = 0,
	ETCH_EINVAL = 1,     /* null pointer, size 0, or a range past the end of its object */
	ETCH_ENOTETCHED = 2, /* no etched object of a loaded module holds this address */
	ETCH_EBUSY = 3,      /* an immediate that has to change holds 0xcc: a breakpoint of a debugger or a uprobe; or
	                      * this thread already holds libetch's lock */
	ETCH_ECODE = 4,      /* a site holds bytes that neither etch nor the compiler wrote */
	ETCH_EPERM = 5,      /* the system refuses to change the protection of text or data (MDWE, SELinux, seccomp) */
	ETCH_ENOSYNC = 6,    /* membarrier(2) cannot synchronize the other threads (seccomp, old kernel) */
	ETCH_ENOMEM = 7,     /* out of memory for the work list, or out of mappings */
	ETCH_EFORMAT = 8,    /* a table of a loaded module is malformed, is of another version, or needs a part of libetch
	                      * that is not linked */
	ETCH_ETHREADS = 9,   /* a site can only be changed while the process has one thread (etch_seal) */
};

/* The English sentence for an etch_error, in static storage; never null. Async-signal-safe. */
const char *etch_strerror(int error);

/* ---- marking objects ----------------------------------------------------- */

/*
 * ETCHED marks a variable, static or global, of any type except thread-local or const, and gives it pages of its own,
 * which are read-only while it is armed. Variables of DEFINE_IMV and ETCHED_SHARED share pages with others of their
 * source file; an ETCHED_SHARED variable to which something stores later is armed together with its whole page.
 * ETCHED_DENSE costs no memory: such variables lie as unmarked ones do, unprotected, and etch_sync arms only those
 * (by field) to which the link step sees no later store.
 */
#define ETCHED        __attribute__((section("etched"), aligned(4096)))
#define ETCHED_SHARED __attribute__((section("etched_imv"), aligned(8)))
#define ETCHED_DENSE  __attribute__((section("etched_dense")))

/*
 * ETCH_INIT marks a function that only runs before the first etch_sync of the objects it stores to, such as a parser
 * of a configuration that is called through a table of keywords. Its stores, the addresses that it lets escape, and
 * those of functions that only such functions call do not keep etch_sync from arming a field. The program promises
 * that nothing stores through these addresses later.
 */
#define ETCH_INIT __attribute__((section("etch_init"), noinline))

/*
 * ETCH_TABLE marks a table that holds the addresses of etched variables, as a program's table of settings does:
 *
 *     static struct { const char *name; int *variable; } settings[] ETCH_TABLE = { { "work_mem", &work_mem }, ... };
 *
 * The program promises that after the first etch_sync it only reads through the addresses that it loads from the
 * table, or passes them to functions of this header. Without the mark such an address counts as one that anybody may
 * store through. The table lies in a section of its own. In position-independent code that section is writable even
 * if the table is const, because its addresses are relocated when the program starts.
 */
#define ETCH_TABLE         __attribute__((section(ETCH_SEC_TABLE ETCH_TEXT_(__LINE__) "." ETCH_TEXT_(__COUNTER__))))
#define ETCH_TEXT_(x)      ETCH_TEXT_ONCE_(x)
#define ETCH_TEXT_ONCE_(x) #x

/*
 * ETCH_DECLARE(symbol): declares `symbol` as etched in a file that uses but does not define it. Needed only for objects
 * of another shared object: inside one module the link step finds every use by itself. At file scope.
 */
#define ETCH_DECLARE(symbol)                                 \
	__asm__(".pushsection .etch.declare,\"e\",@progbits\n\t" \
	        ".asciz \"" #symbol "\"\n\t"                     \
	        ".popsection\n\t.globl " ETCH_PART_OTHERS_SYMBOL)

/* ---- immediate values: imv_read and imv_set ------------------------------- */

/*
 * DEFINE_IMV(type, name) = init;   type: 1, 2, 4 or 8 bytes, scalar or pointer
 * DECLARE_IMV(type, name);         for use in other files and modules
 * DECLARE_IMV_LOCAL(type, name);   for use in other files of the same module, if it
 *                                  is not exported: -fPIC code then needs no GOT
 * EXPORT_IMV_SYMBOL(name);         after DEFINE_IMV: visible to other modules,
 *                                  also with -fvisibility=hidden (which clang
 *                                  never applies to a DEFINE_IMV)
 * The variable is name__imv. Each lies in an 8-byte cell of its own. A program that is not compiled with -fPIC and
 * reads a shared object's variable may get a copy of it in its own .bss (R_X86_64_COPY; gcc makes such copies in a
 * PIE too). Then all reads of it are loads, in every module, and a set is a store.
 */
#define DEFINE_IMV(type, name) \
	__typeof__(type) name##__imv __attribute__((section("etched_imv"), aligned(8))) ETCH_IMV_VISIBLE_
#define DECLARE_IMV(type, name) \
	ETCH_DECLARE(name##__imv);  \
	extern __typeof__(type) name##__imv
#define DECLARE_IMV_LOCAL(type, name) \
	ETCH_DECLARE(name##__imv);        \
	extern __typeof__(type) name##__imv __attribute__((visibility("hidden")))
#ifdef __clang__ /* clang rejects a visibility attribute after the definition */
#define ETCH_IMV_VISIBLE_       __attribute__((visibility("default")))
#define EXPORT_IMV_SYMBOL(name) extern __typeof__(name##__imv) name##__imv
#else
#define ETCH_IMV_VISIBLE_
#define EXPORT_IMV_SYMBOL(name) extern __typeof__(name##__imv) name##__imv __attribute__((visibility("default")))
#endif

/* Reads the value from memory. For code that must not contain a site. */
#ifdef __cplusplus
#define _imv_read(name) (const_cast<const volatile __typeof__(name##__imv) &>(name##__imv))
#else
#define _imv_read(name) (*(const volatile __typeof__(name##__imv) *)&name##__imv)
#endif

/*
 * Reads the value, from the instruction stream once the site is armed. It is one load instruction of 6 bytes (7 for
 * 8-byte types), placed with 0 to 6 bytes of padding such that it never crosses an 8-byte boundary, so one store can
 * replace it while threads run. A type of 1 or 2 bytes reads its whole cell with a 4-byte load, which is shorter than
 * movzx and writes no partial register. The register is one of the eight that need no REX prefix, which would make
 * the load longer.
 */
#define imv_read(name)                                                                                 \
	(__extension__({                                                                                   \
		union {                                                                                        \
			__typeof__(name##__imv) value;                                                             \
			ETCH_WORD_(sizeof(name##__imv)) word;                                                      \
		} etch_v_;                                                                                     \
		(void)sizeof(char[ETCH_SCALAR_SIZE_(name##__imv) ? 1 : -1]);                                   \
		if (sizeof(name##__imv) == 8)                                                                  \
			__asm__ __volatile__(ETCH_PAD_R12_ ".p2align 3,,6\n\t"                                     \
			                                   "%{disp32%} {movq %1, %0|mov %0, %q1}"                  \
			                     : "=r"(etch_v_.word)                                                  \
			                     : "m"(name##__imv));                                                  \
		else                                                                                           \
			__asm__ __volatile__(ETCH_PAD_R12_ ETCH_PAD_BASE_ ".p2align 3,,5\n\t"                      \
			                                                  "%{disp32%} {movl %1, %k0|mov %k0, %k1}" \
			                     : "=R"(etch_v_.word)                                                  \
			                     : "m"(name##__imv));                                                  \
		etch_v_.value;                                                                                 \
	}))
/* The type that imv_read loads: 8 bytes for values of 8, else 4 bytes, so that narrow values need no merging with the
 * rest of the register. */
#ifdef __cplusplus
#define ETCH_WORD_(bytes) typename etch_word_<bytes>::type
#else
#define ETCH_WORD_(bytes) __typeof__(__builtin_choose_expr((bytes) == 8, 0ul, 0u))
#endif
/* Other sizes give an array of -1 elements, which is a compile-time error. */
#define ETCH_SCALAR_SIZE_(x) (sizeof(x) == 1 || sizeof(x) == 2 || sizeof(x) == 4 || sizeof(x) == 8)
/* From the GOT, the 4-byte load is 7 bytes long if the address register needs a REX prefix; any load is 8 bytes long
 * if that register is r12. */
#ifdef __pic__
#define ETCH_PAD_BASE_                   \
	".irp etch_r,8,9,10,11,13,14,15\n\t" \
	".ifc %1,(%%r\\etch_r)\n\t.p2align 3,,6\n\t.endif\n\t.endr\n\t"
#define ETCH_PAD_R12_ ".ifc %1,(%%r12)\n\t.p2align 3\n\t.endif\n\t"
#else
#define ETCH_PAD_BASE_ ""
#define ETCH_PAD_R12_  ""
#endif

/* Sets the immediate value in memory and at all its sites. Returns 0 or an etch_error. It does what
 * etch_set(&name__imv, v) does, but a static program links no more of libetch for it than imv_read needs. */
#ifdef __cplusplus
#define imv_set(name, v) \
	(etch_set_as_<typename etch_plain_<decltype(name##__imv)>::type>(etch_imv_set_bytes, ETCH_ADDR(name##__imv), (v)))
#else
#define imv_set(name, v) ETCH_SET_(etch_imv_set_bytes, name##__imv, v)
#endif

/* ---- sets ---------------------------------------------------------------- */

/*
 * The address of an etched object, formed by an instruction that the tool recognizes: a lea with a ds prefix, which
 * no compiler emits. Any other way to form the address counts as an escape. Pass the result only to functions of this
 * header.
 */
#define ETCH_ADDR(lvalue)                                                                                         \
	(__extension__({                                                                                              \
		void *etch_a_;                                                                                            \
		__asm__ __volatile__(".byte 0x3e\n\t{lea %1, %0|lea %0, %1}" : "=r"(etch_a_), "+m"(ETCH_BYTES_(lvalue))); \
		etch_a_;                                                                                                  \
	}))
/* ETCH_AT_ is the object that the argument of etch_set and the like points to. If the program passes a value instead
 * of its address, ETCH_TAKES_ reports a single error, which says what is wrong. The cast in ETCH_AT_ keeps each use of
 * the argument in a macro from being an error of its own. */
#ifdef __cplusplus
#define ETCH_AT_(p) (*reinterpret_cast<typename etch_pointer_<decltype(p)>::type>(p))
#define ETCH_TAKES_(name, p)                              \
	static_assert(etch_pointer_<decltype(p)>::is_address, \
	              name " takes an address: write " name "(&variable, ...), not " name "(variable, ...)")
#else
#define ETCH_IS_ADDRESS_(p) (__builtin_classify_type(p) == __builtin_classify_type((void *)0))
#define ETCH_AT_(p)         (*__builtin_choose_expr(ETCH_IS_ADDRESS_(p), (p), (char *)0))
#define ETCH_TAKES_(name, p)            \
	_Static_assert(ETCH_IS_ADDRESS_(p), \
	               name " takes an address: write " name "(&variable, ...), not " name "(variable, ...)")
#endif
/* ETCH_ADDR's "+m" tells the compiler that the object is not constant, however little of the program stores to it (a
 * static object, or any object with -flto). After a set, etch_changed_ tells it to discard the values that it has
 * read before. */
#ifdef __cplusplus
#define ETCH_BYTES_(lvalue) const_cast<char &>(reinterpret_cast<const volatile char &>(lvalue))
#else
#define ETCH_BYTES_(lvalue) (*(char *)&(lvalue))
#endif
static inline __attribute__((always_inline)) int etch_changed_(int error)
{
	__asm__ __volatile__("" ::: "memory");
	return error;
}

/*
 * An object or field that is set more than 20 times within a second becomes loads, so that further sets are plain
 * stores. An etch_sync arms it again after 100 ms; each further time the wait is twice as long, up to an hour.
 *
 * etch_set(&object.field, value): stores the value (converted to the field's type) in memory and in every site that
 * reads any of its bytes. Changes all sites or none. Returns 0 or an etch_error. If the object is not armed, the set
 * is a plain store. A site whose instruction cannot hold a new 64-bit value is switched back to its load, and to an
 * immediate again once a value fits.
 */
#ifdef __cplusplus
#define etch_set(p, v)                                                                                                \
	(__extension__({                                                                                                  \
		ETCH_TAKES_("etch_set", p);                                                                                   \
		etch_set_as_<typename etch_plain_<decltype(ETCH_AT_(p))>::type>(etch_set_bytes, ETCH_ADDR(ETCH_AT_(p)), (v)); \
	}))
#else
#define etch_set(p, v)                             \
	(__extension__({                               \
		ETCH_TAKES_("etch_set", p);                \
		ETCH_SET_(etch_set_bytes, ETCH_AT_(p), v); \
	}))
/* The type of a statement expression is unqualified, so a volatile field is set like any other. */
#define ETCH_SET_(function, lvalue, v) \
	(__extension__ etch_changed_(function(ETCH_ADDR(lvalue), (__typeof__(({ lvalue; }))[1]){(v)}, sizeof(lvalue))))
#endif

/*
 * etch_sync(&object, sizeof object): makes every site in the range agree with memory and arms the objects that
 * overlap the range: from then on they are read-only except for etch_set. It is for objects that start unarmed
 * because the program initializes them with plain stores. If an object is armed by field (docs/live-patching.md), the
 * fields to which code stores after the calls of etch_sync stay loads, and the pages with such a field stay writable;
 * `etch inspect fields` tells which. Returns 0, or an etch_error (then nothing has changed). 0 does not mean that
 * every site is an immediate now: etch_state tells how many are, and why others are not.
 */
#define etch_sync(p, size)                               \
	(__extension__({                                     \
		ETCH_TAKES_("etch_sync", p);                     \
		etch_sync_bytes(ETCH_ADDR(ETCH_AT_(p)), (size)); \
	}))

/*
 * etch_release(&object, sizeof object): the opposite of etch_sync. Sites become loads again, and memory becomes
 * writable: for a phase of plain stores, such as shutdown.
 */
#define etch_release(p, size)                               \
	(__extension__({                                        \
		ETCH_TAKES_("etch_release", p);                     \
		etch_release_bytes(ETCH_ADDR(ETCH_AT_(p)), (size)); \
	}))

/*
 * etch_seal(&object, sizeof object): does what etch_sync does, and also arms the sites that cannot be changed while
 * threads run, and every field, because the program says that nothing stores to the object any more; a plain store
 * ends the program. The sites are calls that are to be replaced by more than one instruction (etch/pv.h), and sites
 * that cross an 8-byte boundary in text whose pages cannot be swapped. For the end of a program's initialization,
 * before it creates threads: returns ETCH_ETHREADS if there are other threads. From then on a set, an etch_sync or an
 * etch_release of these objects that would have to change such a site returns ETCH_ETHREADS while the process has
 * other threads, and changes nothing. etch_release ends the sealed state. A joined thread may count for a moment
 * longer, until the kernel has reaped it; threads of other processes that share this one's memory (vfork, CLONE_VM)
 * are not counted.
 */
#define etch_seal(p, size)                               \
	(__extension__({                                     \
		ETCH_TAKES_("etch_seal", p);                     \
		etch_seal_bytes(ETCH_ADDR(ETCH_AT_(p)), (size)); \
	}))

/*
 * A STORE THAT NOBODY FORESAW. The page of an armed object is read-only. A plain store to it faults, and libetch's
 * handler of SIGSEGV gives up the constants of the page: every site that reads from the page becomes a load, in all
 * modules, and the page becomes writable; then the store is executed. No thread ever reads an old value. A later
 * etch_sync arms the objects again, unless the page is held back: for 100 ms after the first time, and twice as long
 * after each further time, up to an hour. etch_state tells how long. Two kinds of objects are not given up, because a
 * store to them would become a call: ops tables, that is, objects that a rewritten call goes through, and sealed
 * objects. A store to one of them, or to a page that holds one, ends the program with a message.
 *
 * The environment variable ETCH_STRAY holds words, separated by commas: `die` ends the program at any such store, for
 * tests; `warn` writes a line to standard error when a page is given up for the first time; `calls` gives up ops
 * tables and sealed objects too; `eager` holds nothing back. A set-user-ID program ignores it. The mode is a sum of
 * the constants below. etch_stray adds those in `set` to the mode, takes those in `clear` away from it, and returns
 * the previous mode. It may be called at any time, from any thread and in signal handlers.
 */
enum etch_stray_mode {
	ETCH_STRAY_DIE = 1,     /* nothing is given up */
	ETCH_STRAY_WARN = 2,    /* the first time of each page is reported */
	ETCH_STRAY_CALLS = 4,   /* ops tables and sealed objects are given up too */
	ETCH_STRAY_CHAINED = 8, /* the program's own handler of SIGSEGV calls etch_stray_store */
	ETCH_STRAY_EAGER = 16,  /* nothing is held back, however often it is given up or set; for tests and benchmarks */
};
unsigned etch_stray(unsigned set, unsigned clear);

/*
 * etch_stray_store(info, context): for a program that installs a handler of SIGSEGV after libetch's, with SA_SIGINFO,
 * and does not call the handler that was there before. The arguments are those of the handler. Returns 1 if a plain
 * store to a page of armed objects faulted and the page was given up: let the handler return, and the store is
 * executed again. Else returns 0. Async-signal-safe.
 */
int etch_stray_store(const void *siginfo, const void *context);

/* The functions that the macros above call; the addresses are those that ETCH_ADDR gives. */
int etch_set_bytes(void *object, const void *value, size_t size);
int etch_imv_set_bytes(void *object, const void *value, size_t size);
#ifdef __cplusplus
extern "C++" {
template <class T>
inline __attribute__((always_inline)) int etch_set_as_(int (*set)(void *, const void *, size_t), void *object, T value)
{
	return etch_changed_(set(object, &value, sizeof(value)));
}
}
#endif
int etch_sync_bytes(const void *object, size_t size);
/*
 * etch_sync_all does what etch_sync does for every etched object of every loaded module; etch_sync_module does it for
 * those of the module that holds the address `in`, which may be of code (a function, for instance) or of data. An
 * object that cannot be armed does not keep others from being armed. Both return 0 or the first error.
 */
int etch_sync_all(void);
int etch_sync_module(const void *in);
/*
 * Arms again the objects that were given up or set too often and are no longer held back; it does nothing else. It is
 * for the loop of a server, because libetch has no thread of its own. A call that has nothing to arm costs a
 * comparison, and if something is held back, also a reading of the clock. Returns 0 or the first error: sites that
 * could not be armed stay loads, and later calls try them again. From any thread; not in a callback of etch_verify.
 */
int etch_tick(void);
int etch_seal_bytes(const void *object, size_t size);
int etch_release_bytes(const void *object, size_t size);

/*
 * Makes many changes as one transaction: all take effect or none does, with one membarrier and one
 * change of protection per run of pages that are near each other.
 *
 *     int on = 1; long n = 64;
 *     struct etch_change c[] = {
 *             ETCH_CHANGE(&verbose__imv, &on), ETCH_CHANGE(&cfg.batch, &n) };
 *     int err = etch_set_batch(c, 2);
 *
 * Where two changes of a batch overlap, the later one wins. All stores to memory precede the first
 * change of a site. So a function that the batch installs at a call site finds the data that the
 * same batch sets; the previous function finds them too if it is still running.
 */
struct etch_change {
	void *object;      /* from ETCH_ADDR */
	const void *value; /* `size` bytes, read before the call returns */
	size_t size;       /* bytes */
};
#define ETCH_CHANGE(p, value_p)                  \
	{                                            \
		ETCH_ADDR(*(p)), (value_p), sizeof(*(p)) \
	}
#define IMV_CHANGE(name, value_p) ETCH_CHANGE(&name##__imv, (value_p))
int etch_set_batch(const struct etch_change *changes, size_t count);
#ifndef ETCH_NO_MODULE
#define etch_set_batch(changes, count) etch_changed_((etch_set_batch)(changes, count))
#endif

/* ---- inspection ---------------------------------------------------------- */

/*
 * Compares every armed site of every loaded module with memory. Returns the number of sites that differ (0: none), or
 * a negative etch_error. If a site holds a debugger's 0xcc, its other bytes are compared. `report`, if not null, is
 * called for each site that differs, under libetch's lock: it must not call etch, the dynamic linker (dlopen, dladdr)
 * or fork.
 */
long etch_verify(void (*report)(void *arg, const void *site, const void *object), void *arg);

/* The sites that read some bytes of an object. The caller sets `size`. */
struct etch_state {
	size_t size;           /* sizeof(struct etch_state), so that fields can be added */
	unsigned long sites;   /* loads of these bytes in the code of all loaded modules */
	unsigned long armed;   /* how many of these are immediates now */
	unsigned long unfit;   /* how many are armed loads because their instruction cannot hold the 64-bit value */
	unsigned long unarmed; /* how many are loads because their field or object is not armed */
	unsigned long fixed;   /* how many are loads because they can never be patched live, except by etch_seal */
	char text[128]; /* the same as a sentence: "459 sites: 274 are immediates; 162 hold values that do not fit" */
	/* The pages of the bytes, since the module was loaded: */
	unsigned long given_up;  /* how many times a plain store has made libetch give up the constants of these pages */
	unsigned long held_back; /* milliseconds until etch_sync may arm all of them again; 0: it may now */
	const void *given_up_by; /* the instruction of the last such store; null if there was none */
	const void *given_up_at; /* the address that it stored to */
	unsigned long set_often; /* how many of the objects or fields are loads because they were set too often */
};
/*
 * etch_state(&object, sizeof object, &state): tells what etch_sync has done. Looks at every site of all modules,
 * under the lock: for logs and tests. Returns 0; ETCH_EINVAL; ETCH_ENOTETCHED; or ETCH_EFORMAT if a malformed module
 * was ignored.
 */
#define etch_state(p, size, state) etch_state_bytes(ETCH_ADDR(*(p)), (size), (state))
int etch_state_bytes(const void *object, size_t size, struct etch_state *state);

/*
 * Writes the state of every etched variable of all loaded modules to a file descriptor, one line for each: its name,
 * the text of etch_state, how long it is held back, and the instruction of the last store that made libetch give its
 * page up, as an address for addr2line(1):
 *
 *     settings: 459 sites: 274 are immediates; 185 read what is not armed; 2 plain stores gave them up; held back for
 *     80 ms; the last one by 0x1b2c of the program to settings+16
 *
 * For a signal handler, a debug command of a server, or a test. Returns 0; ETCH_EINVAL if the descriptor cannot be
 * written to; or ETCH_EBUSY in a callback of etch_verify. From any thread; async-signal-safe.
 */
int etch_dump(int fd);

/* Counts over all loaded modules, for logs and tests; libetch's own table is not counted. The caller sets `size`. */
struct etch_info {
	size_t size;           /* sizeof(struct etch_info), so that fields can be added */
	unsigned long modules; /* registered modules */
	unsigned long sites;   /* entries of their __imv tables */
	unsigned long armed;   /* of these, immediates now */
	unsigned long loads;   /* of these, loads now */
	unsigned long fixed;   /* of the loads: those that can never be patched live (their pages cannot be swapped) */
	unsigned long objects; /* etched objects */
	unsigned long armed_objects;
	unsigned long patched_at_start;   /* sites patched by libetch while loading modules */
	unsigned long readonly_pages;     /* pages of etched objects that are read-only now */
	unsigned long calls;              /* entries of the modules' __pv_sites tables: calls and tail jumps */
	unsigned long calls_direct;       /* of these, direct calls and jumps now */
	unsigned long calls_inline;       /* of these, a nop, a return or a function's instructions now */
	unsigned long calls_indirect;     /* of these, indirect now */
	unsigned long calls_fixed;        /* of these, those that can never be patched live, as `fixed` */
	unsigned long sealed_objects;     /* etched objects under etch_seal */
	unsigned long calls_in_place;     /* sites of pv_call_inline */
	unsigned long calls_in_place_now; /* of these, a nop now: the case compiled in place is executed */
	unsigned long by_swap;            /* of the sites: those that cross an 8-byte word, so that their pages are
	                                   * swapped */
	unsigned long calls_by_swap;      /* of the calls: those that cross an 8-byte word, so that their pages are
	                                   * swapped */
	unsigned long unfit;           /* of the loads: armed, but their instruction cannot hold the present 64-bit value */
	unsigned long branches;        /* static branches (etch/branch.h) */
	unsigned long branches_static; /* of these, static now: a nop or a jump that leads to the code for the value */
	unsigned long marks;           /* markers (etch/mark.h) */
	unsigned long marks_on;        /* of these, those that call attached functions now */
	unsigned long fields;          /* the fields of the objects that are armed by field */
	unsigned long fields_armed;    /* of these, armed now */
	unsigned long private_text;    /* bytes of the modules' code that are this process's own copies, because something
	                                * was stored there; 0 if /proc/self/pagemap cannot be read */
};
/* Returns 0; ETCH_EINVAL; or ETCH_EFORMAT if a malformed module was ignored. */
#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* g++ warns because the function has the name of the type */
#endif
int etch_info(struct etch_info *info);
#ifdef __cplusplus
#pragma GCC diagnostic pop
#endif

/* ---- what the header emits into each object file --------------------------- */

/*
 * The constructor below calls these; they are not for programs. Bounds of the module's sections, in the order __imv,
 * __etch_obj, etched, etched_imv, __pv_sites, __pv_native, __pv_inline, __etch_branch, __etch_mark, etched_dense;
 * null for a section that the module lacks. Addresses inside etched sections may be set, by a plain store, even in a
 * file that the tool has not seen. Headers that name the parts of libetch that they need call v3; older ones call v2,
 * or v1.
 */
struct etch_bounds {
	const void *start, *stop;
};
void etch_module_load_v3(const struct etch_module *module, const struct etch_bounds *bounds, unsigned count);
void etch_module_load_v2(const struct etch_module *module, const struct etch_bounds *bounds, unsigned count);
void etch_module_load_v1(const struct etch_module *module, const void *imv_start, const void *imv_stop,
                         const void *obj_start, const void *obj_stop, const void *etched_start, const void *etched_stop,
                         const void *scalar_start, const void *scalar_stop);
void etch_module_unload_v1(const struct etch_module *module);

#ifndef ETCH_NO_MODULE /* defined by files that are not a module of their own, such as most of libetch */
#define ETCH_HIDDEN_WEAK_ __attribute__((weak, visibility("hidden")))

/* The linker defines these from the section names; they are null where the module has no such section. */
extern const char etch_imv_start_[] __asm__("__start___imv") ETCH_HIDDEN_WEAK_;
extern const char etch_imv_stop_[] __asm__("__stop___imv") ETCH_HIDDEN_WEAK_;
extern const char etch_obj_start_[] __asm__("__start___etch_obj") ETCH_HIDDEN_WEAK_;
extern const char etch_obj_stop_[] __asm__("__stop___etch_obj") ETCH_HIDDEN_WEAK_;
extern const char etch_pv_start_[] __asm__("__start___pv_sites") ETCH_HIDDEN_WEAK_;
extern const char etch_pv_stop_[] __asm__("__stop___pv_sites") ETCH_HIDDEN_WEAK_;
extern const char etch_native_start_[] __asm__("__start___pv_native") ETCH_HIDDEN_WEAK_;
extern const char etch_native_stop_[] __asm__("__stop___pv_native") ETCH_HIDDEN_WEAK_;
extern const char etch_inline_start_[] __asm__("__start___pv_inline") ETCH_HIDDEN_WEAK_;
extern const char etch_inline_stop_[] __asm__("__stop___pv_inline") ETCH_HIDDEN_WEAK_;
extern const char etch_branch_start_[] __asm__("__start___etch_branch") ETCH_HIDDEN_WEAK_;
extern const char etch_branch_stop_[] __asm__("__stop___etch_branch") ETCH_HIDDEN_WEAK_;
extern const char etch_mark_start_[] __asm__("__start___etch_mark") ETCH_HIDDEN_WEAK_;
extern const char etch_mark_stop_[] __asm__("__stop___etch_mark") ETCH_HIDDEN_WEAK_;
/* Declared again in assembly, because gcc 12 forgets the visibility of a weak declaration if the file does not define
 * the symbol; a module without sites would then use another module's table. */
__asm__(".weak __start___imv, __stop___imv, __start___etch_obj, __stop___etch_obj\n\t"
        ".hidden __start___imv, __stop___imv, __start___etch_obj, __stop___etch_obj\n\t"
        ".weak __start___pv_sites, __stop___pv_sites, __start___pv_native, __stop___pv_native\n\t"
        ".hidden __start___pv_sites, __stop___pv_sites, __start___pv_native, __stop___pv_native\n\t"
        ".weak __start___pv_inline, __stop___pv_inline\n\t"
        ".hidden __start___pv_inline, __stop___pv_inline\n\t"
        ".weak __start___etch_branch, __stop___etch_branch, __start___etch_mark, __stop___etch_mark\n\t"
        ".hidden __start___etch_branch, __stop___etch_branch, __start___etch_mark, __stop___etch_mark");
/* Bounds of the etched sections, null without such a section. They are loaded through the GOT, because the symbols
 * may be undefined, and with the ds prefix of ETCH_ADDR, so that the first object's address does not count as
 * escaped. */
#define ETCH_BOUND_(symbol)                                                \
	(__extension__({                                                       \
		const void *etch_a_;                                               \
		__asm__(".weak " symbol "\n\t.hidden " symbol "\n\t.byte 0x3e\n\t" \
		        "{movq " symbol "@GOTPCREL(%%rip), %0"                     \
		        "|mov %0, qword ptr [rip + " symbol "@GOTPCREL]}"          \
		        : "=r"(etch_a_));                                          \
		etch_a_;                                                           \
	}))

extern const struct etch_module etch_module_ ETCH_HIDDEN_WEAK_ __attribute__((section("__etch_mod")));
__attribute__((used)) const struct etch_module etch_module_ = {
	ETCH_MODULE_MAGIC, ETCH_MODULE_VERSION, sizeof(struct etch_module), 0, 0, 0, 0, 0, 0, 0, 0};

/* The linker keeps one definition per module. The constructor is called once per translation unit, and only the first
 * call counts. Priority 101 makes it run before the program's own constructors, so that the protection applies to
 * them too. The priority is on the first declaration, because gcc 12 ignores one that only the definition has. */
ETCH_HIDDEN_WEAK_ __attribute__((constructor(101))) void etch_module_ctor_(void);
void etch_module_ctor_(void)
{
	const struct etch_bounds bounds[] = {{etch_imv_start_, etch_imv_stop_},
	                                     {etch_obj_start_, etch_obj_stop_},
	                                     {ETCH_BOUND_("__start_etched"), ETCH_BOUND_("__stop_etched")},
	                                     {ETCH_BOUND_("__start_etched_imv"), ETCH_BOUND_("__stop_etched_imv")},
	                                     {etch_pv_start_, etch_pv_stop_},
	                                     {etch_native_start_, etch_native_stop_},
	                                     {etch_inline_start_, etch_inline_stop_},
	                                     {etch_branch_start_, etch_branch_stop_},
	                                     {etch_mark_start_, etch_mark_stop_},
	                                     {ETCH_BOUND_("__start_etched_dense"), ETCH_BOUND_("__stop_etched_dense")}};

	etch_module_load_v3(&etch_module_, bounds, sizeof(bounds) / sizeof(bounds[0]));
}
ETCH_HIDDEN_WEAK_ __attribute__((destructor(101))) void etch_module_dtor_(void);
void etch_module_dtor_(void) { etch_module_unload_v1(&etch_module_); }
#undef ETCH_HIDDEN_WEAK_
#undef ETCH_BOUND_

/* Rounds this file's part of the etched sections up to whole pages. Subsection 8000 comes after all objects. */
__asm__(".pushsection etched,\"aw\",@progbits\n\t"
        ".balign 4096\n\t"
        ".subsection 8000\n\t"
        ".balign 4096\n\t"
        ".popsection\n\t"
        ".pushsection etched_imv,\"aw\",@progbits\n\t"
        ".balign 4096\n\t"
        ".subsection 8000\n\t"
        ".balign 4096\n\t"
        ".popsection");
#endif /* ETCH_NO_MODULE */

#ifdef __cplusplus
}
#endif

#endif
