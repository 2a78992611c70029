/* SPDX-License-Identifier: MIT */
/*
 * Instruction forms. Instructions of one form differ only in register numbers, displacements and immediates, so Zydis
 * decodes the operands once per form. The struct step of further instructions of the form follows from their raw fields
 * (arch/x86/raw.h).
 */
#ifndef X86_FORM_H
#define X86_FORM_H

#include "arch/x86/shape.h"

/* A form: the properties that its instructions share. */
struct form {
	uint32_t key;
	uint16_t mnemonic; /* ZydisMnemonic */
	uint8_t shape;     /* enum shape */
	uint8_t stored;    /* number of bytes written to the explicit memory operand; 255: more than 254 */
	struct step base;  /* the members that are equal for all instructions of the form */
	struct operand op[2];
	uint8_t written[3]; /* fields whose registers the instruction writes: enum raw_field, plus BYTE_REG if it is an
	                       8-bit register */
	bool done;          /* base.op is final: no shape applies */
	bool flags, memory, follow;
	/* form_compare() has compared an instruction of the form that raw_read() can read (it cannot read those with a lock
	 * prefix) */
	bool compared;
	bool quick; /* raw_read() and form_finish() are known to give the same fields as Zydis */
	uint8_t imm_size;
	bool imm_signed;
};
#define BYTE_REG 0x80u

#define FORM_BITS  14u
#define FORM_SLOTS (1u << FORM_BITS)
#define FORMS_MOST 8192u /* more forms than a program uses; beyond this number none are added */

/* All forms that a thread has seen. */
struct forms {
	uint16_t slots[FORM_SLOTS]; /* hash table: index in `list` + 1; 0 = empty */
	struct form *list;
	unsigned count, capacity;
};

/* Makes the form of a fully decoded instruction. Returns false if it writes more registers than a form can describe. */
bool form_make(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct form *f);
/* Fills *out for an instruction of a form with the given registers, displacement and immediate. */
void form_apply(const struct form *f, const struct raw *z, uint64_t addr, struct step *out);
/* Sets f->quick if raw_read() and form_finish() read from `bytes` the same fields as Zydis, which has decoded z from
 * them. Then later instructions of the form need not be decoded by Zydis. */
void form_compare(struct form *f, const ZydisDecodedInstruction *z, const uint8_t *bytes);
/* Completes *raw, which raw_read() has filled, by the immediate at offset imm_at and by the length. */
void form_finish(const struct form *f, const uint8_t *bytes, unsigned imm_at, struct raw *raw);

/* Returns the form with a key. If there is none, returns null, and *slot is the empty slot where it belongs. */
struct form *form_find(const struct forms *all, uint32_t key, unsigned *slot);
/* Copies a form into an empty slot, and returns the copy. Returns null if there are FORMS_MOST forms already. */
struct form *form_add(struct forms *all, const struct form *f, unsigned slot);

#endif
