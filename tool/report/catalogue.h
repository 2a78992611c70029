/* SPDX-License-Identifier: MIT */
/*
 * All findings that etch knows: what is the same for every one of an ID. An ID never
 * changes its meaning and is never used again. docs/findings.md has an entry for each, with
 * an example that triggers it and one that does not; tests hold the two together.
 */
#ifndef REPORT_CATALOGUE_H
#define REPORT_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>

enum severity {
	SEVERITY_NOTE,    /* worth knowing when one looks; not shown unless asked for */
	SEVERITY_WARNING, /* it may be meant so, or it costs something */
	SEVERITY_ERROR,   /* it is wrong, and known to be: a claim that must hold when examined by hand */
};

struct catalogue_entry {
	const char *id;    /* "ETCH-S001" */
	const char *name;  /* "stack-state-mismatch": for --ignore too, and the rule's name in SARIF */
	enum severity severity;
	const char *title; /* one line, starts large, no period */
	const char *why;   /* what it means and why it matters: sentences */
	const char *fix;   /* the remedy: sentences */
};

extern const struct catalogue_entry catalogue[];
extern const size_t catalogue_count;

/* "input", "decode", "flow"...: by the letter of the ID. */
const char *catalogue_group(const struct catalogue_entry *e);
/* By ID or by name; null: there is none. */
const struct catalogue_entry *catalogue_find(const char *id);
const char *severity_name(enum severity s); /* "note", "warning", "error" */

#endif
