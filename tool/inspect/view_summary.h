/* SPDX-License-Identifier: MIT */
/* The figures of etch inspect summary: computed in view_summary.c, printed by summary_text.c (text) and
 * summary_data.c (TSV, JSON). */
#ifndef INSPECT_VIEW_SUMMARY_H
#define INSPECT_VIEW_SUMMARY_H

#include "elf/hardening.h"
#include "inspect/inspect.h"
#include "report/catalogue.h"

/* A label and its count. */
struct tally {
	const char *what;
	size_t count;
};

/* Counts of loads, or of calls. */
struct tallies {
	size_t all, sites, live;
	size_t swap;           /* of the live ones: with their page */
	struct tally kept[64]; /* those that are not live, by reason */
	size_t kept_count;
};

/* How much of the code rows describe, in bytes. */
struct coverage {
	uint64_t text;      /* all bytes of code */
	uint64_t padding;   /* of those, between functions; counted nowhere below */
	uint64_t source[4]; /* bytes with a rule other than UNDEF, by enum etch_row_source */
	uint64_t covered;   /* sum of `source` */
	size_t source_rows[4];
	size_t undefined_rows;
};

#define SIZES 11

/* All figures of a file. */
struct summary {
	const struct view *view;
	const struct unwind_view *unwind; /* of the table */
	struct elf_hardening hardening;
	char build_id[2 * 64 + 1]; /* hexadecimal; "": none */
	const char *kernel;        /* how the file was recognized as one of the Linux kernel; null: it is none */
	bool symbols, dwarf;
	size_t code_sections;
	struct coverage code, table; /* by the rows made from the code, and by the table */
	struct tallies loads, calls;
	size_t immediates, stores, escapes;
	size_t unfit;           /* loads with a form that does not hold the value in the file */
	struct tally states[8]; /* call sites by state: "direct" etc. */
	size_t state_count;
	size_t in_place, in_place_now;            /* sites of pv_call_inline; those that are nops */
	size_t exceptions[ETCH_EX_TYPE_LAST + 2]; /* entries by type; the last is for malformed ones */
	struct listing objects;
	struct tally *found; /* findings by ID, errors first; capacity: catalogue_count */
	size_t found_count;
	size_t severities[3]; /* by enum severity */
	struct {
		const char *section;
		uint64_t bytes;
	} sizes[SIZES]; /* of the tables that the file has, as loaded */
	size_t size_count;
};

/* Size of a section in `sizes`, or 0. */
uint64_t summary_size(const struct summary *s, const char *section);
bool summary_is_rewritten(const struct summary *s);

void summary_text(const struct summary *s);
void summary_tsv(const struct summary *s);
struct json_object *summary_json(const struct summary *s);

#endif
