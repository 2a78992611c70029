/* SPDX-License-Identifier: MIT */
/* Implements ETCH-C005 to ETCH-C007: compares .eh_frame_hdr with .eh_frame, and .sframe with the code. */
#include "analysis/facts/cfi_file.h"
#include "analysis/unwind/disagreement.h"
#include "arch/x86/rule_text.h"
#include "check/check.h"
#include "support/memory.h"
#include "support/sort.h"
#include "table/object_sframe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- .eh_frame_hdr ------------------------------------------------------------- */

struct index_check {
	struct subject *s;
	const struct cfi_file *cfi;
	struct etch_cfi_hdr hdr;
	const uint8_t *bytes; /* the bytes of .eh_frame_hdr */
	uint32_t section;     /* its index, or 0 */
};

/* Adds a finding about entry i. */
static void entry_report(const struct index_check *l, uint64_t i, const char *what, uint64_t address)
{
	uint64_t at = l->hdr.addr + (uint64_t)(l->hdr.table - l->bytes) + 8 * i;

	finding_add(&l->s->found, "ETCH-C005", l->section, at, "entry %" PRIu64 " of .eh_frame_hdr, for %#" PRIx64 ", %s",
	            i, address, what);
}

/* True if an FDE whose code begins at `start` is at the address `entry`. */
static bool leads_to_fde(const struct index_check *l, uint64_t start, uint64_t entry)
{
	uint32_t i;

	for (i = 0; i < l->cfi->part_count; i++) {
		const struct cfi_part *p = &l->cfi->parts[i];
		struct etch_cfi cfi;
		struct etch_fde fde;

		if (entry - p->addr >= p->size)
			continue;
		etch_cfi_open(&cfi, p->bytes, p->size, p->addr);
		return etch_cfi_at(&cfi, entry - p->addr, &fde) && fde.start == start;
	}
	return false;
}

/* Reports entries that are out of order and entries that do not lead to an FDE of their function: the first of each
 * kind. */
static void entries_check(const struct index_check *l)
{
	uint64_t i, last = 0;
	bool ordered = true, led = true;

	for (i = 0; i < l->hdr.count && (ordered || led); i++) {
		uint64_t start = etch_cfi_hdr_start(&l->hdr, i);

		if (ordered && i && start < last) {
			ordered = false;
			entry_report(l, i, "is out of order: unwinders use binary search", start);
		}
		if (led && !leads_to_fde(l, start, etch_cfi_hdr_fde(&l->hdr, i))) {
			led = false;
			entry_report(l, i, "leads to no FDE that begins there", start);
		}
		last = start;
	}
}

/* Reports FDEs without an entry, which unwinders do not find: one finding, at the first of them. */
static void fdes_check(const struct index_check *l)
{
	uint64_t *starts = mem_alloc(l->hdr.count, sizeof(*starts)), first = 0;
	size_t i, missing = 0;

	for (i = 0; i < l->hdr.count; i++)
		starts[i] = etch_cfi_hdr_start(&l->hdr, i);
	qsort(starts, l->hdr.count, sizeof(*starts), word_order);
	for (i = 0; i < l->cfi->count; i++)
		if (!word_has(starts, l->hdr.count, l->cfi->fdes[i].start) && !missing++)
			first = l->cfi->fdes[i].start;
	if (missing)
		finding_add(&l->s->found, "ETCH-C005", elf_section_at(l->s->file, first), first,
		            "%zu FDE%s not in the table of .eh_frame_hdr, the first of them this one", missing,
		            missing == 1 ? " is" : "s are");
	free(starts);
}

static void index_check(struct subject *s, uint64_t addr, uint64_t size)
{
	struct index_check l = {.s = s, .section = elf_section_at(s->file, addr), .bytes = elf_at(s->file, addr, size)};
	struct cfi_file cfi;

	if (!l.bytes || !etch_cfi_hdr(l.bytes, size, addr, &l.hdr)) {
		finding_add(&s->found, "ETCH-C005", l.section, addr, ".eh_frame_hdr is malformed");
		return;
	}
	if (!l.hdr.table)
		return; /* unwinders read .eh_frame from its start */
	cfi_file_open_current(s->file, &s->frames.space, &cfi);
	l.cfi = &cfi;
	if (cfi.part_count) {
		entries_check(&l);
		fdes_check(&l);
	}
	cfi_file_close(&cfi);
}

