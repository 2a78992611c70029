/* SPDX-License-Identifier: MIT */
/* Reads from DWARF how many general registers the arguments and results of functions take (types.h). */
#include "dwarf/lines_internal.h"
#include "support/memory.h"
#include "shared/search.h"
#include "support/sort.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

/* The greatest number of ranges of code that are read: the DIEs of a hostile file can share one list of ranges. */
#define RANGES_MOST (1u << 22)
#define WORDS_MOST  6 /* arguments that are passed in general registers (psABI 3.2.3) */

struct typed_code {
	Dwarf_Addr start, end; /* libdwfl's addresses */
	int8_t words;          /* number of registers that the arguments take, for the function at `start`; -1: not known */
	uint8_t returned;      /* the greatest number of general registers that its result takes */
};

/* A function that is declared but not defined, under its name in C and otherwise under its linkage name. */
struct declared {
	const char *name; /* points into the DWARF */
	int words;        /* number of registers that the arguments take; -1: not known */
};

struct function_types {
	struct lines *l;
	struct declared *declared; /* sorted by name */
	size_t declared_count, declared_capacity;
	struct typed_code *list; /* sorted by start */
	size_t count, capacity;
	uint64_t *global; /* libdwfl's addresses of the functions that have global symbols, sorted */
	size_t global_count;
	unsigned dies_most, ranges_most;
	void *unit_asked; /* the last unit about which unit_has_types() was asked: the address of its first DIE */
	bool unit_typed;  /* the answer */
};

/* Returns the greatest number of general registers that a value of this type takes: 0 if it is in a vector register, 1
 * if it is passed by address. */
static int words_of(Dwarf_Die *type)
{
	Dwarf_Word size, encoding;

	if (dwarf_tag(type) == DW_TAG_base_type && type_constant(type, DW_AT_encoding, &encoding) &&
	    (encoding == DW_ATE_float || encoding == DW_ATE_complex_float || encoding == DW_ATE_imaginary_float))
		return 0;
	if (dwarf_aggregate_size(type, &size))
		return WORDS_MOST;
	if (size > 16)
		return 1;
	return size > 8 || !type_is_scalar(type) ? 2 : 1;
}

/* Does a DIE of a unit, or of a namespace in it, show that the compiler has written types? Base types alone do not show
 * it: compilers also write them for expressions. */
static bool has_types(struct function_types *t, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Attribute attr;
	Dwarf_Die die;

	if (depth > 16 || dwarf_child(parent, &die))
		return false;
	do {
		if (!t->dies_most)
			return false;
		t->dies_most--;
		switch (dwarf_tag(&die)) {
		case DW_TAG_array_type:
		case DW_TAG_class_type:
		case DW_TAG_enumeration_type:
		case DW_TAG_pointer_type:
		case DW_TAG_structure_type:
		case DW_TAG_subroutine_type:
		case DW_TAG_typedef:
		case DW_TAG_union_type: return true;
		case DW_TAG_subprogram:
			if (dwarf_attr(&die, DW_AT_type, &attr))
				return true;
			break;
		case DW_TAG_namespace:
			if (has_types(t, &die, depth + 1))
				return true;
			break;
		default: break;
		}
	} while (!dwarf_siblingof(&die, &die));
	return false;
}

/*
 * Does the unit that describes a function have types? With -g1 compilers describe functions without their arguments and
 * results (gcc: all functions, clang: those that are called), so that an empty list of arguments says nothing. The unit
 * is that of the declaration to which the DIE refers, if it refers to one: with LTO that is another unit.
 */
static bool unit_has_types(struct function_types *t, Dwarf_Die *function)
{
	Dwarf_Attribute attr;
	Dwarf_Die die = *function, unit;
	unsigned steps;

	for (steps = 0; steps < 16; steps++)
		if ((!dwarf_attr(&die, DW_AT_abstract_origin, &attr) && !dwarf_attr(&die, DW_AT_specification, &attr)) ||
		    !dwarf_formref_die(&attr, &die))
			break;
	if (!dwarf_diecu(&die, &unit, NULL, NULL))
		return false;
	if (unit.addr != t->unit_asked) {
		t->unit_asked = unit.addr;
		t->unit_typed = has_types(t, &unit, 0);
	}
	return t->unit_typed;
}

static bool is_c(int language)
{
	return language == DW_LANG_C89 || language == DW_LANG_C || language == DW_LANG_C99 || language == DW_LANG_C11;
}

