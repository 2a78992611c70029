/* SPDX-License-Identifier: MIT */
/*
 * etch/unwind.h: stack traces from etch's unwind tables.
 *
 * `etch rewrite` adds a table to a program or a shared object; these functions walk
 * the stack with it, from any instruction, also inside a signal handler. Modules that
 * have no table get one from a sidecar file or from their .eh_frame when the program
 * calls etch_unwind_prepare(); a walk that meets a module without any ends there, and
 * its status says so.
 *
 * But for etch_unwind_prepare(), etch_unwind_sidecars() and etch_table_in_file(), all
 * functions are async-signal-safe and thread-safe: no malloc, no lock, no errno, work
 * that is bounded. A corrupt stack ends a walk with a status: memory is read only
 * where the kernel has said that it is readable (docs/unwinding.md says when it is
 * asked, and what remains).
 */
#ifndef ETCH_UNWIND_H
#define ETCH_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct etch_unwind; /* a table: etch/orc.h */

/* Why a walk is where it is. Positive: complete; 0: it goes on; negative: incomplete. */
enum etch_unwind_status {
	ETCH_UNWIND_OK = 0,
	ETCH_UNWIND_END = 1,         /* this was the outermost frame */
	ETCH_UNWIND_NOTABLE = -1,    /* no table knows the code at this address */
	ETCH_UNWIND_UNDEFINED = -2,  /* a table does, but has no rule for it */
	ETCH_UNWIND_REGISTER = -3,   /* the rule needs a register that is not known this far out */
	ETCH_UNWIND_MEMORY = -4,     /* the rule needs memory that cannot be read */
	ETCH_UNWIND_NOPROGRESS = -5, /* the caller's frame would not lie above: the stack is corrupt */
	ETCH_UNWIND_LIMIT = -6,      /* `max` frames, or too many frames or switches of stack */
	ETCH_UNWIND_EINVAL = -7,     /* an argument is none */
};

/* An English sentence without a newline for a status; never null. */
const char *etch_unwind_strerror(int status);

/* ---- the whole stack at once ------------------------------------------------- */

/*
 * The return addresses of the calling thread's stack, the innermost first: ips[0] is
 * where this call returns to. At most `max` (0 and less: none). Returns how many.
 */
int etch_backtrace(void **ips, int max);

/*
 * The same from a signal handler's third argument, a ucontext_t: ips[0] is the
 * interrupted instruction, and no frame of the handler is in the trace. With null it
 * is etch_backtrace(). *status (may be null) gets an enum etch_unwind_status, never
 * ETCH_UNWIND_OK: ETCH_UNWIND_LIMIT when there is more than `max`.
 */
int etch_backtrace_from(const void *ucontext, void **ips, int max, int *status);

/*
 * What the last walk of a thread found, to make the next one faster: where frames are
 * the same as in that walk, only the stack is compared. For samplers, whose stacks
 * change at their inner end. 33 KB, zeroed at first; one for each thread. A signal
 * handler that interrupts a walk and passes the same one walks without it.
 * etch_walk_reset() after a dlclose(3) that may have replaced code at an address that
 * was on the stack. The fields are the library's.
 */
#define ETCH_WALK_FRAMES 512
struct etch_walk {
	uint32_t busy, which, first, end;
	int32_t status;
	uint32_t zero;
	uint64_t lo, hi, rbp, self;
	struct etch_walk_frame {
		uint64_t ip;   /* return address */
		uint64_t sp;   /* rsp of the frame then */
		uint64_t slot; /* where its rbp is */
		uint64_t bp;   /* and what it is */
	} frame[2][ETCH_WALK_FRAMES];
};

/* etch_backtrace() and etch_backtrace_from() with such a state. */
int etch_backtrace_reuse(struct etch_walk *walk, const void *ucontext, void **ips, int max, int *status);
void etch_walk_reset(struct etch_walk *walk);

/* ---- frame by frame ------------------------------------------------------------- */

