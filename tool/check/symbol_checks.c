/* SPDX-License-Identifier: MIT */
/* Implements ETCH-N001: functions whose symbol has no size or no type. */
#include "check/function_runs.h"
#include "support/memory.h"

#include "elf/symbols.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_code(const struct elf_file *f, const struct elf_symbol *y)
{
	return symbol_is_function(f, y) && y->section < f->section_count &&
	       (f->sections[y->section].sh.sh_flags & SHF_EXECINSTR) && f->sections[y->section].data;
}

/* Returns the number of bytes from a symbol to the next one, or to the end of the section. */
static uint64_t space_after(const struct elf_file *f, const struct elf_symbol *const *list, size_t count, size_t i)
{
	const Elf64_Shdr *sh = &f->sections[list[i]->section].sh;
	uint64_t end = (elf_is_object(f) ? 0 : sh->sh_addr) + sh->sh_size;
	size_t k;

	for (k = i + 1; k < count && list[k]->section == list[i]->section; k++)
		if (list[k]->value > list[i]->value)
			return list[k]->value < end ? list[k]->value - list[i]->value : end - list[i]->value;
	return list[i]->value < end ? end - list[i]->value : 0;
}

/*
 * Object files: adds findings for global symbols without a type that code of the object calls. They come from assembly
 * without .type and .size. (In a linked file such symbols could not be told from the linker's own.) Returns 0, or -1
 * and a message.
 */
static int untyped_check(struct subject *s, struct error *e)
{
	const struct elf_file *f = s->file;
	bool *reported = mem_zero(f->symbol_count, sizeof(*reported));
	struct elf_reloc *list;
	int err = 0;
	uint32_t i;
	long n, k;

	for (i = 1; i < f->section_count && !err; i++) {
		if (f->sections[i].sh.sh_type != SHT_RELA || f->sections[i].sh.sh_link != f->symtab ||
		    !(f->sections[f->sections[i].sh.sh_info].sh.sh_flags & SHF_EXECINSTR))
			continue;
		n = elf_relocs(f, i, &list, e);
		err = n < 0 ? -1 : 0;
		for (k = 0; k < n && !err; k++) {
			const struct elf_symbol *y = &f->symbols[list[k].symbol];

			if (list[k].type != R_X86_64_PLT32 || reported[list[k].symbol] || y->type != STT_NOTYPE ||
			    y->bind == STB_LOCAL || !y->section || !y->name[0] ||
			    !(f->sections[y->section].sh.sh_flags & SHF_EXECINSTR))
				continue;
			reported[list[k].symbol] = true;
			finding_add(&s->found, "ETCH-N001", y->section, y->value,
			            "%s is called, but its symbol has neither type nor size", y->name);
		}
		free(list);
	}
	free(reported);
	return err;
}

static void sizeless_text(const struct run_item *x, char *out, size_t size)
{
	snprintf(out, size, "%.300s has no size; the next function begins %" PRIu64 " bytes later", x->function->name,
	         x->number);
}

/*
 * Fills `items` with the functions whose symbol has no size, although code follows their address. Returns their number.
 */
static size_t sizeless_find(const struct elf_file *f, const struct symbol_index *functions, struct run_item *items)
{
	const struct elf_symbol *const *list = functions->list;
	size_t count = functions->count, k, places = 0, n = 0;
	uint64_t covered = 0;

	for (k = 0; k < count; k++) {
		const struct elf_symbol *y = list[k];
		bool fresh = !k || list[k - 1]->section != y->section;
		uint64_t capacity;

		covered = fresh ? 0 : covered;
		if (y->size && y->value + y->size > covered)
			covered = y->value + y->size;
		if (!fresh && list[k - 1]->value == y->value)
			continue; /* the symbol is another name of the same function */
		places++;
		if (y->size || y->value < covered || function_is_startup(y))
			continue;
		capacity = space_after(f, list, count, k);
		if (capacity) /* otherwise the symbol marks the end of the code */
			items[n++] = (struct run_item){y, places, capacity};
	}
	return n;
}

int check_symbols(struct subject *s, struct error *e)
{
	const struct elf_file *f = s->file;
	struct symbol_index functions;
	struct run_item *items;

	symbol_index_build(f, is_code, &functions);
	items = mem_alloc(functions.count + 1, sizeof(*items));
	runs_report(s, "ETCH-N001", items, sizeless_find(f, &functions, items), sizeless_text);
	symbol_index_free(&functions);
	free(items);
	return elf_is_object(f) && f->symtab ? untyped_check(s, e) : 0;
}
