/* SPDX-License-Identifier: MIT */
/* Shared by the files that implement arch/x86/newer.h: a newer instruction as newer.c has read it, before Zydis decodes
 * the older instruction that stands in for it. */
#ifndef X86_NEWER_INTERNAL_H
#define X86_NEWER_INTERNAL_H

#include "arch/x86/insn.h"
#include "arch/x86/newer.h"

/* Prefixes, and bits of REX and of REX2's payload. */
enum { REX = 0x40, REX_W = 8, REX_R = 4, REX_X = 2, REX_B = 1, REX2 = 0xd5, REX2_MAP1 = 0x80 };
enum { EVEX = 0x62, VEX3 = 0xc4, VEX2 = 0xc5, XOP = 0x8f, UDB = 0xd6 };
/* The mandatory prefix, as VEX and EVEX encode it. */
enum { PP_NONE, PP_66, PP_F3, PP_F2 };

enum { MOD_REGISTER = 3 };

/* A mask of the fields of an encoding that number a register: those whose number has bit 4 set, which numbers r16 to
 * r31. */
enum { HIGH_REG = 1, HIGH_BASE = 2, HIGH_INDEX = 4, HIGH_VVVV = 8 };

/* A newer instruction, and the encoding of the older instruction that stands in for it, with the same operands. */
struct newer {
	uint8_t alike[INSN_MOST + 1];
	unsigned alike_len;        /* number of bytes in `alike`; at its end there may be bytes that no longer belong to the
	                              instruction */
	unsigned head, alike_head; /* number of bytes before ModRM, or without ModRM before the immediate: in the newer and
	                              in the older instruction */
	unsigned high;             /* HIGH_* */
	unsigned low;              /* HIGH_* of the fields whose register number has bit 3 set */
	unsigned vvvv;             /* 0 to 31 */
	unsigned mnemonic;         /* 0: that of the older instruction */
	const char *name;          /* name of the instruction; null: it has the older one's */
	const char *before;        /* text to print in front of the name; null: none */
	unsigned scc;              /* the condition of ccmp and ctest */
	bool full;                 /* the older encoding does not fit in `alike`, since there are too many prefixes */
	bool unlike;               /* not all operands are like those of the older instruction */
	bool zeroes;               /* the upper part of its destination becomes zero */
	bool destination;   /* vvvv numbers a destination, which comes before the operands of the older instruction */
	bool no_flags;      /* it neither reads nor writes flags */
	bool all_flags;     /* it reads and writes all flags */
	bool tests_flags;   /* it reads flags, and writes none */
	bool first_written; /* the first operand is written and not read */
	bool no_reads;      /* it is pop2: both operands are written, and not read */
	bool both;          /* both operands count as read and written */
	bool updates;       /* cmpccxadd: the first two operands are read and written, and come in the other order */
};

/* An EVEX prefix with the opcode and ModRM after it. Bits that the encoding inverts are not inverted here. */
struct evex {
	unsigned map, pp, opcode, modrm, vvvv; /* vvvv has 5 bits */
	unsigned high, low; /* HIGH_* of the fields with bit 4 and with bit 3 set; vvvv is not among them */
	bool w, nd, nf;
	unsigned top;  /* z, L', L */
	unsigned mask; /* aaa; its bit 2 is nf in the integer instructions */
	unsigned scc;  /* low half of the third payload byte: the condition of ccmp */
};

/* Reads a newer instruction into *n, and decodes it as newer_decode() does. Returns false if it is none that is
 * known. */
bool newer_read(const uint8_t *bytes, size_t avail, struct newer *n, ZydisDecodedInstruction *z,
                ZydisDecodedOperand *ops);

/* newer_vector.c: the instructions of AVX10.2, and of AMX with vector registers. */
struct vector_row;
/* Returns the row of the table in newer_vector.c that describes an instruction, or null if there is none. */
const struct vector_row *newer_vector_find(const struct evex *e);
/* Does the instruction of a row write the general register that ModRM.reg numbers? */
bool newer_vector_general(const struct vector_row *r);
/* Turns the instruction in n->alike, which row r describes and whose prefix begins at `at`, into the older one that
 * stands in for it. */
void newer_vector_take(const struct vector_row *r, unsigned at, struct newer *n);

#endif
