/* SPDX-License-Identifier: MIT */
/* Matches functions by functions that are already matched: by the calls of these, and by the position between them. */
#include "diff/match.h"
#include "support/memory.h"

#define GAP_MOST 64u /* greatest number of functions between matched neighbours: all pairs of them are compared */

/* ---- by the calls of matched functions ----------------------------------------------------- */

void work_add(struct matcher *m, uint32_t func)
{
	mem_reserve(&m->work, &m->work_capacity, m->work_count, sizeof(*m->work));
	m->work[m->work_count++] = func;
}

/*
 * Returns how similar two functions are, from 0 to 100: 0 if both have names and these differ, 100 if their code is
 * equal, otherwise a value computed from the ratio of their sizes.
 */
static unsigned similarity(const struct matcher *m, const struct function *x, const struct function *y)
{
	uint32_t lo = x->insns < y->insns ? x->insns : y->insns, hi = x->insns < y->insns ? y->insns : x->insns;

	if (x->name && y->name && name_order(&m->im[0]->names, x->name, &m->im[1]->names, y->name))
		return 0;
	if (x->code == y->code)
		return 100;
	return hi ? 90 * lo / hi : 0;
}

#define SIMILAR_LEAST 45u /* least similarity of a pair: one may be up to about twice as large as the other */

/* True if the references of both functions have the same kinds in the same order. */
static bool same_kinds(const struct matcher *m, const struct function *x, const struct function *y)
{
	size_t i;

	if (x->ref_count != y->ref_count)
		return false;
	for (i = 0; i < x->ref_count && x->code != y->code; i++)
		if (m->im[0]->refs[x->ref + i].kind != m->im[1]->refs[y->ref + i].kind)
			return false;
	return true;
}

/*
 * Pairs the callees of two matched functions, in the order of the calls. With `similar`, also does so if their code
 * differs.
 */
static void calls_follow(struct matcher *m, uint32_t a, bool similar)
{
	const struct function *x = &m->im[0]->funcs[a], *y = &m->im[1]->funcs[x->pair];
	size_t i;

	if ((!similar && x->code != y->code) || !same_kinds(m, x, y))
		return;
	for (i = 0; i < x->ref_count; i++) {
		const struct xref *p = &m->im[0]->refs[x->ref + i], *q = &m->im[1]->refs[y->ref + i];
		const struct function *c, *d;

		if (p->kind != REF_FUNCTION || q->kind != REF_FUNCTION)
			continue;
		c = &m->im[0]->funcs[p->value];
		d = &m->im[1]->funcs[q->value];
		if (c->pair != NO_FUNC || d->pair != NO_FUNC || similarity(m, c, d) < (similar ? SIMILAR_LEAST : 100))
			continue;
		match_pair(m, (uint32_t)p->value, (uint32_t)q->value, c->name && d->name ? MATCHED_NAME : MATCHED_CALLS);
		work_add(m, (uint32_t)p->value);
	}
}

void work_follow(struct matcher *m, bool similar)
{
	while (m->work_count)
		calls_follow(m, m->work[--m->work_count], similar);
}

void match_by_calls(struct matcher *m, bool similar)
{
	uint32_t i;

	for (i = 0; i < m->im[0]->func_count; i++)
		if (!is_free(m->im[0], i))
			work_add(m, i);
	work_follow(m, similar);
}

/* ---- by position ----------------------------------------------------------------------------- */

/*
 * Pairs the unmatched functions [a, a + na) and [b, b + nb) so that their order is kept and the sum of similarities is
 * greatest: a weighted longest common subsequence.
 */
static void gap_match(struct matcher *m, uint32_t a, uint32_t na, uint32_t b, uint32_t nb)
{
	/* best[i][k] is the greatest sum for the functions from i on in one file and from k on in the other. */
	static uint32_t best[GAP_MOST + 1][GAP_MOST + 1];
	const struct function *x = &m->im[0]->funcs[a], *y = &m->im[1]->funcs[b];
	uint32_t i, k;

	if (na > GAP_MOST || nb > GAP_MOST)
		return;
	for (i = 0; i <= na; i++)
		best[i][nb] = 0;
	for (k = 0; k <= nb; k++)
		best[na][k] = 0;
	for (i = na; i-- > 0;)
		for (k = nb; k-- > 0;) {
			unsigned l = similarity(m, &x[i], &y[k]);

			best[i][k] = best[i + 1][k] > best[i][k + 1] ? best[i + 1][k] : best[i][k + 1];
			if (l >= SIMILAR_LEAST && best[i + 1][k + 1] + l > best[i][k])
				best[i][k] = best[i + 1][k + 1] + l;
		}
	for (i = k = 0; i < na && k < nb;) {
		unsigned l = similarity(m, &x[i], &y[k]);

		if (l >= SIMILAR_LEAST && best[i][k] == best[i + 1][k + 1] + l)
			match_pair(m, a + i++, b + k++, MATCHED_PLACE);
		else if (best[i][k] == best[i + 1][k])
			i++;
		else
			k++;
	}
}

void match_by_place(struct matcher *m)
{
	const struct image *x = m->im[0], *y = m->im[1];
	uint32_t i, end, from, b, nb;

	for (i = 0; i < x->func_count; i = end) {
		for (end = i; end < x->func_count && is_free(x, end);)
			end++;
		if (end == i) {
			end++;
			continue;
		}
		from = i ? x->funcs[i - 1].pair : NO_FUNC;
		b = i ? from + 1 : 0;
		for (nb = 0; b + nb < y->func_count && is_free(y, b + nb);)
			nb++;
		if (!nb || (end < x->func_count && x->funcs[end].pair != b + nb))
			continue;
		gap_match(m, i, end - i, b, nb);
	}
}
