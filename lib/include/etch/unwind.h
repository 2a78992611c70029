/* SPDX-License-Identifier: MIT */
/*
 * etch/unwind.h: stack traces from etch's unwind tables.
 *
 * `etch rewrite` adds a table to a program or a shared object; these functions use it to walk the
 * stack from any instruction, also inside a signal handler. Modules without a table get one from a
 * sidecar file or from their .eh_frame when the program calls etch_unwind_prepare(); a walk that
 * reaches a module without a table ends there with ETCH_UNWIND_NOTABLE.
 *
 * All functions except etch_unwind_prepare(), etch_unwind_sidecars() and etch_table_in_file() are
 * async-signal-safe and thread-safe: no malloc, no lock, no errno, bounded work. A corrupt stack
 * ends a walk with a status: only memory that the kernel has confirmed as readable is read
 * (docs/unwinding.md says when it is asked, and what risk remains).
 */
#ifndef ETCH_UNWIND_H
#define ETCH_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct etch_unwind; /* a table: etch/orc.h */

/* The state of a walk. Positive: the walk has ended, and the trace is complete; 0: it can go on; negative: it has
 * ended, and the trace is incomplete. */
enum etch_unwind_status {
	ETCH_UNWIND_OK = 0,
	ETCH_UNWIND_END = 1,         /* this is the outermost frame */
	ETCH_UNWIND_NOTABLE = -1,    /* no table covers the code at this address */
	ETCH_UNWIND_UNDEFINED = -2,  /* a table covers it, but has no rule for it */
	ETCH_UNWIND_REGISTER = -3,   /* the rule needs a register whose value is unknown in this frame */
	ETCH_UNWIND_MEMORY = -4,     /* the rule needs memory that cannot be read */
	ETCH_UNWIND_NOPROGRESS = -5, /* the caller's frame would not lie above this one: the stack is corrupt */
	ETCH_UNWIND_LIMIT = -6,      /* `max` frames reached, or too many frames or switches of stack */
	ETCH_UNWIND_EINVAL = -7,     /* invalid argument */
};

/*
 * A function that is called through a null or wild pointer has no rule, and none of its instructions has run. If the
 * word at rsp is an address after a call, the caller is assumed to be there. The status of a trace with such a frame
 * is marked: this number is added to a positive status and subtracted from a negative one. So compare
 * etch_unwind_reason(status) with ETCH_UNWIND_END and the others.
 */
#define ETCH_UNWIND_ASSUMED 256

/* The functions that mark a status have symbols of their own. The plain symbols belong to programs that were compiled
 * before the mark existed; their functions return a status without it. */
#define ETCH_UNWIND_MARKS(symbol) __asm__(symbol)

/* The enum etch_unwind_status of a status that may be marked. */
static inline int etch_unwind_reason(int status) { return status % ETCH_UNWIND_ASSUMED; }
/* Is the status marked: was the caller of an interrupted frame assumed? */
static inline int etch_unwind_assumed(int status) { return status / ETCH_UNWIND_ASSUMED != 0; }

/* The English sentence for a status, without a newline; never null. */
const char *etch_unwind_strerror(int status);

/* ---- the whole stack in one call ---------------------------------------------- */

/*
 * Stores the return addresses of the calling thread's stack, innermost first: ips[0] is the address
 * that this call returns to. Stores at most `max` of them (none if that is 0 or less). Returns the
 * number stored.
 */
int etch_backtrace(void **ips, int max);

/*
 * etch_backtrace() from a signal handler's third argument, a ucontext_t: ips[0] is the interrupted instruction, and
 * the handler's frames are not in the trace. With a null ucontext it does what etch_backtrace() does. *status (may be
 * null) gets an enum etch_unwind_status, never ETCH_UNWIND_OK: ETCH_UNWIND_LIMIT if there are more than `max` frames.
 * The status is marked (ETCH_UNWIND_ASSUMED) if the caller of an interrupted frame was assumed.
 */
int etch_backtrace_from(const void *ucontext, void **ips, int max, int *status)
	ETCH_UNWIND_MARKS("etch_backtrace_from_2");

/*
 * The frames of a thread's last walk, which speed up the next one: for frames that are unchanged, a
 * walk only compares the stack. It is meant for samplers, whose stacks change at the inner end. 33
 * KB, initially zeroed; one per thread. A signal handler that interrupts a walk and passes the same
 * state walks without it. Call etch_walk_reset() after a dlclose(3) that may have replaced code at
 * an address that was on the stack. The fields are private to the library.
 */
#define ETCH_WALK_FRAMES 512
struct etch_walk {
	uint32_t busy, which, first, end;
	int32_t status;
	uint16_t fruitless, pause;
	uint64_t lo, hi, rbp, self;
	struct etch_walk_frame {
		uint64_t ip;   /* return address */
		uint64_t sp;   /* rsp of this frame in the last walk */
		uint64_t slot; /* address where the frame's rbp is saved */
		uint64_t bp;   /* the value saved there */
	} frame[2][ETCH_WALK_FRAMES];
};

/* etch_backtrace() and etch_backtrace_from() with a struct etch_walk. */
int etch_backtrace_reuse(struct etch_walk *walk, const void *ucontext, void **ips, int max, int *status)
	ETCH_UNWIND_MARKS("etch_backtrace_reuse_2");
void etch_walk_reset(struct etch_walk *walk);

/* ---- frame by frame ------------------------------------------------------------- */

