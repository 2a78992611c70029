/* SPDX-License-Identifier: MIT */
/* Finds the kernel's tables (kernel_tables.h) in a file, determines their layouts and decodes their entries. */
#include "kernel/kernel_tables.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one entry ---------------------------------------------------------------------- */

static uint64_t number_read(const uint8_t *p, unsigned size)
{
	uint64_t n = 0;

	memcpy(&n, p, size); /* little-endian, like the machine on which etch runs */
	return n;
}

static void fields_read(struct kernel *k, const struct kernel_table *t, uint64_t at, struct kernel_entry *out)
{
	const uint8_t *data = k->file->sections[t->section].data;
	unsigned i, flags;

	for (i = 0; i < t->layout->count; i++) {
		const struct kernel_field_at *f = &t->layout->fields[i];
		uint64_t from = at + f->at;

		if (!f->size) {
			kernel_ref_read(k, t->section, from, f->ref, &out->place[f->field]);
			continue;
		}
		out->number[f->field] = number_read(data + from, f->size);
		if (kernel_reloc_in(k, t->section, from, from + f->size))
			out->problem = "a relocation in a numeric field";
	}
	/*
	 * The low bits of a key are flags. A static call stores key + flags, and a jump entry stores a difference with the
	 * flags in its low bits. Both are decoded in the same way, since entries are aligned.
	 */
	if (t->kind->id == KT_JUMP || t->kind->id == KT_STATIC_CALL) {
		kernel_place_flags(&out->place[KF_KEY], 3, &flags);
		out->number[KF_FLAGS] = flags;
	}
	if (t->kind->id == KT_ALT && t->layout->size < 14) {
		/*
		 * Bit 15 of an alternative's feature is ALTINSTR_FLAG_INV (ALT_NOT); the numbers of X86_FEATURE are less than
		 * that bit.
		 */
		out->number[KF_FLAGS] = out->number[KF_FEATURE] >> 15;
		out->number[KF_FEATURE] &= 0x7fff;
	}
}

static const char *code_check(const struct kernel *k, const struct kernel_place *p, uint64_t length, const char *none,
                              const char *end)
{
	if (p->kind == KPLACE_NONE)
		return p->why;
	if (!kernel_place_is_code(k, p))
		return none;
	return length > kernel_place_left(k, p) ? end : NULL;
}

/*
 * Checks a handler. It may be a function of another file, or code of this file. Returns null, or the reason why it is
 * malformed.
 */
static const char *handler_check(const struct kernel *k, const struct kernel_place *p)
{
	return p->kind == KPLACE_SYMBOL ? NULL : code_check(k, p, 1, "its handler is not in code", NULL);
}

static const char *target_check(const struct kernel *k, const struct kernel_table *t, const struct kernel_entry *x)
{
	const struct kernel_place *to = &x->place[KF_TO];
	uint64_t length = x->number[KF_NEW_LENGTH];

	switch (t->kind->id) {
	case KT_EX:
		if (t->layout->fields[2].field == KF_HANDLER && handler_check(k, &x->place[KF_HANDLER]))
			return handler_check(k, &x->place[KF_HANDLER]);
		return code_check(k, to, 1, "its fixup is not in code", NULL);
	case KT_JUMP: return code_check(k, to, 1, "its target is not in code", NULL);
	case KT_ALT:
		if (length > x->number[KF_LENGTH])
			return "its replacement is longer than the original";
		if (x->number[KF_PADDING] > x->number[KF_LENGTH])
			return "more padding than instructions";
		return !length ? NULL
		               : code_check(k, to, length, "its replacement is not in code",
		                            "its replacement reaches past the end of its section");
	default: return NULL;
	}
}

