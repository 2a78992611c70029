/* SPDX-License-Identifier: MIT */
/* Writes an object file with added sections (see object_write.h): numbers the sections, adds section symbols, renumbers
 * symbols in relocations and groups, and lays everything out again. */
#include "elf/object_write.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SHT_LLVM_ADDRSIG
#define SHT_LLVM_ADDRSIG 0x6fff4c03 /* ULEB128 symbol numbers (LLVM Extensions, "SHT_LLVM_ADDRSIG") */
#endif

/* A section of the output. */
struct part {
	Elf64_Shdr sh;
	const void *bytes;                  /* the contents, sh.sh_size bytes; null: none, or one of the next two is set */
	const struct elf_section *renumber; /* input relocations, to be written with the new symbol numbers */
	const struct new_section *added;    /* new section whose relocations this part has */
};

struct writer {
	const struct elf_file *f;
	const struct new_section *added;
	size_t count;
	const bool *emptied;
	uint32_t *symbol_of;  /* per input section: its section symbol in the output, or 0 */
	uint32_t *new_locals; /* input sections that get a new section symbol */
	uint32_t new_local_count;
	uint32_t first_global; /* number of the input's first global symbol */
	uint32_t *index_of;    /* output index of each new section */
	uint32_t *group_of;    /* per input section: its SHT_GROUP section, or 0 */
	uint32_t *joins;       /* per SHT_GROUP section: first new section that joins it, + 1; 0 = none */
	uint32_t *next_join;   /* per new section: the next one that joins the same group, + 1 */
	struct part *parts;    /* all sections, by output index */
	uint32_t part_count;
	void **owned; /* buffers that parts point into until the end */
	size_t owned_count, owned_room;
	struct error *e;
};

/* Takes ownership of `p` until the output is written. Returns p; null: out of memory. */
static void *kept(struct writer *w, void *p)
{
	if (w->owned_count == w->owned_room) {
		size_t room = w->owned_room ? 2 * w->owned_room : 64;
		void **q = realloc(w->owned, room * sizeof(*q));

		if (!q) {
			free(p);
			p = NULL;
		} else {
			w->owned = q;
			w->owned_room = room;
		}
	}
	if (!p) {
		error_set(w->e, "out of memory");
		return NULL;
	}
	w->owned[w->owned_count++] = p;
	return p;
}

/* Zeroed memory that lives until the output is written. */
static void *keep(struct writer *w, size_t size) { return kept(w, calloc(1, size ? size : 1)); }

static uint32_t symbol_map(const struct writer *w, uint32_t s)
{
	return s >= w->first_global ? s + w->new_local_count : s;
}

static uint32_t new_index(const struct writer *w, size_t k) { return w->index_of[k]; }

/* Numbers the new sections: each is followed by its SHT_RELA section, if it has one. */
static void new_indices(struct writer *w)
{
	uint32_t n = w->f->section_count;
	size_t i;

	for (i = 0; i < w->count; i++) {
		w->index_of[i] = n;
		n += 1 + (w->added[i].reloc_count != 0);
	}
}

static void section_symbol_want(struct writer *w, uint32_t section)
{
	if (w->symbol_of[section])
		return;
	w->symbol_of[section] = w->first_global + w->new_local_count;
	w->new_locals[w->new_local_count++] = section;
}

/* A section symbol for every section that a new relocation refers to. */
static int section_symbols(struct writer *w)
{
	const struct elf_file *f = w->f;
	size_t i, k;
	uint32_t s;

	for (i = 1; i < f->symbol_count; i++)
		if (f->symbols[i].type == STT_SECTION && f->symbols[i].section && i < w->first_global && !f->symbols[i].value &&
		    !w->symbol_of[f->symbols[i].section])
			w->symbol_of[f->symbols[i].section] = (uint32_t)i;
	for (k = 0; k < w->count; k++) {
		const struct new_section *a = &w->added[k];

		if (a->places && a->reloc_count)
			section_symbol_want(w, a->about);
		for (i = 0; !a->places && i < a->reloc_count; i++) {
			const struct new_reloc *r = &a->relocs[i];

			s = r->to == TO_SECTION ? r->index : r->to == TO_NEW ? new_index(w, r->index) : 0;
			if (s)
				section_symbol_want(w, s);
		}
	}
	return 0;
}

