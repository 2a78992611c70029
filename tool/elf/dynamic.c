/* SPDX-License-Identifier: MIT */
/* Reads the SHT_RELA and SHT_RELR sections of a linked file into one list of dynamic relocations, sorted by place. */
#include "elf/dynamic.h"

#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

struct list {
	struct dynamic_reloc *relocs;
	size_t count, capacity;
	uint64_t lo, hi;
};

static void add(struct list *l, const struct dynamic_reloc *r)
{
	if (r->place >= l->hi || (r->place < l->lo && l->lo - r->place >= 8))
		return;
	mem_reserve(&l->relocs, &l->capacity, l->count, sizeof(*l->relocs));
	l->relocs[l->count++] = *r;
}

static void relative_add(struct list *l, const struct elf_file *f, uint64_t place)
{
	struct dynamic_reloc r = {.place = place, .type = R_X86_64_RELATIVE};
	const uint8_t *p = elf_at(f, place, 8);

	if (p)
		memcpy(&r.addend, p, 8);
	add(l, &r);
}

/* Reads SHT_RELR: an address is followed by bitmaps, each of which stands for the 63 words after those of the previous
 * entry (gABI, "Relative relocation table"). */
static void relr_read(struct list *l, const struct elf_file *f, const struct elf_section *rel)
{
	uint64_t i, word, base = 0;
	unsigned bit;

	for (i = 0; i + 8 <= rel->sh.sh_size; i += 8) {
		memcpy(&word, rel->data + i, 8);
		if (!(word & 1)) {
			relative_add(l, f, word);
			base = word + 8;
			continue;
		}
		for (bit = 0; bit < 63; bit++)
			if (word >> (bit + 1) & 1)
				relative_add(l, f, base + 8ull * bit);
		base += 63 * 8;
	}
}

static int rela_read(struct list *l, const struct elf_file *f, uint32_t section, struct error *e)
{
	const struct elf_section *rel = &f->sections[section];
	struct elf_reloc *r;
	long n = elf_relocs(f, section, &r, e), k;

	if (n < 0)
		return -1;
	for (k = 0; k < n; k++) {
		/* Static programs have relocations without a symbol table. */
		bool named = r[k].symbol && f->dynsym && rel->sh.sh_link == f->dynsym;
		struct dynamic_reloc x = {r[k].offset, (uint64_t)r[k].addend, r[k].type,
		                          named ? &f->dynsyms[r[k].symbol] : NULL};

		add(l, &x);
	}
	free(r);
	return 0;
}

static int order(const void *a, const void *b)
{
	const struct dynamic_reloc *x = a, *y = b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	if (x->type != y->type)
		return x->type < y->type ? -1 : 1;
	return x->addend < y->addend ? -1 : x->addend > y->addend;
}

int dynamic_relocs_read(const struct elf_file *f, uint64_t lo, uint64_t hi, struct dynamic_reloc **out, size_t *count,
                        struct error *e)
{
	struct list l = {.lo = lo, .hi = hi};
	uint32_t i;
	int err = 0;

	for (i = 1; i < f->section_count && !err; i++) {
		const struct elf_section *rel = &f->sections[i];

		if (!(rel->sh.sh_flags & SHF_ALLOC) || !rel->data)
			continue;
		if (rel->sh.sh_type == SHT_RELR)
			relr_read(&l, f, rel);
		else if (rel->sh.sh_type == SHT_RELA)
			err = rela_read(&l, f, i, e);
	}
	if (err) {
		free(l.relocs);
		l = (struct list){0};
	}
	if (l.count)
		qsort(l.relocs, l.count, sizeof(*l.relocs), order);
	*out = l.relocs;
	*count = l.count;
	return err;
}
