/* SPDX-License-Identifier: MIT */
/* Finds pairs of functions in several passes, from the most to the least reliable property. */
#include "diff/match.h"
#include "shared/search.h"
#include "support/memory.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define RENAMED_LEAST 8u  /* least number of instructions by which a function with a name is matched */
#define ROUNDS        3   /* number of times that functions are matched by calls and then by position */
#define TWINS_MOST    32u /* number of functions with equal code that are tried as a pair of one function */

/* ---- by equal keys -------------------------------------------------------------------- */

static void key_add(struct matcher *m, unsigned side, uint64_t value, uint32_t func)
{
	struct keys *k = &m->keys;

	mem_reserve(&k->list[side], &k->capacity[side], k->count[side], sizeof(struct key));
	k->list[side][k->count[side]++] = (struct key){value, m->im[side]->funcs[func].code, func};
}

static int key_order(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return x->func < y->func ? -1 : x->func > y->func;
}

static int key_code_order(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->code != y->code)
		return x->code < y->code ? -1 : 1;
	return x->func < y->func ? -1 : x->func > y->func;
}

/*
 * Pairs functions with equal keys: first those that also have equal code, then the others in the order in which the
 * files have them.
 */
static void runs_pair(struct matcher *m, struct key *a, size_t na, struct key *b, size_t nb, enum matched how)
{
	size_t i = 0, k = 0;

	if (na > 1 || nb > 1) {
		qsort(a, na, sizeof(*a), key_code_order);
		qsort(b, nb, sizeof(*b), key_code_order);
		while (i < na && k < nb) {
			if (a[i].code != b[k].code) {
				a[i].code < b[k].code ? i++ : k++;
				continue;
			}
			if (is_free(m->im[0], a[i].func) && is_free(m->im[1], b[k].func))
				match_pair(m, a[i].func, b[k].func, how);
			i++;
			k++;
		}
		qsort(a, na, sizeof(*a), key_order);
		qsort(b, nb, sizeof(*b), key_order);
	}
	for (i = k = 0; i < na && k < nb;) {
		if (!is_free(m->im[0], a[i].func))
			i++;
		else if (!is_free(m->im[1], b[k].func))
			k++;
		else
			match_pair(m, a[i++].func, b[k++].func, how);
	}
}

static void keys_sort(struct matcher *m)
{
	unsigned side;

	for (side = 0; side < 2; side++)
		if (m->keys.count[side])
			qsort(m->keys.list[side], m->keys.count[side], sizeof(struct key), key_order);
}

/* Pairs functions with equal keys, and clears the keys. With `alone`, uses only keys that occur once in each file. */
static void keys_join(struct matcher *m, bool alone, enum matched how)
{
	struct keys *k = &m->keys;
	size_t i = 0, j = 0, ni, nj;

	keys_sort(m);
	while (i < k->count[0] && j < k->count[1]) {
		struct key *a = &k->list[0][i], *b = &k->list[1][j];

		for (ni = 1; i + ni < k->count[0] && a[ni].value == a->value;)
			ni++;
		for (nj = 1; j + nj < k->count[1] && b[nj].value == b->value;)
			nj++;
		if (a->value == b->value && (!alone || (ni == 1 && nj == 1)))
			runs_pair(m, a, ni, b, nj, how);
		i += a->value <= b->value ? ni : 0;
		j += b->value <= a->value ? nj : 0;
	}
	k->count[0] = k->count[1] = 0;
}

/* Sets *value to the key that a function has in one pass. Returns false if the function takes no part in the pass. */
typedef bool key_fn(const struct image *im, const struct function *fn, uint64_t *value);

static void keys_collect(struct matcher *m, key_fn *fn)
{
	uint64_t value;
	unsigned side;
	uint32_t i;

	for (side = 0; side < 2; side++)
		for (i = 0; i < m->im[side]->func_count; i++)
			if (is_free(m->im[side], i) && fn(m->im[side], &m->im[side]->funcs[i], &value))
				key_add(m, side, value, i);
}

static void match_by(struct matcher *m, key_fn *fn, bool alone, enum matched how)
{
	keys_collect(m, fn);
	keys_join(m, alone, how);
}

static bool by_global_name(const struct image *im, const struct function *fn, uint64_t *value)
{
	if (!fn->name || fn->local)
		return false;
	*value = name_hash(&im->names, fn->name);
	return true;
}

static bool by_file_and_name(const struct image *im, const struct function *fn, uint64_t *value)
{
	if (!fn->name || !fn->file)
		return false;
	*value = mix(name_hash(&im->names, fn->file), name_hash(&im->names, fn->name));
	return true;
}