/* Appends a section to the output. */
static struct part *part_add(struct writer *w, const Elf64_Shdr *sh)
{
	struct part *p = &w->parts[w->part_count++];

	p->sh = *sh;
	return p;
}

static void *symtab_write(struct writer *w, const struct elf_section *s, uint64_t *size)
{
	uint64_t head = (uint64_t)w->first_global * sizeof(Elf64_Sym), i;
	uint8_t *p;

	*size = s->sh.sh_size + w->new_local_count * sizeof(Elf64_Sym);
	p = kept(w, big_alloc(*size));
	if (!p)
		return NULL;
	memcpy(p, s->data, head);
	for (i = 0; i < w->new_local_count; i++) {
		Elf64_Sym sym = {0};

		sym.st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION);
		sym.st_shndx = w->new_locals[i] < SHN_LORESERVE ? (uint16_t)w->new_locals[i] : SHN_XINDEX;
		memcpy(p + head + i * sizeof(sym), &sym, sizeof(sym));
	}
	memcpy(p + head + w->new_local_count * sizeof(Elf64_Sym), s->data + head, s->sh.sh_size - head);
	return p;
}

static void *shndx_write(struct writer *w, const struct elf_section *s, uint64_t *size)
{
	uint64_t head = 4ull * w->first_global, i;
	uint8_t *p;

	*size = s->sh.sh_size + 4ull * w->new_local_count;
	p = keep(w, *size);
	if (!p)
		return NULL;
	memcpy(p, s->data, head);
	for (i = 0; i < w->new_local_count; i++)
		if (w->new_locals[i] >= SHN_LORESERVE)
			memcpy(p + head + 4 * i, &w->new_locals[i], 4);
	memcpy(p + head + 4ull * w->new_local_count, s->data + head, s->sh.sh_size - head);
	return p;
}

static void relocs_renumber(const struct writer *w, const struct elf_section *s, uint8_t *to)
{
	uint64_t step = s->sh.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel), i, info;

	memcpy(to, s->data, s->sh.sh_size);
	for (i = 0; w->new_local_count && i + step <= s->sh.sh_size; i += step) {
		memcpy(&info, to + i + 8, 8); /* r_info is the second field of Rel and Rela */
		info = ELF64_R_INFO((uint64_t)symbol_map(w, (uint32_t)ELF64_R_SYM(info)), ELF64_R_TYPE(info));
		memcpy(to + i + 8, &info, 8);
	}
}

static void relocs_write(const struct writer *w, const struct new_section *a, uint8_t *to)
{
	size_t i;

	for (i = 0; a->places && i < a->reloc_count; i++) {
		Elf64_Rela x = {4 * i, ELF64_R_INFO((uint64_t)w->symbol_of[a->about], R_X86_64_PC32), (int64_t)a->places[i]};

		memcpy(to + i * sizeof(x), &x, sizeof(x));
	}
	for (i = 0; !a->places && i < a->reloc_count; i++) {
		const struct new_reloc *r = &a->relocs[i];
		uint64_t symbol = r->to == TO_SYMBOL ? symbol_map(w, r->index)
		                                     : w->symbol_of[r->to == TO_NEW ? new_index(w, r->index) : r->index];
		Elf64_Rela x = {r->offset, ELF64_R_INFO(symbol, (uint64_t)r->type), r->addend};

		memcpy(to + i * sizeof(x), &x, sizeof(x));
	}
}

