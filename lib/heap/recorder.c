/* SPDX-License-Identifier: MIT */
/*
 * recorder.c: records each allocation: its stack, and the sums of the file.
 *
 * The walk needs no lock; stacks, live blocks and sums are protected by one. RULES OF THIS FILE. The caller is
 * malloc(3), which may be called anywhere: of libc only memcpy and the like, otherwise system calls only, and no lock
 * of other code.
 */
#include "heap/recorder.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>

#include "common/sys.h"
#include "heap/memory_capacity.h"
#include "heap/recording.h"
#include "heap/stack_tree.h"
#include "heap/thread_state.h"
#include "interfaces/frame_walk.h"
#include "interfaces/own_tables.h"
#include "unwind/reuse.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#define PAGE 4096u

/* A page that is zeroed in a child of fork(2), whichever way it was made. Null: nothing has been opened yet. */
static volatile uint64_t *marker;
static uint64_t no_marker = 1; /* used if the kernel cannot zero a page */
static int starting;
static bool recording_on;
static uint64_t generation = 1;
static bool has_own_malloc;
/* Recording has been on in this process, and has ended. */
static bool recording_ended;
/* Recording has ended because of a seccomp filter. Children inherit the filter, and must make no system call. */
static bool sandboxed;

/* ---- the lock: a futex, as in U. Drepper, "Futexes Are Tricky", mutex 3 ----------------- */

static int lock_word;

