/* SPDX-License-Identifier: MIT */
/*
 * Makes a new first page with ELF header and program headers for a program at fixed addresses, and puts the etch
 * segment after it if there is no other place. The result is the layout that a linker would have made with space for
 * them. segment.h has the reasons.
 */
#include <stdlib.h>
#include <string.h>

#include "arch/x86/padding.h"
#include "output/segment_layout.h"
#include "support/memory.h"

#define LOWEST 0x10000u     /* the default of vm.mmap_min_addr */
#define MOST   (2ull << 20) /* greatest number of bytes that the file may grow by */

/* Returns the number of bytes for the ELF header and the table at the start of the file: the table gets one program
 * header for a copy of the build-id, `want` new ones, and as many as may be added to them. */
static uint64_t front_need(const struct seg_file *f, unsigned want)
{
	return sizeof f->eh + ((uint64_t)f->eh.e_phnum + 1 + want + SLOT_MOST) * sizeof *f->ph;
}

/* Returns `need`, rounded up to a multiple of each PT_LOAD's alignment, since offset and address must stay congruent
 * modulo the alignment. Returns 0 if the alignment is too large, or not a power of two. */
static uint64_t front_size(const struct seg_file *f, uint64_t need)
{
	uint64_t align = SEGMENT_PAGE;

	for (size_t i = 0; i < f->eh.e_phnum; i++)
		if (f->ph[i].p_type == PT_LOAD)
			align = seg_max(align, f->ph[i].p_align);
	return align > MOST || (align & (align - 1)) ? 0 : seg_align(need, align);
}

/* Finds the build-id note in the first page of the file. Returns its offset, or 0 if it is not there. */
static uint64_t build_id_find(const struct seg_file *f, uint64_t *size)
{
	for (size_t i = 0; i < f->eh.e_phnum; i++) {
		const Elf64_Phdr *p = &f->ph[i];
		uint64_t end = p->p_offset + p->p_filesz, at = p->p_offset;
		Elf64_Nhdr nh;

		while (p->p_type == PT_NOTE && p->p_align <= 4 && end <= SEGMENT_PAGE && at + sizeof nh + 4 <= end) {
			memcpy(&nh, f->data + at, sizeof nh);
			*size = sizeof nh + seg_align(nh.n_namesz, 4) + seg_align(nh.n_descsz, 4);
			if (*size > end - at)
				break;
			if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == 4 && !memcmp(f->data + at + sizeof nh, ELF_NOTE_GNU, 4))
				return at;
			at += *size;
		}
	}
	return 0;
}

bool seg_front_find(const struct seg_file *f, unsigned want, uint64_t capacity, struct seg_front *front)
{
	const Elf64_Phdr *low = &f->ph[seg_first_load(f)];
	uint64_t need = front_need(f, want), most = ADDRESS_END;

	if (f->eh.e_type != ET_EXEC || !low->p_filesz || capacity > most || f->eh.e_phnum + 1u + want >= PN_XNUM)
		return false;
	/* Readers look for the tables at SEGMENT_INSIDE, and trust that they cannot be written. */
	if (capacity && (need > SEGMENT_INSIDE || !(low->p_flags & PF_R) || (low->p_flags & PF_W)))
		return false;
	*front = (struct seg_front){.size = front_size(f, capacity ? SEGMENT_INSIDE + capacity : need)};
	front->by = front->size + low->p_offset;
	front->header = low->p_vaddr - low->p_offset;
	if (!front->size || (!capacity && front->size > MOST) || low->p_offset > low->p_vaddr ||
	    low->p_vaddr < LOWEST + front->by)
		return false;
	front->id_from = build_id_find(f, &front->id_size);
	if (front->id_from && need + front->id_size + 8 <= SEGMENT_PAGE)
		front->id_off = SEGMENT_PAGE - seg_align(front->id_size, 8);
	else
		front->id_size = 0;
	return true;
}

