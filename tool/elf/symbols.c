/* SPDX-License-Identifier: MIT */
/* Builds and searches sorted indexes of symbols (see symbols.h). */
#include "elf/symbols.h"
#include "shared/search.h"
#include "support/memory.h"
#include "support/plain.h"
#include "support/sort.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool symbol_is_function(const struct elf_file *f, const struct elf_symbol *s)
{
	(void)f;
	return s->section && s->name[0] && (s->type == STT_FUNC || s->type == STT_GNU_IFUNC);
}

bool symbol_is_sized_function(const struct elf_file *f, const struct elf_symbol *s)
{
	(void)f;
	return s->section && s->type == STT_FUNC && s->size;
}

bool symbol_is_place(const struct elf_file *f, const struct elf_symbol *s)
{
	return symbol_is_function(f, s) || (s->section && s->name[0] && s->type == STT_OBJECT);
}

/* Ranks symbols: one with a type is above others, then one with a size, then one that is not local. */
static unsigned rank(const struct elf_symbol *s)
{
	return (s->type != STT_NOTYPE ? 4u : 0) + (s->size ? 2u : 0) + (s->bind != STB_LOCAL ? 1u : 0);
}

static int symbol_order(const void *a, const void *b)
{
	const struct elf_symbol *x = *(const struct elf_symbol *const *)a, *y = *(const struct elf_symbol *const *)b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	if (rank(x) != rank(y))
		return rank(x) > rank(y) ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* A symbol preceded by its section and value as one number, so that sort_by_address() can be used, which is faster than
 * qsort(). */
struct keyed_symbol {
	uint64_t key;
	const struct elf_symbol *symbol;
};

static int keyed_order(const void *a, const void *b)
{
	return symbol_order(&((const struct keyed_symbol *)a)->symbol, &((const struct keyed_symbol *)b)->symbol);
}

static void symbols_sort(const struct elf_symbol **list, size_t count)
{
	struct keyed_symbol *keyed;
	uint64_t all = 1;
	unsigned bits;
	size_t i;

	for (i = 0; i < count; i++)
		all |= list[i]->value;
	bits = 64 - (unsigned)__builtin_clzll(all);
	if (bits > 32) {
		qsort(list, count, sizeof(*list), symbol_order);
		return;
	}
	keyed = mem_alloc(count, sizeof(*keyed));
	for (i = 0; i < count; i++)
		keyed[i] = (struct keyed_symbol){(uint64_t)list[i]->section << bits | list[i]->value, list[i]};
	sort_by_address(keyed, count, sizeof(*keyed), keyed_order);
	for (i = 0; i < count; i++)
		list[i] = keyed[i].symbol;
	free(keyed);
}

/* The places that an index is restricted to. */
struct places {
	const struct symbol_place *list; /* sorted; null: no restriction */
	size_t count;
};

static int place_order(const void *a, const void *b)
{
	const struct symbol_place *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Does the symbol's range contain one of the places? */
static bool holds(const struct elf_symbol *s, const struct places *p)
{
	const struct symbol_place start = {s->section, s->value};
	size_t first;

	if (!p->list)
		return true;
	first = SEARCH(p->count, i, place_order(&p->list[i], &start) < 0);
	return first < p->count && p->list[first].section == s->section &&
	       (p->list[first].addr == s->value || p->list[first].addr - s->value < s->size);
}

/* Builds the index of .dynsym or of f->symbols. */
static void index_build(const struct elf_file *f, bool dynamic, symbol_wanted *wanted, const struct places *places,
                        struct symbol_index *out)
{
	const struct elf_symbol *list = dynamic ? f->dynsyms : f->symbols;
	uint32_t n = dynamic ? f->dynsym_count : f->symbol_count, i;

	*out = (struct symbol_index){0};
	for (i = 1; i < n; i++)
		out->count += wanted(f, &list[i]) && holds(&list[i], places);
	out->list = mem_alloc(out->count, sizeof(*out->list));
	out->count = 0;
	for (i = 1; i < n; i++)
		if (wanted(f, &list[i]) && holds(&list[i], places))
			out->list[out->count++] = &list[i];
	symbols_sort(out->list, out->count);
}

void symbol_index_build(const struct elf_file *f, symbol_wanted *wanted, struct symbol_index *out)
{
	index_build(f, !f->symbol_count, wanted, &(struct places){0}, out);
}

void symbol_index_build_of(const struct elf_file *f, symbol_wanted *wanted, struct symbol_place *places, size_t count,
                           struct symbol_index *out)
{
	*out = (struct symbol_index){0};
	if (!count)
		return;
	qsort(places, count, sizeof(*places), place_order);
	index_build(f, !f->symbol_count, wanted, &(struct places){places, count}, out);
}

void symbol_index_build_dynamic(const struct elf_file *f, symbol_wanted *wanted, struct symbol_index *out)
{
	index_build(f, true, wanted, &(struct places){0}, out);
}

void symbol_index_free(struct symbol_index *x)
{
	free(x->list);
	*x = (struct symbol_index){0};
}

size_t symbol_index_above(const struct symbol_index *x, uint32_t section, uint64_t addr)
{
	return SEARCH(x->count, i,
	              x->list[i]->section < section || (x->list[i]->section == section && x->list[i]->value <= addr));
}

#define ENCLOSING_MOST 64 /* symbols examined backwards from an address: bounds the time in a hostile file */

const struct elf_symbol *symbol_index_find(const struct symbol_index *x, uint32_t section, uint64_t addr)
{
	const struct elf_symbol *best = NULL;
	size_t i = symbol_index_above(x, section, addr), seen;

	/* Go backwards to the nearest symbol that contains the address; of several with the same start, take the best
	 * name. */
	for (seen = 0; i > 0 && seen < ENCLOSING_MOST; seen++) {
		const struct elf_symbol *s = x->list[--i];

		if (s->section != section || (best && s->value != best->value))
			break;
		if (addr - s->value < s->size || (addr == s->value && !s->size))
			best = s;
	}
	return best;
}

void symbol_index_name(const struct symbol_index *x, uint32_t section, uint64_t addr, char *out, size_t size)
{
	const struct elf_symbol *s = symbol_index_find(x, section, addr);

	out[0] = 0;
	if (s && s->value == addr)
		snprintf(out, size, "%.200s", s->name);
	else if (s)
		snprintf(out, size, "%.200s+0x%" PRIx64, s->name, addr - s->value);
	plain(out);
}

void symbol_index_describe(const struct symbol_index *x, const struct elf_file *f, uint32_t section, uint64_t addr,
                           char *out, size_t size)
{
	symbol_index_name(x, section, addr, out, size);
	if (out[0])
		return;
	elf_describe_unnamed(f, section, addr, out, size);
	plain(out);
}
