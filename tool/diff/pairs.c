/* SPDX-License-Identifier: MIT */
/* Compares matched functions pair by pair. */
#include "diff/pairs.h"

#include "arch/x86/insn.h"
#include "diff/match.h"
#include "diff/script.h"
#include "support/progress.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/*
 * A vote on where data without a name, which is at one place in the old file, is in the new file. Each operand of two
 * functions with equal code casts one.
 */
struct vote {
	uint64_t old, new;
	uint32_t func; /* index of the function in the old file */
	bool bad;
};

/* The state of the comparison. The memory of bodies and script is reused for each pair. */
struct comparer {
	struct diff *d;
	struct body old, new;
	struct script script;
	struct vote *votes;
	size_t vote_count, vote_capacity;
	/*
	 * For each function of the old file: the number of its references to data that, unlike the rest, has moved to
	 * another place than the votes say.
	 */
	uint32_t *moved_refs;
};

/* ---- equal code --------------------------------------------------------------------- */

/* True if two functions have equal instructions, and refer to the same functions. */
static bool code_equal(const struct image *x, const struct function *a, const struct image *y, const struct function *b)
{
	size_t i;

	if (a->code != b->code || a->insns != b->insns || a->ref_count != b->ref_count)
		return false;
	for (i = 0; i < a->ref_count; i++)
		if (ref_canon(x, &x->refs[a->ref + i]) != ref_canon(y, &y->refs[b->ref + i]))
			return false;
	return true;
}

static void votes_take(struct comparer *c, uint32_t func)
{
	const struct image *x = c->d->old, *y = c->d->new;
	const struct function *a = &x->funcs[func], *b = &y->funcs[a->pair];
	size_t i;

	for (i = 0; i < a->ref_count; i++) {
		const struct xref *p = &x->refs[a->ref + i], *q = &y->refs[b->ref + i];

		if (p->kind != REF_DATA || q->kind != REF_DATA)
			continue;
		mem_reserve(&c->votes, &c->vote_capacity, c->vote_count, sizeof(*c->votes));
		/* The number of the section becomes the upper bits. */
		c->votes[c->vote_count++] =
			(struct vote){p->value ^ (uint64_t)p->more << 40, q->value ^ (uint64_t)q->more << 40, func, false};
	}
}

static int vote_old_order(const void *a, const void *b)
{
	const struct vote *x = a, *y = b;

	if (x->old != y->old)
		return x->old < y->old ? -1 : 1;
	return x->new < y->new ? -1 : x->new > y->new;
}

static int vote_new_order(const void *a, const void *b)
{
	const struct vote *x = a, *y = b;

	if (x->new != y->new)
		return x->new < y->new ? -1 : 1;
	return x->old < y->old ? -1 : x->old > y->old;
}

/*
 * The votes `v` are about one place, and equal answers are adjacent. Marks all votes as bad except those for the most
 * frequent answer.
 */
static void votes_judge(struct vote *v, size_t n, bool by_new)
{
	size_t i, end, best = 0, best_count = 0;

	for (i = 0; i < n; i = end) {
		for (end = i; end < n && (by_new ? v[end].old == v[i].old : v[end].new == v[i].new);)
			end++;
		if (end - i > best_count) {
			best = i;
			best_count = end - i;
		}
	}
	for (i = 0; i < n; i++)
		v[i].bad |= i < best || i >= best + best_count;
}

static void votes_count(struct comparer *c, bool by_new)
{
	struct vote *v = c->votes;
	size_t i, end;

	if (c->vote_count)
		qsort(v, c->vote_count, sizeof(*v), by_new ? vote_new_order : vote_old_order);
	for (i = 0; i < c->vote_count; i = end) {
		for (end = i; end < c->vote_count && (by_new ? v[end].new == v[i].new : v[end].old == v[i].old);)
			end++;
		votes_judge(v + i, end - i, by_new);
	}
}

/*
 * Sets moved_refs: for functions with equal code, counts the references to data at another place than most votes say.
 */
