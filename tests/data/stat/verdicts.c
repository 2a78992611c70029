/* SPDX-License-Identifier: MIT */
/*
 * The rule of noise of etch stat, on numbers from standard input. A line each:
 *     shift N M a1 ... aN b1 ... bM   ->  "LOW HIGH", or "-"
 *     rank N M                        ->  K
 *     spread N a1 ... aN              ->  "MEDIAN MAD MIN MAX"
 */
#include "stat/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill(struct samples *s, size_t n)
{
	double v;

	while (n--)
		if (scanf("%lf", &v) != 1 || !samples_add(s, v))
			exit(1);
}

int main(void)
{
	struct samples a = {0}, b = {0};
	struct spread spread;
	struct shift shift;
	char what[16];
	size_t n, m;

	while (scanf("%15s", what) == 1) {
		a.count = b.count = 0;
		if (!strcmp(what, "spread")) {
			if (scanf("%zu", &n) != 1)
				return 1;
			fill(&a, n);
			if (!samples_spread(&a, &spread))
				return 1;
			printf("%.17g %.17g %.17g %.17g\n", spread.median, spread.mad, spread.min, spread.max);
			continue;
		}
		if (scanf("%zu %zu", &n, &m) != 2)
			return 1;
		if (!strcmp(what, "rank")) {
			printf("%zu\n", shift_rank(n, m));
			continue;
		}
		fill(&a, n);
		fill(&b, m);
		if (samples_shift(&a, &b, &shift))
			printf("%.17g %.17g\n", shift.low, shift.high);
		else
			puts("-");
	}
	samples_free(&a);
	samples_free(&b);
	return 0;
}
