/* SPDX-License-Identifier: MIT */
/* Makes the section headers, program headers and section names of the output. */
#include <stdlib.h>
#include <string.h>

#include "output/segment_layout.h"
#include "support/memory.h"

/* Returns the offset of a name in the new .shstrtab, to which it is appended if necessary. names_begin() has made space
 * for it. */
static uint32_t str_add(struct seg_layout *l, const char *name)
{
	size_t n = strlen(name) + 1;

	for (uint64_t at = 0; at + n <= l->str_size; at++) {
		const char *hit = memchr(l->str + at, *name, l->str_size - at);

		if (!hit)
			break;
		at = (uint64_t)(hit - l->str);
		if (at + n <= l->str_size && !memcmp(hit, name, n))
			return (uint32_t)at;
	}
	memcpy(l->str + l->str_size, name, n);
	l->str_size += n;
	return (uint32_t)(l->str_size - n);
}

/* Numbers the segment's own sections from `end` on, if the file does not have them yet. Returns the next number. */
static size_t own_headers_add(struct seg_layout *l, size_t end)
{
	if (l->ours)
		return end;
	l->note_sec = end++;
	if (l->table)
		l->table_sec = end++;
	if (l->front)
		l->front_sec = end++;
	if (l->front && l->front_page.id_size)
		l->id_sec = end++;
	return end;
}

/* Finds the section headers that an earlier run added and this one may use again. Returns an array by index. */
static bool *spare_find(const struct seg_layout *l, size_t old)
{
	const struct seg_file *f = &l->f;
	bool *spare = mem_zero(old, sizeof *spare);

	for (size_t i = 1; i < old; i++)
		spare[i] = i != l->note_sec &&
		           ((l->ours && seg_is_mapped_in(&f->sh[i], l->addr, l->old_size)) || seg_is_unloaded(f, i));
	for (size_t i = 0; i < l->items; i++)
		spare[l->item[i].sec] = false;
	return spare;
}

/* Assigns a section header to each of the caller's sections: the old segment's header of the same name, or else an
 * unused one of the old segment, or else a new one at the end. Old headers that stay unused become SHT_NULL. */
void seg_headers_assign(struct seg_layout *l, const struct segment_section *secs, size_t n)
{
	struct seg_file *f = &l->f;
	size_t old = f->sections, end;
	bool *spare;

	f->sh = mem_resize(f->sh, old + n + 4, sizeof *f->sh);
	l->sec_of = mem_zero(n, sizeof *l->sec_of);
	end = own_headers_add(l, old);
	spare = spare_find(l, old);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 1; k < old && !l->sec_of[i]; k++)
			if (spare[k] && !strcmp(seg_name(f, k), secs[i].name))
				l->sec_of[i] = k;
		spare[l->sec_of[i]] = false;
	}
	for (size_t i = 0, k = 1; i < n; i++) {
		while (!l->sec_of[i] && k < old && !spare[k])
			k++;
		if (!l->sec_of[i] && k < old) {
			l->sec_of[i] = k;
			spare[k] = false;
		} else if (!l->sec_of[i]) {
			l->sec_of[i] = end++;
		}
	}
	for (size_t k = 1; k < old; k++)
		if (spare[k])
			f->sh[k] = (Elf64_Shdr){0};
	while (end == old && end > 1 && spare[end - 1])
		old = --end;
	free(spare);
	f->sections = end;
}

/* Stores the number of sections in e_shnum, or in section header 0 if it is SHN_LORESERVE or more (gABI, "Special
 * Section Indexes"). */
void seg_headers_count(struct seg_file *f)
{
	bool many = f->sections >= SHN_LORESERVE;

	if (!many && f->eh.e_shnum) {
		f->eh.e_shnum = (Elf64_Half)f->sections;
		return;
	}
	f->eh.e_shnum = many ? 0 : (Elf64_Half)f->sections;
	f->sh[0].sh_size = many ? f->sections : 0;
}

void seg_headers_rename(struct seg_layout *l, const struct segment_section *secs, size_t n, size_t old)
{
	struct seg_file *f = &l->f;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 1; secs[i].former && k < old && k < f->sections; k++) {
			bool added = false;

			for (size_t m = 0; m < n; m++)
				added |= l->sec_of[m] == k;
			if (!added && (f->sh[k].sh_flags & SHF_ALLOC) && !strcmp(seg_name(f, k), secs[i].name))
				f->sh[k].sh_name = str_add(l, secs[i].former);
		}
	}
}

