/* SPDX-License-Identifier: MIT */
/* Folded stacks (writers.h): the format of stackcollapse-perf.pl, which flamegraph.pl, inferno and speedscope read. */
#include "profile/writers.h"

#include <inttypes.h>
#include <stdlib.h>

bool calls_weigh(const struct profile *p, uint64_t **self, uint64_t **total)
{
	*self = calloc(p->calls.count + 1, sizeof(**self));
	*total = calloc(p->calls.count + 1, sizeof(**total));
	if (!*self || !*total) {
		free(*self);
		free(*total);
		return false;
	}
	for (size_t i = 0; i < p->sample_count; i++)
		(*self)[p->call_of[p->samples[i].node]] += p->samples[i].weight;
	for (size_t i = p->calls.count; i-- > 1;) { /* callers come before what they call */
		(*total)[i] += (*self)[i];
		(*total)[key_caller(&p->calls.list[i])] += (*total)[i];
	}
	return true;
}

/* A name in which ';' does not end a frame. */
static void name_put(const char *name, FILE *out)
{
	for (; *name; name++)
		putc(*name == ';' ? ':' : *name, out);
}

bool write_folded(const struct profile *p, FILE *out)
{
	uint32_t *way = malloc((p->calls.count + 1) * sizeof(*way));
	uint64_t *self, *total;

	if (!way || !calls_weigh(p, &self, &total)) {
		free(way);
		return false;
	}
	for (size_t i = 1; i < p->calls.count; i++) {
		uint64_t count = p->unit == UNIT_BYTES  ? self[i]
		                 : p->unit == UNIT_WAIT ? self[i] / 1000
		                                        : (self[i] + p->period / 2) / p->period;
		size_t n = 0;

		if (!count)
			continue;
		for (uint32_t at = (uint32_t)i; at; at = key_caller(&p->calls.list[at]))
			way[n++] = at;
		while (n--) {
			name_put(p->names.list[function_name(p, (uint32_t)p->calls.list[way[n]].b)], out);
			putc(n ? ';' : ' ', out);
		}
		fprintf(out, "%" PRIu64 "\n", count);
	}
	free(way);
	free(self);
	free(total);
	return true;
}
