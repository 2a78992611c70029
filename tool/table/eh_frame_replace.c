/* SPDX-License-Identifier: MIT */
/*
 * Decides which of the linker's FDEs are replaced: those that the code proves wrong, or all. Even then, an FDE is
 * replaced only if the code proves all its rows and the place of each callee-saved register, and if it has no LSDA and
 * no personality.
 */
#include "table/eh_frames.h"

#include "analysis/unwind/disagreement.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/* The position of an address in both lists of *of. It only advances. */
struct cursor {
	const struct eh_rows *of;
	size_t row;  /* index of the row that covers the address; 0 if the address is before the first row */
	size_t save; /* index of the first save row that begins at or after the address */
};

static void cursor_advance(struct cursor *c, uint64_t addr)
{
	const struct row_list *rows = c->of->rows;
	const struct save_list *saves = c->of->saves;

	while (c->row + 1 < rows->count && rows->rows[c->row + 1].addr <= addr)
		c->row++;
	while (c->save < saves->count && saves->rows[c->save].addr < addr)
		c->save++;
}

static bool rows_are_proven(const struct cursor *c, const struct cfi_fde *fde)
{
	const struct row_list *rows = c->of->rows;
	size_t i = c->row;

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

/* Does a code range begin where the FDE does, and is the place of each callee-saved register known throughout the
 * FDE? */
static bool saves_are_proven(const struct cursor *c, const struct cfi_fde *fde)
{
	const struct save_list *saves = c->of->saves;
	size_t i = c->save, k;

	if (i == saves->count || saves->rows[i].addr != fde->start || !saves->rows[i].begins)
		return false;
	for (; i < saves->count && saves->rows[i].addr < fde->end; i++)
		for (k = 0; k < 5; k++)
			if (saves->rows[i].saves.how[k] == ETCH_SAVE_OTHER)
				return false;
	return true;
}

/* Is the FDE used for unwinding only, and does it cover the same code as its entry in *cfi says? */
static bool is_plain(const struct cfi_file *cfi, const struct cfi_fde *x)
{
	const struct cfi_part *p = &cfi->parts[x->part];
	struct etch_cfi c;
	struct etch_fde fde;

	etch_cfi_open(&c, p->bytes, p->size, p->addr);
	return !x->lsda && !x->signal && etch_cfi_at(&c, x->at, &fde) && !fde.cie.personality && fde.start == x->start &&
	       fde.end == x->end;
}

/* Marks the FDEs that contradict the code, according to the findings. */
static void wrong_mark(const struct cfi_file *cfi, const struct findings *found, uint8_t *fde)
{
	size_t i;

	for (i = 0; i < found->count; i++) {
		long n = strcmp(found->list[i].id, CONTRADICTED) ? -1 : cfi_file_at(cfi, found->list[i].addr);

		if (n >= 0)
			fde[n] = EH_FDE_WRONG;
	}
}

void eh_replace_find(const struct cfi_file *cfi, const struct eh_rows *rows, struct eh_replaced *out)
{
	struct cursor c = {.of = rows};
	size_t i;

	memset(out, 0, sizeof(*out));
	if (rows->replace == EH_REPLACE_NONE || !cfi->count)
		return;
	out->fde = mem_zero(cfi->count, sizeof(*out->fde));
	wrong_mark(cfi, rows->found, out->fde);
	for (i = 0; i < cfi->count; i++) {
		const struct cfi_fde *x = &cfi->fdes[i];
		bool wrong = out->fde[i] & EH_FDE_WRONG;

		if (!wrong && rows->replace != EH_REPLACE_ALL)
			continue;
		cursor_advance(&c, x->start);
		if (rows_are_proven(&c, x) && saves_are_proven(&c, x) && is_plain(cfi, x)) {
			out->fde[i] |= EH_FDE_REPLACED;
			out->count++;
		}
		if (!wrong)
			continue;
		mem_reserve(&out->wrong, &out->capacity, out->wrong_count, sizeof(*out->wrong));
		out->wrong[out->wrong_count++] = (struct eh_wrong){x->start, x->end, out->fde[i] & EH_FDE_REPLACED};
	}
}

bool eh_replaces(const struct eh_replaced *x, const struct cfi_file *cfi, uint32_t part, const struct etch_fde *fde,
                 size_t *next)
{
	size_t n = *next;

	if (!x->count)
		return false;
	/* Usually linkers keep the FDEs in the order of the code. */
	if (n >= cfi->count || cfi->fdes[n].start != fde->start) {
		long found = cfi_file_at(cfi, fde->start);

		if (found < 0)
			return false;
		n = (size_t)found;
	}
	*next = n + 1;
	return (x->fde[n] & EH_FDE_REPLACED) && cfi->fdes[n].part == part && cfi->fdes[n].at == fde->at;
}

void eh_replaced_free(struct eh_replaced *x)
{
	free(x->fde);
	free(x->wrong);
	memset(x, 0, sizeof(*x));
}
