/* SPDX-License-Identifier: MIT */
/*
 * segment.c: layout and output of a linked file with one more PT_LOAD.
 *
 * The file becomes
 *     [all that was there] [segment: note, moved sections, new sections]
 *     [new sections that are not loaded] [.shstrtab] [section headers]
 * where the old .shstrtab and headers, which normally end a file, give way.
 * All of it is derived from what else is in the file, so that a second run
 * arrives at the same place.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment.h"
#include "segment_slot.h"
#include "elf/memory.h"

#define ADDRESS_END (1ull << 47) /* of user space with 4-level page tables */

struct layout {
	struct seg_file f;   /* headers: first as found, then as they will be */
	struct seg_slot slot;
	bool ours;           /* the file has an etch segment */
	size_t load;         /* its index in f.ph */
	size_t note_sec;     /* its first section */
	size_t front_sec;    /* the section over the old ELF header, 0: it is no other than it was */
	size_t table_sec;    /* the section over the program headers in it, 0: none, or an earlier run's */
	struct seg_item *item; /* sections with a new place, in order of old offsets */
	size_t items;
	size_t *sec_of;      /* section index of each of the caller's sections */
	uint64_t *off_of;    /* where each of them lies in the file */
	uint64_t old_base, old_size; /* where an old segment lies in the file */
	uint64_t addr, base, size, first; /* the segment: address, offset, bytes */
	uint8_t *front;      /* the file with a new first page of this size; null without one */
	uint64_t front_size, front_addr; /* ... and where the old ELF header is in memory */
	uint64_t table;      /* the program header table in it, from its start; 0: it is elsewhere */
	uint64_t keep;       /* bytes of the input that the output starts with */
	char *str;           /* .shstrtab */
	uint64_t str_size;
	uint64_t out_size;
};

int seg_fail(int result, char *err, size_t errlen, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (err && errlen)
		vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	return result;
}

#define BAD(...) seg_fail(SEGMENT_EINPUT, err, errlen, __VA_ARGS__)

static bool inside(const struct seg_file *f, uint64_t off, uint64_t n)
{
	return off <= f->size && n <= f->size - off;
}

static bool has_bytes(const Elf64_Shdr *s)
{
	return s->sh_type != SHT_NULL && s->sh_type != SHT_NOBITS && s->sh_size;
}

/* Is this section in memory at [addr, addr+n)?  .tbss has an address but takes no
 * room there, and an empty section at the end of .bss is not in what follows. */
static bool is_mapped_in(const Elf64_Shdr *s, uint64_t addr, uint64_t n)
{
	return (s->sh_flags & SHF_ALLOC) && s->sh_size && s->sh_addr - addr < n &&
	       !(s->sh_type == SHT_NOBITS && (s->sh_flags & SHF_TLS));
}

/* ---- reading -------------------------------------------------------------- */

static int check_ehdr(const struct seg_file *f, char *err, size_t errlen)
{
	const Elf64_Ehdr *eh = &f->eh;

	if (f->size < sizeof *eh || memcmp(f->data, ELFMAG, SELFMAG))
		return BAD("not an ELF file");
	if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_ident[EI_DATA] != ELFDATA2LSB ||
	    eh->e_machine != EM_X86_64)
		return BAD("not a 64-bit x86 ELF file");
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return BAD("not a linked program or shared object (e_type %u)", (unsigned)eh->e_type);
	if (eh->e_ehsize != sizeof *eh || eh->e_phentsize != sizeof(Elf64_Phdr))
		return BAD("ELF header with entries of an unknown size");
	if (!eh->e_phnum || eh->e_phnum == PN_XNUM)
		return BAD("%s", eh->e_phnum ? "too many program headers" : "no program headers");
	if (!inside(f, eh->e_phoff, (uint64_t)eh->e_phnum * sizeof(Elf64_Phdr)) || eh->e_phoff < sizeof *eh)
		return BAD("program headers outside of the file");
	return SEGMENT_OK;
}

/* How many sections there are, and which has their names: from 65,280 on section 0 says so. */
static int count_sections(struct seg_file *f, char *err, size_t errlen)
{
	const Elf64_Ehdr *eh = &f->eh;
	Elf64_Shdr first = {0};

	if (!eh->e_shoff)
		return BAD("no section headers");
	if (eh->e_shentsize != sizeof first)
		return BAD("section headers of an unknown kind");
	if (eh->e_shoff < sizeof *eh || !inside(f, eh->e_shoff, sizeof first))
		return BAD("section headers outside of the file");
	memcpy(&first, f->data + eh->e_shoff, sizeof first);
	f->sections = eh->e_shnum ? eh->e_shnum : first.sh_size;
	f->names = eh->e_shstrndx == SHN_XINDEX ? first.sh_link : eh->e_shstrndx;
	if (!f->sections || f->sections > (f->size - eh->e_shoff) / sizeof first)
		return BAD("section headers outside of the file");
	if (!f->names || f->names >= f->sections)
		return BAD("no section of names");
	return SEGMENT_OK;
}

