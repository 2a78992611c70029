/* SPDX-License-Identifier: MIT */
/* Writes an object file with added sections (see object_write.h): numbers the sections, adds section symbols, renumbers
 * symbols in relocations and groups, and lays everything out again. */
#include "output/object_writer.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SHT_LLVM_ADDRSIG
#define SHT_LLVM_ADDRSIG 0x6fff4c03 /* ULEB128 symbol numbers (LLVM Extensions, "SHT_LLVM_ADDRSIG") */
#endif

/* Numbers the new sections, each of which is followed by its SHT_RELA section if it has one. */
static void new_indices(struct object_writer *w)
{
	uint32_t n = w->f->section_count;
	size_t i;

	for (i = 0; i < w->count; i++) {
		w->index_of[i] = n;
		n += 1 + (w->added[i].reloc_count != 0);
	}
}

static void section_symbol_want(struct object_writer *w, uint32_t section)
{
	if (w->symbol_of[section])
		return;
	w->symbol_of[section] = w->first_global + w->new_local_count;
	w->new_locals[w->new_local_count++] = section;
}

/* Finds or adds a section symbol for every section that a new relocation refers to. */
static void section_symbols(struct object_writer *w)
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

			s = r->to == TO_SECTION ? r->index : 0;
			if (r->to == TO_NEW)
				s = object_index(w, r->index);
			if (s)
				section_symbol_want(w, s);
		}
	}
}

/* Appends a section to the output. */
static struct object_part *part_add(struct object_writer *w, const Elf64_Shdr *sh)
{
	struct object_part *p = &w->parts[w->part_count++];

	p->sh = *sh;
	return p;
}

/* File offsets in the output are multiples of sh_addralign up to this. A greater alignment is kept if the input's
 * offset has it, as assemblers up to binutils 2.43 write it; later ones put a section that is aligned to 2 MB at offset
 * 0x40, and nothing maps an object's sections. A hostile file could claim alignments that would make gigabytes of
 * holes: then no greater alignment is kept. */
#define ALIGN_MAX 4096u
static bool keeps_alignment(const Elf64_Shdr *sh) { return sh->sh_offset && !(sh->sh_offset & (sh->sh_addralign - 1)); }

static bool alignments_kept(const struct object_writer *w)
{
	uint64_t holes = 0, most = 2 * (uint64_t)w->f->size;
	uint32_t i;

	for (i = 1; i < w->part_count && holes <= most; i++) {
		const Elf64_Shdr *sh = &w->parts[i].sh;

		if (sh->sh_addralign > ALIGN_MAX && keeps_alignment(sh))
			holes += sh->sh_addralign < most ? sh->sh_addralign : most + 1;
	}
	return holes <= most;
}

/*
 * Refuses relocations with a symbol number out of range, which renumbering could make valid, or with an offset outside
 * their section. Linkers refuse such files for the same reasons.
 */
static int relocs_check(const struct object_writer *w)
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

#ifndef SHT_GNU_SFRAME
#define SHT_GNU_SFRAME 0x6ffffff4
#endif

/* Returns what still uses a section that is emptied, apart from other sections that are emptied, or null if nothing
 * does. */
static const char *user_of(const struct object_writer *w, uint32_t section, const bool *named)
{
	const struct elf_file *f = w->f;
	uint32_t strndx = f->eh.e_shstrndx == SHN_XINDEX ? f->sections[0].sh.sh_link : f->eh.e_shstrndx;
	uint32_t i;

	if (section == strndx)
		return "it holds the names of sections";
	for (i = 1; i < f->section_count; i++) {
		const Elf64_Shdr *sh = &f->sections[i].sh;
		bool is_about = sh->sh_type == SHT_REL || sh->sh_type == SHT_RELA || (sh->sh_flags & SHF_INFO_LINK);

		if (!w->emptied[i] && (sh->sh_link == section || (is_about && sh->sh_info == section)))
			return "another section refers to it";
	}
	return named[section] ? "symbols or relocations refer to it" : NULL;
}

/* Sets named[section] for each section that has a symbol, or to which a relocation of a section that stays refers. A
 * section's own section symbol does not count. */
