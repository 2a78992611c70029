/* SPDX-License-Identifier: MIT */
/*
 * Implements ETCH-C003 (functions without an entry in .eh_frame), ETCH-C004 (malformed entries) and ETCH-C008 (entries
 * that etch does not read). Whether the rules of .eh_frame agree with the code is checked in
 * analysis/unwind/row_choice.c.
 */
#define ETCH_CFI_DEPTH 64 /* allowed nesting of DW_CFA_remember_state; no compiler nests it so deeply */
#include "arch/x86/fast_decoder.h"
#include "check/function_runs.h"
#include "analysis/facts/cfi_file.h"
#include "elf/symbols.h"
#include "support/memory.h"
#include "support/sort.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- malformed entries ----------------------------------------------------------- */

#define MALFORMED "ETCH-C004"
#define UNREAD    "ETCH-C008"

struct reader {
	struct subject *s;
	const struct cfi_part *part;
	struct etch_cfi cfi;
	uint64_t *bad; /* offsets of the CIEs that are to get a finding */
	size_t bad_count, bad_capacity;
};

/*
 * For a CIE that etch cannot use: returns why it is malformed, or null if it is valid but of a kind that etch does not
 * read.
 */
static const char *cie_reason(const struct etch_cfi *c, uint64_t at)
{
	struct etch_cfi_in in;
	uint8_t version;
	uint64_t string;

	if (etch_cfi_entry(c, at, &in) != 1 || etch_cfi_u(&in, 4) != 0)
		return "there is no CIE";
	version = (uint8_t)etch_cfi_u(&in, 1);
	if (!in.bad && version != 1 && version != 3 && version != 4)
		return "its version is not 1, 3 or 4";
	string = in.at;
	while (etch_cfi_u(&in, 1))
		;
	if (in.bad)
		return "its augmentation string is not terminated";
	if (version == 4 || (c->bytes[string] && c->bytes[string] != 'z'))
		return NULL;
	etch_cfi_uleb(&in);
	etch_cfi_sleb(&in);
	etch_cfi_return_register(&in, version);
	if (in.bad)
		return "its fields extend past its end";
	if (c->bytes[string] == 'z') {
		uint64_t length = etch_cfi_uleb(&in);

		if (in.bad || length > in.end - in.at)
			return "its augmentation data extends past its end";
	}
	return NULL;
}

/* For a CIE that is valid but that etch does not read: returns the reason. */
static const char *cie_unread(const struct etch_cfi *c, uint64_t at)
{
	struct etch_cfi_in in;

	etch_cfi_entry(c, at, &in);
	return in.end - in.at > ETCH_CFI_CIE_MAX + 4 ? "it has more than 4,096 bytes"
	                                             : "its augmentation or return address column is unknown to etch";
}

/*
 * For an FDE with a usable CIE: returns why it is malformed, or null if it is valid but of a kind that etch does not
 * read.
 */
static const char *fde_reason(const struct etch_cie *cie, struct etch_cfi_in in)
{
	uint64_t start, size;

	if (cie->fde_encoding == ETCH_PE_OMIT || (cie->fde_encoding & ETCH_PE_INDIRECT))
		return NULL;
	start = etch_cfi_pointer(&in, cie->fde_encoding, 0);
	size = etch_cfi_pointer(&in, cie->fde_encoding & 0x0f, 0);
	if (in.bad)
		return "its address range is truncated or has an unknown encoding";
	if (start + size < start)
		return "its address range wraps around";
	return "its augmentation data extends past its end";
}

static void entry_report(struct reader *r, const char *id, uint64_t at, const char *what, const char *why)
{
	uint64_t base = elf_is_object(r->s->file) ? 0 : r->part->addr;

	finding_add(&r->s->found, id, r->part->section, base + at, "%s at offset %#" PRIx64 " of .eh_frame: %s", what, at,
	            why);
}

