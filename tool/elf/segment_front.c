/* SPDX-License-Identifier: MIT */
/*
 * A new first page with ELF header and program headers for a program at fixed addresses: the layout
 * that a linker would have made with room for more program headers. segment.h has the reason why they
 * do not go to the end of the file.
 */
#include <stdlib.h>
#include <string.h>

#include "elf/segment_layout.h"
#include "support/memory.h"

#define LOWEST 0x10000u     /* the default of vm.mmap_min_addr */
#define MOST   (2ull << 20) /* bytes that the file may grow by */

/* The distance by which everything moves in the file: a multiple of each PT_LOAD's alignment, since offset and
 * address must be congruent modulo the alignment. 0: the alignment is too large, or not a power of two. */
static uint64_t front_size(const struct seg_file *f, unsigned want)
{
	uint64_t need = sizeof f->eh + ((uint64_t)f->eh.e_phnum + 1 + want) * sizeof *f->ph, align = SEGMENT_PAGE;

	for (size_t i = 0; i < f->eh.e_phnum; i++)
		if (f->ph[i].p_type == PT_LOAD)
			align = seg_max(align, f->ph[i].p_align);
	if (align > MOST || (align & (align - 1)))
		return 0;
	return seg_align(need, align);
}

uint64_t seg_front_find(const struct seg_file *f, unsigned want)
{
	uint64_t size = front_size(f, want);

	if (f->eh.e_type != ET_EXEC || !size || size > MOST || f->eh.e_phnum + 1u + want >= PN_XNUM)
		return 0;
	for (size_t i = 0; i < f->eh.e_phnum; i++) {
		const Elf64_Phdr *p = &f->ph[i];

		if (p->p_type == PT_LOAD) /* the first of them has the lowest address */
			return !p->p_offset && p->p_vaddr >= LOWEST + size ? size : 0;
	}
	return 0;
}

struct extent {
	uint64_t from, to;
};

static int extent_order(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

/* Lists the extents of the file that headers describe, sorted. Returns their number. */
static size_t described(const struct seg_file *f, struct extent *list)
{
	size_t n = 0;

	list[n++] = (struct extent){0, sizeof f->eh};
	list[n++] = (struct extent){f->eh.e_phoff, f->eh.e_phoff + f->eh.e_phnum * sizeof *f->ph};
	list[n++] = (struct extent){f->eh.e_shoff, f->eh.e_shoff + f->sections * sizeof *f->sh};
	for (size_t i = 0; i < f->eh.e_phnum; i++)
		if (f->ph[i].p_type != PT_NULL && f->ph[i].p_filesz)
			list[n++] = (struct extent){f->ph[i].p_offset, f->ph[i].p_offset + f->ph[i].p_filesz};
	for (size_t i = 1; i < f->sections; i++)
		if (seg_has_bytes(&f->sh[i]))
			list[n++] = (struct extent){f->sh[i].sh_offset, f->sh[i].sh_offset + f->sh[i].sh_size};
	qsort(list, n, sizeof *list, extent_order);
	return n;
}

int seg_front_check(const struct seg_file *f, char *err, size_t errlen)
{
	struct extent *list = malloc((3 + f->eh.e_phnum + f->sections) * sizeof *list);
	uint64_t at = 0;
	size_t n;
	int r = SEGMENT_OK;

	if (!list)
		return seg_fail(SEGMENT_ENOMEM, err, errlen, NO_MEMORY);
	n = described(f, list);
	for (size_t i = 0; i < n && !r; i++) {
		while (at < list[i].from && !f->data[at])
			at++;
		if (at < list[i].from)
			r = seg_fail(SEGMENT_ENOSLOT, err, errlen,
			             "data between sections (at offset 0x%llx) that no header describes; another program header "
			             "would move it",
			             (unsigned long long)at);
		at = seg_max(at, list[i].to);
	}
	free(list);
	return r;
}

static void phdrs_shift(struct seg_file *f, uint64_t size)
{
	Elf64_Phdr front = {
		.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = SEGMENT_PAGE, .p_memsz = SEGMENT_PAGE, .p_align = SEGMENT_PAGE};
	size_t first = 0, n = f->eh.e_phnum;

	while (f->ph[first].p_type != PT_LOAD)
		first++;
	front.p_vaddr = front.p_paddr = f->ph[first].p_vaddr - size;
	if (sizeof f->eh + (n + 1 + SLOT_MOST) * sizeof *f->ph > SEGMENT_PAGE)
		front.p_filesz = front.p_memsz = size;
	for (size_t i = 0; i < n; i++) {
		if (f->ph[i].p_type != PT_NULL && (f->ph[i].p_filesz || f->ph[i].p_offset))
			f->ph[i].p_offset += size;
		/* ld -N: with less than page alignment GNU strip would move the former first page by less than a page. */
		if (f->ph[i].p_type == PT_LOAD && f->ph[i].p_align < SEGMENT_PAGE)
			f->ph[i].p_align = SEGMENT_PAGE;
	}
	memmove(&f->ph[first + 1], &f->ph[first], (n - first) * sizeof *f->ph);
	f->ph[first] = front;
	f->last_load++;
	f->eh.e_phnum = (Elf64_Half)(n + 1);
	f->eh.e_phoff = sizeof f->eh;
	for (size_t i = 0; i <= n; i++) {
		if (f->ph[i].p_type != PT_PHDR)
			continue;
		f->ph[i].p_offset = f->eh.e_phoff;
		f->ph[i].p_vaddr = f->ph[i].p_paddr = front.p_vaddr + f->eh.e_phoff;
		f->ph[i].p_filesz = f->ph[i].p_memsz = (n + 1) * sizeof *f->ph;
	}
}

int seg_front_make(struct seg_file *f, uint64_t size, uint8_t **bytes)
{
	Elf64_Phdr *ph = realloc(f->ph, ((size_t)f->eh.e_phnum + 1 + SLOT_MOST) * sizeof *ph);

	if (ph)
		f->ph = ph;
	*bytes = ph ? big_alloc(size + f->size) : NULL;
	if (!*bytes)
		return -1;
	memset(*bytes, 0, size);
	memcpy(*bytes + size, f->data, f->size);
	phdrs_shift(f, size);
	for (size_t i = 1; i < f->sections; i++)
		if (f->sh[i].sh_type != SHT_NULL)
			f->sh[i].sh_offset += size;
	f->eh.e_shoff += size;
	f->data = *bytes;
	f->size += size;
	return 0;
}
