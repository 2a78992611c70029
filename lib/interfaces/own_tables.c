/* SPDX-License-Identifier: MIT */
/*
 * own_tables.c: makes tables, or what stands in for one (unwind/cfi_map.h), for the modules of a program that does
 * not call etch_unwind_prepare().
 *
 * Modules that are never unloaded and have no sidecar are opened before main, which reads nothing of them. All other
 * work, opening the other modules and reading sidecars, must not happen in a signal handler, or under a lock that
 * another thread may wait for. So a walk that meets a module without a table uses .eh_frame, and at the walk's end
 * this file walks the caller's whole stack. If no signal frame is on it and it ends where a stack ends, this is no
 * handler, and the modules on the stack cannot be unloaded during the call, because the thread is inside them. They
 * get their tables at once, with system calls for memory and without waiting for a lock: the caller may be malloc(3)
 * or the dynamic linker.
 *
 * The caller's stack may be small, so this work is done on a stack of its own.
 */
#include <stdlib.h>

#include "interfaces/frame_walk.h"
#include "interfaces/own_tables.h"
#include "common/sys.h"
#include "unwind/cfi_map.h"

/* Size in bytes of that stack; signal handlers use it too. */
#define STACK_SIZE (256u << 10)
/* Maximum number of modules of one stack; another walk takes care of the rest. */
#define MODULES 32
/* Number of slots for modules that have been tried: if no table can be made for a module, it is not tried again. */
#define TRIED 256

static uint64_t tried[TRIED];
/* For each slot of modules: how many times walks have come to a module that has no table and has not been tried. */
static uint32_t met[TRIED];
static unsigned without_tables = CURSOR_CFI;
static int never;
/* What to do for a file that has neither a table nor a sidecar; null: make a table. */
static prepare_fn *instead = in_place_add;

unsigned frame_walk_without_tables(void) { return __atomic_load_n(&without_tables, __ATOMIC_RELAXED); }

/* Calls fn(arg) on the stack that ends at `top` (call_on_x86.S). */
void interfaces_call_on(void *top, void (*fn)(void *), void *arg);

void own_tables_keep(void)
{
	static int kept;
	void *capacity = kept ? NULL : sys_map(FALLBACK_BYTES, 0);

	if (capacity)
		fallback_keep(capacity);
	kept = 1;
}

/* The slot of a module, and the key that it holds if the module has been tried. The key identifies the file as well
 * as is possible without reading it. */
static uint64_t *tried_slot(const struct prepare_image *im, uint64_t *key)
{
	*key = (im->start ^ (im->end - im->start) << 20 ^ im->phdr[im->phnum - 1].p_vaddr << 1 ^ im->phdr[0].p_offset) | 1;
	return &tried[im->start / 4096 * 0x9e3779b97f4a7c15u >> 56];
}

/* Has making a table been tried for the module of this address? Also 1 if there is no such module. */
static int is_tried(uint64_t at)
{
	struct prepare_image im;
	uint64_t key, *slot;

	if (!loaded_image(at, &im))
		return 1;
	slot = tried_slot(&im, &key);
	return __atomic_load_n(slot, __ATOMIC_RELAXED) == key;
}

/* Called when a walk has come to the module of this address, which has no table. Returns whether the whole stack is to
 * be looked at now. That costs as much as the walk, and is in vain in a signal handler or on a stack with code that has
 * no rule. So the answer is yes only at the 1st, 2nd, 4th, 8th time and so on. */
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

/* Collects the modules without a table on this thread's stack. Returns 1, or 0 if a signal handler is, or may be, on
 * it. */
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

/* Makes the tables of the collected modules; runs on the stack of its own. */
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
