/* SPDX-License-Identifier: MIT */
/*
 * The list of noreturn functions (work.returns.noreturn), and the functions that are known to be noreturn by their
 * names before the first round: those in the lists of the runtimes and the profile, and those that DWARF marks with
 * DW_AT_noreturn.
 */
#include "analysis/interproc/noreturn.h"
#include "analysis/runtimes/runtimes.h"
#include "dwarf/lines.h"
#include "support/memory.h"
#include "support/strings.h"

#include <string.h>

void noreturn_add(struct work *w, uint64_t target)
{
	mem_reserve(&w->returns.noreturn, &w->returns.noreturn_capacity, w->returns.noreturn_count,
	            sizeof(*w->returns.noreturn));
	w->returns.noreturn[w->returns.noreturn_count++] = target;
}

void noreturn_sort(struct work *w)
{
	size_t i;

	w->returns.noreturn_count = words_unique(w->returns.noreturn, w->returns.noreturn_count);
	w->env.noreturn = w->returns.noreturn;
	w->env.noreturn_count = w->returns.noreturn_count;
	memset(w->env.noreturn_bits, 0, sizeof(w->env.noreturn_bits));
	for (i = 0; i < w->returns.noreturn_count; i++) {
		unsigned h = noreturn_hash(w->returns.noreturn[i]);

		w->env.noreturn_bits[h / 64] |= (uint64_t)1 << h % 64;
	}
}

static void name_add(void *ctx, const char *name)
{
	struct work *w = ctx;

	mem_reserve(&w->returns.names, &w->returns.name_capacity, w->returns.name_count, sizeof(*w->returns.names));
	w->returns.names[w->returns.name_count++] = mem_copy(name, strlen(name) + 1);
}

/* Limit for the size of .debug_info in bytes: if it is larger, reading the names takes more time than they are
 * worth. */
#define DWARF_MOST ((uint64_t)32 << 20)

/* Reads the names of the functions that DWARF marks as noreturn. */
static void dwarf_names(struct work *w)
{
	uint32_t s = elf_section_find(w->file, ".debug_info", 1);
	struct lines *l = s && w->file->sections[s].sh.sh_size <= DWARF_MOST ? lines_open(w->file) : NULL;

	lines_noreturn(l, name_add, w);
	lines_close(l);
	if (w->returns.name_count)
		qsort(w->returns.names, w->returns.name_count, sizeof(*w->returns.names), string_order);
}

static bool is_noreturn(const struct work *w, const char *name)
{
	const struct profile *p = w->options->profile;

	return runtimes_noreturn(name) || (p && p->noreturn(p, name)) ||
	       (w->returns.name_count &&
	        bsearch(&name, w->returns.names, w->returns.name_count, sizeof(*w->returns.names), string_order));
}

/*
 * Adds the addresses of the symbols in a list that have the name of a noreturn function. With `by_number` (the list is
 * .symtab), also adds the numbers of these symbols in an object file, for relocations that refer to them.
 */
static void noreturn_symbols(struct work *w, const struct elf_symbol *list, uint32_t n, bool by_number)
{
	const struct elf_file *f = w->file;
	uint32_t i;

	for (i = 1; i < n; i++) {
		const struct elf_symbol *y = &list[i];
		const struct code_section *c;

		if (!y->name[0] || !is_noreturn(w, y->name))
			continue;
		if (by_number && elf_is_object(f))
			noreturn_add(w, FLOW_EXTERN | i);
		c = y->section ? space_of(&w->out->space, y->section) : NULL;
		if (c)
			noreturn_add(w, elf_is_object(f) ? c->addr + y->value : y->value);
	}
}

/* Adds the GOT slots that hold the address of a noreturn function, and the PLT entries that jump through them. */
static void noreturn_slots(struct work *w)
{
	const struct elf_file *f = w->file;
	uint32_t i;
	size_t k;

	for (i = 1; i < f->section_count && !elf_is_object(f); i++) {
		struct error ignored;
		long n, j;

		if (f->sections[i].sh.sh_type != SHT_RELA || f->sections[i].sh.sh_link != f->dynsym || !f->dynsym)
			continue;
		n = elf_relocs_count(f, i, &ignored); /* a malformed section is ignored */
		for (j = 0; j < n; j++) {
			struct elf_reloc r = elf_reloc_at(f, i, j);

			if ((r.type == R_X86_64_JUMP_SLOT || r.type == R_X86_64_GLOB_DAT) && r.symbol < f->dynsym_count &&
			    is_noreturn(w, f->dynsyms[r.symbol].name))
				noreturn_add(w, FLOW_SLOT | r.offset);
		}
	}
	noreturn_sort(w);
	for (k = 0; k < w->ranges.count; k++) {
		const struct code_range *p = &w->ranges.list[k];
		uint64_t slot = p->plt ? plt_slot(p->bytes, p->end - p->start, p->start) : 0;

		if (!slot)
			continue;
		slot |= FLOW_SLOT;
		if (word_has(w->returns.noreturn, w->returns.noreturn_count, slot))
			noreturn_add(w, p->start);
	}
	noreturn_sort(w);
}

/* Keeps a copy of the list as it is now, before the analysis adds functions that it infers. */
static void noreturn_keep(struct work *w)
{
	w->returns.noreturn_named = mem_copy(w->returns.noreturn, w->returns.noreturn_count * sizeof(*w->returns.noreturn));
	w->env.noreturn_named = w->returns.noreturn_named;
	w->env.noreturn_named_count = w->returns.noreturn_count;
}

void noreturn_names(struct work *w)
{
	const struct elf_file *f = w->file;
	size_t i;

	dwarf_names(w);
	noreturn_symbols(w, f->symbols, f->symbol_count, true);
	noreturn_symbols(w, f->dynsyms, f->dynsym_count, false);
	for (i = 0; i < w->ranges.count; i++) {
		const struct code_range *p = &w->ranges.list[i];

		if (p->function && runtimes_noreturn(p->function))
			noreturn_add(w, p->start);
	}
	noreturn_slots(w);
	noreturn_keep(w);
}
