/* SPDX-License-Identifier: MIT */
/*
 * etch/orc.h: the unwind tables that the tool writes and libetch reads.
 *
 * A table says for every byte of code how to find the caller's frame when the
 * program counter is there: a sorted list of rows, each an address and a rule,
 * valid up to the next row. Two encodings of the same rows: `orc`, the kernel's
 * parallel arrays (Documentation/arch/x86/orc-unwinder.rst), and `block`, of
 * which a lookup touches one or two cache lines. docs/formats.md says the same
 * in prose, to the bit. Validators and lookups are in etch/orc_lookup.h.
 *
 * Registers are numbers 0-15 in the order of instruction encodings: rax rcx rdx
 * rbx rsp rbp rsi rdi r8-r15. All integers are little-endian.
 */
#ifndef ETCH_ORC_H
#define ETCH_ORC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a rule -------------------------------------------------------------- */

enum etch_rule_kind {
	ETCH_RULE_UNDEF = 0,  /* nothing is known: a trace ends here, incomplete */
	ETCH_RULE_CALL = 1,   /* an ordinary frame */
	ETCH_RULE_SIGNAL = 2, /* the frame that a signal handler returns to: the interrupted
	                       * registers are in a struct sigcontext; look its ip up as it is */
	ETCH_RULE_END = 3,    /* the outermost frame: a trace ends here, complete */
};

#define ETCH_REG_RSP 4u
#define ETCH_REG_RBP 5u

/* How rbp of the caller is found (etch_rule.bp). */
enum etch_rule_bp {
	ETCH_BP_SAME = 0,  /* it is still in rbp */
	ETCH_BP_CFA = 1,   /* *(CFA + bp_off) */
	ETCH_BP_RBP = 2,   /* *(rbp + bp_off): realigned frames */
	ETCH_BP_RSP = 3,   /* *(rsp + bp_off) */
	ETCH_BP_UNDEF = 4, /* lost */
};

/* How the return address is found (etch_rule.ra). */
#define ETCH_RA_CFA 0u     /* *(CFA - 8) */
#define ETCH_RA_REG 0x80u  /* | register that holds it */

#define ETCH_CFA_DEREF 0x10u
#define ETCH_CFA_INDEX 0x20u /* only with DEREF, and with another register than rsp */

/*
 * 16 bytes. CFA, the canonical frame address (DWARF 5, 6.4): the value of rsp
 * before the call that made this frame.
 *   cfa = reg:                  CFA = reg + cfa_off
 *   cfa = reg | ETCH_CFA_DEREF: CFA = *(reg + cfa_off) + cfa_add
 *   cfa = reg | ETCH_CFA_DEREF | ETCH_CFA_INDEX:
 *                               CFA = *(rsp + 8 * reg + cfa_off) + cfa_add
 * The last is OpenSSL's, which keeps its caller's rsp behind an array on the stack.
 * The caller's rsp is CFA. In a SIGNAL rule cfa is rsp | DEREF, *(rsp + cfa_off) is
 * the interrupted rsp, a member of the kernel's struct sigcontext: its rip is 8
 * bytes after that, its rbp 40 bytes before (asm/sigcontext.h), and `bp` and
 * `ra` are 0. UNDEF rules are all zero; END rules may have a CFA and rbp, but `ra`
 * is 0 and means nothing. Fields that a rule does not use are zero, so that equal
 * rules are equal bytes.
 */
struct etch_rule {
	int32_t cfa_off;
	int32_t cfa_add;
	int32_t bp_off;
	uint8_t cfa;  /* register, | ETCH_CFA_* */
	uint8_t bp;   /* enum etch_rule_bp */
	uint8_t kind; /* enum etch_rule_kind */
	uint8_t ra;   /* ETCH_RA_CFA, or ETCH_RA_REG | register */
};

/* What a row was taken from. */
enum etch_row_source {
	ETCH_SOURCE_CODE = 0, /* proven from the instructions alone */
	ETCH_SOURCE_CFI = 1,  /* read from .eh_frame; the code says nothing against it */
	ETCH_SOURCE_BOTH = 2, /* .eh_frame says so, and the instructions prove it */
	ETCH_SOURCE_PLT = 3,  /* code that the linker made: PLT */
};

