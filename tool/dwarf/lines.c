/* SPDX-License-Identifier: MIT */
/* Reads source lines, noreturn functions and compiled ranges from DWARF, through libdwfl on a private copy of the
 * file. */
#include "dwarf/lines_internal.h"
#include "dwarf/inlined_frames.h"
#include "support/memory.h"
#include "shared/search.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lines {
	Dwfl *dwfl;
	Dwfl_Module *module;
	bool object;            /* ET_REL: libdwfl gives each section an address of its own, and relocates the DWARF */
	char *copy;             /* the file's bytes that libdwfl reads and relocates */
	struct range *compiled; /* ranges of compiled functions, sorted; read on first use */
	size_t compiled_count, compiled_capacity;
	struct of_unit *units; /* ranges of units, sorted by start; read when libdwfl does not find a line */
	size_t unit_count, unit_capacity;
	bool units_read;
	size_t ranges_most; /* the number of ranges that may be read: DIEs of a hostile file can share one list of ranges */
	bool compiled_read;
	struct inlined_frames *inlined; /* opened on first use */
	struct variable_dies variables;
};

struct range {
	Dwarf_Addr start, end; /* libdwfl's addresses */
};

struct of_unit {
	Dwarf_Addr start, end; /* libdwfl's addresses */
	Dwarf_Addr reach;      /* the greatest end of this range and those before it */
	size_t number;         /* number of the unit; if units overlap, the lowest number wins */
	Dwarf_Addr bias;
	Dwarf_Die die;
};

/* Never opens a debug file that the input names: the input is not trusted, and could name a pipe, a device, or a file
 * that would be fetched from a server (debuginfod). */
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