void seg_headers_fill(struct seg_layout *l, const struct segment_section *secs, size_t n)
{
	Elf64_Shdr *sh = l->f.sh;

	sh[l->note_sec] = (Elf64_Shdr){
		.sh_name = str_add(l, SEGMENT_SECTION),
		.sh_type = SHT_PROGBITS,
		.sh_flags = SHF_ALLOC,
		.sh_addr = l->addr,
		.sh_offset = l->base,
		.sh_size = sizeof seg_note,
		.sh_addralign = 4,
	};
	/* The table gets a section of its own, since strip zeroes bytes that are in no section. */
	if (l->table_sec)
		sh[l->table_sec] = (Elf64_Shdr){
			.sh_name = str_add(l, SEGMENT_TABLE),
			.sh_type = SHT_PROGBITS,
			.sh_flags = SHF_ALLOC,
			.sh_addr = l->addr + l->table,
			.sh_offset = l->base + l->table,
			.sh_size = (l->f.eh.e_phnum + l->slot.want) * sizeof(Elf64_Phdr),
			.sh_addralign = 8,
		};
	if (l->front_sec)
		sh[l->front_sec] = (Elf64_Shdr){
			.sh_name = str_add(l, SEGMENT_FRONT),
			.sh_type = SHT_PROGBITS,
			.sh_flags = SHF_ALLOC,
			.sh_addr = l->front_page.header,
			.sh_offset = l->front_page.size,
			.sh_size = sizeof(Elf64_Ehdr),
			.sh_addralign = 8,
		};
	if (l->id_sec)
		sh[l->id_sec] = (Elf64_Shdr){
			.sh_name = str_add(l, SEGMENT_BUILD_ID),
			.sh_type = SHT_NOTE,
			.sh_flags = SHF_ALLOC,
			.sh_addr = l->front_page.header - l->front_page.size + l->front_page.id_off,
			.sh_offset = l->front_page.id_off,
			.sh_size = l->front_page.id_size,
			.sh_addralign = 4,
		};
	for (size_t i = 0; i < n; i++)
		sh[l->sec_of[i]] = (Elf64_Shdr){
			.sh_name = str_add(l, secs[i].name),
			.sh_type = secs[i].type,
			.sh_flags = secs[i].flags | (secs[i].unloaded ? 0 : SHF_ALLOC),
			.sh_addr = secs[i].addr,
			.sh_offset = l->off_of[i],
			.sh_size = secs[i].size,
			.sh_addralign = secs[i].align ? secs[i].align : 1,
			.sh_entsize = secs[i].entsize,
		};
}

/* Finds the sections with the lowest and the highest new offset that a program header covers. If some of its sections
 * moved to the new segment, only those that stayed count. Returns false if it covers none. */
static bool covered_find(const struct seg_layout *l, const Elf64_Phdr *p, const struct seg_item **from,
                         const struct seg_item **to)
{
	*from = *to = NULL;
	for (size_t k = 0; k < l->items; k++) {
		const struct seg_item *it = &l->item[k];

		if (!seg_overlap(it->off, it->size, p->p_offset, p->p_filesz) || (*from && !(*from)->evicted && it->evicted))
			continue;
		if (!*from || ((*from)->evicted && !it->evicted) || it->new_off < (*from)->new_off)
			*from = it;
		if (!*to || ((*to)->evicted && !it->evicted) || it->new_off > (*to)->new_off)
			*to = it;
	}
	return *from;
}

/* Updates PT_INTERP, PT_NOTE and PT_GNU_PROPERTY for moved sections. If some sections of a PT_NOTE moved to the new
 * segment, the PT_NOTE covers those that stayed. */
