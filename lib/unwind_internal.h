/* SPDX-License-Identifier: MIT */
/*
 * unwind_internal.h: what the files of the unwinder share.
 *
 * Arrows run one way: walks -> lookup.c, target.c (address -> table) -> made.c -> loaded.c
 * (address -> module); stack.c says which memory may be read. prepare_modules.c, which no walk
 * needs, fills what made.c keeps, by prepare.c (a table from .eh_frame).
 */
#ifndef ETCH_UNWIND_INTERNAL_H
#define ETCH_UNWIND_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include <etch/extable.h>
#include <etch/orc_lookup.h>
#include <etch/unwind.h>

#include "loaded.h"

#define UNWIND_API __attribute__((visibility("default")))

/* Stacks are read where ASan has red zones. All functions that are inlined into each
 * other must agree on this. */
#define NO_ASAN __attribute__((no_sanitize("address")))

/* ---- memory (stack.c) ------------------------------------------------------- */

/* Bytes known to be readable: whole pages. Empty: hi 0. */
struct window {
	uint64_t lo, hi;
};

/*
 * A window that holds the 8 bytes at this address: 0, or -1 where they cannot be read.
 * Pages that this thread has not asked for before cost a system call each.
 */
int stack_window(uint64_t at, struct window *w);
/* Begins a walk: with etch_unwind_strict(), what is known is forgotten. */
void stack_begin(void);
/* Asks the kernel. */
int stack_page_readable(uint64_t at);

/*
 * The loads themselves are allowed to fault (etch/extable.h): what a window says can have
 * become wrong. After etch_fault_init() memory that is gone is then no worse than memory
 * that holds zeroes, or an error. Costs nothing where it is there.
 */
/* A corrupt stack may have its words anywhere. */
typedef uint64_t __attribute__((aligned(1), may_alias)) word;

static inline __attribute__((always_inline)) uint64_t memory_load(uint64_t at)
{
	uint64_t v;

	__asm__("2: movq %1, %0\n3:\n\t" ETCH_EX_ZERO("2b", "3b", "%0") : "=r"(v) : "m"(*(const word *)(uintptr_t)at));
	return v;
}

/* 0, or -EFAULT and *v is 0. */
static inline long memory_read(uint64_t at, uint64_t *v)
{
	uint64_t got = 0;
	long err = 0;

	__asm__("2: movq %2, %1\n3:\n\t" ETCH_EX_EFAULT("2b", "3b", "%0")
	        : "+r"(err), "+r"(got) : "m"(*(const word *)(uintptr_t)at));
	*v = got;
	return err;
}

static inline int window_has(const struct window *w, uint64_t at)
{
	/* hi is a multiple of the page size and at least 8 above lo, or 0: then nothing is
	 * at or above lo and at or below 2^64 - 8. */
	return at >= w->lo && at <= w->hi - 8 && w->hi;
}

/* ---- modules (lookup.c, target.c) ---------------------------------------------- */

/* The table of a module, opened. */
struct unwind_module {
	uint64_t text, text_size; /* address of the first byte covered, and bytes */
	int encoding;
	union {
		struct etch_block block;
		struct etch_orc_table orc;
	};
};

/*
 * The module of this process whose table covers this address; or null. Async-signal-
 * safe. What is returned is `room`, or lies in memory that is never freed or changed;
 * it may be used for as long as the module cannot go away, which a module that has a
 * frame on the caller's stack cannot.
 */
const struct unwind_module *lookup_module(uint64_t at, struct unwind_module *room);
/* Likewise of a target. */
const struct unwind_module *lookup_target(const struct etch_target *t, uint64_t at, struct unwind_module *room);

/* Opens a table whose header has been found valid. The orc arrays are the caller's work. */
static inline void module_open(struct unwind_module *m, const struct etch_unwind *u, uint64_t bias)
{
	m->text = bias + u->text;
	m->text_size = u->text_size;
	m->encoding = u->encoding;
	if (u->encoding == ETCH_ENCODING_BLOCK)
		etch_block_open(u, &m->block);
}

/* The table in a module itself, the number of the program header of its segment and the
 * bytes that may be read there; or null. */
const struct etch_unwind *lookup_table(const struct prepare_image *im, unsigned *index, uint64_t *size);

static inline __attribute__((always_inline)) int same_words(const void *a, const void *b, size_t count)
{
	const uint64_t *x = a, *y = b;
	uint64_t differ = 0;

	for (size_t i = 0; i < count; i++)
		differ |= x[i] ^ y[i];
	return !differ;
}

/* The rule for an address that lies inside m's text. */
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
 * A table (block encoding) in mapped memory of its own, or null: no .eh_frame that can
 * be used, or out of memory. Addresses in it are link-time ones. *size: bytes that may
 * be read. Called in normal context, where the module cannot go away.
 */
const struct etch_unwind *prepare_table(const struct prepare_image *im, uint64_t *size);
void prepare_table_free(const struct etch_unwind *t, uint64_t size);

#endif
