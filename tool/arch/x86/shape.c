/* SPDX-License-Identifier: MIT */
/* Finds the shape of an instruction by its mnemonic and operands, and sets the step_op and operands of its struct step
 * by the shape. */
#include "arch/x86/shape.h"

#include <Zydis/Zydis.h>

#define RSP 4u
#define RBP 5u

bool stores_back(unsigned mnemonic, const struct operand *ops, const struct raw *z)
{
	return ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
	       (((mnemonic == ZYDIS_MNEMONIC_OR || mnemonic == ZYDIS_MNEMONIC_ADD || mnemonic == ZYDIS_MNEMONIC_SUB ||
	          mnemonic == ZYDIS_MNEMONIC_XOR) &&
	         z->imm == 0) ||
	        (mnemonic == ZYDIS_MNEMONIC_AND && z->imm == -1));
}

static enum shape shape_of_mov(const struct operand *a, const struct operand *b)
{
	bool ra = a->reg != INSN_NO_REG, rb = b->reg != INSN_NO_REG, wide = a->size == 64;

	if (wide && ra && rb)
		return SHAPE_MOVE;
	if (ra && b->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && a->size >= 32)
		return SHAPE_CONST;
	if (wide && ra && b->type == ZYDIS_OPERAND_TYPE_MEMORY)
		return SHAPE_LOAD;
	if (a->type == ZYDIS_OPERAND_TYPE_MEMORY && wide && rb)
		return SHAPE_STORE;
	if (a->size == 32 && ra && b->type == ZYDIS_OPERAND_TYPE_MEMORY)
		return SHAPE_FETCH;
	return a->size == 32 && ra && rb ? SHAPE_EXTEND : SHAPE_NONE;
}

/* Returns if_first if condition `first` is true; otherwise if_second if `second` is true; otherwise SHAPE_NONE. */
static enum shape by_kind(bool first, bool second, enum shape if_first, enum shape if_second)
{
	if (first)
		return if_first;
	return second ? if_second : SHAPE_NONE;
}

enum shape shape_of(unsigned mnemonic, const struct operand *ops)
{
	const struct operand *a = &ops[0], *b = &ops[1];
	bool ra = a->reg != INSN_NO_REG, rb = b->reg != INSN_NO_REG, whole = ra && a->size == 64;
	bool imm = b->type == ZYDIS_OPERAND_TYPE_IMMEDIATE, memory = b->type == ZYDIS_OPERAND_TYPE_MEMORY;

	switch (mnemonic) {
	case ZYDIS_MNEMONIC_PUSH: return SHAPE_PUSH;
	case ZYDIS_MNEMONIC_PUSHF:
	case ZYDIS_MNEMONIC_PUSHFQ: return SHAPE_PUSHF;
	case ZYDIS_MNEMONIC_POP: return SHAPE_POP;
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ: return SHAPE_POPF;
	case ZYDIS_MNEMONIC_LEAVE: return SHAPE_LEAVE;
	case ZYDIS_MNEMONIC_ENTER: return SHAPE_ENTER;
	case ZYDIS_MNEMONIC_MOV: return shape_of_mov(a, b);
	case ZYDIS_MNEMONIC_MOVZX:
		if (!ra || a->size < 32)
			return SHAPE_NONE;
		return by_kind(rb, memory, SHAPE_EXTEND_BYTE, SHAPE_FETCH);
	case ZYDIS_MNEMONIC_MOVSXD: return whole ? by_kind(rb, memory, SHAPE_SIGNED, SHAPE_SIGNED_LOAD) : SHAPE_NONE;
	case ZYDIS_MNEMONIC_LEA: return whole ? SHAPE_LEA : SHAPE_NONE;
	case ZYDIS_MNEMONIC_ADD: return whole ? by_kind(imm, rb, SHAPE_ADD, SHAPE_ADD_REG) : SHAPE_NONE;
	case ZYDIS_MNEMONIC_SUB: return whole ? by_kind(imm, rb, SHAPE_SUB, SHAPE_SUB_REG) : SHAPE_NONE;
	case ZYDIS_MNEMONIC_AND: return whole && imm ? SHAPE_AND : SHAPE_NONE;
	case ZYDIS_MNEMONIC_XCHG:
		if (a->size != 64 || !rb)
			return SHAPE_NONE;
		return by_kind(ra, a->type == ZYDIS_OPERAND_TYPE_MEMORY, SHAPE_SWAP, SHAPE_EXCHANGE);
	case ZYDIS_MNEMONIC_XOR: return ra && rb && a->size >= 32 ? SHAPE_XOR : SHAPE_NONE;
	case ZYDIS_MNEMONIC_SAR:
	case ZYDIS_MNEMONIC_SHR: return whole && imm ? SHAPE_HALVE : SHAPE_NONE;
	case ZYDIS_MNEMONIC_CMP:
		if (whole && rb)
			return SHAPE_COMPARE;
		if (!imm)
			return SHAPE_NONE;
		return by_kind(ra, a->type == ZYDIS_OPERAND_TYPE_MEMORY, SHAPE_LIMIT, SHAPE_LIMIT_MEMORY);
	default: return SHAPE_NONE;
	}
}

