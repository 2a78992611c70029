/* SPDX-License-Identifier: MIT */
/*
 * Shapes: the kinds of instructions whose effect the analysis models, distinguished by mnemonic and types of operands.
 * The struct step of an instruction is made from its shape and its raw fields.
 */
#ifndef X86_SHAPE_H
#define X86_SHAPE_H

#include "arch/x86/raw.h"
#include "arch/x86/fast_decoder.h"

/* The properties of an explicit operand on which the shape of its instruction depends. */
struct operand {
	uint8_t type;  /* ZydisOperandType; 0: there is no such operand */
	uint8_t reg;   /* INSN_NO_REG: no general-purpose register */
	uint8_t field; /* enum raw_field that holds the register */
	bool high;     /* the register is ah, ch, dh or bh */
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
	SHAPE_SIGNED, /* 32 bits from a register, sign-extended; modelled like zero extension, since an index with a checked
	                 bound is not negative */
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
	SHAPE_HALVE, /* shifts a 64-bit register right by one; only the encoding without an immediate is modelled */
	SHAPE_COMPARE,
	SHAPE_LIMIT, /* compares a register with an immediate number */
	/* compares memory with an immediate number */
	SHAPE_LIMIT_MEMORY,
};

/* Returns the shape of an instruction with the given mnemonic and operands. It is equal for all instructions of a
 * form. */
enum shape shape_of(unsigned mnemonic, const struct operand *ops);
/* Sets op, registers and numbers of the step of one instruction from its shape. *out must already contain the memory
 * operand and the mask of written registers. */
void shape_apply(enum shape shape, const struct operand *ops, const struct raw *z, struct step *out);
/* Does an instruction store to its memory operand the value that is already there, as fences and stack probes such as
 * lock orq $0,(%rsp) do? */
bool stores_back(unsigned mnemonic, const struct operand *ops, const struct raw *z);

#endif