bool seg_front_grow(const struct seg_file *f, uint64_t from, uint64_t at, uint64_t capacity, struct seg_front *front)
{
	const Elf64_Phdr *low = &f->ph[seg_first_load(f)];

	*front = (struct seg_front){.at = at, .size = front_size(f, capacity - (at - from))};
	front->by = front->size;
	front->header = low->p_vaddr + at;
	return front->size && capacity <= ADDRESS_END && !(at & (SEGMENT_PAGE - 1)) && low->p_vaddr >= LOWEST + front->by;
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

int seg_front_check(const struct seg_file *f, struct error *e)
{
	struct extent *list = mem_alloc(3 + f->eh.e_phnum + f->sections, sizeof *list);
	uint64_t at = 0;
	size_t n = described(f, list);
	int r = SEGMENT_OK;

	for (size_t i = 0; i < n && !r; i++) {
		while (at < list[i].from && (!f->data[at] || x86_is_fill(f->data[at])))
			at++;
		if (at < list[i].from)
			r = seg_fail(SEGMENT_ENOSLOT, e,
			             "data between sections (at offset 0x%llx) that no header describes; another program header "
			             "would move it",
			             (unsigned long long)at);
		at = seg_max(at, list[i].to);
	}
	free(list);
	return r;
}

/* Adds front->size to the offsets of everything at `front->at` or after it, and moves down the addresses of what an
 * earlier run put before it. */
static void contents_shift(struct seg_file *f, const struct seg_front *front)
{
	for (size_t i = 0; i < f->eh.e_phnum; i++) {
		Elf64_Phdr *p = &f->ph[i];

		if (p->p_type != PT_NULL && (p->p_filesz || p->p_offset) && p->p_offset >= front->at)
			p->p_offset += front->size;
		else if (p->p_type != PT_LOAD && p->p_filesz && p->p_offset < front->at)
			p->p_vaddr = p->p_paddr = p->p_vaddr - front->by;
	}
	for (size_t i = 1; i < f->sections; i++) {
		Elf64_Shdr *s = &f->sh[i];

		if (s->sh_type != SHT_NULL && s->sh_offset >= front->at)
			s->sh_offset += front->size;
		else if (s->sh_type != SHT_NULL && (s->sh_flags & SHF_ALLOC))
			s->sh_addr -= front->by;
	}
	f->eh.e_shoff += f->eh.e_shoff >= front->at ? front->size : 0;
}

/* Extends the first PT_LOAD downwards. */
static void load_extend(struct seg_file *f, const struct seg_front *front)
{
	Elf64_Phdr *low = &f->ph[seg_first_load(f)];

	low->p_offset = 0;
	low->p_vaddr -= front->by;
	low->p_paddr = low->p_vaddr;
	low->p_filesz += front->by;
	low->p_memsz += front->by;
}

/* Moves the program headers to the new first page. */
static void table_begin(struct seg_file *f, const struct seg_front *front)
{
	const Elf64_Phdr *low = &f->ph[seg_first_load(f)];
	size_t n = f->eh.e_phnum;

	/* ld -N aligns by less than a page: GNU strip would then move the former first page by less than a page. */
	for (size_t i = 0; i < n; i++)
		if (f->ph[i].p_type == PT_LOAD && f->ph[i].p_align < SEGMENT_PAGE)
			f->ph[i].p_align = SEGMENT_PAGE;
	if (front->id_size)
		f->ph[n++] = (Elf64_Phdr){.p_type = PT_NOTE,
		                          .p_flags = PF_R,
		                          .p_offset = front->id_off,
		                          .p_vaddr = low->p_vaddr + front->id_off,
		                          .p_paddr = low->p_vaddr + front->id_off,
		                          .p_filesz = front->id_size,
		                          .p_memsz = front->id_size,
		                          .p_align = 4};
	f->eh.e_phnum = (Elf64_Half)n;
	f->eh.e_phoff = sizeof f->eh;
	for (size_t i = 0; i < n; i++) {
		if (f->ph[i].p_type != PT_PHDR)
			continue;
		f->ph[i].p_offset = f->eh.e_phoff;
		f->ph[i].p_vaddr = f->ph[i].p_paddr = low->p_vaddr + f->eh.e_phoff;
		f->ph[i].p_filesz = f->ph[i].p_memsz = n * sizeof *f->ph;
	}
}

uint8_t *seg_front_make(struct seg_file *f, const struct seg_front *front)
{
	uint8_t *bytes = big_alloc(front->size + f->size);

	f->ph = mem_resize(f->ph, (size_t)f->eh.e_phnum + 1 + SLOT_MOST, sizeof *f->ph);
	memcpy(bytes, f->data, front->at);
	memset(bytes + front->at, 0, front->size);
	memcpy(bytes + front->at + front->size, f->data + front->at, f->size - front->at);
	if (front->id_size)
		memcpy(bytes + front->id_off, f->data + front->id_from, front->id_size);
	contents_shift(f, front);
	load_extend(f, front);
	if (!front->at)
		table_begin(f, front);
	f->data = bytes;
	f->size += front->size;
	return bytes;
}
