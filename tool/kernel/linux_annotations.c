/* SPDX-License-Identifier: MIT */
/*
 * Reads the annotations of instructions in Linux kernel objects. Each kind of annotation has its own section; since
 * 6.13 one section holds all kinds.
 */
#include "kernel/linux_kernel.h"
#include "shared/search.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#define ANNOTATE_INSN ".discard.annotate_insn"
enum { ENTRY_SIZE = 8, ENTRY_TYPE = 4 };

/*
 * For each kind of annotation, the name of its own section. Null: the kind came with .discard.annotate_insn or later,
 * so it has none.
 */
static const char *const own_sections[LINUX_ANNOTATION_END] = {
	[LINUX_NOENDBR] = ".discard.noendbr",
	[LINUX_RETPOLINE_SAFE] = ".discard.retpoline_safe",
	[LINUX_INSTR_BEGIN] = ".discard.instr_begin",
	[LINUX_INSTR_END] = ".discard.instr_end",
	[LINUX_UNRET_BEGIN] = ".discard.validate_unret",
	[LINUX_IGNORE_ALTS] = ".discard.ignore_alts",
	[LINUX_INTRA_FUNCTION_CALL] = ".discard.intra_function_calls",
	[LINUX_REACHABLE] = ".discard.reachable",
};

/* The places of one annotation while they are read. */
struct places {
	const struct elf_file *f;
	enum linux_annotation kind;
	struct linux_place *list;
	size_t count, capacity;
};