static int check_phdrs(struct seg_file *f, char *err, size_t errlen)
{
	const Elf64_Phdr *last = NULL;

	for (size_t i = 0; i < f->eh.e_phnum; i++) {
		const Elf64_Phdr *p = &f->ph[i];

		if (p->p_type == PT_NULL)
			continue;
		if (p->p_filesz && !inside(f, p->p_offset, p->p_filesz))
			return BAD("program header %zu: contents outside of the file", i);
		if (p->p_type != PT_LOAD)
			continue;
		if (p->p_memsz < p->p_filesz || p->p_vaddr > ADDRESS_END || p->p_memsz > ADDRESS_END - p->p_vaddr)
			return BAD("program header %zu: impossible size or address", i);
		if ((p->p_vaddr ^ p->p_offset) & (SEGMENT_PAGE - 1))
			return BAD("program header %zu: offset and address disagree about their page", i);
		if (last && p->p_vaddr < last->p_vaddr + last->p_memsz)
			return BAD("program header %zu: overlaps the one before, or is out of order", i);
		last = p;
		f->last_load = i;
	}
	if (!last)
		return BAD("no PT_LOAD program header");
	return SEGMENT_OK;
}

static int check_shdrs(const struct seg_file *f, char *err, size_t errlen)
{
	const Elf64_Shdr *str = &f->sh[f->names];

	for (size_t i = 1; i < f->sections; i++) {
		const Elf64_Shdr *s = &f->sh[i];

		if (has_bytes(s) && !inside(f, s->sh_offset, s->sh_size))
			return BAD("section %zu: contents outside of the file", i);
		if (s->sh_addr + s->sh_size < s->sh_addr)
			return BAD("section %zu: impossible size or address", i);
	}
	if (str->sh_type != SHT_STRTAB || !str->sh_size || (str->sh_flags & SHF_ALLOC) ||
	    f->data[str->sh_offset + str->sh_size - 1])
		return BAD("section names are not a string table");
	for (size_t i = 0; i < f->sections; i++)
		if (f->sh[i].sh_name >= str->sh_size)
			return BAD("section %zu: name outside of the string table", i);
	return SEGMENT_OK;
}

static int file_read(struct seg_file *f, const uint8_t *data, size_t size, char *err, size_t errlen)
{
	int r;

	*f = (struct seg_file){.data = data, .size = size};
	if (size >= sizeof f->eh)
		memcpy(&f->eh, data, sizeof f->eh);
	r = check_ehdr(f, err, errlen);
	if (!r)
		r = count_sections(f, err, errlen);
	if (r)
		return r;
	f->ph = calloc((size_t)f->eh.e_phnum + 1, sizeof *f->ph);
	f->sh = calloc(f->sections, sizeof *f->sh);
	if (!f->ph || !f->sh)
		return seg_fail(SEGMENT_ENOMEM, err, errlen, "out of memory");
	memcpy(f->ph, data + f->eh.e_phoff, f->eh.e_phnum * sizeof *f->ph);
	memcpy(f->sh, data + f->eh.e_shoff, f->sections * sizeof *f->sh);
	r = check_phdrs(f, err, errlen);
	return r ? r : check_shdrs(f, err, errlen);
}

static const char *sec_name(const struct seg_file *f, size_t i)
{
	return (const char *)f->data + f->sh[f->names].sh_offset + f->sh[i].sh_name;
}

/* A section of an earlier run that is not in memory: replaced like the segment. */
static bool is_unloaded(const struct seg_file *f, size_t i)
{
	const Elf64_Shdr *s = &f->sh[i];

	return s->sh_type == SHT_PROGBITS && !(s->sh_flags & SHF_ALLOC) &&
	       !strncmp(sec_name(f, i), SEGMENT_UNLOADED, sizeof SEGMENT_UNLOADED - 1);
}

static const struct segment_note our_note = {
	.namesz = 5, .descsz = 12, .type = SEGMENT_NOTE_TYPE, .name = "etch", .version = SEGMENT_VERSION,
};

/* Finds the segment of an earlier run: 1, 0 or a negative result. */
static int ours_find(const struct seg_file *f, size_t *load, size_t *note_sec, uint64_t *first,
                     char *err, size_t errlen)
{
	struct segment_note note, want = our_note;

	for (size_t i = 1; i < f->sections; i++) {
		const Elf64_Shdr *s = &f->sh[i];

		if (s->sh_type != SHT_PROGBITS || strcmp(sec_name(f, i), SEGMENT_SECTION))
			continue;
		for (size_t k = 0; k < f->eh.e_phnum; k++) {
			const Elf64_Phdr *p = &f->ph[k];

			if (p->p_type != PT_LOAD || p->p_vaddr != s->sh_addr)
				continue;
			if (p->p_flags != PF_R || p->p_offset != s->sh_offset || p->p_filesz != p->p_memsz ||
			    s->sh_size != sizeof note || p->p_filesz < sizeof note ||
			    (p->p_vaddr & (SEGMENT_PAGE - 1)))
				break;
			memcpy(&note, f->data + p->p_offset, sizeof note);
			want.first = note.first;
			if (memcmp(&note, &want, sizeof note))
				return BAD("segment of another version of etch, or a damaged one");
			if (note.first < sizeof note || note.first > p->p_filesz)
				break;
			*load = k;
			*note_sec = i;
			*first = note.first;
			return 1;
		}
		return BAD("section %s is not the start of a segment of its own", SEGMENT_SECTION);
	}
	return 0;
}

