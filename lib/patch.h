/* SPDX-License-Identifier: MIT */
/*
 * patch.h: a change of memory and instructions, from its plan to the barrier. In the
 * order in which one uses the other, the last first: patch.c (the change), plan.c,
 * inline.c, pv.c, site.c, sync.c, words.c.
 */
#ifndef ETCH_PATCH_H
#define ETCH_PATCH_H

#include <string.h>

#include "internal.h"

/* ---- lists of words (words.c) ---------------------------------------------- */

/* A change inside one aligned 8-byte word, of data or of text. */
struct word {
	uint64_t at;
	uint64_t old, new; /* whole words; only the bytes of mask are changed */
	uint64_t mask;
};

/* Words that need no mapping, which a batch of 100 variables does not. 4 KiB of
 * the caller's stack for data; the text list has room of its own. */
#define LIST_FIXED 128

struct list {
	struct word *word;
	struct word *fixed; /* the room that it began with */
	size_t count, capacity;
};

/* fixed: its first room, or null. */
void list_begin(struct list *l, struct word *fixed, size_t capacity);
/* The others under the lock. text: there is one list of these at a time, and its mapping is kept. */
void list_end(struct list *l);
/* Room for four times as many. 0 or ETCH_ENOMEM. */
int list_grow(struct list *l, int text);
/* Room for so many words of text, if it can be had. */
void list_reserve(struct list *l, size_t count);
/* By address; equal ones keep their order. 0 or ETCH_ENOMEM. */
int list_sort(struct list *l);

static inline int list_add(struct list *l, struct word w, int text)
{
	if (l->count == l->capacity) {
		int err = list_grow(l, text);

		if (err)
			return err;
	}
	l->word[l->count++] = w;
	return 0;
}

/* ---- memory, a word at a time ------------------------------------------------ */

/* Aligned words have more bytes than what is asked for: AddressSanitizer may think those nobody's. */
static inline __attribute__((no_sanitize("address"))) uint64_t word_load(uint64_t at)
{
	return __atomic_load_n((const uint64_t *)(uintptr_t)at, __ATOMIC_RELAXED);
}

static inline uint64_t byte_mask(unsigned count)
{
	return count >= 8 ? ~(uint64_t)0 : ((uint64_t)1 << (8 * count)) - 1;
}

/* [at, at+size) of two aligned words, the first of which holds `at`. */
static inline uint64_t value_in(const uint64_t word[2], uint64_t at, unsigned size)
{
	unsigned shift = (at & 7) * 8;

	return (shift ? word[0] >> shift | word[1] << (64 - shift) : word[0]) & byte_mask(size);
}

/* What [at, at+size) holds. size <= 8. */
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

static inline int same_bytes(const uint8_t *a, const uint8_t *b, unsigned n) { return !memcmp(a, b, n); }

/* ---- what stands at a site (site.c) --------------------------------------------- */

/* Of the bytes at a site. */
enum site_state {
	SITE_LOAD,      /* or an indirect call */
	SITE_IMMEDIATE, /* of the value that memory holds; a direct call to it */
	SITE_INLINE,    /* what the function that memory names does, as far as can be told */
	SITE_STALE,     /* an immediate of another value, a call of another function */
	SITE_BUSY,      /* 0xcc */
	SITE_UNKNOWN,
};
enum site_state site_state(const struct etch_imv *e, uint64_t object);
/* The same, as if these were the bytes at the site. */
enum site_state site_state_of(const struct etch_imv *e, uint64_t object, const uint8_t *bytes);

/* The bytes of its immediate form for a value; their number, 0 where there is none. */
unsigned immediate_form(const struct etch_imv *e, uint64_t value, uint8_t out[16]);
/* Are these bytes the immediate form for any value at all? */
int immediate_of_some_value(const struct etch_imv *e, const uint8_t *bytes);

/* ---- plans (plan.c) ------------------------------------------------------------ */

/* The two images of the site planned last: neighbours in a table are often alike. */
struct memo {
	uint64_t object;
	uint32_t shape;
	unsigned old_length, new_length; /* 0 = no immediate form for this value */
	uint64_t old, new;
};

