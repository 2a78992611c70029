/* SPDX-License-Identifier: MIT */
/* Resolves the references in tables and in code to places (kernel.h). */
#include "kernel/kernel.h"
#include "shared/search.h"
#include "support/plain.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- relocations ------------------------------------------------------------------ */

static int relocs_append(struct kernel *k, struct kernel_relocs *r, uint32_t rel, struct error *e)
{
	struct elf_reloc *more, *p;
	long n = elf_relocs(k->file, rel, &more, e);

	if (n <= 0)
		return n < 0 ? -1 : 0;
	if (!r->list) {
		r->list = more;
		r->count = (size_t)n;
		return 0;
	}
	p = mem_resize(r->list, r->count + (size_t)n, sizeof(*p));
	r->list = p;
	memcpy(p + r->count, more, (size_t)n * sizeof(*p));
	r->count += (size_t)n;
	free(more);
	qsort(p, r->count, sizeof(*p), elf_reloc_order);
	return 0;
}

/*
 * Links each section to the sections with its relocations, to avoid searches: an object may have ten thousand of both.
 */
void kernel_relocs_open(struct kernel *k)
{
	const struct elf_file *f = k->file;
	uint32_t i;

	k->relocs = mem_zero(f->section_count, sizeof(*k->relocs));
	for (i = f->section_count - 1; i && elf_is_object(f); i--)
		if (f->sections[i].sh.sh_type == SHT_RELA) {
			k->relocs[i].next = k->relocs[f->sections[i].sh.sh_info].first;
			k->relocs[f->sections[i].sh.sh_info].first = i;
		}
}

static struct kernel_relocs *relocs_of(struct kernel *k, uint32_t section)
{
	struct kernel_relocs *r = &k->relocs[section];
	struct error e;
	uint32_t rel;

	if (r->read)
		return r;
	r->read = true;
	for (rel = r->first; rel; rel = k->relocs[rel].next)
		if (relocs_append(k, r, rel, &e)) {
			r->broken = mem_copy(&e, sizeof(e));
			r->count = 0;
			break;
		}
	return r;
}

void kernel_relocs_free(struct kernel *k)
{
	uint32_t i;

	for (i = 0; k->relocs && i < k->file->section_count; i++) {
		free(k->relocs[i].list);
		free(k->relocs[i].broken);
	}
	free(k->relocs);
}

const char *kernel_relocs_broken(struct kernel *k, uint32_t section)
{
	const struct kernel_relocs *r = relocs_of(k, section);

	return r->broken ? r->broken->text : NULL;
}

const struct elf_reloc *kernel_reloc_in(struct kernel *k, uint32_t section, uint64_t start, uint64_t end)
{
	const struct kernel_relocs *r = relocs_of(k, section);
	size_t lo = SEARCH(r->count, i, r->list[i].offset < start);

	return lo < r->count && r->list[lo].offset < end ? &r->list[lo] : NULL;
}

void kernel_reloc_place(const struct kernel *k, const struct elf_reloc *r, int64_t bias, struct kernel_place *out)
{
	static const struct elf_symbol none = {.name = ""};
	const struct elf_symbol *s = r->symbol < k->file->symbol_count ? &k->file->symbols[r->symbol] : &none;
	uint64_t addend = (uint64_t)r->addend + (uint64_t)bias;

	*out = (struct kernel_place){0};
	if (s->section) {
		out->kind = KPLACE_SECTION;
		out->section = s->section;
		out->addr = s->value + addend;
	} else if (s->name[0]) {
		out->kind = KPLACE_SYMBOL;
		out->symbol = s->name;
		out->addr = s->special == SHN_ABS ? s->value + addend : addend;
	} else {
		out->why = "its relocation has no symbol";
	}
}

/* ---- references -------------------------------------------------------------------- */

static bool type_fits(uint32_t type, enum kernel_ref ref)
{
	if (ref == KREF_REL32)
		return type == R_X86_64_PC32 || type == R_X86_64_PLT32;
	return type == (ref == KREF_REL64 ? R_X86_64_PC64 : R_X86_64_64);
}

/*
 * Returns the section that contains an address of a linked file. The section of the last lookup is tried first, since
 * it is often the same one.
 */
static uint32_t section_at(struct kernel *k, uint64_t addr)
{
	const Elf64_Shdr *sh = &k->file->sections[k->last].sh;

	if (k->last && addr >= sh->sh_addr && addr - sh->sh_addr < sh->sh_size)
		return k->last;
	return k->last = elf_section_at(k->file, addr);
}

void kernel_place_at(struct kernel *k, uint64_t addr, struct kernel_place *out)
{
	*out = (struct kernel_place){.addr = addr, .section = section_at(k, addr)};
	out->kind = out->section ? KPLACE_SECTION : KPLACE_OUTSIDE;
}

