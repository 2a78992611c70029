/* SPDX-License-Identifier: MIT */
/* Calls of functions of other modules: through an entry of the PLT, or a GOT slot (imports.h). */
#include "analysis/addresses/imports.h"

#include "arch/x86/stack.h"
#include "shared/search.h"

#include <stdlib.h>
#include <string.h>

void imports_read(struct imports *x, const struct elf_file *f, const struct function_types *types)
{
	struct error e;

	*x = (struct imports){.file = f, .types = types};
	if (types && !elf_is_object(f) && dynamic_relocs_read(f, 0, UINT64_MAX, &x->slots, &x->slot_count, &e)) {
		x->slots = NULL;
		x->slot_count = 0;
	}
}

void imports_free(struct imports *x)
{
	free(x->slots);
	memset(x, 0, sizeof(*x));
}

int imports_arguments(const struct imports *x, const struct insn *in)
{
	struct elf_held held;
	uint64_t slot = 0;
	uint32_t section;
	size_t at;

	if (!x || !x->slot_count)
		return -1;
	if (in->flow == FLOW_CALL || in->flow == FLOW_JUMP) {
		section = elf_section_at(x->file, in->target);
		held = elf_held(x->file, section, in->target);
		if (!section || strncmp(x->file->sections[section].name, ".plt", 4) || !held.size)
			return -1;
		slot = plt_slot(held.bytes, held.size, in->target);
	} else if (in->base == INSN_PC_REG && in->mem_size == 8) {
		slot = in->addr + in->len + (uint64_t)in->disp;
	}
	at = SEARCH(x->slot_count, i, x->slots[i].place < slot);
	if (!slot || at == x->slot_count || x->slots[at].place != slot || !x->slots[at].symbol || x->slots[at].addend)
		return -1;
	return function_import_arguments(x->types, x->slots[at].symbol->name);
}