int segment_find(const uint8_t *file, size_t size, struct segment_found *found, char *err, size_t errlen)
{
	struct seg_file f;
	size_t load, sec;
	uint64_t first;
	int r = file_read(&f, file, size, err, errlen);

	if (!r)
		r = ours_find(&f, &load, &sec, &first, err, errlen);
	if (r == 1)
		*found = (struct segment_found){f.ph[load].p_offset, f.ph[load].p_vaddr, f.ph[load].p_filesz, first};
	free(f.ph);
	free(f.sh);
	return r;
}

/* ---- layout ---------------------------------------------------------------- */

static int check_list(const struct segment_section *secs, size_t n, char *err, size_t errlen)
{
	if (!n || secs[0].unloaded)
		return seg_fail(SEGMENT_EINVAL, err, errlen, "no section to add");
	for (size_t i = 0; i < n; i++) {
		const struct segment_section *s = &secs[i];

		if (!s->name || !*s->name || !strcmp(s->name, SEGMENT_SECTION) ||
		    !strcmp(s->name, SEGMENT_TABLE) || !strcmp(s->name, SEGMENT_FRONT) || !s->size ||
		    s->size > ADDRESS_END || s->type == SHT_NULL || s->type == SHT_NOBITS ||
		    (s->flags & ~(uint64_t)(SHF_ALLOC | SHF_MERGE | SHF_STRINGS)) || s->align > SEGMENT_PAGE ||
		    (s->align & (s->align - 1)) ||
		    (s->unloaded && strncmp(s->name, SEGMENT_UNLOADED, sizeof SEGMENT_UNLOADED - 1)))
			return seg_fail(SEGMENT_EINVAL, err, errlen, "section %zu (%s) cannot be in a read-only segment",
			                i, s->name ? s->name : "no name");
		for (size_t k = 0; k < i; k++)
			if (!strcmp(s->name, secs[k].name))
				return seg_fail(SEGMENT_EINVAL, err, errlen, "section %s given twice", s->name);
	}
	return SEGMENT_OK;
}

/* The sections that an earlier run moved into the segment stay at their addresses. */
static int ours_read(struct layout *l, uint64_t first, char *err, size_t errlen)
{
	const Elf64_Phdr *p = &l->f.ph[l->load];

	l->addr = p->p_vaddr;
	l->old_base = p->p_offset;
	l->old_size = p->p_filesz;
	if (l->f.eh.e_phoff - p->p_offset < first) {
		l->table = l->f.eh.e_phoff - p->p_offset;
		if (l->table < sizeof our_note || l->f.eh.e_phnum * sizeof *p > first - l->table)
			return BAD("the program headers lie in the etch segment but not where they should");
	}
	l->items = 0;
	for (size_t i = 1; i < l->f.sections; i++) {
		const Elf64_Shdr *s = &l->f.sh[i];
		uint64_t rel = s->sh_addr - p->p_vaddr;
		bool within = is_mapped_in(s, p->p_vaddr, p->p_filesz);
		bool bytes = has_bytes(s) && seg_overlap(s->sh_offset, s->sh_size, p->p_offset, p->p_filesz);

		if ((!within && !bytes) || i == l->note_sec)
			continue;
		if (!within || !has_bytes(s) || rel < sizeof our_note || s->sh_size > p->p_filesz - rel ||
		    s->sh_offset != p->p_offset + rel || i == l->f.names)
			return BAD("section %zu lies in the etch segment but is not part of it", i);
		if (rel < first)
			l->items++;
	}
	l->item = calloc(l->items + 1, sizeof *l->item);
	if (!l->item)
		return seg_fail(SEGMENT_ENOMEM, err, errlen, "out of memory");
	l->items = 0;
	for (size_t i = 1; i < l->f.sections; i++) {
		const Elf64_Shdr *s = &l->f.sh[i];

		if (i == l->note_sec || !is_mapped_in(s, p->p_vaddr, first))
			continue;
		l->item[l->items++] = (struct seg_item){
			.sec = i, .off = s->sh_offset, .addr = s->sh_addr, .size = s->sh_size,
			.new_addr = s->sh_addr, .evicted = true, .phdr = -1,
		};
	}
	return SEGMENT_OK;
}

/*
 * eu-elflint takes the size of a relocation's symbol for the size of the word
 * that it changes, and reports one in a read-only segment that follows closer
 * than that. Addresses cost nothing: a gap of up to MAX_GAP is left instead.
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
 * Where the segment starts, if not where an earlier run put it: at the first page that is free in
 * memory, and at the first one behind what the file has.  With the program headers in it
 * the distance of the two has to be that of the first PT_LOAD: Linux before 5.18 takes
 * AT_PHDR for that much more than e_phoff, and so do readers of memory that look from the
 * ELF header on. Addresses cost nothing, bytes of the file up to MAX_FILL.
 */
