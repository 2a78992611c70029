/* SPDX-License-Identifier: MIT */
#include "diff/match.h"
#include "elf/search.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define RENAMED_LEAST 8u   /* instructions that tell a function by its code, where it has a name */
#define ROUNDS        3    /* of what one pair says of others */
#define TWINS_MOST    32u  /* of the same code that are tried for one */
#define GAP_MOST      64u  /* functions between two neighbours that are compared each with each */

/* A function by something that it has in common with others. */
struct key {
	uint64_t value, code;
	uint32_t func;
};

struct keys {
	struct key *list[2]; /* of both files */
	size_t count[2], room[2];
};

struct matcher {
	struct image *im[2];
	struct keys keys;
	uint32_t *work; /* pairs whose calls have not been followed yet: numbers of the old file */
	size_t work_count, work_room;
	struct error *error;
};

static void pair(struct matcher *m, uint32_t a, uint32_t b, enum matched how)
{
	m->im[0]->funcs[a].pair = b;
	m->im[1]->funcs[b].pair = a;
	m->im[0]->funcs[a].how = m->im[1]->funcs[b].how = (uint8_t)how;
}

static bool is_free(const struct image *im, uint32_t func) { return im->funcs[func].pair == NO_FUNC; }

/* ---- by something in common -------------------------------------------------------- */

static int key_add(struct matcher *m, unsigned side, uint64_t value, uint32_t func)
{
	struct keys *k = &m->keys;

	if (!list_grow((void **)&k->list[side], k->count[side], &k->room[side], sizeof(struct key)))
		return error_set(m->error, "out of memory");
	k->list[side][k->count[side]++] = (struct key){value, m->im[side]->funcs[func].code, func};
	return 0;
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

/* Of two runs of functions with a key in common: first those of the same code, then in the
 * order of the files. */
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
				pair(m, a[i].func, b[k].func, how);
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
			pair(m, a[i++].func, b[k++].func, how);
	}
}

static void keys_sort(struct matcher *m)
{
	unsigned side;

	for (side = 0; side < 2; side++)
		if (m->keys.count[side])
			qsort(m->keys.list[side], m->keys.count[side], sizeof(struct key), key_order);
}

/* Joins both sides' keys and empties them. `alone`: only what is the only one of its key
 * on both sides. */
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

/* What a function is to be found by in one step: false, not in this one. */
typedef bool key_fn(const struct image *im, const struct function *fn, uint64_t *value);

static int keys_collect(struct matcher *m, key_fn *fn)
{
	uint64_t value;
	unsigned side;
	uint32_t i;

	for (side = 0; side < 2; side++)
		for (i = 0; i < m->im[side]->func_count; i++)
			if (is_free(m->im[side], i) && fn(m->im[side], &m->im[side]->funcs[i], &value) &&
			    key_add(m, side, value, i))
				return -1;
	return 0;
}

static int match_by(struct matcher *m, key_fn *fn, bool alone, enum matched how)
{
	if (keys_collect(m, fn))
		return -1;
	keys_join(m, alone, how);
	return 0;
}

static bool by_global_name(const struct image *im, const struct function *fn, uint64_t *value)
{
	(void)im;
	if (!fn->name || fn->local)
		return false;
	*value = hash_text(fn->name);
	return true;
}

static bool by_file_and_name(const struct image *im, const struct function *fn, uint64_t *value)
{
	(void)im;
	if (!fn->name || !fn->file)
		return false;
	*value = mix(hash_text(fn->file), hash_text(fn->name));
	return true;
}

static bool by_name(const struct image *im, const struct function *fn, uint64_t *value)
{
	(void)im;
	if (!fn->name)
		return false;
	*value = hash_text(fn->name);
	return true;
}