/* ---- orc: parallel arrays -------------------------------------------------- */

#define ETCH_SEC_ORC_IP     ".orc_unwind_ip" /* int32_t[n], relative to itself, sorted by address */
#define ETCH_SEC_ORC        ".orc_unwind"    /* struct etch_orc[n] */
#define ETCH_SEC_ORC_LOOKUP ".orc_lookup"    /* uint32_t[ceil(text / 256) + 1] */

/* Registers of a struct etch_orc; 0-10 as in the kernel's orc_types.h. */
enum etch_orc_reg {
	ETCH_ORC_UNDEFINED = 0, /* bp: same; sp: none */
	ETCH_ORC_PREV_SP = 1,   /* bp only: relative to the CFA */
	ETCH_ORC_DX = 2,
	ETCH_ORC_DI = 3,
	ETCH_ORC_BP = 4,
	ETCH_ORC_SP = 5,
	ETCH_ORC_R10 = 6,
	ETCH_ORC_R13 = 7,
	ETCH_ORC_BP_IND = 8,
	ETCH_ORC_SP_IND = 9,
	ETCH_ORC_AX = 10,
	ETCH_ORC_R11 = 11,      /* 11-14 are etch's own */
	ETCH_ORC_CX = 12,
	ETCH_ORC_BX = 13,
	ETCH_ORC_SI = 14,
	ETCH_ORC_LOST = 15,     /* bp only: lost */
};

enum etch_orc_type {
	ETCH_ORC_TYPE_UNDEFINED = 0,
	ETCH_ORC_TYPE_END = 1,
	ETCH_ORC_TYPE_CALL = 2,
	ETCH_ORC_TYPE_REGS = 3, /* SIGNAL; the signal bit is set too */
};

/*
 * 6 bytes, packed. bits: 0-3 sp_reg, 4-7 bp_reg, 8-10 type, 11 signal, 12-13
 * enum etch_row_source, 14-15 zero. With BP_IND and SP_IND, sp_offset holds two
 * numbers: cfa_off = (sp_offset >> 6) * 8 (arithmetic shift) and cfa_add =
 * (sp_offset & 63) * 8. A rule that does not fit is written as UNDEFINED, never
 * cut off.
 */
struct etch_orc {
	int16_t sp_offset;
	int16_t bp_offset;
	uint16_t bits;
} __attribute__((packed));

/* ---- the header of a table -------------------------------------------------- */

#define ETCH_SEC_UNWIND ".etch.unwind"   /* struct etch_unwind and, for block, all of its table */
#define ETCH_SEC_SOURCE ".etch.source"   /* 2 bits a row of a block table: enum etch_row_source; not loaded, may be stripped */

#define ETCH_UNWIND_MAGIC   0x77757465u /* "etuw" */
#define ETCH_UNWIND_VERSION 1u
#define ETCH_UNWIND_VERSION_INDEX 2u /* of a table with a rule that has ETCH_CFA_INDEX, which readers of 1 do not know */
#define ETCH_ENCODING_ORC   1u
#define ETCH_ENCODING_BLOCK 2u

#define ETCH_BLOCK_SHIFT 8u  /* blocks of 256 bytes of text */
#define ETCH_GROUP_SHIFT 6u  /* 64 blocks share a base */
#define ETCH_IDX_ESCAPE  255u
#define ETCH_RUN_ROWS    8u  /* rows that a run stands for, at most */

/*
 * The first section of the etch segment of a linked file (the segment's note
 * says where: tool/elf/segment.h), or the first bytes of a sidecar file.
 * 8-byte aligned. Offsets are in bytes from the first byte of this header.
 */
