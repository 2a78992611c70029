/* SPDX-License-Identifier: MIT */
/* The figures of etch inspect summary: counted in summary.c, printed in summary_text.c (for
 * people) and summary_data.c (TSV, JSON). */
#ifndef INSPECT_SUMMARY_H
#define INSPECT_SUMMARY_H

#include "elf/hardening.h"
#include "inspect/inspect.h"
#include "report/catalogue.h"

struct tally {
	const char *what;
	size_t count;
};

/* Loads, or calls. */
struct tallies {
	size_t all, sites, live;
	struct tally kept[64]; /* those that stay as they are, by reason */
	size_t kept_count;
};

/* What rows say of the code, in bytes. */
struct coverage {
	uint64_t text;
	uint64_t source[4];   /* with a row that is not UNDEF, by enum etch_row_source */
	uint64_t covered;     /* all of those */
	size_t source_rows[4];
	size_t undefined_rows;
};

#define SIZES 10

struct summary {
	const struct view *view;
	const struct unwind_view *unwind; /* the table */
	struct elf_hardening hardening;
	char build_id[2 * 64 + 1];        /* in hexadecimal; "": none */
	const char *kernel;               /* what shows that it is a file of the Linux kernel; null: it is none */
	bool symbols, dwarf;
	size_t code_sections;
	struct coverage code, table;      /* of the rows made from the code, and of the table's */
	struct tallies loads, calls;
	size_t immediates, stores, escapes;
	struct tally states[8];           /* of the calls that are sites: "direct" and so on */
	size_t state_count;
	size_t in_place, in_place_now;    /* calls compiled in place; those whose case is the one now */
	size_t exceptions[ETCH_EX_TYPE_LAST + 2]; /* entries by type; the last: malformed */
	struct listing objects;
	struct tally *found;              /* findings by ID, those of errors first; a catalogue's worth */
	size_t found_count;
	size_t severities[3];             /* by enum severity */
	struct {
		const char *section;
		uint64_t bytes;
	} sizes[SIZES];                   /* of tables, as loaded; without those that are not there */
	size_t size_count;
};

/* Of a section among sizes; 0. */
uint64_t summary_size(const struct summary *s, const char *section);
bool summary_is_rewritten(const struct summary *s);

void summary_text(const struct summary *s);
void summary_tsv(const struct summary *s);
struct json_object *summary_json(const struct summary *s);

#endif