/* Cold parts are found by each other only. */
static bool by_base_name(const struct image *im, const struct function *fn, uint64_t *value)
{
	(void)im;
	if (!fn->name)
		return false;
	*value = mix(hash_bytes(fn->name, name_base(fn->name)), strstr(fn->name, ".cold") != NULL);
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

/* Of several functions with the same code, where no name says which is which. */
static bool by_nameless_code(const struct image *im, const struct function *fn, uint64_t *value)
{
	return !fn->name && by_code(im, fn, value);
}

static bool by_about(const struct image *im, const struct function *fn, uint64_t *value)
{
	(void)im;
	*value = fn->about;
	return !fn->name && fn->about;
}

/* The other names of one place, each by itself. */
static int match_by_aliases(struct matcher *m)
{
	unsigned side;
	uint32_t i, k;

	for (side = 0; side < 2; side++)
		for (i = 0; i < m->im[side]->func_count; i++)
			for (k = 0; is_free(m->im[side], i) && k < m->im[side]->funcs[i].alias_count; k++)
				if (key_add(m, side, hash_text(m->im[side]->aliases[m->im[side]->funcs[i].alias + k]), i))
					return -1;
	keys_join(m, false, MATCHED_NAME);
	return 0;
}

/* ---- by what those that are found call -------------------------------------------------- */

static int work_add(struct matcher *m, uint32_t func)
{
	if (!list_grow((void **)&m->work, m->work_count, &m->work_room, sizeof(*m->work)))
		return error_set(m->error, "out of memory");
	m->work[m->work_count++] = func;
	return 0;
}

/* How much alike two functions are that need not be the same one: 0 to 100, by size. */
static unsigned likeness(const struct function *x, const struct function *y)
{
	uint32_t lo = x->insns < y->insns ? x->insns : y->insns, hi = x->insns < y->insns ? y->insns : x->insns;

	if (x->name && y->name && strcmp(x->name, y->name))
		return 0;
	if (x->code == y->code)
		return 100;
	return hi ? 90 * lo / hi : 0;
}

#define ALIKE 45u /* half the size, at least */

/* Do two functions refer to things of the same kinds in the same order? */
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

/* Two functions of the same code call the same ones, in the same order. */
static int calls_follow(struct matcher *m, uint32_t a, bool alike)
{
	const struct function *x = &m->im[0]->funcs[a], *y = &m->im[1]->funcs[x->pair];
	size_t i;

	if ((!alike && x->code != y->code) || !same_kinds(m, x, y))
		return 0;
	for (i = 0; i < x->ref_count; i++) {
		const struct xref *p = &m->im[0]->refs[x->ref + i], *q = &m->im[1]->refs[y->ref + i];
		const struct function *c, *d;

		if (p->kind != REF_FUNCTION || q->kind != REF_FUNCTION)
			continue;
		c = &m->im[0]->funcs[p->value];
		d = &m->im[1]->funcs[q->value];
		if (c->pair != NO_FUNC || d->pair != NO_FUNC || likeness(c, d) < (alike ? ALIKE : 100))
			continue;
		pair(m, (uint32_t)p->value, (uint32_t)q->value, c->name && d->name ? MATCHED_NAME : MATCHED_CALLS);
		if (work_add(m, (uint32_t)p->value))
			return -1;
	}
	return 0;
}

static int work_follow(struct matcher *m, bool alike)
{
	while (m->work_count)
		if (calls_follow(m, m->work[--m->work_count], alike))
			return -1;
	return 0;
}

/* `alike`: also where the code is not the same, but about as much. */
static int match_by_calls(struct matcher *m, bool alike)
{
	uint32_t i;

	for (i = 0; i < m->im[0]->func_count; i++)
		if (!is_free(m->im[0], i) && work_add(m, i))
			return -1;
	return work_follow(m, alike);
}

/* ---- several of the same code -------------------------------------------------------------- */

/* How many of the functions that two of the same code call are pairs, less those that are not. */
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

/* The one that agrees best, the first of those. */
static int twins_pair(struct matcher *m, const struct key *a, size_t na, const struct key *b, size_t nb)
{
	size_t i, k;

	for (i = 0; i < na; i++) {
		uint32_t best = NO_FUNC;
		int most = INT_MIN;
		size_t tried = 0;

		for (k = 0; k < nb && tried < TWINS_MOST && is_free(m->im[0], a[i].func); k++) {
			int n;

			if (!is_free(m->im[1], b[k].func))
				continue;
			tried++;
			n = agreement(m, a[i].func, b[k].func);
			if (n > most) {
				most = n;
				best = b[k].func;
			}
		}
		if (best == NO_FUNC)
			continue;
		pair(m, a[i].func, best, MATCHED_CODE);
		if (work_add(m, a[i].func) || work_follow(m, false))
			return -1;
	}
	return 0;
}

/* Functions without names of which there are several: one group after the other, and what
 * each pair calls at once, so that they fit together. */
static int match_twins(struct matcher *m)
{
	struct key *list[2];
	size_t count[2], i = 0, j = 0, ni, nj;
	int err = 0;

	if (keys_collect(m, by_nameless_code))
		return -1;
	keys_sort(m);
	memcpy(list, m->keys.list, sizeof(list));
	memcpy(count, m->keys.count, sizeof(count));
	while (i < count[0] && j < count[1] && !err) {
		struct key *a = &list[0][i], *b = &list[1][j];

		for (ni = 1; i + ni < count[0] && a[ni].value == a->value;)
			ni++;
		for (nj = 1; j + nj < count[1] && b[nj].value == b->value;)
			nj++;
		if (a->value == b->value)
			err = twins_pair(m, a, ni, b, nj);
		i += a->value <= b->value ? ni : 0;
		j += b->value <= a->value ? nj : 0;
	}
	m->keys.count[0] = m->keys.count[1] = 0;
	return err;
}

/* ---- by place ------------------------------------------------------------------------------ */

/* The best pairs in order of the free functions [a, a + na) and [b, b + nb): the longest
 * common subsequence, weighed. */
static void gap_match(struct matcher *m, uint32_t a, uint32_t na, uint32_t b, uint32_t nb)
{
	static uint32_t best[GAP_MOST + 1][GAP_MOST + 1]; /* of what is left from there on */
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
			unsigned l = likeness(&x[i], &y[k]);

			best[i][k] = best[i + 1][k] > best[i][k + 1] ? best[i + 1][k] : best[i][k + 1];
			if (l >= ALIKE && best[i + 1][k + 1] + l > best[i][k])
				best[i][k] = best[i + 1][k + 1] + l;
		}
	for (i = k = 0; i < na && k < nb;) {
		unsigned l = likeness(&x[i], &y[k]);

		if (l >= ALIKE && best[i][k] == best[i + 1][k + 1] + l)
			pair(m, a + i++, b + k++, MATCHED_PLACE);
		else if (best[i][k] == best[i + 1][k])
			i++;
		else
			k++;
	}
}

