/* SPDX-License-Identifier: MIT */
/* Reads etch's exception tables, and the edges of static branches and markers. In object files the relocations of these
 * tables tell what an entry refers to. */
#include "analysis/facts/fixups.h"
#include "support/memory.h"
#include "shared/search.h"

#include <etch/branch_format.h>

#include <stdlib.h>
#include <string.h>

static const size_t SIZE = sizeof(struct etch_ex);

/* Is the file a Linux kernel or module? These have an exception table with the same name and entry size as etch's, but
 * its entries have other types. */
static bool is_kernel(const struct elf_file *f)
{
	static const char *const names[] = {".modinfo", "__ksymtab", "__bug_table"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (elf_section_find(f, names[i], 1))
			return true;
	return false;
}

/* Returns the reason why a section with the name of the exception table is not etch's, or null if it is etch's. */
static const char *other_format(const struct elf_file *f, const struct elf_section *s)
{
	if (is_kernel(f))
		return "it belongs to the Linux kernel";
	if (!(s->sh.sh_flags & SHF_ALLOC))
		return "it is not loaded";
	if (s->sh.sh_flags & (SHF_WRITE | SHF_EXECINSTR | SHF_TLS | SHF_MERGE | SHF_COMPRESSED))
		return "unexpected section flags";
	if (s->sh.sh_entsize && s->sh.sh_entsize != SIZE)
		return "unexpected entry size";
	return NULL;
}

static const struct elf_reloc *reloc_at(const struct elf_reloc *r, long n, uint64_t offset)
{
	long lo = SEARCH(n, i, r[i].offset < offset);

	return lo < n && r[lo].offset == offset ? &r[lo] : NULL;
}

/*
 * ET_REL: returns the kind of place (enum fixup_place) to which the field at `offset` refers by its relocation, which
 * is one of the n sorted relocations r. *addr becomes the address in the code space if the place is code; otherwise the
 * offset in its section.
 */
static uint8_t fixup_relocated(const struct elf_file *f, const struct code_space *space, const struct elf_reloc *r,
                               long n, uint64_t offset, uint64_t *addr)
{
	const struct elf_reloc *x = reloc_at(r, n, offset);
	const struct elf_symbol *y = x && x->symbol < f->symbol_count ? &f->symbols[x->symbol] : NULL;
	const struct code_section *c;

	*addr = 0;
	if (!y || !y->section)
		return PLACE_NONE;
	*addr = y->value + (uint64_t)x->addend;
	c = space_of(space, y->section);
	if (!c || *addr >= c->size)
		return PLACE_DATA;
	*addr += c->addr;
	return PLACE_CODE;
}

/* Are all relocations like those of extable.h's macros: pc-relative, on one of the two address fields? */
static bool relocs_are_ours(const struct elf_reloc *r, long n)
{
	long i;

	for (i = 0; i < n; i++)
		if ((r[i].type != R_X86_64_PC32 && r[i].type != R_X86_64_PLT32) ||
		    (r[i].offset % SIZE != offsetof(struct etch_ex, insn) &&
		     r[i].offset % SIZE != offsetof(struct etch_ex, fixup)))
			return false;
	return true;
}

/* Linked files: returns the kind of place (enum fixup_place) at an address. An address in the table itself is
 * PLACE_NONE: the fields of an empty entry are 0, and so refer to themselves. */
static uint8_t fixup_linked(const struct elf_file *f, const struct code_space *space, const struct elf_section *table,
                            uint64_t addr)
{
	if (space_at(space, addr))
		return PLACE_CODE;
	if (addr - table->sh.sh_addr < table->sh.sh_size)
		return PLACE_NONE;
	return elf_section_at(f, addr) ? PLACE_DATA : PLACE_NONE;
}

/* Reads the section t->section: appends its entries to out->list, and fills *t. Returns 0, or -1 and a message as
 * fixups_read() does. */
static int table_read(const struct elf_file *f, const struct code_space *space, struct fixups *out,
                      struct fixup_table *t, struct error *e)
{
	const struct elf_section *s = &f->sections[t->section];
	uint32_t rel = elf_is_object(f) ? elf_section_rela(f, t->section, 1) : 0;
	uint64_t base = elf_is_object(f) ? 0 : s->sh.sh_addr, before = 0;
	struct elf_reloc *r = NULL;
	long relocs = 0;
	size_t i;

	t->other_format = other_format(f, s);
	if (!t->other_format && s->sh.sh_size % SIZE)
		return error_set(e, "section %s: size %llu is not a multiple of %zu", s->name,
		                 (unsigned long long)s->sh.sh_size, SIZE);
	if (!t->other_format && rel && (relocs = elf_relocs(f, rel, &r, e)) < 0)
		return -1;
	if (!t->other_format && !relocs_are_ours(r, relocs))
		t->other_format = "its relocations are not PC-relative references to code";
	if (t->other_format) {
		free(r);
		return 0;
	}
	t->count = s->sh.sh_size / SIZE;
	out->list = mem_resize(out->list, out->count + t->count + 1, sizeof(*out->list));
	t->sorted = true;
	for (i = 0; i < t->count; i++) {
		struct fixup *x = &out->list[out->count++];
		struct etch_ex raw;

		memcpy(&raw, s->data + i * SIZE, SIZE);
		*x = (struct fixup){.at = base + i * SIZE, .table = (uint32_t)(t - out->tables), .data = raw.data};
		t->bad += !etch_ex_valid(&raw);
		if (elf_is_object(f)) {
			x->insn_in = fixup_relocated(f, space, r, relocs, i * SIZE + offsetof(struct etch_ex, insn), &x->insn);
			x->to_in = fixup_relocated(f, space, r, relocs, i * SIZE + offsetof(struct etch_ex, fixup), &x->to);
			continue;
		}
		x->insn = x->at + (uint64_t)(int64_t)raw.insn;
		x->to = x->at + offsetof(struct etch_ex, fixup) + (uint64_t)(int64_t)raw.fixup;
		x->insn_in = fixup_linked(f, space, s, x->insn);
		x->to_in = fixup_linked(f, space, s, x->to);
		t->sorted &= x->insn >= before && (x->insn_in != PLACE_NONE || (!raw.insn && !raw.fixup && !raw.data));
		before = x->insn;
	}
	free(r);
	if (t->count && t->bad == t->count) {
		out->count -= t->count;
		t->count = t->bad = 0;
		t->other_format = "none of its entries is in etch's format";
	}
	return 0;
}

static int fixup_order(const void *a, const void *b)
{
	const struct fixup *x = a, *y = b;
	uint64_t i = x->insn_in == PLACE_CODE ? x->insn : 0, k = y->insn_in == PLACE_CODE ? y->insn : 0;

	if (i != k)
		return i < k ? -1 : 1;
	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void fixups_sort(struct fixups *x)
{
	if (x->count)
		qsort(x->list, x->count, sizeof(*x->list), fixup_order);
}

int fixups_read(const struct elf_file *f, const struct code_space *space, struct fixups *out, struct error *e)
{
	uint32_t i, n = 0;

	memset(out, 0, sizeof(*out));
	for (i = 1; i < f->section_count; i++)
		n += elf_name_is(f->sections[i].name, ETCH_SEC_EXTABLE);
	if (!n)
		return 0;
	out->tables = mem_zero(n, sizeof(*out->tables));
	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];

		/* In a file of separate debug information, the section is SHT_NOBITS. */
		if (!elf_name_is(s->name, ETCH_SEC_EXTABLE) || !s->data || s->sh.sh_type != SHT_PROGBITS)
			continue;
		out->tables[out->table_count].section = i;
		if (table_read(f, space, out, &out->tables[out->table_count++], e)) {
			fixups_free(out);
			return -1;
		}
	}
	fixups_sort(out);
	return 0;
}

