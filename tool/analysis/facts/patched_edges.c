/* SPDX-License-Identifier: MIT */
/* Reads the edges of static branches and markers, from linked files and, by their relocations, from object files. */
#include "analysis/facts/patched_edges.h"
#include "support/memory.h"

#include <etch/branch_format.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A table with a site and a target in each record. */
struct kind {
	const char *name;
	size_t each, site, target;
};
static const struct kind kinds[] = {
	{ETCH_SEC_BRANCH, sizeof(struct etch_branch), offsetof(struct etch_branch, site),
     offsetof(struct etch_branch, target)},
	{ETCH_SEC_MARK, sizeof(struct etch_mark_site), offsetof(struct etch_mark_site, site),
     offsetof(struct etch_mark_site, target)},
};

static void edge_add(struct fixups *out, uint64_t at, uint64_t from, uint64_t to, uint8_t from_in, uint8_t to_in)
{
	out->list[out->count++] = (struct fixup){
		.insn = from, .to = to, .at = at, .table = out->table_count - 1, .insn_in = from_in, .to_in = to_in};
}

/* Adds the edges of one table: from the site of each entry to its target, and to the next instruction. Returns 0, or -1
 * and a message. */
static int table_add(const struct elf_file *f, const struct code_space *space, uint32_t section, const struct kind *k,
                     struct fixups *out, struct error *e)
{
	const struct elf_section *s = &f->sections[section];
	bool object = elf_is_object(f);
	uint32_t rel = object ? elf_section_rela(f, section, 1) : 0;
	struct elf_reloc *r = NULL;
	long relocs = 0;
	uint64_t at;

	if (rel && (relocs = elf_relocs(f, rel, &r, e)) < 0)
		return -1;
	out->tables = mem_resize(out->tables, out->table_count + 1, sizeof(*out->tables));
	out->tables[out->table_count++] = (struct fixup_table){.section = section, .sorted = true, .other_format = "edges"};
	out->list = mem_resize(out->list, out->count + 2 * s->sh.sh_size / k->each + 1, sizeof(*out->list));
	for (at = 0; at < s->sh.sh_size; at += k->each) {
		uint64_t base = object ? at : s->sh.sh_addr + at, site, target;
		uint8_t site_in, target_in;
		int32_t rel32[2];

		memcpy(&rel32[0], s->data + at + k->site, sizeof(rel32[0]));
		memcpy(&rel32[1], s->data + at + k->target, sizeof(rel32[1]));
		if (object) {
			site_in = fixup_relocated(f, space, r, relocs, at + k->site, &site);
			target_in = fixup_relocated(f, space, r, relocs, at + k->target, &target);
		} else {
			site = base + k->site + (uint64_t)(int64_t)rel32[0];
			target = base + k->target + (uint64_t)(int64_t)rel32[1];
			site_in = fixup_linked(f, space, s, site);
			target_in = fixup_linked(f, space, s, target);
		}
		if (site_in != PLACE_CODE || target_in != PLACE_CODE)
			continue;
		edge_add(out, base, site, target, site_in, target_in);
		edge_add(out, base, site, site + ETCH_BRANCH_LEN, site_in, PLACE_CODE);
	}
	free(r);
	return 0;
}

int patched_edges_add(const struct elf_file *f, const struct code_space *space, struct fixups *out, struct error *e)
{
	uint32_t i;
	size_t k;

	for (i = 1; i < f->section_count; i++)
		for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			const struct elf_section *s = &f->sections[i];

			if (elf_name_is(s->name, kinds[k].name) && s->data && s->sh.sh_type == SHT_PROGBITS && s->sh.sh_size &&
			    s->sh.sh_size % kinds[k].each == 0 && table_add(f, space, i, &kinds[k], out, e))
				return -1;
		}
	fixups_sort(out);
	return 0;
}
