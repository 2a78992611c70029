/* SPDX-License-Identifier: MIT */
/* Computes the median, spread and shift of samples (samples.h). The shift comes from a Mann-Whitney rank test. */
#include "stat/samples.h"
#include "support/memory.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXACT       50                 /* for more runs, the normal approximation replaces the exact distribution */
#define NORMAL_TAIL 2.5758293035489004 /* quantile of the normal distribution for SHIFT_ERROR, two-sided */

bool samples_add(struct samples *s, double value)
{
	if (!mem_reserve_try(&s->list, &s->capacity, s->count, sizeof(*s->list)))
		return false;
	s->list[s->count++] = value;
	return true;
}

void samples_free(struct samples *s)
{
	free(s->list);
	memset(s, 0, sizeof(*s));
}

static int number_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double *sorted(const struct samples *s)
{
	double *list = malloc((s->count + 1) * sizeof(*list));

	if (!list)
		return NULL;
	if (s->count)
		memcpy(list, s->list, s->count * sizeof(*list));
	qsort(list, s->count, sizeof(*list), number_order);
	return list;
}

static double middle(const double *list, size_t n) { return n & 1 ? list[n / 2] : (list[n / 2 - 1] + list[n / 2]) / 2; }

bool samples_spread(const struct samples *s, struct spread *out)
{
	double *list;
	size_t i;

	if (!s->count)
		return false;
	list = sorted(s);
	if (!list)
		return false;
	out->median = middle(list, s->count);
	out->min = list[0];
	out->max = list[s->count - 1];
	for (i = 0; i < s->count; i++)
		list[i] = fabs(list[i] - out->median);
	qsort(list, s->count, sizeof(*list), number_order);
	out->mad = middle(list, s->count);
	free(list);
	return true;
}

/*
 * Computes the distribution of U, the number of pairs in which b is the smaller one, for equal commands. Every order of
 * the n + m runs is then equally likely, and the last of them is one of a (which has all m of b below it) or one of b:
 *     P(n, m, u) = n/(n+m) P(n-1, m, u-m) + m/(n+m) P(n, m-1, u).
 * p holds P(n, j, u) for j up to m, and is computed for one n after the other.
 */
static void u_distribution(double *p, size_t n, size_t m)
{
	size_t width = n * m + 1, i, j, u;

	memset(p, 0, (m + 1) * width * sizeof(*p));
	for (j = 0; j <= m; j++)
		p[j * width] = 1;
	for (i = 1; i <= n; i++)
		for (j = 1; j <= m; j++) {
			double from_a = (double)i / (double)(i + j), from_b = (double)j / (double)(i + j);
			double *row = p + j * width;

			for (u = i * j + 1; u-- > 0;)
				row[u] = (u >= j ? from_a * row[u - j] : 0) + from_b * row[u - width];
		}
}

static size_t exact_rank(size_t n, size_t m)
{
	size_t width = n * m + 1, k;
	double *p = malloc((m + 1) * width * sizeof(*p)), below = 0;

	if (!p)
		return 0;
	u_distribution(p, n, m);
	for (k = 0; k < width; k++) {
		below += p[m * width + k];
		if (below > SHIFT_ERROR / 2 + 1e-12)
			break;
	}
	free(p);
	return k;
}

size_t shift_rank(size_t a, size_t b)
{
	double mean = (double)a * (double)b / 2, deviation = sqrt(mean * ((double)a + (double)b + 1) / 6), rank;

	if (!a || !b)
		return 0;
	if (a <= EXACT && b <= EXACT)
		return exact_rank(a, b);
	rank = floor(mean - NORMAL_TAIL * deviation - 0.5) + 1;
	return rank < 1 ? 0 : (size_t)rank;
}

/* Maps doubles to integers in the same order, and back. */
static uint64_t key_of(double d)
{
	uint64_t bits;

	memcpy(&bits, &d, sizeof(bits));
	return bits >> 63 ? ~bits : bits | 1ull << 63;
}

static double of_key(uint64_t key)
{
	uint64_t bits = key >> 63 ? key & ~(1ull << 63) : ~key;
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

/* Counts the differences b - a that are at most d. Both lists are sorted. */
static size_t differences_up_to(const double *a, size_t n, const double *b, size_t m, double d)
{
	size_t i, j = 0, count = 0;

	for (i = 0; i < n; i++) {
		while (j < m && b[j] - a[i] <= d)
			j++;
		count += j;
	}
	return count;
}

/*
 * Returns the k-th smallest difference, with k counted from 1. There may be 10^10 differences, so the result is found
 * by bisecting the values between the smallest and the largest.
 */
static double difference_at(const double *a, size_t n, const double *b, size_t m, size_t k)
{
	uint64_t low = key_of(b[0] - a[n - 1]), high = key_of(b[m - 1] - a[0]);

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		if (differences_up_to(a, n, b, m, of_key(mid)) >= k)
			high = mid;
		else
			low = mid + 1;
	}
	return of_key(low) + 0.0; /* turns -0 into 0 */
}

bool samples_shift(const struct samples *a, const struct samples *b, struct shift *out)
{
	size_t k = shift_rank(a->count, b->count);
	double *x, *y;

	if (!k)
		return false;
	x = sorted(a);
	y = sorted(b);
	if (x && y) {
		out->low = difference_at(x, a->count, y, b->count, k);
		out->high = difference_at(x, a->count, y, b->count, a->count * b->count + 1 - k);
	}
	free(x);
	free(y);
	return x && y;
}