static void *addrsig_renumber(struct writer *w, const struct elf_section *s, uint64_t *size)
{
	uint8_t *p = keep(w, 2 * s->sh.sh_size + 16);
	uint64_t i = 0, n = 0, v;
	unsigned shift;

	if (!p)
		return NULL;
	while (i < s->sh.sh_size) {
		for (v = 0, shift = 0; i < s->sh.sh_size; shift += 7) {
			if (shift < 64)
				v |= (uint64_t)(s->data[i] & 0x7f) << shift;
			if (!(s->data[i++] & 0x80))
				break;
		}
		v = symbol_map(w, (uint32_t)v);
		do {
			if (n >= 2 * s->sh.sh_size + 8)
				break;
			p[n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
			v >>= 7;
		} while (v);
	}
	*size = n;
	return p;
}

/* The contents of an SHT_GROUP section, with the new sections that join the group appended. */
static void *group_write(struct writer *w, uint32_t index, uint64_t *size)
{
	const struct elf_section *s = &w->f->sections[index];
	uint64_t n = s->sh.sh_size, more = 0;
	uint32_t k, m;
	uint8_t *p;

	for (k = w->joins[index]; k; k = w->next_join[k - 1])
		more += 8;
	p = keep(w, n + more);
	if (!p)
		return NULL;
	memcpy(p, s->data, n);
	for (k = w->joins[index]; k; k = w->next_join[k - 1]) {
		m = new_index(w, k - 1);
		memcpy(p + n, &m, 4);
		n += 4;
		if (w->added[k - 1].reloc_count) {
			m++;
			memcpy(p + n, &m, 4);
			n += 4;
		}
	}
	*size = n;
	return p;
}

static void *names_write(struct writer *w, const struct elf_section *s, uint64_t *size, uint32_t *offsets)
{
	uint64_t n = s->sh.sh_size, extra = 0;
	size_t k;
	char *p;

	for (k = 0; k < w->count; k++)
		extra += 2 * strlen(w->added[k].name) + 16;
	p = keep(w, n + extra);
	if (!p)
		return NULL;
	memcpy(p, s->data, n);
	for (k = 0; k < w->count; k++) {
		offsets[2 * k] = (uint32_t)n;
		n += (uint64_t)sprintf(p + n, "%s", w->added[k].name) + 1;
		if (w->added[k].reloc_count) {
			offsets[2 * k + 1] = (uint32_t)n;
			n += (uint64_t)sprintf(p + n, ".rela%s", w->added[k].name) + 1;
		}
	}
	*size = n;
	return p;
}

/* The output aligns file offsets to sh_addralign. A hostile file could claim alignments that its own offsets do not
 * have, and the output would consist of gigabytes of holes. */
#define ALIGN_MAX  (1u << 20)
#define ALIGN_PAGE 4096u /* alignments up to this are not counted */

static int alignments_check(const struct writer *w)
{
	const struct elf_file *f = w->f;
	uint64_t holes = 0;
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];
		uint64_t align = s->sh.sh_addralign;

		if (align > ALIGN_MAX && align > f->size)
			return error_set(w->e, "section %s: alignment %#llx is larger than the file (%zu bytes)", s->name,
			                 (unsigned long long)align, f->size);
		holes += align > ALIGN_PAGE ? align : 0;
	}
	if (holes > 2 * (uint64_t)f->size + ALIGN_MAX)
		return error_set(w->e, "its section alignments add up to %llu bytes, in a file of %zu",
		                 (unsigned long long)holes, f->size);
	return 0;
}

/*
 * Refuses relocations with a symbol number out of range, which renumbering could make valid, or with an offset
 * outside of their section. Linkers refuse such files for the same reasons.
 */
