/* SPDX-License-Identifier: MIT */
/* Lays out arrows in lanes and draws them. */
#include "inspect/arrows.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_LANE UINT32_MAX

/* All jumps to one line of the listing. They share one vertical line. */
struct bundle {
	uint32_t to, top, bottom; /* numbers of lines */
	uint32_t lane;            /* lane 0 is next to the code */
	size_t first, count;      /* range of its jumps in arrows.jumps */
};

/* The layout of all arrows of a listing. */
struct arrows {
	struct jump *jumps;     /* sorted by target, then source */
	struct bundle *bundles; /* sorted by target */
	size_t bundle_count;
	uint32_t lines;
	unsigned lanes; /* number of lanes in use */
	uint32_t *at;   /* at[lane * lines + line] is 1 + the index of the bundle that is drawn there; 0: none */
	uint8_t *marks; /* for each line: MARK_* */
};
#define MARK_SOURCE 1u
#define MARK_TARGET 2u
#define MARK_DOWN   4u /* a jump without a lane begins at the line */
#define MARK_UP     8u

static int jump_order(const void *a, const void *b)
{
	const struct jump *x = a, *y = b;

	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* Sorts bundles by length, the shortest first, and those of equal length by line. */
static int bundle_order(const void *a, const void *b)
{
	const struct bundle *x = *(struct bundle *const *)a, *y = *(struct bundle *const *)b;
	uint32_t m = x->bottom - x->top, n = y->bottom - y->top;

	if (m != n)
		return m < n ? -1 : 1;
	return x->top < y->top ? -1 : x->top > y->top;
}

static void bundles_find(struct arrows *a, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		struct bundle *b = a->bundle_count ? &a->bundles[a->bundle_count - 1] : NULL;
		uint32_t from = a->jumps[i].from, to = a->jumps[i].to;

		if (!b || b->to != to) {
			b = &a->bundles[a->bundle_count++];
			*b = (struct bundle){.to = to, .top = to, .bottom = to, .lane = NO_LANE, .first = i};
		}
		b->count++;
		b->top = from < b->top ? from : b->top;
		b->bottom = from > b->bottom ? from : b->bottom;
	}
}

/*
 * Returns the number of bundle ends before a line. Each lane has a binary indexed tree, indexed by line, which counts
 * the lines at which bundles begin or end.
 */
static uint32_t ends_before(const uint32_t *tree, uint32_t line)
{
	uint32_t n = 0;

	for (; line; line &= line - 1)
		n += tree[line];
	return n;
}

static void ends_add(uint32_t *tree, uint32_t lines, uint32_t line)
{
	for (line++; line <= lines; line += line & -line)
		tree[line]++;
}

/*
 * True if a lane has no bundle yet where b is to go. Bundles are added in order of length, so a bundle that overlaps b
 * begins or ends inside b.
 */
static bool is_free(const uint32_t *tree, const struct bundle *b)
{
	return ends_before(tree, b->bottom + 1) == ends_before(tree, b->top);
}

/* Puts each bundle into the innermost lane that is free from its top to its bottom. */
static void lanes_assign(struct arrows *a, unsigned most)
{
	struct bundle **order = mem_alloc(a->bundle_count + 1, sizeof(*order));
	uint32_t *columns = mem_zero((size_t)most * a->lines + 1, sizeof(*columns));
	uint32_t *trees = mem_zero((size_t)most * ((size_t)a->lines + 1) + 1, sizeof(*trees));
	size_t i;
	uint32_t line, lane;

	for (i = 0; i < a->bundle_count; i++)
		order[i] = &a->bundles[i];
	if (a->bundle_count)
		qsort(order, a->bundle_count, sizeof(*order), bundle_order);
	for (i = 0; i < a->bundle_count; i++) {
		struct bundle *b = order[i];

		for (lane = 0; lane < most; lane++) {
			uint32_t *column = columns + (size_t)lane * a->lines, *tree = trees + (size_t)lane * ((size_t)a->lines + 1);

			if (!is_free(tree, b))
				continue;
			ends_add(tree, a->lines, b->top);
			ends_add(tree, a->lines, b->bottom);
			for (line = b->top; line <= b->bottom; line++)
				column[line] = (uint32_t)(b - a->bundles) + 1;
			b->lane = lane;
			a->lanes = lane + 1 > a->lanes ? lane + 1 : a->lanes;
			break;
		}
	}
	free(order);
	free(trees);
	a->at = columns;
}

