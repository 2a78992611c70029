/* SPDX-License-Identifier: MIT */
/* Decides the place of the segment and its sections, in memory and in the file. */
#include <stdlib.h>
#include <string.h>

#include "elf/segment_layout.h"
#include "elf/undo.h"

int seg_check_list(const struct segment_section *secs, size_t n, char *err, size_t errlen)
{
	if (!n || secs[0].unloaded)
		return seg_fail(SEGMENT_EINVAL, err, errlen, "no section to add");
	for (size_t i = 0; i < n; i++) {
		const struct segment_section *s = &secs[i];

		if (!s->name || !*s->name || !strcmp(s->name, SEGMENT_SECTION) || !strcmp(s->name, SEGMENT_TABLE) ||
		    !strcmp(s->name, SEGMENT_FRONT) || !s->size || s->size > ADDRESS_END || s->type == SHT_NULL ||
		    s->type == SHT_NOBITS || (s->flags & ~(uint64_t)(SHF_ALLOC | SHF_MERGE | SHF_STRINGS)) ||
		    s->align > SEGMENT_PAGE || (s->align & (s->align - 1)) ||
		    (s->unloaded && strncmp(s->name, SEGMENT_UNLOADED, sizeof SEGMENT_UNLOADED - 1)))
			return seg_fail(SEGMENT_EINVAL, err, errlen, "section %zu (%s) cannot be in a read-only segment", i,
			                s->name ? s->name : "no name");
		for (size_t k = 0; k < i; k++)
			if (!strcmp(s->name, secs[k].name))
				return seg_fail(SEGMENT_EINVAL, err, errlen, "section %s given twice", s->name);
	}
	return SEGMENT_OK;
}

/* Fills l->item with the sections that an earlier run moved into the segment: they keep their addresses. */
int seg_ours_read(struct seg_layout *l, uint64_t first, char *err, size_t errlen)
{
	const Elf64_Phdr *p = &l->f.ph[l->load];

	l->addr = p->p_vaddr;
	l->old_base = p->p_offset;
	l->old_size = p->p_filesz;
	if (l->f.eh.e_phoff - p->p_offset < first) {
		l->table = l->f.eh.e_phoff - p->p_offset;
		if (l->table < sizeof seg_note || l->f.eh.e_phnum * sizeof *p > first - l->table)
			return BAD("the program headers are misplaced in the etch segment");
	}
	l->items = 0;
	for (size_t i = 1; i < l->f.sections; i++) {
		const Elf64_Shdr *s = &l->f.sh[i];
		uint64_t rel = s->sh_addr - p->p_vaddr;
		bool within = seg_is_mapped_in(s, p->p_vaddr, p->p_filesz);
		bool bytes = seg_has_bytes(s) && seg_overlap(s->sh_offset, s->sh_size, p->p_offset, p->p_filesz);

		if ((!within && !bytes) || i == l->note_sec)
			continue;
		if (!within || !seg_has_bytes(s) || rel < sizeof seg_note || s->sh_size > p->p_filesz - rel ||
		    s->sh_offset != p->p_offset + rel || i == l->f.names)
			return BAD("section %zu lies in the etch segment but is not part of it", i);
		if (rel < first)
			l->items++;
	}
	l->item = calloc(l->items + 1, sizeof *l->item);
	if (!l->item)
		return seg_fail(SEGMENT_ENOMEM, err, errlen, NO_MEMORY);
	l->items = 0;
	for (size_t i = 1; i < l->f.sections; i++) {
		const Elf64_Shdr *s = &l->f.sh[i];

		if (i == l->note_sec || !seg_is_mapped_in(s, p->p_vaddr, first))
			continue;
		l->item[l->items++] = (struct seg_item){
			.sec = i,
			.off = s->sh_offset,
			.addr = s->sh_addr,
			.size = s->sh_size,
			.new_addr = s->sh_addr,
			.evicted = true,
			.phdr = -1,
		};
	}
	return SEGMENT_OK;
}

/*
 * eu-elflint takes the size of a relocation's symbol for the number of bytes that the
 * relocation writes, and reports the read-only segment if these bytes would reach into
 * it. Addresses cost nothing: a gap of up to MAX_GAP avoids the report.
 */
#define MAX_GAP (256ull << 20)

static uint64_t above_relocations(const struct seg_file *f, uint64_t addr)
{
	uint64_t top = addr;

	for (size_t i = 1; i < f->sections; i++) {
		const Elf64_Shdr *s = &f->sh[i], *syms;
		Elf64_Rela rela;
		Elf64_Sym sym;

		if (s->sh_type != SHT_RELA || !(s->sh_flags & SHF_ALLOC) || s->sh_link >= f->sections)
			continue;
		syms = &f->sh[s->sh_link];
		if (syms->sh_type != SHT_DYNSYM && syms->sh_type != SHT_SYMTAB)
			continue;
		for (uint64_t k = 0; k + sizeof rela <= s->sh_size; k += sizeof rela) {
			memcpy(&rela, f->data + s->sh_offset + k, sizeof rela);
			if (ELF64_R_SYM(rela.r_info) >= syms->sh_size / sizeof sym || rela.r_offset >= addr)
				continue;
			memcpy(&sym, f->data + syms->sh_offset + ELF64_R_SYM(rela.r_info) * sizeof sym, sizeof sym);
			if (sym.st_size <= MAX_GAP && rela.r_offset + sym.st_size < addr + MAX_GAP)
				top = seg_max(top, rela.r_offset + sym.st_size + 1);
		}
	}
	return top;
}