static int place_order(const void *a, const void *b)
{
	const struct linux_place *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/*
 * Adds the place to which a relocation refers; it may be the end of a section. Returns false if the place is not in
 * code.
 */
static bool place_add(struct places *p, const struct elf_reloc *r)
{
	const struct elf_symbol *y = r->symbol < p->f->symbol_count ? &p->f->symbols[r->symbol] : NULL;
	const struct elf_section *s = y && y->section < p->f->section_count ? &p->f->sections[y->section] : NULL;
	uint64_t at = y ? y->value + (uint64_t)r->addend : 0;

	if (!s || !y->section || !s->data || !(s->sh.sh_flags & SHF_EXECINSTR) || at > s->sh.sh_size)
		return false;
	mem_reserve(&p->list, &p->capacity, p->count, sizeof(*p->list));
	p->list[p->count++] = (struct linux_place){y->section, at};
	return true;
}

/* Sets the message about a malformed entry. Returns -1. */
static int bad(const struct elf_section *s, uint64_t at, const char *what, struct error *e)
{
	return error_set(e, "section %s, entry at %#llx: %s", s->name, (unsigned long long)at, what);
}

/*
 * Reads the section of one kind of annotation. The entries for kinds that change the control flow have 4 bytes, and
 * each must refer to code. The entries for other kinds are pointers or distances; those that refer to no code of this
 * file are ignored. Returns 0, or -1 and a message.
 */
static int own_read(struct places *p, const struct elf_section *s, const struct elf_reloc *r, size_t count,
                    struct error *e)
{
	bool strict = p->kind == LINUX_REACHABLE || p->kind == LINUX_INTRA_FUNCTION_CALL;
	size_t i;

	if (strict && s->sh.sh_size % 4)
		return error_set(e, "section %s: size %llu is not a multiple of 4", s->name, (unsigned long long)s->sh.sh_size);
	for (i = 0; i < count || (strict && i < s->sh.sh_size / 4); i++)
		if (strict && (i >= count || r[i].offset != 4 * i))
			return bad(s, 4 * i, "refers to no code", e);
		else if (!place_add(p, &r[i]) && strict)
			return bad(s, r[i].offset, "refers to no code", e);
	return 0;
}

/*
 * Reads the section that holds all kinds of annotations. Each entry has 8 bytes: the address and the kind. Returns 0,
 * or -1 and a message.
 */
static int common_read(struct places *p, const struct elf_section *s, const struct elf_reloc *r, size_t count,
                       struct error *e)
{
	uint32_t type;
	size_t i;

	if (s->sh.sh_size % ENTRY_SIZE)
		return error_set(e, "section %s: size %llu is not a multiple of %d", s->name, (unsigned long long)s->sh.sh_size,
		                 ENTRY_SIZE);
	if (count != s->sh.sh_size / ENTRY_SIZE)
		return error_set(e, "section %s: %zu relocations of %llu entries", s->name, count,
		                 (unsigned long long)s->sh.sh_size / ENTRY_SIZE);
	for (i = 0; i < count; i++) {
		if (r[i].offset != i * ENTRY_SIZE)
			return bad(s, i * ENTRY_SIZE, "has no relocation", e);
		memcpy(&type, s->data + i * ENTRY_SIZE + ENTRY_TYPE, sizeof(type));
		if (!type || type >= LINUX_ANNOTATION_END)
			return error_set(e, "section %s, entry at %#zx: unknown annotation type %u", s->name, i * ENTRY_SIZE, type);
		if (type == p->kind ? !place_add(p, &r[i]) : r[i].symbol >= p->f->symbol_count)
			return bad(s, i * ENTRY_SIZE, "refers to no code", e);
	}
	return 0;
}

static int section_read(struct places *p, uint32_t section, bool common, struct error *e)
{
	const struct elf_section *s = &p->f->sections[section];
	uint32_t rel = elf_section_rela(p->f, section, 1);
	struct elf_reloc *r = NULL;
	long n = rel ? elf_relocs(p->f, rel, &r, e) : 0;
	int err;

	if (n < 0)
		return -1;
	if (!s->data)
		err = 0;
	else
		err = common ? common_read(p, s, r, (size_t)n, e) : own_read(p, s, r, (size_t)n, e);
	free(r);
	return err;
}

long linux_annotations(const struct linux_release *release, const struct elf_file *f, enum linux_annotation kind,
                       struct linux_place **out, struct error *e)
{
	const char *name = release->annotations ? ANNOTATE_INSN : own_sections[kind];
	struct places p = {.f = f, .kind = kind};
	uint32_t i = 0;

	*out = NULL;
	while (name && (i = elf_section_find(f, name, i + 1)))
		if (section_read(&p, i, release->annotations, e)) {
			free(p.list);
			return -1;
		}
	if (p.count)
		qsort(p.list, p.count, sizeof(*p.list), place_order);
	*out = p.list;
	return (long)p.count;
}

long linux_annotated(const struct linux_release *release, const struct elf_file *f, enum linux_annotation kind,
                     struct linux_place **out, struct error *e)
{
	long count = linux_annotations(release, f, kind, out, e), n = 0, i;
	struct linux_place *list = *out;

	for (i = 0; i < count; i++)
		if (!n || place_order(&list[n - 1], &list[i]))
			list[n++] = list[i];
	return count < 0 ? -1 : n;
}

bool linux_place_in(const struct linux_place *list, size_t count, uint32_t section, uint64_t at)
{
	const struct linux_place key = {section, at};
	size_t k = SEARCH(count, i, place_order(&list[i], &key) < 0);

	return k < count && !place_order(&list[k], &key);
}

int linux_release_check(const struct linux_release *release, const struct elf_file *f, struct error *e)
{
	const char *foreign = !release->annotations && elf_section_find(f, ANNOTATE_INSN, 1) ? ANNOTATE_INSN : NULL;
	size_t i;

	for (i = 0; release->annotations && i < LINUX_ANNOTATION_END && !foreign; i++)
		if (own_sections[i] && elf_section_find(f, own_sections[i], 1))
			foreign = own_sections[i];
	if (!foreign)
		return 0;
	return error_set(e, "section %s is not one of Linux %s; KERNELVERSION has to say the object's release", foreign,
	                 release->name);
}