/* Checks the table that PT_GNU_EH_FRAME covers or, if there is none, the section, for readers that go by section
 * names. */
static void indexes_check(struct subject *s)
{
	const struct elf_file *f = s->file;
	bool found = false;
	uint32_t i;

	if (elf_is_debug(f)) /* the program headers of a debug file are those of the file that it describes */
		return;
	for (i = 0; i < f->phdr_count; i++) {
		if (f->phdrs[i].p_type != PT_GNU_EH_FRAME)
			continue;
		found = true;
		index_check(s, f->phdrs[i].p_vaddr, f->phdrs[i].p_filesz);
	}
	i = found ? 0 : elf_section_find(f, ".eh_frame_hdr", 1);
	if (i && f->sections[i].data)
		index_check(s, f->sections[i].sh.sh_addr, f->sections[i].sh.sh_size);
}

/* ---- .sframe ------------------------------------------------------------------- */

/* True if SFrame's rule leads to another frame than a proven row. The places of rbp are compared only where both name
 * a stack slot: around the instructions that save and restore rbp, its value is both in the slot and in the register,
 * and either answer is right. */
static bool rules_differ(const struct etch_rule *sframe, const struct etch_rule *row)
{
	if (row->kind != ETCH_RULE_CALL)
		return false;
	if (sframe->kind != ETCH_RULE_CALL || sframe->cfa != row->cfa || sframe->cfa_off != row->cfa_off ||
	    sframe->cfa_add != row->cfa_add || sframe->ra != row->ra)
		return true;
	return sframe->bp == ETCH_BP_CFA && row->bp == ETCH_BP_CFA && sframe->bp_off != row->bp_off;
}

static void sframe_report(struct subject *s, const struct row *sframe, const struct row *row, uint64_t at)
{
	char cfa[64], bp[64], ra[64];
	struct finding *x = finding_add(&s->found, "ETCH-C007", elf_section_at(s->file, at), at,
	                                ".sframe describes another frame than the code has here");

	rule_cfa_text(&sframe->rule, cfa, sizeof(cfa));
	rule_bp_text(&sframe->rule, bp, sizeof(bp));
	rule_ra_text(&sframe->rule, ra, sizeof(ra));
	finding_fact(x, ".sframe", "CFA %s, rbp %s, return address %s", cfa, bp, ra);
	rule_cfa_text(&row->rule, cfa, sizeof(cfa));
	rule_bp_text(&row->rule, bp, sizeof(bp));
	rule_ra_text(&row->rule, ra, sizeof(ra));
	finding_fact(x, "the code", "CFA %s, rbp %s, return address %s", cfa, bp, ra);
}

/* Compares the rows of .sframe with those of the code at addresses where both have a rule and the row of the code is
 * proven from the code. */
static void sframe_rows(struct subject *s, const struct row_list *sframe)
{
	const struct row_list *rows = &s->frames.rows;
	const struct row *reported = NULL;
	size_t i = 0, k;

	for (k = 0; k + 1 < rows->count; k++) {
		const struct row *row = &rows->rows[k];

		while (i + 1 < sframe->count && sframe->rows[i + 1].addr <= row->addr)
			i++;
		for (; i + 1 < sframe->count && sframe->rows[i].addr < row[1].addr; i++) {
			const struct row *x = &sframe->rows[i];
			uint64_t at = x->addr > row->addr ? x->addr : row->addr;

			if (x[1].addr > row->addr && x->rule.kind != ETCH_RULE_UNDEF && row->source != ETCH_SOURCE_CFI &&
			    rules_differ(&x->rule, &row->rule) && reported != x) {
				reported = x;
				sframe_report(s, x, row, at);
			}
			if (x[1].addr > row[1].addr)
				break;
		}
	}
}