static void lock_wait(void)
{
	while (__atomic_exchange_n(&lock_word, 2, __ATOMIC_ACQUIRE))
		sys_call6(SYS_futex, (long)&lock_word, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}

/* False: the process has one thread, and another cannot begin while this one holds the lock (glibc 2.32). */
extern char __libc_single_threaded __attribute__((weak));

static inline bool has_threads(void) { return !&__libc_single_threaded || !__libc_single_threaded; }

static inline void lock(void)
{
	int zero = 0;

	if (!has_threads()) {
		lock_word = 1;
		return;
	}
	if (!__atomic_compare_exchange_n(&lock_word, &zero, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		lock_wait();
}

static inline void unlock(void)
{
	if (!has_threads()) {
		lock_word = 0;
		return;
	}
	if (__atomic_exchange_n(&lock_word, 0, __ATOMIC_RELEASE) == 2)
		sys_call6(SYS_futex, (long)&lock_word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

/* ---- the start, and the restart after a fork ------------------------------------------- */

static void marker_map(void)
{
	uint64_t *page = sys_map(PAGE, 0);

	if (page && sys_call3(SYS_madvise, (long)page, PAGE, MADV_WIPEONFORK)) {
		sys_munmap(page, PAGE);
		page = NULL;
	}
	marker = page ? page : &no_marker;
}

/* Runs at the first call in this process. */
static __attribute__((noinline)) bool begin(void)
{
	struct heap_head *parent;

	if (__atomic_exchange_n(&starting, 1, __ATOMIC_ACQUIRE))
		return false;
	if (sandboxed) {
		__atomic_fetch_add(&recording.head->lost_children, 1, __ATOMIC_RELAXED);
		recording_ended = false;
		*marker = 1;
		__atomic_store_n(&starting, 0, __ATOMIC_RELEASE);
		return false;
	}
	parent = recording_leave();
	/* The child has one thread, this one; changes that other threads were about to make are dropped. */
	lock_word = 0;
	live_clear();
	tree_clear();
	thread_states_clear();
	generation++;
	recording_ended = false;
	own_tables_keep(); /* libraries allocate before the constructors of this one */
	if (!marker)
		marker_map();
	recording_on = recording_open(parent);
	if (recording_on && has_own_malloc)
		recording.head->flags |= HEAP_OWN_MALLOC;
	*marker = 1;
	__atomic_store_n(&starting, 0, __ATOMIC_RELEASE);
	return recording_on;
}

/* Begins a call of the recorder. Returns this thread's state; null if nothing must be recorded. In that case
 * the `count` allocations of the call are counted as left out, or the call as lost in a signal handler. */
static inline struct heap_thread *enter(unsigned count)
{
	struct heap_thread *t;

	if (__builtin_expect(!marker || !*marker, 0) && !begin())
		return NULL;
	if (__builtin_expect(!recording_on, 0)) {
		if (recording_ended && count)
			__atomic_fetch_add(&recording.head->after_ended, count, __ATOMIC_RELAXED);
		return NULL;
	}
	t = thread_state();
	if (__builtin_expect(!t, 0)) {
		__atomic_fetch_add(&recording.head->lost_thread, count, __ATOMIC_RELAXED);
		return NULL;
	}
	if (__builtin_expect(t->busy, 0)) {
		__atomic_fetch_add(&recording.head->lost_handler, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	t->busy = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return t;
}

static inline void leave(struct heap_thread *t)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->busy = 0;
}

/* Takes the lock. Returns false, without the lock, if recording has ended since enter(). */
static inline bool lock_recording(void)
{
	lock();
	if (__builtin_expect(recording_on, 1))
		return true;
	unlock();
	return false;
}

void recorder_start(bool own_malloc)
{
	has_own_malloc = own_malloc;
	if (!marker || !*marker)
		begin();
	if (recording_on && own_malloc)
		recording.head->flags |= HEAP_OWN_MALLOC;
}

/* ---- stacks --------------------------------------------------------------------- */

static enum heap_stop stop_of(int status)
{
	switch (status) {
	case ETCH_UNWIND_END: return HEAP_STOP_END;
	case ETCH_UNWIND_NOTABLE: return HEAP_STOP_NO_TABLE;
	case ETCH_UNWIND_UNDEFINED: return HEAP_STOP_NO_RULE;
	case ETCH_UNWIND_REGISTER: return HEAP_STOP_REGISTER;
	case ETCH_UNWIND_LIMIT: return HEAP_STOP_DEEP;
	default: return HEAP_STOP_CORRUPT;
	}
}

/* Walks the stack of the allocation function's caller, and stores it in t->stack. */
static NO_ASAN void stack_walk(struct heap_thread *t, const uint64_t *frame)
{
	struct heap_stack *s = &t->stack;
	struct trace trace = {.ips = s->ips, .max = HEAP_FRAMES_MOST, .status = 1};
	uint64_t now = __atomic_load_n(&generation, __ATOMIC_RELAXED);
	struct cursor c;

	if (t->generation != now) {
		etch_walk_reset(&t->walk);
		memset(t->frames, 0, sizeof(t->frames));
		t->is_walk_recorded = false;
		t->generation = now;
	}
	cursor_here(&c, frame);
	c.without_tables = (int)frame_walk_without_tables();
	trace.may_leave = t->is_walk_recorded;
	t->is_walk_recorded = false;
	s->stop = stop_of(cursor_walk_reuse(&c, &t->walk, &trace));
	own_tables_after(&c);
	s->count = (unsigned)trace.count;
	/* The frame at which the walk met the last stack is known, too. */
	s->known = trace.left ? (unsigned)trace.left + 1 : 0;
	s->is_stored = trace.is_stored;
}

/* ---- sums, under the lock ------------------------------------------------------------ */

/* With sampling, an allocation is recorded with a chance of one in this number, and stands for that many. */
static inline uint64_t weight_of(uint64_t size)
{
	uint64_t weight = recording.sample / (size ? size : 1);

	return weight ? weight : 1;
}

static inline struct heap_leaf *leaf_at(uint32_t leaf)
{
	return (struct heap_leaf *)(void *)recording.leaves.at + leaf;
}

/* Called before the leaf's sums change. */
static inline void leaf_change(struct heap_leaf *l)
{
	struct heap_head *h = recording.head;

	if (l->change <= h->peak_change)
		l->peak = l->live;
	l->change = ++h->change;
}

static inline void sums_add(const struct live_block *b)
{
	struct heap_leaf *l = leaf_at(b->leaf);
	struct heap_head *h = recording.head;
	uint64_t count = weight_of(b->size), bytes = count * b->size;

	leaf_change(l);
	l->live.bytes += bytes;
	l->live.count += count;
	l->total.bytes += bytes;
	l->total.count += count;
	h->total.bytes += bytes;
	h->total.count += count;
	h->live.bytes += bytes;
	h->live.count += count;
	if (h->live.bytes > h->peak.bytes) {
		h->peak = h->live;
		h->peak_change = h->change;
	}
}

static inline void sums_remove(const struct live_block *b)
{
	struct heap_leaf *l = leaf_at(b->leaf);
	struct heap_head *h = recording.head;
	uint64_t count = weight_of(b->size), bytes = count * b->size;

	leaf_change(l);
	l->live.bytes -= bytes;
	l->live.count -= count;
	h->live.bytes -= bytes;
	h->live.count -= count;
}

static void block_add(void *block, size_t size, struct heap_thread *t)
{
	const struct heap_stack *s = &t->stack;
	struct live_block b = {.size = size, .leaf = tree_leaf(s->ips, t->frames, s->count, s->known, s->stop)}, was;
	bool replaced;

	recording.head->stops[s->stop]++;
	t->is_walk_recorded = b.leaf && s->is_stored;
	if (!b.leaf)
		recording.head->lost_stack++;
	if (!live_add((uint64_t)(uintptr_t)block, &b, &was, &replaced))
		recording.head->lost_block++;
	if (replaced)
		sums_remove(&was);
	sums_add(&b);
}

/* Is this allocation one of the sample? */
static inline bool is_sampled(struct heap_thread *t, size_t size)
{
	uint64_t weight;

	if (!recording.sample)
		return true;
	weight = weight_of(size);
	if (weight == 1)
		return true;
	t->random ^= t->random << 13; /* G. Marsaglia, "Xorshift RNGs" */
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return !((t->random >> 16) % weight);
}

/* ---- calls ------------------------------------------------------------------------- */

void recorder_alloc(void *block, size_t size, const uint64_t *frame)
{
	struct heap_thread *t;

	if (!block || !(t = enter(1)))
		return;
	if (is_sampled(t, size)) {
		live_prefetch((uint64_t)(uintptr_t)block);
		stack_walk(t, frame);
		if (lock_recording()) {
			block_add(block, size, t);
			unlock();
		}
	}
	leave(t);
}

void recorder_free(void *block)
{
	struct heap_thread *t;
	struct live_block b;

	if (!block || !(t = enter(0)))
		return;
	if (lock_recording()) {
		if (live_remove((uint64_t)(uintptr_t)block, &b))
			sums_remove(&b);
		else
			recording.head->unknown++;
		unlock();
	}
	leave(t);
}

void recorder_realloc_begin(void *block, struct recorder_block *was)
{
	struct heap_thread *t;

	was->known = false;
	if (!block || !(t = enter(0)))
		return;
	if (lock_recording()) {
		was->known = live_remove((uint64_t)(uintptr_t)block, &was->live);
		if (!was->known)
			recording.head->unknown++;
		unlock();
	}
	leave(t);
}

void recorder_realloc_end(void *old, const struct recorder_block *was, void *block, size_t size, const uint64_t *frame)
{
	struct heap_thread *t;
	struct live_block other;
	bool sampled, replaced;

	if ((!block && !was->known) || !(t = enter(block != NULL)))
		return;
	sampled = block && is_sampled(t, size);
	if (sampled)
		stack_walk(t, frame);
	if (lock_recording()) {
		if (!block && size) { /* it failed, and the block is still there */
			if (!live_add((uint64_t)(uintptr_t)old, &was->live, &other, &replaced))
				recording.head->lost_block++;
		} else if (was->known) {
			sums_remove(&was->live);
		}
		if (sampled)
			block_add(block, size, t);
		unlock();
	}
	leave(t);
}

void recorder_unloaded(void)
{
	struct heap_thread *t = enter(0);

	if (!t)
		return;
	if (lock_recording()) {
		tree_unloaded();
		__atomic_fetch_add(&generation, 1, __ATOMIC_RELAXED);
		unlock();
	}
	leave(t);
}

void recorder_note(void (*fn)(struct heap_head *, void *), void *arg)
{
	struct heap_thread *t = enter(0);

	if (!t)
		return;
	if (lock_recording()) {
		fn(recording.head, arg);
		unlock();
	}
	leave(t);
}

/* ---- the end of recording -------------------------------------------------------------- */

/* Gives memory back: everything except the head and the states of threads, which may be walking. Called under the
 * lock. */
static void end(enum heap_ended why)
{
	recording.head->ended = why;
	sandboxed = why == HEAP_ENDED_SANDBOX;
	recording_ended = true;
	recording_on = false;
	recording_shrink();
	live_clear();
	tree_clear();
}

void recorder_end(enum heap_ended why)
{
	struct heap_thread *t = enter(0);

	if (!t)
		return;
	if (lock_recording()) {
		end(why);
		unlock();
	}
	leave(t);
}

/* Could an allocation that has failed succeed if the recorder gave `held` bytes back? Returns why it failed, or
 * HEAP_ENDED_NOT. by_limit: only a limit of the process counts as a reason. */
static enum heap_ended failed_by(uint64_t size, uint64_t held, bool by_limit)
{
	/* The bytes that an allocator may ask the system for at once if it needs a few: glibc's MMAP_AS_MORECORE_SIZE. */
	const uint64_t least = 1u << 20;
	struct memory_capacity r;

	memory_capacity(&r);
	if (r.space == MEMORY_UNLIMITED && r.data == MEMORY_UNLIMITED)
		return !by_limit && size <= held ? HEAP_ENDED_MEMORY : HEAP_ENDED_NOT;
	if (r.space != MEMORY_UNLIMITED && r.space < size + 2 * least && size <= r.space + held)
		return HEAP_ENDED_SPACE;
	if (r.data != MEMORY_UNLIMITED && r.data < size + 2 * least && size <= r.data + held)
		return HEAP_ENDED_DATA;
	return HEAP_ENDED_NOT;
}

/* Would giving the recorder's memory back help an allocation of this size that has failed? Returns what failed_by()
 * returns. */
static enum heap_ended may_release(uint64_t size, bool by_limit)
{
	if (size > INT64_MAX)
		return HEAP_ENDED_NOT;
	return failed_by(size, recording.head->memory + recording_mapped(), by_limit);
}

/* Runs in a thread for whose state the recorder had no memory. A signal handler may interrupt it at any point and
 * find memory, so recording is turned off before the lock is taken. */
static void release_without_state(uint64_t size, bool by_limit)
{
	enum heap_ended why = may_release(size, by_limit);

	if (!why)
		return;
	recording_on = false;
	lock();
	if (!recording_ended)
		end(why);
	unlock();
}

static bool release(uint64_t size, bool by_limit)
{
	struct heap_thread *t;
	enum heap_ended why;

	if (!size)
		return false; /* realloc(3) has freed the block */
	if (recording_ended)
		return true; /* perhaps another thread has given the memory back since the call that failed */
	t = enter(0);
	if (!t) {
		if (recording_on && !thread_state())
			release_without_state(size, by_limit);
		return recording_ended;
	}
	if (lock_recording()) {
		why = may_release(size, by_limit);
		if (why)
			end(why);
		unlock();
	}
	leave(t);
	return recording_ended;
}

bool recorder_release(uint64_t size) { return release(size, false); }

bool recorder_release_limited(uint64_t size) { return release(size, true); }