static void marks_set(struct arrows *a)
{
	size_t i, k;

	for (i = 0; i < a->bundle_count; i++) {
		const struct bundle *b = &a->bundles[i];

		if (b->lane != NO_LANE)
			a->marks[b->to] |= MARK_TARGET;
		for (k = b->first; k < b->first + b->count; k++) {
			uint32_t from = a->jumps[k].from;

			if (b->lane != NO_LANE)
				a->marks[from] |= MARK_SOURCE;
			else
				a->marks[from] |= b->to > from ? MARK_DOWN : MARK_UP;
		}
	}
}

struct arrows *arrows_make(const struct jump *jumps, size_t count, uint32_t lines, unsigned lanes)
{
	struct arrows *a = mem_zero(1, sizeof(*a));

	a->lines = lines;
	a->jumps = mem_copy(jumps, count * sizeof(*jumps));
	a->bundles = mem_alloc(count + 1, sizeof(*a->bundles));
	a->marks = mem_zero((size_t)lines + 1, 1);
	if (count)
		qsort(a->jumps, count, sizeof(*a->jumps), jump_order);
	bundles_find(a, count);
	lanes_assign(a, lanes);
	marks_set(a);
	return a;
}

void arrows_free(struct arrows *a)
{
	free(a->jumps);
	free(a->bundles);
	free(a->at);
	free(a->marks);
	free(a);
}

/* There is one column per lane, one for the arrowhead, and a blank. */
unsigned arrows_width(const struct arrows *a) { return a->bundle_count ? a->lanes + 2 : 0; }

/* True if a jump of the bundle begins or ends at this line; false if the vertical line only passes it. */
static bool ends_here(const struct arrows *a, const struct bundle *b, uint32_t line)
{
	const struct jump key = {line, b->to};

	return b->to == line || bsearch(&key, a->jumps + b->first, b->count, sizeof(key), jump_order);
}

enum glyph { BLANK, VERTICAL, HORIZONTAL, TOP, BOTTOM, MIDDLE, TOP_ACROSS, BOTTOM_ACROSS, MIDDLE_ACROSS, GLYPHS };

static const char *glyph_text(enum glyph p, bool unicode)
{
	static const char *const plain[GLYPHS] = {" ", "|", "-", "/", "\\", "+", "+", "+", "+"};
	static const char *const drawn[GLYPHS] = {" ", "│", "─", "╭", "╰", "├", "┬", "┴", "┼"};

	return unicode ? drawn[p] : plain[p];
}

/* Returns what to draw in one lane of a line. Sets *across if a horizontal line comes in from an outer lane. */
static enum glyph lane_glyph(const struct arrows *a, uint32_t line, uint32_t lane, bool *across)
{
	uint32_t n = a->at[(size_t)lane * a->lines + line];
	const struct bundle *b = n ? &a->bundles[n - 1] : NULL;
	bool before = *across;

	if (!b)
		return before ? HORIZONTAL : BLANK;
	if (!ends_here(a, b, line))
		return VERTICAL; /* the vertical line is drawn over the horizontal one */
	*across = true;
	if (b->top == b->bottom)
		return HORIZONTAL;
	if (line == b->top)
		return before ? TOP_ACROSS : TOP;
	if (line == b->bottom)
		return before ? BOTTOM_ACROSS : BOTTOM;
	return before ? MIDDLE_ACROSS : MIDDLE;
}

/* Returns the text between the lanes and the code of a line: the head of an arrow, its start, or a blank. */
static const char *head_text(unsigned mark, bool unicode)
{
	if (mark & MARK_TARGET)
		return ">";
	if (mark & MARK_SOURCE)
		return glyph_text(HORIZONTAL, unicode);
	if (mark & MARK_DOWN)
		return "v";
	return mark & MARK_UP ? "^" : " ";
}

void arrows_line(const struct arrows *a, uint32_t line, bool unicode, char *out, size_t size)
{
	bool across = false;
	uint32_t lane;
	size_t n = 0;

	out[0] = 0;
	if (!a->bundle_count)
		return;
	for (lane = a->lanes; lane-- > 0 && n < size;)
		n += (size_t)snprintf(out + n, size - n, "%s", glyph_text(lane_glyph(a, line, lane, &across), unicode));
	if (n < size)
		snprintf(out + n, size - n, "%s", head_text(a->marks[line], unicode));
	n = strlen(out);
	if (n < size)
		snprintf(out + n, size - n, " ");
}