/* Does the DIE tell the arguments? `f()` in C before C23 is a declaration that leaves them open. */
static bool is_prototype(Dwarf_Die *die, int language)
{
	Dwarf_Attribute attr;

	switch (language) {
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14: return true;
	default: return is_c(language) && dwarf_attr_integrate(die, DW_AT_prototyped, &attr) != NULL;
	}
}

/* Returns the number of general registers that the arguments take, or -1 if it is not known. An empty list in a
 * definition means that there are no arguments, if the unit has types. */
static int arguments_of(struct function_types *t, Dwarf_Die *die, int language, bool defined)
{
	int words = 0;
	Dwarf_Attribute attr;
	Dwarf_Die child, type;

	if ((!is_prototype(die, language) && !(defined && is_c(language))) ||
	    dwarf_attr_integrate(die, DW_AT_calling_convention, &attr) || !unit_has_types(t, die))
		return -1;
	if (type_of(die, &type) && !type_is_scalar(&type))
		words++; /* the address of the result */
	if (dwarf_child(die, &child))
		return words;
	do {
		if (dwarf_tag(&child) == DW_TAG_formal_parameter)
			words += type_of(&child, &type) ? words_of(&type) : WORDS_MOST;
		else if (dwarf_tag(&child) == DW_TAG_unspecified_parameters)
			words = WORDS_MOST;
	} while (words < WORDS_MOST && !dwarf_siblingof(&child, &child));
	return words < WORDS_MOST ? words : WORDS_MOST;
}

static void function_add(struct function_types *t, Dwarf_Die *die, int language, Dwarf_Addr bias)
{
	Dwarf_Attribute attr;
	struct typed_code x = {.words = (int8_t)arguments_of(t, die, language, true)};
	Dwarf_Die type;
	Dwarf_Addr base;
	ptrdiff_t at = 0;

	if (!unit_has_types(t, die))
		x.returned = WORDS_MOST;
	else if (dwarf_attr_integrate(die, DW_AT_type, &attr))
		x.returned = (uint8_t)(type_of(die, &type) ? words_of(&type) : WORDS_MOST);
	while (t->ranges_most && (at = dwarf_ranges(die, at, &base, &x.start, &x.end)) > 0) {
		t->ranges_most--;
		x.start += bias;
		x.end += bias;
		mem_reserve(&t->list, &t->capacity, t->count, sizeof(*t->list));
		t->list[t->count++] = x;
	}
}

/* Adds a function that other modules may define. Members of classes and functions in namespaces count only under their
 * linkage names. */
static void declared_add(struct function_types *t, Dwarf_Die *die, int language, bool global)
{
	Dwarf_Attribute attr;
	const char *name = dwarf_formstring(dwarf_attr(die, DW_AT_linkage_name, &attr));
	bool is = false;

	if (dwarf_formflag(dwarf_attr(die, DW_AT_declaration, &attr), &is) || !is)
		return;
	if (dwarf_formflag(dwarf_attr(die, DW_AT_external, &attr), &is) || !is)
		return;
	if (!name && global)
		name = dwarf_diename(die);
	if (!name)
		return;
	mem_reserve(&t->declared, &t->declared_capacity, t->declared_count, sizeof(*t->declared));
	t->declared[t->declared_count++] = (struct declared){name, arguments_of(t, die, language, false)};
}

