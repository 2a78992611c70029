/* SPDX-License-Identifier: MIT */
/*
 * Declares the checks of `etch check`. Each file of this folder implements one kind of check. A check gets a struct
 * subject, the file with its analysis, and adds findings to it. `etch inspect` counts the findings, and `etch diff`
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
	int jobs;           /* number of threads for the analysis */
	bool no_cfi;        /* ignores .eh_frame */
	bool progress;      /* shows progress (support/progress.h) */
	bool sls;           /* also checks for straight-line speculation (ETCH-H005) */
	bool both_decoders; /* decodes every reached instruction with both decoders, rather than one instruction of each
	                       form (ETCH-D004) */
};

/* A file with its analysis, made once for all checks. */
struct subject {
	const struct elf_file *file;
	const struct check_options *options;
	struct frames frames;        /* the results of the flow analysis, with findings of groups C, D, F, S and X */
	struct fixups fixups;        /* the exception table; its addresses are those of frames.space */
	struct linked_tables tables; /* linked files: the tables that an earlier run of etch rewrite added */
	struct scan scan;      /* the sites in the code, with baked sites restored; with findings of groups D, I and P */
	struct findings found; /* the findings that the checks add */
};

/*
 * Runs all checks on f. The bytes of f change in memory: baked sites become loads again. Returns 0, or -1 and a message
 * if the file cannot be used. The caller calls subject_free() in either case, and may move `found` out of *out before.
 */
int check_file(struct elf_file *f, const struct check_options *o, struct subject *out, struct error *e);
void subject_free(struct subject *s);

/*
 * Defined in table_checks.c; must run first for a linked file. Reads the file's tables of sites into s->tables, and
 * restores the linker's bytes of baked sites in f. A row that is malformed, or does not match the code, causes finding
 * ETCH-T003 and is left out of s->tables. Returns 0; 1 if the file has neither tables nor a descriptor; -1 and a
 * message if its relocations are malformed.
 */
int check_tables_open(struct subject *s, struct elf_file *f, struct error *e);

/* The checks, with the findings of each. A check that can fail returns 0, or -1 and a message. */
int check_hardening(struct subject *s, struct error *e); /* H001-H003: segments, sections, dynamic section */
int check_branches(struct subject *s, struct error *e);  /* H004: endbr64 */
void check_speculation(struct subject *s);               /* H005: code after returns */
/* I005-I007, P002: objects that cannot be armed and sites that cannot be patched live. */
void check_etched(struct subject *s);
void check_tables(struct subject *s); /* T003: records of objects that contradict the code */
/* T003, T004: unwind tables that are malformed or contradict the code. */
int check_unwind(struct subject *s, struct error *e);
int check_symbols(struct subject *s, struct error *e); /* N001: functions without size or type */
void check_cfi(struct subject *s);                     /* C003, C004, C008: a malformed .eh_frame */
/* C005-C007: .eh_frame_hdr that contradicts .eh_frame, and .sframe that contradicts the code. */
void check_frame_tables(struct subject *s);
void check_decoders(struct subject *s); /* D004: decoders that disagree */

/*
 * These run after check_file(), if findings are to be reported. check_origin() (origin.c) marks the findings that are
 * due to the compiler or the linker; docs/check.md states the rule. check_fold() (fold.c) joins findings of one
 * function, and those of a language runtime. Both leave s->found sorted, and return 0, or -1 and a message.
 */
int check_origin(struct subject *s, struct error *e);
int check_fold(struct subject *s, struct error *e);

/*
 * Defined in origin.c: finds the code of language runtimes that have calling conventions of their own, and lists it
 * sorted by address. Returns 0, or -1 and a message if a table is malformed. The caller frees out->list in either case.
 */
int subject_runtimes(const struct subject *s, struct runtime_codes *out, struct error *e);
/* Returns the language runtime to which the code at an address of the code space belongs, or null. */
const struct runtime *runtime_at(const struct runtime_codes *r, uint64_t addr);
/* True if the finding is of a kind that a runtime's calling conventions cause. */
bool runtime_explains(const struct finding *f);

#endif