static int relocs_check(const struct writer *w)
{
	const struct elf_file *f = w->f;
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i], *target;
		uint64_t step = s->sh.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel), k, field[2];

		if ((s->sh.sh_type != SHT_RELA && s->sh.sh_type != SHT_REL) || !s->data || s->sh.sh_link != f->symtab ||
		    (w->emptied && w->emptied[i]))
			continue;
		if (s->sh.sh_size % step)
			return error_set(w->e, "section %s: not a whole number of relocations", s->name);
		/* Offsets in a compressed section (-gz) refer to the uncompressed bytes. Such a section is never SHF_ALLOC. */
		target = &f->sections[s->sh.sh_info];
		for (k = 0; k < s->sh.sh_size; k += step) {
			memcpy(field, s->data + k, sizeof(field)); /* r_offset, r_info */
			if (ELF64_R_SYM(field[1]) && ELF64_R_SYM(field[1]) >= f->symbol_count)
				return error_set(w->e, "section %s: relocation %" PRIu64 " names symbol %" PRIu64 " of %u", s->name,
				                 k / step, (uint64_t)ELF64_R_SYM(field[1]), f->symbol_count);
			if ((target->sh.sh_flags & SHF_ALLOC) && field[0] > target->sh.sh_size)
				return error_set(w->e,
				                 "section %s: relocation %" PRIu64 " has offset %#" PRIx64 " in a section of %" PRIu64
				                 " bytes",
				                 s->name, k / step, field[0], (uint64_t)target->sh.sh_size);
		}
	}
	return 0;
}

static int old_sections(struct writer *w, uint32_t strndx, uint32_t *name_offsets)
{
	const struct elf_file *f = w->f;
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];
		struct part *p = part_add(w, &s->sh);
		uint64_t *size = &p->sh.sh_size;
		uint32_t type = s->sh.sh_type;
		bool to_symtab = s->sh.sh_link == f->symtab && f->symtab, gone = w->emptied && w->emptied[i];

		p->bytes = s->data;
		if (gone) {
			*size = 0;
			p->bytes = NULL;
		} else if (!s->data) {
			if (type != SHT_NOBITS && type != SHT_NULL) /* these two may have a size without contents */
				*size = 0;
		} else if (i == f->symtab) {
			p->bytes = symtab_write(w, s, size);
			p->sh.sh_info = s->sh.sh_info + w->new_local_count;
		} else if (i == strndx) {
			p->bytes = names_write(w, s, size, name_offsets);
		} else if (type == SHT_SYMTAB_SHNDX && to_symtab) {
			p->bytes = shndx_write(w, s, size);
		} else if ((type == SHT_RELA || type == SHT_REL) && to_symtab) {
			p->renumber = s;
		} else if (type == SHT_LLVM_ADDRSIG && to_symtab) {
			p->bytes = addrsig_renumber(w, s, size);
		} else if (type == SHT_GROUP && to_symtab) {
			p->bytes = group_write(w, i, size);
		}
		if (type == SHT_GROUP && to_symtab)
			p->sh.sh_info = symbol_map(w, s->sh.sh_info);
		if (s->data && !p->bytes && !gone)
			return -1;
	}
	return 0;
}

static void new_sections(struct writer *w, const uint32_t *name_offsets)
{
	size_t k;

	for (k = 0; k < w->count; k++) {
		const struct new_section *a = &w->added[k];
		uint64_t group = a->about && w->group_of[a->about] ? SHF_GROUP : 0;
		Elf64_Shdr sh = {.sh_name = name_offsets[2 * k],
		                 .sh_type = SHT_PROGBITS,
		                 .sh_size = a->size,
		                 .sh_flags = a->flags | (a->about ? SHF_LINK_ORDER : 0) | group,
		                 .sh_link = a->about,
		                 .sh_addralign = a->align};

		part_add(w, &sh)->bytes = a->data;
		if (!a->reloc_count)
			continue;
		sh = (Elf64_Shdr){.sh_name = name_offsets[2 * k + 1],
		                  .sh_type = SHT_RELA,
		                  .sh_flags = SHF_INFO_LINK | group,
		                  .sh_link = w->f->symtab,
		                  .sh_info = new_index(w, k),
		                  .sh_addralign = 8,
		                  .sh_size = a->reloc_count * sizeof(Elf64_Rela),
		                  .sh_entsize = sizeof(Elf64_Rela)};
		part_add(w, &sh)->added = a;
	}
}

