/* SPDX-License-Identifier: MIT */
/* Writes folded stacks (writers.h) in the format of stackcollapse-perf.pl, which flamegraph.pl, inferno and speedscope
 * read. */
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
	for (size_t i = p->calls.count; i-- > 1;) { /* callers come before their callees */
		(*total)[i] += (*self)[i];
		(*total)[key_caller(&p->calls.list[i])] += (*total)[i];
	}
	return true;
}

/* Prints a name, without ';', which would end the frame. */
static void name_put(const char *name, FILE *out)
{
	for (; *name; name++)
		putc(*name == ';' ? ':' : *name, out);
}

/* Calls by name, in whatever process they are. Keys have a: caller << 32 | kind, and b: number of the name. */
struct name_tree {
	struct key_set names;
	uint32_t *of; /* number of the call by name, indexed by call */
	uint64_t *weight;
};

static void tree_free(struct name_tree *t)
{
	key_set_free(&t->names);
	free(t->of);
	free(t->weight);
}

static uint32_t tree_add(struct name_tree *t, const struct profile *p, size_t call)
{
	const struct key *k = &p->calls.list[call];
	uint32_t kind = key_kind(k), caller = key_caller(k), function = (uint32_t)k->b;
	uint32_t name = kind == STACK_PROCESS ? function_symbol(p, function) : function_name(p, function);
	uint32_t above = kind == STACK_THREAD ? 0 : t->of[caller]; /* a thread stands for its process */

	return key_set_add(&t->names, (uint64_t)above << 32 | (kind == STACK_PROCESS ? STACK_THREAD : kind), name);
}

static bool tree_make(struct name_tree *t, const struct profile *p)
{
	uint64_t *self, *total;
	bool good;

	*t = (struct name_tree){.of = calloc(p->calls.count + 1, sizeof(*t->of))};
	t->weight = calloc(p->calls.count + 1, sizeof(*t->weight));
	good = t->of && t->weight && !key_set_add(&t->names, UINT64_MAX, 0);
	for (size_t i = 1; good && i < p->calls.count; i++) {
		t->of[i] = tree_add(t, p, i);
		good = t->of[i] != KEY_NONE;
	}
	if (!good || !calls_weigh(p, &self, &total))
		return false;
	for (size_t i = 1; i < p->calls.count; i++)
		t->weight[t->of[i]] += self[i];
	free(self);
	free(total);
	return true;
}

bool write_folded(const struct profile *p, FILE *out)
{
	uint32_t *way = malloc((p->calls.count + 1) * sizeof(*way));
	struct name_tree t;
	bool good = tree_make(&t, p) && way;

	for (size_t i = 1; good && i < t.names.count; i++) {
		uint64_t count = t.weight[i];
		size_t n = 0;

		if (p->unit == UNIT_WAIT)
			count /= 1000;
		else if (p->unit == UNIT_TIME)
			count = (count + p->period / 2) / p->period;
		if (!count)
			continue;
		for (uint32_t at = (uint32_t)i; at; at = key_caller(&t.names.list[at]))
			way[n++] = at;
		while (n--) {
			const struct key *k = &t.names.list[way[n]];

			name_put(p->names.list[k->b], out);
			/* stackcollapse-perf.pl marks the kernel's functions in this way. */
			if (key_kind(k) == BINARY_KERNEL && p->names.list[k->b][0] != '[')
				fputs("_[k]", out);
			putc(n ? ';' : ' ', out);
		}
		fprintf(out, "%" PRIu64 "\n", count);
	}
	tree_free(&t);
	free(way);
	return good;
}
