/* SPDX-License-Identifier: MIT */
/* ETCH-C005 to ETCH-C007: .eh_frame_hdr against .eh_frame, .sframe against the code. */
#include "analysis/facts/cfi_file.h"
#include "analysis/unwind/disagreement.h"
#include "arch/x86/rule_text.h"
#include "check/check.h"
#include "table/object_sframe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- .eh_frame_hdr ------------------------------------------------------------- */

struct index_check {
	struct subject *s;
	const struct cfi_file *cfi;
	struct etch_cfi_hdr hdr;
	const uint8_t *bytes; /* of .eh_frame_hdr */
	uint32_t section;     /* its index, or 0 */
};

/* Adds a finding about entry i. */
static int entry_report(const struct index_check *l, uint64_t i, const char *what, uint64_t address, struct error *e)
{
	uint64_t at = l->hdr.addr + (uint64_t)(l->hdr.table - l->bytes) + 8 * i;

	return finding_add(&l->s->found, "ETCH-C005", l->section, at,
	                   "entry %" PRIu64 " of .eh_frame_hdr, for %#" PRIx64 ", %s", i, address, what)
	           ? 0
	           : error_memory(e);
}

/* Does an FDE of .eh_frame begin at this address, with its entry there? */
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

/* Entries out of order, and entries that lead to no FDE of their function: the first of each kind. */
static int entries_check(const struct index_check *l, struct error *e)
{
	uint64_t i, last = 0;
	bool ordered = true, led = true;

	for (i = 0; i < l->hdr.count && (ordered || led); i++) {
		uint64_t start = etch_cfi_hdr_start(&l->hdr, i);

		if (ordered && i && start < last) {
			ordered = false;
			if (entry_report(l, i, "is out of order: unwinders use binary search", start, e))
				return -1;
		}
		if (led && !leads_to_fde(l, start, etch_cfi_hdr_fde(&l->hdr, i))) {
			led = false;
			if (entry_report(l, i, "leads to no FDE that begins there", start, e))
				return -1;
		}
		last = start;
	}
	return 0;
}

static int address_order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* FDEs without an entry: unwinders do not find them. One finding, at the first. */
static int fdes_check(const struct index_check *l, struct error *e)
{
	uint64_t *starts = malloc((l->hdr.count + 1) * sizeof(*starts)), first = 0;
	size_t i, missing = 0;
	int err = 0;

	if (!starts)
		return error_memory(e);
	for (i = 0; i < l->hdr.count; i++)
		starts[i] = etch_cfi_hdr_start(&l->hdr, i);
	qsort(starts, l->hdr.count, sizeof(*starts), address_order);
	for (i = 0; i < l->cfi->count; i++)
		if (!bsearch(&l->cfi->fdes[i].start, starts, l->hdr.count, sizeof(*starts), address_order) && !missing++)
			first = l->cfi->fdes[i].start;
	if (missing && !finding_add(&l->s->found, "ETCH-C005", elf_section_at(l->s->file, first), first,
	                            "%zu FDE%s not in the table of .eh_frame_hdr, the first of them this one", missing,
	                            missing == 1 ? " is" : "s are"))
		err = error_memory(e);
	free(starts);
	return err;
}

static int index_check(struct subject *s, uint64_t addr, uint64_t size, struct error *e)
{
	struct index_check l = {.s = s, .section = elf_section_at(s->file, addr), .bytes = elf_at(s->file, addr, size)};
	struct cfi_file cfi = {0};
	int err;

	if (!l.bytes || !etch_cfi_hdr(l.bytes, size, addr, &l.hdr))
		return finding_add(&s->found, "ETCH-C005", l.section, addr, ".eh_frame_hdr is malformed") ? 0 : error_memory(e);
	if (!l.hdr.table)
		return 0; /* unwinders read .eh_frame from its start */
	err = cfi_file_open_current(s->file, &s->frames.space, &cfi, e);
	l.cfi = &cfi;
	if (!err && cfi.part_count)
		err = entries_check(&l, e) || fdes_check(&l, e) ? -1 : 0;
	cfi_file_close(&cfi);
	return err;
}

/* The table that PT_GNU_EH_FRAME covers, or else, for readers that go by names, the section. */
static int indexes_check(struct subject *s, struct error *e)
{
	const struct elf_file *f = s->file;
	bool found = false;
	uint32_t i;

	if (elf_is_debug(f)) /* its program headers are those of the file that it describes */
		return 0;
	for (i = 0; i < f->phdr_count; i++) {
		if (f->phdrs[i].p_type != PT_GNU_EH_FRAME)
			continue;
		found = true;
		if (index_check(s, f->phdrs[i].p_vaddr, f->phdrs[i].p_filesz, e))
			return -1;
	}
	i = found ? 0 : elf_section_find(f, ".eh_frame_hdr", 1);
	return i && f->sections[i].data ? index_check(s, f->sections[i].sh.sh_addr, f->sections[i].sh.sh_size, e) : 0;
}

