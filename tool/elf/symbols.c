/* SPDX-License-Identifier: MIT */
#include "elf/symbols.h"

#include <stdlib.h>
#include <string.h>

static bool is_function(const struct elf_symbol *s)
{
	return s->section && s->name[0] && (s->type == STT_FUNC || s->type == STT_GNU_IFUNC);
}

/* Where several are at one place: with a size before without, global before local. */
static int symbol_order(const void *a, const void *b)
{
	const struct elf_symbol *x = *(const struct elf_symbol *const *)a, *y = *(const struct elf_symbol *const *)b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	if (!x->size != !y->size)
		return x->size ? -1 : 1;
	if ((x->bind == STB_LOCAL) != (y->bind == STB_LOCAL))
		return x->bind == STB_LOCAL ? 1 : -1;
	return strcmp(x->name, y->name);
}

int symbol_index_build(const struct elf_file *f, struct symbol_index *out, struct error *e)
{
	const struct elf_symbol *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t n = f->symbol_count ? f->symbol_count : f->dynsym_count, i;

	*out = (struct symbol_index){0};
	for (i = 1; i < n; i++)
		out->count += is_function(&list[i]);
	out->list = malloc((out->count + 1) * sizeof(*out->list));
	if (!out->list)
		return error_set(e, "out of memory");
	out->count = 0;
	for (i = 1; i < n; i++)
		if (is_function(&list[i]))
			out->list[out->count++] = &list[i];
	if (out->count)
		qsort(out->list, out->count, sizeof(*out->list), symbol_order);
	return 0;
}

void symbol_index_free(struct symbol_index *x)
{
	free(x->list);
	*x = (struct symbol_index){0};
}

#define ENCLOSING_MOST 64 /* symbols that may begin between a function's start and a place in it */

const struct elf_symbol *symbol_index_find(const struct symbol_index *x, uint32_t section, uint64_t addr)
{
	const struct elf_symbol *best = NULL;
	size_t lo = 0, hi = x->count, seen;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct elf_symbol *s = x->list[mid];

		if (s->section < section || (s->section == section && s->value <= addr))
			lo = mid + 1;
		else
			hi = mid;
	}
	/* Backwards: the nearest start that reaches this far; of one start the best name. */
	for (seen = 0; lo > 0 && seen < ENCLOSING_MOST; seen++) {
		const struct elf_symbol *s = x->list[--lo];

		if (s->section != section || (best && s->value != best->value))
			break;
		if (addr - s->value < s->size || (addr == s->value && !s->size))
			best = s;
	}
	return best;
}
