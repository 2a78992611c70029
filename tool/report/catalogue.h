/* SPDX-License-Identifier: MIT */
/*
 * The catalogue of all findings: what all findings of an ID have in common. An ID never changes its meaning and is
 * never reused. docs/findings.md describes each, with an example that triggers it and one that does not; tests
 * compare the two.
 */
#ifndef REPORT_CATALOGUE_H
#define REPORT_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>

enum severity {
	SEVERITY_NOTE,    /* informative; hidden by default */
	SEVERITY_WARNING, /* may be intended, or has a cost */
	SEVERITY_ERROR,   /* certainly wrong: must hold when the code is examined by hand */
};
#define SEVERITIES 3

/* What all findings of an ID have in common. */
struct catalogue_entry {
	const char *id;   /* "ETCH-S001" */
	const char *name; /* "stack-state-mismatch": also for --ignore, and the rule name in SARIF */
	enum severity severity;
	const char *title; /* one line, with a capital, without a period */
	const char *why;   /* meaning and consequences: sentences */
	const char *fix;   /* remedy: sentences */
};

extern const struct catalogue_entry catalogue[];
extern const size_t catalogue_count;

/* "input", "decode", "flow", ...: by the letter in the ID. */
const char *catalogue_group(const struct catalogue_entry *e);
/* Finds an entry by ID or name; null: none. */
const struct catalogue_entry *catalogue_find(const char *id);
/* The same of what libetch says at run time, which is no finding: it is not in the catalogue, and has no severity. */
const struct catalogue_entry *catalogue_find_at_run_time(const char *id);
const char *severity_name(enum severity s); /* "note", "warning", "error" */

#endif
