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
};

#define ENCODING_BYTES 24u /* that are read of an instruction */

/* False: none that has been met. Its length may be more than there is. */
bool encoding_decode(const struct encodings *all, const uint8_t *bytes, uint64_t addr, struct step *out);
/* It is met now, as an instruction of a form. */
void encoding_note(struct encodings *all, const uint8_t *bytes, const struct form *f, const struct raw *raw,
                   const struct step *step);
void encodings_free(struct encodings *all);

#endif
