/* SPDX-License-Identifier: MIT */
/* The figures of etch inspect summary: view_summary.c computes them; summary_text.c prints them as text, and
 * summary_data.c as TSV and JSON. */
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

/* Counts of loads or of calls. */
struct tallies {
	size_t all, sites, live;
	size_t swap;           /* number of the live ones that are patched by a swap of their page */
	struct tally kept[64]; /* number of those that are not live, by reason */
	size_t kept_count;
};

/* The amount of code, in bytes, that rows describe. */
struct coverage {
	uint64_t text;      /* all bytes of code */
	uint64_t padding;   /* bytes of padding between functions, which are part of `text` and of nothing below */
	uint64_t source[4]; /* bytes with a rule other than UNDEF, by enum etch_row_source */
	uint64_t covered;   /* sum of `source` */
	size_t source_rows[4];
	size_t undefined_rows;
};

#define SIZES 11

/* All figures of a file. */
struct summary {
	const struct view *view;
	const struct unwind_view *unwind; /* the rows of the table */
	struct elf_hardening hardening;
	char build_id[2 * 64 + 1]; /* hexadecimal; "": none */
	/* The sign by which the file was recognized as one of the Linux kernel; null: it is not one. */
	const char *kernel;
	bool symbols, dwarf;
	size_t code_sections;
	struct coverage code, table; /* according to the rows made from the code, and to those of the table */
	struct tallies loads, calls;
	size_t immediates, stores, escapes;
	size_t unfit;           /* number of loads whose form cannot hold the value in the file */
	struct tally states[8]; /* call sites by state: "direct" etc. */
	size_t state_count;
	size_t in_place, in_place_now;            /* number of sites of pv_call_inline, and of those that are nops */
	size_t exceptions[ETCH_EX_TYPE_LAST + 2]; /* entries by type; the last is for malformed ones */
	struct listing objects;
	struct tally *found; /* number of findings by ID, errors first; capacity: catalogue_count */
	size_t found_count;
	size_t severities[3]; /* by enum severity */
	struct {
		const char *section;
		uint64_t bytes;
	} sizes[SIZES]; /* sizes of the tables that the file has, as loaded */
	size_t size_count;
};

/* Returns the size of a section in `sizes`, or 0. */
uint64_t summary_size(const struct summary *s, const char *section);
bool summary_is_rewritten(const struct summary *s);

void summary_text(const struct summary *s);
void summary_tsv(const struct summary *s);
struct json_object *summary_json(const struct summary *s);

#endif