static const char *other_check(const struct kernel *k, const struct kernel_table *t, const struct kernel_entry *x)
{
	const struct kernel_place *key = &x->place[KF_KEY];

	if (t->kind->id == KT_JUMP || t->kind->id == KT_STATIC_CALL) {
		if (key->kind == KPLACE_NONE)
			return key->why;
		if (key->kind == KPLACE_OUTSIDE || (key->kind == KPLACE_SECTION && !kernel_place_left(k, key)))
			return "its key is in no section";
	}
	if (t->kind->id == KT_BUG && t->layout->fields[1].field != KF_FLAGS && !kernel_place_string(k, &x->place[KF_FILE]))
		return "its file name is not a string";
	if (t->kind->id == KT_EX && t->layout->fields[2].field == KF_DATA && (x->number[KF_DATA] & 0xff) >= 32)
		return "unknown type";
	return NULL;
}

/* True for an entry of a linked file whose bytes are all zero, so that it refers to itself or to address 0. */
static bool is_empty(const struct kernel *k, const struct kernel_table *t, uint64_t at)
{
	const uint8_t *p = k->file->sections[t->section].data + at;
	unsigned i;

	for (i = 0; i < t->layout->size; i++)
		if (p[i])
			return false;
	return !elf_is_object(k->file);
}

void kernel_entry_read(struct kernel *k, const struct kernel_table *t, size_t i, struct kernel_entry *out)
{
	uint64_t at = t->offset + i * t->layout->size, length;

	memset(out, 0, sizeof(*out));
	out->empty = is_empty(k, t, at);
	if (out->empty)
		return;
	fields_read(k, t, at, out);
	length = out->number[KF_LENGTH];
	if (!out->problem)
		out->problem = code_check(k, &out->place[KF_INSN], length, "its instruction is not in code",
		                          "its instructions reach past the end of their section");
	if (!out->problem)
		out->problem = target_check(k, t, out);
	if (!out->problem)
		out->problem = other_check(k, t, out);
}

/* ---- one table ------------------------------------------------------------------------- */

static bool comes_before(const struct kernel_place *a, const struct kernel_place *b)
{
	return a->section != b->section ? a->section < b->section : a->addr < b->addr;
}

/* Decodes the table by a layout, and counts the entries that are malformed under it. */
static void table_try(struct kernel *k, struct kernel_table *t, const struct kernel_layout *layout)
{
	struct kernel_place before = {0};
	struct kernel_entry x;
	size_t i;

	t->layout = layout;
	t->count = t->size / layout->size;
	t->rest = t->size % layout->size;
	t->bad = t->empty = 0;
	t->sorted = true;
	for (i = 0; i < t->count; i++) {
		kernel_entry_read(k, t, i, &x);
		t->bad += x.problem != NULL;
		t->empty += x.empty;
		if (x.place[KF_INSN].kind != KPLACE_SECTION)
			continue;
		t->sorted &= !comes_before(&x.place[KF_INSN], &before);
		before = x.place[KF_INSN];
	}
}

static bool is_of(const struct kernel_layout *l, unsigned version)
{
	return version && version >= l->from && (!l->to || version < l->to);
}

/*
 * Compares the results of table_try() for two layouts. The better one has the smaller share of malformed entries or, if
 * both shares are equal, no bytes left over. Returns a positive number if a is better, and a negative one if b is.
 */
static int better(const struct kernel_table *a, const struct kernel_table *b)
{
	uint64_t n = a->count - a->empty, m = b->count - b->empty;
	uint64_t x = (uint64_t)a->bad * m, y = (uint64_t)b->bad * n;

	/* A layout without whole entries is the worse one. */
	if (!n || !m)
		return (n != 0) - (m != 0);
	if (x != y)
		return x < y ? 1 : -1;
	return (a->rest == 0) - (b->rest == 0);
}