/* True if the section is of an SFrame version that etch does not read, such as the one that GNU binutils 2.40
 * writes. */
static bool is_other_version(const struct elf_section *x)
{
	const uint16_t magic = SFRAME_MAGIC;

	return x->sh.sh_size > 2 && !memcmp(x->data, &magic, 2) && x->data[2] != 2 && x->data[2] != 3;
}

static int sframe_rows_read(struct subject *s, uint32_t i, struct row_list *out, struct error *why)
{
	const struct elf_section *x = &s->file->sections[i];
	bool object = elf_is_object(s->file);
	uint8_t *resolved = object ? object_sframe_resolve(s->file, &s->frames.space, i, why) : NULL;
	int err = object && !resolved;

	if (!err)
		err = sframe_decode(resolved ? resolved : x->data, x->sh.sh_size, resolved ? 0 : x->sh.sh_addr,
		                    &s->frames.space, out, why);
	free(resolved);
	return err;
}

static void sframe_check(struct subject *s, uint32_t i)
{
	const struct elf_section *x = &s->file->sections[i];
	struct row_list rows = {0};
	struct error why;

	/* A section without data in an object file describes no code, or it was emptied. */
	if ((x->data && is_other_version(x)) || (!x->data && elf_is_object(s->file)))
		return;
	if (!x->data)
		finding_add(&s->found, "ETCH-C006", i, x->sh.sh_addr, ".sframe is empty");
	else if (sframe_rows_read(s, i, &rows, &why))
		finding_add(&s->found, "ETCH-C006", i, x->sh.sh_addr, "%s", why.text);
	else
		sframe_rows(s, &rows);
	row_list_free(&rows);
}

/* ---- FDEs that etch has replaced ---------------------------------------------------- */

struct rule_check {
	uint64_t addr;
	struct etch_rule rule;
	bool found;
};

static void rule_take(void *ctx, const struct etch_cfi_row *row)
{
	struct rule_check *l = ctx;

	if (l->addr - row->start >= row->end - row->start)
		return;
	l->rule = row->rule;
	l->found = true;
}

static struct rule_check rule_at(const struct cfi_file *cfi, uint64_t addr)
{
	struct rule_check l = {.addr = addr};
	long n = cfi_file_at(cfi, addr);

	if (n >= 0)
		cfi_file_rows(cfi, (size_t)n, 0, rule_take, &l);
	return l;
}

/* Drops findings about the linker's FDEs, which the analysis uses, at places where the FDEs that unwinders read have
 * another rule: there etch has replaced the linker's FDEs. */
static void replaced_drop(struct subject *s)
{
	struct findings *l = &s->frames.findings;
	struct cfi_file linked, current;
	size_t i, n = 0;

	if (!l->count || !elf_section_find(s->file, EH_FRAME_LINKED, 1))
		return;
	cfi_file_open(s->file, &s->frames.space, &linked);
	cfi_file_open_current(s->file, &s->frames.space, &current);
	for (i = 0; i < l->count; i++) {
		const struct rule_check was = rule_at(&linked, l->list[i].addr), is = rule_at(&current, l->list[i].addr);

		if (!strcmp(l->list[i].id, CONTRADICTED) && was.found && is.found &&
		    memcmp(&was.rule, &is.rule, sizeof(is.rule)) != 0)
			finding_free(&l->list[i]);
		else
			l->list[n++] = l->list[i];
	}
	l->count = (uint32_t)n;
	cfi_file_close(&linked);
	cfi_file_close(&current);
}

void check_frame_tables(struct subject *s)
{
	uint32_t i = 0;

	if (!elf_is_object(s->file)) {
		indexes_check(s);
		replaced_drop(s);
	}
	while ((i = elf_section_find(s->file, SFRAME_SECTION, i + 1)))
		sframe_check(s, i);
}