static bool by_name(const struct image *im, const struct function *fn, uint64_t *value)
{
	if (!fn->name)
		return false;
	*value = name_hash(&im->names, fn->name);
	return true;
}

/*
 * The key for a match by the name without suffixes. Cold parts have a different key, so that they match only each
 * other.
 */
static bool by_base_name(const struct image *im, const struct function *fn, uint64_t *value)
{
	if (!fn->name)
		return false;
	*value = name_base_hash(&im->names, fn->name);
	return true;
}

static bool by_code(const struct image *im, const struct function *fn, uint64_t *value)
{
	(void)im;
	if (fn->name && fn->insns < RENAMED_LEAST)
		return false;
	*value = fn->code;
	return true;
}

/* The key for functions without a name: a hash of the code. Several functions may have the same key. */
static bool by_nameless_code(const struct image *im, const struct function *fn, uint64_t *value)
{
	return !fn->name && by_code(im, fn, value);
}

static bool by_content(const struct image *im, const struct function *fn, uint64_t *value)
{
	(void)im;
	*value = fn->content;
	return !fn->name && fn->content;
}

/* Matches functions by any of their names, including aliases. */
static void match_by_aliases(struct matcher *m)
{
	unsigned side;
	uint32_t i, k;

	for (side = 0; side < 2; side++)
		for (i = 0; i < m->im[side]->func_count; i++)
			for (k = 0; is_free(m->im[side], i) && k < m->im[side]->funcs[i].alias_count; k++)
				key_add(m, side, name_hash(&m->im[side]->names, m->im[side]->aliases[m->im[side]->funcs[i].alias + k]),
				        i);
	keys_join(m, false, MATCHED_NAME);
}

/* ---- functions with equal code --------------------------------------------------------------- */

/*
 * For two functions with equal code, compares their callees one by one. Returns the number of callees that are pairs,
 * minus the number of callees that are paired with other functions.
 */
static int agreement(const struct matcher *m, uint32_t a, uint32_t b)
{
	const struct function *x = &m->im[0]->funcs[a], *y = &m->im[1]->funcs[b];
	size_t i;
	int n = 0;

	for (i = 0; i < x->ref_count && x->ref_count == y->ref_count; i++) {
		const struct xref *p = &m->im[0]->refs[x->ref + i], *q = &m->im[1]->refs[y->ref + i];

		if (p->kind != REF_FUNCTION || q->kind != REF_FUNCTION || is_free(m->im[0], (uint32_t)p->value))
			continue;
		n += m->im[0]->funcs[p->value].pair == q->value ? 1 : -1;
	}
	return n;
}

/*
 * Returns the index of the first unmatched function at or after b[k]. `next` speeds up the search past matched
 * functions (path compression).
 */
static uint32_t twin_free(const struct matcher *m, const struct key *b, uint32_t nb, uint32_t *next, uint32_t k)
{
	uint32_t end = k, then;

	while (end < nb && (next[end] != end || !is_free(m->im[1], b[end].func)))
		end = next[end] != end ? next[end] : end + 1;
	for (; k < end; k = then) {
		then = next[k] != k ? next[k] : k + 1;
		next[k] = end;
	}
	return end;
}

/*
 * Pairs each function of a with the unmatched function of b with which it agrees best (agreement()), or with the first
 * one if several agree equally.
 */
static void twins_pair(struct matcher *m, const struct key *a, size_t na, const struct key *b, size_t nb)
{
	uint32_t *next = mem_alloc(nb + 1, sizeof(*next)), k;
	size_t i;

	for (k = 0; k < nb; k++)
		next[k] = k;
	for (i = 0; i < na; i++) {
		uint32_t best = NO_FUNC;
		int most = INT_MIN;
		size_t tried = 0;

		if (!is_free(m->im[0], a[i].func))
			continue;
		for (k = twin_free(m, b, (uint32_t)nb, next, 0); k < nb && tried < TWINS_MOST;
		     k = twin_free(m, b, (uint32_t)nb, next, k + 1)) {
			int n;

			tried++;
			n = agreement(m, a[i].func, b[k].func);
			if (n > most) {
				most = n;
				best = b[k].func;
			}
		}
		if (best == NO_FUNC)
			continue;
		match_pair(m, a[i].func, best, MATCHED_CODE);
		work_add(m, a[i].func);
		work_follow(m, false);
	}
	free(next);
}

/*
 * Matches functions without names that have equal code, one group after the other. The calls of a new pair are followed
 * at once, since the pairs found in this way let later functions agree better.
 */