/* What is called at a call site, and what is known of it. */
struct target {
	uint64_t at;
	int known; /* body is what its code does */
	struct etch_pv_body body;
};

/* Both values of the slot planned last, which many sites may call through. */
struct slot {
	uint64_t at;
	struct target old, new;
};

struct txn {
	struct list data, text;
	size_t run, run_end; /* cells of data that are now being planned for */
	struct memo memo;
	struct slot slot;
	int alone;  /* is this the only thread? -1: not asked yet */
	int lonely; /* some planned change needs that */
	struct word fixed[LIST_FIXED]; /* of data */
};

enum plan {
	PLAN_SET,  /* memory changes: armed sites follow */
	PLAN_ARM,  /* sites become immediates of what memory holds */
	PLAN_LOAD, /* sites become loads */
};

void txn_begin(struct txn *t);
/* Under the lock. */
void txn_end(struct txn *t);
/* Makes room for changes of this many sites, if it can: adding them is then
 * cheaper. Under the lock. */
void txn_reserve(struct txn *t, size_t sites);
/* Adds a store of `size` bytes. Call before taking the lock. 0 or ETCH_ENOMEM. */
int txn_store(struct txn *t, uint64_t at, const void *value, size_t size);
/* Under the lock: orders the stores, reads what memory holds, drops those that
 * change nothing, and plans every armed site they touch. 0 or an etch_error. */
int txn_plan_stores(struct txn *t);
/* Plans all sites of one object. own: null, or for objects in ascending order
 * the places in the module's sites to go on from, 0 at first. 0 or an etch_error. */
int txn_plan_object(struct txn *t, const struct object *o, enum plan plan, size_t own[SITES_KINDS]);
/* Plans one site that reads from `at`, which is in object `o`. 0 or an etch_error. */
int txn_plan_site(struct txn *t, const struct etch_imv *e, uint64_t at, const struct object *o, enum plan plan);
/* What the 8-byte slot holds after the stores of this transaction. */
uint64_t txn_value(const struct txn *t, uint64_t slot);
/* Adds the words that change these bytes of text. */
int txn_bytes(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want);

/* ---- the change (patch.c) -------------------------------------------------------- */

/* Makes the changes. 0 or an etch_error; then everything is as before. */
int txn_commit(struct txn *t);
/* ---- synchronization (sync.c) ---------------------------------------------------- */

/* Could membarrier(2) synchronize other threads, now? */
int sync_available(void);
/* Is this the only thread of the process, as far as can be told? */
int sync_alone(void);
/* Makes all threads serialize before they run another instruction of the program. 0 or ETCH_ENOSYNC. */
int sync_cores(void);
/* This thread alone. */
void sync_self(void);
/* valgrind keeps translations of code that comes from a file: tells it that [from, to) has changed. */
void sync_valgrind(uint64_t from, uint64_t to);

/* ---- calls compiled in place (inline.c) -------------------------------------- */

/* Plans those whose slot has a byte in [from, to); PLAN_SET: where its object is armed. */
int txn_plan_inlines(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan);
/* For etch_verify and etch_info. */
long inlines_verify(const struct module *m, void (*report)(void *, const void *, const void *), void *arg);
void inlines_info(const struct module *m, struct etch_info *info);

/* ---- what is known of a call's target (pv.c) ------------------------------- */

/* Fills in what the function at t->at does, where that may stand in a call's place;
 * `use`: its bytes are about to be written. Under the lock. */
void pv_target(struct target *t, int use);
/* Can its code not be judged: no module of ours holds it, or a breakpoint is there? */
int pv_unsure(uint64_t target);
/* Are the bytes at this site what etch makes of some function's body? Returns the
 * number of instructions (a nop is one), or 0. */
unsigned pv_some_body(const struct etch_imv *e, uint64_t site, const uint8_t *bytes);
/* Likewise, of a direct call or jump to any address. */
int pv_some_direct(const struct etch_imv *e, const uint8_t *bytes);

#endif