/* Records a CIE that etch cannot use. It is recorded again for each FDE that uses it. */
static void cie_note(struct reader *r, uint64_t at)
{
	mem_reserve(&r->bad, &r->bad_capacity, r->bad_count, sizeof(*r->bad));
	r->bad[r->bad_count++] = at;
}

/* Adds one finding for each recorded CIE. */
static void cies_report(struct reader *r)
{
	const char *why;
	size_t i;

	sort_words(r->bad, r->bad_count);
	r->bad_count = words_unique(r->bad, r->bad_count);
	for (i = 0; i < r->bad_count; i++) {
		why = cie_reason(&r->cfi, r->bad[i]);
		if (why)
			entry_report(r, MALFORMED, r->bad[i], "the CIE", why);
		else
			entry_report(r, UNREAD, r->bad[i], "the CIE", cie_unread(&r->cfi, r->bad[i]));
	}
}

struct rows_watch {
	const char *why;
	uint64_t at;
};

static void row_watch(void *ctx, const struct etch_cfi_row *row)
{
	struct rows_watch *w = ctx;

	if (!w->why && row->why && !strcmp(row->why, "malformed call frame instructions")) {
		w->why = row->why;
		w->at = row->start;
	}
}

static void program_check(struct reader *r, const struct etch_fde *fde)
{
	const struct code_section *c = space_at(&r->s->frames.space, fde->start);
	struct etch_fde cut = *fde;
	struct rows_watch w = {0};
	struct finding *x;

	if (fde->start >= fde->end || !c)
		return; /* the file does not have its code */
	/* The DWARF expressions of a PLT give a row for every 16 bytes; the size of the code limits their number. */
	if (cut.end > c->addr + c->size)
		cut.end = c->addr + c->size;
	etch_cfi_rows(&cut, 0, row_watch, &w);
	if (!w.why)
		return;
	c = space_at(&r->s->frames.space, w.at);
	x = finding_add(&r->s->found, MALFORMED, r->part->section,
	                (elf_is_object(r->s->file) ? 0 : r->part->addr) + fde->at,
	                "the FDE at offset %#" PRIx64 " of .eh_frame: its call frame instructions are malformed", fde->at);
	if (c)
		finding_fact_at(x, c->section, elf_is_object(r->s->file) ? w.at - c->addr : w.at, "from here on",
		                "the frame is unknown");
}

/* Checks an FDE at offset `at`; `in` are its contents after the CIE pointer. */
static void fde_check(struct reader *r, uint64_t at, struct etch_cfi_in in, struct etch_fde *fde)
{
	const char *why;

	if (etch_cfi_fde(&r->cfi, at, in, fde)) {
		program_check(r, fde);
		return;
	}
	why = fde_reason(&fde->cie, in);
	if (why)
		entry_report(r, MALFORMED, at, "the FDE", why);
	else
		entry_report(r, UNREAD, at, "the FDE", "its address is omitted, or that of a pointer");
}

/* Checks the next entry. Returns false at the end of the section. */
static bool entry_check(struct reader *r)
{
	struct etch_cfi *c = &r->cfi;
	struct etch_cfi_in in;
	struct etch_fde fde;
	uint64_t at = c->at, field;
	uint32_t delta;
	int kind = etch_cfi_entry(c, at, &in);

	if (kind < 0) {
		entry_report(r, MALFORMED, at, "the entry", "it extends past the end of the section");
		return false;
	}
	c->at = in.end;
	if (!kind)
		return true;
	field = in.at;
	delta = (uint32_t)etch_cfi_u(&in, 4);
	if (in.bad) {
		entry_report(r, MALFORMED, at, "the entry", "it is too short for a CIE pointer");
	} else if (!delta) {
		if (!etch_cfi_cie(c, at, &c->cie)) {
			c->cie.program = 0;
			cie_note(r, at);
		}
	} else if (!etch_cfi_cie_of(c, field, delta, &fde.cie)) {
		uint64_t cie = field - (uint64_t)(int64_t)(int32_t)delta;

		if (cie >= c->size || !strcmp(cie_reason(c, cie) ? cie_reason(c, cie) : "", "there is no CIE"))
			entry_report(r, MALFORMED, at, "the FDE", "its CIE pointer does not lead to a CIE");
		else
			cie_note(r, cie);
	} else {
		c->cie = fde.cie;
		fde_check(r, at, in, &fde);
	}
	return true;
}

