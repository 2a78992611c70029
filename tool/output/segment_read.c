/* SPDX-License-Identifier: MIT */
/* Reads and checks the headers of a linked file, and finds the segment of an earlier run. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/segment_layout.h"
#include "support/memory.h"

int seg_fail(int result, struct error *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	error_setv(e, fmt, ap);
	va_end(ap);
	return result;
}

static bool inside(const struct seg_file *f, uint64_t off, uint64_t n) { return off <= f->size && n <= f->size - off; }

bool seg_has_bytes(const Elf64_Shdr *s) { return s->sh_type != SHT_NULL && s->sh_type != SHT_NOBITS && s->sh_size; }

/* Does this section begin in the memory at [addr, addr+n)? .tbss has an address but occupies no memory, and an empty
 * section at the end of .bss is not in the range after it. */
bool seg_is_mapped_in(const Elf64_Shdr *s, uint64_t addr, uint64_t n)
{
	return (s->sh_flags & SHF_ALLOC) && s->sh_size && s->sh_addr - addr < n &&
	       !(s->sh_type == SHT_NOBITS && (s->sh_flags & SHF_TLS));
}

static int check_ehdr(const struct seg_file *f, struct error *e)
{
	const Elf64_Ehdr *eh = &f->eh;

	if (f->size < sizeof *eh || memcmp(f->data, ELFMAG, SELFMAG))
		return BAD("not an ELF file");
	if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_ident[EI_DATA] != ELFDATA2LSB || eh->e_machine != EM_X86_64)
		return BAD("not a 64-bit x86 ELF file");
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return BAD("not a linked program or shared object (e_type %u)", (unsigned)eh->e_type);
	if (eh->e_ehsize != sizeof *eh || eh->e_phentsize != sizeof(Elf64_Phdr))
		return BAD("ELF header with unknown entry sizes");
	if (!eh->e_phnum || eh->e_phnum == PN_XNUM)
		return BAD("%s", eh->e_phnum ? "too many program headers" : "no program headers");
	if (!inside(f, eh->e_phoff, (uint64_t)eh->e_phnum * sizeof(Elf64_Phdr)) || eh->e_phoff < sizeof *eh)
		return BAD("program headers outside the file");
	return SEGMENT_OK;
}

/* Sets f->sections and f->names. With SHN_LORESERVE (65,280) sections or more both are in section header 0. */
static int count_sections(struct seg_file *f, struct error *e)
{
	const Elf64_Ehdr *eh = &f->eh;
	Elf64_Shdr first = {0};

	if (!eh->e_shoff)
		return BAD("no section headers");
	if (eh->e_shentsize != sizeof first)
		return BAD("section headers of unknown size");
	if (eh->e_shoff < sizeof *eh || !inside(f, eh->e_shoff, sizeof first))
		return BAD("section headers outside the file");
	memcpy(&first, f->data + eh->e_shoff, sizeof first);
	f->sections = eh->e_shnum ? eh->e_shnum : first.sh_size;
	f->names = eh->e_shstrndx == SHN_XINDEX ? first.sh_link : eh->e_shstrndx;
	if (!f->sections || f->sections > (f->size - eh->e_shoff) / sizeof first)
		return BAD("section headers outside the file");
	if (!f->names || f->names >= f->sections)
		return BAD("no section name table");
	return SEGMENT_OK;
}

static int check_phdrs(struct seg_file *f, struct error *e)
{
	const Elf64_Phdr *last = NULL;

	for (size_t i = 0; i < f->eh.e_phnum; i++) {
		const Elf64_Phdr *p = &f->ph[i];

		if (p->p_type == PT_NULL)
			continue;
		if (p->p_filesz && !inside(f, p->p_offset, p->p_filesz))
			return BAD("program header %zu: contents outside the file", i);
		if (p->p_type != PT_LOAD)
			continue;
		if (p->p_memsz < p->p_filesz)
			return BAD("program header %zu: impossible size", i);
		if (p->p_vaddr > ADDRESS_END || p->p_memsz > ADDRESS_END - p->p_vaddr)
			return BAD("program header %zu: its address is outside user space", i);
		if ((p->p_vaddr ^ p->p_offset) & (SEGMENT_PAGE - 1))
			return BAD("program header %zu: offset and address are not congruent modulo the page size", i);
		if (last && p->p_vaddr < last->p_vaddr + last->p_memsz)
			return BAD("program header %zu: overlaps the previous one or is out of order", i);
		last = p;
		f->last_load = i;
	}
	if (!last)
		return BAD("no PT_LOAD program header");
	return SEGMENT_OK;
}

