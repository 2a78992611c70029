/* SPDX-License-Identifier: MIT */
/* Makes the contents of those sections of an object that contain numbers of symbols or sections: symbols, relocations,
 * groups; and the section names. */
#include "output/object_writer.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *object_own(struct object_writer *w, void *p)
{
	mem_reserve(&w->owned, &w->owned_capacity, w->owned_count, sizeof(*w->owned));
	w->owned[w->owned_count++] = p;
	return p;
}

void *object_keep(struct object_writer *w, size_t size) { return object_own(w, mem_zero(size, 1)); }

static bool is_local(const struct new_symbol *y) { return ELF64_ST_BIND(y->info) == STB_LOCAL; }

static size_t name_size(const struct new_symbol *y) { return strlen(y->prefix) + strlen(y->name) + 1; }

/* Returns the bytes that the names of new symbols take after those of the input. */
static size_t names_size(const struct object_writer *w)
{
	size_t n = w->wanted ? strlen(w->wanted) + 1 : 0, i;

	for (i = 0; i < w->symbol_count; i++)
		n += name_size(&w->symbols[i]);
	return n;
}

static void names_write(const struct object_writer *w, char *to)
{
	size_t i;

	if (w->wanted)
		to += sprintf(to, "%s", w->wanted) + 1;
	for (i = 0; i < w->symbol_count; i++)
		to += sprintf(to, "%s%s", w->symbols[i].prefix, w->symbols[i].name) + 1;
}

static uint16_t shndx_of(uint32_t section) { return section < SHN_LORESERVE ? (uint16_t)section : SHN_XINDEX; }

/* Writes either the local or the global new symbols. Returns their end. */
static uint8_t *symbols_write(const struct object_writer *w, const struct elf_section *s, bool local, uint8_t *to)
{
	uint64_t name = w->f->sections[s->sh.sh_link].sh.sh_size + (w->wanted ? strlen(w->wanted) + 1 : 0);
	size_t i;

	for (i = 0; i < w->symbol_count; name += name_size(&w->symbols[i++])) {
		const struct new_symbol *y = &w->symbols[i];
		Elf64_Sym sym = {.st_name = (uint32_t)name,
		                 .st_info = y->info,
		                 .st_other = y->other,
		                 .st_shndx = shndx_of(y->section),
		                 .st_value = y->value,
		                 .st_size = y->size};

		if (is_local(y) != local)
			continue;
		memcpy(to, &sym, sizeof(sym));
		to += sizeof(sym);
	}
	return to;
}

void *object_symtab(struct object_writer *w, const struct elf_section *s, uint64_t *size)
{
	uint64_t head = (uint64_t)w->first_global * sizeof(Elf64_Sym), i;
	uint8_t *p, *to;

	*size = s->sh.sh_size + (w->new_local_count + w->symbol_count + (w->wanted != NULL)) * sizeof(Elf64_Sym);
	p = object_own(w, big_alloc(*size));
	memcpy(p, s->data, head);
	for (i = 0; i < w->new_local_count; i++) {
		Elf64_Sym sym = {.st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION), .st_shndx = shndx_of(w->new_locals[i])};

		memcpy(p + head + i * sizeof(sym), &sym, sizeof(sym));
	}
	to = symbols_write(w, s, true, p + head + w->new_local_count * sizeof(Elf64_Sym));
	memcpy(to, s->data + head, s->sh.sh_size - head);
	to = symbols_write(w, s, false, to + s->sh.sh_size - head);
	if (w->wanted) {
		Elf64_Sym sym = {.st_name = (uint32_t)w->f->sections[s->sh.sh_link].sh.sh_size,
		                 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE)};

		memcpy(to, &sym, sizeof(sym));
	}
	return p;
}

void *object_strings(struct object_writer *w, const struct elf_section *s, uint64_t *size)
{
	size_t more = names_size(w);
	char *p = object_keep(w, s->sh.sh_size + more);

	memcpy(p, s->data, s->sh.sh_size);
	names_write(w, p + s->sh.sh_size);
	*size = s->sh.sh_size + more;
	return p;
}

/* Writes the SHT_SYMTAB_SHNDX entries of the symbols that symbols_write() writes: the numbers of sections that do not
 * fit st_shndx. Returns their end. */
