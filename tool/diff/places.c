/* SPDX-License-Identifier: MIT */
/* Reads the symbols, relocations and section addresses by which places are looked up. */
#include "diff/image.h"
#include "diff/jump_tables.h"
#include "shared/search.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ----------------------------------------------------------------- */

/*
 * True for data symbols with a size. A symbol without a size (_end, __bss_start) does not describe the data at its
 * address.
 */
static bool is_sized(const struct elf_file *f, const struct elf_symbol *s)
{
	return s->section && s->size && s->name[0] && !(f->sections[s->section].sh.sh_flags & SHF_EXECINSTR);
}

static bool is_object(const struct elf_file *f, const struct elf_symbol *s)
{
	return is_sized(f, s) &&
	       (s->type == STT_OBJECT || s->type == STT_NOTYPE || (s->type == STT_TLS && elf_is_object(f)));
}

static bool is_thread_local(const struct elf_file *f, const struct elf_symbol *s)
{
	return is_sized(f, s) && s->type == STT_TLS && !elf_is_object(f);
}

static void objects_read(struct image *im)
{
	void (*build)(const struct elf_file *, symbol_wanted *, struct symbol_index *) =
		im->nameless ? symbol_index_build_dynamic : symbol_index_build;
	const struct elf_file *f = &im->file;
	struct places *p = &im->places;
	uint32_t i;

	build(f, is_object, &p->objects);
	build(f, is_thread_local, &p->threads);
	for (i = 0; i < f->phdr_count; i++)
		if (f->phdrs[i].p_type == PT_TLS) {
			uint64_t align = f->phdrs[i].p_align ? f->phdrs[i].p_align : 1;

			p->tls_size = (f->phdrs[i].p_memsz + align - 1) / align * align;
		}
}

/* Reads the relocations of each loaded section of an object file. Returns 0, or -1 and a message. */
static int relocs_read(struct image *im, struct error *e)
{
	const struct elf_file *f = &im->file;
	uint32_t i;

	im->places.relocs = mem_zero((size_t)f->section_count + 1, sizeof(*im->places.relocs));
	im->places.reloc_sections = f->section_count;
	for (i = 1; i < f->section_count; i++) {
		uint32_t of = f->sections[i].sh.sh_info;
		struct place_relocs *to = &im->places.relocs[of];
		long n;

		if (f->sections[i].sh.sh_type != SHT_RELA || to->list || !(f->sections[of].sh.sh_flags & SHF_ALLOC))
			continue;
		n = elf_relocs(f, i, &to->list, e);
		if (n < 0)
			return -1;
		to->count = (size_t)n;
	}
	return 0;
}

struct loaded {
	uint64_t addr;
	uint32_t section;
};

static int loaded_order(const void *a, const void *b)
{
	const struct loaded *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->section < y->section ? -1 : 1;
}

/*
 * Sorts the loaded sections of a linked file by address, and reads its dynamic relocations. Returns 0, or -1 and a
 * message.
 */
static int loaded_read(struct image *im, struct error *e)
{
	const struct elf_file *f = &im->file;
	struct loaded *list = mem_alloc((size_t)f->section_count + 1, sizeof(*list));
	struct places *p = &im->places;
	size_t n = 0, k;
	uint32_t i;

	p->loaded = mem_alloc((size_t)f->section_count + 1, sizeof(*p->loaded));
	for (i = 1; i < f->section_count; i++)
		if ((f->sections[i].sh.sh_flags & SHF_ALLOC) && !(f->sections[i].sh.sh_flags & SHF_TLS) &&
		    f->sections[i].sh.sh_size)
			list[n++] = (struct loaded){f->sections[i].sh.sh_addr, i};
	qsort(list, n, sizeof(*list), loaded_order);
	for (k = 0; k < n; k++)
		p->loaded[k] = list[k].section;
	p->loaded_count = n;
	free(list);
	return dynamic_relocs_read(f, 0, UINT64_MAX, &p->dynamic, &p->dynamic_count, e);
}

