/* SPDX-License-Identifier: MIT */
/*
 * records.h: what .eh_frame and the language's tables say about a return address, read once and kept (records.c).
 *
 * Async-signal-safe and thread-safe, without a lock: records are only added, and an added one stays as it is. A
 * record belongs to a file at a place in memory. If the module is never unloaded, the record holds for good;
 * otherwise it holds as long as the module at that place has the same build-id.
 */
#ifndef ETCH_LIB_EXCEPTIONS_RECORDS_H
#define ETCH_LIB_EXCEPTIONS_RECORDS_H

#include "exceptions/call_site.h"
#include "exceptions/frame.h"

#define RECORD_TYPES 2u
/* With more bytes of arguments libgcc takes over: while a thread lands, the return address of the frame's call must
 * lie in the 128 bytes below rsp that a signal handler does not touch. */
#define RECORD_ARGS_SIZE 112u

/* What is known about one return address. */
struct record {
	uint64_t ip;
	int32_t cfa_off;
	int16_t cfa_add;    /* added to the loaded CFA, if RECORD_DEREF is set */
	uint16_t args_size; /* bytes of arguments that a landing pad expects to be popped */
	uint8_t base;       /* the register (enum frame_register) that the CFA is relative to; or RECORD_ODD */
	uint8_t flags;
	uint8_t saved;             /* one bit for each register that the function has saved */
	uint8_t site;              /* enum call_site */
	uint16_t personality;      /* personalities.h; 0: none */
	uint16_t module;           /* number of the module (file_places.h); 0: a module that is never unloaded */
	int16_t slot[FRAME_SAVED]; /* where a register is saved, in words from the CFA, or from rbp with RECORD_FROM_RBP */
	/* Relative to ip: */
	int32_t start;   /* start of the function */
	int32_t lsda;    /* language-specific data area, if RECORD_LSDA is set */
	int32_t landing; /* the landing pad of a cleanup */
	/* Types of exceptions that the handlers of the call are known not to match, or 0. Each is set once. */
	uint64_t not_type[RECORD_TYPES];
};

/* The value of `base` in a record that cannot express what .eh_frame says: libgcc takes over. */
#define RECORD_ODD 0xffu

enum {
	RECORD_DEREF = 1,    /* CFA = *(base + cfa_off) + cfa_add */
	RECORD_FROM_RBP = 2, /* registers are saved relative to rbp */
	RECORD_LSDA = 4,
};

_Static_assert(sizeof(struct record) == 64, "a record is a line of cache");

/* What a throw has already found out, so that it need not ask again: which file is still the one that its records were
 * made of. It remembers the last module that it has examined. A module with a frame on the thread's stack is not
 * unloaded during the throw. */
struct records_view {
	uint32_t module;      /* number of the module that was examined last; 0: none yet */
	uint32_t asked;       /* this throw has begun to examine modules */
	uint32_t personality; /* number of the routine that was last found to be where it was; 0: none yet */
};

/* The record of a return address on this thread's stack; null if there is none, and libgcc takes over. */
const struct record *record_open(struct records_view *v, uint64_t ip);

/* ---- the table -------------------------------------------------------------------- */

/* An open hash table of the numbers of records, counted from 1. A larger table replaces it when it is half full. */
struct record_index {
	uint32_t shift; /* 64 minus the logarithm of the number of slots */
	uint32_t mask;
	uint32_t slot[];
};

#define RECORDS_FIRST  64u /* records of the first block; each block has twice as many as the one before */
#define RECORDS_BLOCKS 20u

extern struct record_index *records_index;
extern struct record *records_block[RECORDS_BLOCKS];

static inline struct record *record_numbered(uint32_t n)
{
	uint32_t block = 31u - (uint32_t)__builtin_clz(n / RECORDS_FIRST + 1);

	return records_block[block] + (n - RECORDS_FIRST * ((1u << block) - 1));
}

static inline uint32_t record_slot(const struct record_index *index, uint64_t ip)
{
	return (uint32_t)(ip * 0x9e3779b97f4a7c15u >> index->shift);
}

/* The first record of an address in the table, whatever its module; null if there is none. */
static inline const struct record *record_find(uint64_t ip)
{
	const struct record_index *index = __atomic_load_n(&records_index, __ATOMIC_ACQUIRE);
	uint32_t n;

	for (uint32_t i = record_slot(index, ip); (n = __atomic_load_n(&index->slot[i], __ATOMIC_ACQUIRE));
	     i = (i + 1) & index->mask) {
		const struct record *r = record_numbered(n - 1);

		if (r->ip == ip)
			return r;
	}
	return 0;
}

/* The record of a return address on this thread's stack. */
static inline const struct record *record_at(struct records_view *v, uint64_t ip)
{
	const struct record *r = record_find(ip);

	if (__builtin_expect(!r || (r->module && r->module != v->module), 0))
		r = record_open(v, ip);
	return __builtin_expect(r && r->base != RECORD_ODD, 1) ? r : 0;
}

/* Moves to the caller's frame. */
static inline void record_step(const struct record *r, struct frame *f)
{
	uint64_t cfa = f->reg[r->base] + (uint64_t)(int64_t)r->cfa_off, from;

	if (r->flags & RECORD_DEREF)
		cfa = stack_load(cfa) + (uint64_t)(int64_t)r->cfa_add;
	from = r->flags & RECORD_FROM_RBP ? f->reg[FRAME_RBP] : cfa;
	for (unsigned left = r->saved; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);

		f->reg[i] = stack_load(from + 8 * (uint64_t)(int64_t)r->slot[i]);
	}
	f->reg[FRAME_RSP] = cfa;
	f->reg[FRAME_RIP] = stack_load(cfa - 8);
}

static inline uint64_t record_address(const struct record *r, int32_t delta)
{
	return r->ip + (uint64_t)(int64_t)delta;
}

#endif
