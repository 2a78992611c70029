/* SPDX-License-Identifier: MIT */
/* Finds the differences between two files. */
#ifndef DIFF_PAIRS_H
#define DIFF_PAIRS_H

#include "diff/image.h"

enum change_kind {
	CHANGE_CHANGED,
	CHANGE_ADDED,
	CHANGE_REMOVED,
	CHANGE_RENAMED, /* equal code, but another name */
};

/* A callee that the two functions call different numbers of times. */
struct call_change {
	char *name;
	int64_t count; /* the difference; greater than 0 if the new function has more calls */
};

/* A function that differs between the files, or is in only one of them. */
struct change {
	enum change_kind kind;
	uint32_t old, new;          /* indices of the function in the two files; NO_FUNC: not in this file */
	uint32_t removed, inserted; /* number of instructions removed and added */
	bool code, frame, rows;     /* whether the code, the stack frame or the unwind rows differ */
	struct call_change *calls;  /* sorted by name; owned */
	size_t call_count;
};

/* A site that is in only one file, or is live in only one of them, or is kept for different reasons. */
struct site_change {
	const struct site *old, *new; /* null: not in this file */
	const char *was, *is; /* the reason why the site is not live in the old and in the new file; null: it is live */
};

/* A finding that is in only one file. */
struct finding_change {
	const struct report_finding *finding;
	bool removed; /* true: only in the old file; false: only in the new file */
};

#define SIZES_MOST 16

/* A size or a count, with its values in both files. */
struct size_row {
	const char *name;
	uint64_t old, new;
	bool table; /* true: the files count as different if only one of them has the table */
};

/* The result of a comparison. */
struct diff {
	struct image *old, *new;
	struct size_row sizes[SIZES_MOST]; /* in bytes */
	size_t size_count;
	struct size_row counts[4]; /* functions, instructions, rows, covered bytes */
	struct change *changes;    /* sorted by kind: changed and renamed functions, then removed ones, then added ones */
	size_t change_count, change_capacity;
	struct site_change *sites;
	size_t site_count, site_capacity;
	struct finding_change *findings;
	size_t finding_count, finding_capacity;
	size_t same, changed, added, removed, renamed; /* numbers of functions */
	size_t grown, shrunk; /* number of functions whose stack frame has become larger, and smaller */
	uint32_t deepest;     /* index of the change by which a frame grows most, or NO_FUNC */
	bool notes, differs;
};

/*
 * Matches and compares two files on which image_open() has been called. With `notes`, also compares findings of
 * severity note. Returns 0, or -1 and a message. The caller calls diff_free() in either case.
 */
int diff_files(struct diff *d, struct image *old, struct image *new, bool notes, struct error *e);
void diff_free(struct diff *d);

/* Parts of diff_files(), defined in sites_findings_sizes.c. */
void compare_sites(struct diff *d);
void compare_findings(struct diff *d);
void compare_sizes(struct diff *d);

#endif