static void named_find(const struct object_writer *w, bool *named)
{
	const struct elf_file *f = w->f;
	uint32_t i;
	uint64_t k, field[2];

	for (i = 1; i < f->symbol_count; i++)
		if (f->symbols[i].section && f->symbols[i].type != STT_SECTION)
			named[f->symbols[i].section] = true;
	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];
		uint64_t step = s->sh.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);

		if ((s->sh.sh_type != SHT_RELA && s->sh.sh_type != SHT_REL) || !s->data || s->sh.sh_link != f->symtab ||
		    w->emptied[i])
			continue;
		for (k = 0; k + step <= s->sh.sh_size; k += step) {
			memcpy(field, s->data + k, sizeof(field)); /* r_offset, r_info */
			named[f->symbols[ELF64_R_SYM(field[1])].section] = true;
		}
	}
}

/*
 * Checks that a section that is to be emptied is a table. It was found by its name, which any section can have, so its
 * type and flags must be those of a table, and nothing that stays may refer to it.
 */
static int emptied_check(const struct object_writer *w)
{
	const uint64_t never = SHF_WRITE | SHF_EXECINSTR | SHF_MERGE | SHF_STRINGS | SHF_TLS | SHF_COMPRESSED;
	const struct elf_file *f = w->f;
	bool *named = NULL;
	int err = 0;
	uint32_t i;

	for (i = 1; w->emptied && i < f->section_count && !err; i++) {
		const struct elf_section *s = &f->sections[i];
		const char *why;

		if (!w->emptied[i])
			continue;
		if (!named) {
			named = mem_zero(f->section_count, sizeof(*named));
			named_find(w, named);
		}
		if (s->sh.sh_type == SHT_RELA && w->emptied[s->sh.sh_info])
			continue; /* the relocations of a section that is emptied too */
		why = (s->sh.sh_type != SHT_PROGBITS && s->sh.sh_type != SHT_GNU_SFRAME) || (s->sh.sh_flags & never)
		          ? "its type or flags are no table's"
		          : user_of(w, i, named);
		if (why)
			err = error_set(w->e, "section %u is named %s, but is not an etch table: %s", i, s->name, why);
	}
	free(named);
	return err;
}

/* Makes the output's contents of a section that contains symbol numbers, and whose sh_link is the symbol table. */
static void numbers_follow(struct object_writer *w, uint32_t index, struct object_part *p)
{
	const struct elf_section *s = &w->f->sections[index];
	uint64_t *size = &p->sh.sh_size;

	switch (s->sh.sh_type) {
	case SHT_SYMTAB_SHNDX: p->bytes = object_shndx(w, s, size); break;
	case SHT_RELA:
	case SHT_REL: p->renumber = s; break;
	case SHT_LLVM_ADDRSIG: p->bytes = object_addrsig(w, s, size); break;
	case SHT_GROUP: p->bytes = object_group(w, index, size); break;
	default: break;
	}
}

/* Adds the parts of the output that are sections of the input, with the changes that new symbols and sections make in
 * them. */
static void old_sections(struct object_writer *w, uint32_t strndx, uint32_t *name_offsets)
{
	const struct elf_file *f = w->f;
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];
		struct object_part *p = part_add(w, &s->sh);
		uint64_t *size = &p->sh.sh_size;
		bool to_symtab = s->sh.sh_link == f->symtab && f->symtab;

		p->bytes = s->data;
		if (w->emptied && w->emptied[i]) {
			*size = 0;
			p->bytes = NULL;
		} else if (!s->data) {
			if (s->sh.sh_type != SHT_NOBITS &&
			    s->sh.sh_type != SHT_NULL) /* only these may have a size without contents */
				*size = 0;
		} else if (i == f->symtab) {
			p->bytes = object_symtab(w, s, size);
			p->sh.sh_info = s->sh.sh_info + object_locals(w);
		} else if (i == strndx) {
			p->bytes = object_names(w, s, size, name_offsets);
		} else if ((w->wanted || w->symbol_count) && i == f->sections[f->symtab].sh.sh_link) {
			p->bytes = object_strings(w, s, size);
		} else if (to_symtab) {
			numbers_follow(w, i, p);
		}
		if (s->sh.sh_type == SHT_GROUP && to_symtab)
			p->sh.sh_info = object_symbol(w, s->sh.sh_info);
	}
}

