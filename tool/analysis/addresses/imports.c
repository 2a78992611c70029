/* SPDX-License-Identifier: MIT */
/* Finds the functions of other modules to which calls lead, through a PLT entry or a GOT slot (imports.h). */
#include "analysis/addresses/imports.h"

#include "arch/x86/fast_decoder.h"
#include "shared/search.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

static int function_order(const void *a, const void *b)
{
	const struct kernel_function *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Finds the functions of the C library in a static program. In any other file, a function with such a name belongs to
 * the program itself. */
static void functions_read(struct imports *x)
{
	const struct elf_file *f = x->file;
	size_t capacity = 0;
	uint32_t i;

	for (i = 0; i < f->phdr_count; i++)
		if (f->phdrs[i].p_type == PT_INTERP)
			return;
	for (i = 1; i < f->symbol_count && f->eh.e_entry; i++) {
		const struct elf_symbol *y = &f->symbols[i];
		const struct kernel_store *k = y->section && y->bind != STB_LOCAL ? kernel_store_named(y->name) : NULL;

		if (!k || (y->type != STT_FUNC && y->type != STT_NOTYPE))
			continue;
		mem_reserve(&x->functions, &capacity, x->function_count, sizeof(*x->functions));
		x->functions[x->function_count++] = (struct kernel_function){y->value, k};
	}
	if (x->function_count)
		qsort(x->functions, x->function_count, sizeof(*x->functions), function_order);
}

void imports_read(struct imports *x, const struct elf_file *f, const struct function_types *types)
{
	struct error e;

	*x = (struct imports){.file = f, .types = types};
	if (elf_is_object(f))
		return;
	if (dynamic_relocs_read(f, 0, UINT64_MAX, &x->slots, &x->slot_count, &e)) {
		x->slots = NULL;
		x->slot_count = 0;
	}
	functions_read(x);
}

void imports_free(struct imports *x)
{
	free(x->slots);
	free(x->functions);
	memset(x, 0, sizeof(*x));
}

/* Returns the name of the function of another module to which a call or jump leads. Returns null if it leads to no such
 * function, or if that is unknown. */
static const char *imports_name(const struct imports *x, const struct insn *in)
{
	struct elf_held held;
	uint64_t slot = 0;
	uint32_t section;
	size_t at;

	if (!x || !x->slot_count)
		return NULL;
	if (in->flow == FLOW_CALL || in->flow == FLOW_JUMP) {
		section = elf_section_at(x->file, in->target);
		held = elf_held(x->file, section, in->target);
		if (!section || strncmp(x->file->sections[section].name, ".plt", 4) || !held.size)
			return NULL;
		slot = plt_slot(held.bytes, held.size, in->target);
	} else if (in->base == INSN_PC_REG && in->mem_size == 8) {
		slot = in->addr + in->len + (uint64_t)in->disp;
	}
	at = SEARCH(x->slot_count, i, x->slots[i].place < slot);
	if (!slot || at == x->slot_count || x->slots[at].place != slot || !x->slots[at].symbol || x->slots[at].addend)
		return NULL;
	return x->slots[at].symbol->name;
}

bool imports_leads_out(const struct imports *x, const struct insn *in) { return imports_name(x, in) != NULL; }

int imports_arguments(const struct imports *x, const struct insn *in)
{
	const char *name = x && x->types ? imports_name(x, in) : NULL;

	return name ? function_import_arguments(x->types, name) : -1;
}

const struct kernel_store *imports_kernel(const struct imports *x, const struct insn *in)
{
	const char *name = imports_name(x, in);
	size_t k;

	if (name || !x || (in->flow != FLOW_CALL && in->flow != FLOW_JUMP))
		return name ? kernel_store_named(name) : NULL;
	k = SEARCH(x->function_count, i, x->functions[i].addr < in->target);
	return k < x->function_count && x->functions[k].addr == in->target ? x->functions[k].store : NULL;
}
