/* SPDX-License-Identifier: MIT */
/*
 * Makes the unwind table of a file: from the rows of its code (analysis/interproc/frames.h) to the sections of an
 * object, of a linked file, of a sidecar or of a debug file.
 */
#ifndef UNWINDING_UNWIND_MAKE_H
#define UNWINDING_UNWIND_MAKE_H

#include "analysis/interproc/frames.h"
#include "table/linked_unwind.h"
#include "table/unwind_tables.h"
#include "table/object_orc.h"
#include "table/object_sframe.h"

struct unwind_options {
	bool no_cfi;
	unsigned encoding;  /* encoding of the unwind table of a linked file: ETCH_ENCODING_* */
	unsigned map_shift; /* return-address map: log2 of the bytes of text per byte of the map, 6 or 7; 0: none */
	unsigned sframe;    /* version of the .sframe to make; 0: the version that a linked file has from an earlier run */
	bool registers;     /* make a register table; one is also made for a file that has one from an earlier run */
	bool eh_frame; /* write an .eh_frame with FDEs for the code that has none; one is also made for a file that has one
	                * from an earlier run */
	enum eh_replace replace; /* with eh_frame: the linker's FDEs to replace; at least those of an earlier run */
	int jobs;                /* threads of the analysis */
};

/* What was made, with its counts. */
struct unwind_made {
	uint8_t *bytes; /* bytes of a sidecar or a debug file, malloc'd; null: there are no rows */
	size_t size;
	struct frames frames;    /* the analysis */
	uint64_t text;           /* bytes of code */
	size_t rows;             /* rows of the new unwind table */
	uint64_t unwind_bytes;   /* its size in memory */
	uint64_t register_bytes; /* size of the register table; 0: none made */
	size_t register_lost;    /* places that do not fit the register table, and are unknown in it */
	struct eh_frame eh;      /* counts of .eh_frame; 0: none made */
	struct sframe sframe;    /* counts of .sframe; version 0: none made */
	size_t lost;             /* rows that do not fit the orc encoding, and are UNDEFINED in it */
	struct far_code far;     /* linked files: code without rows in the table, because it is far from the rest */
};

/* The unwind sections that an object file gets. */
struct object_unwind {
	struct object_orc orc;
	struct object_sframe sframe;
};

/* Makes the unwind sections of an object file, and fills the counts in *out. Returns 0, or -1 and a message. */
int unwind_object(const struct elf_file *f, const struct unwind_options *o, struct unwind_made *out,
                  struct object_unwind *to, struct error *e);
/* Makes the unwind table of a linked file, and fills the counts in *out. Returns 0; -1 and a message; or 1 and a
 * message if no table can be made for this file. */
int unwind_linked(const struct elf_file *f, const struct unwind_options *o, struct unwind_made *out,
                  struct linked_unwind *unwind, struct error *e);
/* Makes a sidecar without its head (sidecar_file.h); f's bytes change, but only in memory. */
int unwind_sidecar(struct elf_file *f, const struct unwind_options *o, struct unwind_made *out, struct error *e);
/* Makes a separate debug file with .debug_frame; f's bytes change likewise. Makes none if no FDE is missing. */
int unwind_debug(struct elf_file *f, const struct unwind_options *o, struct unwind_made *out, struct error *e);
void unwind_made_free(struct unwind_made *m);
/* Makes the file with a segment for the unwind table alone. Returns a segment_result. */
int unwind_segment(const struct elf_file *f, struct linked_unwind *unwind, uint8_t **out, size_t *size,
                   struct error *e);

/*
 * Adds the note about the rewrite to the sections of the segment: the version of etch, and the XXH3 hash (64 bits) of
 * the file before its first rewrite. `was`: f's bytes as they were read.
 */
#define NOTE_SECTION ".note.etch"
void note_add(struct linked_unwind *u, const struct elf_file *f, const uint8_t *was, enum eh_replace replace);
/* Returns which FDEs an earlier run replaced, by its note. */
enum eh_replace note_replaces(const struct elf_file *f);
/* Returns which FDEs this run replaces. */
enum eh_replace unwind_replaces(const struct elf_file *f, const struct unwind_options *o);

#endif
