/* SPDX-License-Identifier: MIT */
/* Prints a unified diff of two functions. */
#include "diff/diff_print.h"

#include "diff/script.h"
#include "report/text.h"
#include "support/demangle.h"
#include "support/memory.h"
#include "support/typed_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT    3
#define LINE_MOST  800
#define NAMED_MOST 4 /* number of functions that are listed if a name may mean several */

/* A line of the diff: an instruction of one function, or one that is equal in both. */
struct line {
	int64_t old, new; /* indices of tokens; -1: none */
};

/* What is needed to print one pair; [0] is the old function, [1] the new one. */
struct viewer {
	const struct diff *d;
	uint32_t func[2];
	struct body body[2];
	struct script script;
	struct line *lines;
	size_t count;
	int32_t *label[2]; /* for each token: the number of its label, or 0 */
};

static void viewer_free(struct viewer *v)
{
	body_free(&v->body[0]);
	body_free(&v->body[1]);
	script_free(&v->script);
	free(v->lines);
	free(v->label[0]);
	free(v->label[1]);
}

static const struct image *side(const struct viewer *v, unsigned i) { return i ? v->d->new : v->d->old; }

static void bodies_make(struct viewer *v)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		if (v->func[i] == NO_FUNC)
			continue;
		body_make(side(v, i), v->func[i], &v->body[i]);
		body_name(side(v, i), &v->body[i]);
	}
	script_make(&v->script, &(struct body_side){v->d->old, v->func[0], &v->body[0]},
	            &(struct body_side){v->d->new, v->func[1], &v->body[1]});
}

/* Makes the lines. Removed lines come before inserted ones, as in diff. */
static void lines_make(struct viewer *v)
{
	size_t i = 0, k = 0;

	v->lines = mem_alloc(v->body[0].count + v->body[1].count + 1, sizeof(*v->lines));
	v->label[0] = mem_zero(v->body[0].count + 1, sizeof(int32_t));
	v->label[1] = mem_zero(v->body[1].count + 1, sizeof(int32_t));
	while (i < v->body[0].count || k < v->body[1].count) {
		struct line *l = &v->lines[v->count++];

		if (i < v->body[0].count && v->script.removed[i])
			*l = (struct line){(int64_t)i++, -1};
		else if (k < v->body[1].count && v->script.inserted[k])
			*l = (struct line){-1, (int64_t)k++};
		else
			*l = (struct line){(int64_t)i++, (int64_t)k++};
	}
}

/*
 * Numbers the targets of jumps, in the order of the lines. Two equal tokens get the same label if either of them is a
 * target.
 */
static void labels_make(struct viewer *v)
{
	int32_t next = 0;
	unsigned s;
	size_t i;

	for (s = 0; s < 2; s++)
		for (i = 0; i < v->body[s].count; i++)
			if (v->body[s].tokens[i].jump >= 0)
				v->label[s][v->body[s].tokens[i].jump] = 1;
	for (i = 0; i < v->count; i++) {
		const struct line *l = &v->lines[i];
		bool old = l->old >= 0 && v->label[0][l->old], new = l->new >= 0 && v->label[1][l->new];

		if (!old && !new)
			continue;
		next++;
		if (l->old >= 0)
			v->label[0][l->old] = next;
		if (l->new >= 0)
			v->label[1][l->new] = next;
	}
	v->label[0][v->body[0].count] = v->label[1][v->body[1].count] = next + 1; /* the label of the end of the function */
}

static void line_print(const struct viewer *v, const struct line *l)
{
	unsigned s = l->new >= 0;
	size_t token = (size_t)(s ? l->new : l->old);
	const struct body *b = &v->body[s];
	int32_t jump = b->tokens[token].jump;
	char text[LINE_MOST], label[32] = "?", here[32] = "", mark = s ? '+' : '-';

	if (jump >= 0)
		snprintf(label, sizeof(label), "L%d", v->label[s][jump]);
	if (v->label[s][token])
		snprintf(here, sizeof(here), "L%d:", v->label[s][token]);
	body_text(&(struct body_side){side(v, s), v->func[s], b}, token, label, text, sizeof(text));
	if (l->old >= 0 && l->new >= 0)
		mark = ' ';
	printf("%c%-5s ", mark, here);
	text_clean(stdout, text);
	putchar('\n');
}

static bool line_differs(const struct line *l) { return l->old < 0 || l->new < 0; }

/* Prints the heading of a part, such as "@@ -12,7 +12,9 @@", and its lines [from, end). */
static void hunk_print(const struct viewer *v, size_t from, size_t end)
{
	size_t old = 0, new = 0, old_count = 0, new_count = 0, i;

	for (i = 0; i < end; i++) {
		old += i < from && v->lines[i].old >= 0;
		new += i < from && v->lines[i].new >= 0;
		old_count += i >= from && v->lines[i].old >= 0;
		new_count += i >= from && v->lines[i].new >= 0;
	}
	printf("@@ -%zu,%zu +%zu,%zu @@\n", old + (old_count != 0), old_count, new + (new_count != 0), new_count);
	for (i = from; i < end; i++)
		line_print(v, &v->lines[i]);
}

static bool hunks_print(const struct viewer *v)
{
	size_t i, from, last, k;
	bool any = false;

	for (i = 0; i < v->count; i++) {
		if (!line_differs(&v->lines[i]))
			continue;
		any = true;
		from = i > CONTEXT ? i - CONTEXT : 0;
		for (last = k = i; k < v->count && k <= last + 2 * CONTEXT; k++)
			if (line_differs(&v->lines[k]))
				last = k;
		k = last + CONTEXT + 1;
		hunk_print(v, from, k < v->count ? k : v->count);
		i = last;
	}
	return any;
}