static void moved_refs_find(struct comparer *c)
{
	size_t i;
	uint32_t k;

	c->moved_refs = mem_zero((size_t)c->d->old->func_count + 1, sizeof(*c->moved_refs));
	for (k = 0; k < c->d->old->func_count; k++) {
		const struct function *fn = &c->d->old->funcs[k];

		if (fn->pair != NO_FUNC && code_equal(c->d->old, fn, c->d->new, &c->d->new->funcs[fn->pair]))
			votes_take(c, k);
	}
	votes_count(c, false);
	votes_count(c, true);
	for (i = 0; i < c->vote_count; i++)
		c->moved_refs[c->votes[i].func] += c->votes[i].bad;
}

/* ---- differences of one pair ------------------------------------------------------------ */

/* A call, or a jump out of a function. */
struct call {
	uint64_t canon;
	uint32_t token;
	bool old;
};

static int call_order(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	if (x->canon != y->canon)
		return x->canon < y->canon ? -1 : 1;
	return x->token < y->token ? -1 : x->token > y->token;
}

static size_t calls_collect(const struct image *im, const struct body *b, bool old, struct call *out)
{
	size_t i, n = 0;

	for (i = 0; i < b->ref_count; i++) {
		const struct xref *r = &b->refs[i];

		if ((r->kind == REF_FUNCTION || r->kind == REF_NAMED) && b->insns[b->tokens[r->insn].insn].flow != FLOW_NEXT)
			out[n++] = (struct call){ref_canon(im, r), r->insn, old};
	}
	return n;
}

