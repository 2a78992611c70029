/* SPDX-License-Identifier: MIT */
/*
 * Implements E. Myers, An O(ND) Difference Algorithm and Its Variations, Algorithmica 1 (1986), in the variant that
 * needs linear space (section 4b). In addition, the work of each step is bounded.
 */
#include "diff/script.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#define COST_MOST 200 /* number of differences after which a step splits at a point that need not be the best */

#define NEIGHBOURS_MOST 16 /* number per function */

/* Two sequences and, for each diagonal, the furthest points that the forward and the backward paths have reached. */
struct sequences {
	const struct token *a, *b;
	bool *removed, *inserted;
	int64_t *forward, *backward; /* indexed by diagonal x - y */
};

/* A point at which the comparison is split in two. */
struct cut {
	int64_t x, y;
};

/* The ranges of diagonals that have been searched: [0] by forward paths, [1] by backward paths. */
struct diagonals {
	int64_t lo[2], hi[2];
	/*
	 * The distance between the two start diagonals is odd. Then a forward step finds where paths meet; if it is even, a
	 * backward step does.
	 */
	bool odd;
};

/*
 * Called after COST_MOST differences: returns the point, among those that forward and backward paths have reached, that
 * is furthest along its path.
 */
static struct cut cut_best(const struct sequences *s, int64_t x0, int64_t x1, int64_t y0, int64_t y1,
                           const struct diagonals *g)
{
	int64_t best = -1, back = INT64_MAX, d, x, y;
	struct cut f = {x0, y0}, b = {x1, y1};

	for (d = g->hi[0]; d >= g->lo[0]; d -= 2) {
		x = s->forward[d] < x1 ? s->forward[d] : x1;
		y = x - d;
		if (y > y1) {
			x = y1 + d;
			y = y1;
		}
		if (x + y > best) {
			best = x + y;
			f = (struct cut){x, y};
		}
	}
	for (d = g->hi[1]; d >= g->lo[1]; d -= 2) {
		x = s->backward[d] > x0 ? s->backward[d] : x0;
		y = x - d;
		if (y < y0) {
			x = y0 + d;
			y = y0;
		}
		if (x + y < back) {
			back = x + y;
			b = (struct cut){x, y};
		}
	}
	return x1 + y1 - back < best - (x0 + y0) ? f : b;
}

/* Extends each forward path by one difference. Returns true if one of them has met a backward path. */
static bool step_forward(const struct sequences *s, int64_t x1, int64_t y1, const struct diagonals *g, struct cut *out)
{
	int64_t d, x, y;

	for (d = g->hi[0]; d >= g->lo[0]; d -= 2) {
		int64_t below = s->forward[d - 1], above = s->forward[d + 1];

		x = below < above ? above : below + 1;
		for (y = x - d; x < x1 && y < y1 && s->a[x].hash == s->b[y].hash; x++)
			y++;
		s->forward[d] = x;
		if (g->odd && g->lo[1] <= d && d <= g->hi[1] && s->backward[d] <= x) {
			*out = (struct cut){x, y};
			return true;
		}
	}
	return false;
}

static bool step_backward(const struct sequences *s, int64_t x0, int64_t y0, const struct diagonals *g, struct cut *out)
{
	int64_t d, x, y;

	for (d = g->hi[1]; d >= g->lo[1]; d -= 2) {
		int64_t below = s->backward[d - 1], above = s->backward[d + 1];

		x = below < above ? below : above - 1;
		for (y = x - d; x > x0 && y > y0 && s->a[x - 1].hash == s->b[y - 1].hash; x--)
			y--;
		s->backward[d] = x;
		if (!g->odd && g->lo[0] <= d && d <= g->hi[0] && x <= s->forward[d]) {
			*out = (struct cut){x, y};
			return true;
		}
	}
	return false;
}

/* Extends the range of diagonals by one at each end, up to the corners of the problem. */
static void widen(int64_t *at, int64_t *lo, int64_t *hi, int64_t least, int64_t most, int64_t outside)
{
	if (*lo > least)
		at[--*lo - 1] = outside;
	else
		++*lo;
	if (*hi < most)
		at[++*hi + 1] = outside;
	else
		--*hi;
}

/*
 * Returns a point near the middle of a shortest path through [x0, x1) and [y0, y1). The two ranges differ at both ends.
 */
static struct cut cut_find(const struct sequences *s, int64_t x0, int64_t x1, int64_t y0, int64_t y1)
{
	int64_t least = x0 - y1, most = x1 - y0;
	struct diagonals g = {{x0 - y0, x1 - y1}, {x0 - y0, x1 - y1}, (x0 - y0 - (x1 - y1)) & 1};
	struct cut out;
	int cost;

	s->forward[g.lo[0]] = x0;
	s->backward[g.lo[1]] = x1;
	for (cost = 1;; cost++) {
		widen(s->forward, &g.lo[0], &g.hi[0], least, most, -1);
		if (step_forward(s, x1, y1, &g, &out))
			return out;
		widen(s->backward, &g.lo[1], &g.hi[1], least, most, INT64_MAX);
		if (step_backward(s, x0, y0, &g, &out))
			return out;
		if (cost >= COST_MOST)
			return cut_best(s, x0, x1, y0, y1, &g);
	}
}

