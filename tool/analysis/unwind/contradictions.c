/* SPDX-License-Identifier: MIT */
/* ETCH-C001: code and .eh_frame contradict each other. See contradictions.h. */
#include "analysis/unwind/contradictions.h"

#include "arch/x86/rule_text.h"
#include "support/search.h"
#include "support/vector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTRADICTED "ETCH-C001"

/* Text of a rule, as one side of a disagreement; `ra`: with the return address. */
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

bool contradiction_add(struct findings *out, uint64_t addr, const struct etch_rule *code, const struct etch_rule *cfi)
{
	bool moved = code->ra != cfi->ra || (code->ra == ETCH_RA_SLOT && code->cfa_add != cfi->cfa_add);
	char a[128], b[128];
	struct finding *f;

	sides_text(code, moved, a, sizeof(a));
	sides_text(cfi, moved, b, sizeof(b));
	f = finding_add(out, CONTRADICTED, 0, addr, ".eh_frame says %s; the code has %s", b, a);
	return finding_fact(f, ".eh_frame", "%s", b) && finding_fact(f, "the code", "%s", a);
}

/* Up to so many contradicted functions of one FDE have findings of their own. */
#define FUNCTIONS_FEW 3u

/* Starts of functions in a code range: its entries, and targets of calls inside. Sorted; from malloc(), or null. */
static uint64_t *functions_of(const struct flow *f, size_t *count)
{
	const struct code_range *p = f->in.range;
	uint64_t *list = malloc((p->entry_count + f->step_count + 1) * sizeof(*list));
	size_t n = 0, i;

	if (!list)
		return NULL;
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

/* Number of these functions with a row of the code where .eh_frame has another. */
static size_t contradicted(const struct witnesses *w, const uint64_t *starts, size_t count)
{
	size_t i, k, n = 0, at = 0, next = 0; /* next: the first function that has not been counted */

	for (i = 0; i < w->row_count; i++) {
		uint64_t end = i + 1 < w->row_count ? w->rows[i + 1].addr : w->range->end;

		while (at < w->cfi_count && w->cfi[at].end <= w->rows[i].addr)
			at++;
		if (at == w->cfi_count || w->rows[i].source != ETCH_SOURCE_CODE || w->cfi[at].start >= end ||
		    w->cfi[at].rule.kind != ETCH_RULE_CALL)
			continue;
		k = SEARCH(count, j, starts[j] <= w->rows[i].addr) - 1;
		for (k = k > next ? k : next; k < count && starts[k] < end; k++)
			n++;
		next = k > next ? k : next;
	}
	return n;
}

/* The first contradictions of a list, each of another function. */
struct firsts {
	const struct finding *of[FUNCTIONS_FEW];
	size_t count;
};

static void firsts_find(const struct findings *list, const uint64_t *starts, size_t count, struct firsts *out)
{
	size_t last = SIZE_MAX, i;

	out->count = 0;
	for (i = 0; i < list->count && out->count < FUNCTIONS_FEW; i++) {
		const struct finding *x = &list->list[i];
		size_t k = SEARCH(count, j, starts[j] <= x->addr);

		if (strcmp(x->id, CONTRADICTED) || k == last)
			continue;
		out->of[out->count++] = x;
		last = k;
	}
}

/* One finding for `functions` contradicted ones. False: out of memory. */
static bool sum_add(struct findings *sum, uint64_t start, size_t functions, const struct firsts *first)
{
	const struct fact *facts = first->of[0]->facts;
	struct finding *x = finding_add(
		sum, CONTRADICTED, 0, start,
		"%zu functions under one FDE have another frame than it says, as where .eh_frame says %s; the code has %s",
		functions, facts[0].text, facts[1].text);
	bool ok = finding_fact(x, ".eh_frame", "%s", facts[0].text);
	size_t i;

	for (i = 0; ok && i < first->count; i++)
		ok = finding_fact_at(x, 0, first->of[i]->addr, "the code", "%s", first->of[i]->facts[1].text);
	return ok;
}

/* Drops all contradictions of a list, and keeps its other findings. */
static void contradictions_drop(struct findings *list)
{
	size_t kept = 0, i;

	for (i = 0; i < list->count; i++)
		if (strcmp(list->list[i].id, CONTRADICTED))
			list->list[kept++] = list->list[i];
		else
			finding_free(&list->list[i]);
	list->count = kept;
}

bool contradictions_sum(struct findings *list, const struct flow *f, const struct witnesses *w)
{
	struct findings sum = {0};
	struct firsts first;
	size_t count, functions;
	uint64_t *starts;
	bool ok = true;

	if (w->range->fde < 0 || w->range->plt || list->count <= FUNCTIONS_FEW)
		return true;
	starts = functions_of(f, &count);
	if (!starts)
		return false;
	functions = contradicted(w, starts, count);
	firsts_find(list, starts, count, &first);
	free(starts);
	if (functions <= FUNCTIONS_FEW || !first.count)
		return true;
	ok = sum_add(&sum, w->range->start, functions, &first);
	if (ok) {
		contradictions_drop(list);
		ok = findings_take(list, &sum);
	}
	if (!ok)
		findings_free(&sum);
	return ok;
}
