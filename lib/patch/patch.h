/* SPDX-License-Identifier: MIT */
/*
 * patch.h: a change of memory and instructions, from its plan to the barrier. In order of dependency, users first:
 * patch.c (the change), page_swap.c, breakpoints.c, text_file.c, plan_object.c, plan.c, plan_wide.c, inline.c, pv.c,
 * site_bytes.c, sync.c, list_sort.c, patch_list.c. parts.h says which of them the core has.
 */
#ifndef ETCH_LIB_PATCH_PATCH_H
#define ETCH_LIB_PATCH_PATCH_H

#include <string.h>

#include "patch/internal.h"

/* ---- lists of words (patch_list.c) ---------------------------------------------- */

/* A change inside one aligned 8-byte word, of data or of text. */
struct word {
	uint64_t at;
	uint64_t old, new; /* whole words; only the bytes of mask change */
	uint64_t mask;
	uint64_t swap; /* text: enum word_swap */
};

/* How a word of text is changed. */
enum word_swap {
	WORD_STORE,         /* one store changes the word */
	WORD_SWAP,          /* its page is swapped */
	WORD_SWAP_OPTIONAL, /* its page is swapped; if the system refuses that, the word may stay as it is */
	WORD_SWAP_ALONG,    /* a store would do, but its page is swapped because of another word, so it changes then */
	WORD_DROPPED,       /* the word stays as it is */
};

/* The number of words that need no mapping; enough for a batch of 100 variables. */
#define LIST_FIXED 128
/* The number of data words on the caller's stack; etch/imv.h promises to use little of it. */
#define LIST_STACK 16

/* A list of words, which grows. */
struct list {
	struct word *word;
	struct word *fixed; /* the initial array, which is not mapped */
	size_t count, capacity;
};

/* The first byte that a word changes. */
static inline uint64_t word_first(const struct word *w) { return w->at + (unsigned)__builtin_ctzll(w->mask) / 8; }

/* Releases the list's memory; a list of text leaves its array, unless it is large, to the next one. Text lists are used
 * under the lock. */
void list_end(struct list *l);
/* Makes the list large enough for this many words. flags: MAP_POPULATE if all of the memory will be used, which
 * avoids most page faults. Returns 0 or ETCH_ENOMEM. */
int list_capacity(struct list *l, size_t capacity, int text, int flags);
/* Adds a word. Returns 0 or ETCH_ENOMEM. */
int list_add(struct list *l, uint64_t at, uint64_t old, uint64_t new, uint64_t mask, int text);
/* Sorts by address; the sort is stable. Returns 0 or ETCH_ENOMEM. (list_sort.c) */
int list_sort(struct list *l);
/* Called in the child of a fork(2), where no other thread uses a list. */
void list_fork(void);

/* ---- memory, a word at a time ------------------------------------------------ */

/* An aligned word may have more bytes than the object, which AddressSanitizer would report. */
static inline __attribute__((no_sanitize("address"))) uint64_t word_load(uint64_t at)
{
	return __atomic_load_n((const uint64_t *)(uintptr_t)at, __ATOMIC_RELAXED);
}

static inline uint64_t byte_mask(unsigned count)
{
	return count >= 8 ? ~(uint64_t)0 : ((uint64_t)1 << (8 * count)) - 1;
}

/* The value of [at, at+size) from two aligned words, the first of which contains `at`. */
static inline uint64_t value_in(const uint64_t word[2], uint64_t at, unsigned size)
{
	unsigned shift = (at & 7) * 8;

	return (shift ? word[0] >> shift | word[1] << (64 - shift) : word[0]) & byte_mask(size);
}

/* The value in memory at [at, at+size). size <= 8. */
static inline uint64_t memory_value(uint64_t at, unsigned size)
{
	uint64_t first = at & ~(uint64_t)7, word[2] = {word_load(first), 0};

	if ((at & 7) + size > 8)
		word[1] = word_load(first + 8);
	return value_in(word, at, size);
}

/* The bytes of a live site. */
static inline uint64_t site_bytes(uint64_t site, unsigned len)
{
	return (word_load(site & ~(uint64_t)7) >> ((site & 7) * 8)) & byte_mask(len);
}

/* At most 8 bytes as a number. */
static inline uint64_t bytes_value(const uint8_t *bytes, unsigned len)
{
	uint64_t value = 0;

	memcpy(&value, bytes, len);
	return value;
}