static void lea_set(unsigned ra, unsigned scale, bool plain, struct step *out)
{
	if (plain) {
		out->op = STEP_ADDRESS;
		out->a = (uint8_t)ra;
	} else if (out->b == INSN_NO_REG && out->index != INSN_NO_REG && scale == 1) { /* lea d(,%r,1) */
		out->op = STEP_ADDRESS;
		out->a = (uint8_t)ra;
		out->b = out->index;
	} else if (out->b < 16 && out->index < 16 && scale == 1) {
		out->op = STEP_SUM;
		out->a = (uint8_t)ra;
	}
}

static inline void two_set(struct step *out, unsigned op, unsigned a, unsigned b)
{
	out->op = (uint8_t)op;
	out->a = (uint8_t)a;
	out->b = (uint8_t)b;
}

/* Sets op and registers of a load into register a. `plain`: the address is base + disp. `entry`: the index is scaled by
 * the size of an entry of a jump table, `size` bytes. */
static inline void load_set(struct step *out, unsigned op, unsigned a, bool plain, bool entry, unsigned size)
{
	if (plain && op != STEP_ENTRY) {
		out->op = (uint8_t)op;
	} else if (entry && out->index != INSN_NO_REG) {
		out->op = STEP_ENTRY;
		out->size = (uint8_t)size;
	} else {
		return;
	}
	out->a = (uint8_t)a;
}

/* Removes from out->writes the registers whose change is described by out->op. */
static inline void writes_clear(struct step *out)
{
	uint16_t a = out->a < 16 ? (uint16_t)(1u << out->a) : 0;

	switch (out->op) {
	case STEP_NONE:
	case STEP_STORE:
	case STEP_COMPARE:
	case STEP_LIMIT: return;
	case STEP_PUSH: out->writes &= (uint16_t) ~(1u << RSP); return;
	case STEP_POP: out->writes &= (uint16_t) ~(1u << RSP | a); return;
	case STEP_LEAVE:
	case STEP_ENTER: out->writes &= (uint16_t) ~(1u << RSP | 1u << RBP | a); return;
	case STEP_SWAP: out->writes &= (uint16_t) ~(a | 1u << out->b); return;
	default: out->writes &= (uint16_t)~a;
	}
}

/* Applies a shape of the first group: pushes, pops, leave and enter. */
static void stack_apply(enum shape shape, const struct operand *ops, const struct raw *z, struct step *out)
{
	const struct operand *a = &ops[0];
	unsigned ra = a->reg;

	switch (shape) {
	case SHAPE_PUSH:
		out->op = STEP_PUSH;
		out->a = (uint8_t)(a->size == 64 ? ra : INSN_NO_REG);
		out->imm = z->narrow ? 2 : 8;
		break;
	case SHAPE_PUSHF:
		out->op = STEP_PUSH;
		out->imm = z->narrow ? 2 : 8;
		break;
	case SHAPE_POP:
		out->op = STEP_POP;
		out->a = (uint8_t)(a->size == 64 ? ra : INSN_NO_REG);
		if (a->type == ZYDIS_OPERAND_TYPE_REGISTER && a->size != 64 && ra != INSN_NO_REG)
			out->writes |= (uint16_t)(1u << ra);
		out->imm = z->narrow ? 2 : 8;
		break;
	case SHAPE_POPF:
		out->op = STEP_POP;
		out->imm = z->narrow ? 2 : 8;
		break;
	case SHAPE_LEAVE: out->op = STEP_LEAVE; break;
	case SHAPE_ENTER:
		if (!z->imm2) {
			out->op = STEP_ENTER;
			out->imm = z->imm;
		}
		break;
	default: break;
	}
}

