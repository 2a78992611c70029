/* SPDX-License-Identifier: MIT */
/* Reads from an object which of its code must not be instrumented (noinstr.h). */
#include "objtool/noinstr.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPS_TABLE "pv_ops"
enum { SLOT_SIZE = 8 };

/*
 * The tables from which the kernel fills pv_ops with functions. In releases with ops_counted, the slots of the second
 * table have the numbers that follow those of pv_ops.
 */
static const char *const tables[] = {OPS_TABLE, "xen_cpu_ops", "xen_irq_ops", "xen_mmu_ops"};
static const char *const counted_tables[] = {OPS_TABLE, "pv_ops_lock"};

/* ---- annotations ------------------------------------------------------------------------- */

static int mark_order(const void *a, const void *b)
{
	const struct noinstr_mark *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static int marks_add(struct noinstr *n, enum linux_annotation kind, int by, struct error *e)
{
	struct linux_place *list;
	long count = linux_annotations(n->map->release, n->map->f, kind, &list, e), i;

	if (count < 0)
		return -1;
	n->marks = mem_resize(n->marks, n->mark_count + (size_t)count + 1, sizeof(*n->marks));
	for (i = 0; i < count; i++) {
		const struct code_section *c = space_of(&n->map->space, list[i].section);

		if (c)
			n->marks[n->mark_count++] = (struct noinstr_mark){c->addr + list[i].at, by};
	}
	free(list);
	return 0;
}

int noinstr_change(const struct noinstr *n, uint64_t at)
{
	size_t k = SEARCH(n->mark_count, i, n->marks[i].at < at);
	int by = 0;

	for (; k < n->mark_count && n->marks[k].at == at; k++)
		by += n->marks[k].by;
	return by;
}

/* ---- pv_ops ------------------------------------------------------------------------------ */

static const struct elf_symbol *symbol_named(const struct elf_file *f, const char *name)
{
	uint32_t i;

	for (i = 1; i < f->symbol_count; i++)
		if (f->symbols[i].section && f->symbols[i].type != STT_SECTION && !strcmp(f->symbols[i].name, name))
			return &f->symbols[i];
	return NULL;
}

/*
 * Returns the index of the symbol to which the relocation of a pointer refers. If that is a section symbol, returns a
 * symbol at the address; 0 if there is none.
 */
static uint32_t function_of(const struct code_map *m, const struct elf_reloc *r)
{
	const struct elf_symbol *y = r->symbol < m->f->symbol_count ? &m->f->symbols[r->symbol] : NULL;
	const struct symbol_index *x = &m->labels;
	size_t k;

	if (!y || y->type != STT_SECTION)
		return y ? r->symbol : 0;
	k = symbol_index_above(x, y->section, (uint64_t)r->addend);
	if (!k || x->list[k - 1]->section != y->section || x->list[k - 1]->value != (uint64_t)r->addend)
		return 0;
	return (uint32_t)(x->list[k - 1] - m->f->symbols);
}

static void op_add(struct noinstr *n, size_t slot, uint32_t symbol)
{
	const char *name = n->map->f->symbols[symbol].name;

	/* The kernel replaces calls of these two functions by native code. A function is listed only for its first slot. */
	if (!symbol || n->listed[symbol] || slot >= n->slot_count || !strcmp(name, "_paravirt_nop") ||
	    !strcmp(name, "_paravirt_ident_64"))
		return;
	n->listed[symbol] = true;
	mem_reserve(&n->ops, &n->op_capacity, n->op_count, sizeof(*n->ops));
	n->ops[n->op_count++] = (struct ops_function){slot, symbol};
}

/* Adds the functions in a table of the file's data. */
static int table_read(struct noinstr *n, const struct elf_symbol *table, size_t first, struct error *e)
{
	const struct elf_file *f = n->map->f;
	uint32_t rel = elf_section_rela(f, table->section, 1);
	struct elf_reloc *r = NULL;
	long count = rel ? elf_relocs(f, rel, &r, e) : 0, i;

	for (i = 0; i < count; i++)
		if (r[i].offset >= table->value && r[i].offset - table->value < table->size)
			op_add(n, first + (r[i].offset - table->value) / SLOT_SIZE, function_of(n->map, &r[i]));
	free(r);
	return count < 0 ? -1 : 0;
}

/*
 * Returns the number of the first slot of a table, if the name is that of a table to which code stores; otherwise
 * SIZE_MAX.
 */
static size_t first_slot(const struct elf_file *f, bool counted, const char *name)
{
	size_t first = 0, i;

	if (!counted)
		return strcmp(name, OPS_TABLE) ? SIZE_MAX : 0;
	for (i = 0; i < sizeof(counted_tables) / sizeof(counted_tables[0]); i++) {
		const struct elf_symbol *y = symbol_named(f, counted_tables[i]);

		if (!strcmp(name, counted_tables[i]))
			return y ? first : SIZE_MAX;
		first += y ? y->size / SLOT_SIZE : 0;
	}
	return SIZE_MAX;
}

/* True if the field at an offset is the address in `mov $imm32, address`, a store of 8 bytes. */
static bool is_store(const struct code_section *c, uint64_t off)
{
	if (off < 3 || c->size - off < 8)
		return false;
	return c->bytes[off - 2] == 0xc7 || c->bytes[off - 3] == 0xc7;
}

/* Adds the functions that start-up code stores in the tables. */
static void stores_read(struct noinstr *n, const struct part *p, bool counted)
{
	const struct elf_file *f = n->map->f;
	size_t i;

	for (i = 0; i + 1 < p->count; i++) {
		const struct elf_reloc *r = &p->relocs[i];
		const char *name = r->symbol < f->symbol_count ? f->symbols[r->symbol].name : "";
		size_t first = name[0] == 'p' ? first_slot(f, counted, name) : SIZE_MAX;

		if (first != SIZE_MAX && r[1].offset == r->offset + 4 && is_store(p->code, r->offset))
			op_add(n, first + (size_t)(r->addend + SLOT_SIZE) / SLOT_SIZE, function_of(n->map, &r[1]));
	}
}

static int ops_read(struct noinstr *n, struct error *e)
{
	const struct elf_file *f = n->map->f;
	bool counted = n->map->release->ops_counted;
	const char *const *names = counted ? counted_tables : tables;
	size_t count = counted ? sizeof(counted_tables) / sizeof(counted_tables[0]) : sizeof(tables) / sizeof(tables[0]), i;
	size_t first = 0;

	for (i = 0; i < (counted ? count : 1); i++) {
		const struct elf_symbol *y = symbol_named(f, names[i]);

		n->slot_count += y ? y->size / SLOT_SIZE : 0;
	}
	if (!n->slot_count || n->slot_count > f->size)
		return 0;
	n->clean = mem_zero(n->slot_count, sizeof(*n->clean));
	n->listed = mem_zero(f->symbol_count, sizeof(*n->listed));
	for (i = 0; i < count; i++) {
		const struct elf_symbol *y = symbol_named(f, names[i]);

		if (y && table_read(n, y, counted ? first : 0, e))
			return -1;
		first += y ? y->size / SLOT_SIZE : 0;
	}
	for (i = 0; i < n->map->space.count; i++)
		if (!strncmp(f->sections[n->map->parts[i].code->section].name, ".init.text", strlen(".init.text")))
			stores_read(n, &n->map->parts[i], counted);
	return 0;
}

static const char *symbol_name(const struct code_map *m, const struct elf_reloc *r)
{
	return r && r->symbol < m->f->symbol_count ? m->f->symbols[r->symbol].name : "";
}

void called_name(const struct code_map *m, const struct elf_reloc *r, char *out, size_t size)
{
	if (m->release->newer_validation || strcmp(symbol_name(m, r), OPS_TABLE))
		snprintf(out, size, "{dynamic}");
	else /* like objtool: the addend is relative to the 4 bytes of the field rather than to the end of the instruction,
	        so the printed number is that of the slot before the called one */
		snprintf(out, size, "pv_ops[%d]", (int)((uint64_t)r->addend / SLOT_SIZE));
}

/* True if the instruction calls through a slot of pv_ops, and no function in this slot is instrumented. */
static bool slot_is_clean(struct noinstr *n, const struct elf_reloc *r, uint64_t off, const struct step *s)
{
	size_t slot, i;

	if (!n->clean || strcmp(symbol_name(n->map, r), OPS_TABLE))
		return false;
	slot = (size_t)(r->addend + (int64_t)(off + s->len - r->offset)) / SLOT_SIZE;
	if (slot >= n->slot_count)
		return false;
	if (n->clean[slot])
		return true;
	n->clean[slot] = true;
	for (i = n->op_count; i-- > 0;) { /* in descending order, as in objtool */
		const struct elf_symbol *y = &n->map->f->symbols[n->ops[i].symbol];

		if (n->ops[i].slot != slot || (y->section && n->sections[y->section]))
			continue;
		objtool_say(n->map->f, "pv_ops[%zu]: %s", slot, y->name);
		n->clean[slot] = false;
	}
	return n->clean[slot];
}

bool noinstr_allows(struct noinstr *n, const char *name, uint32_t section, const struct elf_reloc *r, uint64_t off,
                    const struct step *s)
{
	if (!name)
		return slot_is_clean(n, r, off, s);
	if (section && n->sections[section])
		return true;
	/* It is not known what a trampoline calls. Reports of undefined behaviour are allowed in spite of the risk. */
	return (n->map->release->trampolines_uninstrumented && !strncmp(name, "__SCT__", 7)) ||
	       !strncmp(name, "__ubsan_handle_", 15);
}

/* ------------------------------------------------------------------------------------------ */

int noinstr_read(const struct code_map *map, struct noinstr *out, struct error *e)
{
	uint32_t i;

	*out = (struct noinstr){.map = map, .sections = mem_zero(map->f->section_count, sizeof(bool))};
	for (i = 1; i < map->f->section_count; i++)
		out->sections[i] = (map->f->sections[i].sh.sh_flags & SHF_EXECINSTR) &&
		                   linux_section_noinstr(map->release, map->f->sections[i].name);
	if (marks_add(out, LINUX_INSTR_BEGIN, 1, e) || marks_add(out, LINUX_INSTR_END, -1, e))
		return -1;
	if (out->mark_count)
		qsort(out->marks, out->mark_count, sizeof(*out->marks), mark_order);
	return ops_read(out, e);
}

void noinstr_free(struct noinstr *n)
{
	free(n->sections);
	free(n->marks);
	free(n->clean);
	free(n->listed);
	free(n->ops);
	memset(n, 0, sizeof(*n));
}