void seg_phdrs_follow(struct seg_layout *l)
{
	for (size_t i = 0; i < l->f.eh.e_phnum; i++) {
		Elf64_Phdr *p = &l->f.ph[i];
		const struct seg_item *from, *to;

		if (p->p_type != PT_INTERP && p->p_type != PT_NOTE && p->p_type != PT_GNU_PROPERTY)
			continue;
		if ((l->ours && !seg_in_old(l, p->p_offset, p->p_filesz)) || !covered_find(l, p, &from, &to))
			continue;
		p->p_offset = from->new_off;
		p->p_vaddr = p->p_paddr = from->new_addr;
		p->p_filesz = p->p_memsz = to->new_off + to->size - from->new_off;
	}
}

/* Returns the index of the program header of a type, or e_phnum if there is none. */
static size_t cover_find(const struct seg_file *f, uint32_t type)
{
	size_t i = 0;

	while (i < f->eh.e_phnum && f->ph[i].p_type != type)
		i++;
	return i;
}

unsigned seg_covers_missing(const struct seg_file *f, const struct segment_section *secs, size_t n)
{
	unsigned missing = 0;

	for (size_t i = 0; i < n; i++)
		missing += secs[i].phdr && cover_find(f, secs[i].phdr) == f->eh.e_phnum;
	return missing;
}

/* Inserts the new PT_LOAD in the order of addresses that the gABI requires, and appends empty program headers for
 * sections. */
void seg_phdrs_insert(struct seg_layout *l, const struct segment_section *secs, size_t n)
{
	struct seg_file *f = &l->f;
	size_t count = f->eh.e_phnum, at = l->after + 1;

	for (size_t i = l->slot.drops; i-- > 0;) {
		size_t d = l->slot.drop[i];

		memmove(&f->ph[d], &f->ph[d + 1], (count - d - 1) * sizeof *f->ph);
		at -= d < at;
		count--;
	}
	if (!l->inside) {
		memmove(&f->ph[at + 1], &f->ph[at], (count - at) * sizeof *f->ph);
		f->eh.e_phnum = (Elf64_Half)++count;
		f->ph[at] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_align = SEGMENT_PAGE};
		l->load = at;
	}
	for (size_t i = 0; i < n; i++)
		if (secs[i].phdr && cover_find(f, secs[i].phdr) == f->eh.e_phnum) {
			f->ph[count++] = (Elf64_Phdr){.p_type = secs[i].phdr};
			f->eh.e_phnum = (Elf64_Half)count;
		}
	for (size_t i = 0; i < count; i++)
		if (f->ph[i].p_type == PT_PHDR)
			f->ph[i].p_filesz = f->ph[i].p_memsz = count * sizeof *f->ph;
}

/* Points program headers to the sections that need one. A header whose section was in the old segment and is gone
 * becomes unused. */
void seg_phdrs_cover(struct seg_layout *l, const struct segment_section *secs, size_t n)
{
	for (size_t i = 0; i < l->f.eh.e_phnum; i++) {
		Elf64_Phdr *p = &l->f.ph[i];
		size_t k = 0;

		if (p->p_type != PT_GNU_EH_FRAME && p->p_type != PT_GNU_SFRAME)
			continue;
		while (k < n && secs[k].phdr != p->p_type)
			k++;
		if (k < n)
			*p = (Elf64_Phdr){.p_type = secs[k].phdr,
			                  .p_flags = PF_R,
			                  .p_offset = l->off_of[k],
			                  .p_vaddr = secs[k].addr,
			                  .p_paddr = secs[k].addr,
			                  .p_filesz = secs[k].size,
			                  .p_memsz = secs[k].size,
			                  .p_align = secs[k].align ? secs[k].align : 1};
		else if (l->ours && p->p_filesz && seg_in_old(l, p->p_offset, p->p_filesz))
			*p = (Elf64_Phdr){.p_type = PT_NULL};
	}
}

/* Points e_phoff and PT_PHDR to the table in the segment. The old table stays after the ELF header, unused. */
void seg_table_follow(struct seg_layout *l)
{
	struct seg_file *f = &l->f;

	if (!l->table)
		return;
	f->eh.e_phoff = l->base + l->table;
	for (size_t i = 0; i < f->eh.e_phnum; i++) {
		if (f->ph[i].p_type != PT_PHDR)
			continue;
		f->ph[i].p_offset = f->eh.e_phoff;
		f->ph[i].p_vaddr = f->ph[i].p_paddr = l->addr + l->table;
	}
}