static int groups_find(struct writer *w)
{
	uint32_t i, member;
	uint64_t k;
	size_t m;

	for (i = 1; i < w->f->section_count; i++) {
		const struct elf_section *s = &w->f->sections[i];

		if (s->sh.sh_type != SHT_GROUP || !s->data)
			continue;
		for (k = 4; k + 4 <= s->sh.sh_size; k += 4) {
			memcpy(&member, s->data + k, 4);
			if (member >= w->f->section_count)
				return error_set(w->e, "section group %u names section %u of %u", i, member, w->f->section_count);
			w->group_of[member] = i;
		}
	}
	for (m = w->count; m--;) { /* backwards, so that each list is in ascending order */
		i = w->added[m].about ? w->group_of[w->added[m].about] : 0;
		if (i) {
			w->next_join[m] = w->joins[i];
			w->joins[i] = (uint32_t)m + 1;
		}
	}
	return 0;
}

/* Places each section at the next offset that its alignment allows, and the section headers behind them.
 * Returns the size of the output. */
static uint64_t parts_place(struct writer *w, uint64_t *headers)
{
	uint64_t at = sizeof(Elf64_Ehdr);
	uint32_t i;

	for (i = 1; i < w->part_count; i++) {
		Elf64_Shdr *sh = &w->parts[i].sh;

		sh->sh_addralign = sh->sh_addralign ? sh->sh_addralign : 1;
		at = (at + sh->sh_addralign - 1) & ~(sh->sh_addralign - 1);
		sh->sh_offset = at;
		if (sh->sh_type != SHT_NOBITS && sh->sh_type != SHT_NULL)
			at += sh->sh_size;
	}
	*headers = (at + 7) & ~(uint64_t)7;
	return *headers + w->part_count * sizeof(Elf64_Shdr);
}

static void parts_write(const struct writer *w, uint8_t *out, uint64_t headers)
{
	uint64_t end = sizeof(Elf64_Ehdr);
	uint32_t i;

	for (i = 0; i < w->part_count; i++) {
		const struct part *p = &w->parts[i];
		uint8_t *to = out + p->sh.sh_offset;

		memcpy(out + headers + i * sizeof(p->sh), &p->sh, sizeof(p->sh));
		if (!i)
			continue;
		memset(out + end, 0, p->sh.sh_offset - end);
		end = p->sh.sh_offset;
		if (p->sh.sh_type == SHT_NOBITS || p->sh.sh_type == SHT_NULL)
			continue;
		if (p->renumber)
			relocs_renumber(w, p->renumber, to);
		else if (p->added)
			relocs_write(w, p->added, to);
		else if (p->sh.sh_size)
			memcpy(to, p->bytes, p->sh.sh_size);
		end += p->sh.sh_size;
	}
	memset(out + end, 0, headers - end);
}

/* Writes the ELF header. Numbers that do not fit it go to the first section header. */
static void header_write(struct writer *w, uint8_t *out, uint64_t headers, uint32_t strndx)
{
	Elf64_Ehdr eh = w->f->eh;

	eh.e_ehsize = sizeof(Elf64_Ehdr);
	eh.e_phoff = 0;
	eh.e_phnum = 0;
	eh.e_shoff = headers;
	eh.e_shentsize = sizeof(Elf64_Shdr);
	eh.e_shnum = w->part_count < SHN_LORESERVE ? (Elf64_Half)w->part_count : 0;
	if (!eh.e_shnum)
		w->parts[0].sh.sh_size = w->part_count;
	if (eh.e_shstrndx == SHN_XINDEX)
		w->parts[0].sh.sh_link = strndx;
	memcpy(out, &eh, sizeof(eh));
}

