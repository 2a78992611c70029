/* SPDX-License-Identifier: MIT */
/* Makes the ORC arrays of an object file, compares them with those that the file already has, and sorts arrays that a
 * linker has joined. */
#include "table/object_orc.h"
#include "output/segment.h"
#include "support/memory.h"

#include <etch/orc_lookup.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- making --------------------------------------------------------------- */

/* The entries for one section of code, while they are made. */
struct maker {
	const struct code_section *section;
	struct etch_orc *orc;
	uint64_t *places;
	size_t count, orc_capacity, place_capacity;
};

static void entry_add(struct maker *m, uint64_t at, const struct etch_orc *orc)
{
	/* adjacent rows with the same entry are merged */
	if (m->count && !memcmp(&m->orc[m->count - 1], orc, sizeof(*orc)))
		return;
	mem_reserve(&m->orc, &m->orc_capacity, m->count, sizeof(*m->orc));
	mem_reserve(&m->places, &m->place_capacity, m->count, sizeof(*m->places));
	m->orc[m->count] = *orc;
	m->places[m->count++] = at;
}

/* Adds the rows that apply to one section of code. *row is advanced to the last row that begins at or before the start
 * of the section. */
static void section_make(struct maker *m, const struct row_list *rows, size_t *row, struct object_orc *out)
{
	uint64_t start = m->section->addr, end = start + m->section->size;
	struct etch_orc entry;
	bool known = false;
	size_t i;

	while (*row + 1 < rows->count && rows->rows[*row + 1].addr <= start)
		(*row)++;
	for (i = *row; i < rows->count && rows->rows[i].addr < end; i++) {
		const struct row *r = &rows->rows[i];

		out->lost += !unwind_orc_pack(&r->rule, r->source, &entry);
		if (r->rule.kind == ETCH_RULE_UNDEF)
			memset(&entry, 0, sizeof(entry));
		known |= r->rule.kind != ETCH_RULE_UNDEF;
		entry_add(m, r->addr > start ? r->addr - start : 0, &entry);
	}
	if (!known) {
		m->count = 0;
		return;
	}
	memset(&entry, 0, sizeof(entry));
	entry_add(m, m->section->size, &entry);
}

void object_orc_build(const struct code_space *space, const struct row_list *rows, struct object_orc *out)
{
	size_t i, row = 0;

	memset(out, 0, sizeof(*out));
	out->sections = mem_zero(2 * space->count + 1, sizeof(*out->sections));
	for (i = 0; i < space->count; i++) {
		struct maker m = {.section = &space->list[i]};

		section_make(&m, rows, &row, out);
		if (!m.count) {
			free(m.orc);
			free(m.places);
			continue;
		}
		out->rows += m.count;
		out->sections[out->count++] = (struct new_section){
			.name = ETCH_SEC_ORC_IP,
			.flags = SHF_ALLOC,
			.align = 4,
			.about = m.section->section,
			.data = mem_zero(m.count, 4),
			.size = 4 * m.count,
			.places = m.places,
			.reloc_count = m.count,
		};
		out->sections[out->count++] = (struct new_section){
			.name = ETCH_SEC_ORC,
			.flags = SHF_ALLOC,
			.align = 2,
			.about = m.section->section,
			.data = (uint8_t *)m.orc,
			.size = sizeof(*m.orc) * m.count,
		};
	}
}

void object_orc_free(struct object_orc *t)
{
	new_sections_free(t->sections, t->count);
	memset(t, 0, sizeof(*t));
}

/* ---- existing arrays ------------------------------------------------------- */

/* An entry of the arrays whose reference has been resolved. */
struct resolved {
	uint64_t section, offset;
	struct etch_orc orc;
	uint16_t zero;
};

struct resolved_list {
	struct resolved *list;
	size_t count;
};

static int resolved_order(const void *a, const void *b)
{
	const struct resolved *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return memcmp(x, y, sizeof(*x));
}

