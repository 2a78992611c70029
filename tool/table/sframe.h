/* SPDX-License-Identifier: MIT */
/*
 * SFrame, the stack trace format of GNU binutils, versions 2 and 3. Encodes unwind rows as the contents of a section
 * .sframe, and decodes them. Source: "The SFrame Format", the manual of libsframe (binutils 2.41 to 2.45 for version 2
 * with its errata, 2.46 for version 3). docs/formats.md says which rows SFrame can hold.
 */
#ifndef TABLE_SFRAME_H
#define TABLE_SFRAME_H

#include "analysis/facts/space.h"
#include "analysis/unwind/rows.h"
#include "support/error.h"

#define SFRAME_SECTION ".sframe"

#define SFRAME_MAGIC     0xdee2u
#define SFRAME_AMD64     3 /* stands for AMD64 with little-endian byte order */
#define SFRAME_RA_OFFSET (-8)

/* Flags of the header. */
#define SFRAME_SORTED       0x1u
#define SFRAME_FRAMEPOINTER 0x2u /* version 2 only */
/* The start of a function is relative to the field that holds it; without this flag, to the section. */
#define SFRAME_START_PCREL 0x4u

struct sframe_header {
	uint16_t magic;
	uint8_t version, flags, abi;
	int8_t fixed_fp, fixed_ra; /* offset from the CFA, if it is the same in all rows; 0: it is not */
	uint8_t aux_size;          /* number of bytes after this header that also belong to it */
	uint32_t fde_count, fre_count, fre_size;
	uint32_t fde_off, fre_off; /* offsets from the end of the header */
} __attribute__((packed));

/* An FDE of version 2: a range of code, and where its rows are. */
struct sframe_fde_v2 {
	int32_t start;
	uint32_t size, fre_off, fre_count;
	uint8_t info; /* bits 0-3: size of the address in each FRE; bit 4: SFRAME_MASK */
	uint8_t rep_size;
	uint16_t zero;
} __attribute__((packed));

/* An FDE of version 3, which has the same fields in two parts. struct sframe_attr_v3 is stored in front of the rows. */
struct sframe_fde_v3 {
	int64_t start;
	uint32_t size, fre_off;
} __attribute__((packed));

struct sframe_attr_v3 {
	uint16_t fre_count;
	uint8_t info;  /* as in version 2; and bit 7: this is a signal frame */
	uint8_t info2; /* bits 0-4: SFRAME_DEFAULT or SFRAME_FLEX */
	uint8_t rep_size;
} __attribute__((packed));

/* The rows are for a block of rep_size bytes that is repeated: the row is selected by the address modulo rep_size. */
#define SFRAME_MASK    0x10u
#define SFRAME_SIGNAL  0x80u
#define SFRAME_DEFAULT 0u
#define SFRAME_FLEX    1u

/* The info byte of a row (FRE). Bit 0: base register of the CFA; bits 1-4: number of data words; bits 5-6: log2 of the
 * size of a word. */
#define SFRAME_BASE_FP 0u
#define SFRAME_BASE_SP 1u

/* A control word of a flexible row: the DWARF number of a register << 3, | these bits. */
#define SFRAME_CTRL_DEREF 2u
#define SFRAME_CTRL_REG   1u

/* The contents of a section. The starts of FDEs are filled in when its address is known. */
struct sframe {
	uint8_t *bytes;
	size_t size;
	unsigned version;
	uint64_t *starts; /* start address of each FDE */
	/* Number of FDEs and of FREs. */
	size_t fdes, fres;
	uint64_t gaps;   /* number of bytes of code whose rows SFrame cannot express */
	size_t gap_rows; /* number of these rows */
};

/*
 * Encodes rows, sorted by address, as version 2 or 3. Adjacent rows with the same rule are merged. Rows whose rules the
 * version cannot express become gaps, which are counted. `placed`: the addresses are final, so that FDEs are sorted,
 * and repeated blocks are looked for. Deterministic. Returns 0, or -1 with a message in *e if the format's 32-bit
 * offsets do not suffice. The caller calls sframe_free() on *out in either case.
 */
int sframe_encode(const struct row_list *rows, unsigned version, bool placed, struct sframe *out, struct error *e);
/* Fills in the starts of FDEs, for a section at address `addr`. Returns -1 with a message in *e if the code is more
 * than 2 GiB away from it (version 2). */
int sframe_place(struct sframe *s, uint64_t addr, struct error *e);
/* Returns the offset in the section of the field with the start of FDE number i. The field is an address relative to
 * itself, of 4 bytes (version 2) or 8 bytes. */
size_t sframe_start_at(const struct sframe *s, size_t i);
void sframe_free(struct sframe *s);

/*
 * Decodes the contents of a section at `addr` of a linked file, version 2 or 3, from any producer. The bytes are not
 * trusted. Code between FDEs has UNDEF rows, and the last row is UNDEF. `space` is the code of the file; every FDE must
 * lie in it, which bounds the number of rows that a section can claim. Returns -1 with a message in *e if the section
 * is malformed, is of another version or for another machine, or if FDEs overlap.
 */
int sframe_decode(const uint8_t *bytes, size_t size, uint64_t addr, const struct code_space *space,
                  struct row_list *out, struct error *e);

/* These convert a register number to that of DWARF, and back. The two differ only for rax, rcx, rdx, rbx, rsp, rbp, rsi
 * and rdi. */
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
