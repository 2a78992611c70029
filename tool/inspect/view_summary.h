/* SPDX-License-Identifier: MIT */
/*
 * The figures of `etch inspect summary`: view_summary.c computes them; summary_text.c prints them as text, and
 * summary_data.c as TSV and JSON.
 */
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

/* Numbers of loads, or numbers of calls. */
struct tallies {
	size_t all, sites, live;
	size_t swap;           /* number of the live sites that are patched by replacing their page */
	struct tally kept[64]; /* for each reason: the number of sites that are not live because of it */
	size_t kept_count;
};

/* Number of bytes of code for which there are unwind rules. */
struct coverage {
	uint64_t text;      /* all bytes of code */
	uint64_t padding;   /* bytes of padding between functions; `text` includes them, the members below do not */
	uint64_t source[4]; /* for each enum etch_row_source: bytes with a rule other than UNDEF from this source */
	uint64_t covered;   /* sum of `source` */
	size_t source_rows[4];
	size_t undefined_rows;
};

#define SIZES 11

/* All figures of a file. */
struct summary {
	const struct view *view;
	const struct unwind_view *unwind; /* the rows of the file's unwind table */
	struct elf_hardening hardening;
	char build_id[2 * 64 + 1]; /* hexadecimal; "": none */
	/* The name of the section that identified the file as a Linux kernel file (kernel_sign()); null: it is not one. */
	const char *kernel;
	bool symbols, dwarf;
	size_t code_sections;
	struct coverage code,
		table; /* code: according to the rows made from the code; table: according to those of the unwind table */
	struct tallies loads, calls;
	size_t immediates, stores, escapes;
	size_t unfit;           /* number of loads whose immediate cannot hold the value in the file */
	struct tally states[8]; /* call sites by state: "direct" etc. */
	size_t state_count;
	size_t in_place, in_place_now; /* number of sites of pv_call_inline, and number of those that are nops now */
	/* Number of exception table entries of each type; the last element counts malformed ones. */
	size_t exceptions[ETCH_EX_TYPE_LAST + 2];
	struct listing objects;
	struct tally *found; /* number of findings of each ID, errors first; capacity: catalogue_count */
	size_t found_count;
	size_t severities[3]; /* by enum severity */
	struct {
		const char *section;
		uint64_t bytes;
	} sizes[SIZES]; /* sizes in memory of the tables that the file has */
	size_t size_count;
};

/* Returns the size of a section that is in `sizes`; 0 if it is not. */
uint64_t summary_size(const struct summary *s, const char *section);
bool summary_is_rewritten(const struct summary *s);

void summary_text(const struct summary *s);
void summary_tsv(const struct summary *s);
struct json_object *summary_json(const struct summary *s);

#endif
