/* SPDX-License-Identifier: MIT */
/*
 * The checks of `etch check`. Each file of this folder has one kind of check, which reads the
 * file through struct subject and adds findings. `etch inspect` counts findings, `etch diff`
 * compares them.
 */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include "analysis/facts/runtime.h"
#include "analysis/interproc/frames.h"
#include "report/finding.h"
#include "site/bake.h"
#include "site/site.h"
#include "table/ex_table.h"
#include "table/linked_tables.h"

struct check_options {
	int jobs;           /* threads of the analysis */
	bool no_cfi;        /* do not use .eh_frame */
	bool progress;      /* show progress (support/progress.h) */
	bool sls;           /* also check for straight-line speculation (ETCH-H005) */
	bool both_decoders; /* decode every reached instruction with both decoders, not every form once (ETCH-D004) */
};

/* A file with its analysis, made once for all checks. */
struct subject {
	const struct elf_file *file;
	const struct check_options *options;
	struct frames frames;        /* the analysis; with findings of groups C, D, F, S, X */
	struct fixups fixups;        /* the exception table, in frames.space */
	struct linked_tables tables; /* linked files: the tables of an earlier rewrite */
	struct scan scan;            /* sites in the code as the linker wrote it; with findings of groups D, I, P */
	struct findings found;       /* what the checks add */
};

/*
 * Runs all checks on f, whose bytes change in memory (baked sites become
 * loads again). 0; or -1 and a message: the file cannot be used. subject_free() also after
 * a failure; the caller may take `found` out before.
 */
int check_file(struct elf_file *f, const struct check_options *o, struct subject *out, struct error *e);
void subject_free(struct subject *s);

/*
 * table_checks.c; the first step for a linked file: reads its tables of sites into s->tables,
 * and restores in f's own bytes what the linker wrote at baked sites. A row that is malformed, or
 * does not match the code, becomes a finding ETCH-T003 and is left out of s->tables.
 * 0; 1: the file has neither tables nor descriptor; -1 and a message: malformed relocations.
 */
int check_tables_open(struct subject *s, struct elf_file *f, struct error *e);

/* The checks, one file of this folder each. Those that can fail return 0, or -1 and a message. */
int check_hardening(struct subject *s, struct error *e); /* H001-H003: segments, sections, dynamic section */
int check_branches(struct subject *s, struct error *e);  /* H004: endbr64 */
void check_speculation(struct subject *s);               /* H005: code after returns */
/* I005-I007, P002: objects that cannot be armed and sites that cannot be patched live. */
void check_etched(struct subject *s);
void check_tables(struct subject *s); /* T003: records of objects against the code */
/* T003, T004: unwind tables, by themselves and against the code. */
int check_unwind(struct subject *s, struct error *e);
int check_symbols(struct subject *s, struct error *e); /* N001: functions without size or type */
void check_cfi(struct subject *s);                     /* C003, C004, C008: .eh_frame itself */
/* C005-C007: .eh_frame_hdr against .eh_frame, .sframe against the code */
void check_frame_tables(struct subject *s);
void check_decoders(struct subject *s); /* D004: decoders that disagree */

/*
 * After check_file(), for reports. origin.c marks findings that are due to the compiler or
 * linker (docs/check.md has the rule). fold.c joins findings of one function, and those of a
 * language runtime. Both leave s->found sorted. 0, or -1 and a message.
 */
int check_origin(struct subject *s, struct error *e);
int check_fold(struct subject *s, struct error *e);

/* runtime_code.c: the code of language runtimes with calling conventions of their own, sorted; free out->list also
 * after a failure (-1 and a message: a malformed table). */
int subject_runtimes(const struct subject *s, struct runtime_codes *out, struct error *e);
/* The runtime of the code at an address of the code space, or null. */
const struct runtime *runtime_at(const struct runtime_codes *r, uint64_t addr);
/* True if a finding is of a kind that such conventions cause. */
bool runtime_explains(const struct finding *f);

#endif
