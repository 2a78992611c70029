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

/* An unwind table. */
struct linked_unwind {
	/* The first sections of the etch segment, in this order. The struct owns their `data`. */
	struct segment_section sections[LINKED_UNWIND_SECTIONS];
	size_t count; /* 0: there is no table */
	struct etch_unwind header;
	uint64_t *targets; /* orc encoding: the address of each row, for linked_unwind_fill() */
	struct sframe
		sframe;         /* the contents of the .sframe section, which are completed from it; points into the section */
	size_t sframe_at;   /* index of the .sframe section; 0: there is none */
	struct eh_frame eh; /* the same for .eh_frame_hdr, which .eh_frame follows */
	size_t eh_at;
	/* The addresses of the sections of a table of an earlier run; 0: not loaded, or new. */
	uint64_t kept_at[LINKED_UNWIND_SECTIONS];
	bool kept;
};

/* Makes a table from rows. Rules that do not fit the orc encoding become UNDEFINED; *lost is their number. */
int linked_unwind_make(const struct elf_file *f, const struct row_list *rows, const struct unwind_kind *kind,
                       struct linked_unwind *out, size_t *lost, struct error *e);

/* Adds a section .sframe of this version with the rows. u has a table already. */
int linked_unwind_sframe(struct linked_unwind *u, const struct row_list *rows, unsigned version, struct error *e);
/* Returns the version of the .sframe in the etch segment of a file; 0 if there is none. */
unsigned linked_unwind_sframe_version(const struct elf_file *f);

/* Adds .eh_frame and .eh_frame_hdr, with FDEs for the code that has none in cfi. u has a table already. */
int linked_unwind_eh_frame(const struct cfi_file *cfi, const struct code_space *space, const struct eh_rows *rows,
                           struct linked_unwind *u, struct error *e);
/* Adds the register table. u has a block table already. *lost is as for register_table_make(). */
int linked_unwind_registers(struct linked_unwind *u, const struct register_sources *in, size_t *lost, struct error *e);
/* Does the etch segment of a file have a register table? */
bool linked_unwind_has_registers(const struct elf_file *f);
/* Returns the section of the register table, or null. */
const struct segment_section *linked_unwind_registers_section(const struct linked_unwind *u);

/* Does the etch segment of a file have an .eh_frame? */
bool linked_unwind_has_eh_frame(const struct elf_file *f);

/* Adds the addresses of the functions that --init has named, of which there is at least one. u has a table already. */
void linked_unwind_init_list(struct linked_unwind *u, const uint64_t *addresses, size_t count);

/* Reads the table of an earlier run. Returns 1 if it has read it; 0 if there is none; -1 and a message if it is
 * malformed. */
int linked_unwind_read(const struct elf_file *f, struct linked_unwind *out, struct error *e);

/* Decodes the rows of a table. If the sources of rows were stripped, all are CODE and *sources is false. */
int linked_unwind_rows(const struct linked_unwind *u, struct row_list *out, bool *sources, struct error *e);

/* Writes what depends on the addresses of the sections, once segment_plan() has set them. */
int linked_unwind_fill(struct linked_unwind *u, struct error *e);

/* Returns the size in bytes of the loaded sections of etch's own table, without the register table. */
uint64_t linked_unwind_size(const struct linked_unwind *u);

void linked_unwind_free(struct linked_unwind *u);

#endif
