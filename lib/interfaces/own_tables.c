/* SPDX-License-Identifier: MIT */
/*
 * own_tables.c: when tables are made for a program that does not call etch_unwind_prepare().
 *
 * Not in a signal handler, and not under a lock that another thread may wait for. So a walk that met
 * a module without a table has used .eh_frame; and at its end this file walks the caller's whole stack:
 * if no signal frame is on it and it ends where a stack ends, this is no handler, and the modules on it
 * cannot be unloaded meanwhile, since the thread is inside of them. Their tables are made at once, with
 * system calls for memory and without waiting for a lock: the caller may be malloc(3) or the dynamic linker.
 *
 * It may run on a small stack: tables are made on one of their own.
 */
#include <stdlib.h>

#include "interfaces/frame_walk.h"
#include "interfaces/own_tables.h"
#include "common/sys.h"

/* Bytes of the stack that tables are made on, which signal handlers may use too. */
#define STACK_SIZE (256u << 10)
/* Modules of one stack; the others' turn comes with another walk. */
#define MODULES 32
/* Modules that have been tried: a module that no table can be made for is not tried again. */
#define TRIED 256

/* With patience: what walks without a table cost and what a function's part of a table does. The unit is what a walk of
 * 24 frames that has the rules at hand costs more than one with a table, some 1,500 instructions (callgrind). */
#define WALK_COST     1
#define READ_COST     2 /* of a rule of .eh_frame */
#define FUNCTION_COST 3

static uint64_t tried[TRIED];
/* What walks that met a module without a table have cost, by the module's slot. If two modules or threads disturb a
 * sum, a table is made sooner or later than it pays, which is harmless. */
static unsigned cost[TRIED];
static int patience;
static unsigned without_tables = CURSOR_CFI;
static int never;

unsigned frame_walk_without_tables(void) { return __atomic_load_n(&without_tables, __ATOMIC_RELAXED); }

/* Calls fn(arg) on the stack that ends at `top`. (call_on_x86.S) */
void interfaces_call_on(void *top, void (*fn)(void *), void *arg);

void own_tables_wait(void)
{
	static int kept;
	void *room = kept ? NULL : sys_map(FALLBACK_ROOM, 0);

	if (room)
		fallback_keep(room);
	kept = patience = 1;
}

static unsigned slot_index(const struct prepare_image *im) { return im->start / 4096 * 0x9e3779b97f4a7c15u >> 56; }

/* Is the module's table worth making? */
static int is_due(const struct prepare_image *im)
{
	uint64_t functions = 0;

	if (!patience)
		return 1;
	for (unsigned i = 0; i < im->phnum; i++)
		if (im->phdr[i].p_type == PT_GNU_EH_FRAME) /* .eh_frame_hdr: 8 bytes a function */
			functions = im->phdr[i].p_memsz / 8;
	return __atomic_load_n(&cost[slot_index(im)], __ATOMIC_RELAXED) > FUNCTION_COST * (functions + 100);
}

/* A walk has met this module. Is its table to be made? */
static int walk_counts(uint64_t at, uint32_t reads)
{
	struct prepare_image im;

	if (!patience)
		return 1;
	if (!loaded_image(at, &im))
		return 0;
	__atomic_fetch_add(&cost[slot_index(&im)], WALK_COST + READ_COST * reads, __ATOMIC_RELAXED);
	return is_due(&im);
}

/* None could be made now, as in a signal handler or while constructors run: again after as many walks. */
static void cost_forget(uint64_t at)
{
	struct prepare_image im;

	if (patience && loaded_image(at, &im))
		__atomic_store_n(&cost[slot_index(&im)], 0, __ATOMIC_RELAXED);
}

/* The slot of a module, and what it holds if the module has been tried. The key says which file it is as
 * well as can be told without reading it. */
static uint64_t *tried_slot(const struct prepare_image *im, uint64_t *key)
{
	*key = (im->start ^ (im->end - im->start) << 20 ^ im->phdr[im->phnum - 1].p_vaddr << 1 ^ im->phdr[0].p_offset) | 1;
	return &tried[slot_index(im)];
}

static int is_tried(uint64_t at)
{
	struct prepare_image im;
	uint64_t key, *slot;

	if (!loaded_image(at, &im))
		return 1;
	slot = tried_slot(&im, &key);
	return __atomic_load_n(slot, __ATOMIC_RELAXED) == key;
}

/* ---- the caller's stack ------------------------------------------------------ */

struct found {
	uint64_t at[MODULES];
	unsigned count;
};

static void found_add(struct found *found, uint64_t at)
{
	struct prepare_image im, other;

	if (found->count == MODULES || !loaded_image(at, &im) || !is_due(&im))
		return;
	for (unsigned i = 0; i < found->count; i++)
		if (loaded_image(found->at[i], &other) && other.start == im.start)
			return;
	found->at[found->count++] = at;
}

/* Collects the modules without a table on this thread's stack. Returns 1, or 0 if a signal handler is on it or
 * may be. */
static __attribute__((noinline)) int stack_modules(struct found *found)
{
	struct cursor c;
	uint64_t last;
	int ret;

	cursor_here(&c, __builtin_frame_address(0));
	c.without_tables = CURSOR_CFI;
	do {
		last = c.untabled;
		c.untabled = 0;
		ret = cursor_step(&c);
		if (c.untabled && c.untabled != last && !is_tried(c.untabled - 1))
			found_add(found, c.untabled - 1);
	} while (ret == ETCH_UNWIND_OK && !c.saved);
	return ret == ETCH_UNWIND_END && !c.saved;
}

/* ---- making ---------------------------------------------------------------------- */

static void tables_make(void *arg)
{
	struct found *found = arg;
	struct prepare_image im;
	uint64_t key, *slot;

	for (unsigned i = 0; i < found->count; i++) {
		if (prepare_address(found->at[i]) < 0)
			return;
		if (loaded_image(found->at[i], &im)) {
			slot = tried_slot(&im, &key);
			__atomic_store_n(slot, key, __ATOMIC_RELAXED);
		}
	}
}

__attribute__((noinline)) void own_tables_make(uint64_t untabled, uint32_t reads)
{
	struct found found = {.count = 0};
	char *stack;

	if (never || !walk_counts(untabled - 1, reads) || is_tried(untabled - 1))
		return;
	if (!stack_modules(&found) || !found.count) {
		cost_forget(untabled - 1);
		return;
	}
	stack = sys_map(STACK_SIZE, MAP_NORESERVE | MAP_STACK);
	if (!stack)
		return;
	interfaces_call_on(stack + STACK_SIZE, tables_make, &found);
	sys_munmap(stack, STACK_SIZE);
	stack_forget(); /* a signal handler may have walked it */
}

static __attribute__((constructor(102))) void own_tables_start(void)
{
	const char *make = secure_getenv("ETCH_UNWIND_TABLES"), *pointers = secure_getenv("ETCH_UNWIND_FRAME_POINTERS");

	if (pointers && *pointers == '1')
		without_tables |= CURSOR_FRAME_POINTERS;
	never = make && !strcmp(make, "never");
	if (!make || strcmp(make, "first"))
		own_tables_wait();
	if (make && !strcmp(make, "start"))
		etch_unwind_prepare();
}