#define MAX_FILL (16ull << 20)

static void place_start(struct layout *l)
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

/* Addresses of the segment, of what moves into it, and of the new sections. */
static int place(struct layout *l, struct segment_section *secs, size_t n, char *err, size_t errlen)
{
	uint64_t at = sizeof our_note;

	if (!l->ours && l->slot.table)
		l->table = seg_align(at, 8);
	place_start(l);
	if (l->table)
		at = l->table + (l->f.eh.e_phnum + !l->ours) * sizeof(Elf64_Phdr);
	for (size_t i = 0; i < l->items; i++) {
		struct seg_item *it = &l->item[i];

		if (!it->evicted)
			continue;
		/* By multiples of 8, as in items_pack(): sections of one PT_NOTE stay together. */
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
		if (is_mapped_in(&l->f.sh[i], l->addr, at) &&
		    !(l->ours && is_mapped_in(&l->f.sh[i], l->addr, l->old_size)))
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
				                "the etch segment cannot grow: another one has been put behind it");
			break;
		}
	}
	return SEGMENT_OK;
}

/* Is this byte range of the file part of the old segment? */
static bool in_old(const struct layout *l, uint64_t off, uint64_t n)
{
	return l->ours && off >= l->old_base && off + n <= l->old_base + l->old_size;
}

/* Is this section one that is replaced? */
static bool is_old(const struct layout *l, size_t i)
{
	return in_old(l, l->f.sh[i].sh_offset, l->f.sh[i].sh_size) || is_unloaded(&l->f, i);
}

/* End of all that has to stay where it is in the file: not the old segment, the
 * section names and the section headers. */
static uint64_t kept_end(const struct layout *l)
{
	const struct seg_file *f = &l->f;
	bool grows = !l->ours && l->slot.drop < 0 && !l->slot.table;
	uint64_t table = ((uint64_t)f->eh.e_phnum + grows) * sizeof *f->ph;
	uint64_t end = in_old(l, f->eh.e_phoff, table) ? 0 : f->eh.e_phoff + table;

	for (size_t i = 0; i < f->eh.e_phnum; i++)
		if (f->ph[i].p_type != PT_NULL && f->ph[i].p_filesz &&
		    !in_old(l, f->ph[i].p_offset, f->ph[i].p_filesz))
			end = seg_max(end, f->ph[i].p_offset + f->ph[i].p_filesz);
	for (size_t i = 1; i < f->sections; i++)
		if (has_bytes(&f->sh[i]) && i != f->names && !is_old(l, i))
			end = seg_max(end, f->sh[i].sh_offset + f->sh[i].sh_size);
	return end;
}

/* From `at`, how far to skip over these bytes, or where they start. */
static void known_at(uint64_t off, uint64_t size, uint64_t at, uint64_t *skip, uint64_t *next)
{
	if (at >= off && at - off < size)
		*skip = seg_max(*skip, off + size - at);
	else if (size && off > at && off < *next)
		*next = off;
}

/* What lies behind `end` and is described by no header is not ours to move or
 * drop: archives that unpack themselves, signatures. */
static int check_tail(const struct layout *l, uint64_t end, char *err, size_t errlen)
{
	const Elf64_Shdr *str = &l->f.sh[l->f.names];
	const struct { uint64_t off, size; } known[3] = {
		{str->sh_offset, str->sh_size},
		{l->f.eh.e_shoff, l->f.sections * sizeof *l->f.sh},
		{l->old_base, l->old_size},
	};

	for (uint64_t at = end; at < l->f.size;) {
		uint64_t skip = 0, next = l->f.size; /* where something known starts */

		for (size_t k = 0; k < 3; k++)
			known_at(known[k].off, known[k].size, at, &skip, &next);
		for (size_t i = 1; i < l->f.sections; i++)
			if (has_bytes(&l->f.sh[i]) && is_unloaded(&l->f, i))
				known_at(l->f.sh[i].sh_offset, l->f.sh[i].sh_size, at, &skip, &next);
		for (; !skip && at < next; at++)
			if (l->f.data[at])
				return seg_fail(SEGMENT_ENOSLOT, err, errlen,
				                "data behind the last section (at offset 0x%llx) that no header describes",
				                (unsigned long long)at);
		at += skip;
	}
	return SEGMENT_OK;
}