int places_open(struct image *im, struct error *e)
{
	struct places *p = &im->places;

	p->fixed = im->file.eh.e_type == ET_EXEC;
	p->tables = jump_tables_new();
	objects_read(im);
	return elf_is_object(&im->file) ? relocs_read(im, e) : loaded_read(im, e);
}

void places_close(struct places *p)
{
	uint32_t i;

	for (i = 0; i < p->reloc_sections; i++)
		free(p->relocs[i].list);
	free(p->relocs);
	symbol_index_free(&p->objects);
	symbol_index_free(&p->threads);
	free(p->loaded);
	free(p->dynamic);
	free(p->used);
	jump_tables_free(p->tables);
	*p = (struct places){0};
}

/* ---- lookups ------------------------------------------------------------------ */

int place_order(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

uint32_t place_section(const struct image *im, uint64_t addr)
{
	size_t lo = SEARCH(im->places.loaded_count, i, im->file.sections[im->places.loaded[i]].sh.sh_addr <= addr);
	const Elf64_Shdr *sh;

	if (!lo)
		return 0;
	sh = &im->file.sections[im->places.loaded[lo - 1]].sh;
	return addr - sh->sh_addr < sh->sh_size ? im->places.loaded[lo - 1] : 0;
}

bool place_is_code(const struct image *im, uint32_t section)
{
	return im->file.sections[section].sh.sh_flags & SHF_EXECINSTR;
}

const struct elf_reloc *place_reloc(const struct image *im, uint32_t section, uint64_t from, uint64_t end)
{
	const struct place_relocs *r = im->places.relocs ? &im->places.relocs[section] : NULL;
	size_t lo = SEARCH(r ? r->count : 0, i, r->list[i].offset < from);

	return r && lo < r->count && r->list[lo].offset < end ? &r->list[lo] : NULL;
}

const struct dynamic_reloc *place_dynamic(const struct image *im, uint64_t addr, uint64_t size)
{
	size_t lo = SEARCH(im->places.dynamic_count, i, im->places.dynamic[i].place < addr);

	return lo < im->places.dynamic_count && im->places.dynamic[lo].place - addr < size ? &im->places.dynamic[lo] : NULL;
}

const uint8_t *place_bytes(const struct image *im, struct place at, uint64_t size)
{
	struct elf_held held = elf_held(&im->file, at.section, at.addr);

	return size <= held.size ? held.bytes : NULL;
}

bool place_is_relocated(const struct image *im, struct place at, uint64_t size)
{
	return elf_is_object(&im->file) ? place_reloc(im, at.section, at.addr, at.addr + size) != NULL
	                                : place_dynamic(im, at.addr, size) != NULL;
}

bool place_entry(const struct image *im, struct place table, unsigned width, size_t i, struct place *to)
{
	struct place at = {table.section, table.addr + width * i};
	const uint8_t *p = place_bytes(im, at, width);
	const struct elf_reloc *r;
	const struct elf_symbol *s;
	uint64_t v = 0;
	int32_t rel;

	if (!p)
		return false;
	if (elf_is_object(&im->file)) {
		r = place_reloc(im, at.section, at.addr, at.addr + 1);
		if (!r || r->type != (width == 4 ? R_X86_64_PC32 : R_X86_64_64) || r->symbol >= im->file.symbol_count)
			return false;
		s = &im->file.symbols[r->symbol];
		*to = (struct place){s->section, s->value + (uint64_t)r->addend - (width == 4 ? at.addr - table.addr : 0)};
	} else if (width == 4) {
		memcpy(&rel, p, 4);
		v = table.addr + (uint64_t)(int64_t)rel;
		*to = (struct place){place_section(im, v), v};
	} else {
		const struct dynamic_reloc *d = place_dynamic(im, at.addr, 1);

		memcpy(&v, p, 8);
		if (d ? d->type != R_X86_64_RELATIVE : !im->places.fixed)
			return false;
		v = d ? d->addend : v;
		*to = (struct place){place_section(im, v), v};
	}
	return to->section && place_is_code(im, to->section) && im->file.sections[to->section].data &&
	       image_function(im, to->section, to->addr) != NO_FUNC;
}
