/* SPDX-License-Identifier: MIT */
/*
 * Makes the unwind table of a file. The rows of its code (analysis/interproc/frames.h) become sections of an object
 * file or of a linked file, a sidecar, or a debug file.
 */
#ifndef UNWINDING_UNWIND_MAKE_H
#define UNWINDING_UNWIND_MAKE_H

#include "analysis/interproc/frames.h"
#include "table/linked_unwind.h"
#include "table/unwind_tables.h"
#include "table/object_orc.h"
#include "table/object_sframe.h"

/* What is made. */
struct unwind_options {
	/* Ignore the call frame instructions of .eh_frame. */
	bool no_cfi;
	unsigned encoding; /* encoding of the unwind table of a linked file (ETCH_ENCODING_*) */
	/* Return-address map: log2 of the number of bytes of text for which one byte of the map stands, 6 or 7; 0: make
	 * no map. */
	unsigned map_shift;
	/* Version of the .sframe section to make; 0: the version that a linked file has from an earlier run, if any. */
	unsigned sframe;
	/* Make a register table. One is made in any case for a file that has one from an earlier run. */
	bool registers;
	/* Make an .eh_frame section with FDEs for the code that has none. It is made in any case for a file that has one
	 * from an earlier run. */
	bool eh_frame;
	/* With eh_frame: which of the linker's FDEs to replace; at least those that an earlier run has replaced. */
	enum eh_replace replace;
	int jobs; /* number of threads for the analysis */
};

/* The results, and their sizes. */
struct unwind_made {
	uint8_t *bytes; /* contents of a sidecar or a debug file, from malloc(); null: there are no rows */
	size_t size;
	struct frames frames;    /* results of the analysis, except for the rows */
	uint64_t text;           /* number of bytes of code */
	size_t rows;             /* number of rows in the new unwind table */
	uint64_t unwind_bytes;   /* size in memory of the new unwind table */
	uint64_t register_bytes; /* size of the register table; 0: none was made */
	size_t register_lost;    /* number of places that do not fit into the register table, and are unknown in it */
	struct eh_frame eh;      /* counts of the .eh_frame section; all 0: none was made */
	struct sframe sframe;    /* counts of the .sframe section; version 0: none was made */
	size_t lost;             /* number of rows that do not fit the orc encoding, and are UNDEFINED in it */
	/* Linked files: code without rows in the table, because it is far away from the other code. */
	struct far_code far;
};

/* The unwind sections that an object file gets. */
struct object_unwind {
	struct object_orc orc;
	struct object_sframe sframe;
};

/* Makes the unwind sections of an object file in *to, and sets the counts in *out. Returns 0, or -1 with a message in
 * *e. */
int unwind_object(const struct elf_file *f, const struct unwind_options *o, struct unwind_made *out,
                  struct object_unwind *to, struct error *e);
/* Makes the unwind table of a linked file in *unwind, and sets the counts in *out. Returns 0; -1 with a message in *e;
 * or 1 with a message in *e if no table can be made for this file. */
int unwind_linked(const struct elf_file *f, const struct unwind_options *o, struct unwind_made *out,
                  struct linked_unwind *unwind, struct error *e);
/* Makes a sidecar without its head (sidecar_file.h) in out->bytes. Changes f's bytes in memory, but not the file. */
int unwind_sidecar(struct elf_file *f, const struct unwind_options *o, struct unwind_made *out, struct error *e);
/* Makes a separate debug file with .debug_frame in out->bytes; makes none if no FDE is missing. Changes f's bytes in
 * memory, but not the file. */
int unwind_debug(struct elf_file *f, const struct unwind_options *o, struct unwind_made *out, struct error *e);
void unwind_made_free(struct unwind_made *m);
/* Makes a copy of the file with a segment that only contains the unwind table. Returns a segment_result. */
int unwind_segment(const struct elf_file *f, struct linked_unwind *unwind, uint8_t **out, size_t *size,
                   struct error *e);

/*
 * Adds a note about the rewrite to the sections of the segment. It contains the version of etch, and the XXH3 hash (64
 * bits) of the file before its first rewrite. `was`: the bytes of f as they were read.
 */
#define NOTE_SECTION ".note.etch"
void rewrite_note_add(struct linked_unwind *u, const struct elf_file *f, const uint8_t *was, enum eh_replace replace);
/* Returns which of the linker's FDEs an earlier run replaced, according to its note. */
enum eh_replace rewrite_note_replaces(const struct elf_file *f);
/* Returns which of the linker's FDEs this run replaces. */
enum eh_replace unwind_replaces(const struct elf_file *f, const struct unwind_options *o);

#endif