/* ---- .sframe ------------------------------------------------------------------- */

/* True if SFrame's rule leads to another frame than a proven row. The places of rbp are compared only where both name a
 * slot: around the instructions that save and restore rbp it is in the slot and in the register, and either is right.
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

static int sframe_report(struct subject *s, const struct row *sframe, const struct row *row, uint64_t at,
                         struct error *e)
{
	char cfa[64], bp[64], ra[64];
	struct finding *x = finding_add(&s->found, "ETCH-C007", elf_section_at(s->file, at), at,
	                                ".sframe describes another frame than the code has here");

	rule_cfa_text(&sframe->rule, cfa, sizeof(cfa));
	rule_bp_text(&sframe->rule, bp, sizeof(bp));
	rule_ra_text(&sframe->rule, ra, sizeof(ra));
	if (!x || !finding_fact(x, ".sframe", "CFA %s, rbp %s, return address %s", cfa, bp, ra))
		return error_memory(e);
	rule_cfa_text(&row->rule, cfa, sizeof(cfa));
	rule_bp_text(&row->rule, bp, sizeof(bp));
	rule_ra_text(&row->rule, ra, sizeof(ra));
	return finding_fact(x, "the code", "CFA %s, rbp %s, return address %s", cfa, bp, ra) ? 0 : error_memory(e);
}

/* Compares the rows of .sframe with those of the code, where both say something and the code proves its own. */
static int sframe_rows(struct subject *s, const struct row_list *sframe, struct error *e)
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
				if (sframe_report(s, x, row, at, e))
					return -1;
			}
			if (x[1].addr > row[1].addr)
				break;
		}
	}
	return 0;
}

/* True if it is of a version that etch does not read, as GNU binutils 2.40 writes. */
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

static int sframe_check(struct subject *s, uint32_t i, struct error *e)
{
	const struct elf_section *x = &s->file->sections[i];
	struct row_list rows = {0};
	struct error why;
	int err;

	why.text[0] = 0;
	if ((x->data && is_other_version(x)) || (!x->data && elf_is_object(s->file))) /* of no code, or emptied */
		return 0;
	if (!x->data || sframe_rows_read(s, i, &rows, &why)) {
		err = error_is_memory(&why) ? error_memory(e)
		      : finding_add(&s->found, "ETCH-C006", i, x->sh.sh_addr, "%s", x->data ? why.text : ".sframe is empty")
		          ? 0
		          : error_memory(e);
	} else {
		err = sframe_rows(s, &rows, e);
	}
	row_list_free(&rows);
	return err;
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

/* Drops findings about the linker's FDEs, by which the analysis goes, where the FDEs that unwinders read have another
 * rule: etch has replaced them. */
static int replaced_drop(struct subject *s, struct error *e)
{
	struct findings *l = &s->frames.findings;
	struct cfi_file linked = {0}, current = {0};
	size_t i, n = 0;
	int err;

	if (!l->count || !elf_section_find(s->file, EH_FRAME_LINKED, 1))
		return 0;
	err = cfi_file_open(s->file, &s->frames.space, &linked, e) ||
	      cfi_file_open_current(s->file, &s->frames.space, &current, e);
	for (i = 0; !err && i < l->count; i++) {
		const struct rule_check was = rule_at(&linked, l->list[i].addr), is = rule_at(&current, l->list[i].addr);

		if (!strcmp(l->list[i].id, CONTRADICTED) && was.found && is.found &&
		    memcmp(&was.rule, &is.rule, sizeof(is.rule)) != 0)
			finding_free(&l->list[i]);
		else
			l->list[n++] = l->list[i];
	}
	l->count = err ? l->count : n;
	cfi_file_close(&linked);
	cfi_file_close(&current);
	return err ? -1 : 0;
}

int check_frame_tables(struct subject *s, struct error *e)
{
	uint32_t i = 0;

	if (!elf_is_object(s->file) && (indexes_check(s, e) || replaced_drop(s, e)))
		return -1;
	while ((i = elf_section_find(s->file, SFRAME_SECTION, i + 1)))
		if (sframe_check(s, i, e))
			return -1;
	return 0;
}
