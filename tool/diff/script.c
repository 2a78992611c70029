/* SPDX-License-Identifier: MIT */
/*
 * E. Myers, An O(ND) Difference Algorithm and Its Variations, Algorithmica 1 (1986): the
 * variation that needs linear space (section 4b), with a bound on the work of each step.
 */
#include "diff/script.h"

#include <stdlib.h>
#include <string.h>

#define COST_MOST 200 /* differences that one step looks through for the best place to cut */

#define NEIGHBOURS_MOST 16 /* in one function */

/* Two sequences, and the furthest points of forward and backward paths by diagonal. */
struct sequences {
	const struct token *a, *b;
	bool *gone, *come;
	int64_t *forward, *backward; /* at diagonal x - y */
};

struct cut {
	int64_t x, y;
};

/* Too much has been tried: cut where a path has come furthest. */
static struct cut cut_best(const struct sequences *s, int64_t x0, int64_t x1, int64_t y0, int64_t y1, const int64_t lo[2],
                           const int64_t hi[2])
{
	int64_t best = -1, back = INT64_MAX, d, x, y;
	struct cut f = {x0, y0}, b = {x1, y1};

	for (d = hi[0]; d >= lo[0]; d -= 2) {
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
	for (d = hi[1]; d >= lo[1]; d -= 2) {
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

/* One more difference on each forward path; true: one has met a backward path. */
static bool step_forward(const struct sequences *s, int64_t x1, int64_t y1, const int64_t lo[2], const int64_t hi[2],
                         bool odd, struct cut *out)
{
	int64_t d, x, y;

	for (d = hi[0]; d >= lo[0]; d -= 2) {
		int64_t below = s->forward[d - 1], above = s->forward[d + 1];

		x = below < above ? above : below + 1;
		for (y = x - d; x < x1 && y < y1 && s->a[x].hash == s->b[y].hash; x++)
			y++;
		s->forward[d] = x;
		if (odd && lo[1] <= d && d <= hi[1] && s->backward[d] <= x) {
			*out = (struct cut){x, y};
			return true;
		}
	}
	return false;
}

static bool step_backward(const struct sequences *s, int64_t x0, int64_t y0, const int64_t lo[2], const int64_t hi[2],
                          bool odd, struct cut *out)
{
	int64_t d, x, y;

	for (d = hi[1]; d >= lo[1]; d -= 2) {
		int64_t below = s->backward[d - 1], above = s->backward[d + 1];

		x = below < above ? below : above - 1;
		for (y = x - d; x > x0 && y > y0 && s->a[x - 1].hash == s->b[y - 1].hash; x--)
			y--;
		s->backward[d] = x;
		if (!odd && lo[0] <= d && d <= hi[0] && x <= s->forward[d]) {
			*out = (struct cut){x, y};
			return true;
		}
	}
	return false;
}

/* Diagonals grow by one on both sides, up to the corners. */
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

/* A point on a shortest path of [x0, x1) and [y0, y1), whose ends differ, about in its middle. */
static struct cut cut_find(const struct sequences *s, int64_t x0, int64_t x1, int64_t y0, int64_t y1)
{
	int64_t least = x0 - y1, most = x1 - y0;
	int64_t lo[2] = {x0 - y0, x1 - y1}, hi[2] = {x0 - y0, x1 - y1}; /* forward, backward */
	bool odd = (lo[0] - lo[1]) & 1;
	struct cut out;
	int cost;

	s->forward[lo[0]] = x0;
	s->backward[lo[1]] = x1;
	for (cost = 1;; cost++) {
		widen(s->forward, &lo[0], &hi[0], least, most, -1);
		if (step_forward(s, x1, y1, lo, hi, odd, &out))
			return out;
		widen(s->backward, &lo[1], &hi[1], least, most, INT64_MAX);
		if (step_backward(s, x0, y0, lo, hi, odd, &out))
			return out;
		if (cost >= COST_MOST)
			return cut_best(s, x0, x1, y0, y1, lo, hi);
	}
}

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
		/* The shorter half by a call: the depth stays small. */
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
		s->gone[x0] = true;
	for (; y0 < y1; y0++)
		s->come[y0] = true;
}

static int script_room(struct script *s, size_t na, size_t nb, struct error *e)
{
	size_t diagonals = 2 * (na + nb + 3);

	if (s->room[0] < na + 1) {
		free(s->gone);
		s->gone = malloc(na + 1);
		s->room[0] = s->gone ? na + 1 : 0;
	}
	if (s->room[1] < nb + 1) {
		free(s->come);
		s->come = malloc(nb + 1);
		s->room[1] = s->come ? nb + 1 : 0;
	}
	if (s->to_room < na + 1) {
		free(s->to);
		s->to = malloc((na + 1) * sizeof(*s->to));
		s->to_room = s->to ? na + 1 : 0;
	}
	if (s->diagonal_room < diagonals) {
		free(s->diagonals);
		s->diagonals = malloc(diagonals * sizeof(*s->diagonals));
		s->diagonal_room = s->diagonals ? diagonals : 0;
	}
	if (!s->room[0] || !s->room[1] || !s->to_room || !s->diagonal_room)
		return error_set(e, "out of memory");
	memset(s->gone, 0, na + 1);
	memset(s->come, 0, nb + 1);
	return 0;
}

/* Who is who; then jumps whose targets are not the same any more, so that they are not. */
static void jumps_check(struct script *s, const struct body *old, const struct body *new)
{
	size_t i, k;

	for (i = k = 0; i < old->count; i++) {
		s->to[i] = -1;
		if (s->gone[i])
			continue;
		while (k < new->count && s->come[k])
			k++;
		s->to[i] = (int64_t)k++;
	}
	s->to[old->count] = (int64_t)new->count;
	for (i = 0; i < old->count; i++) {
		int32_t from = old->tokens[i].jump, to;

		if (s->to[i] < 0)
			continue;
		to = new->tokens[s->to[i]].jump;
		if (from < 0 && to < 0)
			continue;
		if (from >= 0 && to >= 0 &&
		    (s->to[from] < 0 ? (size_t)to < new->count && s->come[to] : s->to[from] == to))
			continue;
		s->gone[i] = true;
	}
	for (i = 0; i < old->count; i++)
		if (s->gone[i] && s->to[i] >= 0) {
			s->come[s->to[i]] = true;
			s->to[i] = -1;
		}
}

/* An address just before something (a pointer that is counted up before it is used) is in
 * whatever the linker has put there: not a difference. */
static void neighbours_check(struct script *s, const struct script_side *old, const struct script_side *new)
{
	size_t i = 0, k = 0;

	if (s->gone_count != s->come_count || s->gone_count > NEIGHBOURS_MOST)
		return;
	for (; i < old->body->count; i++) {
		if (!s->gone[i])
			continue;
		while (k < new->body->count && !s->come[k])
			k++;
		if (body_near(old->im, old->func, old->body, i, new->im, new->func, new->body, k)) {
			s->gone[i] = s->come[k] = false;
			s->to[i] = (int64_t)k;
			s->gone_count--;
			s->come_count--;
		}
		k++;
	}
}

static int script_run(struct script *s, const struct script_side *old, const struct script_side *new, struct error *e)
{
	size_t na = old->body->count, nb = new->body->count, i;
	struct sequences q = {old->body->tokens, new->body->tokens, NULL, NULL, NULL, NULL};

	if (script_room(s, na, nb, e))
		return -1;
	q.gone = s->gone;
	q.come = s->come;
	q.forward = s->diagonals + nb + 1;
	q.backward = q.forward + na + nb + 3;
	sequences_compare(&q, 0, (int64_t)na, 0, (int64_t)nb);
	jumps_check(s, old->body, new->body);
	for (s->gone_count = i = 0; i < na; i++)
		s->gone_count += s->gone[i];
	for (s->come_count = i = 0; i < nb; i++)
		s->come_count += s->come[i];
	neighbours_check(s, old, new);
	return 0;
}

int script_make(struct script *s, const struct script_side *old, const struct script_side *new, struct error *e)
{
	const struct body *a = old->body, *b = new->body;
	struct script turned;

	/* Always the same way round, so that the answer does not depend on which file is named first. */
	if (a->count != b->count ? a->count < b->count : a->code <= b->code)
		return script_run(s, old, new, e);
	if (script_run(s, new, old, e))
		return -1;
	turned = *s;
	s->gone = turned.come;
	s->come = turned.gone;
	s->gone_count = turned.come_count;
	s->come_count = turned.gone_count;
	s->room[0] = turned.room[1];
	s->room[1] = turned.room[0];
	return 0;
}

void script_free(struct script *s)
{
	free(s->gone);
	free(s->come);
	free(s->to);
	free(s->diagonals);
	memset(s, 0, sizeof(*s));
}