/* Offset of the first thing behind the old segment. */
static uint64_t old_room_end(const struct layout *l)
{
	const struct seg_file *f = &l->f;
	uint64_t end = f->size;

	if (f->eh.e_shoff >= l->old_base && f->eh.e_shoff < end)
		end = f->eh.e_shoff;
	if (f->eh.e_phoff >= l->old_base && f->eh.e_phoff < end && !l->table)
		end = f->eh.e_phoff;
	for (size_t i = 1; i < f->sections; i++)
		if (has_bytes(&f->sh[i]) && f->sh[i].sh_offset >= l->old_base && f->sh[i].sh_offset < end && !is_old(l, i))
			end = f->sh[i].sh_offset;
	for (size_t i = 0; i < f->eh.e_phnum; i++)
		if (f->ph[i].p_type != PT_NULL && f->ph[i].p_filesz && f->ph[i].p_offset >= l->old_base && f->ph[i].p_offset < end &&
		    !in_old(l, f->ph[i].p_offset, f->ph[i].p_filesz))
			end = f->ph[i].p_offset;
	return end;
}

/* Offset of a name in the new .shstrtab, which has room for it. */
static uint32_t str_add(struct layout *l, const char *name)
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

/* Section headers of the list: those of the same name, then unused ones of the
 * old segment, then new ones at the end. Old ones without use become SHT_NULL. */
static int headers_assign(struct layout *l, const struct segment_section *secs, size_t n,
                          char *err, size_t errlen)
{
	struct seg_file *f = &l->f;
	size_t old = f->sections, end = old;
	bool *spare = calloc(old, sizeof *spare);
	Elf64_Shdr *sh = realloc(f->sh, (old + n + 3) * sizeof *sh);

	if (sh)
		f->sh = sh;
	l->sec_of = calloc(n, sizeof *l->sec_of);
	if (!spare || !sh || !l->sec_of) {
		free(spare);
		return seg_fail(SEGMENT_ENOMEM, err, errlen, "out of memory");
	}
	if (!l->ours)
		l->note_sec = end++;
	if (!l->ours && l->table)
		l->table_sec = end++;
	if (l->front)
		l->front_sec = end++;
	for (size_t i = 1; i < old; i++)
		spare[i] = i != l->note_sec &&
		           ((l->ours && is_mapped_in(&f->sh[i], l->addr, l->old_size)) || is_unloaded(f, i));
	for (size_t i = 0; i < l->items; i++)
		spare[l->item[i].sec] = false;
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 1; k < old && !l->sec_of[i]; k++)
			if (spare[k] && !strcmp(sec_name(f, k), secs[i].name))
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
	return SEGMENT_OK;
}

/* The number of sections where readers look for it: gABI, "Special Section Indexes". */
static void headers_count(struct seg_file *f)
{
	bool many = f->sections >= SHN_LORESERVE;

	if (!many && f->eh.e_shnum) {
		f->eh.e_shnum = (Elf64_Half)f->sections;
		return;
	}
	f->eh.e_shnum = many ? 0 : (Elf64_Half)f->sections;
	f->sh[0].sh_size = many ? f->sections : 0;
}

static void headers_fill(struct layout *l, const struct segment_section *secs, size_t n)
{
	Elf64_Shdr *sh = l->f.sh;

	sh[l->note_sec] = (Elf64_Shdr){
		.sh_name = str_add(l, SEGMENT_SECTION), .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC,
		.sh_addr = l->addr, .sh_offset = l->base, .sh_size = sizeof our_note, .sh_addralign = 4,
	};
	/* strip zeroes what lies between sections. */
	if (l->table_sec)
		sh[l->table_sec] = (Elf64_Shdr){
			.sh_name = str_add(l, SEGMENT_TABLE), .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC,
			.sh_addr = l->addr + l->table, .sh_offset = l->base + l->table,
			.sh_size = (l->f.eh.e_phnum + 1) * sizeof(Elf64_Phdr), .sh_addralign = 8,
		};
	if (l->front_sec)
		sh[l->front_sec] = (Elf64_Shdr){
			.sh_name = str_add(l, SEGMENT_FRONT), .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC,
			.sh_addr = l->front_addr, .sh_offset = l->front_size, .sh_size = sizeof(Elf64_Ehdr), .sh_addralign = 8,
		};
	for (size_t i = 0; i < n; i++)
		sh[l->sec_of[i]] = (Elf64_Shdr){
			.sh_name = str_add(l, secs[i].name), .sh_type = secs[i].type,
			.sh_flags = secs[i].flags | (secs[i].unloaded ? 0 : SHF_ALLOC), .sh_addr = secs[i].addr,
			.sh_offset = l->off_of[i], .sh_size = secs[i].size,
			.sh_addralign = secs[i].align ? secs[i].align : 1, .sh_entsize = secs[i].entsize,
		};
}

/* PT_INTERP, PT_NOTE and PT_GNU_PROPERTY follow their sections. Of a PT_NOTE
 * whose sections were parted, those that stayed in the first segment count. */
