/* SPDX-License-Identifier: MIT */
/*
 * Shapes: the kinds of instructions that the analysis models, told apart by mnemonic and operand types. A shape and the
 * raw fields of an instruction give its struct step.
 */
#ifndef X86_SHAPE_H
#define X86_SHAPE_H

#include "arch/x86/raw.h"
#include "arch/x86/fast_decoder.h"

/* The properties of an explicit operand that its shape depends on. */
struct operand {
	uint8_t type;  /* ZydisOperandType; 0 = no operand */
	uint8_t reg;   /* INSN_NO_REG: no general-purpose register */
	uint8_t field; /* enum raw_field that holds the register */
	bool high;     /* ah ch dh bh */
	uint16_t size; /* bits */
};

/* The shapes form three groups, which shape_apply() relies on: the stack, moves (from SHAPE_MOVE on), arithmetic (from
 * SHAPE_ADD on). */
enum shape {
	SHAPE_NONE,
	SHAPE_PUSH,
	SHAPE_PUSHF,
	SHAPE_POP,
	SHAPE_POPF,
	SHAPE_LEAVE,
	SHAPE_ENTER,
	SHAPE_MOVE,        /* 64 bits */
	SHAPE_CONST,       /* 32 or 64 bits */
	SHAPE_LOAD,        /* 64 bits from memory */
	SHAPE_STORE,       /* 64 bits to memory */
	SHAPE_FETCH,       /* 32 bits or fewer from memory, zero-extended */
	SHAPE_EXTEND,      /* 32 bits or fewer from a register, zero-extended */
	SHAPE_EXTEND_BYTE, /* 8 or 16 bits from a register, zero-extended; ah ch dh bh are not modelled */
	SHAPE_SIGNED,      /* 32 bits from a register, sign-extended: an index with a checked bound is not negative */
	SHAPE_SIGNED_LOAD, /* 32 bits from memory, sign-extended */
	SHAPE_LEA,
	SHAPE_ADD,
	SHAPE_SUB,
	SHAPE_ADD_REG,
	SHAPE_SUB_REG,
	SHAPE_AND,
	SHAPE_SWAP,
	SHAPE_EXCHANGE,
	SHAPE_XOR,   /* modelled only if both operands are the same register */
	SHAPE_HALVE, /* shifts a 64-bit register right; only the encoding without an immediate, which shifts by one, is
	                modelled */
	SHAPE_COMPARE,
	SHAPE_LIMIT, /* compares a register with an immediate */
	SHAPE_LIMIT_MEMORY,
};

/* Returns the shape, which is equal for all instructions of a form. */
enum shape shape_of(unsigned mnemonic, const struct operand *ops);
/* Sets op and operands of one instruction. *out must already contain the memory operand and the mask of written
 * registers. */
void shape_apply(enum shape shape, const struct operand *ops, const struct raw *z, struct step *out);
/* Does the memory operand keep its value? It does in fences and stack probes, such as lock orq $0,(%rsp). */
bool stores_back(unsigned mnemonic, const struct operand *ops, const struct raw *z);

#endif
