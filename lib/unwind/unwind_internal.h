/* SPDX-License-Identifier: MIT */
/*
 * unwind_internal.h: interfaces between the files of the unwinder.
 *
 * Dependencies: walks -> lookup.c, other_process.c (address to table) -> table_cache.c -> loaded.c (address to
 * module); stack_bounds.c says which memory is readable. table_copy.c and eh_view.c copy what is read of a module
 * that may be unloaded. prepare_modules.c, which no walk calls, fills the cache of table_cache.c with tables that
 * prepare.c makes from .eh_frame.
 *
 * Terms. A window is a range of pages that are known to be readable. A plain frame is one that is found by a rule of
 * the most frequent form (plain_frames.h). A permanent module is never unloaded; any other may be unloaded during a
 * walk, so only copies of its headers, tables and .eh_frame are read. A granule is a piece of code of 2^map_shift
 * bytes, which has one byte in the return-address map.
 */
#ifndef ETCH_LIB_UNWIND_UNWIND_INTERNAL_H
#define ETCH_LIB_UNWIND_UNWIND_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include <etch/extable.h>
#include <etch/orc_lookup.h>
#include <etch/unwind.h>

#include "unwind/loaded.h"

#define UNWIND_API __attribute__((visibility("default")))

/* The unwinder reads stack memory that contains ASan's red zones. All functions that are inlined
 * into each other need the same attribute. */
#define NO_ASAN __attribute__((no_sanitize("address")))

/* Marks the functions that most walks run: they lie side by side, because a profiler's walks find no warm cache. */
#define WALK __attribute__((hot, aligned(64)))

/* ---- memory (stack_bounds.c) ------------------------------------------------------- */

/* A range of whole pages known to be readable. It is empty if hi is 0. */
struct window {
	uint64_t lo, hi;
};

/*
 * Finds the readable window around the 8 bytes at this address. Returns 0, or -1 if they are
 * unreadable. A page that this thread has not asked for before costs one system call.
 */
int stack_window(uint64_t at, struct window *w);
/* Does what stack_window() does, but asks the kernel about the page even if it is cached as readable, and drops the
 * cached pages next to it. */
int stack_reopen(uint64_t at, struct window *w);
/* Drops the cached pages, because this thread has unmapped a stack. */
void stack_forget(void);
/* Begins a walk: with etch_unwind_strict(), drops the cached pages. */
extern int stack_strict;
static inline __attribute__((always_inline)) void stack_begin(void)
{
	loaded_forget();
	if (__builtin_expect(__atomic_load_n(&stack_strict, __ATOMIC_RELAXED), 0))
		stack_forget();
}
/* Asks the kernel whether the page is readable. */
int stack_page_readable(uint64_t at);
/* Copies memory that may be unmapped at any moment. Returns 0, or -1 if it cannot be read. */
int memory_copy(void *to, uint64_t at, uint64_t size);

/*
 * Loads that may fault (etch/extable.h), because a window can become outdated. After etch_fault_init() a load from
 * unmapped memory yields zero, or an error. They cost nothing extra while the memory is mapped.
 */
/* Unaligned, because a corrupt stack may lead anywhere. */
typedef uint64_t __attribute__((aligned(1), may_alias)) word;

static inline __attribute__((always_inline)) uint64_t memory_load(uint64_t at)
{
	uint64_t v;

	__asm__("2: movq %1, %0\n3:\n\t" ETCH_EX_ZERO("2b", "3b", "%0") : "=r"(v) : "m"(*(const word *)(uintptr_t)at));
	return v;
}

/* memory_load(base + 2 * index + 8), without another instruction for the address. */
static inline __attribute__((always_inline)) uint64_t memory_load_2(uint64_t base, uint64_t index)
{
	uint64_t v;

	__asm__("2: movq 8(%1,%2,2), %0\n3:\n\t" ETCH_EX_ZERO("2b", "3b", "%0")
	        : "=r"(v)
	        : "r"(base), "r"(index), "m"(*(const word *)(uintptr_t)(base + 2 * index + 8)));
	return v;
}

/* Returns 0, or -EFAULT and *v is 0. */
static inline long memory_read(uint64_t at, uint64_t *v)
{
	uint64_t got = 0;
	long err = 0;

	__asm__("2: movq %2, %1\n3:\n\t" ETCH_EX_EFAULT("2b", "3b", "%0")
	        : "+r"(err), "+r"(got)
	        : "m"(*(const word *)(uintptr_t)at));
	*v = got;
	return err;
}

static inline int window_has(const struct window *w, uint64_t at)
{
	/* hi is a multiple of the page size and at least lo + 8; or 0, and then no address lies in [lo, 2^64 - 8]. */
	return at >= w->lo && at <= w->hi - 8 && w->hi;
}

/* ---- modules (lookup.c, other_process.c) ---------------------------------------------- */

/* How a walk steps over plain frames (plain_frames.h): by the full table (PLAIN_FULL); by a map of an earlier version
 * than 4 (PLAIN_OLD_MAP); or by a map of steps with granules of 64 (PLAIN_MAP_6) or 128 (PLAIN_MAP_7) bytes. RBP: in
 * such a map frames with a frame pointer are frequent. OPEN: walks fill the map in (cfi_map.h). There the byte 0 means
 * that the granule is not filled in yet; as a step it would be a frame of 16 bytes with rbp saved below it, at
 * CFA - 48. */