static void phdrs_follow(struct layout *l)
{
	for (size_t i = 0; i < l->f.eh.e_phnum; i++) {
		Elf64_Phdr *p = &l->f.ph[i];
		const struct seg_item *from = NULL, *to = NULL;

		if (p->p_type != PT_INTERP && p->p_type != PT_NOTE && p->p_type != PT_GNU_PROPERTY)
			continue;
		if (l->ours && !in_old(l, p->p_offset, p->p_filesz))
			continue;
		for (size_t k = 0; k < l->items; k++) {
			const struct seg_item *it = &l->item[k];

			if (!seg_overlap(it->off, it->size, p->p_offset, p->p_filesz) ||
			    (from && !from->evicted && it->evicted))
				continue;
			if (!from || (from->evicted && !it->evicted) || it->new_off < from->new_off)
				from = it;
			if (!to || (to->evicted && !it->evicted) || it->new_off > to->new_off)
				to = it;
		}
		if (!from)
			continue;
		p->p_offset = from->new_off;
		p->p_vaddr = p->p_paddr = from->new_addr;
		p->p_filesz = p->p_memsz = to->new_off + to->size - from->new_off;
	}
}

/* The PT_LOAD itself: behind the last one, so that they ascend as the gABI asks. */
static void phdr_insert(struct layout *l)
{
	struct seg_file *f = &l->f;
	size_t n = f->eh.e_phnum, at = f->last_load + 1;

	if (l->slot.drop >= 0) {
		size_t d = (size_t)l->slot.drop;

		memmove(&f->ph[d], &f->ph[d + 1], (n - d - 1) * sizeof *f->ph);
		at -= d < at;
		n--;
	}
	memmove(&f->ph[at + 1], &f->ph[at], (n - at) * sizeof *f->ph);
	f->eh.e_phnum = (Elf64_Half)(n + 1);
	f->ph[at] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_align = SEGMENT_PAGE};
	l->load = at;
	for (size_t i = 0; i <= n; i++)
		if (f->ph[i].p_type == PT_PHDR)
			f->ph[i].p_filesz = f->ph[i].p_memsz = (n + 1) * sizeof *f->ph;
}

/* The table where it lies in the segment. What it was stays behind the ELF header, unused. */
static void table_follow(struct layout *l)
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

static int layout_files(struct layout *l, const struct segment_section *secs, size_t n, char *err, size_t errlen)
{
	struct seg_file *f = &l->f;
	Elf64_Shdr *names_sec = &f->sh[f->names];
	uint64_t old_headers = f->sections, old_str = names_sec->sh_size, end = l->keep;
	uint64_t names = sizeof SEGMENT_SECTION + sizeof SEGMENT_TABLE + sizeof SEGMENT_FRONT;
	int r = check_tail(l, end, err, errlen);

	if (r)
		return r;
	/* strip and objcopy put .comment and the like behind the segment. */
	if (l->ours && l->old_base + l->size <= old_room_end(l))
		l->base = l->old_base;
	for (size_t i = 0; i < n; i++)
		names += strlen(secs[i].name) + 1;
	l->str = malloc(old_str + names);
	if (!l->str)
		return seg_fail(SEGMENT_ENOMEM, err, errlen, "out of memory");
	memcpy(l->str, f->data + names_sec->sh_offset, old_str);
	l->str_size = old_str;
	l->off_of = calloc(n, sizeof *l->off_of);
	if (!l->off_of)
		return seg_fail(SEGMENT_ENOMEM, err, errlen, "out of memory");
	l->out_size = seg_max(end, l->base + l->size);
	for (size_t i = 0; i < n; i++) {
		if (secs[i].unloaded)
			l->out_size = seg_align(l->out_size, secs[i].align ? secs[i].align : 1);
		l->off_of[i] = secs[i].unloaded ? l->out_size : l->base + (secs[i].addr - l->addr);
		l->out_size += secs[i].unloaded ? secs[i].size : 0;
	}
	r = headers_assign(l, secs, n, err, errlen);
	if (r)
		return r;
	headers_fill(l, secs, n);
	for (size_t i = 0; i < l->items; i++) {
		struct seg_item *it = &l->item[i];

		if (it->evicted)
			it->new_off = l->base + (it->new_addr - l->addr);
		f->sh[it->sec].sh_addr = it->new_addr;
		f->sh[it->sec].sh_offset = it->new_off;
	}
	phdrs_follow(l);
	if (!l->ours)
		phdr_insert(l);
	f->ph[l->load].p_offset = l->base;
	f->ph[l->load].p_vaddr = f->ph[l->load].p_paddr = l->addr;
	f->ph[l->load].p_filesz = f->ph[l->load].p_memsz = l->size;
	table_follow(l);

	names_sec = &f->sh[f->names];
	if (names_sec->sh_offset + old_str > end || l->str_size != old_str) {
		names_sec->sh_offset = l->out_size;
		names_sec->sh_size = l->str_size;
		l->out_size += l->str_size;
	}
	if (f->eh.e_shoff + old_headers * sizeof *f->sh > end || f->sections != old_headers) {
		f->eh.e_shoff = seg_align(l->out_size, 8);
		l->out_size = f->eh.e_shoff + f->sections * sizeof *f->sh;
	}
	headers_count(f);
	if (l->out_size > SIZE_MAX / 2 || l->keep > f->size)
		return seg_fail(SEGMENT_ENOSLOT, err, errlen, "the file would become too large");
	return SEGMENT_OK;
}