static void layout_choose(struct kernel *k, struct kernel_table *t)
{
	struct kernel_table best = *t, next = *t;
	unsigned i, equal = 0;
	int r;

	table_try(k, &best, &t->kind->layouts[0]);
	best.from = t->kind->layout_count > 1 ? KLAYOUT_ENTRIES : KLAYOUT_ONLY;
	for (i = 1; i < t->kind->layout_count; i++) {
		table_try(k, &next, &t->kind->layouts[i]);
		r = better(&next, &best);
		if (r < 0)
			continue;
		equal = r > 0 ? 0 : equal + 1;
		next.from = r > 0 ? KLAYOUT_ENTRIES : KLAYOUT_ASSUMED;
		if (r > 0 || (!is_of(best.layout, k->version) && is_of(next.layout, k->version)))
			best = next;
	}
	if (equal)
		best.from = is_of(best.layout, k->version) ? KLAYOUT_RELEASE : KLAYOUT_ASSUMED;
	*t = best;
}

static void table_read(struct kernel *k, struct kernel_table *t)
{
	const char *broken = kernel_relocs_broken(k, t->section);

	if (!k->file->sections[t->section].data) {
		snprintf(t->problem, sizeof(t->problem), "it has no contents in this file");
		t->size = 0;
	}
	layout_choose(k, t);
	if (broken)
		snprintf(t->problem, sizeof(t->problem), "its relocations cannot be read: %.180s", broken);
	else if (t->rest && !t->problem[0])
		snprintf(t->problem, sizeof(t->problem), "its size is not a multiple of %u: %" PRIu64 " bytes are left over",
		         t->layout->size, t->rest);
}

/* ---- where tables are --------------------------------------------------------------------- */

static struct kernel_table *table_add(struct kernel_tables *out, const struct kernel_table_kind *kind, uint32_t section)
{
	struct kernel_table *p;

	out->list = mem_resize(out->list, out->count + 1, sizeof(*out->list));
	p = &out->list[out->count++];
	memset(p, 0, sizeof(*p));
	p->kind = kind;
	p->section = section;
	return p;
}

/* Finds a table that is delimited by two symbols, inside a section with another name. */
static bool by_symbols(struct kernel *k, const struct kernel_table_kind *kind, struct kernel_tables *out)
{
	const struct kernel_symbol *start = kernel_symbol_named(k, kind->start), *stop = kernel_symbol_named(k, kind->stop);
	const Elf64_Shdr *sh;
	struct kernel_table *t;

	if (!start || !stop || (!start->section && start->value != stop->value))
		return false;
	if (start->value == stop->value)
		return true; /* the table is empty */
	t = table_add(out, kind, start->section);
	t->by_symbols = true;
	sh = &k->file->sections[start->section].sh;
	if (start->value < sh->sh_addr || stop->value < start->value || stop->value - sh->sh_addr > sh->sh_size)
		snprintf(t->problem, sizeof(t->problem), "%s and %s do not delimit part of one section", kind->start,
		         kind->stop);
	else {
		t->offset = start->value - sh->sh_addr;
		t->size = stop->value - start->value;
	}
	table_read(k, t);
	return true;
}

static void kind_find(struct kernel *k, const struct kernel_table_kind *kind, struct kernel_tables *out)
{
	const struct elf_file *f = k->file;
	struct kernel_table *t;
	uint32_t i = 0;
	bool any = false;

	while ((i = elf_section_find(f, kind->name, i + 1))) {
		any = true;
		if (!f->sections[i].sh.sh_size)
			continue;
		t = table_add(out, kind, i);
		t->size = f->sections[i].sh.sh_size;
		table_read(k, t);
	}
	if (any || elf_is_object(f))
		return;
	if (!by_symbols(k, kind, out) && kind->inside &&
	    out->missing_count < sizeof(out->missing) / sizeof(out->missing[0]))
		out->missing[out->missing_count++] = kind;
}

void kernel_tables_find(struct kernel *k, struct kernel_tables *out)
{
	size_t i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < kernel_table_kind_count; i++)
		kind_find(k, &kernel_table_kinds[i], out);
}

void kernel_tables_free(struct kernel_tables *t)
{
	free(t->list);
	memset(t, 0, sizeof(*t));
}