enum plain_by {
	PLAIN_FULL = 0,
	PLAIN_OLD_MAP = 1,
	PLAIN_SHIFT = 7,
	PLAIN_RBP = 8,
	PLAIN_OPEN = 16,
	PLAIN_MAP_6 = 6,
	PLAIN_MAP_7 = 7,
	PLAIN_MAP_6_RBP = PLAIN_MAP_6 | PLAIN_RBP,
	PLAIN_MAP_7_RBP = PLAIN_MAP_7 | PLAIN_RBP,
	PLAIN_MAP_6_OPEN = PLAIN_MAP_6 | PLAIN_OPEN,
};

/* The table of a module, opened for lookups. The members that a walk needs come first: two cache lines, if the
 * structure is aligned (MODULE_LINE). */
#define MODULE_LINE 64
struct unwind_module {
	uint64_t text, text_size; /* run-time address of the first byte covered; size in bytes */
	uint64_t map;             /* if `by` is PLAIN_MAP_6 or greater: the map's address minus text >> shift */
	enum plain_by by;
	int encoding;
	union {
		struct etch_block block;
		struct etch_orc_table orc;
		const struct in_place *in_place; /* MODULE_IN_PLACE; it overlays no member of `block` that the map needs */
	};
};

/* The value of `encoding` for a module without a table, whose .eh_frame is read (cfi_map.h). */
#define MODULE_IN_PLACE (-1)

/* The slow path of lookup_module(), for the first lookup in the permanent module *p, or, if p is null, for a lookup in
 * a module that is not permanent. The result is not null: for a module without a table it is a module of size 0. */
const struct unwind_module *lookup_open(struct permanent *p, uint64_t at, struct unwind_module *capacity);

/*
 * The module of this process whose table covers this address, or null. Async-signal-safe. The result is `capacity`,
 * or lies in memory that is never freed or changed. It leads to no memory of a module that may be unloaded, unless
 * libc lacks _dl_find_object: then it may be used only while the module cannot be unloaded, which holds for a module
 * with a frame on the caller's stack.
 */
static inline const struct unwind_module *lookup_module(uint64_t at, struct unwind_module *capacity)
{
	struct permanent *p = permanent_at(at);
	const struct unwind_module *m = p ? __atomic_load_n(&p->module, __ATOMIC_ACQUIRE) : NULL;

	if (ETCH_UNLIKELY(!m))
		m = lookup_open(p, at, capacity);
	return at - m->text < m->text_size ? m : NULL;
}
/* Does what lookup_module() does, but for an address in the process *t. */
const struct unwind_module *lookup_target(const struct etch_target *t, uint64_t at, struct unwind_module *capacity);

/* Opens a table whose header is valid. The caller sets the orc arrays. */
static inline void module_open(struct unwind_module *m, const struct etch_unwind *u, uint64_t bias)
{
	m->text = bias + u->text;
	m->text_size = u->text_size;
	m->encoding = u->encoding;
	m->by = PLAIN_FULL;
	m->map = 0;
	if (u->encoding != ETCH_ENCODING_BLOCK)
		return;
	etch_block_open(u, &m->block);
	if (m->block.map && !m->block.map_steps)
		m->by = PLAIN_OLD_MAP;
	else if (m->block.map)
		m->by = (enum plain_by)(m->block.map_shift | (m->block.map_rbp ? PLAIN_RBP : 0));
	m->map = (uint64_t)(uintptr_t)m->block.map - (m->text >> m->block.map_shift);
}

/* The table inside a module, or null; *index gets the index of the program header of its segment, and *size the bytes
 * readable there. */
const struct etch_unwind *lookup_table(const struct prepare_image *im, unsigned *index, uint64_t *size);

static inline __attribute__((always_inline)) int same_words(const void *a, const void *b, size_t count)
{
	const uint64_t *x = a, *y = b;
	uint64_t differ = 0;

	for (size_t i = 0; i < count; i++)
		differ |= x[i] ^ y[i];
	return !differ;
}

/* Looks up the rule for an address inside m's text. */
static inline void module_rule(const struct unwind_module *m, uint64_t at, struct etch_rule *r)
{
	int64_t row;

	if (m->encoding == ETCH_ENCODING_BLOCK) {
		*r = *etch_block_find_in(&m->block, at - m->text);
		return;
	}
	row = etch_orc_find(&m->orc, at - m->text);
	if (row < 0)
		*r = etch_rule_undef;
	else
		etch_orc_unpack(&m->orc.orc[row], r);
}

/* ---- tables from .eh_frame (prepare.c) ------------------------------------------- */

/*
 * Makes a table (block encoding) in newly mapped memory, or returns null if there is no usable .eh_frame, or no
 * memory. Its addresses are link-time addresses. *size gets the number of readable bytes. Call it in normal context,
 * where the module cannot be unloaded.
 */
const struct etch_unwind *prepare_table(const struct prepare_image *im, uint64_t *size);
void prepare_table_free(const struct etch_unwind *t, uint64_t size);

struct identity;
typedef int prepare_fn(const struct prepare_image *im, const struct identity *id);

/*
 * Makes a table for the module of an address, which the caller knows not to be unloaded during the call. Returns 1 if
 * the module has a table afterwards, 0 if none can be made, -1 if another thread makes tables. If `instead` is not
 * null, it is called in place of making a table from .eh_frame, and returns 1 or 0. Waits for no lock, leaves errno
 * alone, is no cancellation point; not for signal handlers. Takes 12 KiB of stack. (prepare_modules.c)
 */
int prepare_address(uint64_t at, prepare_fn *instead);
/* Does what prepare_address() does, without reading a file or making a table from .eh_frame. Returns 0 if the module
 * has a sidecar. */
int prepare_unread(uint64_t at, prepare_fn *instead);

#endif
