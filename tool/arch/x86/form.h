/* SPDX-License-Identifier: MIT */
/*
 * Instruction forms. Instructions of one form differ only in register numbers, displacements and immediates, so
 * Zydis decodes the operands once per form; struct step of the others follows from their raw fields
 * (arch/x86/raw.h).
 */
#ifndef X86_FORM_H
#define X86_FORM_H

#include "arch/x86/shape.h"

/* What all instructions of a form have in common. */
struct form {
	uint32_t key;
	uint16_t mnemonic; /* ZydisMnemonic */
	uint8_t shape;     /* enum shape */
	uint8_t stored;    /* bytes written to the explicit memory operand; 255: more */
	struct step base;  /* the members that are equal for all instructions of the form */
	struct operand op[2];
	uint8_t written[3]; /* fields that name written registers: enum raw_field, | BYTE_REG for 8-bit ones */
	bool done;          /* base.op is final: no shape applies */
	bool flags, memory, follow;
	/* form_compare() has compared one that raw_read() can read; instructions with a lock prefix cannot be */
	bool compared;
	bool quick; /* raw_read() and form_finish() give the same fields as Zydis */
	uint8_t imm_size;
	bool imm_signed;
};
#define BYTE_REG 0x80u

#define FORM_BITS  14u
#define FORM_SLOTS (1u << FORM_BITS)
#define FORMS_MOST 8192u /* more than a program uses; no more are added then */

/* All forms that a thread has seen. */
struct forms {
	uint16_t slots[FORM_SLOTS]; /* hash table: index in `list` + 1; 0 = empty */
	struct form *list;
	unsigned count, capacity;
};

/* Makes the form of a fully decoded instruction. False: it writes more registers than a form can describe. */
bool form_make(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct form *f);
/* Fills *out for an instruction of a form with the given registers, displacement and immediate. */
void form_apply(const struct form *f, const struct raw *z, uint64_t addr, struct step *out);
/* Sets f->quick if later instructions of the form can be read without Zydis. */
void form_compare(struct form *f, const ZydisDecodedInstruction *z, const uint8_t *bytes);
/* Completes what raw_read() has read by the immediate at imm_at, and by the length. */
void form_finish(const struct form *f, const uint8_t *bytes, unsigned imm_at, struct raw *raw);

/* The form with a key; or null, and *slot is the empty slot where it belongs. */
struct form *form_find(const struct forms *all, uint32_t key, unsigned *slot);
/* Adds a form in an empty slot. Null: FORMS_MOST reached. */
struct form *form_add(struct forms *all, const struct form *f, unsigned slot);

#endif
