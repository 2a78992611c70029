/* SPDX-License-Identifier: MIT */
/* Makes the .sframe section of an object file, compares it with an existing one, and resolves the relocations of one
 * from any producer. */
#include "table/object_sframe.h"

#include "output/segment.h"
#include "support/memory.h"

#include <etch/orc_rule.h>
#include <stdlib.h>
#include <string.h>

/* Copies the rows that apply to one section of code, and adds a row that ends them at its end. *row is advanced to the
 * last row that begins at or before the start of the section. */
static void section_clip(const struct code_section *c, const struct row_list *rows, size_t *row, struct row_list *out)
{
	uint64_t end = c->addr + c->size;
	size_t i;

	while (*row + 1 < rows->count && rows->rows[*row + 1].addr <= c->addr)
		++*row;
	for (i = *row; i < rows->count && rows->rows[i].addr < end; i++) {
		struct row *to = &out->rows[out->count++];

		*to = rows->rows[i];
		if (to->addr < c->addr)
			to->addr = c->addr;
	}
	out->rows[out->count++] = (struct row){.addr = end, .rule = etch_rule_undef};
}

/* Copies all rows, each clipped to its section. In the code space of an object file, where sections lie close together,
 * a row may extend past the end of its section. */
static void rows_clip(const struct code_space *space, const struct row_list *rows, struct row_list *out)
{
	size_t i, row = 0;

	/* Each section gets a row for its end, and may get one for the row that begins before it. */
	*out = (struct row_list){.capacity = rows->count + 2 * space->count + 1};
	out->rows = mem_alloc(out->capacity, sizeof(*out->rows));
	for (i = 0; i < space->count && rows->count; i++)
		section_clip(&space->list[i], rows, &row, out);
}

/* Makes a relocation for the start of each FDE. */
static void starts_relocate(const struct code_space *space, const struct sframe *x, struct new_section *to)
{
	size_t i;

	to->relocs = mem_alloc(x->fdes, sizeof(*to->relocs));
	to->reloc_count = x->fdes;
	for (i = 0; i < x->fdes; i++) {
		const struct code_section *c = space_at(space, x->starts[i]);

		to->relocs[i] = (struct new_reloc){.offset = sframe_start_at(x, i),
		                                   .addend = (int64_t)(x->starts[i] - c->addr),
		                                   .type = x->version < 3 ? R_X86_64_PC32 : R_X86_64_PC64,
		                                   .index = c->section,
		                                   .to = TO_SECTION};
	}
}

int object_sframe_build(const struct code_space *space, const struct row_list *rows, unsigned version,
                        struct object_sframe *out, struct error *e)
{
	struct row_list clipped;
	struct sframe *x = &out->counts;
	int err;

	memset(out, 0, sizeof(*out));
	rows_clip(space, rows, &clipped);
	err = sframe_encode(&clipped, version, false, x, e);
	free(clipped.rows);
	if (!err && x->fdes) {
		out->section = mem_zero(1, sizeof(*out->section));
		*out->section = (struct new_section){.name = SFRAME_SECTION,
		                                     .type = SHT_GNU_SFRAME,
		                                     .flags = SHF_ALLOC,
		                                     .align = 8,
		                                     .data = x->bytes,
		                                     .size = x->size};
		x->bytes = NULL;
		starts_relocate(space, x, out->section);
	}
	if (err)
		object_sframe_free(out);
	return err;
}

void object_sframe_free(struct object_sframe *t)
{
	if (t->section)
		new_sections_free(t->section, 1);
	sframe_free(&t->counts);
	memset(t, 0, sizeof(*t));
}

/* ---- existing sections ------------------------------------------------------ */

/* Does a section equal `wanted`? Fields with relocations have no contents of their own. Returns 1, 0, or -1 with a
 * message in *e. */
static int section_same(const struct elf_file *f, uint32_t section, const struct new_section *wanted, struct error *e)
{
	const struct elf_section *s = &f->sections[section];
	uint32_t rela = elf_section_rela(f, section, 1);
	struct elf_reloc *r;
	long count, i;
	int same;

	if (!s->data || s->sh.sh_size != wanted->size || memcmp(s->data, wanted->data, wanted->size) != 0 || !rela)
		return 0;
	count = elf_relocs(f, rela, &r, e);
	if (count < 0)
		return -1;
	same = (size_t)count == wanted->reloc_count;
	for (i = 0; i < count && same; i++) {
		const struct new_reloc *x = &wanted->relocs[i];
		const struct elf_symbol *y = &f->symbols[r[i].symbol];

		same = r[i].offset == x->offset && r[i].type == x->type && y->section == x->index &&
		       (int64_t)y->value + r[i].addend == x->addend;
	}
	free(r);
	return same;
}

int object_sframe_present(const struct elf_file *f, const struct object_sframe *wanted, bool *emptied, struct error *e)
{
	uint32_t i = 0, rela, found = 0;
	int same = 0;

	while ((i = elf_section_find(f, SFRAME_SECTION, i + 1))) {
		if (!f->sections[i].data) /* a section that was emptied earlier */
			continue;
		same = wanted->section ? section_same(f, i, wanted->section, e) : 0;
		if (same < 0)
			return -1;
		found++;
		emptied[i] = true;
		for (rela = 0; (rela = elf_section_rela(f, i, rela + 1));)
			emptied[rela] = true;
	}
	return found ? found == 1 && same : !wanted->section;
}

/* Returns the address of code to which a relocation refers; 0 if it does not refer to code. */
static uint64_t reloc_target(const struct elf_file *f, const struct code_space *space, const struct elf_reloc *r)
{
	const struct elf_symbol *y = &f->symbols[r->symbol];
	const struct code_section *c = space_of(space, y->section);

	return c ? c->addr + y->value + (uint64_t)r->addend : 0;
}

/* Returns the size of the field that a relocation for a start changes; 0 if the relocation has any other type. */
static size_t field_size(uint32_t type)
{
	if (type == R_X86_64_PC64)
		return 8;
	return type == R_X86_64_PC32 ? 4 : 0;
}

uint8_t *object_sframe_resolve(const struct elf_file *f, const struct code_space *space, uint32_t section,
                               struct error *e)
{
	const struct elf_section *s = &f->sections[section];
	uint32_t rela = elf_section_rela(f, section, 1);
	struct elf_reloc *r = NULL;
	uint8_t *bytes;
	bool pcrel;
	long count = rela ? elf_relocs(f, rela, &r, e) : 0, i;

	if (count < 0)
		return NULL;
	bytes = mem_alloc(s->sh.sh_size, 1);
	memcpy(bytes, s->data, s->sh.sh_size);
	/* Without this flag, starts are relative to the section in linked files, but not in object files. */
	pcrel = s->sh.sh_size > 3 && (bytes[3] & SFRAME_START_PCREL);
	for (i = 0; i < count; i++) {
		size_t width = field_size(r[i].type);
		uint64_t value = reloc_target(f, space, &r[i]) - (pcrel ? r[i].offset : 0);

		if (width && width <= s->sh.sh_size && r[i].offset <= s->sh.sh_size - width)
			memcpy(bytes + r[i].offset, &value, width);
	}
	free(r);
	return bytes;
}
