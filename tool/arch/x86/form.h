/* SPDX-License-Identifier: MIT */
/*
 * Instructions of one form differ in register numbers, displacements and immediates: the operands
 * of a form are decoded once, by Zydis.
 */
#ifndef X86_FORM_H
#define X86_FORM_H

#include "arch/x86/shape.h"

struct form {
	uint32_t key;
	uint16_t mnemonic; /* ZydisMnemonic */
	uint8_t shape;     /* enum shape */
	uint8_t stored;    /* bytes written to the explicit memory operand */
	struct step base;  /* as far as it is the same for all of them */
	struct operand op[2];
	uint8_t written[3]; /* enum raw_field, | BYTE_REG: fields that name registers written */
	bool done;         /* base has its op */
	bool flags, memory, follow;
	bool judged;       /* form_judge() has had an instruction that raw_read() reads: others have a lock in front */
	bool quick;        /* raw_read() and the two below say how long it is */
	uint8_t imm_size;
	bool imm_signed;
};
#define BYTE_REG 0x80u

#define FORM_BITS  14u
#define FORM_SLOTS (1u << FORM_BITS)
#define FORMS_MOST 8192u /* more than a program has: then no more are kept */

struct forms {
	uint16_t slots[FORM_SLOTS]; /* by hash: number of a form + 1 */
	struct form *list;
	unsigned count, room;
};

/* The form of a fully decoded instruction. False: it has too much for one. */
bool form_make(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct form *f);
/* An instruction of a form, with its registers, displacement and immediate. */
void form_apply(const struct form *f, const struct raw *z, uint64_t addr, struct step *out);
/* Can the next one of this form be read without Zydis? Says so in f->quick. */
void form_judge(struct form *f, const ZydisDecodedInstruction *z, const uint8_t *bytes);
/* The immediate of what raw_read() has read, and so its length. */
void form_finish(const struct form *f, const uint8_t *bytes, unsigned imm_at, struct raw *raw);

/* The form of a key; or null, and *slot is where its number is to be. */
struct form *form_find(const struct forms *all, uint32_t key, unsigned *slot);
/* A new one; null: no room. */
struct form *form_add(struct forms *all, const struct form *f, unsigned slot);

#endif
