/* SPDX-License-Identifier: MIT */
/*
 * Decides which FDEs of the linker are replaced: those that the code proves wrong, or all. An FDE is replaced only if
 * the code proves all its rows and the place of each callee-saved register, and if it has no LSDA and no personality.
 */
#include "table/eh_frames.h"

#include "analysis/unwind/disagreement.h"
#include "shared/search.h"
#include "support/vector.h"

#include <stdlib.h>
#include <string.h>

/* Index of the row in force at an address; 0 where the address is before the first. */
static size_t row_at(const struct row_list *rows, uint64_t addr)
{
	size_t lo = SEARCH(rows->count, i, rows->rows[i].addr <= addr);

	return lo - (lo > 0);
}

/* Index of the first row that begins at or behind an address. */
static size_t save_at(const struct save_list *saves, uint64_t addr)
{
	return SEARCH(saves->count, i, saves->rows[i].addr < addr);
}

static bool rows_are_proven(const struct row_list *rows, const struct cfi_fde *fde)
{
	size_t i = row_at(rows, fde->start);

	if (i == rows->count || rows->rows[i].addr > fde->start)
		return false;
	for (; i < rows->count && rows->rows[i].addr < fde->end; i++) {
		const struct row *r = &rows->rows[i];

		if (r->rule.kind != ETCH_RULE_CALL || r->inferred ||
		    (r->source != ETCH_SOURCE_CODE && r->source != ETCH_SOURCE_BOTH))
			return false;
	}
	return true;
}

/* Does a code range begin with the FDE, and is the place of each callee-saved register known throughout? */
static bool saves_are_proven(const struct save_list *saves, const struct cfi_fde *fde)
{
	size_t i = save_at(saves, fde->start), k;

	if (i == saves->count || saves->rows[i].addr != fde->start || !saves->rows[i].begins)
		return false;
	for (; i < saves->count && saves->rows[i].addr < fde->end; i++)
		for (k = 0; k < 5; k++)
			if (saves->rows[i].saves.how[k] == ETCH_SAVE_OTHER)
				return false;
	return true;
}

/* Does the FDE serve only unwinding, and cover as much code as its entry says? */
static bool is_plain(const struct cfi_file *cfi, const struct cfi_fde *x)
{
	const struct cfi_part *p = &cfi->parts[x->part];
	struct etch_cfi c;
	struct etch_fde fde;

	etch_cfi_open(&c, p->bytes, p->size, p->addr);
	return !x->lsda && !x->signal && etch_cfi_at(&c, x->at, &fde) && !fde.cie.personality && fde.start == x->start &&
	       fde.end == x->end;
}

/* Marks the FDEs in which code and .eh_frame disagree. */
static void wrong_mark(const struct cfi_file *cfi, const struct findings *found, uint8_t *fde)
{
	size_t i;

	for (i = 0; i < found->count; i++) {
		long n = strcmp(found->list[i].id, CONTRADICTED) ? -1 : cfi_file_at(cfi, found->list[i].addr);

		if (n >= 0)
			fde[n] = EH_FDE_WRONG;
	}
}

int eh_replace_find(const struct cfi_file *cfi, const struct eh_rows *rows, struct eh_replaced *out, struct error *e)
{
	size_t i;

	memset(out, 0, sizeof(*out));
	if (rows->replace == EH_REPLACE_NONE || !cfi->count)
		return 0;
	out->fde = calloc(cfi->count, sizeof(*out->fde));
	if (!out->fde)
		return error_memory(e);
	wrong_mark(cfi, rows->found, out->fde);
	for (i = 0; i < cfi->count; i++) {
		const struct cfi_fde *x = &cfi->fdes[i];
		bool wrong = out->fde[i] & EH_FDE_WRONG;

		if (!wrong && rows->replace != EH_REPLACE_ALL)
			continue;
		if (is_plain(cfi, x) && rows_are_proven(rows->rows, x) && saves_are_proven(rows->saves, x)) {
			out->fde[i] |= EH_FDE_REPLACED;
			out->count++;
		}
		if (!wrong)
			continue;
		if (!room_make(&out->wrong, &out->room, out->wrong_count, sizeof(*out->wrong)))
			return error_memory(e);
		out->wrong[out->wrong_count++] = (struct eh_wrong){x->start, x->end, out->fde[i] & EH_FDE_REPLACED};
	}
	return 0;
}

bool eh_replaces(const struct eh_replaced *x, const struct cfi_file *cfi, uint32_t part, uint64_t start, uint64_t at)
{
	long n = x->count ? cfi_file_at(cfi, start) : -1;

	return n >= 0 && (x->fde[n] & EH_FDE_REPLACED) && cfi->fdes[n].part == part && cfi->fdes[n].at == at;
}

void eh_replaced_free(struct eh_replaced *x)
{
	free(x->fde);
	free(x->wrong);
	memset(x, 0, sizeof(*x));
}