static inline int same_bytes(const uint8_t *a, const uint8_t *b, unsigned n) { return !memcmp(a, b, n); }

/* ---- the bytes at a site (site_bytes.c) ----------------------------------------------- */

/* The state of the bytes at a site. */
enum site_state {
	SITE_LOAD,      /* a load or an indirect call */
	SITE_IMMEDIATE, /* an immediate for the value in memory, or a direct call to it */
	SITE_INLINE,    /* the body of the function that the slot in memory holds, as far as that is known */
	SITE_STALE,     /* an immediate for, or a call to, a value that memory does not hold */
	SITE_BUSY,      /* 0xcc, a breakpoint */
	SITE_UNKNOWN,
};
enum site_state site_state(const struct etch_imv *e, uint64_t object);
/* Does what site_state() does, as if the site held these bytes. */
enum site_state site_state_of(const struct etch_imv *e, uint64_t object, const uint8_t *bytes);

/* Encodes the immediate form for a value. Returns its length, or 0 if there is none. (encoders.c) */
unsigned immediate_form(const struct etch_imv *e, uint64_t value, uint8_t out[16]);
/* Are these bytes the immediate form of any value? (plan_object.c) */
int immediate_of_some_value(const struct etch_imv *e, const uint8_t *bytes);

/* ---- plans (plan.c) ------------------------------------------------ */

/* The old and the new bytes of the site that was planned last, which are often also those of the next one in the
 * table. */
struct memo {
	uint64_t object;
	uint32_t shape;
	unsigned old_length, new_length; /* 0 = no immediate form for this value */
	uint64_t old, new;
};

/* The function called at a call site, and its body. */
struct target {
	uint64_t at;
	int known; /* `body` has been found: it is the effect of the function's code */
	struct etch_pv_body body;
};

/* The old and the new value of the slot that was planned last, because many sites may call through it. */
struct slot {
	uint64_t at;
	struct target old, new;
};

/* A transaction: all changes of data and text that take effect together, and the state of their plan. */
struct txn {
	struct list data, text;
	size_t run, run_end; /* range of data words whose sites are being planned */
	struct memo memo;
	int alone;                     /* is this the only thread? -1: not determined yet */
	int needs_alone;               /* some planned change requires a single thread */
	int text_refused;              /* text may not be made writable */
	int data_swapped;              /* read-only pages of variables are replaced, not made writable */
	int data_refused;              /* read-only pages of variables cannot be replaced */
	struct swaps *swaps;           /* the prepared swaps, or null */
	size_t sites;                  /* number of sites to be changed, including duplicates */
	const struct segment *segment; /* the segment with the last site that text_swappable() was called for */
	struct slot slot;
	struct word fixed[LIST_STACK]; /* initial array of the data list */
};

/* What sites are planned for. */
enum plan {
	PLAN_SET,  /* memory changes: armed sites follow */
	PLAN_ARM,  /* sites become immediates of the values in memory */
	PLAN_LOAD, /* sites become loads */
};

void txn_begin(struct txn *t);
/* Called under the lock. */
void txn_end(struct txn *t);
/* Makes the list of text large enough for changes of this many sites, so that adding them is cheaper. If memory does
 * not allow that, the list grows later. Called under the lock. */
void txn_reserve(struct txn *t, size_t sites);
/* Reads memory, drops the stores that change nothing, and plans every armed site that reads bytes of the other stores.
 * The list of stores must be in order of addresses. Called under the lock. Returns 0 or an etch_error. */
int txn_plan_stores(struct txn *t);
/* Stores of a module's objects in one range. */
struct range_read {
	const struct module *owner;
	uint64_t from, to;
	const struct object *o; /* the object that the previous site reads from, or null */
};
/* Plans a site that reads from `at`, before the range's end, if the bytes that it reads are stored to and armed. */
int txn_plan_read(struct txn *t, struct range_read *r, const struct etch_imv *e, uint64_t at);
/* plan_object.c: plans the sites that indexes lead to (struct part_others). */
int plan_reads(struct txn *t, struct range_read *r);
/* Plans calls in place and static branches that depend on bytes in [from, to); with PLAN_SET only those of armed
 * objects. */
int txn_plan_tables(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan);
/* plan_object.c: plans all sites of one object. own: null, or, for objects in ascending order, the positions in the
 * module's sites to continue from, initially 0. Returns 0 or an etch_error. */
