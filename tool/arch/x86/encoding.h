/* SPDX-License-Identifier: MIT */
/*
 * A cache of decoded instructions, keyed by the bytes before displacement and immediate: instructions with equal key
 * bytes differ only in these two fields. Most instructions of a program are found in it; the others are decoded by
 * their form (arch/x86/form.h) or in full.
 */
#ifndef X86_ENCODING_H
#define X86_ENCODING_H

#include "arch/x86/form.h"

/*
 * A cached instruction, which also says how to make the struct step of another instruction with the same key bytes.
 * Lookups are bound by memory latency, so an entry is small: two of them fit in one cache line.
 */
struct encoding {
	uint64_t key;       /* the key bytes; 0: an empty slot */
	uint8_t rest[16];   /* the members of struct step after `number`; among them, `len` is the length of the whole
	                       instruction */
	uint8_t constant;   /* step.imm, if `imm` is IMM_CONSTANT */
	uint8_t disp_shift; /* 64 minus the number of bits of the displacement, which follows the key bytes; 0: there is
	                       none, and step.disp is 0 */
	uint8_t head;       /* number of key bytes */
	uint8_t imm;        /* enum encoding_imm */
	uint8_t imm_at, imm_shift; /* of the field from which step.imm is made: its offset in the instruction; 64 minus its
	                              number of bits */
};

/* The cache of one thread. */
struct encodings {
	struct encoding *list; /* hash table, linear probing */
	unsigned count, size;
	unsigned shift; /* hash >> shift is the index in `list` */
	/* A direct-mapped cache of recently used entries, looked up before `list`: `list` is larger than the L1 cache, and
	 * few of its entries are used again and again. While `list` is small, `near` points to the same memory. */
	struct encoding *near;
	unsigned near_shift;
};

#define ENCODING_BYTES 24u /* bytes that are read from the address of each instruction */

/* The caches of one thread. */
struct step_cache {
	struct encodings encodings;
	struct forms forms;
};

/* Looks up the instruction at `bytes`, and sets *out if it is in the cache. Returns false if it is not. Does not know
 * how many bytes are left: the caller must check that out->len does not exceed them. */
bool encoding_decode(struct encodings *all, const uint8_t *bytes, uint64_t addr, struct step *out);
/* In fast_decoder.c: decodes an instruction that is not in the cache, or that is close to the end of the code. */
bool step_uncached(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr, struct step *out);
/* Decodes an instruction again with Zydis, and aborts if the result differs from `found`, which was made without it
 * (make asan). */
void step_check_again(const uint8_t *bytes, size_t avail, uint64_t addr, const struct step *found);
static inline void step_check(const uint8_t *bytes, size_t avail, uint64_t addr, const struct step *found)
{
#ifdef ETCH_CHECK_STEPS
	step_check_again(bytes, avail, addr, found);
#else
	(void)bytes, (void)avail, (void)addr, (void)found;
#endif
}
/* Adds an instruction to the cache, if the cache can describe it. f is the instruction's form, `raw` its fields, and
 * `step` its decoded step. */
void encoding_add(struct encodings *all, const uint8_t *bytes, const struct form *f, const struct raw *raw,
                  const struct step *step);
void encodings_free(struct encodings *all);

#endif
