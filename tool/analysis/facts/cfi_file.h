/* SPDX-License-Identifier: MIT */
/*
 * All FDEs of a file, sorted, with addresses of the code space (analysis/facts/space.h); and the call-site tables of
 * the LSDAs in .gcc_except_table to which FDEs refer, which tell the landing pad of a call that throws. shared/cfi.h
 * decodes CIEs, FDEs and their instructions. The format of LSDAs: Itanium C++ ABI, "Exception Handling Tables", 4.6;
 * gcc/except.cc.
 */
#ifndef ANALYSIS_FACTS_CFI_FILE_H
#define ANALYSIS_FACTS_CFI_FILE_H

#include "shared/cfi.h"

#include "analysis/facts/space.h"

/* The names that a file's own .eh_frame and .eh_frame_hdr get when etch has put an extended copy of them into the etch
 * segment. */
#define EH_FRAME_LINKED ".eh_frame.linked"
#define EH_HDR_LINKED   ".eh_frame_hdr.linked"

struct cfi_fde {
	uint64_t start, end; /* inside one section of the code space; the range ends where the next FDE starts, even if the
	                        file says otherwise */
	uint64_t lsda;       /* address of the LSDA; 0: none. See lsda_call_sites() */
	uint64_t at;         /* offset of the FDE in its .eh_frame section */
	uint32_t part;       /* index in cfi_file.parts */
	bool signal;         /* augmentation 'S': a signal frame */
};

/* The bytes of a section; references in it are relocated to the addresses of the code space. */
struct cfi_part {
	const uint8_t *bytes;
	uint64_t size;
	uint64_t addr;
	uint8_t *owned;   /* relocated copy (ET_REL), or null */
	uint32_t section; /* number of the section in the file; 0: the part was found by PT_GNU_EH_FRAME */
};

struct cfi_file {
	struct cfi_fde *fdes; /* sorted by start, no two overlap */
	size_t count;
	size_t bad;     /* number of malformed entries, which are left out */
	size_t unread;  /* number of those among the malformed entries that etch cannot read, or whose CIE it cannot read */
	size_t dropped; /* number of entries for code that is not in this file, because the linker has dropped its section
	                   or its symbol is undefined */
	struct cfi_part *parts; /* all .eh_frame sections */
	uint32_t part_count;
	struct cfi_part *lsdas; /* ET_REL: the sections that LSDA pointers refer to */
	uint32_t lsda_count;
};

/*
 * Reads all FDEs; there are none without .eh_frame. FDEs that etch has written are ignored, since the results for a
 * file must not depend on an earlier run of etch. Malformed entries are left out and counted. Nothing changes *out
 * afterwards, so threads may share it.
 */
void cfi_file_open(const struct elf_file *f, const struct code_space *space, struct cfi_file *out);
/* Reads, as cfi_file_open() does, the FDEs of the .eh_frame that unwinders find in the file: the one that etch has
 * written, if there is one. */
void cfi_file_open_current(const struct elf_file *f, const struct code_space *space, struct cfi_file *out);
void cfi_file_close(struct cfi_file *c);
/* Returns the section index of the linker's .eh_frame_hdr, or 0. */
uint32_t cfi_file_hdr(const struct elf_file *f);

/* Returns the index of the FDE that covers an address, or -1. */
long cfi_file_at(const struct cfi_file *c, uint64_t addr);

/* Calls fn for the rows of fdes[i] as etch_cfi_rows() does: in order, without gaps, from the FDE's start to its end.
 * `flags` is ETCH_CFI_SAVES or 0. */
void cfi_file_rows(const struct cfi_file *c, size_t i, unsigned flags, etch_cfi_row_fn *fn, void *ctx);

/* A callback for one call site [start, end) and its landing pad; `pad` is 0 if there is none. The addresses are those
 * of the code space, but the callback must check whether code is there. */
typedef void lsda_call_site_fn(void *ctx, uint64_t start, uint64_t end, uint64_t pad);

/*
 * Calls fn for each call site of fdes[i], in the table's order. Returns the number of call sites; 0 without an LSDA; -1
 * if the table is malformed, after calls for the entries before the error.
 */
long lsda_call_sites(const struct elf_file *f, const struct cfi_file *c, size_t i, lsda_call_site_fn *fn, void *ctx);

#endif