static int by_name(const void *a, const void *b)
{
	const struct declared *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Returns the greater of two numbers of words, or -1 (unknown) if one of them is unknown. */
static int words_most(int x, int y)
{
	if (x < 0 || y < 0)
		return -1;
	return x > y ? x : y;
}

/* Merges the declarations of each name into one with the greatest number of words, which is unknown if one of them is
 * unknown. */
static void declared_merge(struct function_types *t)
{
	size_t i, n = 0;

	if (t->declared_count)
		qsort(t->declared, t->declared_count, sizeof(*t->declared), by_name);
	for (i = 0; i < t->declared_count; i++) {
		struct declared *last = n ? &t->declared[n - 1] : NULL, *x = &t->declared[i];

		if (!last || strcmp(last->name, x->name)) {
			t->declared[n++] = *x;
			continue;
		}
		last->words = words_most(last->words, x->words);
	}
	t->declared_count = n;
}

int function_import_arguments(const struct function_types *t, const char *name)
{
	size_t lo = t && name ? SEARCH(t->declared_count, i, strcmp(t->declared[i].name, name) < 0) : 0;

	return t && name && lo < t->declared_count && !strcmp(t->declared[lo].name, name) ? t->declared[lo].words : -1;
}

static void functions_of(struct function_types *t, Dwarf_Die *parent, int language, Dwarf_Addr bias, unsigned depth)
{
	Dwarf_Die die;

	if (depth > 16 || dwarf_child(parent, &die))
		return;
	do {
		if (!t->dies_most)
			return;
		t->dies_most--;
		if (dwarf_tag(&die) == DW_TAG_subprogram) {
			function_add(t, &die, language, bias);
			declared_add(t, &die, language, !depth);
		} else if (dwarf_tag(&die) == DW_TAG_namespace)
			functions_of(t, &die, language, bias, depth + 1);
	} while (t->dies_most && !dwarf_siblingof(&die, &die));
}

static int by_start(const void *a, const void *b)
{
	const struct typed_code *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Merges the functions whose ranges of code overlap, because the linker has folded them into one: the result has the
 * greatest number of registers, which is unknown for the arguments if it is unknown for one of the functions. */
static void shared_merge(struct function_types *t)
{
	size_t i, n = 0;

	for (i = 0; i < t->count; i++) {
		struct typed_code *last = n ? &t->list[n - 1] : NULL;

		if (!last || t->list[i].start >= last->end) {
			t->list[n++] = t->list[i];
			continue;
		}
		last->end = t->list[i].end > last->end ? t->list[i].end : last->end;
		last->returned = last->returned > t->list[i].returned ? last->returned : t->list[i].returned;
		last->words = (int8_t)words_most(last->words, t->list[i].words);
	}
	t->count = n;
}

/* Reads which functions have global symbols: a function with a local symbol may be a clone with other arguments. */
static void globals_read(struct function_types *t, const struct elf_file *f)
{
	const struct elf_symbol *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t n = f->symbol_count ? f->symbol_count : f->dynsym_count, i;
	size_t capacity = 0;
	Dwarf_Addr at;

	for (i = 1; i < n; i++) {
		if (!list[i].section || list[i].type != STT_FUNC || list[i].bind == STB_LOCAL ||
		    !lines_address(t->l, list[i].section, list[i].value, &at))
			continue;
		mem_reserve(&t->global, &capacity, t->global_count, sizeof(*t->global));
		t->global[t->global_count++] = at;
	}
	t->global_count = words_unique(t->global, t->global_count);
}

struct function_types *function_types_read(struct lines *l, const struct elf_file *f)
{
	struct function_types *t;
	Dwarf_Die *unit = NULL;
	Dwarf_Addr bias;

	if (!l)
		return NULL;
	t = mem_zero(1, sizeof(*t));
	*t = (struct function_types){.l = l, .dies_most = DIES_MOST, .ranges_most = RANGES_MOST};
	while (t->dies_most && (unit = dwfl_module_nextcu(lines_module(l), unit, &bias)) != NULL)
		if (dwarf_srclang(unit) != DW_LANG_Mips_Assembler) /* assembly has no types */
			functions_of(t, unit, dwarf_srclang(unit), bias, 0);
	if (t->count)
		qsort(t->list, t->count, sizeof(*t->list), by_start);
	shared_merge(t);
	declared_merge(t);
	globals_read(t, f);
	return t;
}

void function_types_free(struct function_types *t)
{
	if (!t)
		return;
	free(t->list);
	free(t->declared);
	free(t->global);
	free(t);
}

static const struct typed_code *code_find(const struct function_types *t, uint32_t section, uint64_t addr,
                                          Dwarf_Addr *at)
{
	size_t lo;

	if (!t || !lines_address(t->l, section, addr, at))
		return NULL;
	lo = SEARCH(t->count, i, t->list[i].start <= *at);
	return lo && *at < t->list[lo - 1].end ? &t->list[lo - 1] : NULL;
}

unsigned function_returned(const struct function_types *t, uint32_t section, uint64_t addr)
{
	Dwarf_Addr at;
	const struct typed_code *x = code_find(t, section, addr, &at);

	return x ? x->returned : WORDS_MOST;
}

int function_arguments(const struct function_types *t, uint32_t section, uint64_t addr)
{
	Dwarf_Addr at;
	const struct typed_code *x = code_find(t, section, addr, &at);

	return x && x->start == at && word_has(t->global, t->global_count, at) ? x->words : -1;
}
