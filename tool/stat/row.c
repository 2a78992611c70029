/* SPDX-License-Identifier: MIT */
/* Compares the results of the two commands in a row (row.h). */
#include "stat/row.h"

#include <string.h>

void row_compare(const struct row *r, struct comparison *out)
{
	const struct samples *a = &r->side[0].samples, *b = &r->side[1].samples;
	size_t i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < SIDES_MAX; i++)
		out->have[i] = samples_spread(&r->side[i].samples, &out->spread[i]);
	if (!out->have[0] || !out->have[1])
		return;
	out->delta = out->spread[1].median - out->spread[0].median;
	out->has_percent = out->spread[0].median != 0;
	if (out->has_percent)
		out->percent = 100 * out->delta / out->spread[0].median;
	if (!samples_shift(a, b, &out->shift))
		out->verdict = VERDICT_FEW;
	else
		out->verdict = out->shift.low > 0 || out->shift.high < 0 ? VERDICT_BEYOND : VERDICT_WITHIN;
}
