/* SPDX-License-Identifier: MIT */
/*
 * All FDEs of a file, sorted, with addresses of the code space (analysis/facts/space.h), and the call-site tables of
 * their LSDAs in .gcc_except_table, which lead from a call that throws to its landing pad. shared/cfi.h decodes CIEs,
 * FDEs and their instructions. The format of LSDAs: Itanium C++ ABI, "Exception Handling Tables", 4.6; gcc/except.cc.
 */
#ifndef ANALYSIS_FACTS_CFI_FILE_H
#define ANALYSIS_FACTS_CFI_FILE_H

#include "shared/cfi.h"

#include "analysis/facts/space.h"

/* The new names of a file's .eh_frame and .eh_frame_hdr once etch has put an extended copy of them into the etch
 * segment. */
#define EH_FRAME_LINKED ".eh_frame.linked"
#define EH_HDR_LINKED   ".eh_frame_hdr.linked"

struct cfi_fde {
	uint64_t start, end; /* within one section of the space; cut where the next FDE starts */
	uint64_t lsda;       /* address of the LSDA; 0: none. See lsda_call_sites() */
	uint64_t at;         /* offset of the entry in its .eh_frame */
	uint32_t part;       /* index in cfi_file.parts */
	bool signal;         /* augmentation 'S': a signal frame */
};

/* The bytes of a section, relocated to the addresses of the code space. */
struct cfi_part {
	const uint8_t *bytes;
	uint64_t size;
	uint64_t addr;
	uint8_t *owned;   /* relocated copy (ET_REL), or null */
	uint32_t section; /* index in the file; 0: found by PT_GNU_EH_FRAME */
};

struct cfi_file {
	struct cfi_fde *fdes; /* sorted by start, no two overlap */
	size_t count;
	size_t bad;    /* number of malformed entries, which are left out */
	size_t unread; /* of these, entries that etch cannot read, or whose CIE it cannot read */
	size_t
		dropped; /* number of entries for code that is not in this file: in dropped sections, or of undefined symbols */
	struct cfi_part *parts; /* all .eh_frame sections */
	uint32_t part_count;
	struct cfi_part *lsdas; /* ET_REL: the sections that LSDA pointers refer to */
	uint32_t lsda_count;
};

/*
 * Reads all FDEs; the count is 0 without .eh_frame. Those that etch has written are not read: what is made from a file
 * must not depend on what was made from it before. Malformed entries are left out and counted. `out` is read-only
 * afterwards, so threads may share it.
 */
void cfi_file_open(const struct elf_file *f, const struct code_space *space, struct cfi_file *out);
/* Does the same for the .eh_frame that unwinders find in the file as it is: etch's, where it has written one. */
void cfi_file_open_current(const struct elf_file *f, const struct code_space *space, struct cfi_file *out);
void cfi_file_close(struct cfi_file *c);
/* Returns the section index of the linker's .eh_frame_hdr, or 0. */
uint32_t cfi_file_hdr(const struct elf_file *f);

/* Returns the index of the FDE that covers an address, or -1. */
long cfi_file_at(const struct cfi_file *c, uint64_t addr);

/* Calls fn for the rows of fdes[i] as etch_cfi_rows() does: in order, without gaps, from its start to its end. flags:
 * ETCH_CFI_SAVES or 0. */
void cfi_file_rows(const struct cfi_file *c, size_t i, unsigned flags, etch_cfi_row_fn *fn, void *ctx);

/* A call site [start, end), in addresses of the code space; the callback must check whether they are code. `pad` 0:
 * there is no landing pad. */
typedef void lsda_call_site_fn(void *ctx, uint64_t start, uint64_t end, uint64_t pad);

/*
 * Calls fn for each call site of fdes[i], in the table's order. Returns their number; 0 without an LSDA; -1 if the
 * table is malformed, after calls for the entries before the error.
 */
long lsda_call_sites(const struct elf_file *f, const struct cfi_file *c, size_t i, lsda_call_site_fn *fn, void *ctx);

#endif
