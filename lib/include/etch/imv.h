/* SPDX-License-Identifier: MIT */
/*
 * etch/imv.h: values that live in the instruction stream.
 *
 *     #include <etch/imv.h>
 *
 *     DEFINE_IMV(int, verbose) = 0;        // a scalar, read with imv_read
 *     ETCHED struct config cfg = { ... };  // any variable, read as ever
 *
 *     if (unlikely(imv_read(verbose))) ...
 *     imv_set(verbose, 1);                 // every site, while all threads run
 *     etch_set(&cfg.batch, 64);
 *
 *     cc -c app.c && etch rewrite app.o
 *     cc app.o -letch -o app && etch rewrite app
 *
 * The names come from Mathieu Desnoyers' immediate values for Linux.  A program
 * that no tool has seen works the same and reads memory.  C11 and later (GNU
 * keywords in their __x__ spelling), C++11 and later; gcc and clang.
 *
 * WHAT A SET PROMISES.  When imv_set or etch_set has returned 0,
 *   1. memory holds the new value;
 *   2. every site that any thread executes from then on gives the new value,
 *      and so does every plain or imv_read access that is not hoisted by the
 *      compiler (imv_read never is);
 *   3. what the setting thread wrote before the set is visible to a thread that
 *      has read the new value from a site: the set orders its earlier stores
 *      before the new value, as a release store does (x86-64 keeps stores in
 *      order, and all threads pass a full barrier before the set returns).
 * While it runs, a reader sees the old or the new value of each site, whole,
 * never a mixture of their bytes; two sites may differ for that time.  Sets are
 * serialized: two sets of one object end in the same order at all its sites.
 * On any other return value nothing has changed: neither memory nor a site.
 *
 * Thread safety: all functions may be called from any thread at any time, also
 * while others dlopen, dlclose or fork.  Signal safety: only imv_read,
 * _imv_read and etch_strerror may be used in a signal handler; nor may a handler
 * call fork(3) where it could interrupt a set, for which it would wait (_Fork(3)
 * does not).
 */
#ifndef ETCH_IMV_H
#define ETCH_IMV_H

#include <stddef.h>
#include <etch/format.h>

#if !defined(__x86_64__) || defined(__ILP32__)
#error "etch rewrites x86-64 code (LP64)"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors -------------------------------------------------------------- */

/* What a call returns: 0, or one of these. Nothing was changed on an error. */
enum etch_error {
	ETCH_OK = 0,
	ETCH_EINVAL = 1,     /* null pointer, size 0, or a range over the end of its object */
	ETCH_ENOTETCHED = 2, /* no etched object of a loaded module holds this address */
	ETCH_EBUSY = 3,      /* a site holds 0xcc: a debugger or a uprobe is at work there */
	ETCH_ECODE = 4,      /* a site holds bytes that neither etch nor the compiler put there */
	ETCH_EPERM = 5,      /* the system refuses to change the protection of text or data
	                      * (PR_SET_MDWE, SELinux execmod, seccomp) */
	ETCH_ENOSYNC = 6,    /* membarrier(2) cannot synchronize the other threads (seccomp, old kernel) */
	ETCH_ENOMEM = 7,     /* out of memory for the work list, or out of mappings */
	ETCH_EFORMAT = 8,    /* a table of a loaded module is malformed or of another version */
	ETCH_ETHREADS = 9,   /* a site can only be changed while the process has one thread (etch_seal) */
};

/* The English sentence for an etch_error. Static storage, never null, async-signal-safe. */
const char *etch_strerror(int error);

/* ---- marking objects ----------------------------------------------------- */

/*
 * ETCHED marks a variable: static or global, of any type but thread-local or
 * const. Each gets pages of its own, so that it can be read-only while its
 * neighbours are not. For many small ones use one struct, DEFINE_IMV, or
 * ETCHED_SHARED: those lie together, and are read-only only while every one
 * that the same source file defines is armed.
 */
#define ETCHED __attribute__((section("etched"), aligned(4096)))
#define ETCHED_SHARED __attribute__((section("etched_imv"), aligned(8)))

