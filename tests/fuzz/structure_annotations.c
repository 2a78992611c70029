/* SPDX-License-Identifier: MIT */
/* Structural mutants of what an object of the Linux kernel says of its code: hints out of order, alternatives that overlap or
 * lie outside, keys in data, calls of other files. */
#include "structure_fields.h"

static const struct annotation {
	const char *name;
	unsigned size; /* of an entry */
} annotations[] = {
	{".discard.unwind_hints", 12}, {".altinstructions", 12}, {"__jump_table", 16}, {"__ex_table", 12},
	{".discard.reachable", 4}, {".discard.unreachable", 4}, {".discard.intra_function_calls", 4},
	{".discard.func_stack_frame_non_standard", 8}, {".discard.retpoline_safe", 8},
	{".discard.annotate_insn", 8},
};

static uint64_t section_of(struct mutant *m, const struct annotation *a)
{
	uint64_t sh = section_like(m, 0, a->name);

	return sh && !strcmp(name_of(m, sh), a->name) ? sh : 0;
}

static uint64_t relocs_of(struct mutant *m, const char *name)
{
	char text[64];

	snprintf(text, sizeof(text), ".rela%s", name);
	return section_like(m, 0, text);
}

static const struct annotation *any_annotation(struct mutant *m)
{
	return &annotations[structure_below(m, COUNT(annotations))];
}

/* A field of a hint: offset, register, type, end. */
static bool hint(struct mutant *m)
{
	uint64_t at = record_in(m, section_of(m, &annotations[0]), 12);
	unsigned field = structure_below(m, 4);
	static const uint32_t kinds[] = {0, 12, 8, 3}; /* registers, types, ends */

	if (!at)
		return false;
	if (!field)
		return put(m, "hint's offset", at + 4, 2, extreme(m, get(m, at + 4, 2)));
	return put(m, "hint", at + 5 + field, 1, chance(m, 4) ? wide(m) : structure_below(m, kinds[field]));
}

/* The type of an annotation, or the whole entry cut short. */
static bool annotation(struct mutant *m)
{
	uint64_t at = record_in(m, section_of(m, &annotations[COUNT(annotations) - 1]), 8);

	return at && put(m, "annotation's type", at + 4, 4, chance(m, 4) ? wide(m) : structure_below(m, 12));
}

/* The lengths of an alternative: it overlaps others, or reaches beyond its section. */
static bool alternative(struct mutant *m)
{
	uint64_t at = record_in(m, section_of(m, &annotations[1]), 12);

	return at && put(m, "alternative's length", at + 10 + structure_below(m, 2), 1,
	                 chance(m, 4) ? wide(m) : structure_below(m, 40));
}

/* Entries in another order: the relocations of two change places. */
static bool order(struct mutant *m)
{
	uint64_t sh = relocs_of(m, any_annotation(m)->name);
	uint64_t a = record_in(m, sh, sizeof(Elf64_Rela)), b = record_in(m, sh, sizeof(Elf64_Rela));

	return bytes_swap(m, "annotations exchanged", a ? a + 8 : 0, b ? b + 8 : 0, 16);
}

static bool entries(struct mutant *m)
{
	const struct annotation *a = any_annotation(m);
	uint64_t sh = section_of(m, a);

	return bytes_swap(m, "entries exchanged", record_in(m, sh, a->size), record_in(m, sh, a->size), a->size);
}

/* What an entry is about: another place close by, one of another entry, one outside, another section or data. */
static bool place(struct mutant *m)
{
	uint64_t sh = relocs_of(m, any_annotation(m)->name);
	uint64_t at = record_in(m, sh, sizeof(Elf64_Rela)), other = record_in(m, sh, sizeof(Elf64_Rela)), old;

	if (!at)
		return false;
	old = GET(m, at, Elf64_Rela, r_addend);
	switch (structure_below(m, 4)) {
	case 0: return PUT(m, at, Elf64_Rela, r_addend, old + structure_below(m, 33) - 16);
	case 1: return PUT(m, at, Elf64_Rela, r_addend, GET(m, other, Elf64_Rela, r_addend));
	case 2: return PUT(m, at, Elf64_Rela, r_addend, extreme(m, old));
	default: return put(m, "annotation's symbol", at + 12, 4, number(m, get(m, at + 12, 4), 24));
	}
}

/* Sizes that are no number of entries, and sections under another's name. */
static bool section(struct mutant *m)
{
	uint64_t sh = section_of(m, any_annotation(m)), other = section_of(m, any_annotation(m));

	if (!sh)
		return false;
	if (chance(m, 2))
		return PUT(m, sh, Elf64_Shdr, sh_size, GET(m, sh, Elf64_Shdr, sh_size) + structure_below(m, 25) - 12);
	return other && PUT(m, sh, Elf64_Shdr, sh_name, GET(m, other, Elf64_Shdr, sh_name));
}

/* A branch of the code: to something else, or its relocation in the midst of another instruction. */
static bool branch(struct mutant *m)
{
	uint64_t at = record_in(m, relocs_of(m, ".text"), sizeof(Elf64_Rela));

	if (!at)
		return false;
	return chance(m, 2) ? put(m, "branch's symbol", at + 12, 4, structure_below(m, 40))
	                    : PUT(m, at, Elf64_Rela, r_offset, GET(m, at, Elf64_Rela, r_offset) + structure_below(m, 17) - 8);
}

const struct structure_kind structure_of_annotations[] = {
	{"hint", hint, false}, {"annotation-type", annotation, false}, {"alternative", alternative, false}, {"annotation-order", order, false},
	{"annotation-entries", entries, false}, {"annotation-place", place, false}, {"annotation-section", section, false},
	{"annotation-branch", branch, false},
};
const unsigned structure_annotation_kinds = COUNT(structure_of_annotations);