static void resolved_grow(struct resolved_list *l, size_t more)
{
	l->list = mem_resize(l->list, l->count + more, sizeof(*l->list));
	if (more)
		memset(l->list + l->count, 0, more * sizeof(*l->list));
}

/* Reads the entries of one pair of arrays. Returns 1 if it has read them; 0 if the arrays do not match or lack
 * relocations; -1 with a message in *e. */
static int entries_resolve(const struct elf_file *f, uint32_t ip, uint32_t orc, struct resolved_list *l,
                           struct error *e)
{
	const struct elf_section *s = &f->sections[ip], *t = &f->sections[orc];
	uint64_t n = s->sh.sh_size / 4;
	uint32_t rel = elf_section_rela(f, ip, ip); /* the relocations are usually in the next section */
	struct etch_rule rule;
	struct elf_reloc *r;
	long count, i;

	rel = rel ? rel : elf_section_rela(f, ip, 1);
	if (s->sh.sh_size != 4 * n || !t->data || t->sh.sh_size != n * sizeof(struct etch_orc) || !rel)
		return 0;
	count = elf_relocs(f, rel, &r, e);
	if (count < 0)
		return -1;
	resolved_grow(l, n);
	if ((uint64_t)count != n) {
		free(r);
		return 0;
	}
	for (i = 0; i < count; i++) {
		struct resolved *x = &l->list[l->count + (size_t)i];
		const struct elf_symbol *y = r[i].symbol < f->symbol_count ? &f->symbols[r[i].symbol] : NULL;

		if (r[i].offset != 4 * (uint64_t)i || r[i].type != R_X86_64_PC32 || !y || !y->section) {
			free(r);
			return 0;
		}
		x->section = y->section;
		x->offset = y->value + (uint64_t)r[i].addend;
		memcpy(&x->orc, t->data + sizeof(x->orc) * (size_t)i, sizeof(x->orc));
		/* For example, the kernel's objtool makes such arrays, whose numbers of types depend on the version. */
		if (!etch_orc_unpack(&x->orc, &rule)) {
			free(r);
			return error_set(e, "has " ETCH_SEC_ORC " entries that are not etch's: --only imv leaves them alone");
		}
	}
	l->count += n;
	free(r);
	return 1;
}

/* Returns the next array after section `from` that has a name; 0 if there is none. The k-th .orc_unwind_ip and the k-th
 * .orc_unwind are a pair: the linker, strip and objcopy keep their order. */
static uint32_t array_next(const struct elf_file *f, const char *name, uint32_t from)
{
	uint32_t i = from;

	while ((i = elf_section_find(f, name, i + 1)))
		if (f->sections[i].data && f->sections[i].sh.sh_type == SHT_PROGBITS)
			return i;
	return 0;
}

/* Reads all pairs of arrays, and marks their sections and those of their relocations in `emptied`, which may be null.
 * Returns 1; 0 if some pair does not match or lacks relocations; -1 with a message in *e. */
static int arrays_resolve(const struct elf_file *f, struct resolved_list *l, bool *emptied, struct error *e)
{
	uint32_t ip = 0, orc = 0, i;
	int r = 1;

	for (;;) {
		ip = array_next(f, ETCH_SEC_ORC_IP, ip);
		orc = array_next(f, ETCH_SEC_ORC, orc);
		if (!ip && !orc)
			break;
		if (ip && emptied)
			emptied[ip] = true;
		if (orc && emptied)
			emptied[orc] = true;
		if (!ip || !orc) {
			r = 0;
			/* One of the two lists has ended: continue with the other one alone. */
			ip = ip ? ip : f->section_count;
			orc = orc ? orc : f->section_count;
			continue;
		}
		if (r > 0) {
			r = entries_resolve(f, ip, orc, l, e);
			if (r < 0)
				return -1;
		}
	}
	for (i = 1; i < f->section_count && emptied; i++)
		if (f->sections[i].sh.sh_type == SHT_RELA && emptied[f->sections[i].sh.sh_info] &&
		    !strcmp(f->sections[f->sections[i].sh.sh_info].name, ETCH_SEC_ORC_IP))
			emptied[i] = true;
	return r;
}

