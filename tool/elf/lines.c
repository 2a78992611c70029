/* SPDX-License-Identifier: MIT */
#include "elf/lines.h"
#include "elf/memory.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lines {
	Dwfl *dwfl;
	Dwfl_Module *module;
	bool object; /* ET_REL: libdwfl gives each section an address of its own, and relocates its DWARF */
	char *copy;  /* what libdwfl has of the file */
};

/* No other file is opened because this one names it: it may be anybody's, and name a pipe, a
 * device, or something that a server is asked for (debuginfod). */
static int find_nothing(Dwfl_Module *m, void **user, const char *name, Dwarf_Addr base, const char *file,
                        const char *link, GElf_Word crc, char **found)
{
	(void)m, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)found;
	return -1;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = find_nothing,
	.section_address = dwfl_offline_section_address,
};

/* libdw itself opens what .gnu_debugaltlink names, but not where that section is empty. */
static void links_hide(const struct elf_file *f, char *copy)
{
	const Elf64_Word empty = SHT_NOBITS;
	uint32_t i = 0;
	uint64_t at;

	while ((i = elf_section_find(f, ".gnu_debugaltlink", i + 1)) != 0) {
		at = f->eh.e_shoff + i * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_type);
		if (at <= f->size && sizeof(empty) <= f->size - at)
			memcpy(copy + at, &empty, sizeof(empty));
	}
}

struct lines *lines_open(const struct elf_file *f)
{
	struct lines *l;

	if (!elf_section_find(f, ".debug_line", 1) && !elf_section_find(f, ".zdebug_line", 1))
		return NULL;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->object = elf_is_object(f);
	l->copy = big_alloc(f->size);
	l->dwfl = dwfl_begin(&callbacks);
	if (l->copy && l->dwfl) {
		memcpy(l->copy, f->bytes, f->size);
		links_hide(f, l->copy);
		dwfl_report_begin(l->dwfl);
		l->module = dwfl_report_offline_memory(l->dwfl, f->path, f->path, l->copy, f->size);
		dwfl_report_end(l->dwfl, NULL, NULL);
	}
	if (l->module)
		return l;
	lines_close(l);
	return NULL;
}

void lines_close(struct lines *l)
{
	if (!l)
		return;
	if (l->dwfl)
		dwfl_end(l->dwfl);
	free(l->copy);
	free(l);
}

/* clang writes no .debug_aranges, by which libdwfl finds the unit of an address:
 * ask each unit for its own ranges. */
static const char *unit_find(struct lines *l, Dwarf_Addr at, int *number)
{
	Dwarf_Die *unit = NULL;
	Dwarf_Addr bias;
	Dwarf_Line *line;

	while ((unit = dwfl_module_nextcu(l->module, unit, &bias)) != NULL)
		if (dwarf_haspc(unit, at - bias) > 0) {
			line = dwarf_getsrc_die(unit, at - bias);
			return line && !dwarf_lineno(line, number) ? dwarf_linesrc(line, NULL, NULL) : NULL;
		}
	return NULL;
}

const char *lines_source(struct lines *l, uint32_t section, uint64_t addr, int *number)
{
	Dwarf_Addr at = addr, bias = 0;
	Dwfl_Line *line;

	if (!l)
		return NULL;
	if (l->object) {
		Elf *elf = dwfl_module_getelf(l->module, &bias);
		Elf_Scn *scn = elf ? elf_getscn(elf, section) : NULL;
		GElf_Shdr sh;

		if (!scn || !gelf_getshdr(scn, &sh))
			return NULL;
		at = sh.sh_addr + addr + bias;
	} else {
		dwfl_module_getelf(l->module, &bias);
		at = addr + bias;
	}
	line = dwfl_module_getsrc(l->module, at);
	return line ? dwfl_lineinfo(line, NULL, number, NULL, NULL, NULL) : unit_find(l, at, number);
}

void lines_find(struct lines *l, uint32_t section, uint64_t addr, char *out, size_t out_size)
{
	const char *file, *slash;
	int number;

	snprintf(out, out_size, "-");
	file = lines_source(l, section, addr, &number);
	if (!file)
		return;
	slash = strrchr(file, '/');
	snprintf(out, out_size, "%.200s:%d", slash ? slash + 1 : file, number);
}

/* Classes and namespaces in each other; C++ has no deeper ones. */
#define SCOPES_MOST 32

static void scope_noreturn(Dwarf_Die *scope, unsigned depth, void (*fn)(void *ctx, const char *name), void *ctx)
{
	Dwarf_Die die;

	if (depth == SCOPES_MOST || dwarf_child(scope, &die))
		return;
	do {
		Dwarf_Attribute a;
		const char *name;
		bool set;

		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			if (!dwarf_attr(&die, DW_AT_noreturn, &a) || dwarf_formflag(&a, &set) || !set)
				break;
			name = dwarf_attr_integrate(&die, DW_AT_linkage_name, &a) ? dwarf_formstring(&a) : dwarf_diename(&die);
			if (name)
				fn(ctx, name);
			break;
		case DW_TAG_namespace:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
			scope_noreturn(&die, depth + 1, fn, ctx);
			break;
		default:
			break;
		}
	} while (!dwarf_siblingof(&die, &die));
}

void lines_noreturn(struct lines *l, void (*fn)(void *ctx, const char *name), void *ctx)
{
	Dwarf_Die *unit = NULL;
	Dwarf_Addr bias;

	while (l && (unit = dwfl_module_nextcu(l->module, unit, &bias)) != NULL)
		scope_noreturn(unit, 0, fn, ctx);
}