static uint8_t *shndx_write(const struct object_writer *w, bool local, uint8_t *to)
{
	size_t i;

	for (i = 0; i < w->symbol_count; i++) {
		if (is_local(&w->symbols[i]) != local)
			continue;
		if (w->symbols[i].section >= SHN_LORESERVE)
			memcpy(to, &w->symbols[i].section, 4);
		to += 4;
	}
	return to;
}

void *object_shndx(struct object_writer *w, const struct elf_section *s, uint64_t *size)
{
	uint64_t head = 4ull * w->first_global, i;
	uint8_t *p, *to;

	*size = s->sh.sh_size + 4ull * (w->new_local_count + w->symbol_count + (w->wanted != NULL));
	p = object_keep(w, *size);
	memcpy(p, s->data, head);
	for (i = 0; i < w->new_local_count; i++)
		if (w->new_locals[i] >= SHN_LORESERVE)
			memcpy(p + head + 4 * i, &w->new_locals[i], 4);
	to = shndx_write(w, true, p + head + 4ull * w->new_local_count);
	memcpy(to, s->data + head, s->sh.sh_size - head);
	shndx_write(w, false, to + s->sh.sh_size - head);
	return p;
}

void object_relocs_renumber(const struct object_writer *w, const struct elf_section *s, uint8_t *to)
{
	uint64_t step = s->sh.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel), i, info;

	memcpy(to, s->data, s->sh.sh_size);
	for (i = 0; object_locals(w) && i + step <= s->sh.sh_size; i += step) {
		memcpy(&info, to + i + 8, 8); /* r_info is the second field of Rel and Rela */
		info = ELF64_R_INFO((uint64_t)object_symbol(w, (uint32_t)ELF64_R_SYM(info)), ELF64_R_TYPE(info));
		memcpy(to + i + 8, &info, 8);
	}
}

void object_relocs(const struct object_writer *w, const struct new_section *a, uint8_t *to)
{
	size_t i;

	for (i = 0; a->places && i < a->reloc_count; i++) {
		Elf64_Rela x = {4 * i, ELF64_R_INFO((uint64_t)w->symbol_of[a->about], R_X86_64_PC32), (int64_t)a->places[i]};

		memcpy(to + i * sizeof(x), &x, sizeof(x));
	}
	for (i = 0; !a->places && i < a->reloc_count; i++) {
		const struct new_reloc *r = &a->relocs[i];
		uint64_t section = r->to == TO_NEW ? object_index(w, r->index) : r->index;
		uint64_t symbol = r->to == TO_SYMBOL ? object_symbol(w, r->index) : w->symbol_of[section];
		Elf64_Rela x = {r->offset, ELF64_R_INFO(symbol, (uint64_t)r->type), r->addend};

		memcpy(to + i * sizeof(x), &x, sizeof(x));
	}
}

void *object_addrsig(struct object_writer *w, const struct elf_section *s, uint64_t *size)
{
	uint8_t *p = object_keep(w, 2 * s->sh.sh_size + 16);
	uint64_t i = 0, n = 0, v;
	unsigned shift;

	while (i < s->sh.sh_size) {
		for (v = 0, shift = 0; i < s->sh.sh_size; shift += 7) {
			if (shift < 64)
				v |= (uint64_t)(s->data[i] & 0x7f) << shift;
			if (!(s->data[i++] & 0x80))
				break;
		}
		v = object_symbol(w, (uint32_t)v);
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

/* Makes the contents of an SHT_GROUP section, with the new sections that join the group appended. */
void *object_group(struct object_writer *w, uint32_t index, uint64_t *size)
{
	const struct elf_section *s = &w->f->sections[index];
	uint64_t n = s->sh.sh_size, more = 0;
	uint32_t k, m;
	uint8_t *p;

	for (k = w->joins[index]; k; k = w->next_join[k - 1])
		more += 8;
	p = object_keep(w, n + more);
	memcpy(p, s->data, n);
	for (k = w->joins[index]; k; k = w->next_join[k - 1]) {
		m = object_index(w, k - 1);
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

void *object_names(struct object_writer *w, const struct elf_section *s, uint64_t *size, uint32_t *offsets)
{
	bool both = s == &w->f->sections[w->f->sections[w->f->symtab].sh.sh_link];
	uint64_t n = s->sh.sh_size, extra = both ? names_size(w) : 0;
	size_t k;
	char *p;

	for (k = 0; k < w->count; k++)
		extra += 2 * strlen(w->added[k].name) + 16;
	p = object_keep(w, n + extra);
	memcpy(p, s->data, n);
	if (both) {
		names_write(w, p + n);
		n += names_size(w);
	}
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