/* Refuses a file whose ELF header, program headers or section headers, which will be rewritten, also serve another
 * purpose, such as code. A section that covers all program headers (SEGMENT_TABLE) is allowed. */
static int check_apart(const struct seg_file *f, struct error *e)
{
	uint64_t table = (uint64_t)f->eh.e_phnum * sizeof *f->ph, headers = f->sections * sizeof *f->sh;

	for (size_t i = 1; i < f->sections; i++) {
		const Elf64_Shdr *s = &f->sh[i];
		bool code = s->sh_flags & SHF_EXECINSTR, all;

		if (!seg_has_bytes(s))
			continue;
		all = s->sh_offset <= f->eh.e_phoff && s->sh_offset + s->sh_size >= f->eh.e_phoff + table;
		if (seg_overlap(s->sh_offset, s->sh_size, f->eh.e_phoff, table) && (code || !all))
			return BAD("section %zu overlaps the program headers", i);
		if ((s->sh_flags & SHF_ALLOC) && seg_overlap(s->sh_offset, s->sh_size, f->eh.e_shoff, headers))
			return BAD("section %zu overlaps the section headers", i);
		if (code && s->sh_offset < sizeof f->eh)
			return BAD("section %zu: its code overlaps the ELF header", i);
	}
	for (size_t i = 0; i < f->eh.e_phnum && f->eh.e_entry; i++) {
		const Elf64_Phdr *p = &f->ph[i];
		uint64_t at = f->eh.e_entry - p->p_vaddr + p->p_offset;

		if (p->p_type == PT_LOAD && f->eh.e_entry - p->p_vaddr < p->p_filesz &&
		    (at < sizeof f->eh || at - f->eh.e_phoff < table))
			return BAD("the entry point is inside the headers");
	}
	return SEGMENT_OK;
}

static int check_shdrs(const struct seg_file *f, struct error *e)
{
	const Elf64_Shdr *str = &f->sh[f->names];

	for (size_t i = 0; i < f->sections; i++) { /* section 0 too, since references to it are followed */
		const Elf64_Shdr *s = &f->sh[i];

		if (seg_has_bytes(s) && !inside(f, s->sh_offset, s->sh_size))
			return BAD("section %zu: contents outside the file", i);
		if (s->sh_addr + s->sh_size < s->sh_addr)
			return BAD("section %zu: impossible size or address", i);
	}
	if (str->sh_type != SHT_STRTAB || !str->sh_size || (str->sh_flags & SHF_ALLOC) ||
	    f->data[str->sh_offset + str->sh_size - 1])
		return BAD("section names are not a string table");
	for (size_t i = 0; i < f->sections; i++)
		if (f->sh[i].sh_name >= str->sh_size)
			return BAD("section %zu: name outside the string table", i);
	return check_apart(f, e);
}

int seg_read(struct seg_file *f, const uint8_t *data, size_t size, struct error *e)
{
	int r;

	*f = (struct seg_file){.data = data, .size = size};
	if (size >= sizeof f->eh)
		memcpy(&f->eh, data, sizeof f->eh);
	r = check_ehdr(f, e);
	if (!r)
		r = count_sections(f, e);
	if (r)
		return r;
	f->ph = mem_zero((size_t)f->eh.e_phnum + SLOT_MOST, sizeof *f->ph);
	memcpy(f->ph, data + f->eh.e_phoff, f->eh.e_phnum * sizeof *f->ph);
	f->sh = mem_copy(data + f->eh.e_shoff, f->sections * sizeof *f->sh);
	r = check_phdrs(f, e);
	return r ? r : check_shdrs(f, e);
}

size_t seg_first_load(const struct seg_file *f)
{
	size_t i = 0;

	while (f->ph[i].p_type != PT_LOAD)
		i++;
	return i;
}