static void new_sections(struct object_writer *w, const uint32_t *name_offsets)
{
	size_t k;

	for (k = 0; k < w->count; k++) {
		const struct new_section *a = &w->added[k];
		uint64_t group = a->about && w->group_of[a->about] ? SHF_GROUP : 0;
		Elf64_Shdr sh = {.sh_name = name_offsets[2 * k],
		                 .sh_type = a->type ? a->type : SHT_PROGBITS,
		                 .sh_size = a->size,
		                 .sh_flags = a->flags | (a->about ? SHF_LINK_ORDER : 0) | group,
		                 .sh_link = a->about,
		                 .sh_addralign = a->align,
		                 .sh_entsize = a->entry};

		part_add(w, &sh)->bytes = a->data;
		if (!a->reloc_count)
			continue;
		sh = (Elf64_Shdr){.sh_name = name_offsets[2 * k + 1],
		                  .sh_type = SHT_RELA,
		                  .sh_flags = SHF_INFO_LINK | group,
		                  .sh_link = w->f->symtab,
		                  .sh_info = object_index(w, k),
		                  .sh_addralign = 8,
		                  .sh_size = a->reloc_count * sizeof(Elf64_Rela),
		                  .sh_entsize = sizeof(Elf64_Rela)};
		part_add(w, &sh)->added = a;
	}
}

static int groups_find(struct object_writer *w)
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
	for (m = w->count; m--;) { /* go backwards, so that each list is in ascending order */
		i = w->added[m].about ? w->group_of[w->added[m].about] : 0;
		if (i) {
			w->next_join[m] = w->joins[i];
			w->joins[i] = (uint32_t)m + 1;
		}
	}
	return 0;
}

/* Places each section at the next offset that its alignment allows, and the section headers after them.
 * Returns the size of the output. */
static uint64_t parts_place(struct object_writer *w, uint64_t *headers)
{
	uint64_t at = sizeof(Elf64_Ehdr), align;
	bool kept = alignments_kept(w);
	uint32_t i;

	for (i = 1; i < w->part_count; i++) {
		Elf64_Shdr *sh = &w->parts[i].sh;

		sh->sh_addralign = sh->sh_addralign ? sh->sh_addralign : 1;
		align = sh->sh_addralign < ALIGN_MAX || (kept && keeps_alignment(sh)) ? sh->sh_addralign : ALIGN_MAX;
		at = (at + align - 1) & ~(align - 1);
		sh->sh_offset = at;
		if (sh->sh_type != SHT_NOBITS && sh->sh_type != SHT_NULL)
			at += sh->sh_size;
	}
	*headers = (at + 7) & ~(uint64_t)7;
	return *headers + w->part_count * sizeof(Elf64_Shdr);
}

static void parts_write(const struct object_writer *w, uint8_t *out, uint64_t headers)
{
	uint64_t end = sizeof(Elf64_Ehdr);
	uint32_t i;

	for (i = 0; i < w->part_count; i++) {
		const struct object_part *p = &w->parts[i];
		uint8_t *to = out + p->sh.sh_offset;

		memcpy(out + headers + i * sizeof(p->sh), &p->sh, sizeof(p->sh));
		if (!i)
			continue;
		memset(out + end, 0, p->sh.sh_offset - end);
		end = p->sh.sh_offset;
		if (p->sh.sh_type == SHT_NOBITS || p->sh.sh_type == SHT_NULL)
			continue;
		if (p->renumber)
			object_relocs_renumber(w, p->renumber, to);
		else if (p->added)
			object_relocs(w, p->added, to);
		else if (p->sh.sh_size)
			memcpy(to, p->bytes, p->sh.sh_size);
		end += p->sh.sh_size;
	}
	memset(out + end, 0, headers - end);
}

/* Writes the ELF header. Numbers that do not fit it are stored in the first section header. */
static void header_write(struct object_writer *w, uint8_t *out, uint64_t headers, uint32_t strndx)
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