/* Runs of free functions whose neighbours on both sides are pairs. */
static void match_by_place(struct matcher *m)
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

/* ---- several in one ------------------------------------------------------------------------ */

/* A function that has its own code in one file, and in the other is one name of several. */
static int match_folded(struct matcher *m, unsigned side)
{
	struct image *im = m->im[side], *other = m->im[!side];
	struct keys *keys = &m->keys;
	uint32_t i, k;
	size_t n;

	for (i = 0; i < other->func_count; i++)
		for (k = 0; k < other->funcs[i].alias_count; k++)
			if (key_add(m, !side, hash_text(other->aliases[other->funcs[i].alias + k]), i))
				return -1;
	n = keys->count[!side];
	keys->count[0] = keys->count[1] = 0;
	if (n)
		qsort(keys->list[!side], n, sizeof(struct key), key_order);
	for (i = 0; i < im->func_count; i++) {
		uint64_t value = im->funcs[i].name ? hash_text(im->funcs[i].name) : 0;
		size_t lo;

		if (!is_free(im, i) || !im->funcs[i].name || im->funcs[i].local)
			continue;
		lo = SEARCH(n, j, keys->list[!side][j].value < value);
		if (lo == n || keys->list[!side][lo].value != value)
			continue;
		im->funcs[i].pair = keys->list[!side][lo].func;
		im->funcs[i].how = MATCHED_FOLDED;
	}
	return 0;
}

/* ---- numbers that both files share ------------------------------------------------------------ */

static uint64_t own_canon(const struct image *im, uint32_t i, uint64_t side)
{
	const struct function *fn = &im->funcs[i];

	/* Not those of which there are several: the name would not say which. */
	return fn->name && !fn->twin ? hash_text(fn->name) : mix(mix(side, i), fn->start);
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

/* Of several of one name it is the callers that say which is which. */
static int match_by_names(struct matcher *m)
{
	return match_by(m, by_global_name, false, MATCHED_NAME) || match_by(m, by_file_and_name, true, MATCHED_NAME) ||
	       match_by(m, by_name, true, MATCHED_NAME) || match_by_calls(m, false) ||
	       match_by(m, by_file_and_name, false, MATCHED_NAME) || match_by(m, by_name, false, MATCHED_NAME) ||
	       match_by_aliases(m) ||
	       match_by(m, by_base_name, true, MATCHED_SUFFIX) ? -1 : 0;
}

/* What tells most comes first. */
static int match_by_code(struct matcher *m)
{
	return match_by(m, by_code, true, MATCHED_CODE) || match_by_calls(m, false) ||
	       match_twins(m) || match_by(m, by_about, true, MATCHED_CONTENT) ? -1 : 0;
}

int match_functions(struct image *old, struct image *new, struct error *e)
{
	struct matcher m = {.im = {old, new}, .error = e};
	int err = match_by_names(&m) || match_by_code(&m), round;

	for (round = 0; round < ROUNDS && !err; round++) {
		err = match_by_calls(&m, true);
		match_by_place(&m);
	}
	if (!err)
		err = match_folded(&m, 0) || match_folded(&m, 1);
	if (!err)
		canon_set(old, new);
	free(m.keys.list[0]);
	free(m.keys.list[1]);
	free(m.work);
	return err ? -1 : 0;
}