static void match_twins(struct matcher *m)
{
	struct key *list[2];
	size_t count[2], i = 0, j = 0, ni, nj;

	keys_collect(m, by_nameless_code);
	keys_sort(m);
	memcpy(list, m->keys.list, sizeof(list));
	memcpy(count, m->keys.count, sizeof(count));
	while (i < count[0] && j < count[1]) {
		struct key *a = &list[0][i], *b = &list[1][j];

		for (ni = 1; i + ni < count[0] && a[ni].value == a->value;)
			ni++;
		for (nj = 1; j + nj < count[1] && b[nj].value == b->value;)
			nj++;
		if (a->value == b->value)
			twins_pair(m, a, ni, b, nj);
		i += a->value <= b->value ? ni : 0;
		j += b->value <= a->value ? nj : 0;
	}
	m->keys.count[0] = m->keys.count[1] = 0;
}

/* ---- folded functions ------------------------------------------------------------------------ */

/* Matches functions that have code of their own in one file, but share one function's code in the other file. */
static void match_folded(struct matcher *m, unsigned side)
{
	struct image *im = m->im[side], *other = m->im[!side];
	struct keys *keys = &m->keys;
	uint32_t i, k;
	size_t n;

	for (i = 0; i < other->func_count; i++)
		for (k = 0; k < other->funcs[i].alias_count; k++)
			key_add(m, !side, name_hash(&other->names, other->aliases[other->funcs[i].alias + k]), i);
	n = keys->count[!side];
	keys->count[0] = keys->count[1] = 0;
	if (n)
		qsort(keys->list[!side], n, sizeof(struct key), key_order);
	for (i = 0; i < im->func_count; i++) {
		uint64_t value = im->funcs[i].name ? name_hash(&im->names, im->funcs[i].name) : 0;
		size_t lo;

		if (!is_free(im, i) || !im->funcs[i].name || im->funcs[i].local)
			continue;
		lo = SEARCH(n, j, keys->list[!side][j].value < value);
		if (lo == n || keys->list[!side][lo].value != value)
			continue;
		im->funcs[i].pair = keys->list[!side][lo].func;
		im->funcs[i].how = MATCHED_FOLDED;
	}
}

/* ---- canonical numbers ----------------------------------------------------------------------- */

static uint64_t own_canon(const struct image *im, uint32_t i, uint64_t side)
{
	const struct function *fn = &im->funcs[i];

	/* A name that several functions have identifies none of them. */
	return fn->name && !fn->twin ? name_hash(&im->names, fn->name) : mix(mix(side, i), fn->start);
}

static void canon_set(struct image *old, struct image *new)
{
	uint32_t i;

	for (i = 0; i < old->func_count; i++)
		old->funcs[i].canon = own_canon(old, i, 1);
	for (i = 0; i < new->func_count; i++) {
		struct function *fn = &new->funcs[i];

		fn->canon = fn->pair == NO_FUNC ? own_canon(new, i, 2) : old->funcs[fn->pair].canon;
	}
	for (i = 0; i < old->func_count; i++)
		if (old->funcs[i].how == MATCHED_FOLDED)
			old->funcs[i].canon = new->funcs[old->funcs[i].pair].canon;
}

/* Matches functions by name. If several functions share a name, they are first matched by their callers. */
static void match_by_names(struct matcher *m)
{
	match_by(m, by_global_name, false, MATCHED_NAME);
	match_by(m, by_file_and_name, true, MATCHED_NAME);
	match_by(m, by_name, true, MATCHED_NAME);
	match_by_calls(m, false);
	match_by(m, by_file_and_name, false, MATCHED_NAME);
	match_by(m, by_name, false, MATCHED_NAME);
	match_by_aliases(m);
	match_by(m, by_base_name, true, MATCHED_SUFFIX);
}

/* Matches functions by properties of their code, from the most to the least reliable one. */
static void match_by_code(struct matcher *m)
{
	match_by(m, by_code, true, MATCHED_CODE);
	match_by_calls(m, false);
	match_twins(m);
	match_by(m, by_content, true, MATCHED_CONTENT);
}

void match_functions(struct image *old, struct image *new)
{
	struct matcher m = {.im = {old, new}};
	int round;

	match_by_names(&m);
	match_by_code(&m);
	for (round = 0; round < ROUNDS; round++) {
		match_by_calls(&m, true);
		match_by_place(&m);
	}
	match_folded(&m, 0);
	match_folded(&m, 1);
	canon_set(old, new);
	free(m.keys.list[0]);
	free(m.keys.list[1]);
	free(m.work);
}
