/* SPDX-License-Identifier: MIT */
/* Adds the findings about code and .eh_frame that disagree, and merges those that concern one FDE. */
#include "analysis/unwind/disagreement.h"

#include "analysis/flow/flow.h"
#include "arch/x86/rule_text.h"
#include "shared/search.h"
#include "support/memory.h"
#include "support/sort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes the text of a rule, as one side of a disagreement; with `ra`, including the return address. */
static void sides_text(const struct etch_rule *r, bool ra, char *out, size_t size)
{
	char a[32], b[32], c[32];

	rule_cfa_text(r, a, sizeof(a));
	rule_bp_text(r, b, sizeof(b));
	rule_ra_text(r, c, sizeof(c));
	if (ra)
		snprintf(out, size, "CFA %s, rbp %s, return address %s", a, b, c);
	else
		snprintf(out, size, "CFA %s, rbp %s", a, b);
}

void disagreement_add(struct findings *l, uint64_t addr, const struct etch_rule *code, const struct etch_rule *cfi)
{
	struct finding *f;
	bool moved = code->ra != cfi->ra || (code->ra == ETCH_RA_SLOT && code->cfa_add != cfi->cfa_add);
	char a[128], b[128];

	sides_text(code, moved, a, sizeof(a));
	sides_text(cfi, moved, b, sizeof(b));
	f = finding_add(l, CONTRADICTED, 0, addr, ".eh_frame says %s; the code has %s", b, a);
	finding_fact(f, ".eh_frame", "%s", b);
	finding_fact(f, "the code", "%s", a);
}

void disagreement_jump(struct findings *l, uint64_t addr, uint64_t jump, const struct etch_rule *code, bool called,
                       const struct etch_rule *cfi)
{
	struct finding *f;
	char a[128], b[128];

	sides_text(cfi, false, b, sizeof(b));
	if (code->kind == ETCH_RULE_CALL)
		sides_text(code, false, a, sizeof(a));
	else
		snprintf(a, sizeof(a), "frames that differ");
	f = finding_add(l, CONTRADICTED, 0, addr, ".eh_frame says %s; %s with %s", b,
	                called ? "a jump leads here with that, but calls or tail calls lead here" : "a jump leads here", a);
	finding_fact(f, ".eh_frame", "%s", b);
	finding_fact(f, "the code", "%s", a);
	finding_fact_at(f, 0, jump, "the jump", "%s", called ? b : a);
}

void disagreement_overdrawn(struct findings *l, uint64_t addr, int32_t bytes, const struct etch_rule *cfi)
{
	struct finding *f;
	char b[128];

	sides_text(cfi, true, b, sizeof(b));
	f = finding_add(l, CONTRADICTED, 0, addr,
	                ".eh_frame says %s, as at a function's entry; the code takes %d bytes more off the stack than an "
	                "entry has there",
	                b, bytes);
	finding_fact(f, ".eh_frame", "%s", b);
	finding_fact(f, "the code", "takes the return address off the stack, and does not return to it");
}

/* ---- one FDE over many functions ------------------------------------------------ */

/* Stores the first contradiction in each function in `out`, at most `most` of them. `starts`: the starts of the
 * functions, sorted. Returns the number stored. */
static size_t firsts_of(const struct findings *l, const uint64_t *starts, size_t count, const struct finding **out,
                        size_t most)
{
	size_t i, some = 0, last = SIZE_MAX;

	for (i = 0; i < l->count && some < most; i++) {
		size_t k = SEARCH(count, j, starts[j] <= l->list[i].addr);

		if (strcmp(l->list[i].id, CONTRADICTED) || k == last)
			continue;
		out[some++] = &l->list[i];
		last = k;
	}
	return some;
}

/* Removes the contradictions; other findings stay. */
static void contradictions_drop(struct findings *l)
{
	size_t i, kept = 0;

	for (i = 0; i < l->count; i++)
		if (strcmp(l->list[i].id, CONTRADICTED))
			l->list[kept++] = l->list[i];
		else
			finding_free(&l->list[i]);
	l->count = kept;
}

/* Replaces the findings about functions under an FDE that begins at `addr` by one finding, if there are more than
 * DISAGREEMENTS_FEW such functions. `starts`: where these functions begin, sorted; `wrong`: how many of them are
 * contradicted. */
static void findings_sum(struct findings *l, uint64_t addr, const uint64_t *starts, size_t count, size_t wrong)
{
	const struct finding *first[DISAGREEMENTS_FEW];
	size_t some = firsts_of(l, starts, count, first, DISAGREEMENTS_FEW), i;
	struct findings sum = {0};
	struct finding *x;

	if (wrong <= DISAGREEMENTS_FEW || !some)
		return;
	x = finding_add(
		&sum, CONTRADICTED, 0, addr,
		"%zu functions contradict the one FDE that covers them; for one, .eh_frame says %s, the code has %s", wrong,
		first[0]->facts[0].text, first[0]->facts[1].text);
	finding_fact(x, ".eh_frame", "%s", first[0]->facts[0].text);
	for (i = 0; i < some; i++)
		finding_fact_at(x, 0, first[i]->addr, "the code", "%s", first[i]->facts[1].text);
	contradictions_drop(l);
	findings_take(l, &sum);
}

/* Returns the starts of functions in a code range: its entries, and the targets of calls inside it. The list is sorted,
 * and the caller frees it. */
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

/* Returns the number of functions that contain a row made from the code where .eh_frame has another row. `starts`: the
 * starts of the functions, sorted. */
static size_t contradicted(const struct row_list *rows, uint64_t range_end, const struct etch_cfi_row *cfi,
                           size_t cfi_count, const uint64_t *starts, size_t count)
{
	size_t i, k, n = 0, at = 0, next = 0; /* next: index of the first function that has not been counted */

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

void disagreements_sum(struct findings *l, const struct flow *f, const struct row_list *rows,
                       const struct etch_cfi_row *cfi, size_t cfi_count)
{
	const struct code_range *p = f->in.range;
	uint64_t *starts;
	size_t count;

	if (p->fde < 0 || p->plt || l->count <= DISAGREEMENTS_FEW)
		return;
	starts = functions_of(f, &count);
	findings_sum(l, p->start, starts, count, contradicted(rows, p->end, cfi, cfi_count, starts, count));
	free(starts);
}