int txn_plan_object(struct txn *t, const struct object *o, enum plan plan, size_t own[SITES_KINDS]);
/* plan_wide.c: is this the only thread? */
int txn_alone(struct txn *t);
/* plan_wide.c: plans the sites that the core does not plan by itself (struct part_objects). */
int plan_any(struct txn *t, const struct etch_imv *e, uint64_t at, const struct object *o, enum plan plan);
int plan_across(struct txn *t, uint64_t site, unsigned len, uint64_t have, uint64_t want, int is_load);
/* Plans one site that reads from `at`, which is in object `o`. Returns 0 or an etch_error. */
int txn_plan_site(struct txn *t, const struct etch_imv *e, uint64_t at, const struct object *o, enum plan plan);
/* The value of [at, at+size) after the stores of this transaction. size <= 8. */
uint64_t txn_value_of(const struct txn *t, uint64_t at, unsigned size);
/* Adds the words that change these bytes of text by stores. (plan_wide.c) */
int txn_bytes(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want);
/* Adds the words that change the bytes of a site, at most 8, from `have` to `want`. The site may cross a word, but must
 * be one instruction before and after the change. is_load: the site may stay as it is if the system refuses the
 * change. */
int txn_site(struct txn *t, uint64_t site, unsigned len, uint64_t have, uint64_t want, int is_load);

/* etch_set_batch() (imv.c). in_order: puts the words of several changes in order; null for one change. */
int set_changes(const struct etch_change *changes, size_t count, int (*in_order)(struct list *));

/* Turns the sites of one object into loads, as etch_release does (rearm.c). Returns 0 or an etch_error. */
int object_release(struct module *m, size_t object);

/* Arms the objects that were given up with the page of an address, as etch_sync does. */
void page_rearm(struct module *m, uint64_t at);

/* ---- the change (patch.c) ----------------------------------------------- */

/* Makes the changes. Returns 0, or an etch_error after undoing all of them. */
int txn_commit(struct txn *t);
/* Makes the changes as txn_commit() does, but by the swaps that are prepared in t->swaps, and by stores for the words
 * that are not swapped. */
int txn_change(struct txn *t);
/* Makes the changes as txn_commit() does, whatever kind they are of: it prepares the swaps that they need
 * (page_swap.c; struct part_objects). */
int commit_any(struct txn *t);

/* ---- whole pages (page_swap.c) ---------------------------------------------------- */

/* A run of adjacent pages of one segment that are replaced together. */
struct swap_run {
	uint64_t start, end;
	uint64_t copy;      /* the mapping that is to replace the pages; 0: none */
	size_t first, last; /* its words in the list */
	struct module *owner;
	const struct segment *segment;
	int required;    /* it has a word that must change */
	int anonymous;   /* the copy is not a mapping of the file */
	int breakpoints; /* there may be breakpoints on its pages */
	int moved;
};

/* All swaps of one change. */
struct swaps {
	struct list *text;
	struct swap_run *run;
	size_t count, done; /* done: the runs before this one have been moved */
};

/* The segment of [at, at+size) if its pages can be replaced, that is, if it is readable and executable, and nothing
 * else; or null. */
const struct segment *text_swappable(uint64_t at, unsigned size);
/* Nonzero after the system's policy has refused a swap: from then on, sites that may stay loads stay loads. Used under
 * the lock. */
extern int swap_refused;
/* Prepares copies of all pages that a sorted list changes by swap. A word that would be stored there becomes
 * WORD_SWAP_ALONG; one that may stay and whose page has no copy becomes WORD_DROPPED. Only one at a time, under the
 * lock. Returns 0, or an etch_error, and then there is nothing to end. */
int swaps_prepare(struct swaps *s, struct list *text);
/* Moves the copies over the pages. Returns 0, or an etch_error with some of them moved. */
int swaps_do(struct swaps *s);
/* Puts the old contents of the moved runs back. */
void swaps_undo(struct swaps *s);
/* Releases the copies that were not moved. */
void swaps_end(struct swaps *s);
/* Turns each WORD_SWAP_OPTIONAL of a list into WORD_DROPPED. Returns whether there were any. */
int swaps_cancel_optional(struct list *text);
/* Moves the mapping [copy, copy+size) over [to, to+size). Returns 0, or a negative errno, and then nothing has
 * changed. */
long pages_move(uint64_t copy, uint64_t to, uint64_t size);
/* Waits a millisecond between attempts at an operation that must succeed; after ten seconds of them the process ends
 * with a message. */
void page_pause(unsigned tries);

