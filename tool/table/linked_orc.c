/* SPDX-License-Identifier: MIT */
/* Sorts the ORC arrays that a linker has joined from those of object files (linked_orc.h). */
#include "table/linked_orc.h"
#include "output/segment.h"
#include "support/memory.h"

#include <etch/orc.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An entry of the ORC arrays, with its address. */
struct orc_entry {
	uint64_t addr;
	struct etch_orc orc;
};

/* At equal addresses, the terminator of the preceding code sorts before the first row of the next code: lookups
 * use the last of equal addresses. */
static int orc_entry_order(const void *a, const void *b)
{
	const struct orc_entry *x = a, *y = b;
	bool u = !(x->orc.bits >> 8 & 7), v = !(y->orc.bits >> 8 & 7);

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (u != v)
		return u ? -1 : 1;
	return memcmp(&x->orc, &y->orc, sizeof(x->orc));
}

/* Is an address in code, or at the end of it, where terminators are? *top is the highest end of code. */
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

/* Sorts a pair of ORC arrays in place. */
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
		if (!is_code(f, list[i].addr, &top)) { /* discarded by the linker */
			list[i].addr = top;
			memset(&list[i].orc, 0, sizeof(list[i].orc));
		}
	}
	qsort(list, n, sizeof(*list), orc_entry_order);
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

/* Finds an array that the linker has written; those in the etch segment are sorted already. */
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

int linked_orc_sort(struct elf_file *f, size_t *rows, struct error *e)
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