static void entries_check(struct subject *s, const struct cfi_file *cfi)
{
	uint32_t i;

	for (i = 0; i < cfi->part_count; i++) {
		struct reader r = {.s = s, .part = &cfi->parts[i]};

		if (!cfi->parts[i].section)
			continue; /* without section headers, the size of the function is unknown */
		etch_cfi_open(&r.cfi, r.part->bytes, r.part->size, r.part->addr);
		while (r.cfi.at < r.cfi.size && entry_check(&r))
			;
		cies_report(&r);
		free(r.bad);
	}
}

/* ---- functions without an entry ---------------------------------------------------- */

/*
 * Returns 1 if a function contains a call, as far as it can be decoded, and 0 if it contains none. Returns -1 if it
 * does not begin with a valid instruction.
 */
static int has_calls(const struct code_section *c, uint64_t start, uint64_t end)
{
	struct step step;
	uint64_t at = start;

	while (at < end && step_decode(NULL, c->bytes + (at - c->addr), end - at, at, &step)) {
		if (step.flow == FLOW_CALL || step.flow == FLOW_CALL_IND)
			return 1;
		at += step.len;
	}
	return at == start ? -1 : 0;
}

static void missing_text(const struct run_item *x, char *out, size_t size)
{
	snprintf(out, size,
	         x->number ? "%.300s has no FDE, and makes calls: an exception thrown through it ends the program"
	                   : "%.300s has no FDE, and makes no calls: backtraces from signal handlers and profilers "
	                     "stop in it",
	         x->function->name);
}

/* True if a function has code but no FDE. Sets *calls to whether the function contains calls. */
static bool is_missing(const struct subject *s, const struct cfi_file *cfi, const struct elf_symbol *y, bool *calls)
{
	const struct code_section *c = y->section ? space_of(&s->frames.space, y->section) : NULL;
	uint64_t start = y->value + (c && elf_is_object(s->file) ? c->addr : 0), end;
	int found;

	if (!c || !y->size || function_is_startup(y) || start < c->addr || start - c->addr >= c->size ||
	    cfi_file_at(cfi, start) >= 0)
		return false;
	end = y->size < c->addr + c->size - start ? start + y->size : c->addr + c->size;
	found = has_calls(c, start, end);
	*calls = found > 0;
	return found >= 0;
}

static bool is_function(const struct elf_file *f, const struct elf_symbol *y)
{
	(void)f;
	return y->section && (y->type == STT_FUNC || y->type == STT_GNU_IFUNC);
}

static void functions_check(struct subject *s, const struct cfi_file *cfi)
{
	size_t k, places = 0, missing = 0;
	struct symbol_index functions;
	struct run_item *items;
	bool calls;

	symbol_index_build(s->file, is_function, &functions);
	items = mem_alloc(functions.count, sizeof(*items));
	for (k = 0; k < functions.count; k++) {
		const struct elf_symbol *const *y = functions.list + k;

		if (k && y[0]->section == y[-1]->section && y[0]->value == y[-1]->value)
			continue; /* the function has been handled under another name */
		if (is_missing(s, cfi, *y, &calls))
			items[missing++] = (struct run_item){*y, places, calls};
		places++;
	}
	runs_report(s, "ETCH-C003", items, missing, missing_text);
	symbol_index_free(&functions);
	free(items);
}

void check_cfi(struct subject *s)
{
	struct cfi_file cfi;

	cfi_file_open(s->file, &s->frames.space, &cfi);
	entries_check(s, &cfi);
	/* A file without any FDE was built without .eh_frame on purpose, so it gets no finding. */
	if (cfi.count && !s->options->no_cfi)
		functions_check(s, &cfi);
	cfi_file_close(&cfi);
}
