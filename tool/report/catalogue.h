/* SPDX-License-Identifier: MIT */
/*
 * The catalogue of findings states what all findings of an ID have in common. An ID never changes its meaning and is
 * never reused. docs/findings.md describes each ID, with an example that triggers it and one that does not; tests
 * compare the two.
 */
#ifndef REPORT_CATALOGUE_H
#define REPORT_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>

enum severity {
	SEVERITY_NOTE,    /* informative; hidden by default */
	SEVERITY_WARNING, /* may be intended, or has only a cost */
	SEVERITY_ERROR,   /* certainly wrong: it must prove true when the code is examined by hand */
};
#define SEVERITIES 3

/* What all findings of an ID have in common. */
struct catalogue_entry {
	const char *id;   /* "ETCH-S001" */
	const char *name; /* "stack-state-mismatch": --ignore accepts it too, and it is the name of the rule in SARIF */
	enum severity severity;
	const char *title; /* one line that begins with a capital and has no period */
	const char *why;   /* meaning and consequences, in sentences */
	const char *fix;   /* remedy, in sentences */
};

extern const struct catalogue_entry catalogue[];
extern const size_t catalogue_count;

/* Returns the group for which the letter in the ID stands: "input", "decode", "flow", ... */
const char *catalogue_group(const struct catalogue_entry *e);
/* Finds an entry by its ID or name; returns null if there is none. */
const struct catalogue_entry *catalogue_find(const char *id);
/*
 * Finds the entry for a message that libetch prints at run time. Such a message is not a finding: its entry is not in
 * `catalogue`, and its severity has no meaning.
 */
const struct catalogue_entry *catalogue_find_at_run_time(const char *id);
const char *severity_name(enum severity s); /* "note", "warning", "error" */

#endif