/* Register numbers in the order of instruction encodings, then rip. */
enum etch_reg {
	ETCH_RAX,
	ETCH_RCX,
	ETCH_RDX,
	ETCH_RBX,
	ETCH_RSP,
	ETCH_RBP,
	ETCH_RSI,
	ETCH_RDI,
	ETCH_R8,
	ETCH_R9,
	ETCH_R10,
	ETCH_R11,
	ETCH_R12,
	ETCH_R13,
	ETCH_R14,
	ETCH_R15,
	ETCH_RIP,
};

/* A walk in progress. It lies in the caller's memory, any thread may use it, and it may be copied and dropped at any
 * time. */
struct etch_cursor {
	uint64_t opaque[64];
};

/*
 * Positions the cursor at the frame that a ucontext_t describes (frame 0: the interrupted
 * function), or, with null, at the caller's frame; the caller must not return while the cursor is
 * used. Returns ETCH_UNWIND_OK.
 */
int etch_cursor_init(struct etch_cursor *cursor, const void *ucontext);

/*
 * Moves the cursor to the caller's frame. Returns ETCH_UNWIND_OK, or the reason why it cannot: the
 * cursor then stays at its frame, and later calls return the same.
 */
int etch_step(struct etch_cursor *cursor);

/*
 * Reads a register (enum etch_reg) of the cursor's frame. rip and rsp are always known; rbp is
 * known unless a rule says that it is lost; the others are known in frame 0 of a ucontext_t and in
 * frames that a signal interrupted. Otherwise returns ETCH_UNWIND_REGISTER.
 */
int etch_get_reg(const struct etch_cursor *cursor, int reg, uint64_t *value);

/*
 * Does what etch_get_reg() does, and also finds rbx, rbp and r12 to r15 in any frame, provided that
 * they are known in every frame since the last one in which etch_get_reg() finds them. It uses the
 * register tables that `etch rewrite --registers` makes, or, for modules of this process without
 * one, .eh_frame. Slower than a step; no frame is examined twice. Takes 4 KiB of stack.
 * Async-signal-safe.
 */
int etch_find_reg(struct etch_cursor *cursor, int reg, uint64_t *value);

/* Is rip of this frame an interrupted instruction (1) or a return address (0)? For a return address look up symbols
 * and lines at rip - 1. */
int etch_interrupted(const struct etch_cursor *cursor);

/* Has the caller of an interrupted frame been assumed (ETCH_UNWIND_ASSUMED) on the way to this frame? 1 or 0. The
 * statuses of etch_step() are not marked. */
int etch_assumed(const struct etch_cursor *cursor);

/* ---- another process, or a core file ------------------------------------------------ */

/* A module of the target, the other process, and its table. */
struct etch_target_module {
	uint64_t start, end;             /* addresses in the target: the whole mapped module */
	uint64_t bias;                   /* address in the target minus link-time address */
	const struct etch_unwind *table; /* in this process's memory, 8-byte aligned */
	uint64_t size;                   /* bytes readable at `table` */
	uint64_t address;                /* link-time address of `table`; only used with the orc encoding */
};

/* Another process or a core file: its memory and its modules. */
struct etch_target {
	/* Reads the 8 bytes at an address of the target. Returns 0, or nonzero on failure. */
	int (*read)(void *arg, uint64_t address, uint64_t *word);
	void *arg;
	const struct etch_target_module *modules; /* sorted by start, without overlap */
	size_t module_count;
};

/*
 * Positions a cursor in another process. regs[ETCH_RAX..ETCH_RIP] are the registers of frame 0.
 * `target` and what it points to must remain valid while the cursor is used. Signal-safe if read()
 * is.
 */
int etch_cursor_init_target(struct etch_cursor *cursor, const struct etch_target *target, const uint64_t regs[17]);

/*
 * The table inside an ELF file whose bytes are in memory (8-byte aligned), or inside a sidecar
 * file; null if there is none. *size gets the number of bytes readable from the table on, and
 * *address the table's link-time address, 0 for a sidecar. The function validates the whole table.
 */
const struct etch_unwind *etch_table_in_file(const void *file, size_t file_size, uint64_t *size, uint64_t *address);

/* ---- modules without a table --------------------------------------------------------- */

/*
 * Makes tables for the loaded modules that have none: from DIR/<build-id in hex> if a directory of sidecar files is
 * set, else from /usr/lib/etch/unwind, else from /var/cache/etch, which `etch tables update` fills, else from
 * .eh_frame. Call it after start-up and after dlopen(3); it costs next to nothing if nothing was loaded since the
 * last call. It may be called from any thread at any time, but not in signal handlers. Returns the number of modules
 * that still have no table, or ETCH_UNWIND_EINVAL if the system cannot list the modules. Not a cancellation point; a
 * thread that is canceled inside completes the call first. Takes more than 12 KiB of stack.
 */
int etch_unwind_prepare(void);

/*
 * Sets the directory of sidecar files for the next etch_unwind_prepare(); null for none. The string
 * is copied. The default is the environment variable ETCH_SIDECAR_DIR (ignored in set-user-ID
 * programs). Not to be called in signal handlers. Returns 0, or ETCH_UNWIND_EINVAL if the path is
 * too long.
 */
int etch_unwind_sidecars(const char *directory);

/*
 * With `on`, a walk does not rely on the pages that an earlier walk found readable, and makes one
 * system call per page and walk. It is meant for programs that unmap stacks of coroutines and map
 * smaller ones in their place, and have not called etch_fault_init() (etch/extable.h); after that
 * call an unmapped page ends the trace. Returns the previous setting.
 */
int etch_unwind_strict(int on);

#ifdef __cplusplus
}
#endif
#endif