static void layout_free(struct layout *l)
{
	free(l->f.ph);
	free(l->f.sh);
	free(l->front);
	if (l->item != l->slot.item)
		free(l->item);
	free(l->sec_of);
	free(l->off_of);
	free(l->str);
}

static size_t first_load(const struct seg_file *f)
{
	size_t i = 0;

	while (f->ph[i].p_type != PT_LOAD)
		i++;
	return i;
}

/* Room for the program header. A new first page has some, and is preferred to a table
 * elsewhere: segment.h. */
static int slot_take(struct layout *l, char *err, size_t errlen)
{
	int r = seg_slot_find(&l->f, &l->slot, err, errlen);

	if (!r && l->slot.table)
		l->front_size = seg_front_find(&l->f);
	if (!r && l->front_size) {
		l->front_addr = l->f.ph[first_load(&l->f)].p_vaddr;
		if (seg_front_make(&l->f, l->front_size, &l->front))
			return seg_fail(SEGMENT_ENOMEM, err, errlen, "out of memory");
		r = seg_slot_find(&l->f, &l->slot, err, errlen);
	}
	l->item = l->slot.item;
	l->items = l->slot.items;
	return r;
}

/* Everything but the bytes. To be freed in any case. */
static int layout_make(struct layout *l, const uint8_t *file, size_t size, struct segment_section *secs,
                       size_t n, char *err, size_t errlen)
{
	uint64_t first = 0;
	int r;

	memset(l, 0, sizeof *l);
	r = file_read(&l->f, file, size, err, errlen);
	if (!r)
		r = check_list(secs, n, err, errlen);
	if (r)
		return r;
	r = ours_find(&l->f, &l->load, &l->note_sec, &first, err, errlen);
	if (r < 0)
		return r;
	l->ours = r;
	if (l->ours) {
		r = ours_read(l, first, err, errlen);
	} else {
		r = slot_take(l, err, errlen);
	}
	if (r)
		return r;
	l->keep = kept_end(l);
	if (l->ours && l->keep < l->old_base)
		l->keep = l->old_base; /* what was kept before the segment once is kept */
	r = place(l, secs, n, err, errlen);
	return r ? r : layout_files(l, secs, n, err, errlen);
}

/* ---- output ---------------------------------------------------------------- */

/* Local symbols of moved sections (others kept them from moving). */
static void symbols_follow(const struct layout *l, uint8_t *out)
{
	for (size_t i = 1; i < l->f.sections; i++) {
		const Elf64_Shdr *s = &l->f.sh[i];
		Elf64_Sym sym;

		if (s->sh_type != SHT_SYMTAB || (s->sh_flags & SHF_ALLOC))
			continue;
		for (uint64_t k = 0; k + sizeof sym <= s->sh_size; k += sizeof sym) {
			memcpy(&sym, out + s->sh_offset + k, sizeof sym);
			for (size_t m = 0; m < l->items; m++)
				if (sym.st_shndx == l->item[m].sec)
					sym.st_value += l->item[m].new_addr - l->item[m].addr;
			memcpy(out + s->sh_offset + k, &sym, sizeof sym);
		}
	}
}

static void dynamic_follow(const struct layout *l, uint8_t *out)
{
	for (size_t i = 0; i < l->f.eh.e_phnum; i++) {
		const Elf64_Phdr *p = &l->f.ph[i];
		Elf64_Dyn dyn;

		for (uint64_t k = 0; p->p_type == PT_DYNAMIC && k + sizeof dyn <= p->p_filesz; k += sizeof dyn) {
			memcpy(&dyn, out + p->p_offset + k, sizeof dyn);
			if (dyn.d_tag == DT_NULL)
				break;
			for (size_t m = 0; m < l->items; m++)
				if (l->item[m].tag && dyn.d_tag == l->item[m].tag)
					dyn.d_un.d_ptr = l->item[m].new_addr;
			memcpy(out + p->p_offset + k, &dyn, sizeof dyn);
		}
	}
}

static void write_out(const struct layout *l, const struct segment_section *secs, size_t n, uint8_t *out)
{
	const struct seg_file *f = &l->f;
	struct segment_note note = our_note;

	memcpy(out, f->data, l->keep);
	for (size_t i = 0; i < l->items && !l->ours; i++)
		if (l->item[i].new_off != l->item[i].off)
			memset(out + l->item[i].off, 0, l->item[i].size);
	if (l->ours && l->old_base < l->keep)
		memset(out + l->old_base, 0, l->old_size < l->keep - l->old_base ? l->old_size : l->keep - l->old_base);
	for (size_t i = 0; i < l->items; i++)
		memcpy(out + l->item[i].new_off, f->data + l->item[i].off, l->item[i].size);
	note.first = (uint32_t)l->first;
	memcpy(out + l->base, &note, sizeof note);
	for (size_t i = 0; i < n; i++)
		memcpy(out + l->off_of[i], secs[i].data, secs[i].size);
	if (!l->ours) {
		symbols_follow(l, out);
		dynamic_follow(l, out);
	}
	memcpy(out + f->sh[f->names].sh_offset, l->str, l->str_size);
	memcpy(out + f->eh.e_shoff, f->sh, f->sections * sizeof *f->sh);
	memcpy(out + f->eh.e_phoff, f->ph, f->eh.e_phnum * sizeof *f->ph);
	memcpy(out, &f->eh, sizeof f->eh);
	if (l->front) { /* code that knows the old header by __ehdr_start finds the table from there */
		Elf64_Ehdr old = f->eh;

		old.e_phoff -= l->front_size;
		memcpy(out + l->front_size + offsetof(Elf64_Ehdr, e_phoff), &old.e_phoff, sizeof old.e_phoff);
		memcpy(out + l->front_size + offsetof(Elf64_Ehdr, e_phnum), &old.e_phnum, sizeof old.e_phnum);
	}
}