/*
 * Sets address and file offset of the segment: the first free page in memory (or the address of an
 * earlier run) and the first page behind the kept bytes of the file.  If the segment contains the program headers,
 * its address - offset has to equal that of the first PT_LOAD: Linux before 5.18 computes AT_PHDR as
 * e_phoff plus that difference, and so do debuggers that start from the ELF header in memory.
 * Either one is increased: addresses cost nothing, bytes of the file are spent up to MAX_FILL.
 */
#define MAX_FILL (16ull << 20)

static void place_start(struct seg_layout *l)
{
	const Elf64_Phdr *top = &l->f.ph[l->f.last_load], *low = top;
	uint64_t want;

	if (!l->ours)
		l->addr = seg_align(above_relocations(&l->f, top->p_vaddr + top->p_memsz), SEGMENT_PAGE);
	l->base = seg_align(l->keep, SEGMENT_PAGE);
	if (!l->table)
		return;
	for (size_t i = 0; i < l->f.eh.e_phnum; i++)
		if (l->f.ph[i].p_type == PT_LOAD && l->f.ph[i].p_vaddr < low->p_vaddr)
			low = &l->f.ph[i];
	want = l->addr - (low->p_vaddr - low->p_offset);
	if (want > l->base && want - l->base <= MAX_FILL)
		l->base = want;
	else if (want < l->base && l->base - want <= MAX_GAP && !l->ours)
		l->addr += l->base - want;
}

/* Does the section begin below the address and end above it? Possible where a segment was cut short. */
static bool reaches(const Elf64_Shdr *s, uint64_t addr)
{
	return s->sh_addr < addr && seg_is_mapped_in(s, s->sh_addr, 1) && s->sh_size > addr - s->sh_addr;
}

int seg_place(struct seg_layout *l, struct segment_section *secs, size_t n, char *err, size_t errlen)
{
	uint64_t at = sizeof seg_note;

	if (!l->ours && l->slot.table)
		l->table = seg_align(at, 8);
	place_start(l);
	if (l->table)
		at = l->table + (l->f.eh.e_phnum + (l->ours ? 0 : l->slot.want)) * sizeof(Elf64_Phdr);
	for (size_t i = 0; i < l->items; i++) {
		struct seg_item *it = &l->item[i];

		if (!it->evicted)
			continue;
		/* Sections of one PT_NOTE move by the same distance (a multiple of 8, as in items_pack()) and stay together. */
		if (!l->ours && i && it->phdr >= 0 && it[-1].evicted && it->phdr == it[-1].phdr)
			it->new_addr = it->addr + (it[-1].new_addr - it[-1].addr);
		else if (!l->ours)
			it->new_addr = it->addr + seg_align(l->addr + at - it->addr, it->align);
		at = seg_max(at, it->new_addr + it->size - l->addr);
	}
	l->first = 0;
	for (size_t i = 0; i < n; i++) {
		secs[i].addr = 0;
		if (secs[i].unloaded)
			continue;
		at = seg_align(at, secs[i].align ? secs[i].align : 1);
		if (!i)
			l->first = at;
		secs[i].addr = l->addr + at;
		if (l->addr + at > ADDRESS_END || secs[i].size > ADDRESS_END - l->addr - at)
			return seg_fail(SEGMENT_ENOSLOT, err, errlen, "no addresses left above the last segment");
		at += secs[i].size;
	}
	for (size_t i = 1; i < l->f.sections; i++)
		if ((seg_is_mapped_in(&l->f.sh[i], l->addr, at) || reaches(&l->f.sh[i], l->addr)) &&
		    !(l->ours && seg_is_mapped_in(&l->f.sh[i], l->addr, l->old_size)))
			return BAD("section %zu lies above all segments", i);
	if (l->first > UINT32_MAX)
		return seg_fail(SEGMENT_ENOSLOT, err, errlen, "moved sections are too large");
	l->size = at;
	if (l->ours && l->load != l->f.last_load) {
		for (size_t i = l->load + 1; i < l->f.eh.e_phnum; i++) {
			if (l->f.ph[i].p_type != PT_LOAD)
				continue;
			if (seg_align(l->addr + at, SEGMENT_PAGE) > (l->f.ph[i].p_vaddr & -(uint64_t)SEGMENT_PAGE))
				return seg_fail(SEGMENT_ENOSLOT, err, errlen,
				                "the etch segment cannot grow: another segment follows it");
			break;
		}
	}
	return SEGMENT_OK;
}

