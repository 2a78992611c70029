/* SPDX-License-Identifier: MIT */
/*
 * The unwind table of a linked file as sections of the etch segment (output/segment.h). Formats: etch/orc.h,
 * docs/formats.md.
 */
#ifndef TABLE_LINKED_UNWIND_H
#define TABLE_LINKED_UNWIND_H

#include "elf/file.h"
#include "output/segment.h"
#include "table/eh_frames.h"
#include "table/register_table.h"
#include "table/sframe.h"
#include "table/unwind_tables.h"

#define LINKED_UNWIND_SECTIONS 11

/* An unwind table, and the sections made in addition to it. */
struct linked_unwind {
	/* The first sections of the etch segment, in this order. This struct owns their contents (`data`). */
	struct segment_section sections[LINKED_UNWIND_SECTIONS];
	size_t count; /* 0: there is no table */
	struct etch_unwind header;
	uint64_t *targets; /* for the orc encoding: the address of each row, which linked_unwind_fill() needs */
	/* What is needed to fill in addresses in the contents of the .sframe section, to which it points. */
	struct sframe sframe;
	size_t sframe_at; /* index of the .sframe section in `sections`; 0: there is none */
	/* What is needed to fill in addresses in .eh_frame_hdr, and in .eh_frame, which is the section after it. */
	struct eh_frame eh;
	/* Index of .eh_frame_hdr in `sections`; 0: there is none. */
	size_t eh_at;
	/* For a table read from an earlier run: the address of each section; 0: the section is new, or not loaded. */
	uint64_t kept_at[LINKED_UNWIND_SECTIONS];
	/* The table was read from an earlier run. */
	bool kept;
};

/* Makes a table from rows. Rules that the orc encoding cannot express become UNDEFINED; *lost is set to their number.
 * Returns 0, or -1 with a message in *e. */
int linked_unwind_make(const struct elf_file *f, const struct row_list *rows, const struct unwind_kind *kind,
                       struct linked_unwind *out, size_t *lost, struct error *e);

/* Adds a section .sframe of this version with the rows. *u must have a table already. Returns 0, or -1 with a message
 * in *e. */
int linked_unwind_sframe(struct linked_unwind *u, const struct row_list *rows, unsigned version, struct error *e);
/* Returns the version of the .sframe section in the etch segment of a file; 0 if there is none. */
unsigned linked_unwind_sframe_version(const struct elf_file *f);

/* Adds .eh_frame and .eh_frame_hdr, with FDEs for the code that has none in cfi. *u must have a table already. Returns
 * 0, or -1 with a message in *e. */
int linked_unwind_eh_frame(const struct cfi_file *cfi, const struct code_space *space, const struct eh_rows *rows,
                           struct linked_unwind *u, struct error *e);
/* Adds a register table. *u must have a block table already. *lost is as for register_table_make(). Returns 0, or -1
 * with a message in *e. */
int linked_unwind_registers(struct linked_unwind *u, const struct register_sources *in, size_t *lost, struct error *e);
/* Does the etch segment of a file have a register table? */
bool linked_unwind_has_registers(const struct elf_file *f);
/* Returns the section that is the register table, or null. */
const struct segment_section *linked_unwind_registers_section(const struct linked_unwind *u);

/* Does the etch segment of a file have an .eh_frame? */
bool linked_unwind_has_eh_frame(const struct elf_file *f);

/* Adds the addresses of the functions that were named with --init; there must be at least one. *u must have a table
 * already. */
void linked_unwind_init_list(struct linked_unwind *u, const uint64_t *addresses, size_t count);

/* Reads the table of an earlier run. Returns 1 if there is one; 0 if there is none; -1 with a message in *e if it is
 * malformed. */
int linked_unwind_read(const struct elf_file *f, struct linked_unwind *out, struct error *e);

/* Decodes the rows of a table. If the sources of rows have been stripped, *sources is set to false, and all rows count
 * as CODE. */
int linked_unwind_rows(const struct linked_unwind *u, struct row_list *out, bool *sources, struct error *e);

/* Fills in what depends on the addresses of the sections, after segment_plan() has set these. Returns 0, or -1 with a
 * message in *e. */
int linked_unwind_fill(struct linked_unwind *u, struct error *e);

/* Returns the size in bytes of those loaded sections that are etch's own table, without the register table and the
 * sections for other unwinders. */
uint64_t linked_unwind_size(const struct linked_unwind *u);

void linked_unwind_free(struct linked_unwind *u);

#endif
