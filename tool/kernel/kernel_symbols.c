/* SPDX-License-Identifier: MIT */
/*
 * Finds the symbols of a kernel file by address: functions, objects and labels, from the file or from a System.map. A
 * vmlinux has 150,000 of them, and a million lookups are made in it.
 */
#include "kernel/kernel.h"
#include "shared/search.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int order(const void *a, const void *b)
{
	const struct kernel_symbol *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	/*
	 * The lookup finds the last symbol at an address. This order makes that a global symbol if there is one, and the
	 * first of several in alphabetical order.
	 */
	if (x->local != y->local)
		return x->local ? -1 : 1;
	return strcmp(y->name, x->name);
}

static bool encloses(const struct kernel_symbol *s, uint32_t section, uint64_t addr)
{
	return s->section == section && addr >= s->value && addr - s->value < s->size;
}

/*
 * Finds the enclosing symbol of each symbol. No separate stack of open symbols is needed: the chain of parents serves
 * as one.
 */
static void parents_find(struct kernel_symbols *s)
{
	uint32_t top = 0;
	size_t i;

	for (i = 0; i < s->count; i++) {
		while (top && !encloses(&s->list[top - 1], s->list[i].section, s->list[i].value))
			top = s->list[top - 1].parent;
		s->list[i].parent = top;
		if (s->list[i].size)
			top = (uint32_t)i + 1;
	}
}

static void finish(struct kernel_symbols *s)
{
	if (s->count)
		qsort(s->list, s->count, sizeof(*s->list), order);
	parents_find(s);
}

static bool is_useful(const struct elf_symbol *s)
{
	if (!s->section || !s->name[0] || !strncmp(s->name, ".L", 2))
		return false;
	return s->type == STT_FUNC || s->type == STT_GNU_IFUNC || s->type == STT_OBJECT || s->type == STT_NOTYPE;
}

static void load_elf(struct kernel *k)
{
	const struct elf_file *f = k->file;
	struct kernel_symbols *s = &k->symbols;
	uint32_t i;

	s->list = mem_zero((size_t)f->symbol_count + 1, sizeof(*s->list));
	for (i = 1; i < f->symbol_count; i++) {
		const struct elf_symbol *y = &f->symbols[i];

		if (is_useful(y))
			s->list[s->count++] = (struct kernel_symbol){.value = y->value,
			                                             .size = y->size,
			                                             .section = y->section,
			                                             .local = y->bind == STB_LOCAL,
			                                             .name = y->name};
	}
	finish(s);
}

/* ---- System.map ------------------------------------------------------------------ */

/*
 * Parses a line such as "ffffffff81000000 T _stext". Returns false for the symbols of modules (in /proc/kallsyms) and
 * for absolute symbols.
 */
static bool line_take(char *line, struct kernel_symbol *out)
{
	char *end, *name, type;

	out->value = strtoull(line, &end, 16);
	if (end == line || end[0] != ' ' || !end[1] || end[2] != ' ')
		return false;
	type = end[1];
	name = end + 3;
	out->name = name;
	name += strcspn(name, " \t\r");
	if (*name && strchr(name, '['))
		return false;
	*name = 0;
	out->local = type >= 'a';
	out->size = 0;
	return out->name[0] && type != 'A' && type != 'a' && type != 'U';
}

/* Checks that the System.map belongs to the file: its first text symbol must be at the start of the file's text.
 * Returns 0, or -1 and a message. */
static int map_fits(const struct kernel *k, struct error *e)
{
	const struct kernel_symbol *s = kernel_symbol_named(k, "_text");
	uint32_t text = elf_section_find(k->file, ".text", 1);

	if (!s)
		return error_set(e, "--symbols: no _text symbol; is it a System.map?");
	if (!text || s->value != k->file->sections[text].sh.sh_addr)
		return error_set(e, "--symbols: symbols of another kernel: _text is at %" PRIx64, s->value);
	return 0;
}

static int load_map(struct kernel *k, const char *path, struct error *e)
{
	struct kernel_symbols *s = &k->symbols;
	struct error why;
	uint8_t *bytes;
	size_t size, i, lines = 1;
	char *p, *next;

	if (elf_is_object(k->file))
		return error_set(e, "--symbols is for vmlinux: this file has symbols of its own");
	if (file_read(path, &bytes, &size, &why))
		return error_set(e, "--symbols %.200s: %.180s", path, why.text);
	s->text = (char *)bytes;
	s->text[size] = 0; /* file_read() has allocated one byte more, for the NUL */
	for (i = 0; i < size; i++)
		lines += bytes[i] == '\n';
	s->list = mem_zero(lines, sizeof(*s->list));
	for (p = s->text; *p; p = next) {
		struct kernel_symbol *y = &s->list[s->count];

		next = p + strcspn(p, "\n");
		if (*next)
			*next++ = 0;
		if (!line_take(p, y))
			continue;
		y->section = elf_section_at(k->file, y->value); /* 0 if the symbol is at the end of a section */
		s->count++;
	}
	finish(s);
	return map_fits(k, e);
}

int kernel_symbols_load(struct kernel *k, const char *map, struct error *e)
{
	if (map)
		return load_map(k, map, e);
	load_elf(k);
	return 0;
}

void kernel_symbols_free(struct kernel_symbols *s)
{
	free(s->list);
	free(s->text);
	memset(s, 0, sizeof(*s));
}

const struct kernel_symbol *kernel_symbol_at(const struct kernel *k, uint32_t section, uint64_t addr)
{
	const struct kernel_symbols *s = &k->symbols;
	size_t lo = SEARCH(s->count, j,
	                   s->list[j].section < section || (s->list[j].section == section && s->list[j].value <= addr));
	uint32_t i;

	for (i = (uint32_t)lo; i; i = s->list[i - 1].parent)
		if (encloses(&s->list[i - 1], section, addr))
			return &s->list[i - 1];
	if (!lo || s->list[lo - 1].section != section || s->list[lo - 1].size)
		return NULL;
	return &s->list[lo - 1];
}

const struct kernel_symbol *kernel_symbol_named(const struct kernel *k, const char *name)
{
	size_t i;

	for (i = 0; i < k->symbols.count; i++)
		if (!strcmp(k->symbols.list[i].name, name))
			return &k->symbols.list[i];
	return NULL;
}