static void place_reloc(struct kernel *k, uint32_t section, uint64_t offset, enum kernel_ref ref,
                        struct kernel_place *out)
{
	const struct elf_reloc *r = kernel_reloc_in(k, section, offset, offset + 1);

	*out = (struct kernel_place){.why = "a reference without a relocation"};
	if (!r)
		return;
	if (!type_fits(r->type, ref))
		out->why = "the relocation type does not fit its field";
	else
		kernel_reloc_place(k, r, 0, out);
}

void kernel_ref_read(struct kernel *k, uint32_t section, uint64_t offset, enum kernel_ref ref, struct kernel_place *out)
{
	const struct elf_section *s = &k->file->sections[section];
	uint64_t at = s->sh.sh_addr + offset;
	int64_t wide;
	int32_t near;

	if (elf_is_object(k->file)) {
		place_reloc(k, section, offset, ref, out);
		return;
	}
	if (ref == KREF_REL32) {
		memcpy(&near, s->data + offset, sizeof(near));
		kernel_place_at(k, at + (uint64_t)(int64_t)near, out);
	} else {
		memcpy(&wide, s->data + offset, sizeof(wide));
		kernel_place_at(k, (ref == KREF_REL64 ? at : 0) + (uint64_t)wide, out);
	}
}

void kernel_place_flags(struct kernel_place *p, unsigned mask, unsigned *flags)
{
	*flags = (unsigned)p->addr & mask;
	p->addr -= *flags;
}

/* ---- contents of places ----------------------------------------------------------------- */

static uint64_t base_of(const struct kernel *k, const struct kernel_place *p)
{
	return elf_is_object(k->file) ? 0 : k->file->sections[p->section].sh.sh_addr;
}

uint64_t kernel_place_left(const struct kernel *k, const struct kernel_place *p)
{
	uint64_t offset, size;

	if (p->kind != KPLACE_SECTION)
		return 0;
	offset = p->addr - base_of(k, p);
	size = k->file->sections[p->section].sh.sh_size;
	return offset < size ? size - offset : 0;
}

const uint8_t *kernel_place_bytes(const struct kernel *k, const struct kernel_place *p, uint64_t size)
{
	if (p->kind != KPLACE_SECTION || !k->file->sections[p->section].data || size > kernel_place_left(k, p))
		return NULL;
	return k->file->sections[p->section].data + (p->addr - base_of(k, p));
}

bool kernel_place_is_code(const struct kernel *k, const struct kernel_place *p)
{
	return kernel_place_bytes(k, p, 1) && (k->file->sections[p->section].sh.sh_flags & SHF_EXECINSTR);
}

const char *kernel_place_string(const struct kernel *k, const struct kernel_place *p)
{
	const uint8_t *s = kernel_place_bytes(k, p, 1);

	return s && memchr(s, 0, kernel_place_left(k, p)) ? (const char *)s : NULL;
}

/* ---- text --------------------------------------------------------------------------------- */

static void plus_text(const char *name, uint64_t offset, char *out, size_t size)
{
	if (!offset)
		snprintf(out, size, "%.200s", name);
	else if ((int64_t)offset < 0)
		snprintf(out, size, "%.200s-0x%" PRIx64, name, -offset);
	else
		snprintf(out, size, "%.200s+0x%" PRIx64, name, offset);
	plain(out);
}

static void section_text(const struct kernel *k, const struct kernel_place *p, char *out, size_t size)
{
	snprintf(out, size, "%.200s+0x%" PRIx64, k->file->sections[p->section].name, p->addr - base_of(k, p));
	plain(out);
}

void kernel_place_text(const struct kernel *k, const struct kernel_place *p, char *out, size_t size)
{
	if (p->kind == KPLACE_NONE)
		snprintf(out, size, "-");
	else if (p->kind == KPLACE_SYMBOL)
		plus_text(p->symbol, p->addr, out, size);
	else if (p->kind == KPLACE_SECTION && elf_is_object(k->file))
		section_text(k, p, out, size);
	else
		snprintf(out, size, "%" PRIx64, p->addr);
}

void kernel_place_name(const struct kernel *k, const struct kernel_place *p, char *out, size_t size)
{
	const struct kernel_symbol *s = p->kind == KPLACE_SECTION ? kernel_symbol_at(k, p->section, p->addr) : NULL;

	if (s)
		plus_text(s->name, p->addr - s->value, out, size);
	else if (p->kind == KPLACE_SECTION)
		section_text(k, p, out, size);
	else if (p->kind == KPLACE_SYMBOL)
		plus_text(p->symbol, p->addr, out, size);
	else
		snprintf(out, size, "-");
}
