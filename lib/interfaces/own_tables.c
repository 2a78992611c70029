/* SPDX-License-Identifier: MIT */
/*
 * own_tables.c: how the modules of a program that does not call etch_unwind_prepare() come by a table, or by what
 * stands for one (unwind/cfi_map.h).
 *
 * Modules that stay, and have no sidecar, are opened before main, which reads nothing of them. The others are, and
 * sidecars are read, not in a signal handler, and not under a lock that another thread may wait for. So a walk that
 * met a module without a table has used .eh_frame; and at its end this file walks the caller's whole stack: if no
 * signal frame is on it and it ends where a stack ends, this is no handler, and the modules on it cannot be unloaded
 * meanwhile, since the thread is inside of them. They get theirs at once, with system calls for memory and without
 * waiting for a lock: the caller may be malloc(3) or the dynamic linker.
 *
 * It may run on a small stack: this is done on one of its own.
 */
#include <stdlib.h>

#include "interfaces/frame_walk.h"
#include "interfaces/own_tables.h"
#include "common/sys.h"
#include "unwind/cfi_map.h"

/* Bytes of the stack that is used, by signal handlers too. */
#define STACK_SIZE (256u << 10)
/* Modules of one stack; the others' turn comes with another walk. */
#define MODULES 32
/* Modules that have been tried: a module that no table can be made for is not tried again. */
#define TRIED 256

static uint64_t tried[TRIED];
/* How often walks have met a module of a slot that is not tried. */
static uint32_t met[TRIED];
static unsigned without_tables = CURSOR_CFI;
static int never;
/* What is done where a file has neither a table nor a sidecar; null: a table is made. */
static prepare_fn *instead = in_place_add;

unsigned frame_walk_without_tables(void) { return __atomic_load_n(&without_tables, __ATOMIC_RELAXED); }

/* Calls fn(arg) on the stack that ends at `top`. (call_on_x86.S) */
void interfaces_call_on(void *top, void (*fn)(void *), void *arg);

void own_tables_keep(void)
{
	static int kept;
	void *capacity = kept ? NULL : sys_map(FALLBACK_ROOM, 0);

	if (capacity)
		fallback_keep(capacity);
	kept = 1;
}

/* The slot of a module, and what it holds if the module has been tried. The key says which file it is as
 * well as can be told without reading it. */
static uint64_t *tried_slot(const struct prepare_image *im, uint64_t *key)
{
	*key = (im->start ^ (im->end - im->start) << 20 ^ im->phdr[im->phnum - 1].p_vaddr << 1 ^ im->phdr[0].p_offset) | 1;
	return &tried[im->start / 4096 * 0x9e3779b97f4a7c15u >> 56];
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

/* A walk has met this module. Looking at the whole stack costs as much as the walk, and is in vain in a handler or on a
 * stack with code that has no rule: so not after each, but after the 1st, 2nd, 4th, 8th. */
static int is_turn(uint64_t at)
{
	struct prepare_image im;
	uint64_t key;
	uint32_t n;

	if (never || is_tried(at) || !loaded_image(at, &im))
		return 0;
	n = __atomic_add_fetch(&met[tried_slot(&im, &key) - tried], 1, __ATOMIC_RELAXED);
	return !(n & (n - 1));
}

/* ---- the caller's stack ------------------------------------------------------ */

struct found {
	uint64_t at[MODULES];
	unsigned count;
};

static void found_add(struct found *found, uint64_t at)
{
	struct prepare_image im, other;

	if (found->count == MODULES || !loaded_image(at, &im))
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
		if (prepare_address(found->at[i], instead) < 0)
			return;
		if (loaded_image(found->at[i], &im)) {
			slot = tried_slot(&im, &key);
			__atomic_store_n(slot, key, __ATOMIC_RELAXED);
		}
	}
}

__attribute__((noinline)) void own_tables_make(uint64_t untabled)
{
	struct found found = {.count = 0};
	char *stack;

	if (!is_turn(untabled - 1))
		return;
	if (!stack_modules(&found) || !found.count)
		return;
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
	own_tables_keep();
	if (make && !strcmp(make, "first"))
		instead = NULL;
	if (make && !strcmp(make, "start"))
		etch_unwind_prepare();
	for (const struct permanent *p = loaded_permanents.at; (!make || !*make) && p->size; p++)
		prepare_unread(p->start, in_place_add);
}
