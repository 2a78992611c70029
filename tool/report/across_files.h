/* SPDX-License-Identifier: MIT */
/*
 * Merges equal findings about the same code in several files: an object file, an archive member with the same name, and
 * the files that were linked from either. Such a finding is reported once, with the list of files. Objects with
 * different names count as different code, even if their bytes are equal.
 */
#ifndef REPORT_ACROSS_FILES_H
#define REPORT_ACROSS_FILES_H

#include "report/report.h"
#include "support/hash_index.h"

/* A finding in one file. */
struct occurrence {
	const struct report *report;
	struct report_finding *finding;
};

/* Equal findings of several files. */
struct seen {
	uint64_t key;
	/* Name of the object file or archive member; null: all files with the finding so far are linked ones. */
	const char *object;
	struct seen *next; /* the next group of findings with the same key, from another object; null: none */
	/* in the order of the files; report_finding.seen points here only if there are at least two */
	struct occurrence *list;
	size_t count, capacity;
};

/* All groups of equal findings, by key. */
struct seen_all {
	struct seen **list;
	size_t count, capacity;
	struct hash_index index;
};

/* Adds the findings of a report that count (finding_counts()). The report must not move before seen_free(). */
void seen_add(struct seen_all *a, struct report *r);
/*
 * Must be called after the last report has been added: sets `seen` and `repeated` of equal findings. If one of them is
 * due to a compiler, all of them are marked so.
 */
void seen_join(struct seen_all *a);
void seen_free(struct seen_all *a);

#endif
