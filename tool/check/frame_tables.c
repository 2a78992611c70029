/* SPDX-License-Identifier: MIT */
/*
 * Implements ETCH-C005 to ETCH-C007: finds where .eh_frame_hdr contradicts .eh_frame, and where .sframe contradicts the
 * code.
 */
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
	uint32_t section;     /* index of the section .eh_frame_hdr, or 0 */
};

/* Adds a finding about entry i of .eh_frame_hdr. */
static void entry_report(const struct index_check *l, uint64_t i, const char *what, uint64_t address)
{
	uint64_t at = l->hdr.addr + (uint64_t)(l->hdr.table - l->bytes) + 8 * i;

	finding_add(&l->s->found, "ETCH-C005", l->section, at, "entry %" PRIu64 " of .eh_frame_hdr, for %#" PRIx64 ", %s",
	            i, address, what);
}

/* True if at the address `entry` there is an FDE whose code begins at `start`. */
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

/*
 * Adds a finding about the first entry that is out of order, and about the first that does not lead to an FDE of its
 * function.
 */
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

/*
 * Finds FDEs without an entry in .eh_frame_hdr, which unwinders therefore do not find. Adds one finding, at the first
 * of them.
 */
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
		return; /* without a table, unwinders search .eh_frame from its start */
	cfi_file_open_current(s->file, &s->frames.space, &cfi);
	l.cfi = &cfi;
	if (cfi.part_count) {
		entries_check(&l);
		fdes_check(&l);
	}
	cfi_file_close(&cfi);
}

/*
 * Checks the table to which PT_GNU_EH_FRAME points. If there is no such segment, checks the section, for programs that
 * find it by its name.
 */
static void indexes_check(struct subject *s)
{
	const struct elf_file *f = s->file;
	bool found = false;
	uint32_t i;

	if (elf_is_debug(f)) /* a debug file has the program headers of the file that it describes */
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

/*
 * True if a rule of SFrame leads to another frame than a proven row. The places of rbp are compared only if both are
 * stack slots: at the instructions that save and restore rbp, its value is in the slot and in the register, so both
 * answers are right.
 */
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

/*
 * Compares the rows of .sframe with those made from the code, at addresses where both have a rule and that of the code
 * is proven.
 */
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

/* True if the section has an SFrame version that etch does not read, such as that of GNU binutils 2.40. */
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

	/* In an object file, an empty section describes no code, or a tool has emptied it. */
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

/*
 * The analysis has used the FDEs that the linker wrote. Where etch has replaced them, unwinders read other ones.
 * Removes the findings about the linker's FDEs at places where the rules of the two differ.
 */
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