/*
 * Says, in a file that uses but does not define it, that `symbol` is etched.
 * Needed only for objects of another shared object: inside one module the link
 * step finds every use by itself. At file scope.
 */
#define ETCH_DECLARE(symbol)                                                   \
	__asm__(".pushsection .etch.declare,\"e\",@progbits\n\t"               \
	        ".asciz \"" #symbol "\"\n\t"                                   \
	        ".popsection")

/* ---- the classic API ----------------------------------------------------- */

/*
 * DEFINE_IMV(type, name) = init;   type: 1, 2, 4 or 8 bytes, scalar or pointer
 * DECLARE_IMV(type, name);         for use in other files and modules
 * DECLARE_IMV_LOCAL(type, name);   for use in other files of the same module, where
 *                                  it is not exported: spares -fPIC code the GOT
 * EXPORT_IMV_SYMBOL(name);         after DEFINE_IMV: visible to other modules,
 *                                  also with -fvisibility=hidden (which clang
 *                                  never applies to a DEFINE_IMV)
 * The variable is name__imv. Each lies in an 8-byte cell of its own.
 * A program that is not compiled with -fPIC and reads a shared object's variable
 * may get a copy of it in its own .bss (R_X86_64_COPY; gcc does so in a PIE too):
 * then all reads of it are loads, in every module, and a set is a store.
 */
#define DEFINE_IMV(type, name) \
	__typeof__(type) name##__imv __attribute__((section("etched_imv"), aligned(8))) ETCH_IMV_VISIBLE_
