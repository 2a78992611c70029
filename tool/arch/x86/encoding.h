/* SPDX-License-Identifier: MIT */
/*
 * Instructions that have been met, by the bytes up to displacement and immediate: those with the
 * same ones are the same but for these two. Most of a program's are; of the others, arch/x86/form.h
 * knows the rest.
 */
#ifndef X86_ENCODING_H
#define X86_ENCODING_H

#include "arch/x86/form.h"

/*
 * An instruction, and how another one with its first bytes is made of it. Most of the time goes into
 * waiting for it to come from memory: it is small, and one line of a cache has two.
 */
struct encoding {
	uint64_t key;       /* its first bytes; 0: none */
	uint8_t rest[16];   /* of struct step: all behind `number`; its len says how long all of them are */
	uint8_t constant;   /* step.imm, where it is the same for all */
	uint8_t disp_shift; /* 64 - bits of the displacement, behind the head; 0: step.disp is 0 */
	uint8_t head;       /* bytes of the key */
	uint8_t imm;        /* enum encoding_imm */
	uint8_t imm_at, imm_shift; /* what step.imm is made of */
};

struct encodings {
	struct encoding *list; /* by hash */
	unsigned count, size;
	unsigned shift;        /* of a hash, to an index */
	/* Looked at first: what was asked for last, by the same hash. All of `list` is larger than a near cache, and
	 * few of it are asked for again and again. While it is small, `list` itself. */
	struct encoding *near;
	unsigned near_shift;
};

#define ENCODING_BYTES 24u /* that are read of an instruction */

/* What a thread has met. */
struct step_cache {
	struct encodings encodings;
	struct forms forms;
};

/* False: none that has been met. Its length may be more than there is. */
bool encoding_decode(struct encodings *all, const uint8_t *bytes, uint64_t addr, struct step *out);
/* stack.c: of an encoding that has not been met, or near the end of the code. */
bool step_unmet(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr, struct step *out);
/* Every step that was read without Zydis, read again with it (make asan). */
void step_check_again(const uint8_t *bytes, size_t avail, uint64_t addr, const struct step *found);
static inline void step_check(const uint8_t *bytes, size_t avail, uint64_t addr, const struct step *found)
{
#ifdef ETCH_CHECK_STEPS
	step_check_again(bytes, avail, addr, found);
#else
	(void)bytes, (void)avail, (void)addr, (void)found;
#endif
}
/* It is met now, as an instruction of a form. */
void encoding_note(struct encodings *all, const uint8_t *bytes, const struct form *f, const struct raw *raw,
                   const struct step *step);
void encodings_free(struct encodings *all);

#endif