int object_orc_present(const struct elf_file *f, const struct object_orc *wanted, bool *emptied, struct error *e)
{
	struct resolved_list have = {0}, want = {0};
	int same = arrays_resolve(f, &have, emptied, e);
	size_t k, i, total = 0;

	for (k = 0; k < wanted->count; k += 2)
		total += wanted->sections[k].reloc_count;
	if (same > 0)
		same = have.count == total;
	for (k = 0; k < wanted->count && same > 0; k += 2) {
		const struct new_section *ip = &wanted->sections[k], *orc = &wanted->sections[k + 1];

		resolved_grow(&want, ip->reloc_count);
		for (i = 0; i < ip->reloc_count; i++) {
			struct resolved *x = &want.list[want.count++];

			x->section = ip->about;
			x->offset = ip->places[i];
			memcpy(&x->orc, orc->data + sizeof(x->orc) * i, sizeof(x->orc));
		}
	}
	if (same > 0 && have.count) {
		qsort(have.list, have.count, sizeof(*have.list), resolved_order);
		qsort(want.list, want.count, sizeof(*want.list), resolved_order);
		same = !memcmp(have.list, want.list, have.count * sizeof(*have.list));
	}
	free(have.list);
	free(want.list);
	return same;
}

int object_orc_rows(const struct elf_file *f, const struct code_space *space, struct row_list *out, struct error *e)
{
	struct resolved_list have = {0};
	int r = arrays_resolve(f, &have, NULL, e);
	const struct code_section *c = NULL;
	size_t i;

	memset(out, 0, sizeof(*out));
	if (r <= 0 || !have.count) {
		free(have.list);
		if (!r)
			return error_set(e, "its sections " ETCH_SEC_ORC_IP " and " ETCH_SEC_ORC " do not match");
		return r < 0 ? -1 : 0;
	}
	out->rows = mem_zero(have.count, sizeof(*out->rows));
	out->capacity = have.count;
	/* In a code space, addresses are in the order of section numbers. */
	qsort(have.list, have.count, sizeof(*have.list), resolved_order);
	for (i = 0; i < have.count && r >= 0; i++) {
		const struct resolved *x = &have.list[i];
		struct row *row = &out->rows[out->count];

		if (!c || c->section != x->section)
			c = space_of(space, (uint32_t)x->section);
		if (!c || x->offset > c->size || !etch_orc_unpack(&x->orc, &row->rule) ||
		    (out->count && c->addr + x->offset <= row[-1].addr)) {
			r = error_set(e, "its unwind rows are malformed: entry %zu", i);
			break;
		}
		row->addr = c->addr + x->offset;
		row->source = x->orc.bits >> 12 & 3;
		out->count++;
	}
	free(have.list);
	if (r < 0)
		row_list_free(out);
	return r < 0 ? -1 : 1;
}

/* ---- arrays that a linker has joined -------------------------------------------- */

/* An entry of the ORC arrays, and the address to which it applies. */
struct orc_entry {
	uint64_t addr;
	struct etch_orc orc;
};

/* At equal addresses, the row that ends the code in front sorts before the first row of the code that begins there,
 * because lookups use the last of several rows with one address. */
static int entry_order(const void *a, const void *b)
{
	const struct orc_entry *x = a, *y = b;
	bool u = !(x->orc.bits >> 8 & 7), v = !(y->orc.bits >> 8 & 7);

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (u != v)
		return u ? -1 : 1;
	return memcmp(&x->orc, &y->orc, sizeof(x->orc));
}