#define DECLARE_IMV(type, name)    \
	ETCH_DECLARE(name##__imv); \
	extern __typeof__(type) name##__imv
#define DECLARE_IMV_LOCAL(type, name) \
	ETCH_DECLARE(name##__imv);    \
	extern __typeof__(type) name##__imv __attribute__((visibility("hidden")))
#ifdef __clang__ /* takes no visibility after the definition */
#define ETCH_IMV_VISIBLE_ __attribute__((visibility("default")))
#define EXPORT_IMV_SYMBOL(name) extern __typeof__(name##__imv) name##__imv
#else
#define ETCH_IMV_VISIBLE_
#define EXPORT_IMV_SYMBOL(name) \
	extern __typeof__(name##__imv) name##__imv __attribute__((visibility("default")))
#endif

/* The value, from memory. For code that must not carry a site. */
#define _imv_read(name) (*(const volatile __typeof__(name##__imv) *)&name##__imv)

/*
 * The value, from the instruction stream where it has been etched. One load
 * instruction, 6 bytes (7 for 8-byte types), placed with 0 to 6 bytes of
 * padding so that it never crosses an 8-byte boundary and can be replaced by
 * one store while threads run. A type of 1 or 2 bytes reads its whole cell with
 * a 4-byte load, which is shorter than movzx and leaves no partial register.
 * The registers are the eight without a REX prefix, for the same reason.
 */
#define imv_read(name)                                                                \
	(__extension__({                                                              \
		union {                                                               \
			__typeof__(name##__imv) value;                                \
			unsigned int u32;                                             \
			unsigned long u64;                                            \
		} etch_v_;                                                            \
		(void)sizeof(char[ETCH_SCALAR_SIZE_(name##__imv) ? 1 : -1]);          \
		if (sizeof(name##__imv) == 8)                                         \
			__asm__ __volatile__(ETCH_PAD_R12_ ".p2align 3,,6\n\t"        \
			                     "%{disp32%} {movq %1, %0|mov %0, %q1}"   \
			                     : "=r"(etch_v_.u64)                      \
			                     : "m"(name##__imv));                     \
		else                                                                  \
			__asm__ __volatile__(ETCH_PAD_R12_ ETCH_PAD_BASE_                     \
			                     ".p2align 3,,5\n\t"                     \
			                     "%{disp32%} {movl %1, %k0|mov %k0, %k1}" \
			                     : "=R"(etch_v_.u32)                      \
			                     : "m"(name##__imv));                     \
		etch_v_.value;                                                        \
	}))
/* An immediate value has 1, 2, 4 or 8 bytes: an array of -1 elements says no. */
#define ETCH_SCALAR_SIZE_(x) \
	(sizeof(x) == 1 || sizeof(x) == 2 || sizeof(x) == 4 || sizeof(x) == 8)
/* Where the address comes from the GOT, in a register that needs a REX prefix, the
 * 4-byte load is 7 bytes long, and any load is 8 where that register is r12. */
#ifdef __pic__
#define ETCH_PAD_BASE_                                           \
	".irp etch_r,8,9,10,11,13,14,15\n\t"                     \
	".ifeqs \"%1\",\"(%%r\\etch_r)\"\n\t.p2align 3,,6\n\t.endif\n\t.endr\n\t"
#define ETCH_PAD_R12_ ".ifeqs \"%1\",\"(%%r12)\"\n\t.p2align 3\n\t.endif\n\t"
#else
#define ETCH_PAD_BASE_ ""
#define ETCH_PAD_R12_ ""
#endif

/* Sets the immediate value everywhere. Returns 0 or an etch_error. */
#define imv_set(name, v) etch_set(&name##__imv, (v))

/* ---- sets ---------------------------------------------------------------- */

/*
 * The address of an etched object, taken in a way that the tool knows to be
 * lawful: a lea with a ds prefix, which no compiler emits. An address taken in
 * any other way counts as an escape, and keeps the object's sites loads until
 * etch_sync. Pass the result to functions of this header only.
 */
#define ETCH_ADDR(lvalue)                                                                   \
	(__extension__({                                                                    \
		void *etch_a_;                                                              \
		__asm__ __volatile__(".byte 0x3e\n\t{lea %1, %0|lea %0, %1}"                \
		                     : "=r"(etch_a_), "+m"(*(char *)&(lvalue)));            \
		etch_a_;                                                                    \
	}))
/* The "+m" tells the compiler that the object is not constant, however little of
 * the program stores to it (a static one, or any with -flto); this tells it, after
 * a set, not to go on with what it read before. */
#define ETCH_CHANGED_() __asm__ __volatile__("" ::: "memory")

/*
 * etch_set(&object.field, value): stores the value (converted to the field's
 * type) in memory and in every site that reads any of its bytes. All sites or
 * none. Returns 0 or an etch_error. Where the object is not armed it is a store
 * alone. Where a new 64-bit value does not fit a site's instruction, that site
 * is switched back to its load, and forth again when one fits.
 */
#define etch_set(p, v)                                                                      \
	(__extension__({                                                                    \
		__typeof__(*(p)) etch_n_ = (v);                                             \
		int etch_e_ = etch_set_bytes(ETCH_ADDR(*(p)), &etch_n_, sizeof(etch_n_));   \
		ETCH_CHANGED_();                                                            \
		etch_e_;                                                                    \
	}))

/*
 * etch_sync(&object, sizeof object): makes every site in the range agree with
 * memory and arms the objects it touches: from then on they are read-only but
 * for etch_set. For objects that start unarmed because the program stores to
 * them plainly while it sets up. 0 or an etch_error (then unchanged).
 */
#define etch_sync(p, size) etch_sync_bytes(ETCH_ADDR(*(p)), (size))

/*
 * etch_release(&object, sizeof object): the opposite. Sites become loads again
 * and memory writable: for a phase of plain stores, a tear-down say.
 */
#define etch_release(p, size) etch_release_bytes(ETCH_ADDR(*(p)), (size))

/*
 * etch_seal(&object, sizeof object): etch_sync, and arms also the sites that cannot
 * be changed while threads run: those that cross an 8-byte boundary, and calls in
 * whose place more than one instruction is to stand (etch/pv.h). For the end of a
 * program's set-up, before it makes threads: ETCH_ETHREADS if there are others now.
 * From then on a set, an etch_sync or an etch_release of these objects that would
 * have to change such a site returns ETCH_ETHREADS while the process has other
 * threads, and changes nothing. etch_release ends it. A thread that was joined may count
 * for a moment longer, until the kernel has forgotten it; threads of other processes
 * that share this one's memory (vfork, CLONE_VM) are not counted.
 */
#define etch_seal(p, size) etch_seal_bytes(ETCH_ADDR(*(p)), (size))

/* The functions behind them; addresses as given by ETCH_ADDR. */
int etch_set_bytes(void *object, const void *value, size_t size);
int etch_sync_bytes(const void *object, size_t size);
int etch_seal_bytes(const void *object, size_t size);
int etch_release_bytes(const void *object, size_t size);

/*
 * Many changes as one transaction: all happen or none does, with one
 * membarrier and one change of protection per run of adjacent pages.
 *
 *     int on = 1; long n = 64;
 *     struct etch_change c[] = {
 *             ETCH_CHANGE(&verbose__imv, &on), ETCH_CHANGE(&cfg.batch, &n) };
 *     int err = etch_set_batch(c, 2);
 *
 * Where two changes of a batch overlap, the later one wins. All memory is stored
 * before the first site is changed: a function that a call site has just been given
 * finds the data that the same batch sets, but the function before it, which may
 * still be running, finds them too.
 */
struct etch_change {
	void *object;      /* from ETCH_ADDR */
	const void *value; /* `size` bytes, read before the call returns */
	size_t size;       /* bytes */
};
#define ETCH_CHANGE(p, value_p) { ETCH_ADDR(*(p)), (value_p), sizeof(*(p)) }
#define IMV_CHANGE(name, value_p) ETCH_CHANGE(&name##__imv, (value_p))
int etch_set_batch(const struct etch_change *changes, size_t count);
#ifndef ETCH_NO_MODULE
#define etch_set_batch(changes, count)                                                      \
	(__extension__({                                                                    \
		int etch_e_ = (etch_set_batch)(changes, count);                             \
		ETCH_CHANGED_();                                                            \
		etch_e_;                                                                    \
	}))
#endif

/* ---- looking ------------------------------------------------------------- */

/*
 * Compares every armed site of every loaded module with memory. Returns the
 * number of sites that differ (0 = all is well), or a negative etch_error.
 * A site that holds a debugger's 0xcc is judged by its other bytes. `report`, if
 * not null, is called for each that differs, under etch's lock: it must not call
 * etch, nor the dynamic linker (dlopen, dladdr), nor fork.
 */
long etch_verify(void (*report)(void *arg, const void *site, const void *object), void *arg);

/* Counts over all loaded modules, for logs and tests. `size` is set by the caller. The ops
 * table of libetch's own copies (etch/copy.h) is not counted. */
struct etch_info {
	size_t size;           /* sizeof(struct etch_info): room to grow */
	unsigned long modules; /* registered modules */
	unsigned long sites;   /* entries of their __imv tables */
	unsigned long armed;   /* of those, immediates now */
	unsigned long loads;   /* of those, loads now */
	unsigned long fixed;   /* of the loads: can never be patched live (they cross an 8-byte word) */
	unsigned long objects; /* etched objects */
	unsigned long armed_objects;
	unsigned long patched_at_start; /* sites patched by libetch while loading modules */
	unsigned long readonly_pages;   /* pages of etched objects that are read-only now */
	unsigned long calls;          /* entries of the modules' __pv_sites tables: calls and tail jumps */
	unsigned long calls_direct;   /* of those, direct calls and jumps now */
	unsigned long calls_inline;   /* of those, a nop, a return or a function's instructions now */
	unsigned long calls_indirect; /* of those, indirect now */
	unsigned long calls_fixed;    /* of those: can never be patched live (they cross an 8-byte word) */
	unsigned long sealed_objects; /* etched objects under etch_seal */
	unsigned long calls_in_place; /* pv_call_inline: how many there are */
	unsigned long calls_in_place_now; /* of those, a nop before the case compiled in place */
};
/* 0; ETCH_EINVAL; ETCH_EFORMAT where a malformed module is ignored (the counts
 * are those of all others). */
int etch_info(struct etch_info *info);

/* ---- what the compiler's output carries ---------------------------------- */

/*
 * Called by the constructor below. Not for users. Bounds of the module's sections,
 * in the order __imv, __etch_obj, etched, etched_imv, __pv_sites, __pv_native, null
 * where it has none. A set inside etched and etched_imv is lawful, and a plain store,
 * also where no tool has been. Older modules call v1, which knows the first four.
 */
struct etch_bounds {
	const void *start, *stop;
};
void etch_module_load_v2(const struct etch_module *module, const struct etch_bounds *bounds, unsigned count);
void etch_module_load_v1(const struct etch_module *module,
                         const void *imv_start, const void *imv_stop,
                         const void *obj_start, const void *obj_stop,
                         const void *etched_start, const void *etched_stop,
                         const void *scalar_start, const void *scalar_stop);
void etch_module_unload_v1(const struct etch_module *module);

#ifndef ETCH_NO_MODULE /* a file that is no module, as most of libetch */
#define ETCH_HIDDEN_WEAK_ __attribute__((weak, visibility("hidden")))

/* Synthesized by the linker from the section names; null where no object of the
 * module has such a section. */
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
/* Once more, for gcc 12 forgets the visibility of a weak declaration that it does not
 * see defined: a module without sites would then be given another module's table. */
__asm__(".weak __start___imv, __stop___imv, __start___etch_obj, __stop___etch_obj\n\t"
        ".hidden __start___imv, __stop___imv, __start___etch_obj, __stop___etch_obj\n\t"
        ".weak __start___pv_sites, __stop___pv_sites, __start___pv_native, __stop___pv_native\n\t"
        ".hidden __start___pv_sites, __stop___pv_sites, __start___pv_native, __stop___pv_native\n\t"
        ".weak __start___pv_inline, __stop___pv_inline\n\t"
        ".hidden __start___pv_inline, __stop___pv_inline");
/* Bounds of the etched sections; null where the module has no such section. Through
 * the GOT, since they may be undefined, and marked lawful as in ETCH_ADDR: the
 * first object's address does not escape here. */
#define ETCH_BOUND_(symbol)                                                        \
	(__extension__({                                                           \
		const void *etch_a_;                                               \
		__asm__(".weak " symbol "\n\t.hidden " symbol "\n\t.byte 0x3e\n\t"   \
		        "{movq " symbol "@GOTPCREL(%%rip), %0"                     \
		        "|mov %0, qword ptr [rip + " symbol "@GOTPCREL]}"          \
		        : "=r"(etch_a_));                                          \
		etch_a_;                                                           \
	}))

extern const struct etch_module etch_module_ ETCH_HIDDEN_WEAK_
	__attribute__((section("__etch_mod")));
__attribute__((used)) const struct etch_module etch_module_ = {
	ETCH_MODULE_MAGIC, ETCH_MODULE_VERSION, sizeof(struct etch_module),
	0, 0, 0, 0, 0, 0, 0, 0
};

/* One definition a module survives; it is called once per translation unit and
 * returns at once after the first. Priority 101: before the program's own
 * constructors, so that they meet the protection too. The priority is on the
 * first declaration: gcc 12 drops one that only the definition has. */
ETCH_HIDDEN_WEAK_ __attribute__((constructor(101))) void etch_module_ctor_(void);
void etch_module_ctor_(void)
{
	const struct etch_bounds bounds[] = {
		{etch_imv_start_, etch_imv_stop_}, {etch_obj_start_, etch_obj_stop_},
		{ETCH_BOUND_("__start_etched"), ETCH_BOUND_("__stop_etched")},
		{ETCH_BOUND_("__start_etched_imv"), ETCH_BOUND_("__stop_etched_imv")},
		{etch_pv_start_, etch_pv_stop_}, {etch_native_start_, etch_native_stop_},
		{etch_inline_start_, etch_inline_stop_}};

	etch_module_load_v2(&etch_module_, bounds, sizeof(bounds) / sizeof(bounds[0]));
}
ETCH_HIDDEN_WEAK_ __attribute__((destructor(101))) void etch_module_dtor_(void);
void etch_module_dtor_(void)
{
	etch_module_unload_v1(&etch_module_);
}
#undef ETCH_HIDDEN_WEAK_
#undef ETCH_BOUND_

/* Rounds this file's share of the etched sections up to whole pages, so that
 * nothing else shares a page with them. Subsection 8000 goes after all objects. */
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

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#endif
#ifndef unlikely
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

#endif
