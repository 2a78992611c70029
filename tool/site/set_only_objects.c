/* SPDX-License-Identifier: MIT */
/*
 * Finds objects that only sets may change. Those of DEFINE_IMV are known by their names; cells of etch::value
 * (etch/imv.hpp) and slots of etch::ops (etch/pv.hpp) by the marks that follow them in the data.
 */
#include "site/site.h"
#include "support/memory.h"
#include "shared/search.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL 8u
#define MARK 16u

/* The symbols of data, sorted by (section, value). */
struct data_symbols {
	struct data_symbol {
		uint32_t section, index;
		uint64_t value;
	} * list;
	size_t count;
};

static int symbol_order(const void *a, const void *b)
{
	const struct data_symbol *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	/* if several symbols are aliases, the first one of the file is found */
	return x->index > y->index ? -1 : x->index < y->index;
}

static void symbols_collect(const struct elf_file *f, struct data_symbols *d)
{
	uint32_t i;

	d->list = mem_zero((size_t)f->symbol_count + 1, sizeof(*d->list));
	for (i = 1; i < f->symbol_count; i++) {
		const struct elf_symbol *y = &f->symbols[i];

		if (y->section && y->type == STT_OBJECT && y->name[0])
			d->list[d->count++] = (struct data_symbol){y->section, i, y->value};
	}
	qsort(d->list, d->count, sizeof(*d->list), symbol_order);
}

/*
 * Returns the index of the last symbol that begins at or before a cell, if the cell is inside the symbol's bytes;
 * otherwise 0. In an object file, addresses are relative to sections.
 */
static uint32_t cell_symbol(const struct elf_file *f, const struct data_symbols *d, uint32_t section, uint64_t at,
                            uint64_t size)
{
	size_t lo =
		SEARCH(d->count, i, d->list[i].section < section || (d->list[i].section == section && d->list[i].value <= at));
	const struct elf_symbol *y;

	if (!lo || d->list[lo - 1].section != section)
		return 0;
	y = &f->symbols[d->list[lo - 1].index];
	return at - y->value < y->size && y->size - (at - y->value) >= size ? d->list[lo - 1].index : 0;
}

static void value_add(struct scan *s, const struct data_symbols *d, uint32_t section, uint64_t off, uint64_t size)
{
	const struct elf_section *x = &s->file->sections[section];
	struct object o = {.section = section, .addr = x->sh.sh_addr + off, .size = size, .value = true};
	uint64_t from = x->sh.sh_addr;
	const char *name = x->name;

	o.symbol = cell_symbol(s->file, d, section, o.addr, size);
	if (o.symbol) {
		from = s->file->symbols[o.symbol].value;
		name = s->file->symbols[o.symbol].name;
	}
	o.name = o.addr == from && o.symbol ? mem_string(name) : mem_format("%s+%#" PRIx64, name, o.addr - from);
	scan_object_add(s, &o);
}

bool object_is_imv(const struct object *o)
{
	const char *at = strstr(o->name, "__imv");

	/* Compilers add a C++ scope before the name, and ".0" or ".lto_priv.0" after it. */
	if (o->value)
		return true;
	return o->shared && at && at > o->name && (!at[5] || at[5] == '.' || at[5] == 'E');
}

/* Returns the size of the object before the mark at an offset of a section, or 0 if there is no mark of etch there. */
static uint64_t value_size(const struct elf_section *x, uint64_t off, bool ops)
{
	uint64_t size = CELL;

	if ((x->sh.sh_addr + off) & 7)
		return 0;
	if (ops) {
		if (x->sh.sh_size - off < MARK + sizeof(size))
			return 0;
		memcpy(&size, x->data + off + MARK, sizeof(size));
	}
	return size <= off && size <= ETCH_OPS_MOST && !(size & 7) ? size : 0;
}

static void section_values_add(struct scan *s, struct data_symbols *symbols, uint32_t section, bool ops)
{
	static const uint64_t marks[2][2] = {{ETCH_VALUE_MARK_0, ETCH_VALUE_MARK_1}, {ETCH_OPS_MARK_0, ETCH_OPS_MARK_1}};
	const struct elf_section *x = &s->file->sections[section];
	const uint8_t *p, *end = x->data + x->sh.sh_size;

	for (p = x->data; (p = memmem(p, (size_t)(end - p), marks[ops], MARK)); p++) {
		uint64_t off = (uint64_t)(p - x->data), size = value_size(x, off, ops);

		if (!size)
			continue;
		if (!symbols->list)
			symbols_collect(s->file, symbols);
		value_add(s, symbols, section, off - size, size);
	}
}

void scan_values_add(struct scan *s)
{
	struct data_symbols symbols = {0};
	uint32_t i;
	bool shared;

	for (i = 1; i < s->file->section_count; i++) {
		const struct elf_section *x = &s->file->sections[i];

		if (!x->data || x->sh.sh_type != SHT_PROGBITS || (x->sh.sh_flags & SHF_EXECINSTR) ||
		    (x->sh.sh_flags & (SHF_ALLOC | SHF_WRITE)) != (SHF_ALLOC | SHF_WRITE) || section_is_etched(x, &shared))
			continue;
		section_values_add(s, &symbols, i, false);
		section_values_add(s, &symbols, i, true);
	}
	free(symbols.list);
}