static int call_name_order(const void *a, const void *b)
{
	const struct call_change *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void call_add(struct comparer *c, struct change *x, const struct call *call, int64_t count)
{
	const struct body_side side = {call->old ? c->d->old : c->d->new, call->old ? x->old : x->new,
	                               call->old ? &c->old : &c->new};
	char name[440];

	if (!body_callee(&side, call->token, name, sizeof(name)))
		return;
	x->calls = mem_resize(x->calls, x->call_count + 1, sizeof(*x->calls));
	x->calls[x->call_count++] = (struct call_change){mem_string(name), count};
}

/* Records each callee that the new function calls more or less often than the old one. */
static void calls_compare(struct comparer *c, struct change *x)
{
	struct call *list = mem_alloc(c->old.ref_count + c->new.ref_count + 1, sizeof(*list));
	size_t n, i, end;

	n = calls_collect(c->d->old, &c->old, true, list);
	n += calls_collect(c->d->new, &c->new, false, list + n);
	qsort(list, n, sizeof(*list), call_order);
	for (i = 0; i < n; i = end) {
		int64_t count = 0;

		for (end = i; end < n && list[end].canon == list[i].canon; end++)
			count += list[end].old ? -1 : 1;
		if (count)
			call_add(c, x, &list[i], count);
	}
	if (x->call_count)
		qsort(x->calls, x->call_count, sizeof(*x->calls), call_name_order);
	free(list);
}

static void bodies_compare(struct comparer *c, struct change *x)
{
	struct image *old = c->d->old, *new = c->d->new;
	const struct body_side p = {old, x->old, &c->old}, q = {new, x->new, &c->new};

	body_make(old, x->old, &c->old);
	body_make(new, x->new, &c->new);
	body_name(old, &c->old);
	body_name(new, &c->new);
	script_make(&c->script, &p, &q);
	x->removed = (uint32_t)c->script.removed_count;
	x->inserted = (uint32_t)c->script.inserted_count;
	/*
	 * The instructions are equal, so the difference is in entries of jump tables, or in labels whose address is taken.
	 */
	if (!x->removed && !x->inserted && c->old.labels != c->new.labels)
		x->removed = x->inserted = 1;
	x->code = x->removed || x->inserted;
	if (x->code)
		calls_compare(c, x);
}

static bool is_renamed(const struct function *a, const struct function *b)
{
	return a->how == MATCHED_CODE && a->name && b->name;
}

static void change_add(struct diff *d, const struct change *x)
{
	mem_reserve(&d->changes, &d->change_capacity, d->change_count, sizeof(*d->changes));
	d->changes[d->change_count++] = *x;
}

/* Compares a pair, and adds a change if the functions differ or their names do. */
static void pair_compare(struct comparer *c, uint32_t old, uint32_t new)
{
	struct diff *d = c->d;
	const struct function *a = &d->old->funcs[old], *b = &d->new->funcs[new];
	struct change x = {.kind = CHANGE_CHANGED, .old = old, .new = new, .frame = a->depth != b->depth};

	if (code_equal(d->old, a, d->new, b)) {
		x.removed = x.inserted = a->pair == new ? c->moved_refs[old] : 0;
		x.code = x.removed;
	} else {
		bodies_compare(c, &x);
	}
	x.rows = !x.code && a->row_code != b->row_code;
	if (x.code || x.frame || x.rows) {
		d->changed++;
		change_add(d, &x);
	} else if (is_renamed(a, b)) {
		x.kind = CHANGE_RENAMED;
		d->renamed++;
		change_add(d, &x);
	} else {
		d->same++;
	}
}

/* Compares all pairs. Adds functions that have no pair as removed or added. */
static void functions_compare(struct comparer *c)
{
	struct diff *d = c->d;
	uint32_t i;

	for (i = 0; i < d->old->func_count; i++) {
		const struct function *fn = &d->old->funcs[i];
		struct change x = {.kind = CHANGE_REMOVED, .old = i, .new = NO_FUNC};

		progress_step("comparing", i, d->old->func_count);
		if (fn->pair != NO_FUNC)
			pair_compare(c, i, fn->pair);
		else
			change_add(d, &x);
		d->removed += fn->pair == NO_FUNC;
	}
	progress_end();
	for (i = 0; i < d->new->func_count; i++) {
		const struct function *fn = &d->new->funcs[i];
		struct change x = {.kind = CHANGE_ADDED, .old = NO_FUNC, .new = i};

		/*
		 * If several functions of the new file share the code of one in the old file, the latter is compared with each
		 * of them.
		 */
		if (fn->how == MATCHED_FOLDED)
			pair_compare(c, fn->pair, i);
		else if (fn->pair == NO_FUNC)
			change_add(d, &x);
		d->added += fn->pair == NO_FUNC;
	}
}

/* ---- the comparison ----------------------------------------------------------------------- */

static void frames_count(struct diff *d)
{
	int64_t most = 0;
	size_t i;

	d->deepest = NO_FUNC;
	for (i = 0; i < d->change_count; i++) {
		const struct change *x = &d->changes[i];
		int64_t by;

		if (!x->frame || !d->old->funcs[x->old].depth || !d->new->funcs[x->new].depth)
			continue;
		by = (int64_t)d->new->funcs[x->new].depth - d->old->funcs[x->old].depth;
		d->grown += by > 0;
		d->shrunk += by < 0;
		if (by > most) {
			most = by;
			d->deepest = (uint32_t)i;
		}
	}
}

/*
 * True if a file has no .symtab, and so no names of local functions. If one of the files has none, .symtab is ignored
 * in both.
 */
static bool lacks_names(const struct image *im) { return !im->file.symbol_count; }

static int images_read(struct image *old, struct image *new, struct error *e)
{
	bool nameless = lacks_names(old) != lacks_names(new);

	if (image_read(old, nameless, e) || image_read(new, nameless, e))
		return -1;
	match_functions(old, new);
	return 0;
}

int diff_files(struct diff *d, struct image *old, struct image *new, bool notes, struct error *e)
{
	struct comparer c = {.d = d};
	size_t i;

	*d = (struct diff){.old = old, .new = new, .notes = notes, .deepest = NO_FUNC};
	if (images_read(old, new, e))
		return -1;
	moved_refs_find(&c);
	functions_compare(&c);
	compare_sites(d);
	compare_findings(d);
	compare_sizes(d);
	frames_count(d);
	d->differs = d->change_count || d->site_count || d->finding_count;
	for (i = 0; i < d->size_count; i++)
		d->differs |= d->sizes[i].table && !d->sizes[i].old != !d->sizes[i].new;
	progress_end();
	body_free(&c.old);
	body_free(&c.new);
	script_free(&c.script);
	free(c.votes);
	free(c.moved_refs);
	return 0;
}

void diff_free(struct diff *d)
{
	size_t i, k;

	for (i = 0; i < d->change_count; i++) {
		for (k = 0; k < d->changes[i].call_count; k++)
			free(d->changes[i].calls[k].name);
		free(d->changes[i].calls);
	}
	free(d->changes);
	free(d->sites);
	free(d->findings);
	memset(d, 0, sizeof(*d));
}