const char *seg_name(const struct seg_file *f, size_t i)
{
	return (const char *)f->data + f->sh[f->names].sh_offset + f->sh[i].sh_name;
}

/* Is this a section that an earlier run added outside the segment? It is replaced like the segment. */
bool seg_is_unloaded(const struct seg_file *f, size_t i)
{
	const Elf64_Shdr *s = &f->sh[i];

	return s->sh_type == SHT_PROGBITS && !(s->sh_flags & SHF_ALLOC) &&
	       !strncmp(seg_name(f, i), SEGMENT_UNLOADED, sizeof SEGMENT_UNLOADED - 1);
}

const struct segment_note seg_note = {
	.namesz = 5,
	.descsz = 12,
	.type = SEGMENT_NOTE_TYPE,
	.name = "etch",
	.version = SEGMENT_VERSION,
};

bool segment_begins(const uint8_t *bytes, size_t size)
{
	return size >= sizeof seg_note && !memcmp(bytes, &seg_note, offsetof(struct segment_note, version));
}

uint64_t segment_in_load(const Elf64_Phdr *p, const struct segment_note *note, uint64_t *at)
{
	uint64_t size;

	*at = p->p_offset ? 0 : SEGMENT_INSIDE;
	if (p->p_type != PT_LOAD || (p->p_flags & (PF_R | PF_W)) != PF_R || (p->p_offset && (p->p_flags & PF_X)) ||
	    p->p_filesz < *at + sizeof *note || memcmp(note, &seg_note, offsetof(struct segment_note, first)))
		return 0;
	size = p->p_filesz - *at;
	if ((note->inside != 0) != (*at != 0) || note->inside > size)
		return 0;
	return note->inside ? note->inside : size;
}

/* Reads the segment in this PT_LOAD, whose note is in section `s`. Returns 1 and sets *o, or returns 0 if the segment
 * is not there or is malformed. */
static int ours_read(const struct seg_file *f, const Elf64_Phdr *p, const Elf64_Shdr *s, struct seg_ours *o)
{
	struct segment_note note;
	uint64_t at;

	memcpy(&note, f->data + s->sh_offset, sizeof note);
	o->size = segment_in_load(p, &note, &at);
	o->addr = p->p_vaddr + at;
	o->offset = p->p_offset + at;
	o->first = note.first;
	o->inside = at != 0;
	return o->size >= sizeof note && o->addr == s->sh_addr && o->offset == s->sh_offset &&
	       (o->inside || p->p_filesz == p->p_memsz) && !(o->addr & (SEGMENT_PAGE - 1)) && note.first >= sizeof note &&
	       note.first <= o->size;
}

int seg_ours_find(const struct seg_file *f, struct seg_ours *o, struct error *e)
{
	for (size_t i = 1; i < f->sections; i++) {
		const Elf64_Shdr *s = &f->sh[i];

		if (s->sh_type != SHT_PROGBITS || strcmp(seg_name(f, i), SEGMENT_SECTION))
			continue;
		for (size_t k = 0; k < f->eh.e_phnum; k++) {
			const Elf64_Phdr *p = &f->ph[k];

			if (p->p_type != PT_LOAD || s->sh_addr - p->p_vaddr >= p->p_filesz || s->sh_size != sizeof seg_note ||
			    s->sh_offset - p->p_offset != s->sh_addr - p->p_vaddr)
				continue;
			if (memcmp(f->data + s->sh_offset, &seg_note, offsetof(struct segment_note, first)))
				return BAD("the etch segment is damaged or from another version of etch");
			o->load = k;
			o->note_sec = i;
			if (ours_read(f, p, s, o))
				return 1;
		}
		return BAD("section %s is not the start of a segment of its own", SEGMENT_SECTION);
	}
	return 0;
}

int segment_find(const uint8_t *file, size_t size, struct segment_found *found, struct error *e)
{
	struct seg_file f;
	struct seg_ours o;
	int r = seg_read(&f, file, size, e);

	if (!r)
		r = seg_ours_find(&f, &o, e);
	if (r == 1)
		*found = (struct segment_found){o.offset, o.addr, o.size, o.first};
	free(f.ph);
	free(f.sh);
	return r;
}