int object_write_capacity(const struct elf_file *f, size_t count, struct error *e)
{
	uint32_t k;

	if (f->eh.e_shstrndx == SHN_XINDEX && !f->sections[0].sh.sh_link)
		return error_set(e, "has the names of its sections in section 0");
	if (!f->symtab)
		return error_set(e, "has no symbol table");
	if (f->section_count + 2 * count < SHN_LORESERVE)
		return 0;
	/* With SHN_LORESERVE sections or more, symbols need an SHT_SYMTAB_SHNDX table. etch does not add one to a file
	 * without it. */
	for (k = 1; k < f->section_count; k++)
		if (f->sections[k].sh.sh_type == SHT_SYMTAB_SHNDX && f->sections[k].sh.sh_link == f->symtab)
			return 0;
	return error_set(e, "has %u sections: no space for %zu more", f->section_count, 2 * count);
}

/* Refuses a file with data after everything that its headers describe, which would be lost: for example, the kernel
 * looks for a module's signature at the end of the file. Zeros count as padding. */
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

/* Returns `name` if an undefined symbol of that name is to be added; null if the file has that symbol already, or if
 * its table of names cannot be extended. */
static const char *wanted_symbol(const struct elf_file *f, const char *name)
{
	const struct elf_section *names = &f->sections[f->sections[f->symtab].sh.sh_link];
	uint32_t i;

	for (i = 1; name && i < f->symbol_count; i++)
		if (!strcmp(f->symbols[i].name, name))
			return NULL;
	return names->data && names->sh.sh_size && names->sh.sh_size <= UINT32_MAX && !names->data[names->sh.sh_size - 1]
	           ? name
	           : NULL;
}

/* Takes the symbols to add. Returns 0, or -1 and a message if the file has no space for their names. */
static int symbols_take(struct object_writer *w, const struct object_change *change)
{
	const struct elf_section *names = &w->f->sections[w->f->sections[w->f->symtab].sh.sh_link];
	uint64_t size = names->sh.sh_size;
	size_t i;

	for (i = 0; i < change->symbol_count; i++) {
		size += strlen(change->symbols[i].prefix) + strlen(change->symbols[i].name) + 1;
		w->named_local_count += ELF64_ST_BIND(change->symbols[i].info) == STB_LOCAL;
	}
	w->symbols = change->symbols;
	w->symbol_count = change->symbol_count;
	if (names->data && size <= UINT32_MAX && change->symbol_count < UINT32_MAX - w->f->symbol_count)
		return 0;
	return error_set(w->e, "has no space for the names of %zu symbols", change->symbol_count);
}

int object_write(const struct elf_file *f, const struct object_change *change, uint8_t **out, size_t *out_size,
                 struct error *e)
{
	struct object_writer w = {
		.f = f, .added = change->added, .count = change->count, .emptied = change->emptied, .e = e};
	const size_t count = change->count;
	uint32_t total, strndx = f->eh.e_shstrndx, *names;
	Elf64_Shdr first = {0};
	uint64_t headers;
	int err = -1;
	size_t i;

	*out = NULL;
	if (strndx == SHN_XINDEX)
		strndx = f->sections[0].sh.sh_link;
	if (object_write_capacity(f, count, e) || tail_check(f, e))
		return -1;
	w.first_global = f->sections[f->symtab].sh.sh_info;
	w.wanted = wanted_symbol(f, change->wanted);
	if (change->symbol_count && symbols_take(&w, change))
		return -1;
	total = f->section_count + 2 * (uint32_t)count;
	names = object_keep(&w, 2 * (count + 1) * sizeof(*names));
	w.symbol_of = object_keep(&w, (total + 1) * sizeof(uint32_t));
	w.new_locals = object_keep(&w, (total + 1) * sizeof(uint32_t));
	w.group_of = object_keep(&w, (total + 1) * sizeof(uint32_t));
	w.joins = object_keep(&w, (total + 1) * sizeof(uint32_t));
	w.next_join = object_keep(&w, (count + 1) * sizeof(uint32_t));
	w.index_of = object_keep(&w, (count + 1) * sizeof(uint32_t));
	w.parts = object_keep(&w, (total + 1) * sizeof(*w.parts));
	new_indices(&w);
	part_add(&w, &first);
	if (relocs_check(&w) || emptied_check(&w) || groups_find(&w))
		goto out;
	section_symbols(&w);
	old_sections(&w, strndx, names);
	new_sections(&w, names);
	*out_size = parts_place(&w, &headers);
	*out = big_alloc(*out_size + 1);
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
