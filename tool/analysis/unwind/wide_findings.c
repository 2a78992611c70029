/* SPDX-License-Identifier: MIT */
/* Counts the functions under one FDE that the code contradicts (wide_findings.h). */
#include "analysis/unwind/wide_findings.h"

#include "analysis/unwind/disagreement.h"
#include "support/memory.h"
#include "shared/search.h"
#include "support/sort.h"

#include <stdlib.h>

/* Returns the starts of functions in a code range: its entries, and targets of calls inside. The list is sorted; the
 * caller frees it. */
static uint64_t *functions_of(const struct flow *f, size_t *count)
{
	const struct code_range *p = f->in.range;
	uint64_t *list = mem_alloc(p->entry_count + f->step_count + 1, sizeof(*list));
	size_t n = 0, i;

	list[n++] = p->start;
	for (i = 0; i < p->entry_count; i++)
		list[n++] = f->in.env->entries[p->entry + i];
	for (i = 0; i < f->step_count; i++) {
		uint64_t to = (uint64_t)f->steps[i].imm;

		if (f->steps[i].flow == FLOW_CALL && (f->seen[i] & FLOW_WALKED) && to > p->start && to < p->end)
			list[n++] = to;
	}
	*count = words_unique(list, n);
	return list;
}

/* Returns the number of functions at `starts` that have a row made from the code where .eh_frame has another. */
static size_t contradicted(const struct row_list *rows, uint64_t range_end, const struct etch_cfi_row *cfi,
                           size_t cfi_count, const uint64_t *starts, size_t count)
{
	size_t i, k, n = 0, at = 0, next = 0; /* next: the first function that has not been counted */

	for (i = 0; i < rows->count; i++) {
		uint64_t addr = rows->rows[i].addr, end = i + 1 < rows->count ? rows->rows[i + 1].addr : range_end;

		while (at < cfi_count && cfi[at].end <= addr)
			at++;
		if (at == cfi_count || rows->rows[i].source != ETCH_SOURCE_CODE || cfi[at].start >= end ||
		    cfi[at].rule.kind != ETCH_RULE_CALL)
			continue;
		k = SEARCH(count, j, starts[j] <= addr) - 1;
		for (k = k > next ? k : next; k < count && starts[k] < end; k++)
			n++;
		next = k > next ? k : next;
	}
	return n;
}

void wide_findings_sum(struct findings *l, const struct flow *f, const struct row_list *rows,
                       const struct etch_cfi_row *cfi, size_t cfi_count)
{
	const struct code_range *p = f->in.range;
	uint64_t *starts;
	size_t count;

	if (p->fde < 0 || p->plt || l->count <= DISAGREEMENTS_FEW)
		return;
	starts = functions_of(f, &count);
	disagreements_sum(l, p->start, starts, count, contradicted(rows, p->end, cfi, cfi_count, starts, count));
	free(starts);
}
