/* SPDX-License-Identifier: MIT */
/*
 * SFrame, the stack trace format of GNU binutils, versions 2 and 3: encodes rows of unwind rules to the contents of a
 * section .sframe, and decodes them. Source: "The SFrame Format", the manual of libsframe (binutils 2.41 to 2.45 for
 * version 2 with its errata, 2.46 for version 3). docs/formats.md says which rows it can hold.
 */
#ifndef TABLE_SFRAME_H
#define TABLE_SFRAME_H

#include "analysis/facts/space.h"
#include "analysis/unwind/rows.h"
#include "support/error.h"

#define SFRAME_SECTION ".sframe"

#define SFRAME_MAGIC     0xdee2u
#define SFRAME_AMD64     3 /* ABI and byte order */
#define SFRAME_RA_OFFSET (-8)

/* Flags of the header. */
#define SFRAME_SORTED       0x1u
#define SFRAME_FRAMEPOINTER 0x2u /* version 2 only */
#define SFRAME_START_PCREL  0x4u /* a function's start is relative to the field that holds it, else to the section */

struct sframe_header {
	uint16_t magic;
	uint8_t version, flags, abi;
	int8_t fixed_fp, fixed_ra; /* offset from the CFA if it is the same in all rows; 0: it is not */
	uint8_t aux_size;          /* bytes after this header that belong to it */
	uint32_t fde_count, fre_count, fre_size;
	uint32_t fde_off, fre_off; /* from the end of the header */
} __attribute__((packed));

/* Version 2: a range of code and where its rows are. */
struct sframe_fde_v2 {
	int32_t start;
	uint32_t size, fre_off, fre_count;
	uint8_t info; /* bits 0-3: size of an FRE's address, bit 4: SFRAME_MASK */
	uint8_t rep_size;
	uint16_t zero;
} __attribute__((packed));

/* Version 3: the same in two parts, of which the second precedes the rows. */
struct sframe_fde_v3 {
	int64_t start;
	uint32_t size, fre_off;
} __attribute__((packed));

struct sframe_attr_v3 {
	uint16_t fre_count;
	uint8_t info;  /* as in version 2, and bit 7: a signal frame */
	uint8_t info2; /* bits 0-4: SFRAME_DEFAULT or SFRAME_FLEX */
	uint8_t rep_size;
} __attribute__((packed));

#define SFRAME_MASK    0x10u /* the rows hold for blocks of rep_size bytes, by address modulo rep_size */
#define SFRAME_SIGNAL  0x80u
#define SFRAME_DEFAULT 0u
#define SFRAME_FLEX    1u

/* The info byte of a row (FRE): bit 0 base of the CFA, bits 1-4 number of data words, bits 5-6 log2 of their size. */
#define SFRAME_BASE_FP 0u
#define SFRAME_BASE_SP 1u

/* A control word of a flexible row: DWARF register << 3 | these. */
#define SFRAME_CTRL_DEREF 2u
#define SFRAME_CTRL_REG   1u

/* The contents of a section, before its address is filled in. */
struct sframe {
	uint8_t *bytes;
	size_t size;
	unsigned version;
	uint64_t *starts; /* address of each FDE */
	size_t fdes, fres;
	uint64_t gaps;   /* bytes of code whose rows SFrame cannot express */
	size_t gap_rows; /* number of these rows */
};

/*
 * Encodes rows, sorted by address, as version 2 or 3. Neighbours with the same rule are merged; rules that the version
 * cannot express become gaps, which are counted. `placed`: addresses are final, so FDEs are sorted, and repeated blocks
 * are found. Deterministic. Returns 0, or -1 if there is more than the format's 32-bit offsets can hold. The caller
 * calls sframe_free() on *out in any case.
 */
int sframe_encode(const struct row_list *rows, unsigned version, bool placed, struct sframe *out, struct error *e);
/* Completes the bytes for a section at this address. Returns -1 if the code is more than 2 GiB away from it (version
 * 2). */
int sframe_place(struct sframe *s, uint64_t addr, struct error *e);
/* Returns the offset in the section of the start of FDE number i: an address relative to itself, of 4 (version 2) or 8
 * bytes. */
size_t sframe_start_at(const struct sframe *s, size_t i);
void sframe_free(struct sframe *s);

/*
 * Decodes the contents of a section of a linked file at `addr`, from any producer: versions 2 and 3, bytes not trusted.
 * Rows between FDEs are UNDEF, and so is the last row. `space` is the code of the file, in which every FDE has to lie;
 * it bounds what a section can ask for. Returns -1 and a message if the section is malformed or of another version or
 * machine, or if FDEs overlap.
 */
int sframe_decode(const uint8_t *bytes, size_t size, uint64_t addr, const struct code_space *space,
                  struct row_list *out, struct error *e);

/* Convert a register number to DWARF's, and back: only those of rax, rcx, rdx, rbx, rsp, rbp, rsi and rdi differ. */
static inline uint8_t sframe_register(uint8_t reg)
{
	static const uint8_t order[8] = {0, 2, 1, 3, 7, 6, 4, 5};

	return reg < 8 ? order[reg] : reg;
}

static inline uint8_t sframe_register_back(uint8_t reg)
{
	static const uint8_t order[8] = {0, 2, 1, 3, 6, 7, 5, 4};

	return reg < 8 ? order[reg] : reg;
}

#endif
