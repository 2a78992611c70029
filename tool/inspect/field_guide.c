/* SPDX-License-Identifier: MIT */
/*
 * Finds a short list of lines that arms most reads (field_guide.h). To find the best list is a hard problem (densest
 * subgraph of a hypergraph). So the list is made in steps, each of which takes the lines of the group of reads that
 * arms most reads per line.
 */
#include "inspect/field_guide.h"

#include "report/text.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void field_guide_free(struct field_guide *g)
{
	size_t i;

	for (i = 0; i < g->line_count; i++)
		free(g->lines[i]);
	for (i = 0; i < g->count; i++)
		free(g->list[i].lines);
	free(g->lines);
	free(g->list);
	memset(g, 0, sizeof(*g));
}

#define FIELDS_MOST 256

bool field_guide_is_full(const struct field_guide *g) { return g->count >= FIELDS_MOST; }

void guide_reads_add(struct field_guide *g, size_t reads)
{
	mem_reserve(&g->list, &g->capacity, g->count, sizeof(*g->list));
	g->list[g->count++] = (struct guide_reads){.reads = reads};
}

void guide_line_add(struct field_guide *g, const char *line)
{
	struct guide_reads *r = &g->list[g->count - 1];
	size_t k, i;

	for (k = 0; k < g->line_count && strcmp(g->lines[k], line); k++)
		;
	if (k == g->line_count) {
		mem_reserve(&g->lines, &g->line_capacity, g->line_count, sizeof(*g->lines));
		g->lines[g->line_count++] = mem_copy(line, strlen(line) + 1);
	}
	for (i = 0; i < r->line_count && r->lines[i] != k; i++)
		;
	if (i < r->line_count)
		return;
	mem_reserve(&r->lines, &r->line_capacity, r->line_count, sizeof(*r->lines));
	r->lines[r->line_count++] = k;
}

/* Returns how many lines a group of reads needs in addition to those that have been taken. */
static size_t missing(const struct guide_reads *r, const bool *taken)
{
	size_t i, n = 0;

	for (i = 0; i < r->line_count; i++)
		n += !taken[r->lines[i]];
	return n;
}

/*
 * Returns how many reads become armed with the lines of group k, including the reads of other groups that then need no
 * further line.
 */
static size_t gain(const struct field_guide *g, size_t k, bool *taken)
{
	const struct guide_reads *r = &g->list[k];
	bool *with = mem_alloc(g->line_count + 1, sizeof(*with));
	size_t i, n = 0;

	memcpy(with, taken, g->line_count * sizeof(*with));
	for (i = 0; i < r->line_count; i++)
		with[r->lines[i]] = true;
	for (i = 0; i < g->count; i++)
		if (!g->list[i].armed && !missing(&g->list[i], with))
			n += g->list[i].reads;
	free(with);
	return n;
}

/*
 * Returns the index of the group whose lines arm most reads per line, among those that need at most `most` more lines;
 * SIZE_MAX if there is none.
 */
static size_t best(const struct field_guide *g, bool *taken, size_t most)
{
	size_t k, found = SIZE_MAX, reads = 0, lines = 1;

	for (k = 0; k < g->count; k++) {
		size_t n = g->list[k].armed ? 0 : missing(&g->list[k], taken), won;

		if (!n || n > most || !g->list[k].reads)
			continue;
		won = gain(g, k, taken);
		if (won * lines > reads * n) {
			found = k;
			reads = won;
			lines = n;
		}
	}
	return found;
}

void field_guide_print(struct field_guide *g, const char *object, size_t most)
{
	bool *taken = mem_zero(g->line_count + 1, sizeof(*taken));
	size_t *order = mem_alloc(g->line_count + 1, sizeof(*order)), n = 0, reads = 0, i, k;

	while (n < most && (k = best(g, taken, most - n)) != SIZE_MAX) {
		for (i = 0; i < g->list[k].line_count; i++) {
			if (!taken[g->list[k].lines[i]])
				order[n++] = g->list[k].lines[i];
			taken[g->list[k].lines[i]] = true;
		}
		for (i = 0; i < g->count; i++)
			if (!g->list[i].armed && !missing(&g->list[i], taken)) {
				g->list[i].armed = true;
				reads += g->list[i].reads;
			}
	}
	if (n) {
		text_clean(stdout, object);
		printf(": %zu line%s arm%s %zu of %zu reads: ", n, n == 1 ? "" : "s", n == 1 ? "s" : "", reads, g->reads);
		for (i = 0; i < n; i++)
			printf("%s%s", i ? ", " : "", g->lines[order[i]]);
		printf("\n");
	}
	free(taken);
	free(order);
}
