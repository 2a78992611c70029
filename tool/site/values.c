/* SPDX-License-Identifier: MIT */
/* Finds the cells of etch::value (etch/imv.hpp) in the data of a file, by the marks behind them. */
#include "site/site.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL 8u
#define MARK 16u

/* The symbol whose bytes hold a cell; 0: none. In an object file values are relative to sections. */
static uint32_t cell_symbol(const struct elf_file *f, uint32_t section, uint64_t at)
{
	uint32_t i;

	for (i = 1; i < f->symbol_count; i++) {
		const struct elf_symbol *y = &f->symbols[i];

		if (y->section == section && y->type == STT_OBJECT && y->name[0] && at >= y->value &&
		    at - y->value + CELL <= y->size)
			return i;
	}
	return 0;
}

static int value_add(struct scan *s, uint32_t section, uint64_t off)
{
	const struct elf_section *x = &s->file->sections[section];
	struct object o = {.section = section, .addr = x->sh.sh_addr + off, .size = CELL, .value = true};
	uint64_t from = x->sh.sh_addr;
	const char *name = x->name;

	o.symbol = cell_symbol(s->file, section, o.addr);
	if (o.symbol) {
		from = s->file->symbols[o.symbol].value;
		name = s->file->symbols[o.symbol].name;
	}
	if ((o.addr == from && o.symbol ? asprintf(&o.name, "%s", name)
	                                : asprintf(&o.name, "%s+%#" PRIx64, name, o.addr - from)) < 0)
		o.name = NULL;
	return scan_object_add(s, &o);
}

int scan_values_add(struct scan *s)
{
	static const uint64_t mark[2] = {ETCH_VALUE_MARK_0, ETCH_VALUE_MARK_1};
	uint32_t i;
	bool shared;

	for (i = 1; i < s->file->section_count; i++) {
		const struct elf_section *x = &s->file->sections[i];
		const uint8_t *p, *end = x->data + (x->data ? x->sh.sh_size : 0);

		if (!x->data || x->sh.sh_type != SHT_PROGBITS || (x->sh.sh_flags & SHF_EXECINSTR) ||
		    (x->sh.sh_flags & (SHF_ALLOC | SHF_WRITE)) != (SHF_ALLOC | SHF_WRITE) || section_is_etched(x, &shared))
			continue;
		for (p = x->data; (p = memmem(p, (size_t)(end - p), mark, MARK)); p++) {
			uint64_t off = (uint64_t)(p - x->data);

			if (off >= CELL && !((x->sh.sh_addr + off) & 7) && value_add(s, i, off - CELL))
				return -1;
		}
	}
	return 0;
}