/* True if this byte range of the file is in the old segment. */
bool seg_in_old(const struct seg_layout *l, uint64_t off, uint64_t n)
{
	return l->ours && off >= l->old_base && off + n <= l->old_base + l->old_size;
}

/* True for a section of an earlier run, which is replaced. */
static bool is_old(const struct seg_layout *l, size_t i)
{
	return seg_in_old(l, l->f.sh[i].sh_offset, l->f.sh[i].sh_size) || seg_is_unloaded(&l->f, i);
}

/* File offset behind everything that has to keep its offset: all but the old segment, the
 * section names and the section headers. */
uint64_t seg_kept_end(const struct seg_layout *l)
{
	const struct seg_file *f = &l->f;
	size_t grows = l->ours || l->slot.table ? 0 : l->slot.want - l->slot.drops;
	uint64_t table = (f->eh.e_phnum + grows) * sizeof *f->ph;
	uint64_t end = seg_in_old(l, f->eh.e_phoff, table) ? 0 : f->eh.e_phoff + table;

	for (size_t i = 0; i < f->eh.e_phnum; i++)
		if (f->ph[i].p_type != PT_NULL && f->ph[i].p_filesz && !seg_in_old(l, f->ph[i].p_offset, f->ph[i].p_filesz))
			end = seg_max(end, f->ph[i].p_offset + f->ph[i].p_filesz);
	for (size_t i = 1; i < f->sections; i++)
		if (seg_has_bytes(&f->sh[i]) && i != f->names && !is_old(l, i))
			end = seg_max(end, f->sh[i].sh_offset + f->sh[i].sh_size);
	return end;
}

/* For the known extent [off, off + size): if `at` is in it, raises *skip to the bytes left of it; if it starts
 * behind `at`, lowers *next to its start. */
static void known_at(uint64_t off, uint64_t size, uint64_t at, uint64_t *skip, uint64_t *next)
{
	if (at >= off && at - off < size)
		*skip = seg_max(*skip, off + size - at);
	else if (size && off > at && off < *next)
		*next = off;
}

/* The offset from which to look for data that no header describes: that of the undo record, if the file has one, else
 * `end`. In front of a record the only such bytes are the section names and headers that the file had without it, since
 * undo_attach() refuses a file with other data at its end. */
static uint64_t record_start(const struct seg_file *f, uint64_t end)
{
	for (size_t i = 1; i < f->sections; i++)
		if (seg_is_unloaded(f, i) && !strcmp(seg_name(f, i), UNDO_SECTION))
			return seg_max(end, f->sh[i].sh_offset);
	return end;
}

/* Data behind `end` that no header describes must neither move nor be dropped:
 * self-extracting archives, signatures. */
int seg_check_tail(const struct seg_layout *l, uint64_t end, char *err, size_t errlen)
{
	const Elf64_Shdr *str = &l->f.sh[l->f.names];
	const struct {
		uint64_t off, size;
	} known[3] = {
		{str->sh_offset, str->sh_size},
		{l->f.eh.e_shoff, l->f.sections * sizeof *l->f.sh},
		{l->old_base, l->old_size},
	};

	for (uint64_t at = record_start(&l->f, end); at < l->f.size;) {
		uint64_t skip = 0, next = l->f.size; /* where the next known extent starts */

		for (size_t k = 0; k < 3; k++)
			known_at(known[k].off, known[k].size, at, &skip, &next);
		for (size_t i = 1; i < l->f.sections; i++)
			if (seg_has_bytes(&l->f.sh[i]) && seg_is_unloaded(&l->f, i))
				known_at(l->f.sh[i].sh_offset, l->f.sh[i].sh_size, at, &skip, &next);
		for (; !skip && at < next; at++)
			if (l->f.data[at])
				return seg_fail(SEGMENT_ENOSLOT, err, errlen,
				                "data after the last section (at offset 0x%llx) that no header describes",
				                (unsigned long long)at);
		at += skip;
	}
	return SEGMENT_OK;
}

/* File offset of whatever follows the old segment: how far the segment can grow in place. */
uint64_t seg_old_room_end(const struct seg_layout *l)
{
	const struct seg_file *f = &l->f;
	uint64_t end = f->size;

	if (f->eh.e_shoff >= l->old_base && f->eh.e_shoff < end)
		end = f->eh.e_shoff;
	if (f->eh.e_phoff >= l->old_base && f->eh.e_phoff < end && !l->table)
		end = f->eh.e_phoff;
	for (size_t i = 1; i < f->sections; i++)
		if (seg_has_bytes(&f->sh[i]) && f->sh[i].sh_offset >= l->old_base && f->sh[i].sh_offset < end && !is_old(l, i))
			end = f->sh[i].sh_offset;
	for (size_t i = 0; i < f->eh.e_phnum; i++)
		if (f->ph[i].p_type != PT_NULL && f->ph[i].p_filesz && f->ph[i].p_offset >= l->old_base &&
		    f->ph[i].p_offset < end && !seg_in_old(l, f->ph[i].p_offset, f->ph[i].p_filesz))
			end = f->ph[i].p_offset;
	return end;
}