/* ---- static branches and markers ------------------------------------------------------------ */

/* A kind of table whose records each have the address of a site and the address of a target: its section name, the size
 * of a record, and the offsets of these two members. */
struct edge_table {
	const char *name;
	size_t each, site, target;
};
static const struct edge_table edge_tables[] = {
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

/* Adds the edges of one table of kind k: from the site of each record to its target, and from the site to the next
 * instruction. Returns 0, or -1 and a message. */
static int edges_read(const struct elf_file *f, const struct code_space *space, uint32_t section,
                      const struct edge_table *k, struct fixups *out, struct error *e)
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
		for (k = 0; k < sizeof(edge_tables) / sizeof(edge_tables[0]); k++) {
			const struct elf_section *s = &f->sections[i];

			if (elf_name_is(s->name, edge_tables[k].name) && s->data && s->sh.sh_type == SHT_PROGBITS &&
			    s->sh.sh_size && s->sh.sh_size % edge_tables[k].each == 0 &&
			    edges_read(f, space, i, &edge_tables[k], out, e))
				return -1;
		}
	fixups_sort(out);
	return 0;
}

/* ---- lookup --------------------------------------------------------------------------------- */

void fixups_free(struct fixups *x)
{
	free(x->tables);
	free(x->list);
	memset(x, 0, sizeof(*x));
}

/* Returns the index of the first entry in a sorted list whose insn is in code, at or above addr; `count` if there is
 * none. */
static size_t from(const struct fixup *list, size_t count, uint64_t addr)
{
	return SEARCH(count, i, list[i].insn_in != PLACE_CODE || list[i].insn < addr);
}

const struct fixup *fixups_of(const struct fixups *x, uint64_t start, uint64_t end, size_t *count)
{
	size_t lo = from(x->list, x->count, start);

	*count = from(x->list, x->count, end) - lo;
	return *count ? &x->list[lo] : NULL;
}

const struct fixup *fixup_find(const struct fixup *list, size_t count, uint64_t addr)
{
	size_t i = from(list, count, addr);

	return i < count && list[i].insn == addr ? &list[i] : NULL;
}