/* Registers by number: the order of instruction encodings, and rip. */
enum etch_reg {
	ETCH_RAX, ETCH_RCX, ETCH_RDX, ETCH_RBX, ETCH_RSP, ETCH_RBP, ETCH_RSI, ETCH_RDI,
	ETCH_R8, ETCH_R9, ETCH_R10, ETCH_R11, ETCH_R12, ETCH_R13, ETCH_R14, ETCH_R15,
	ETCH_RIP,
};

/* A walk. The caller's memory, of any thread; may be copied and dropped at any time. */
struct etch_cursor {
	uint64_t opaque[64];
};

/*
 * At the frame that a ucontext_t describes (frame 0: the interrupted function), or with
 * null at the caller's frame, which must not return while the cursor is used. Returns
 * ETCH_UNWIND_OK.
 */
int etch_cursor_init(struct etch_cursor *cursor, const void *ucontext);

/*
 * To the caller's frame. ETCH_UNWIND_OK, or why not: the cursor then stays at its
 * frame, and stays so.
 */
int etch_step(struct etch_cursor *cursor);

/*
 * A register (enum etch_reg) as it is in the cursor's frame. rip and rsp always; rbp
 * unless a rule says it is lost; the others in frame 0 of a ucontext_t and in frames
 * that a signal interrupted, else ETCH_UNWIND_REGISTER.
 */
int etch_get_reg(const struct etch_cursor *cursor, int reg, uint64_t *value);

/* Is rip of this frame an instruction that was interrupted (1), or the address that a
 * call returns to (0)? Names and lines of the latter are those of rip - 1. */
int etch_interrupted(const struct etch_cursor *cursor);

/* ---- another process, or a core file ------------------------------------------------ */

struct etch_target_module {
	uint64_t start, end; /* addresses in the target: all of the mapped module */
	uint64_t bias;       /* address in the target less link-time address */
	const struct etch_unwind *table; /* in this process's memory, 8-byte aligned */
	uint64_t size;       /* bytes that may be read at `table` */
	uint64_t address;    /* link-time address of `table`; only used with the orc encoding */
};

struct etch_target {
	/* Reads the 8 bytes at an address of the target. 0, or anything else if it cannot. */
	int (*read)(void *arg, uint64_t address, uint64_t *word);
	void *arg;
	const struct etch_target_module *modules; /* sorted by start, none overlap */
	size_t module_count;
};

/*
 * A cursor in another process. regs[ETCH_RAX..ETCH_RIP] are frame 0's. `target` and
 * what it points to must stay as long as the cursor is used; signal safety is that of
 * its read().
 */
int etch_cursor_init_target(struct etch_cursor *cursor, const struct etch_target *target, const uint64_t regs[17]);

/*
 * The table inside an ELF file whose bytes are in memory (8-byte aligned), or in a
 * sidecar file; null if there is none. *size: bytes that may be read there; *address:
 * its link-time address, 0 for a sidecar. All of the table has been validated.
 */
const struct etch_unwind *etch_table_in_file(const void *file, size_t file_size, uint64_t *size, uint64_t *address);

/* ---- modules without a table --------------------------------------------------------- */

/*
 * Makes tables for the loaded modules that have none: from DIR/<build-id in hex> where
 * a directory of sidecar files is set, else from .eh_frame. Call it after start and
 * after dlopen(3); when nothing was loaded since, it costs next to nothing. Any thread
 * at any time, but not in signal handlers. Returns the number of modules that have no
 * table still, or ETCH_UNWIND_EINVAL where the system cannot list them.
 */
int etch_unwind_prepare(void);

/*
 * Sets the directory of sidecar files for the next etch_unwind_prepare(); null: none.
 * The string is copied. At first it is the environment's ETCH_SIDECAR_DIR (not in
 * set-user-ID programs). Not in signal handlers. 0, or ETCH_UNWIND_EINVAL when it is
 * too long.
 */
int etch_unwind_sidecars(const char *directory);

/*
 * With `on`, nothing that was found readable in one call is trusted in the next: a
 * system call a page and walk. For programs that unmap stacks of coroutines and map
 * smaller ones in their place, and have not called etch_fault_init() (etch/extable.h),
 * after which a page that is gone ends the trace. Returns what it was.
 */
int etch_unwind_strict(int on);

#ifdef __cplusplus
}
#endif
#endif