static void side_head(const struct viewer *v, unsigned s)
{
	char name[512] = "(none)";

	if (v->func[s] != NO_FUNC)
		image_name(side(v, s), v->func[s], name, sizeof(name));
	printf("%s ", s ? "+++" : "---");
	text_clean(stdout, side(v, s)->file.path);
	printf("\t");
	text_clean(stdout, name);
	putchar('\n');
}

static const struct change *change_of(const struct diff *d, uint32_t old, uint32_t new)
{
	size_t i;

	for (i = 0; i < d->change_count; i++)
		if (d->changes[i].old == old && d->changes[i].new == new)
			return &d->changes[i];
	return NULL;
}

/* Prints the differences that are not in the lines. */
static void rest_print(const struct viewer *v, const struct change *x, bool any)
{
	const struct function *a, *b;

	if (x->old == NO_FUNC || x->new == NO_FUNC)
		return;
	a = &v->d->old->funcs[x->old];
	b = &v->d->new->funcs[x->new];
	if (x->code && !any)
		puts("# same instructions; their operands or jump-table targets differ");
	if (x->frame)
		printf("# stack frame: %u -> %u bytes\n", a->depth, b->depth);
	if (x->rows)
		printf("# unwind rows: %u -> %u%s\n", a->rows, b->rows, a->rows == b->rows ? " (different rules)" : "");
}

/* If a pair of functions differs, prints it and returns true. */
static bool pair_show(const struct diff *d, uint32_t old, uint32_t new)
{
	const struct change *x = change_of(d, old, new);
	struct viewer v = {.d = d, .func = {old, new}};

	if (!x)
		return false;
	bodies_make(&v);
	lines_make(&v);
	labels_make(&v);
	side_head(&v, 0);
	side_head(&v, 1);
	rest_print(&v, x, hunks_print(&v));
	viewer_free(&v);
	return true;
}

static bool has_name(const struct image *im, uint32_t func, const char *name)
{
	const struct function *fn = &im->funcs[func];
	char own[512];
	uint32_t k;

	for (k = 0; k < fn->alias_count; k++)
		if (!strcmp(im->aliases[fn->alias + k], name))
			return true;
	image_name(im, func, own, sizeof(own)); /* e.g. ".text+0x40" for functions without a name */
	return !strcmp(own, name);
}

/* The functions whose names match the user's text best so far. */
struct named {
	enum fit fit;
	const char *names[NAMED_MOST]; /* the first of these names; the files own them */
	size_t count;
};

static void name_add(struct named *n, const char *symbol, const char *text)
{
	enum fit fit = name_fit(symbol, text);
	size_t i;

	if (fit == FIT_NONE || fit < n->fit)
		return;
	if (fit > n->fit)
		*n = (struct named){.fit = fit};
	for (i = 0; i < n->count; i++)
		if (!strcmp(n->names[i], symbol))
			return;
	if (n->count < NAMED_MOST)
		n->names[n->count++] = symbol;
}

static void named_error(const struct named *n, const char *text, struct error *e)
{
	char list[NAMED_MOST * 110] = "", shown[DEMANGLED_MOST];
	size_t i, at = 0;

	for (i = 0; i < n->count; i++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%.100s", i ? ", " : "",
		                       demangle(n->names[i], DEMANGLED_FULL, shown) ? shown : n->names[i]);
	error_set(e, "there are several functions that '%.100s' may mean: %s%s", text, list,
	          n->count == NAMED_MOST ? ", ..." : "");
}

/*
 * Returns the symbol of the only function that a user may mean by a text. Returns null and a message if no function
 * matches, or several do.
 */
static const char *symbol_of(const struct diff *d, const char *text, struct error *e)
{
	const struct image *const images[] = {d->old, d->new};
	struct named n = {.fit = FIT_NONE};

	for (size_t s = 0; s < 2 && *text; s++)
		for (uint32_t i = 0; i < images[s]->func_count; i++)
			for (uint32_t k = 0; k < images[s]->funcs[i].alias_count; k++)
				name_add(&n, images[s]->aliases[images[s]->funcs[i].alias + k], text);
	if (!n.count)
		error_set(e, "no function '%.200s' in either file", text);
	else if (n.count > 1)
		named_error(&n, text, e);
	return n.count == 1 ? n.names[0] : NULL;
}

/*
 * Prints all pairs that have exactly this name. Returns 1 if one of them differs, 0 if none does, and -1 if there is no
 * such pair.
 */
static int symbol_show(const struct diff *d, const char *name)
{
	bool found = false, differs = false;
	uint32_t i;

	for (i = 0; i < d->old->func_count; i++) {
		const struct function *fn = &d->old->funcs[i];

		if (!has_name(d->old, i, name) && (fn->pair == NO_FUNC || !has_name(d->new, fn->pair, name)))
			continue;
		found = true;
		differs |= pair_show(d, i, fn->pair);
	}
	for (i = 0; i < d->new->func_count; i++) {
		const struct function *fn = &d->new->funcs[i];

		if (!has_name(d->new, i, name) || (fn->pair != NO_FUNC && fn->how != MATCHED_FOLDED))
			continue;
		found = true;
		differs |= pair_show(d, fn->pair, i);
	}
	return found ? differs : -1;
}

int diff_show(const struct diff *d, const char *name, struct error *e)
{
	int shown = symbol_show(d, name);

	if (shown >= 0)
		return shown;
	name = symbol_of(d, name, e);
	return name ? symbol_show(d, name) : -1;
}
