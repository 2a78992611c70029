/* SPDX-License-Identifier: MIT */
/* Shared by the files of arch/x86/newer.h: a newer instruction as it is read, before Zydis has decoded the older one
 * that stands in for it. */
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

/* The fields whose register number has bit 4 set. */
enum { HIGH_REG = 1, HIGH_BASE = 2, HIGH_INDEX = 4, HIGH_VVVV = 8 };

/* A newer instruction, and the older encoding of one with the same operands. */
struct newer {
	uint8_t alike[INSN_MOST + 1];
	unsigned alike_len;        /* number of bytes in `alike`: bytes beyond the instruction may follow it */
	unsigned head, alike_head; /* number of bytes before ModRM, or before the immediate where there is no ModRM */
	unsigned high;             /* HIGH_* */
	unsigned low;              /* bit 3 of the register numbers in the same fields */
	unsigned vvvv;             /* 0 to 31 */
	unsigned mnemonic;         /* 0: that of the older instruction */
	const char *name;          /* of the instruction; null: that of the older one */
	const char *before;        /* text in front of the name; null: none */
	unsigned scc;              /* the condition of ccmp and ctest */
	bool full;                 /* it has too many prefixes to fit */
	bool unlike;               /* its operands are not all like those of the older one */
	bool zeroes;               /* the upper part of its destination becomes zero */
	bool destination;          /* vvvv is a destination before the older instruction's operands */
	bool no_flags;             /* it neither reads nor writes flags */
	bool all_flags;            /* it reads and writes all of them */
	bool tests_flags;          /* it reads flags, and writes none */
	bool first_written;        /* the first operand is written and not read */
	bool no_reads;             /* it is a pair of pops: both operands are written */
	bool both;                 /* both operands count as read and written */
	bool updates;              /* cmpccxadd: two operands are read and written, in the other order */
};

/* An EVEX prefix. Its bits have their meaning here; where the encoding inverts them, that is undone. */
struct evex {
	unsigned map, pp, opcode, modrm, vvvv; /* vvvv has 5 bits */
	unsigned high, low;                    /* HIGH_*, without vvvv */
	bool w, nd, nf;
	unsigned top;  /* z, L', L */
	unsigned mask; /* aaa; its bit 2 is nf in the integer instructions */
	unsigned scc;  /* low half of the third payload byte: the condition of ccmp */
};

/* Reads an instruction, and decodes it as newer_decode() does. */
bool newer_read(const uint8_t *bytes, size_t avail, struct newer *n, ZydisDecodedInstruction *z,
                ZydisDecodedOperand *ops);

/* newer_vector.c: the instructions of AVX10.2, and of AMX with vector registers. */
struct vector_row;
/* Returns the row of an instruction, or null if there is none. */
const struct vector_row *newer_vector_find(const struct evex *e);
/* Does the instruction write a general register that ModRM.reg numbers? */
bool newer_vector_general(const struct vector_row *r);
/* Turns the instruction in n->alike, whose prefix begins at `at`, into the older one that stands in for it. */
void newer_vector_take(const struct vector_row *r, unsigned at, struct newer *n);

#endif
