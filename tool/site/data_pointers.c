/* SPDX-License-Identifier: MIT */
/* Finds references to etched objects in the data of a linked file: dynamic relocations, and plain words for ET_EXEC. A
 * GOT slot is recorded, since its uses are found in the code; any other word lets the object escape. */
#include "elf/dynamic.h"
#include "site/linked.h"
#include "support/memory.h"
#include "support/sort.h"

#include <etch/branch_format.h>
#include <etch/orc.h>
#include <stdlib.h>
#include <string.h>

/* ---- slots --------------------------------------------------------------- */

static int slot_order(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

const struct slot *slot_at(const struct scan *s, uint64_t addr)
{
	struct slot key = {addr, 0, 0};

	return s->slot_count ? bsearch(&key, s->slots, s->slot_count, sizeof(key), slot_order) : NULL;
}

void slots_sort(struct scan *s)
{
	if (s->slot_count)
		qsort(s->slots, s->slot_count, sizeof(*s->slots), slot_order);
}

bool slot_is_got(const struct elf_file *f, uint64_t addr)
{
	uint32_t i = elf_section_at(f, addr);

	return i && !strncmp(f->sections[i].name, ".got", 4);
}

void slot_add(struct scan *s, uint64_t addr, int32_t object, int64_t off)
{
	mem_reserve(&s->slots, &s->slot_capacity, s->slot_count, sizeof(*s->slots));
	s->slots[s->slot_count++] = (struct slot){addr, object, off};
}

/* ---- words --------------------------------------------------------------- */

/* Records a data word at `at` with the address `value` as a GOT slot or an escape. */
static void word_take(struct scan *s, uint64_t at, uint64_t value)
{
	struct site site = {.addr = at, .kind = SITE_ESCAPE, .in_data = true, .off_known = true, .as_pointer = true};

	site.object = object_at(s, value, true);
	if (site.object < 0) {
		/* The address is in an etched section, but no symbol covers it. */
		uint32_t section = elf_section_at(s->file, value);
		bool shared;

		if (section && section_is_etched(&s->file->sections[section], &shared))
			scan_suspect_all(s, section, elf_section_at(s->file, at), at, 0);
		return;
	}
	site.off = (int64_t)(value - s->objects.list[site.object].addr);
	site.beside = site.off ? 0 : BESIDE_END;
	if (slot_is_got(s->file, at)) {
		slot_add(s, at, site.object, site.off);
		return;
	}
	site.section = elf_section_at(s->file, at);
	scan_site_add(s, &site);
}

/* Records the address of code that a data word holds, since it may be that of a label. */
static void code_word_add(struct scan *s, uint64_t at, uint64_t value)
{
	uint32_t of = elf_section_at(s->file, at), type = s->file->sections[of].sh.sh_type;
	uint32_t i = elf_section_at(s->file, value);

	if (!i || !(s->file->sections[i].sh.sh_flags & SHF_EXECINSTR))
		return;
	mem_word_add(&s->code_words, &s->code_word_count, &s->code_word_capacity, value);
	if (type == SHT_INIT_ARRAY || type == SHT_PREINIT_ARRAY)
		mem_word_add(&s->init_words, &s->init_word_count, &s->init_word_capacity, value);
}

/* Returns the address that a relocation writes, or 0 if the address is in another module. */
static uint64_t reloc_value(const struct dynamic_reloc *r)
{
	if (r->type == R_X86_64_RELATIVE || r->type == R_X86_64_IRELATIVE)
		return r->addend;
	return r->symbol && r->symbol->section ? r->symbol->value + r->addend : 0;
}

static int dynamic_relocs_take(struct scan *s, const struct range *range)
{
	struct dynamic_reloc *r;
	size_t n, k;
	int err = dynamic_relocs_read(s->file, 0, UINT64_MAX, &r, &n, &s->error);

	for (k = 0; k < n && !err; k++) {
		uint64_t value = reloc_value(&r[k]);

		mem_word_add(&s->relocated, &s->relocated_count, &s->relocated_capacity, r[k].place);
		code_word_add(s, r[k].place, value);
		if (r[k].type != R_X86_64_COPY && value && in_range(range, value))
			word_take(s, r[k].place, value);
	}
	free(r);
	return err;
}

/*
 * Is this a section that holds numbers and distances but no addresses, or a section that etch adds? The latter are
 * skipped so that the result is the same for a file that has already been rewritten.
 */
static bool has_no_addresses(const char *name)
{
	static const char *const names[] = {ETCH_SEC_ORC_IP, ETCH_SEC_ORC,    ETCH_SEC_ORC_LOOKUP, ETCH_SEC_IMV,
	                                    ETCH_SEC_PV,     ETCH_SEC_OBJ,    ETCH_SEC_NATIVE,     ETCH_SEC_INLINE,
	                                    ETCH_SEC_MODULE, ETCH_SEC_BRANCH, ETCH_SEC_MARK,       ETCH_SEC_MARK_INFO,
	                                    ".sframe"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return !strncmp(name, ".etch.", 6);
}

/* Takes the data words of a file that is loaded at its link address. */
static void absolute_words_take(struct scan *s, const struct range *range)
{
	const struct elf_file *f = s->file;
	uint32_t i;
	uint64_t at, value;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *x = &f->sections[i];

		if (!(x->sh.sh_flags & SHF_ALLOC) || !x->data || (x->sh.sh_flags & SHF_EXECINSTR) ||
		    (x->sh.sh_type != SHT_PROGBITS && x->sh.sh_type != SHT_INIT_ARRAY && x->sh.sh_type != SHT_FINI_ARRAY) ||
		    !strncmp(x->name, ".eh_frame", 9) || has_no_addresses(x->name))
			continue;
		for (at = 0; at + 8 <= x->sh.sh_size; at++) { /* unaligned words may be members of packed structs */
			memcpy(&value, x->data + at, 8);
			if (((x->sh.sh_addr + at) & 7) == 0 && value)
				code_word_add(s, x->sh.sh_addr + at, value);
			if (!in_range(range, value))
				continue;
			/* An unaligned word counts only if it is the address of a known object. */
			if (((x->sh.sh_addr + at) & 7) && object_at(s, value, false) < 0)
				continue;
			word_take(s, x->sh.sh_addr + at, value);
		}
	}
}

int words_take(struct scan *s, const struct range *range)
{
	if (dynamic_relocs_take(s, range))
		return -1;
	if (s->file->eh.e_type == ET_EXEC)
		absolute_words_take(s, range);
	slots_sort(s);
	if (s->relocated_count)
		qsort(s->relocated, s->relocated_count, sizeof(*s->relocated), word_order);
	return 0;
}
