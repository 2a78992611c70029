/* SPDX-License-Identifier: MIT */
/* The steps of `etch rewrite`, on files in memory. */
#ifndef REWRITE_H
#define REWRITE_H

#include "analysis/interproc/frames.h"
#include "site/bake.h"
#include "table/ex_table.h"
#include "table/linked_unwind.h"
#include "table/near_rows.h"
#include "table/object_orc.h"
#include "table/object_sframe.h"

struct rewrite_options {
	bool imv, pv, orc; /* tables to make */
	bool ex;           /* check the exception table, and sort it in a linked file */
	bool no_cfi;
	bool closed; /* no other module uses the names that a linked file exports */
	char **init; /* names of functions of a linked file that only run before etch_sync */
	size_t init_count;
	unsigned encoding;  /* of the unwind table of a linked file: ETCH_ENCODING_* */
	unsigned map_shift; /* return-address map: log2 of the bytes of text per byte of it, 6 or 7; 0: none */
	unsigned sframe;    /* version of the .sframe to make; 0: that which a linked file has from an earlier run */
	bool registers;     /* make a register table; so does a file that has one from an earlier run */
	bool eh_frame;      /* write an .eh_frame with FDEs for the code that has none; so does a file that has one from an
	                     * earlier run */
	enum eh_replace
		replace; /* with eh_frame: which FDEs of the linker are replaced; at least those of an earlier run */
	int jobs;    /* threads of the analysis */
};

/* Counts of sites of one kind: loads, or calls and jumps through slots. */
struct rewrite_counts {
	size_t sites;             /* with a form: can become an immediate or a direct call */
	size_t live;              /* linked: of those, can be patched while threads run */
	size_t swap;              /* of these: with their page */
	size_t kept;              /* without a form: left unchanged */
	struct bake_counts baked; /* linked: of those, what is in the code now */
};

struct rewrite_result {
	uint8_t *bytes; /* the new file, malloc'd; null: nothing changed */
	size_t size;
	struct rewrite_counts loads, calls;
	size_t in_place, in_place_baked; /* linked: calls compiled in place; how many of them are nops now */
	struct frames frames;            /* with options.orc: the analysis */
	uint64_t text;                   /* bytes of code */
	size_t rows;                     /* rows of the new unwind table */
	uint64_t unwind_bytes;           /* its size in memory */
	uint64_t register_bytes;         /* size of the register table; 0: none made */
	size_t register_lost;            /* places that do not fit it: unknown in it */
	struct eh_frame eh;              /* counts of .eh_frame; 0: none made */
	struct sframe sframe;            /* counts of .sframe; version 0: none made */
	size_t lost;                     /* rows that do not fit the orc encoding: UNDEFINED in it */
	struct far_code far;             /* linked: code without rows in the table, because it is far from the rest */
	size_t orc_sorted;               /* linked: sorted entries of the classic arrays */
	size_t ex_entries, ex_dropped;   /* entries of the exception table; linked: dropped, as their code is gone */
};

int rewrite_object(struct elf_file *f, const struct rewrite_options *o, const struct name_set *others, struct scan *s,
                   struct rewrite_result *out, struct error *e);
int rewrite_linked(struct elf_file *f, const struct rewrite_options *o, struct scan *s, struct rewrite_result *out,
                   struct error *e);
/* Makes the bytes of a sidecar file instead; f's bytes change, but only in memory. */
int rewrite_sidecar(struct elf_file *f, const struct rewrite_options *o, struct rewrite_result *out, struct error *e);
/* Makes the bytes of a separate debug file with .debug_frame instead; likewise. None where no FDE is missing. */
int rewrite_debug(struct elf_file *f, const struct rewrite_options *o, struct rewrite_result *out, struct error *e);
void rewrite_result_free(struct rewrite_result *r);

/*
 * Why rewriting this file might not be idempotent; null: it is. Damaged additions of an earlier run may be taken for
 * something else as long as they are in the file, and no longer once they are replaced. And where sections overlap,
 * the one that counts can depend on whether new sections come before or after them.
 */
const char *rewrite_doubt(const struct elf_file *f, const struct rewrite_options *o);

/*
 * Adds the note about the rewrite to the sections of the segment: the version of etch, and the XXH3 hash
 * (64 bits) of the file before its first rewrite. `was`: f's bytes as they were read.
 */
#define NOTE_SECTION ".note.etch"
void note_add(struct linked_unwind *u, const struct elf_file *f, const uint8_t *was, enum eh_replace replace);
/* Which FDEs an earlier run replaced, by its note. */
enum eh_replace note_replaces(const struct elf_file *f);
/* Which FDEs this run replaces. */
enum eh_replace rewrite_replaces(const struct elf_file *f, const struct rewrite_options *o);

bool rewrite_has_ex(const struct elf_file *f);
/* Checks the exception table; in a linked file also sorts it, in f's own bytes. 0, or -1 and a message. */
int rewrite_ex(struct elf_file *f, struct findings *findings, struct rewrite_result *out, struct error *e);

/* Prints findings to standard error, one line each; of those about unwind rows only the first
 * few unless `all`. Returns the number of all findings. */
size_t rewrite_print_findings(const char *path, const struct elf_file *f, const struct scan *s,
                              const struct rewrite_result *r, bool all);
/* Prints a note for each object whose members are missing; with `all` also for each that another module may store to.
 */
void rewrite_print_objects(const char *path, struct scan *s, bool all);
/* Prints the summary of a file, one line, to standard output. */
void rewrite_print_done(const char *path, const struct elf_file *f, const struct rewrite_options *o,
                        const struct rewrite_result *r);
/* Prints notes about moved headers of a linked file, which matter to tools that process it later. */
void rewrite_print_headers(const char *path, const struct elf_file *f, const struct rewrite_result *done);

/* The unwind sections that an object file gets. */
struct object_unwind {
	struct object_orc orc;
	struct object_sframe sframe;
};

/* Makes the unwind rows of an object file, or the unwind table of a linked one, and fills the counts in *out. */
int unwind_object(const struct elf_file *f, const struct rewrite_options *o, struct rewrite_result *out,
                  struct object_unwind *to, struct error *e);
/* 0; -1 and a message; 1 and a message: no table can be made for this file. */
int unwind_linked(const struct elf_file *f, const struct rewrite_options *o, struct rewrite_result *out,
                  struct linked_unwind *unwind, struct error *e);
/* Adds the finding about code that gets no rows because it is far from the rest, if there is any. */
void unwind_print_far(struct scan *s, const struct rewrite_result *r);
/* Adds the finding about rows that do not fit the orc encoding, if there are any. */
void unwind_print_lost(struct scan *s, const struct rewrite_result *r);
/* Makes the file with a segment for the unwind table alone. Returns a segment_result. */
int unwind_segment(const struct elf_file *f, struct linked_unwind *unwind, uint8_t **out, size_t *size,
                   struct error *e);

#endif
