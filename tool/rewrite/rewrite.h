/* SPDX-License-Identifier: MIT */
/*
 * The steps of `etch rewrite`, on files in memory:
 *
 *   object_step.c                      rewrite_object()
 *   link_step.c                        rewrite_linked(), the exception table of both steps, and *_finding_add()
 *   rewrite_file.c                     rewrite_result_free(); calls the steps (files.h)
 *   rewrite_doubt.c                    rewrite_doubt()
 *   rewrite_print.c                    rewrite_print_*()
 */
#ifndef REWRITE_H
#define REWRITE_H

#include "site/bake.h"
#include "table/ex_table.h"
#include "unwinding/unwind_make.h"

struct rewrite_options {
	bool imv, pv, orc; /* tables to make */
	bool ex;           /* check the exception table, and in a linked file sort it */
	bool closed;       /* no other module uses the names that a linked file exports */
	char **init;       /* names of functions of a linked file that run only before etch_sync */
	size_t init_count;
	struct unwind_options unwind;
};

/* Counts of sites of one kind: of loads, or of calls and jumps through slots. */
struct rewrite_counts {
	size_t sites;             /* sites with a form, which can become an immediate or a direct call */
	size_t live;              /* linked: those of them that can be patched while threads run */
	size_t swap;              /* those of `live` that are patched by replacing their page */
	size_t kept;              /* sites without a form, which stay unchanged */
	struct bake_counts baked; /* linked: what is in the code at `sites` now */
};

struct rewrite_result {
	uint8_t *bytes; /* the new file, malloc'd; null: nothing changed */
	size_t size;
	struct rewrite_counts loads, calls;
	size_t in_place, in_place_baked; /* linked: calls that are compiled in place, and how many of them are nops now */
	struct unwind_made unwind;       /* with options.orc */
	size_t orc_sorted;               /* linked: sorted entries of the classic arrays */
	size_t ex_entries,
		ex_dropped; /* entries of the exception table; linked: those dropped because their code is gone */
};

/* Both steps fill *s, to whose findings they add, and *out. They return 0, or -1 and a message. f's bytes may change in
 * memory. `others` names the etched objects that other files of the command define. */
int rewrite_object(struct elf_file *f, const struct rewrite_options *o, const struct name_set *others, struct scan *s,
                   struct rewrite_result *out, struct error *e);
int rewrite_linked(struct elf_file *f, const struct rewrite_options *o, struct scan *s, struct rewrite_result *out,
                   struct error *e);
void rewrite_result_free(struct rewrite_result *r);

/*
 * Returns the reason why rewriting this file might not be idempotent, or null if it is. Damaged additions of an earlier
 * run may be mistaken for something else as long as they are in the file, but not once they are replaced. And if
 * sections overlap, the section that counts can depend on whether new sections come before or after them. The reason is
 * printed only if a second run does change the file.
 */
const char *rewrite_doubt(const struct elf_file *f, const struct rewrite_options *o);

bool rewrite_has_ex(const struct elf_file *f);
/* Checks the exception table; in a linked file also sorts it, in f's own bytes. Returns 0, or -1 and a message. */
int rewrite_ex(struct elf_file *f, struct findings *findings, struct rewrite_result *out, struct error *e);

/* Prints findings to standard error, one line each. Unless `all` is set, it prints only the first few findings about
 * unwind rows. Returns the number of all findings. */
size_t rewrite_print_findings(const char *path, const struct elf_file *f, const struct scan *s,
                              const struct rewrite_result *r, bool all);
/* Prints a note for each object about whose members nothing is known, and with `all` also for each object that another
 * module may store to.
 */
void rewrite_print_objects(const char *path, struct scan *s, bool all);
/* Prints the summary of a file, one line, to standard output. */
void rewrite_print_summary(const char *path, const struct elf_file *f, const struct rewrite_options *o,
                           const struct rewrite_result *r);
/* Prints notes about moved headers of a linked file, which matter to tools that process it later. */
void rewrite_print_headers(const char *path, const struct elf_file *f, const struct rewrite_result *done);

/* Adds the finding about code that gets no rows because it is far from the rest, if there is such code. */
void far_code_finding_add(struct scan *s, const struct rewrite_result *r);
/* Adds the finding about rows that do not fit the orc encoding, if there are such rows. */
void lost_rows_finding_add(struct scan *s, const struct rewrite_result *r);
#endif
