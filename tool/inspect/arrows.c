/* SPDX-License-Identifier: MIT */
#include "inspect/arrows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_LANE UINT32_MAX

/* All jumps to one line. */
struct bundle {
	uint32_t to, top, bottom; /* lines */
	uint32_t lane;            /* 0: next to the code */
	size_t first, count;      /* in arrows.jumps */
};

struct arrows {
	struct jump *jumps;       /* by target, then source */
	struct bundle *bundles;   /* by target */
	size_t bundle_count;
	uint32_t lines;
	unsigned lanes;           /* used */
	uint32_t *at;             /* [line * lanes + lane]: bundle + 1 that is there; 0 */
	uint8_t *marks;           /* by line: MARK_* */
};
#define MARK_SOURCE 1u
#define MARK_TARGET 2u
#define MARK_DOWN   4u /* jumps there without a lane */
#define MARK_UP     8u

static int jump_order(const void *a, const void *b)
{
	const struct jump *x = a, *y = b;

	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* The shortest first, then from the top. */
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

static bool is_free(const uint32_t *column, const struct bundle *b)
{
	uint32_t line;

	for (line = b->top; line <= b->bottom; line++)
		if (column[line])
			return false;
	return true;
}

/* Each in the innermost lane that is free all along. */
static bool lanes_assign(struct arrows *a, unsigned most)
{
	struct bundle **order = malloc((a->bundle_count + 1) * sizeof(*order));
	uint32_t *columns = calloc((size_t)most * a->lines + 1, sizeof(*columns));
	size_t i;
	uint32_t line, lane;

	if (!order || !columns) {
		free(order);
		free(columns);
		return false;
	}
	for (i = 0; i < a->bundle_count; i++)
		order[i] = &a->bundles[i];
	if (a->bundle_count)
		qsort(order, a->bundle_count, sizeof(*order), bundle_order);
	for (i = 0; i < a->bundle_count; i++) {
		struct bundle *b = order[i];

		for (lane = 0; lane < most; lane++) {
			uint32_t *column = columns + (size_t)lane * a->lines;

			if (!is_free(column, b))
				continue;
			for (line = b->top; line <= b->bottom; line++)
				column[line] = (uint32_t)(b - a->bundles) + 1;
			b->lane = lane;
			a->lanes = lane + 1 > a->lanes ? lane + 1 : a->lanes;
			break;
		}
	}
	free(order);
	a->at = columns;
	return true;
}

static void marks_set(struct arrows *a)
{
	size_t i, k;

	for (i = 0; i < a->bundle_count; i++) {
		const struct bundle *b = &a->bundles[i];

		if (b->lane != NO_LANE)
			a->marks[b->to] |= MARK_TARGET;
		for (k = b->first; k < b->first + b->count; k++)
			a->marks[a->jumps[k].from] |= b->lane != NO_LANE ? MARK_SOURCE : b->to > a->jumps[k].from ? MARK_DOWN : MARK_UP;
	}
}

struct arrows *arrows_make(const struct jump *jumps, size_t count, uint32_t lines, unsigned lanes)
{
	struct arrows *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->lines = lines;
	a->jumps = malloc((count + 1) * sizeof(*a->jumps));
	a->bundles = malloc((count + 1) * sizeof(*a->bundles));
	a->marks = calloc((size_t)lines + 1, 1);
	if (!a->jumps || !a->bundles || !a->marks) {
		arrows_free(a);
		return NULL;
	}
	if (count) {
		memcpy(a->jumps, jumps, count * sizeof(*jumps));
		qsort(a->jumps, count, sizeof(*a->jumps), jump_order);
	}
	bundles_find(a, count);
	if (!lanes_assign(a, lanes)) {
		arrows_free(a);
		return NULL;
	}
	marks_set(a);
	return a;
}

void arrows_free(struct arrows *a)
{
	if (!a)
		return;
	free(a->jumps);
	free(a->bundles);
	free(a->at);
	free(a->marks);
	free(a);
}

/* A lane each, and the head. */
unsigned arrows_width(const struct arrows *a) { return a->bundle_count ? a->lanes + 2 : 0; }

/* Does the line of a target begin or end here, and not only go by? */
static bool ends_here(const struct arrows *a, const struct bundle *b, uint32_t line)
{
	const struct jump key = {line, b->to};

	return b->to == line || bsearch(&key, a->jumps + b->first, b->count, sizeof(key), jump_order);
}

enum piece { BLANK, VERTICAL, HORIZONTAL, TOP, BOTTOM, MIDDLE, TOP_ACROSS, BOTTOM_ACROSS, MIDDLE_ACROSS, PIECES };

static const char *piece_text(enum piece p, bool unicode)
{
	static const char *const plain[PIECES] = {" ", "|", "-", "/", "\\", "+", "+", "+", "+"};
	static const char *const drawn[PIECES] = {" ", "│", "─", "╭", "╰", "├", "┬", "┴", "┼"};

	return unicode ? drawn[p] : plain[p];
}

/* One lane of a line; *across: something comes from a lane further out. */
static enum piece lane_piece(const struct arrows *a, uint32_t line, uint32_t lane, bool *across)
{
	uint32_t n = a->at[(size_t)lane * a->lines + line];
	const struct bundle *b = n ? &a->bundles[n - 1] : NULL;
	bool before = *across;

	if (!b)
		return before ? HORIZONTAL : BLANK;
	if (!ends_here(a, b, line))
		return VERTICAL; /* what comes across passes under it */
	*across = true;
	if (b->top == b->bottom)
		return HORIZONTAL;
	if (line == b->top)
		return before ? TOP_ACROSS : TOP;
	if (line == b->bottom)
		return before ? BOTTOM_ACROSS : BOTTOM;
	return before ? MIDDLE_ACROSS : MIDDLE;
}

void arrows_line(const struct arrows *a, uint32_t line, bool unicode, char *out, size_t size)
{
	unsigned mark = a->marks[line];
	bool across = false;
	uint32_t lane;
	size_t n = 0;

	out[0] = 0;
	if (!a->bundle_count)
		return;
	for (lane = a->lanes; lane-- > 0 && n < size;)
		n += (size_t)snprintf(out + n, size - n, "%s", piece_text(lane_piece(a, line, lane, &across), unicode));
	if (n < size)
		snprintf(out + n, size - n, "%s", mark & MARK_TARGET ? ">" : mark & MARK_SOURCE ? piece_text(HORIZONTAL, unicode)
		         : mark & MARK_DOWN ? "v" : mark & MARK_UP ? "^" : " ");
	n = strlen(out);
	if (n < size)
		snprintf(out + n, size - n, " ");
}
