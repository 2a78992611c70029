/* SPDX-License-Identifier: MIT */
/* Examines each symbol once, for a list of addresses (symbol_scan.h). */
#include "dwarf/symbol_scan.h"

#include <stdlib.h>
#include <string.h>

#include "shared/search.h"
#include "support/memory.h"
#include "support/sort.h"

/* The greatest number of symbols examined for one address, backwards from the one that begins nearest before it. */
#define CANDIDATES_MOST 64u
/* The number of bytes of a name that its rank depends on: thousands of symbols may have tails of one name of megabytes
 * as their names. */
#define NAME_LOOKED_AT 4096u

bool symbol_scan_begin(struct symbol_scan *s, const uint64_t *wanted, size_t count)
{
	*s = (struct symbol_scan){.wanted = wanted, .wanted_count = count};
	s->nearest = calloc(count + 1, sizeof(*s->nearest));
	return s->nearest;
}

bool symbol_scan_fits(const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);

	if (!sym->st_name || sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS)
		return false;
	if (type == STT_NOTYPE) /* without a size it is a label, which counts if it is global */
		return sym->st_size || ELF64_ST_BIND(sym->st_info) == STB_GLOBAL;
	return type == STT_FUNC || type == STT_GNU_IFUNC;
}

bool symbol_scan_has(struct symbol_scan *s, uint64_t start, uint64_t size, uint64_t limit)
{
	size_t first = SEARCH(s->wanted_count, i, s->wanted[i] < start);
	uint64_t near = 2 * start + (size != 0);

	if (first == s->wanted_count)
		return false;
	if (s->nearest[first] < near)
		s->nearest[first] = near;
	return s->wanted[first] < (size ? start + size : limit);
}

/* Ranks a symbol, lowest first: global names come before weak and local ones, and names without leading underscores
 * before others. */
static uint8_t rank_of(const Elf64_Sym *s, const char *name)
{
	unsigned bind = ELF64_ST_BIND(s->st_info), rank = bind == STB_WEAK ? 4 : 8;

	if (bind == STB_GLOBAL)
		rank = 0;
	if (name[0] == '_')
		rank += name[1] == '_' ? 2 : 1;
	rank += memchr(name, '@', strnlen(name, NAME_LOOKED_AT)) ? 3 : 0; /* the name has a symbol version */
	rank += ELF64_ST_TYPE(s->st_info) == STT_NOTYPE ? 16 : 0;
	return (uint8_t)(rank + (s->st_size ? 0 : 32));
}

void symbol_scan_keep(struct symbol_scan *s, const Elf64_Sym *sym, uint64_t start, uint64_t limit, const char *name)
{
	mem_reserve(&s->list, &s->capacity, s->count, sizeof(*s->list));
	s->list[s->count++] = (struct named_range){.start = start,
	                                           .end = start + sym->st_size,
	                                           .name = name,
	                                           .limit = sym->st_size ? 0 : limit,
	                                           .rank = rank_of(sym, name)};
}

static int range_order(const void *a, const void *b)
{
	const struct named_range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->rank != y->rank)
		return y->rank - x->rank; /* the lookup goes backwards */
	return strncmp(y->name, x->name, NAME_LOOKED_AT);
}

void symbol_scan_end(struct symbol_scan *s)
{
	sort_if_needed(s->list, s->count, sizeof(*s->list), range_order);
	for (size_t i = 1; i < s->wanted_count; i++)
		if (s->nearest[i] < s->nearest[i - 1])
			s->nearest[i] = s->nearest[i - 1];
}

const char *symbol_scan_find(const struct symbol_scan *s, uint64_t at)
{
	size_t low = SEARCH(s->count, i, s->list[i].start <= at), seen = 0;
	size_t known = SEARCH(s->wanted_count, i, s->wanted[i] < at);
	const struct named_range *sizeless = NULL;

	if (known == s->wanted_count || s->wanted[known] != at)
		return NULL;
	while (low-- && seen++ < CANDIDATES_MOST) {
		const struct named_range *r = &s->list[low];

		if (r->end > at)
			return r->name;
		if (r->start == r->end && !sizeless && s->nearest[known] == 2 * r->start)
			sizeless = r;
	}
	return sizeless && at < sizeless->limit ? sizeless->name : NULL;
}

void symbol_scan_free(struct symbol_scan *s)
{
	for (size_t i = 0; i < s->owned_count; i++)
		free(s->owned[i]);
	free(s->owned);
	free(s->list);
	free(s->nearest);
	*s = (struct symbol_scan){0};
}