/* libdw opens the file named in .gnu_debugaltlink without asking the callbacks, but not if the section is empty. */
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
	l = mem_zero(1, sizeof(*l));
	l->object = elf_is_object(f);
	l->ranges_most = f->size / 8;
	l->copy = big_zero(f->size, 1);
	l->dwfl = dwfl_begin(&callbacks);
	if (l->dwfl) {
		big_copy(l->copy, f->bytes, f->size);
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

Dwfl_Module *lines_module(struct lines *l) { return l->module; }

struct variable_dies *lines_variables(struct lines *l) { return &l->variables; }

void lines_close(struct lines *l)
{
	if (!l)
		return;
	inlined_frames_close(l->inlined);
	if (l->dwfl)
		dwfl_end(l->dwfl);
	free(l->compiled);
	free(l->variables.list);
	free(l->units);
	free(l->copy);
	free(l);
}

static void unit_add(struct lines *l, const struct of_unit *u)
{
	if (u->start >= u->end)
		return;
	mem_reserve(&l->units, &l->unit_capacity, l->unit_count, sizeof(*l->units));
	l->units[l->unit_count++] = *u;
}

static int unit_order(const void *a, const void *b)
{
	const struct of_unit *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

/* Reads the ranges of all units. Units can share a list of ranges, so ranges_most bounds their number; if there are
 * more, no line is found. */
static void units_read(struct lines *l)
{
	struct of_unit u = {0};
	size_t most = l->ranges_most;
	Dwarf_Die *unit = NULL;
	Dwarf_Addr base, start, end;
	bool good = true;

	l->units_read = true;
	for (; good && (unit = dwfl_module_nextcu(l->module, unit, &u.bias)) != NULL; u.number++) {
		u.die = *unit;
		for (ptrdiff_t at = 0; good && (at = dwarf_ranges(unit, at, &base, &start, &end)) > 0;) {
			u.start = start + u.bias;
			u.end = end + u.bias;
			good = most--;
			if (good)
				unit_add(l, &u);
		}
	}
	if (!good)
		l->unit_count = 0;
	if (l->unit_count)
		qsort(l->units, l->unit_count, sizeof(*l->units), unit_order);
	for (size_t i = 0; i < l->unit_count; i++)
		l->units[i].reach = i && l->units[i - 1].reach > l->units[i].end ? l->units[i - 1].reach : l->units[i].end;
}

/* The greatest number of ranges examined for one address. Compilers do not write overlapping ranges, but a hostile file
 * may have them. */
#define UNITS_SEARCHED 64

/* Finds the source file and line of an address by the ranges in the units themselves. This serves files without
 * .debug_aranges (clang), by which libdwfl finds the unit. */
static const char *unit_find(struct lines *l, Dwarf_Addr at, int *number)
{
	size_t low, seen = 0;
	struct of_unit *found = NULL;
	Dwarf_Line *line;

	if (!l->units_read)
		units_read(l);
	low = SEARCH(l->unit_count, i, l->units[i].start <= at);
	while (low-- && l->units[low].reach > at && seen++ < UNITS_SEARCHED)
		if (l->units[low].end > at && (!found || l->units[low].number < found->number))
			found = &l->units[low];
	line = found ? dwarf_getsrc_die(&found->die, at - found->bias) : NULL;
	return line && !dwarf_lineno(line, number) ? dwarf_linesrc(line, NULL, NULL) : NULL;
}

bool lines_address(struct lines *l, uint32_t section, uint64_t addr, Dwarf_Addr *out)
{
	Dwarf_Addr bias = 0;
	Elf *elf = dwfl_module_getelf(l->module, &bias);
	Elf_Scn *scn;
	GElf_Shdr sh;

	*out = addr + bias;
	if (!l->object)
		return true;
	scn = elf ? elf_getscn(elf, section) : NULL;
	if (!scn || !gelf_getshdr(scn, &sh))
		return false;
	*out += sh.sh_addr;
	return true;
}

const char *lines_source(struct lines *l, uint32_t section, uint64_t addr, int *number)
{
	Dwfl_Line *line;
	Dwarf_Addr at;

	if (!l || !lines_address(l, section, addr, &at))
		return NULL;
	line = dwfl_module_getsrc(l->module, at);
	return line ? dwfl_lineinfo(line, NULL, number, NULL, NULL, NULL) : unit_find(l, at, number);
}

static void line_print(const char *file, int number, char *out, size_t out_size)
{
	const char *slash = strrchr(file, '/');

	snprintf(out, out_size, "%.200s:%d", slash ? slash + 1 : file, number);
}

void lines_find(struct lines *l, uint32_t section, uint64_t addr, char *out, size_t out_size)
{
	const char *file;
	int number;

	snprintf(out, out_size, "-");
	file = lines_source(l, section, addr, &number);
	if (file)
		line_print(file, number, out, out_size);
}

/* Is a source file a header of the C library, of a compiler or of an installed library? */
static bool is_system_header(const char *file)
{
	return !strncmp(file, "/usr/include/", strlen("/usr/include/")) ||
	       !strncmp(file, "/usr/local/include/", strlen("/usr/local/include/")) ||
	       (!strncmp(file, "/usr/lib", strlen("/usr/lib")) && strstr(file, "/include/"));
}

void lines_find_caller(struct lines *l, uint32_t section, uint64_t addr, char *out, size_t out_size)
{
	struct source_frame frames[SOURCE_FRAMES_MOST];
	const char *file;
	Dwarf_Addr at;
	int number;
	size_t n, i;

	lines_find(l, section, addr, out, out_size);
	file = lines_source(l, section, addr, &number);
	if (!file || !is_system_header(file) || !lines_address(l, section, addr, &at))
		return;
	if (!l->inlined)
		l->inlined = inlined_frames_open(l->module, true);
	n = inlined_frames_find(l->inlined, at, frames);
	for (i = 0; i < n; i++) {
		if (!frames[i].file || !frames[i].line || is_system_header(frames[i].file))
			continue;
		line_print(frames[i].file, (int)frames[i].line, out, out_size);
		return;
	}
}

/* The depth of nested classes and namespaces that is searched, which is enough for any C++. */
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
		case DW_TAG_structure_type: scope_noreturn(&die, depth + 1, fn, ctx); break;
		default: break;
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

/* ---- compiled functions -------------------------------------------------------------- */

static bool range_add(struct lines *l, Dwarf_Addr start, Dwarf_Addr end)
{
	if (!l->ranges_most)
		return false;
	l->ranges_most--;
	if (start >= end)
		return true;
	mem_reserve(&l->compiled, &l->compiled_capacity, l->compiled_count, sizeof(*l->compiled));
	l->compiled[l->compiled_count++] = (struct range){start, end};
	return true;
}

static bool scope_ranges(struct lines *l, Dwarf_Die *scope, Dwarf_Addr bias, unsigned depth)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at;
	Dwarf_Die die;
	bool good = true;

	if (depth == SCOPES_MOST || dwarf_child(scope, &die))
		return true;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			for (at = 0; good && (at = dwarf_ranges(&die, at, &base, &start, &end)) > 0;)
				good = range_add(l, start + bias, end + bias);
			break;
		case DW_TAG_namespace:
		case DW_TAG_class_type:
		case DW_TAG_structure_type: good = scope_ranges(l, &die, bias, depth + 1); break;
		default: break;
		}
	} while (good && !dwarf_siblingof(&die, &die));
	return good;
}

static int range_order(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

/* Reads the ranges of all functions that are not written in assembly. If there are too many, the list stays empty, as
 * for a file without DWARF. */
static void ranges_read(struct lines *l)
{
	Dwarf_Die *unit = NULL;
	Dwarf_Addr bias;
	bool good = true;
	int language;

	l->compiled_read = true;
	while (good && (unit = dwfl_module_nextcu(l->module, unit, &bias)) != NULL) {
		language = dwarf_srclang(unit);
		if (language > 0 && language != DW_LANG_Mips_Assembler)
			good = scope_ranges(l, unit, bias, 0);
	}
	if (!good)
		l->compiled_count = 0;
	if (l->compiled_count)
		qsort(l->compiled, l->compiled_count, sizeof(*l->compiled), range_order);
}

bool lines_compiled(struct lines *l, uint32_t section, uint64_t addr, uint64_t *start)
{
	Dwarf_Addr at;
	size_t low;

	if (!l || !lines_address(l, section, addr, &at))
		return false;
	if (!l->compiled_read)
		ranges_read(l);
	low = SEARCH(l->compiled_count, i, l->compiled[i].start <= at);
	if (!low || at >= l->compiled[low - 1].end)
		return false;
	*start = addr - (at - l->compiled[low - 1].start);
	return true;
}
