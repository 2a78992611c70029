/* SPDX-License-Identifier: MIT */
/*
 * The instructions that the analysis follows, by what their operands are: struct step of one,
 * once its fields are known.
 */
#ifndef X86_SHAPE_H
#define X86_SHAPE_H

#include "arch/x86/raw.h"
#include "arch/x86/stack.h"

/* What is to be known of an explicit operand. */
struct operand {
	uint8_t type; /* ZydisOperandType; 0 = there is none */
	uint8_t reg;  /* INSN_NO_REG: none, or not a general-purpose one */
	uint8_t field; /* enum raw_field: has the register */
	bool high;    /* ah ch dh bh */
	uint16_t size; /* bits */
};

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
	SHAPE_EXTEND,      /* ... from a register */
	SHAPE_EXTEND_BYTE, /* of which ah ch dh bh is not one */
	SHAPE_SIGNED,      /* 32 bits sign-extended from a register: an index that has been compared is not negative */
	SHAPE_SIGNED_LOAD, /* ... from memory */
	SHAPE_LEA,
	SHAPE_ADD,
	SHAPE_SUB,
	SHAPE_ADD_REG,
	SHAPE_SUB_REG,
	SHAPE_AND,
	SHAPE_SWAP,
	SHAPE_XOR,         /* nothing but where both are one register */
	SHAPE_COMPARE,
	SHAPE_LIMIT,       /* a register with a number */
	SHAPE_LIMIT_MEMORY,
};

/* The same for all instructions of a form. */
enum shape shape_of(unsigned mnemonic, const struct operand *ops);
/* One instruction of a shape; *out has its memory operand, and in `writes` its registers too. */
void shape_apply(enum shape shape, const struct operand *ops, const struct raw *z, struct step *out);
/* Does it leave what it stores to as it was: fences and stack probes, lock orq $0,(%rsp)? */
bool stores_back(unsigned mnemonic, const struct operand *ops, const struct raw *z);

#endif