/* ---- breakpoints on pages that are swapped (breakpoints.c) -------------------------- */

/* A set of bytes of a page, one bit each. */
struct marks {
	uint64_t bits[ETCH_PAGE / 64];
	int any;
};

/* Marks the bytes of a word that are 0xcc, and are neither 0xcc in the file nor replaced by the change. */
void marks_add(struct marks *k, uint64_t at, uint64_t now, uint64_t file, uint64_t mask);
/* Clears the marks of bytes that are part of an immediate that libetch wrote. Returns whether any mark is left, which
 * may be a breakpoint. */
int marks_breakpoint(struct marks *k, const struct module *m, uint64_t page);
/* Called before the last comparison of a page with its copy. Returns the argument for breakpoints_may_differ(). */
long breakpoints_watch(void);
/* May a debugger have changed the page between that call and its swap? */
int breakpoints_may_differ(long watch);
/* Replaces the bytes that may be breakpoints by the code of the file. */
void breakpoints_drop(const struct swap_run *r);

/* ---- pages of data (data_swap.c) -------------------------------------------------- */

/* Prepares copies of the pages, read-only outside a set, on which a list has words; the list is sorted by address.
 * Only one at a time, under the lock. Returns 0, or a negative errno, and then there is nothing to end. */
long data_swap_prepare(const struct list *l);
/* Stores the words by moving the copies over the pages. Returns 0, or a negative errno with nothing changed. */
long data_swap(const struct list *l);
/* Puts the old words back. */
void data_swap_undo(const struct list *l);
/* Releases the copies that were not moved. */
void data_swap_end(void);
/* Called in the child of a fork: forgets the copies that another thread was preparing. */
void data_swap_forget(void);

/* ---- the file of a module (text_file.c) ---------------------------------------- */

/* Maps pages of a module's segment privately and writable; the pages are anonymous, and hold zeros, if the file is
 * not available. Returns the address, or a negative errno. */
long text_file_map(const struct module *m, const struct segment *s, uint64_t page, uint64_t size, int *anonymous);
/* Notes that anonymous pages have replaced the pages in [start, end). */
void text_file_left(uint64_t start, uint64_t end);
/* Is it impossible that a uprobe is in this page, because nobody has written to it, or because it is anonymous? */
int text_file_untouched(uint64_t page);
/* The number of bytes of a module's code that are this process's own copies; also 0 if that cannot be found out. */
uint64_t text_file_private(const struct image *im);

/* ---- synchronization (sync.c) ---------------------------------------------------- */

/* Can membarrier(2) synchronize other threads now? */
int sync_available(void);
/* Is this the only thread of the process, as far as is known? */
int sync_alone(void);
/* Notes the ID of the process whose memory this is. */
void sync_process_is(long pid);
/* Has the process had other threads? 0 means that it has not, or that this is unknown. */
int sync_had_threads(void);
/* Makes all threads execute a serializing instruction before they continue. Returns 0 or ETCH_ENOSYNC. */
int sync_cores(void);
/* Makes this thread execute a serializing instruction. */
void sync_self(void);
/* Tells valgrind that the code in [from, to) has changed, because it caches what it translated of mapped files. */
void sync_valgrind(uint64_t from, uint64_t to);

/* ---- calls compiled in place (inline.c) -------------------------------------- */

/* Plans the calls whose slot has a byte in [from, to); with PLAN_SET, only if the slot's object is armed. */
int txn_plan_inlines(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan);
/* inlines_verify() compares, for etch_verify, and inlines_info() counts, for etch_info, the calls compiled in place of
 * a module. */
long inlines_verify(const struct module *m, void (*report)(void *, const void *, const void *), void *arg);
void inlines_info(const struct module *m, struct etch_info *info);

/* ---- the target of a call (pv.c) -------------------------------------------- */

/* Determines the body of the function at t->at, if it may be inlined. `use`: its bytes are about to be written.
 * Called under the lock. */
void pv_target(struct target *t, int use);
/* Is the function's code unknown: in no registered module, or with a breakpoint? */
int pv_unknown(uint64_t target);
/* Are the bytes at this site the form that etch writes for some function's body? Returns the number of instructions
 * (a nop is one), or 0. */
unsigned pv_some_body(const struct etch_imv *e, uint64_t site, const uint8_t *bytes);
/* Are the bytes a direct call or jump to any address? */
int pv_some_direct(const struct etch_imv *e, const uint8_t *bytes);

#endif