struct etch_unwind {
	uint32_t magic;
	uint16_t version;
	uint16_t size;      /* of this header */
	uint64_t bytes;     /* header and everything that offsets below reach; the rest is not part of it */
	uint8_t encoding;   /* ETCH_ENCODING_* */
	uint8_t map_shift;  /* 0 no return-address map, else 6 or 7 (block only) */
	uint16_t zero;
	uint32_t rows;      /* block: rows of the pool, those of runs too, and one for its first byte; orc: of the arrays */
	uint64_t text;      /* link-time address of the first byte covered, a multiple of 256 */
	uint64_t text_size; /* bytes covered, below 4 GiB */

	/* block. `blocks` = ceil(text_size / 256). */
	uint32_t hd;        /* uint16_t[blocks + 1]: record's offset in the pool less its group's base */
	uint32_t base;      /* uint32_t[(blocks >> 6) + 1]: offset in the pool */
	uint32_t pool;      /* records: uint8_t off[c], idx[c]; one byte idx before the first record; and
	                     * 32 bytes behind the last that may be read and mean nothing */
	uint32_t pool_size; /* of all of that */
	uint32_t palette;   /* struct etch_rule[palette_count], 4-byte aligned */
	uint32_t palette_count;
	uint32_t escape;    /* struct etch_escape[escape_count], sorted by at */
	uint32_t escape_count;
	uint32_t run;       /* struct etch_run[run_count]; its idx bytes are 255 - run_count to 254 */
	uint32_t run_count;

	/* return-address map; all 0 without one */
	uint32_t map;       /* uint8_t[(text_size >> map_shift) + 1], by the return address itself */
	uint32_t map_page;  /* uint32_t[]: first exception unit of each page of 4 KiB (shift 6) or 2 KiB (7) */
	uint32_t map_page_count;
	uint32_t map_unit;  /* exception units, 3 bytes each; docs/formats.md */
	uint32_t map_unit_count;
	uint32_t map_palette; /* struct etch_map_rule[map_palette_count], 4-byte aligned */
	uint32_t map_palette_count; /* at most 224 */
	uint32_t map_rbp;   /* of these, the first with ETCH_MAP_RBP: all from there on have it */

	/* orc: link-time addresses; lookup has ceil(text_size / 256) + 1 entries */
	uint64_t orc_ip, orc, orc_lookup;

	uint8_t build_id[20]; /* of the file that it describes, 0-padded; checked with a sidecar */
	uint32_t zero2;
};

/* Row whose idx is ETCH_IDX_ESCAPE. */
struct etch_escape {
	uint32_t at;   /* offset in the pool of the idx byte */
	uint32_t rule; /* index into the palette */
};

/*
 * A sequence of rows that occurs often, such as the pushes of a prologue: one entry of a
 * record stands for all of it. Row i of it begins off[i] bytes behind that entry's off and
 * has the rule palette[idx[i]]. off ascends from 0; what is not used is 255 in both.
 */
struct etch_run {
	uint8_t off[ETCH_RUN_ROWS];
	uint8_t idx[ETCH_RUN_ROWS];
};

/* 8 bytes: the rules that nearly all return addresses have. */
struct etch_map_rule {
	int32_t cfa;   /* offset of the CFA from rsp or rbp */
	int16_t bp;    /* 0: rbp same; else it is at CFA + bp */
	uint8_t flags; /* ETCH_MAP_RBP or 0 */
	uint8_t zero;
};
#define ETCH_MAP_RBP 0x01u /* CFA is relative to rbp, else to rsp */

#ifdef __cplusplus
static_assert(sizeof(struct etch_rule) == 16 && sizeof(struct etch_orc) == 6 &&
              sizeof(struct etch_map_rule) == 8 && sizeof(struct etch_escape) == 8 && sizeof(struct etch_run) == 16 &&
              sizeof(struct etch_unwind) == 160, "table layouts are fixed");
}
#else
_Static_assert(sizeof(struct etch_rule) == 16 && sizeof(struct etch_orc) == 6 &&
               sizeof(struct etch_map_rule) == 8 && sizeof(struct etch_escape) == 8 && sizeof(struct etch_run) == 16 &&
               sizeof(struct etch_unwind) == 160, "table layouts are fixed");
#endif
#endif