int object_write_room(const struct elf_file *f, size_t count, struct error *e)
{
	uint32_t k;

	if (!f->symtab)
		return error_set(e, "has no symbol table");
	if (f->section_count + 2 * count < SHN_LORESERVE)
		return 0;
	/* From SHN_LORESERVE sections on, symbols need an SHT_SYMTAB_SHNDX table. None is added to a file without it. */
	for (k = 1; k < f->section_count; k++)
		if (f->sections[k].sh.sh_type == SHT_SYMTAB_SHNDX && f->sections[k].sh.sh_link == f->symtab)
			return 0;
	return error_set(e, "has %u sections: no room for %zu more", f->section_count, 2 * count);
}

/* Refuses a file with data behind all that its headers describe, which would be lost: the kernel, for one, looks for a
 * module's signature at the end of the file. Zeros are padding. */
static int tail_check(const struct elf_file *f, struct error *e)
{
	uint64_t at = f->eh.e_shoff + (uint64_t)f->section_count * sizeof(Elf64_Shdr);
	uint32_t i;

	for (i = 1; i < f->section_count; i++)
		if (f->sections[i].data && f->sections[i].sh.sh_offset + f->sections[i].sh.sh_size > at)
			at = f->sections[i].sh.sh_offset + f->sections[i].sh.sh_size;
	while (at < f->size && !f->bytes[at])
		at++;
	return at >= f->size ? 0
	                     : error_set(e,
	                                 "data after the last section (at offset 0x%" PRIx64
	                                 ") that no header describes: rewrite before signing",
	                                 at);
}

int object_write(const struct elf_file *f, const struct new_section *added, size_t count, const bool *emptied,
                 uint8_t **out, size_t *out_size, struct error *e)
{
	struct writer w = {.f = f, .added = added, .count = count, .emptied = emptied, .e = e};
	uint32_t total, strndx = f->eh.e_shstrndx, *names;
	Elf64_Shdr first = {0};
	uint64_t headers;
	int err = -1;
	size_t i;

	*out = NULL;
	if (strndx == SHN_XINDEX)
		strndx = f->sections[0].sh.sh_link;
	if (object_write_room(f, count, e) || tail_check(f, e))
		return -1;
	w.first_global = f->sections[f->symtab].sh.sh_info;
	total = f->section_count + 2 * (uint32_t)count;
	names = keep(&w, 2 * (count + 1) * sizeof(*names));
	w.symbol_of = keep(&w, (total + 1) * sizeof(uint32_t));
	w.new_locals = keep(&w, (total + 1) * sizeof(uint32_t));
	w.group_of = keep(&w, (total + 1) * sizeof(uint32_t));
	w.joins = keep(&w, (total + 1) * sizeof(uint32_t));
	w.next_join = keep(&w, (count + 1) * sizeof(uint32_t));
	w.index_of = keep(&w, (count + 1) * sizeof(uint32_t));
	w.parts = keep(&w, (total + 1) * sizeof(*w.parts));
	if (!names || !w.symbol_of || !w.new_locals || !w.group_of || !w.index_of || !w.joins || !w.next_join || !w.parts)
		goto out;
	new_indices(&w);
	part_add(&w, &first);
	if (alignments_check(&w) || relocs_check(&w) || groups_find(&w) || section_symbols(&w) ||
	    old_sections(&w, strndx, names))
		goto out;
	new_sections(&w, names);
	*out_size = parts_place(&w, &headers);
	*out = big_alloc(*out_size + 1);
	if (!*out) {
		error_set(e, "out of memory");
		goto out;
	}
	header_write(&w, *out, headers, strndx);
	parts_write(&w, *out, headers);
	err = 0;
out:
	for (i = 0; i < w.owned_count; i++)
		free(w.owned[i]);
	free(w.owned);
	return err;
}

void new_sections_free(struct new_section *sections, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		free(sections[i].data);
		free(sections[i].relocs);
		free(sections[i].places);
	}
	free(sections);
}