/* Applies a shape of the second group: moves, loads, stores and lea. */
static void move_apply(enum shape shape, const struct operand *ops, const struct raw *z, struct step *out)
{
	const struct operand *a = &ops[0], *b = &ops[1];
	unsigned ra = a->reg, rb = b->reg;
	bool plain = out->index == INSN_NO_REG && out->b != INSN_NO_REG; /* base + disp */

	switch (shape) {
	case SHAPE_MOVE: two_set(out, STEP_MOVE, ra, rb); break;
	case SHAPE_CONST:
		out->op = STEP_CONST;
		out->a = (uint8_t)ra;
		out->imm = a->size == 32 ? (int64_t)(uint32_t)z->imm : z->imm;
		break;
	case SHAPE_LOAD: load_set(out, STEP_LOAD, ra, plain, z->scale == 8, 8); break;
	case SHAPE_STORE:
		if (plain) {
			out->op = STEP_STORE;
			out->a = (uint8_t)rb;
		}
		break;
	case SHAPE_FETCH:
		if (plain) {
			out->op = STEP_FETCH;
			out->a = (uint8_t)ra;
			out->size = (uint8_t)(b->size / 8);
		}
		break;
	case SHAPE_EXTEND_BYTE:
		if (b->high)
			break;
		/* fall through */
	case SHAPE_EXTEND:
		two_set(out, STEP_EXTEND, ra, rb);
		out->size = (uint8_t)(b->size / 8);
		break;
	case SHAPE_SIGNED:
		two_set(out, STEP_EXTEND, ra, rb);
		out->size = 4;
		break;
	case SHAPE_SIGNED_LOAD: load_set(out, STEP_ENTRY, ra, plain, z->scale == 4, 4); break;
	case SHAPE_LEA: lea_set(ra, z->scale, plain, out); break;
	default: break;
	}
}

/* The length of REX.W D1 ModRM, a shift by one. The encoding with an immediate is longer (SDM 2B, SAL/SAR/SHL/SHR). */
#define HALVE_LENGTH 3u

/* Applies a shape of the third group: arithmetic, exchanges and compares. */
static void arithmetic_apply(enum shape shape, const struct operand *ops, const struct raw *z, struct step *out)
{
	const struct operand *a = &ops[0], *b = &ops[1];
	unsigned ra = a->reg, rb = b->reg;
	bool plain = out->index == INSN_NO_REG && out->b != INSN_NO_REG; /* base + disp */

	switch (shape) {
	case SHAPE_ADD:
	case SHAPE_SUB:
		out->op = STEP_ADD;
		out->a = (uint8_t)ra;
		out->imm = shape == SHAPE_ADD ? z->imm : -z->imm;
		break;
	case SHAPE_ADD_REG:
	case SHAPE_SUB_REG: two_set(out, shape == SHAPE_ADD_REG ? STEP_ADDREG : STEP_SUBREG, ra, rb); break;
	case SHAPE_AND:
		if (z->imm < 0 && (-z->imm & (-z->imm - 1)) == 0) {
			out->op = STEP_ALIGN;
			out->a = (uint8_t)ra;
			out->imm = z->imm;
		}
		break;
	case SHAPE_SWAP: two_set(out, STEP_SWAP, ra, rb); break;
	case SHAPE_EXCHANGE:
		if (plain) {
			out->op = STEP_EXCHANGE;
			out->a = (uint8_t)rb;
		}
		break;
	case SHAPE_XOR:
		if (ra == rb) {
			out->op = STEP_CONST;
			out->a = (uint8_t)ra;
			out->imm = 0;
		}
		break;
	case SHAPE_HALVE:
		if (z->len <= HALVE_LENGTH) {
			two_set(out, STEP_EXTEND, ra, ra);
			out->size = 8;
			out->imm = 1;
		}
		break;
	case SHAPE_COMPARE: two_set(out, STEP_COMPARE, ra, rb); break;
	case SHAPE_LIMIT:
		out->op = STEP_LIMIT;
		out->a = (uint8_t)ra;
		out->imm = z->imm;
		out->size = (uint8_t)(a->size / 8);
		break;
	case SHAPE_LIMIT_MEMORY:
		if (plain && out->b < 16) {
			out->op = STEP_LIMIT;
			out->imm = z->imm;
			out->size = (uint8_t)(a->size / 8);
		}
		break;
	default: break;
	}
}

void shape_apply(enum shape shape, const struct operand *ops, const struct raw *z, struct step *out)
{
	if (shape == SHAPE_NONE)
		return;
	if (shape < SHAPE_MOVE)
		stack_apply(shape, ops, z, out);
	else if (shape < SHAPE_ADD)
		move_apply(shape, ops, z, out);
	else
		arithmetic_apply(shape, ops, z, out);
	writes_clear(out);
}