/* Marks the differences between [x0, x1) and [y0, y1). Splits both ranges until one of them is empty. */
static void sequences_compare(const struct sequences *s, int64_t x0, int64_t x1, int64_t y0, int64_t y1)
{
	for (;;) {
		struct cut c;

		while (x0 < x1 && y0 < y1 && s->a[x0].hash == s->b[y0].hash) {
			x0++;
			y0++;
		}
		while (x0 < x1 && y0 < y1 && s->a[x1 - 1].hash == s->b[y1 - 1].hash) {
			x1--;
			y1--;
		}
		if (x0 == x1 || y0 == y1)
			break;
		c = cut_find(s, x0, x1, y0, y1);
		/* Recursion is used only for the shorter half, which bounds its depth. */
		if (c.x - x0 + c.y - y0 < x1 - c.x + y1 - c.y) {
			sequences_compare(s, x0, c.x, y0, c.y);
			x0 = c.x;
			y0 = c.y;
		} else {
			sequences_compare(s, c.x, x1, c.y, y1);
			x1 = c.x;
			y1 = c.y;
		}
	}
	for (; x0 < x1; x0++)
		s->removed[x0] = true;
	for (; y0 < y1; y0++)
		s->inserted[y0] = true;
}

/* Allocates the arrays of a script or reuses them, and clears its marks. */
static void script_begin(struct script *s, size_t na, size_t nb)
{
	size_t diagonals = 2 * (na + nb + 3);

	if (s->capacity[0] < na + 1) {
		free(s->removed);
		s->capacity[0] = na + 1;
		s->removed = mem_alloc(na + 1, 1);
	}
	if (s->capacity[1] < nb + 1) {
		free(s->inserted);
		s->capacity[1] = nb + 1;
		s->inserted = mem_alloc(nb + 1, 1);
	}
	if (s->to_capacity < na + 1) {
		free(s->to);
		s->to_capacity = na + 1;
		s->to = mem_alloc(na + 1, sizeof(*s->to));
	}
	if (s->diagonal_capacity < diagonals) {
		free(s->diagonals);
		s->diagonal_capacity = diagonals;
		s->diagonals = mem_alloc(diagonals, sizeof(*s->diagonals));
	}
	memset(s->removed, 0, na + 1);
	memset(s->inserted, 0, nb + 1);
}

/* Sets s->to by the script. Then marks jumps as different if their targets are. */
static void jumps_check(struct script *s, const struct body *old, const struct body *new)
{
	size_t i, k;

	for (i = k = 0; i < old->count; i++) {
		s->to[i] = -1;
		if (s->removed[i])
			continue;
		while (k < new->count && s->inserted[k])
			k++;
		s->to[i] = (int64_t)k++;
	}
	s->to[old->count] = (int64_t) new->count;
	for (i = 0; i < old->count; i++) {
		int32_t from = old->tokens[i].jump, to;

		if (s->to[i] < 0)
			continue;
		to = new->tokens[s->to[i]].jump;
		if (from < 0 && to < 0)
			continue;
		if (from >= 0 && to >= 0 && (s->to[from] < 0 ? (size_t)to < new->count && s->inserted[to] : s->to[from] == to))
			continue;
		s->removed[i] = true;
	}
	for (i = 0; i < old->count; i++)
		if (s->removed[i] && s->to[i] >= 0) {
			s->inserted[s->to[i]] = true;
			s->to[i] = -1;
		}
}

/*
 * Removes the marks of instructions that differ only in an address just before an object (a pointer that is incremented
 * before use). It depends on the linker to which object such an address belongs, so it is not a difference.
 */
static void neighbours_check(struct script *s, const struct body_side *old, const struct body_side *new)
{
	size_t i = 0, k = 0;

	if (s->removed_count != s->inserted_count || s->removed_count > NEIGHBOURS_MOST)
		return;
	for (; i < old->body->count; i++) {
		if (!s->removed[i])
			continue;
		while (k < new->body->count && !s->inserted[k])
			k++;
		if (body_neighbours(old, i, new, k)) {
			s->removed[i] = s->inserted[k] = false;
			s->to[i] = (int64_t)k;
			s->removed_count--;
			s->inserted_count--;
		}
		k++;
	}
}

static void script_run(struct script *s, const struct body_side *old, const struct body_side *new)
{
	size_t na = old->body->count, nb = new->body->count, i;
	struct sequences q = {old->body->tokens, new->body->tokens, NULL, NULL, NULL, NULL};

	script_begin(s, na, nb);
	q.removed = s->removed;
	q.inserted = s->inserted;
	q.forward = s->diagonals + nb + 1;
	q.backward = q.forward + na + nb + 3;
	sequences_compare(&q, 0, (int64_t)na, 0, (int64_t)nb);
	jumps_check(s, old->body, new->body);
	for (s->removed_count = i = 0; i < na; i++)
		s->removed_count += s->removed[i];
	for (s->inserted_count = i = 0; i < nb; i++)
		s->inserted_count += s->inserted[i];
	neighbours_check(s, old, new);
}

void script_make(struct script *s, const struct body_side *old, const struct body_side *new)
{
	const struct body *a = old->body, *b = new->body;
	struct script turned;

	/*
	 * The two bodies are always compared in the same order, so that the result does not depend on which of the files is
	 * the old one.
	 */
	if (a->count != b->count ? a->count < b->count : a->code <= b->code) {
		script_run(s, old, new);
		return;
	}
	script_run(s, new, old);
	turned = *s;
	s->removed = turned.inserted;
	s->inserted = turned.removed;
	s->removed_count = turned.inserted_count;
	s->inserted_count = turned.removed_count;
	s->capacity[0] = turned.capacity[1];
	s->capacity[1] = turned.capacity[0];
}

void script_free(struct script *s)
{
	free(s->removed);
	free(s->inserted);
	free(s->to);
	free(s->diagonals);
	memset(s, 0, sizeof(*s));
}
