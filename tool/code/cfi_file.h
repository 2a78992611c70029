/* SPDX-License-Identifier: MIT */
/*
 * All FDEs of a file in the address space of code/space.h. The entries
 * themselves are read by etch/cfi.h.
 */
#ifndef CODE_CFI_FILE_H
#define CODE_CFI_FILE_H

#include <etch/cfi.h>

#include "code/space.h"

struct cfi_fde {
	uint64_t start, end; /* inside one section of the space; cut where the next one starts */
	uint64_t lsda;       /* 0 = none; see code/lsda.h */
	uint64_t at;         /* offset of the entry in its .eh_frame */
	uint32_t part;       /* which .eh_frame: cfi_file.parts */
	bool signal;         /* augmentation 'S' */
};

/* The bytes of a section as if it were linked to the addresses of the space. */
struct cfi_part {
	const uint8_t *bytes;
	uint64_t size;
	uint64_t addr;
	uint8_t *owned;   /* relocated copy (ET_REL), or null */
	uint32_t section; /* in the file; 0 where section headers name none */
};

struct cfi_file {
	struct cfi_fde *fdes; /* sorted by start, no two overlap */
	size_t count;
	size_t bad;           /* entries that are malformed, each left out */
	size_t dropped;       /* entries about no code of this file: sections dropped by a linker, undefined symbols */
	struct cfi_part *parts; /* every .eh_frame */
	uint32_t part_count;
	struct cfi_part *lsdas; /* ET_REL: the sections that LSDA pointers refer to */
	uint32_t lsda_count;
};

/*
 * A file without .eh_frame gives count 0. Returns 0, or -1 and a message (out of
 * memory only: what is malformed costs itself). cfi_file_close() also after a
 * failure. Afterwards `out` is read-only and may be used by several threads.
 */
int cfi_file_open(const struct elf_file *f, const struct code_space *space, struct cfi_file *out, struct error *e);
void cfi_file_close(struct cfi_file *c);

/* The FDE that covers an address, or -1. */
long cfi_file_at(const struct cfi_file *c, uint64_t addr);

/* Rows of fdes[i], as etch_cfi_rows() says: in order, without gap, from its
 * start to its end. flags: ETCH_CFI_SAVES or 0. */
void cfi_file_rows(const struct cfi_file *c, size_t i, unsigned flags, etch_cfi_row_fn *fn, void *ctx);

#endif