/* Is an address in code or at the end of code, where the last rows are? *top is set to the highest end of code. */
static bool is_code(const struct elf_file *f, uint64_t addr, uint64_t *top)
{
	bool found = false;
	uint32_t i;

	*top = 0;
	for (i = 1; i < f->section_count; i++) {
		const Elf64_Shdr *s = &f->sections[i].sh;

		if (!(s->sh_flags & SHF_EXECINSTR) || !(s->sh_flags & SHF_ALLOC) || !s->sh_size)
			continue;
		found |= addr >= s->sh_addr && addr - s->sh_addr <= s->sh_size;
		if (s->sh_addr + s->sh_size > *top)
			*top = s->sh_addr + s->sh_size;
	}
	return found;
}

/* Sorts one pair of ORC arrays in place. Adds the number of rows to *rows. */
static int arrays_sort(struct elf_file *f, uint32_t ip, uint32_t orc, size_t *rows, struct error *e)
{
	const struct elf_section *s = &f->sections[ip], *t = &f->sections[orc];
	uint64_t n = s->sh.sh_size / 4, top;
	struct orc_entry *list;
	int64_t d;
	int32_t field;
	size_t i;
	int err = 0;

	if (elf_section_alone(f, ip, e) || elf_section_alone(f, orc, e))
		return -1;
	if (s->sh.sh_size != n * 4 || t->sh.sh_size != n * sizeof(struct etch_orc))
		return error_set(e, "sections %s and %s have %" PRIu64 " and %" PRIu64 " bytes: not the same number of rows",
		                 s->name, t->name, s->sh.sh_size, t->sh.sh_size);
	list = mem_zero(n + 1, sizeof(*list));
	for (i = 0; i < n; i++) {
		memcpy(&field, s->data + 4 * i, 4);
		memcpy(&list[i].orc, t->data + sizeof(list->orc) * i, sizeof(list->orc));
		list[i].addr = s->sh.sh_addr + 4 * i + (uint64_t)(int64_t)field;
		if (!is_code(f, list[i].addr, &top)) { /* the linker has discarded the code */
			list[i].addr = top;
			memset(&list[i].orc, 0, sizeof(list[i].orc));
		}
	}
	qsort(list, n, sizeof(*list), entry_order);
	for (i = 0; i < n && !err; i++) {
		d = (int64_t)(list[i].addr - (s->sh.sh_addr + 4 * i));
		field = (int32_t)d;
		if (field != d)
			err = error_set(e, "section %s: more than 2 GiB away from the code", s->name);
		memcpy((uint8_t *)s->data + 4 * i, &field, 4);
		memcpy((uint8_t *)t->data + sizeof(list->orc) * i, &list[i].orc, sizeof(list->orc));
	}
	free(list);
	*rows += n;
	return err;
}

/* Returns the next section with this name, from section `from` on, that the linker has written; 0 if there is none. The
 * arrays in the etch segment are sorted already. */
static uint32_t array_find(const struct elf_file *f, const struct segment_found *at, const char *name, uint32_t from)
{
	uint32_t i = from;

	while ((i = elf_section_find(f, name, i))) {
		const struct elf_section *s = &f->sections[i];

		if (s->data && (s->sh.sh_flags & SHF_ALLOC) &&
		    !(s->sh.sh_addr >= at->addr && s->sh.sh_addr - at->addr < at->size))
			return i;
		i++;
	}
	return 0;
}

int object_orc_sort(struct elf_file *f, size_t *rows, struct error *e)
{
	struct segment_found at = {0};
	uint32_t ip = 0, orc = 0;

	*rows = 0;
	if (!elf_section_find(f, ETCH_SEC_ORC_IP, 1))
		return 0;
	if (segment_find(f->bytes, f->size, &at, e) < 0)
		return -1;
	while ((ip = array_find(f, &at, ETCH_SEC_ORC_IP, ip + 1))) {
		orc = array_find(f, &at, ETCH_SEC_ORC, orc + 1);
		if (!orc)
			return error_set(e, "has section " ETCH_SEC_ORC_IP " without " ETCH_SEC_ORC);
		if (arrays_sort(f, ip, orc, rows, e))
			return -1;
	}
	return 0;
}
