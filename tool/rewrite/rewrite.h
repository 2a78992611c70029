/* SPDX-License-Identifier: MIT */
/* The steps of `etch rewrite`, from bytes to bytes. */
#ifndef REWRITE_H
#define REWRITE_H

#include "code/frames.h"
#include "site/bake.h"
#include "table/ex_table.h"
#include "table/linked_unwind.h"
#include "table/object_orc.h"

struct rewrite_options {
	bool imv, pv, orc;  /* tables to make */
	bool ex;            /* exception table: check it, and sort it */
	bool no_cfi;
	unsigned encoding;  /* of a linked file: ETCH_ENCODING_* */
	unsigned map_shift; /* 0, 6 or 7 */
	int jobs;           /* threads of the generator */
};

/* Loads, or calls and jumps through slots. */
struct rewrite_counts {
	size_t sites; /* with a form */
	size_t live;  /* of those (linked), can be patched while threads run */
	size_t kept;  /* without a form: they stay as they are */
	struct bake_counts baked; /* of those (linked), what stands there now */
};

struct rewrite_result {
	uint8_t *bytes; /* the new file, malloc'd; null: the file is right as it is */
	size_t size;
	struct rewrite_counts loads, calls;
	size_t in_place, in_place_baked; /* linked: calls compiled in place; of those, nops now */
	struct frames frames;     /* with orc */
	uint64_t text;            /* bytes of code */
	size_t rows;              /* of the table that was made */
	uint64_t unwind_bytes;    /* of it, as loaded */
	size_t lost;              /* rows that do not fit the orc encoding: UNDEFINED in it */
	size_t orc_sorted;        /* linked: entries of the classic arrays */
	size_t ex_entries, ex_dropped; /* of the exception table; linked, of code that is not there */
};

int rewrite_object(struct elf_file *f, const struct rewrite_options *o, const struct name_set *others,
                   struct scan *s, struct rewrite_result *out, struct error *e);
int rewrite_linked(struct elf_file *f, const struct rewrite_options *o, struct scan *s, struct rewrite_result *out,
                   struct error *e);
/* The bytes of a sidecar file instead; f's own bytes change in memory only. */
int rewrite_sidecar(struct elf_file *f, const struct rewrite_options *o, struct rewrite_result *out, struct error *e);
void rewrite_result_free(struct rewrite_result *r);

/*
 * The note of the change, as one more section of the segment: which etch, and the XXH3 hash
 * (64 bits) of the file as it was before it was rewritten first. `was`: f's bytes as they came.
 */
#define NOTE_SECTION ".note.etch"
int note_add(struct linked_unwind *u, const struct elf_file *f, const uint8_t *was, struct error *e);

/* Is there an exception table? Checks it; sorts it, in f's own bytes, in a linked file. */
bool rewrite_has_ex(const struct elf_file *f);
int rewrite_ex(struct elf_file *f, struct findings *findings, struct rewrite_result *out, struct error *e);
/* What it found becomes findings of s: once s has been scanned for. */
int rewrite_ex_say(struct scan *s, struct findings *x);

/* Findings to standard error, one line each; those of unwind rows cut off after some
 * unless `all`. Returns how many there are. */
size_t rewrite_say_findings(const char *path, const struct elf_file *f, const struct scan *s, const struct frames *fr,
                            bool all);
/* One line to standard output. */
void rewrite_say_done(const char *path, const struct elf_file *f, const struct rewrite_options *o,
                      const struct rewrite_result *r);

/* Unwind rows of a file, put down in *out, as what its kind of file wants of them. */
int unwind_object(const struct elf_file *f, const struct rewrite_options *o, struct rewrite_result *out,
                  struct object_orc *orc, struct error *e);
/* 0; -1 and a message; 1 and a message when no table can be made of the file. */
int unwind_linked(const struct elf_file *f, const struct rewrite_options *o, struct rewrite_result *out,
                  struct linked_unwind *unwind, struct error *e);
/* The finding about rows that were lost, if there are any. */
int unwind_say_lost(struct scan *s, const struct rewrite_result *r);
/* A segment with a table alone. SEGMENT_OK, or what segment_build() returns. */
int unwind_segment(const struct elf_file *f, struct linked_unwind *unwind, uint8_t **out, size_t *size, struct error *e);

#endif
