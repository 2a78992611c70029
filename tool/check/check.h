/* SPDX-License-Identifier: MIT */
/*
 * What `etch check` looks for, each kind in a file of this folder, which sees the file
 * through struct subject and adds findings. `etch inspect` counts them, `etch diff`
 * compares them.
 */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include "code/frames.h"
#include "report/finding.h"
#include "site/bake.h"
#include "site/site.h"
#include "table/ex_table.h"
#include "table/linked_tables.h"

struct check_options {
	int jobs;           /* threads of the generator */
	bool no_cfi;        /* do not ask .eh_frame */
	bool progress;      /* say how far it is (report/progress.h) */
	bool sls;           /* straight-line speculation too (ETCH-H005) */
	bool both_decoders; /* every instruction that is reached by the second decoder too (ETCH-D004) */
};

/* A file, opened once for all checks. */
struct subject {
	const struct elf_file *file;
	const struct check_options *options;
	struct frames frames;        /* with findings of groups C, D, F, S, X */
	struct fixups fixups;        /* the exception table, in frames.space */
	struct linked_tables tables; /* linked files */
	struct scan scan;            /* with findings of groups D, I, P; the file as the linker wrote it */
	struct findings found;       /* what the checks add */
};

/*
 * Finds all that is to be found in f, whose bytes change in memory (baked sites become
 * loads again). 0; or -1 and a message: the file cannot be used. subject_free() also after
 * a failure; `found` may be taken out before.
 */
int check_file(struct elf_file *f, const struct check_options *o, struct subject *out, struct error *e);
void subject_free(struct subject *s);

/*
 * tables.c, before anything else looks at a linked file: reads its tables of sites into
 * s->tables, and puts what is baked back to what the linker wrote, in f's own bytes. What
 * is malformed, or out of step with the code, becomes a finding ETCH-T003 and is left out;
 * the rest goes on. 1 where the file has neither tables nor descriptor; -1 and a message:
 * out of memory, malformed relocations.
 */
int check_tables_open(struct subject *s, struct elf_file *f, struct error *e);

/* One file of this folder each. Return 0, or -1 and a message (out of memory). */
int check_hardening(struct subject *s, struct error *e); /* H001-H003: segments, sections, dynamic section */
int check_branches(struct subject *s, struct error *e);  /* H004: endbr64 */
int check_speculation(struct subject *s, struct error *e); /* H005: code behind returns */
int check_etched(struct subject *s, struct error *e);    /* I005-I007, P002: what keeps objects from being armed, sites from being live */
int check_tables(struct subject *s, struct error *e);    /* T003: records of objects against the code */
int check_unwind(struct subject *s, struct error *e);    /* T003, T004: unwind tables, by themselves and against the code */
int check_symbols(struct subject *s, struct error *e);   /* N001: sizes */
int check_cfi(struct subject *s, struct error *e);       /* C003, C004: .eh_frame itself */
int check_decoders(struct subject *s, struct error *e);  /* D004 */

#endif