/* Are the headers that would be written those that the file has, wherever in the
 * file they lie? Then it stays as it is, but for the contents of the sections. */
static bool same_headers(const struct layout *l)
{
	const struct seg_file *f = &l->f;
	Elf64_Ehdr eh;

	memcpy(&eh, f->data, sizeof eh);
	if (!l->ours || l->size != l->old_size || eh.e_shnum != f->eh.e_shnum)
		return false;
	for (size_t i = eh.e_shnum ? 1 : 0; i < f->sections; i++) {
		Elf64_Shdr a = f->sh[i], b;

		memcpy(&b, f->data + eh.e_shoff + i * sizeof b, sizeof b);
		a.sh_offset = b.sh_offset;
		/* The table of names only grows: an offset of the old one is one of the new. */
		if (strcmp(l->str + a.sh_name, l->str + b.sh_name))
			return false;
		a.sh_name = b.sh_name;
		if (memcmp(&a, &b, sizeof a))
			return false;
	}
	return true;
}

int segment_plan(const uint8_t *file, size_t size, struct segment_section *secs, size_t n,
                 char *err, size_t errlen)
{
	struct layout l;
	int r = layout_make(&l, file, size, secs, n, err, errlen);

	layout_free(&l);
	return r;
}

/* The contents of the caller's sections, in a file that has room for them. */
static void contents_replace(const struct layout *l, const struct segment_section *secs, size_t n, uint8_t *out)
{
	Elf64_Ehdr eh;
	Elf64_Shdr sh;

	memcpy(&eh, out, sizeof eh);
	for (size_t i = 0; i < n; i++) {
		memcpy(&sh, out + eh.e_shoff + l->sec_of[i] * sizeof sh, sizeof sh);
		memcpy(out + sh.sh_offset, secs[i].data, secs[i].size);
	}
}

static int layout_write(const struct layout *l, const uint8_t *file, const struct segment_section *secs, size_t n,
                        uint8_t **out, size_t *out_size, char *err, size_t errlen)
{
	bool same = same_headers(l);

	if (l->front) /* what the caller did to the file since */
		memcpy(l->front + l->front_size, file, l->f.size - l->front_size);
	*out_size = same ? l->f.size : l->out_size;
	*out = big_alloc(*out_size);
	if (*out && !same)
		memset(*out, 0, *out_size);
	if (!*out)
		return seg_fail(SEGMENT_ENOMEM, err, errlen, "out of memory");
	if (same) {
		memcpy(*out, l->f.data, l->f.size);
		contents_replace(l, secs, n, *out);
	} else {
		write_out(l, secs, n, *out);
	}
	return SEGMENT_OK;
}

int segment_build(const uint8_t *file, size_t size, struct segment_section *secs, size_t n,
                  int (*fill)(void *context), void *context,
                  uint8_t **out, size_t *out_size, char *err, size_t errlen)
{
	struct layout l;
	int r = layout_make(&l, file, size, secs, n, err, errlen);

	if (!r && fill)
		r = fill(context);
	for (size_t i = 0; i < n && !r; i++)
		if (!secs[i].data)
			r = seg_fail(SEGMENT_EINVAL, err, errlen, "section %s has no contents", secs[i].name);
	if (!r)
		r = layout_write(&l, file, secs, n, out, out_size, err, errlen);
	layout_free(&l);
	return r;
}

int segment_add(const uint8_t *file, size_t size, const struct segment_section *secs, size_t n,
                uint8_t **out, size_t *out_size, char *err, size_t errlen)
{
	struct segment_section *planned = malloc((n ? n : 1) * sizeof *planned);
	struct layout l;
	int r;

	if (!planned)
		return seg_fail(SEGMENT_ENOMEM, err, errlen, "out of memory");
	if (n)
		memcpy(planned, secs, n * sizeof *planned);
	r = layout_make(&l, file, size, planned, n, err, errlen);
	for (size_t i = 0; i < n && !r; i++)
		if (planned[i].addr != secs[i].addr || !secs[i].data)
			r = seg_fail(SEGMENT_EINVAL, err, errlen, "section %s is not where segment_plan put it", secs[i].name);
	if (!r)
		r = layout_write(&l, file, secs, n, out, out_size, err, errlen);
	layout_free(&l);
	free(planned);
	return r;
}
